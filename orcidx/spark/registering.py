"""``register``: makes the format known to a session, for SQL and ``spark.read.format("orcidx")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcidx.errors import Unsupported
from orcidx.spark.sessions.spark_session import facts_of, spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PYTHON_SOURCES = (4, 0)
"""The first version of Spark that has them."""


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Makes ``spark.read.format("orcidx")`` known to a session.

    Options of the format: ``columns`` (names with commas between, or a JSON list), ``where`` (SQL text, by which files,
    stripes and row groups are skipped), ``format`` ("orc" or "paimon"), ``snapshot_id`` and ``jvm_zone`` (of Paimon
    tables, as ``read`` takes them), ``target_bytes``, ``pushdown`` ("true" or "false"), ``engine`` ("auto" or "orcidx",
    which are the same here, as Spark does not let a source in Python pass the read on to another reader). An option
    ``storage.NAME`` goes to fsspec, "true" and "false" as truth values. ``.schema(...)`` gives the only columns to
    read, and their types.

    Parameters
    ----------
    spark
        The session.
    pushdown
        Skip by the filters of the query as well, and turn ``spark.sql.python.filterPushdown.enabled`` on for the
        session. Only for DataFrames that are used in one query: Spark 4.1 to 4.3 reads a DataFrame or view that two
        queries share with the filters of the one planned last, and so loses rows of the other.

    Raises
    ------
    Unsupported
        Before Spark 4.0, which has no data sources in Python; ``orcidx.spark.read`` works there.

    Examples
    --------
    >>> orcidx.spark.register(spark)  # doctest: +SKIP
    >>> spark.read.format("orcidx").option("where", "id > 5").load("events").show()  # doctest: +SKIP
    """
    found = spark_version()
    if found < PYTHON_SOURCES:
        raise Unsupported(
            f"data sources in Python came with Spark 4.0, and this is {found[0]}.{found[1]}: use orcidx.spark.read, "
            "whose DataFrame makes a view by .createOrReplaceTempView(name)"
        )
    from pyspark.sql.datasource import DataSourceReader

    from orcidx.spark.query.data_source import OrcidxDataSource

    if pushdown and not hasattr(DataSourceReader, "pushFilters"):
        raise Unsupported("Spark pushes filters since 4.1; leave pushdown out, and give the option where")
    facts = facts_of(spark)
    session = {
        "clock_zone": facts.clock_zone,
        "session_zone": None,  # the zone of the session that runs the query; its tasks will know it
        "case_sensitive": facts.case_sensitive,
        "infer_partitions": facts.infers_partitions,
    }
    known = {"session": session, "slots": facts.slots, "pushdown": pushdown}
    # A class that is made here is pickled by value, with attributes that the planning process cannot ask for; its base
    # class is pickled by name.
    spark.dataSource.register(type("OrcidxDataSource", (OrcidxDataSource,), known))
    if pushdown:
        spark.conf.set(PUSHDOWN, "true")
