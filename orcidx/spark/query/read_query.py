"""``Query``: the arguments of a read. They are checked before any file is listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.options import ReadOptions
from orcidx.planner.schema_mapping import column_path
from orcidx.predicate import External, Predicate, resolve_column
from orcidx.predicate.fold import parts
from orcidx.scanner.top_rows import SortKey, parse_order
from orcidx.spark.conditions.query_text import check_computed, parse_text
from orcidx.spark.conditions.text_conditions import TextCondition
from orcidx.spark.query.task_session import OfSession
from orcidx.spark.sessions.case_rule import depends_on_case
from orcidx.spark.sessions.catalog_tables import CatalogTable
from orcidx.spark.sessions.orc_settings import CASE, INFERENCE
from orcidx.spark.types.argument_types import Schema, SparkWhere
from orcidx.spark.types.local_times import on_any_clock, on_session_clock
from orcidx.storage import Source

Reached: TypeAlias = Any
"""A text, a source, or a list of either."""

__all__ = ["SPARK_OPTIONS", "TARGET_BYTES", "Query", "TableFormat", "zoned_partitions"]

TableFormat = Literal["orc", "paimon"]

TARGET_BYTES = 128 << 20
"""Stored bytes of a task, as in Spark's default (spark.sql.files.maxPartitionBytes)."""

SPARK_OPTIONS = ReadOptions(
    timestamp_unit="us",
    char="padded",
    utf8="unchecked",
    decimal_rounding="half_up",
    decimal_zero_precision=(38, 10),
    nan="largest",
    use_threads=False,
)
"""Options that return values as ``spark.read.orc`` does, with one thread for each task."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """The arguments of ``orcidx.spark.read`` (described there), and the session's time zones.

    ``retype``: a schema for some of the columns of ORC files. The other columns keep their types. ``session_zone``: the
    session's time zone, or None if the zone is known only in the tasks. ``jvm_zone``: as for ``paimon.Table.scan``.
    ``reader_options``: the options of Spark's reader, as text. ``table``: the catalog's table with the directory
    ``path``. ``other_values``: None, or a text that names a setting. With this setting, Spark and orcidx's tasks would
    read different values from ORC files. ``path``: a text, several texts, or sources that are already listed. ``at``:
    the path as orcidx opens it, if it differs from ``path`` (``hadoop_files.reached``)."""

    path: Any
    at: Source | list[Source | str] | None = None
    columns: Sequence[Any] | None = None
    where: SparkWhere | TextCondition | None = None
    top: Sequence[Any] | None = None
    limit: int | None = None
    format: TableFormat | None = None
    schema: Schema | None = None
    retype: Any = None
    snapshot_id: int | None = None
    jvm_zone: str | None = None
    deletion_vector: Mapping[Any, Any] | None = None
    file_index: Mapping[Any, Any] | None = None
    infer_partitions: bool = True
    storage_options: Mapping[str, Any] | None = None
    target_bytes: int = TARGET_BYTES
    clock_zone: str = "UTC"
    session_zone: str | None = "UTC"
    case_sensitive: bool = False
    options: ReadOptions = SPARK_OPTIONS
    reader_options: Mapping[str, str] = field(default_factory=dict)
    table: CatalogTable | None = None
    other_values: str | None = None

    def __post_init__(self) -> None:
        _check(self)
        for one in self.columns or ():
            column_path(one)

    @property
    def reached(self) -> Reached:
        """The path as orcidx lists and opens it."""
        return self.path if self.at is None else self.at

    @property
    def scan_options(self) -> ReadOptions:
        return self.options.override(wall_clock_zone=self.clock_zone, case_sensitive=self.case_sensitive)

    def predicate(
        self,
        schema: pa.Schema,
        partitions: Mapping[str, tuple[str, Any]] | None = None,
        whole: Mapping[str, Any] | None = None,
    ) -> Predicate | None:
        """``where`` with its times in the session's time zone. If the zone is not known, the result is a predicate that
        is true for every row for which ``where`` is true in any zone.

        ``partitions``: a dictionary from the name of each partition column to its key and type. ``whole``: the whole
        schema as Spark's JSON. Spark analyses a text with this schema."""
        if self.where is None:
            return None
        if isinstance(self.where, TextCondition):
            return self.where.pushed(whole or {}).where
        where = parse_text(self.where)
        # If ``session_zone`` is None, the condition was given as the option 'where' of the format orcidx. The value of
        # this option is a text, too.
        if self.session_zone is None or isinstance(self.where, str):
            check_computed(where, schema, case_sensitive=self.case_sensitive)
        if self.session_zone is None:
            unknown = zoned_partitions(partitions or {})
            return on_any_clock(where, schema, case_sensitive=self.case_sensitive, unknown=unknown)
        return on_session_clock(where, schema, self.session_zone, case_sensitive=self.case_sensitive)

    def on_any_clock(self, schema: pa.Schema) -> Predicate:
        """A predicate that is true for every row for which ``where`` is true in any time zone."""
        return on_any_clock(parse_text(self.where), schema, case_sensitive=self.case_sensitive)

    def of_session(
        self, schema: pa.Schema, partitions: Mapping[str, tuple[str, Any]], names: Sequence[str]
    ) -> OfSession | None:
        """The parts of the read that depend on the session, if they must be applied by the tasks. ``partitions``: a
        dictionary from the name of each partition column to its key and type. ``names``: the stored names of all
        columns."""
        if self.session_zone is not None:
            return None
        where = None if self.where is None else parse_text(self.where)
        planned = {}
        if depends_on_case(where, self.columns or (), names):
            planned[CASE] = str(self.case_sensitive).lower()
        if partitions:
            planned[INFERENCE] = str(self.infer_partitions).lower()
        waiting = None if where == self.predicate(schema, partitions) else where
        return OfSession(waiting, schema, self.case_sensitive, zoned_partitions(partitions), self.clock_zone, planned)

    def of_case_rule(self, where: Predicate | None, schema: pa.Schema) -> OfSession:
        """Returns the parts of a read that find columns in files by the case rule of the session that runs the tasks.
        ``where`` is spelled as in the schema, except for expressions that pyarrow computes."""
        computed = [part for part in parts(where) if isinstance(part, External)]
        depends = any(depends_on_case(part, (), schema.names) for part in computed)
        planned = {CASE: str(self.case_sensitive).lower()} if depends else {}
        return OfSession(None, schema, self.case_sensitive, {}, self.clock_zone, planned)

    def order(self, schema: pa.Schema) -> tuple[SortKey, ...]:
        """Returns the sort keys of ``top``, with their columns spelled as in the schema."""
        keys = () if self.top is None else parse_order(self.top)
        return tuple(replace(key, column=self._column(key.column, schema)) for key in keys)

    def folded(self, name: str) -> str:
        """Returns a name in the form in which the session compares names."""
        return name if self.case_sensitive else name.casefold()

    def spelled(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of columns in the caller's spelling, which Spark keeps."""
        asked = {self.folded(one): one for one in reversed(self.columns or ()) if isinstance(one, str)}
        return tuple(asked.get(self.folded(name), name) for name in names)

    def _column(self, name: str, schema: pa.Schema) -> str:
        path, _ = resolve_column((name,), schema, case_sensitive=self.case_sensitive)
        if len(path) > 1:
            raise InvalidQuery(
                f"top can only sort by whole columns, but {name!r} is a field of the struct {path[0]!r}", column=name
            )
        return path[0]


def zoned_partitions(partitions: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """The partition columns whose values depend on the session's time zone."""
    return {name: one for name, one in partitions.items() if one[1] == "timestamp"}


def _check(query: Query) -> None:
    """Raises ``InvalidQuery`` for the first invalid option of a ``Query``."""
    if query.format not in (None, "orc", "paimon"):
        raise InvalidQuery(f"format must be 'orc' or 'paimon', not {query.format!r}")
    for name, least in (("target_bytes", 1), ("limit", 0), ("snapshot_id", 0)):
        value = getattr(query, name)
        if value is None and name != "target_bytes":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidQuery(f"{name} must be a whole number, not {value!r:.80}")
        if value < least:
            refused = "negative" if not least else f"below {least}"
            raise InvalidQuery(f"{name} must not be {refused}, but is {value}")
    for name in ("deletion_vector", "file_index", "storage_options"):
        value = getattr(query, name)
        if value is not None and not isinstance(value, Mapping):
            key = "option" if name == "storage_options" else "path"
            raise InvalidQuery(f"{name} must be {{{key}: ...}}, not {value!r:.80}")
    if isinstance(query.columns, str):
        raise InvalidQuery(f"columns must be a list: give [{query.columns!r}]")
    if isinstance(query.top, str):
        raise InvalidQuery(f"top must be a list: give [{query.top!r}]")
    if query.top is not None and query.limit is None:
        raise InvalidQuery("top= is given without limit=; give limit= to say how many rows to return")
