"""A scan as a Polars LazyFrame, through the interfaces of Polars 2.

Polars reads the frames through a ``FileReader``. It passes slices to the reader, and runs decoding and computation in
parallel. It always applies the filter itself, too. A reader cannot tell how many rows it has, and without this number
Polars keeps the order of joins in which the query is written. So the reader is wrapped in an object of the kind that
Polars uses for tables of Delta Lake and Iceberg. Polars asks such an object for a scan each time it plans a query, and
the scan that it gets has the number of rows and the ranges of the columns (decision 0012)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from orcidx.engines.planner_facts import TableFacts, file_versions, table_facts
from orcidx.errors import OrcidxError
from orcidx.scanner.scan import Scan

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FrameSource", "lazy_frame"]

DIGITS = Context(prec=80)
"""The precision for computing with decimals, which have at most 76 digits."""

LARGEST_COUNT = (1 << 32) - 1
"""Polars counts nulls with 32 bits."""

VALUE_BYTES = 32
"""The bytes for each value of a row of statistics. A value has at most this size, and starts at a multiple of it."""

MOST_KNOWN = 64
"""The maximum number of combinations of columns whose facts are remembered, for each LazyFrame."""


class FrameSource(Protocol):
    """Makes the frames of a scan."""

    scan: Scan

    def frames(
        self, columns: list[str], pre_slice: tuple[int, int] | None, filters: Sequence[pl.Expr]
    ) -> Iterator[pl.DataFrame]:
        """Frames with these columns and with the rows of a slice."""


def lazy_frame(source: FrameSource, schema: pl.Schema) -> pl.LazyFrame | None:
    """Returns the frames of ``source`` as a LazyFrame. The result is None if this version of Polars has no reader
    interface."""
    made = _builder_class()
    if made is None:
        return None
    import polars as pl

    builder = made(source, schema)
    try:
        # Polars has no public function for this. The functions of Delta Lake and Iceberg do the same.
        from polars._plr import PyLazyFrame
        from polars._utils.wrap import wrap_ldf
        from polars.io.scan_options._options import ScanOptions  # noqa: F401

        provided = PyLazyFrame.new_from_dataset_object
    except (ImportError, AttributeError):
        return pl.scan_external_reader(builder, sources=[repr(source.scan)], schema=dict(schema))
    return wrap_ldf(provided(_Table(source, schema, builder)))


@dataclass(frozen=True)
class _Known:
    """What Polars was told about the columns of earlier queries. ``versions``: the versions of the files that were
    read for it."""

    versions: tuple[Hashable, ...] | None = None
    options: dict[tuple[str, ...], Any] = field(default_factory=dict)


class _Table:
    """The table that Polars asks for a scan. Polars calls these methods by name, and the LazyFrame pickles the
    object."""

    def __init__(self, source: FrameSource, schema: pl.Schema, builder: Any) -> None:
        self._source = source
        self._schema = schema
        self._builder = builder
        self._known = _Known()

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_known": _Known()}

    def name(self) -> str:
        return "orcidx"

    def schema(self) -> pl.Schema:
        return self._schema

    def to_dataset_scan(
        self, *, projection: Sequence[str] | None = None, limit: int | None = None, **_: Any
    ) -> tuple[pl.LazyFrame, str]:
        """Polars' scan of these columns. It is made again for each query, so it has the facts of the files as they are
        now. The text names the version of the table, which is not used."""
        from polars._plr import PyLazyFrame
        from polars._utils.wrap import wrap_ldf

        names = self._schema.names() if projection is None else projection
        made = PyLazyFrame.new_from_external_reader_builder(
            sources=[repr(self._source.scan)],
            reader_builder=self._builder,
            schema=dict(self._schema),
            # The facts about a scan take longer than a few rows.
            scan_options=_scan_options(TableFacts(None, {})) if limit is not None else self._known_options(names),
        )
        return wrap_ldf(made), ""

    def _known_options(self, names: Sequence[str]) -> Any:
        """The options with the facts about these columns. They are made again if a file has changed. Making them takes
        1 ms if the processor has run other code since the last time."""
        known, versions = self._known, file_versions(self._source.scan)
        if versions is None or known.versions != versions or len(known.options) >= MOST_KNOWN:
            known = self._known = _Known(versions)
        key = tuple(names)
        options = known.options.get(key)
        if options is None:
            options = known.options[key] = _scan_options(self._facts(names), self._source.scan.schema)
        return options

    def _facts(self, names: Sequence[str]) -> TableFacts:
        try:
            return table_facts(self._source.scan, names)
        except (OrcidxError, OSError):
            return TableFacts(None, {})  # the reader raises this error if the query needs what is damaged or missing


def _scan_options(facts: TableFacts, schema: pa.Schema | None = None) -> Any:
    """The options of a scan with these facts. ``schema`` has the types of the columns that have a range."""
    from polars.io.scan_options._options import ScanOptions

    return ScanOptions(
        expand_paths=False,
        hive_partitioning=False,
        row_count=None if facts.rows is None else (facts.rows, 0),
        table_statistics=None if schema is None or not facts.ranges else _statistics(facts, schema),
    )


def _statistics(facts: TableFacts, schema: pa.Schema) -> pl.DataFrame:
    """The ranges as a frame of one row, with the names that Polars expects. Polars skips the scan if a range rules out
    the filter. The number of rows (``len``) is left out. If Polars had it, it would also skip the scan if all rows are
    null. But the numbers of nulls include deleted rows."""
    import polars as pl

    found: dict[str, tuple[pa.DataType, Any]] = {"len": (pa.uint32(), None)}
    for name, one in facts.ranges.items():
        kind = schema.field(name).type
        found[f"{name}_nc"] = pa.uint32(), one.nulls if one.nulls <= LARGEST_COUNT else None
        found[f"{name}_min"] = kind, one.minimum
        found[f"{name}_max"] = kind, one.maximum
    return pl.DataFrame(_one_row(found))


def _one_row(columns: Mapping[str, tuple[pa.DataType, Any]]) -> pa.RecordBatch:
    """A batch of one row, from the type and the value of each column. The types are integers, dates and decimals.
    ``pa.array`` would first import pandas, which takes 0.4 s. All arrays share one buffer. Polars frees each buffer
    separately, and waits for the GIL each time."""
    bits = b"\0".ljust(VALUE_BYTES, b"\0") + b"\1".ljust(VALUE_BYTES, b"\0")
    shared = pa.py_buffer(bits + b"".join(_stored(*column).ljust(VALUE_BYTES, b"\0") for column in columns.values()))
    null, valid, *values = (shared.slice(at, VALUE_BYTES) for at in range(0, shared.size, VALUE_BYTES))
    arrays = [
        pa.Array.from_buffers(kind, 1, [null if value is None else valid, stored])
        for (kind, value), stored in zip(columns.values(), values, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def _stored(kind: pa.DataType, value: Any) -> bytes:
    if isinstance(value, Decimal):
        value = int(value.scaleb(kind.scale, DIGITS))
    number = 0 if value is None else int(value)
    return number.to_bytes(kind.bit_width // 8, "little", signed=number < 0)


@cache
def _builder_class() -> Callable[[FrameSource, pl.Schema], Any] | None:
    """Returns the class with which this version of Polars builds readers. The result is None for versions without such
    a class."""
    try:
        from polars.io.external_reader import FileReader, FileReaderBuilder, ReaderCapabilities
    except ImportError:
        return None

    class Reader(FileReader):  # type: ignore[misc]
        """All files of a scan. Polars sees them as one file."""

        def __init__(self, source: FrameSource, schema: pl.Schema) -> None:
            self._source = source
            self._schema = schema

        def schema(self) -> dict[str, Any]:
            return dict(self._schema)

        def n_rows_in_file(self, limit: int | None = None) -> int:
            scan = self._source.scan
            return (scan if limit is None else scan.limit(limit)).count_rows()

        def collect_batches(
            self,
            *,
            columns: Sequence[str],
            row_index: tuple[str, int] | None,
            pre_slice: tuple[int, int] | None,
            filters: Sequence[Any],
            num_pipelines: int,
        ) -> Iterator[pl.DataFrame]:
            # Polars requests no row index, because this reader does not declare that it supports one.
            assert row_index is None
            return self._source.frames(list(columns), pre_slice, [one.expr for one in filters])

    class Builder(FileReaderBuilder):  # type: ignore[misc]
        """Makes a reader for each scan of Polars."""

        def __init__(self, source: FrameSource, schema: pl.Schema) -> None:
            self._source = source
            self._schema = schema

        def reader_capabilities(self) -> ReaderCapabilities:
            return ReaderCapabilities(pre_slice=True, supported_filter="partial")

        def build_file_reader(self, source: str | bytes, multi_scan_context: dict[Any, Any]) -> Reader:
            return Reader(self._source, self._schema)

    return Builder
