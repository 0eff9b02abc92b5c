"""Values that a scan computes once for all files of a table that were written with the same schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.options import ReadOptions
from orcidx.paimon.data_types import TEXTS, TIMESTAMPS, DataField, DataType
from orcidx.paimon_table.metadata.schema import FieldMapping, TableSchema, char_lengths
from orcidx.paimon_table.read.evolution import FileWhere, split_where
from orcidx.predicate import BoundPredicate, Predicate, bind, keep_bindable, resolve_asked
from orcidx.predicate.nodes import NANOS
from orcidx.scanner.file import make_scan
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.top_rows import SortKey

__all__ = [
    "ScanFacts",
    "Shared",
    "SharedReading",
    "finest_unit",
    "planned_where",
    "reads_other_values",
    "shared_reading",
    "small_files",
    "table_arrow_schema",
    "table_bound",
    "whole_column",
    "with_coarse_units",
]

Unit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True)
class SharedReading:
    """The values that files of the same schema share in a scan.

    ``where``: the predicate in the files' names and types. ``rest``: the part that is tested on the table's rows.
    ``entries``: the columns that are read. ``schema``: the schema of these columns. ``options``: the options for
    reading the files. ``small``: reads small files without opening an ``OrcFile``."""

    where: FileWhere
    rest: BoundPredicate | None
    entries: Sequence[FieldMapping]
    schema: pa.Schema
    options: ReadOptions
    small: SmallFiles | None

    @property
    def names(self) -> list[tuple[str]]:
        """The names of the columns that are read from the files."""
        return [(name,) for name in self.kinds]

    @property
    def kinds(self) -> dict[str, pa.DataType]:
        """The names of the columns that are read from the files, and their types in the table."""
        named = [(entry.file_field, field.type) for entry, field in zip(self.entries, self.schema)]
        return {stored.name: kind for stored, kind in named if stored is not None}

    @property
    def has_coarse_units(self) -> bool:
        """Whether a timestamp column has a coarser unit than the options, which have the finest unit."""
        units = {kind.unit for kind in self.kinds.values() if pa.types.is_timestamp(kind)}
        return not units <= {self.options.timestamp_unit}


class ScanFacts(Protocol):
    """The attributes of a scan that are needed for reading a file."""

    @property
    def table_schema(self) -> TableSchema: ...

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def where(self) -> Predicate | None: ...

    @property
    def options(self) -> ReadOptions: ...

    @property
    def row_limit(self) -> int | None: ...

    @property
    def top(self) -> Sequence[SortKey]: ...

    @property
    def jvm_zone(self) -> str | None: ...


Shared = dict[tuple[Any, ...], SharedReading]
"""The shared values of one scan, by the mapping and the other values on which they depend."""


def shared_reading(
    scan: ScanFacts, mapping: Sequence[FieldMapping], metrics: ScanMetrics, *, is_orc: bool, instants_moved: bool
) -> SharedReading:
    """The values that files with the same mapping share. ``metrics``: the metrics of the scan. The counts of small
    files that are read without being opened are added to these metrics."""
    where = FileWhere(None, None)
    if scan.where is not None:
        where = split_where(
            scan.where,
            mapping,
            scan.table_schema.arrow_schema,
            is_orc=is_orc,
            case_sensitive=scan.options.case_sensitive,
            instants_moved=instants_moved,
        )
    rest = None if where.rest is None else table_bound(where.rest, scan.table_schema, scan.options)
    names = dict.fromkeys(scan.columns)
    if rest is not None:
        names.update(dict.fromkeys(path[0] for path in rest.columns))
    by_name = {entry.field.name: entry for entry in mapping}
    entries = [by_name[name] for name in names]
    schema = table_arrow_schema([entry.field for entry in entries], scan.options)
    # The table's types determine these reading options, whatever the caller has chosen.
    known: dict[str, Any] = {
        "case_sensitive": True,
        "strings": "string",
        "wall_clock_zone": None,
        "timestamp_unit": finest_unit(schema),
    }
    # For columns with DATE, the footers name the wrong calendar. So their days are read without a conversion.
    if any(entry.field.type.contains("DATE") for entry in entries):
        known["calendar"] = "stored"
    options = scan.options.override(**known)
    reading = SharedReading(where, rest, entries, schema, options, None)
    # If no column is read, the rows are only counted. Counting needs no reader of small files.
    small = small_files(reading, metrics) if is_orc and not scan.top and reading.names else None
    return reading if small is None else replace(reading, small=small)


def small_files(reading: SharedReading, metrics: ScanMetrics, *, row_numbers: str | None = None) -> SmallFiles | None:
    """The reader of small ORC files. ``row_numbers``: the name of the added column with the rows' positions. The result
    is None if some columns need another timestamp unit than others, because small files are read in one unit."""
    if reading.has_coarse_units:
        return None
    numbers, where = row_numbers or False, reading.where.pushed
    asked = make_scan([], reading.names, where, limit=None, row_numbers=numbers, schema=None, options=reading.options)
    return SmallFiles(asked.request, metrics, tails_alone=False)


def table_bound(where: Predicate, schema: TableSchema, options: ReadOptions) -> BoundPredicate:
    """Binds a predicate to the columns of a table."""
    return bind(
        where,
        schema.arrow_schema,
        nan=options.nan,
        case_sensitive=options.case_sensitive,
        char_lengths=char_lengths(schema.fields),
    )


def reads_other_values(kind: DataType, options: ReadOptions) -> bool:
    """Whether the options may change the values of a column of this type. Statistics, partitions, buckets and indexes
    have the unchanged values."""
    if kind.root in TIMESTAMPS:
        return options.timezone is not None
    return kind.root in TEXTS and options.utf8 == "replace"


def planned_where(where: Predicate | None, schema: TableSchema, options: ReadOptions) -> Predicate | None:
    """The part of a predicate that can be tested during planning. If the options change the values of a column,
    conditions on this column are replaced by True. Raises ``InvalidQuery`` if the predicate does not fit the schema."""
    changed = {field.name for field in schema.fields if reads_other_values(field.type, options)}
    if where is None or not changed:
        return where
    table_bound(where, schema, options)
    unchanged = pa.schema([field for field in schema.arrow_schema if field.name not in changed])
    return keep_bindable(where, unchanged, case_sensitive=options.case_sensitive)


def whole_column(name: str | tuple[str, ...], schema: pa.Schema, options: ReadOptions) -> str:
    """The column of a table that a caller asked for. Raises ``InvalidQuery`` for a field of a struct."""
    asked = (name,) if isinstance(name, str) else name
    path, _ = resolve_asked(asked, schema, case_sensitive=options.case_sensitive)
    if len(path) > 1:
        raise InvalidQuery(f"the scan of a table returns only whole columns; select {path[0]!r}", column=".".join(path))
    return path[0]


def table_arrow_schema(fields: Sequence[DataField], options: ReadOptions) -> pa.Schema:
    """The Arrow schema in which a scan returns these fields."""
    views = options.strings == "view"
    kinds = [pa.string_view() if views and f.type.root in TEXTS else f.type.arrow_type for f in fields]
    return pa.schema([pa.field(f.name, kind, f.type.nullable) for f, kind in zip(fields, kinds)])


def finest_unit(schema: pa.Schema) -> Unit:
    """The finest timestamp unit that the columns need."""
    finest: Unit = "s"
    waiting = list(schema.types)
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.field(i).type for i in range(kind.num_fields))
        if pa.types.is_timestamp(kind) and NANOS[kind.unit] < NANOS[finest]:
            finest = kind.unit
    return finest


def with_coarse_units(stored: pa.Schema, kinds: Mapping[str, pa.DataType]) -> pa.Schema | None:
    """Replaces the units of a file's timestamp columns by the units of the same columns in ``kinds``, where the latter
    are coarser. The result is None if none of them is coarser.

    A coarser unit has a larger range. If a column with a coarse unit were read in a finer unit, its times beyond the
    range of the finer unit could not be read."""
    fields = []
    for field in stored:
        have, want = field.type, kinds.get(field.name, field.type)
        if pa.types.is_timestamp(have) and pa.types.is_timestamp(want) and NANOS[want.unit] > NANOS[have.unit]:
            field = field.with_type(pa.timestamp(want.unit, have.tz))
        fields.append(field)
    chosen = pa.schema(fields, stored.metadata)
    return None if chosen == stored else chosen
