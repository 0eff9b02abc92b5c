"""``OrcWriter`` and ``write_table`` write Arrow data into one ORC file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.keywords import lists_options
from orcidx.orc.footer_records import StripeInformation, TypeRecord
from orcidx.orc.frame_metadata import kept_metadata, with_categories
from orcidx.orc.statistics import ColumnStatistics, decode_statistics, unit_statistics
from orcidx.orc.types import build_tree
from orcidx.orc_writer.file_layout import FileLayout
from orcidx.orc_writer.memory import WriterMemory
from orcidx.orc_writer.options import USUAL_WRITE_OPTIONS, WriteOptions, WriteOptionsByName, utf8_metadata
from orcidx.orc_writer.stripe_writer import StripeWriter
from orcidx.orc_writer.write_plan import plan_write
from orcidx.storage.given_rows import stream_of
from orcidx.storage.sink import Target, narrow_for, open_sink, sources_of
from orcidx.storage.sources import describe_target
from orcidx.storage.stores import Sink
from orcidx.threads.waiting import Mutex

__all__ = ["OrcWriter", "WriteResult", "write_table"]


@dataclass(frozen=True)
class WriteResult:
    """What was written: the ``bytes`` of the file, its ``stripes`` as the footer lists them, and the ``statistics`` of
    each column by dotted path. If several columns have the same path, the statistics of the last of these columns are
    given.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> result.rows, result.statistics["id"].maximum
    (3, 3)
    """

    path: str
    rows: int
    bytes: int
    stripes: tuple[StripeInformation, ...] = field(repr=False)
    statistics: Mapping[str, ColumnStatistics] = field(repr=False, hash=False)


class WrittenStatistics(Mapping[str, ColumnStatistics]):
    """Statistics of columns by dotted path. All messages are decoded when the first statistics are used. ``messages``:
    the ColumnStatistics messages by column id."""

    def __init__(self, types: Sequence[TypeRecord], messages: Sequence[bytes], rows: int) -> None:
        self._types, self._messages, self._rows = types, messages, rows

    @cached_property
    def _found(self) -> dict[str, ColumnStatistics]:
        found = {}
        for node in build_tree(self._types).walk():
            message = self._messages[node.id]
            extents = np.zeros(1, np.int64), np.array([len(message)], np.int64)
            rows = np.array([self._rows], np.int64)
            raw = decode_statistics(node, "file", message, extents, rows=rows, stripes=[None])
            found[node.dotted] = unit_statistics(raw, 0, hybrid=False)
        return found

    def __getitem__(self, column: str) -> ColumnStatistics:
        return self._found[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return repr(self._found)


@lists_options(WriteOptions)
class OrcWriter:
    """Writes one ORC file, batch by batch.

    The file appears when ``close`` returns. If an exception ends a ``with`` block, no file appears. After an error the
    writer is closed. Two threads must not use a writer at the same time.

    Parameters
    ----------
    where : path, URL, (obstore store, path) or object with ``write``
        If ``filesystem`` is given, this is a path in it. For an object only ``write`` is called.
    schema : pyarrow.Schema, or an object with ``__arrow_c_schema__``
        The columns of the file.
    options : WriteOptions, optional
        How the file is written.
    storage_options : dict, optional
        Options for fsspec if ``where`` is a URL.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system of the path ``where``.
    **overrides
        Single fields of ``WriteOptions`` by name.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> batch = pa.record_batch({"id": [1, 2, 3]})
    >>> with orcidx.OrcWriter("ids.orc", batch.schema, compression="zlib") as writer:
    ...     writer.write(batch)
    3
    """

    def __init__(
        self,
        where: Target,
        schema: Any,
        *,
        options: WriteOptions | None = None,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
        **overrides: Unpack[WriteOptionsByName],
    ) -> None:
        self.options = (options or USUAL_WRITE_OPTIONS).override(**overrides)
        self.schema = _schema_of(schema)
        plan = plan_write(self.schema, self.options)
        name = str(where) if isinstance(where, str) else type(where).__name__
        self._stripes = StripeWriter(plan.root, self.options, plan.framing, name=name)
        self._sink: Sink = open_sink(where, storage_options=storage_options, filesystem=filesystem)
        self._stripes.encoder.name = self._sink.name
        self._layout = FileLayout(
            sink=self._sink,
            types=plan.types,
            framing=plan.framing,
            row_index_stride=self.options.row_index_stride,
        )
        limit = self.options.max_memory
        self._memory = WriterMemory(limit) if isinstance(limit, int) else limit
        self._at_work = Mutex()
        self._failure: BaseException | None = None
        self._rows = 0
        self._result: WriteResult | None = None
        self._closed = False

    @property
    def rows(self) -> int:
        """The number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """The bytes of the file so far. These are the bytes of its finished stripes."""
        return self._layout.offset

    @property
    def bytes_buffered(self) -> int:
        """The bytes of memory that the open stripe takes."""
        return self._stripes.held

    def write(self, data: object) -> int:
        """Appends rows.

        After an error the writer is closed, and no file is left.

        Parameters
        ----------
        data : RecordBatch, Table, RecordBatchReader or iterable of batches
            Also any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, such as a scan, or a Polars or DuckDB
            frame.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        InvalidQuery
            The data has another schema, or the writer is closed.
        ValueOutOfRange
            ORC cannot store a value. The error names the row, the column and the value.
        """
        if self._closed:
            raise InvalidQuery(f"{self._sink.name}: this writer is closed") from self._failure
        before = self._rows
        try:
            narrow_for(self._sink, data)
            for batch in batches_of(data):
                self._write_batch(batch)
        except BaseException:
            self.abort()
            raise
        return self._rows - before

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self.schema, check_metadata=False):
            raise InvalidQuery(
                f"{self._sink.name}: the batch has the "
                f"schema\n{batch.schema.to_string(show_field_metadata=False)}\nbut the file has the "
                f"schema\n{self.schema.to_string(show_field_metadata=False)}"
            )
        if not self._rows and self.schema.metadata:
            self.schema = with_categories(self.schema, batch)
        at = 0
        while at < batch.num_rows:
            rest = batch.slice(at)
            taken = self._stripes.slice_rows(rest)
            held = self._at_work.run(self._write_slice, rest.slice(0, taken))
            at += taken
            if self._memory is not None:
                self._memory.note(self, held)

    def _write_slice(self, rows: pa.RecordBatch) -> int:
        """Encodes rows. Returns how many bytes of memory the open stripe takes afterwards."""
        self._stripes.write(rows, self._rows)
        self._rows += rows.num_rows
        held = self._stripes.held
        if held < self.options.stripe_size:
            return held
        self.end_stripe()
        return self._stripes.held

    def end_stripe(self) -> None:
        """Ends the open stripe here and writes it. Does nothing if it has no rows."""
        if self._stripes.rows:
            self._layout.append(self._stripes.finish())
            self._stripes.clear()

    def end_stripe_for_memory(self) -> bool:
        """Ends the open stripe because writers that share ``max_memory`` hold too many bytes.

        After an error this writer is closed, and raises an error when it is used again.

        Returns
        -------
        bool
            False while another thread is writing. In this case the stripe stays open.
        """
        return self._at_work.attempt(self._end_or_abort)

    def _end_or_abort(self) -> None:
        try:
            if not self._closed:
                self.end_stripe()
        except Exception as error:
            # A sink may raise any exception. The caller is writing another file, so ``close`` raises the exception.
            self._failure = error
            self.abort()

    def close(self) -> WriteResult:
        """Writes the remaining rows and the tail, and publishes the file. A second call returns the same result.

        Returns
        -------
        WriteResult

        Raises
        ------
        InvalidQuery
            Nothing was written, because of an earlier error.
        """
        if self._result is not None:
            return self._result
        if self._closed:
            raise InvalidQuery(
                f"{self._sink.name}: the file was not written, because of an earlier error"
            ) from self._failure
        try:
            self.end_stripe()
            messages = self._stripes.file_statistics()
            kept = kept_metadata(self.schema) if self.schema.metadata else {}
            given = utf8_metadata(self.options.metadata) if self.options.metadata else {}
            self._layout.finish(messages, kept | given)
        except BaseException:
            self.abort()
            raise
        self._closed = True
        self._forget()
        self._sink.close()
        statistics = WrittenStatistics(self._layout.types.records, messages, self._rows)
        stripes = tuple(self._layout.stripes)
        self._result = WriteResult(self._sink.name, self._rows, self._layout.offset, stripes, statistics)
        return self._result

    def abort(self) -> None:
        """Discards the file. No part of it is left."""
        if not self._closed:
            self._closed = True
            self._forget()
            self._sink.abort()
            self._stripes.clear()

    def _forget(self) -> None:
        if self._memory is not None:
            self._memory.forget(self)

    def __enter__(self) -> OrcWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._closed or self._failure is not None:
            # If another writer ended a stripe of this writer and this failed, ``close`` raises the error.
            self.close()


@lists_options(WriteOptions)
def write_table(
    data: object,
    where: Target,
    *,
    options: WriteOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    **overrides: Unpack[WriteOptionsByName],
) -> WriteResult:
    """Writes one ORC file, without holding all of its rows in memory.

    Parameters
    ----------
    data : pyarrow.Table, RecordBatch, RecordBatchReader, Scan or data frame
        Any object with ``__arrow_c_stream__``.
    where : path, URL, (obstore store, path) or object with ``write``
        If ``filesystem`` is given, this is a path in it. An existing file is replaced when everything is
        written.
    options : WriteOptions, optional
        How the file is written.
    storage_options : dict, optional
        Options for fsspec if ``where`` is a URL.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system of the path ``where``.
    **overrides
        Single fields of ``WriteOptions`` by name.

    Returns
    -------
    WriteResult
        Path, rows, bytes, stripes, and statistics of each column.

    Raises
    ------
    InvalidQuery
        For data without a schema, and for an unknown or wrong option.
    ValueOutOfRange
        For a value that ORC cannot store. The error names the row and the column. No file is left.
    Unsupported
        For a type that ORC does not have, and for a file that ``orcidx.open`` would refuse by default.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> table = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Rom", "Oslo"]})
    >>> orcidx.write_table(table, "cities.orc", bloom_filter_columns=["city"]).rows
    3
    """
    batches = batches_of(data)
    schema = schema_of_rows(data, batches)
    if schema is None:
        instead = "give pyarrow.Table.from_pylist(...) of rows, or use OrcWriter, which takes a schema"
        raise InvalidQuery(f"a {type(data).__name__} has no schema: {instead}")
    given: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    made_of = sources_of(data)
    # The file must not be readable by more users than the files from which its rows come.
    if made_of and not hasattr(where, "write"):
        place = describe_target(where, **given)
        where, given = open_sink(place, made_of=made_of) if place.kind == "path" else place, {}
    with OrcWriter(where, schema, options=options, **given, **overrides) as writer:
        writer.write(batches)
        return writer.close()


def batches_of(data: object) -> Any:
    """The record batches of an object with Arrow data, as an iterable. Raises ``InvalidQuery`` for other objects."""
    if isinstance(data, pa.RecordBatch):
        return (data,)
    if isinstance(data, pa.Table):
        return data.to_batches()
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return stream_of(data)
    if hasattr(data, "__arrow_c_array__"):
        return _one_batch(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        return _checked(data)
    raise InvalidQuery(f"a {type(data).__name__} is not Arrow data: {_instead(data)}")


def schema_of_rows(data: object, batches: object) -> pa.Schema | None:
    """The schema of an object with Arrow data. ``batches`` is the result of ``batches_of`` for this object. The result
    is None if the schema is known only from a batch."""
    schema = getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        return schema
    return batches.schema if isinstance(batches, pa.RecordBatchReader) else None


def _one_batch(data: Any) -> tuple[pa.RecordBatch]:
    try:
        return (pa.record_batch(data),)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidQuery(
            f"a {type(data).__name__} is not a record batch: give a table with it as a column"
        ) from error


def _instead(data: object) -> str:
    """The end of an error message about data that is not Arrow data. It says what to give instead."""
    if isinstance(data, str):
        return f"give a Table, batches, a scan or a data frame, such as orcidx.scan({data!r:.100})"
    if isinstance(data, Mapping):
        return "give pyarrow.table(...) of it"
    if type(data).__name__ == "LazyFrame":
        return "call collect(), and give the data frame"
    return "give a Table, batches, a scan or a data frame"


def _checked(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for one in data:
        if isinstance(one, pa.RecordBatch):
            yield one
        elif isinstance(one, pa.Table):
            yield from one.to_batches()
        else:
            raise InvalidQuery(f"a {type(one).__name__} among the batches is neither a RecordBatch nor a Table")


def _schema_of(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    raise InvalidQuery(f"a {type(schema).__name__} is not a schema: give a pyarrow.Schema")
