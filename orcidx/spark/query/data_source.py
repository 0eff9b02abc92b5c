"""``spark.read.format("orcidx")`` and ``CREATE TEMPORARY VIEW ... USING orcidx``: a Python data source of Spark.

Spark gives the data source the whole schema and, since 4.1, the filters that Spark can pass to a Python data
source. Spark never says which columns a query uses. Planning runs in a Python process beside the driver, without a
session. By default Spark's filters are not used for skipping. The docstring of ``register`` says why (see also
docs/decisions/0014-spark-values-and-engines.md)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.predicate import Predicate, all_of, keep_bindable
from orcidx.predicate.adapters import from_spark
from orcidx.predicate.fold import rewritten
from orcidx.scanner.scan import Scan
from orcidx.spark.conditions.floored_times import in_micros
from orcidx.spark.conditions.query_text import may_mean_otherwise, parse_text
from orcidx.spark.query.parts import split_orc, split_paimon
from orcidx.spark.query.plan import Plan, assign, begin_plan
from orcidx.spark.query.read_query import TARGET_BYTES, Query
from orcidx.spark.query.read_task import ReadTask
from orcidx.spark.query.table_notes import warned_of
from orcidx.spark.query.worker_errors import without_traceback
from orcidx.spark.types.spark_types import arrow_schema_of, json_of_schema
from orcidx.spellings import nearest
from orcidx.storage import options_of_text

__all__ = ["OrcidxDataSource"]

OPTIONS = (
    "columns", "where", "format", "snapshot_id", "jvm_zone", "target_bytes", "engine", "pushdown", "path", "paths",
)  # fmt: skip
TABLE_PROPERTIES = {"owner", "provider"}
"""Options that Spark adds for a table of CREATE TABLE. If both are present, the read is of such a table, because users
have no reason to give both."""
ASSUMED_SLOTS = 8
"""The assumed number of tasks that run at once, if the real number is not known."""


class OrcidxDataSource(DataSource):
    """The data source of ``spark.read.format("orcidx")``. ``register`` collects facts about the session and stores them
    in the attributes of the class."""

    session: dict[str, Any] = {}  # noqa: RUF012  (the registered class replaces the whole dictionary)
    slots: int = ASSUMED_SLOTS
    pushdown: bool = False

    @classmethod
    def name(cls) -> str:
        return "orcidx"

    @without_traceback()
    def schema(self) -> StructType:
        if {name.lower() for name in self.options} >= TABLE_PROPERTIES:
            raise InvalidQuery(
                "Spark does not pass the path and options of a table to a data source in Python: use CREATE "
                "TEMPORARY VIEW name USING orcidx OPTIONS (path '...') instead of CREATE TABLE"
            )
        plan = begin_plan(replace(self._query(), where=None))
        return _spark_schema(plan)

    @without_traceback()
    def reader(self, schema: StructType) -> DataSourceReader:
        asked = self._options().get("pushdown", str(self.pushdown))
        if asked.lower() not in ("true", "false"):
            raise InvalidQuery(f"the option 'pushdown' must be true or false, not {asked!r}")
        return OrcidxReader(self._query(), schema, self.slots, pushdown=asked.lower() == "true")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NoStream()

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise Unsupported(
            "the format orcidx cannot write: write ORC files with frame.write.orc(path), append to a Paimon table with "
            "orcidx.spark.append, or rewrite files for better pruning with orcidx.spark.rewrite"
        )

    def _options(self) -> dict[str, Any]:
        """The options by their names in lower case, as Spark compares them. Raises ``InvalidQuery`` for unknown
        options."""
        options = {name.lower(): value for name, value in self.options.items()}
        for name in options:
            if name not in OPTIONS and not name.startswith("storage."):
                near = nearest(name, OPTIONS)
                known = f"the options are {', '.join(OPTIONS)} and storage.NAME"
                raise InvalidQuery(f"unknown option {name!r}; " + (f"did you mean {near!r}?" if near else known))
        if options.get("engine", "auto") not in ("auto", "orcidx"):
            raise InvalidQuery(
                f"the option engine must be 'auto' or 'orcidx', not {options['engine']!r}: a data source in Python "
                "cannot use another reader. Use orcidx.spark.read(spark, path), which chooses between orcidx and "
                "Spark's reader, and make a view of its DataFrame by .createOrReplaceTempView(name)"
            )
        return options

    def _query(self) -> Query:
        options = self._options()
        path = options.get("path")
        if "paths" in options:
            path = json.loads(options["paths"])
        if path is None:
            raise InvalidQuery(
                'no path is given: give it by .load(path), or in SQL by OPTIONS (path "...") of a temporary view. '
                "Spark does not pass on the path of a CREATE TABLE"
            )
        if (where := options.get("where")) is not None and may_mean_otherwise(where):
            raise InvalidQuery(
                f"the option 'where' is parsed without a Spark session, so Spark may read {where!r:.200} differently: "
                "it has escapes, double quotes, strings with a prefix, or comments. Filter the DataFrame by this "
                "condition instead, or pass the condition to orcidx.spark.read"
            )
        storage = {name.removeprefix("storage."): v for name, v in options.items() if name.startswith("storage.")}
        return Query(
            path=path,
            columns=_names(options.get("columns")),
            where=where,
            format=options.get("format"),
            snapshot_id=_number(options, "snapshot_id"),
            jvm_zone=options.get("jvm_zone"),
            target_bytes=_number(options, "target_bytes") or TARGET_BYTES,
            storage_options=options_of_text(storage) or None,
            **self.session,
        )


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return [str(name) for name in json.loads(text)]
    return [name.strip() for name in text.split(",") if name.strip()]


def _number(options: dict[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        return int(options[name])
    except ValueError:
        raise InvalidQuery(f"the option {name} must be a whole number, not {options[name]!r}") from None


def _spark_schema(plan: Plan) -> StructType:
    schema = StructType.fromJson(plan.schema)
    for field, name in zip(schema.fields, plan.columns):
        field.name = name
    return StructType(schema.fields)


class NoStream(DataSourceStreamReader):
    """Raises the error about streams when the stream starts. If ``OrcidxDataSource.streamReader`` raised the error, it
    would be lost in Spark 4.1."""

    @without_traceback()
    def read(self, *_: object) -> NoReturn:
        raise Unsupported('the format orcidx does not support streams; use spark.readStream.format("orc")')

    latestOffset = initialOffset = read  # Spark may call any of these methods first


@dataclass
class TaskPartition(InputPartition):
    """One Spark partition, with its pickled ``ReadTask``."""

    payload: bytes


class _PushFilters:
    """``reader.pushFilters``, which is not a method of the reader's class.

    If Spark's setting for pushdown is off, Spark refuses every read by a reader whose class defines pushFilters. So the
    class must not define this method. If the setting is on, Spark calls the attribute ``pushFilters`` of the reader.
    Spark finds out whether a reader defines pushFilters by comparing ``__func__``."""

    def __init__(self, reader: OrcidxReader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Sequence[Any]:
        if self._reader.pushdown:
            self._reader.filters = tuple(filters)
        return filters  # returns all filters, so Spark evaluates each of them again


class OrcidxReader(DataSourceReader):
    """Plans the read when Spark requests the partitions. ``schema`` is the schema that each batch must have."""

    def __init__(self, query: Query, schema: StructType, slots: int = ASSUMED_SLOTS, *, pushdown: bool = False) -> None:
        self.query = query
        self.pushdown = pushdown
        self.schema = schema
        self.slots = slots
        self.filters: tuple[Any, ...] = ()
        self.pushFilters = _PushFilters(self)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles nothing, because a task needs only its partition and Spark sends the reader to every task."""
        return {}

    def pruneColumns(self, schema: StructType) -> None:
        """Takes the columns that a query uses. Spark does not call this method, but Sail, an engine with Spark's
        interface, does."""
        self.schema = schema

    @without_traceback()
    def partitions(self) -> Sequence[InputPartition]:
        wanted = json_of_schema(self.schema)
        schema = arrow_schema_of(wanted)
        query = replace(self.query, columns=schema.names, retype=wanted, where=self._where(schema))
        plan = begin_plan(query)
        warned_of(plan.rows)
        for field, one in zip(schema, arrow_schema_of(plan.schema), strict=True):
            if one.type != field.type:
                raise InvalidQuery(
                    f"the column has the type {one.type} in the Paimon table, and must keep its type; cast it in a "
                    "query",
                    column=field.name,
                )
        target = plan.target(self.slots)
        parts = split_orc(plan.rows, target) if isinstance(plan.rows, Scan) else split_paimon(plan.rows)
        return [TaskPartition(task) for task in assign(plan, parts, target, names=schema.names)]

    def _where(self, schema: pa.Schema) -> Predicate | None:
        """Joins the filters that Spark has pushed and the option ``where`` by AND. The option may name columns that are
        not in Spark's schema."""
        filters = rewritten(from_spark(self.filters), in_micros)
        pushed = keep_bindable(filters, schema, case_sensitive=self.query.case_sensitive)
        where: Predicate = all_of(pushed, *([] if self.query.where is None else [parse_text(self.query.where)]))
        return where

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. If everything was skipped, Spark passes None."""
        payload = getattr(partition, "payload", None)
        if payload is not None:
            task: ReadTask = pickle.loads(payload)
            with without_traceback():
                yield from task.batches()
