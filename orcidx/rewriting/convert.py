"""Converts files of other formats into ORC, and ORC files into other formats. pyarrow reads and writes the other
formats, and orcidx reads and writes ORC. Rows are converted batch by batch.

Columns of CSV and JSON lines get types that keep all of their values unchanged. A column stays text if no such type is
certain. A file gets its name only when it is finished."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.options import ReadOptions
from orcidx.orc.python_values import python_values
from orcidx.orc_writer.writer import OrcWriter
from orcidx.planner.request import FileJob
from orcidx.rewriting.csv_rows import TEXT_BLOCK_BYTES, open_csv
from orcidx.rewriting.drafts import exists
from orcidx.rewriting.encoding import SinkFile
from orcidx.rewriting.json_rows import open_json
from orcidx.rewriting.progress import RowProgress
from orcidx.rewriting.sources import rows_in
from orcidx.storage import OneSource, Source, describe_source, open_reader
from orcidx.storage.int96 import Int96Columns, check_range
from orcidx.storage.sink import open_sink
from orcidx.storage.sources import describe_target
from orcidx.storage.stores import Sink

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["convert"]

_FORMATS = {
    "orc": "orc", "parquet": "parquet", "pq": "parquet", "csv": "csv", "tsv": "tsv",
    "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
}  # fmt: skip
_PARQUET_BATCH = 65_536
"""The number of rows in a batch that is read from Parquet. It is pyarrow's default."""
ConvertedBatches = tuple[pa.Schema, Iterator[pa.RecordBatch], tuple[str, ...]]
"""The schema, the rows, and the columns that stay text although their values look like numbers or times."""


def convert(
    source: OneSource,
    target: OneSource,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    overwrite: bool = False,
    timestamp_unit: Literal["s", "ms", "us", "ns"] = "ns",
    schema: pa.Schema | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Converts one file. The formats follow from the suffixes of the names, unless ``source_format`` or
    ``target_format`` is given. Returns ``{"target", "rows", "bytes", "notes"}``.

    ``schema`` gives types of columns of CSV or JSON lines. Columns that are not in ``schema`` get a type that keeps all
    of their values unchanged. For example, 01234 and 12345678901234567890 stay text, because a number would change
    them. ``notes`` names the columns that stay text for this reason.

    Raises ``InvalidQuery`` for unknown suffixes and formats, and for a target that exists. Raises ``CorruptFile`` for a
    source that cannot be read as its format. Raises ``Unsupported`` for types that the other format does not have.
    """
    taken = describe_source(source, storage_options=storage_options)
    made = describe_target(target, storage_options=storage_options)
    formats = (
        _format(taken.name, source_format, "source_format= (--from)"),
        _format(made.name, target_format, "target_format= (--to)"),
    )
    if "orc" not in formats:
        raise InvalidQuery(f"neither {taken.name} nor {made.name} is ORC; use pyarrow to convert between other formats")
    if write_options and formats[1] != "orc":
        raise InvalidQuery(
            f"{sorted(write_options)[0]} is an option for writing ORC files, but {made.name} is not an ORC file"
        )
    if schema is not None and formats[0] not in ("csv", "tsv", "jsonl"):
        raise InvalidQuery(
            f"{formats[0]} files contain their types; leave out schema=, which is only for CSV and JSON lines"
        )
    if exists(made) and not overwrite:
        raise InvalidQuery("the target exists; give overwrite=True to replace it", file=made.name)
    types = dict(zip(schema.names, schema.types)) if schema is not None else {}
    with (
        _opened(taken, formats[0], timestamp_unit, types) as (found, batches, texts),
        RowProgress(made.name, None, progress) as bar,
    ):
        sink = _Counted(open_sink(made, made_of=[taken]))
        rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                bar.advance(batch.num_rows)
                yield batch

        try:
            _WRITERS[formats[1]](found, counted(), sink, write_options or {})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            sink.abort()
            raise Unsupported(f"the rows cannot be written as {formats[1]}: {error}", file=made.name) from error
        except BaseException:
            sink.abort()
            raise
        sink.close()
    return {"target": made.name, "rows": rows, "bytes": sink.bytes, "notes": [_kept_note(name) for name in texts]}


def _kept_note(name: str) -> str:
    return f"column {name!r} stays text, because another type would change a value; give a type by schema= (--schema)"


def _format(name: str, given: str | None, argument: str) -> str:
    suffix = (given or name.rpartition(".")[2]).lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if given:
        raise InvalidQuery(f"{argument} is {given!r}, but must be one of {', '.join(_FORMATS)}")
    known = ", ".join(f".{one}" for one in _FORMATS)
    raise InvalidQuery(f"{name}: the suffix belongs to no known format ({known}); give the format by {argument}")


class _Counted:
    """A sink that counts the bytes written to it."""

    def __init__(self, sink: Sink) -> None:
        self.name = sink.name
        self.bytes = 0
        self._sink = sink

    def write(self, data: Buffer) -> None:
        self._sink.write(data)
        self.bytes += memoryview(data).nbytes

    def close(self) -> None:
        self._sink.close()

    def abort(self) -> None:
        self._sink.abort()


# ---------------------------------------------------------------------- reading


@contextmanager
def _opened(source: Source, kind: str, unit: Any, types: Mapping[str, pa.DataType]) -> Iterator[ConvertedBatches]:
    if kind == "orc":
        options = ReadOptions(timestamp_unit=unit)
        scan = rows_in([FileJob(source)], options=options)
        yield scan.schema, iter(scan), ()
        return
    from orcidx.storage.reader_file import ReaderFile

    reader = open_reader(source)
    try:
        schema, batches, texts = _read(kind, lambda: ReaderFile(reader), types, source.name, unit)
        missing = [name for name in types if name not in schema.names]
        if missing:
            raise InvalidQuery(
                f"schema= contains {missing[0]!r}, which is not a column; the columns are {', '.join(schema.names)}",
                file=source.name,
            )
        yield schema, _checked(batches, source.name, kind), texts
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise _unreadable(error, source.name, kind) from error
    finally:
        reader.close()


def _read(
    kind: str, open_file: Callable[[], io.RawIOBase], types: Mapping[str, pa.DataType], name: str, unit: str
) -> ConvertedBatches:
    if kind == "jsonl":
        return open_json(open_file, types, name)
    if kind in ("csv", "tsv"):
        delimiter = "," if kind == "csv" else "\t"
        return open_csv(lambda: pa.PythonFile(open_file(), mode="r"), delimiter, types)
    file = pa.PythonFile(open_file(), mode="r")
    opened = pyarrow.parquet.ParquetFile(file, coerce_int96_timestamp_unit=unit)
    return opened.schema_arrow, _parquet_rows(file, opened, unit), ()


def _parquet_rows(file: pa.NativeFile, opened: pyarrow.parquet.ParquetFile, unit: str) -> Iterator[pa.RecordBatch]:
    int96 = Int96Columns(file, opened, opened.schema_arrow.names, unit)
    exact = int96.rows(range(opened.num_row_groups), _PARQUET_BATCH)
    for batch in opened.iter_batches(_PARQUET_BATCH):
        if exact is not None:
            try:
                check_range(batch, exact.take(batch.num_rows))
            except ValueOutOfRange as error:
                way_out = '; give timestamp_unit="us"' if unit == "ns" else ""
                raise ValueOutOfRange(f"{error}{way_out}") from None
        yield batch


def _checked(batches: Iterator[pa.RecordBatch], name: str, kind: str) -> Iterator[pa.RecordBatch]:
    """Yields the batches. An error during reading is raised as an error of the source."""
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            raise _unreadable(error, name, kind) from error
        if batch is None:
            return
        yield batch


def _unreadable(error: Exception, name: str, kind: str) -> CorruptFile | Unsupported:
    if "straddling object" in str(error):
        return Unsupported(
            f"a row has more than {TEXT_BLOCK_BYTES >> 20} MiB, so it cannot be read as {kind}", file=name
        )
    return CorruptFile(f"the file cannot be read as {kind}: {error}", file=name)


# ---------------------------------------------------------------------- writing

WriteRows = Callable[[pa.Schema, Iterator[pa.RecordBatch], _Counted, Mapping[str, Any]], None]


def _to_orc(schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: _Counted, options: Mapping[str, Any]) -> None:
    with OrcWriter(SinkFile(sink), schema, **options) as writer:
        for batch in batches:
            writer.write(batch)


def _to_parquet(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: _Counted, options: Mapping[str, Any]
) -> None:
    with pyarrow.parquet.ParquetWriter(pa.PythonFile(_PythonFile(sink), mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _to_csv(
    delimiter: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: _Counted, options: Mapping[str, Any]
) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise Unsupported(f"CSV cannot contain nested columns such as {nested[0]!r}; write JSON lines instead")
    form = pyarrow.csv.WriteOptions(delimiter=delimiter)
    with pyarrow.csv.CSVWriter(pa.PythonFile(_PythonFile(sink), mode="w"), schema, write_options=form) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _to_jsonl(schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: _Counted, options: Mapping[str, Any]) -> None:
    if twice := _repeated(schema):
        raise Unsupported(
            f"two fields are called {twice!r}, but a name must be unique in a JSON object; rename one of them"
        )
    names = schema.names
    for batch in batches:
        rows = zip(*map(python_values, batch.columns))
        lines = (json.dumps(dict(zip(names, map(_plain, row))), ensure_ascii=False) for row in rows)
        sink.write("".join(f"{line}\n" for line in lines).encode())


def _repeated(kind: Any) -> str | None:
    """A name that two fields of one struct share, in a schema or a type."""
    fields = [kind.field(i) for i in range(len(kind) if isinstance(kind, pa.Schema) else kind.num_fields)]
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        names: list[str] = [field.name for field in fields]
        if len(set(names)) < len(names):
            return next(name for name in names if names.count(name) > 1)
    return next((found for field in fields if (found := _repeated(field.type)) is not None), None)


def _plain(value: Any) -> Any:
    """Converts a value to a form that JSON has. Times become ISO 8601 texts, decimals become text, bytes become base64,
    and NaN and infinities become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) or hasattr(value, "isoformat") else value


class _PythonFile:
    """Gives a sink the methods of the writable Python file object that pyarrow expects."""

    closed = False

    def __init__(self, sink: _Counted) -> None:
        self._sink = sink

    def write(self, data: Buffer) -> int:
        self._sink.write(data)
        return memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def tell(self) -> int:
        return self._sink.bytes

    def close(self) -> None:
        pass


_WRITERS: dict[str, WriteRows] = {
    "orc": _to_orc,
    "parquet": _to_parquet,
    "csv": partial(_to_csv, ","),
    "tsv": partial(_to_csv, "\t"),
    "jsonl": _to_jsonl,
}
