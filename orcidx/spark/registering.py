"""``register``: makes the format known to a session, for SQL and for ``spark.read.format("orcidx")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcidx.errors import Unsupported
from orcidx.spark.sessions.spark_session import facts_of, spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PYTHON_SOURCES = (4, 0)
"""The first version of Spark that has data sources in Python."""


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Makes ``spark.read.format("orcidx")`` known to a session.

    The format has these options:

    * ``columns``: names separated by commas, or a JSON list.
    * ``where``: a condition as SQL text. Files, stripes and row groups without matching rows are skipped.
    * ``format``: "orc" or "paimon".
    * ``snapshot_id`` and ``jvm_zone``: for Paimon tables, as for ``read``.
    * ``target_bytes``: as for ``read``.
    * ``pushdown``: "true" or "false", instead of the argument ``pushdown``.
    * ``engine``: "auto" or "orcidx". Both values have the same effect here, because a data source in Python cannot use
    another reader.
    * ``storage.NAME``: the option ``NAME`` for fsspec. "true" and "false" become truth values.

    ``.schema(...)`` gives the columns to read and their types. Other columns are not read.

    Parameters
    ----------
    spark
        The session.
    pushdown
        Also skip data by the filters of the query, and turn ``spark.sql.python.filterPushdown.enabled`` on for the
        session. Use this option only if each DataFrame is used in only one query. If two queries share a DataFrame or
        view, Spark 4.1 to 4.3 reads both with the filters of the query that is planned last, so the other query loses
        rows.

    Raises
    ------
    Unsupported
        Spark is older than 4.0, so it has no data sources in Python. Use ``orcidx.spark.read`` instead.

    Examples
    --------
    >>> orcidx.spark.register(spark)  # doctest: +SKIP
    >>> spark.read.format("orcidx").option("where", "id > 5").load("events").show()  # doctest: +SKIP
    """
    found = spark_version()
    if found < PYTHON_SOURCES:
        raise Unsupported(
            f"data sources in Python need Spark 4.0 or later, but this is Spark {found[0]}.{found[1]}: use "
            "orcidx.spark.read, and make a view of its DataFrame by .createOrReplaceTempView(name)"
        )
    from pyspark.sql.datasource import DataSourceReader

    from orcidx.spark.query.data_source import OrcidxDataSource

    if pushdown and not hasattr(DataSourceReader, "pushFilters"):
        raise Unsupported(
            "only Spark 4.1 and later pass filters to a data source: leave out pushdown=, and give the option 'where'"
        )
    facts = facts_of(spark)
    session = {
        "clock_zone": facts.clock_zone,
        "session_zone": None,  # only the tasks of a query know the zone of its session
        "case_sensitive": facts.case_sensitive,
        "infer_partitions": facts.infers_partitions,
    }
    known = {"session": session, "slots": facts.slots, "pushdown": pushdown}
    # If a class is created in a function, Spark pickles it by value, together with its attributes. So the planning
    # process gets these attributes. The base class is pickled by name.
    spark.dataSource.register(type("OrcidxDataSource", (OrcidxDataSource,), known))
    if pushdown:
        spark.conf.set(PUSHDOWN, "true")
