"""A scan as a Polars LazyFrame, through the interfaces of Polars 2.

Polars reads the frames through a ``FileReader``. It passes slices to the reader, and runs decoding and computation in
parallel. It always applies the filter itself, too. A reader cannot tell how many rows it has, and without this number
Polars keeps the order of joins in which the query is written. So the reader is wrapped in an object of the kind that
Polars uses for tables of Delta Lake and Iceberg. Polars asks such an object for a scan each time it plans a query, and
the scan that it gets has the number of rows and the ranges of the columns (decision 0012)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from orcidx.engines.planner_facts import TableFacts, table_facts
from orcidx.errors import OrcidxError
from orcidx.scanner.scan import Scan

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FrameSource", "lazy_frame"]

DIGITS = Context(prec=80)
"""The precision for computing with decimals, which have at most 76 digits."""

LARGEST_COUNT = (1 << 32) - 1
"""Polars counts nulls with 32 bits."""


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


class _Table:
    """The table that Polars asks for a scan. Polars calls these methods by name, and the LazyFrame pickles the
    object."""

    def __init__(self, source: FrameSource, schema: pl.Schema, builder: Any) -> None:
        self._source = source
        self._schema = schema
        self._builder = builder

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
        from polars.io.scan_options._options import ScanOptions

        # The facts about a scan take longer than a few rows.
        facts = TableFacts(None, {}) if limit is not None else self._facts(projection)
        made = PyLazyFrame.new_from_external_reader_builder(
            sources=[repr(self._source.scan)],
            reader_builder=self._builder,
            schema=dict(self._schema),
            scan_options=ScanOptions(
                expand_paths=False,
                hive_partitioning=False,
                row_count=None if facts.rows is None else (facts.rows, 0),
                table_statistics=self._statistics(facts) if facts.ranges else None,
            ),
        )
        return wrap_ldf(made), ""

    def _facts(self, columns: Sequence[str] | None) -> TableFacts:
        try:
            return table_facts(self._source.scan, self._schema.names() if columns is None else columns)
        except (OrcidxError, OSError):
            return TableFacts(None, {})  # the reader raises this error if the query needs what is damaged or missing

    def _statistics(self, facts: TableFacts) -> pl.DataFrame:
        """The ranges as a frame of one row, with the names that Polars expects. Polars skips the scan if a range rules
        out the filter. The number of rows (``len``) is left out. If Polars had it, it would also skip the scan if all
        rows are null. But the numbers of nulls include deleted rows."""
        import polars as pl

        kinds = {name: self._source.scan.schema.field(name).type for name in facts.ranges}
        found = {"len": _one(pa.uint32(), None)}
        for name, one in facts.ranges.items():
            found[f"{name}_nc"] = _one(pa.uint32(), one.nulls if one.nulls <= LARGEST_COUNT else None)
            found[f"{name}_min"] = _one(kinds[name], one.minimum)
            found[f"{name}_max"] = _one(kinds[name], one.maximum)
        return pl.DataFrame(pa.RecordBatch.from_arrays(list(found.values()), list(found)))


def _one(kind: pa.DataType, value: Any) -> pa.Array:
    """An array of one integer, date or decimal. ``pa.array`` would first import pandas, which takes 0.4 s."""
    if isinstance(value, Decimal):
        value = int(value.scaleb(kind.scale, DIGITS))
    number = 0 if value is None else int(value)
    stored = number.to_bytes(kind.bit_width // 8, "little", signed=number < 0)
    valid = b"\0" if value is None else b"\1"
    return pa.Array.from_buffers(kind, 1, [pa.py_buffer(valid), pa.py_buffer(stored)])


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
