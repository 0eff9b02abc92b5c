"""Encodes rows of a table in data files. The project's own writer makes ORC files, and pyarrow makes Parquet files.

ORC types, ids and options are the same as in Paimon's Java. CHAR is padded, times of day are milliseconds, every type
has ``paimon.id``, and the table's ``orc.*`` options are used. Parquet files have the types and field ids of Paimon's
Java.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc_writer.options import WriteOptions
from orcidx.orc_writer.writer import OrcWriter
from orcidx.paimon.data_types import TEXTS, DataField, DataType
from orcidx.paimon.registry import parse_size
from orcidx.paimon_table.metadata.schema import TableSchema

__all__ = ["Encoder", "as_stored", "check_writable", "open_encoder"]

_ORC_CODECS = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "zlib": "zlib", "none": "uncompressed"}
_PARQUET_CODECS = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "gzip": "gzip", "none": "none"}
_FLAT = """BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP
TIMESTAMP_LTZ"""
_WRITTEN_TYPES = frozenset(_FLAT.split())
_FINEST_IN_PARQUET = 6
_LONGEST_IN_ORC = 65535
"""The maximum number of characters that the type of an ORC text column can declare."""


class Encoder(Protocol):
    """A data file that is being encoded into memory."""

    @property
    def size(self) -> int:
        """The number of bytes that were added so far, including bytes that are not encoded yet."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows that ``as_stored`` has converted."""

    def finish(self) -> bytes:
        """The whole file."""


def check_writable(schema: TableSchema) -> str:
    """Returns the format of new data files. Raises ``Unsupported`` for a format, codec or type that orcidx does not
    write."""
    options = schema.options
    form = options.get("file.format", "parquet").strip().lower()
    _codec(form, options)
    for column in schema.fields:
        if column.type.root not in _WRITTEN_TYPES:
            raise Unsupported(
                f"orcidx cannot write the type {column.type}; append the rows with Paimon", column=column.name
            )
        fine = column.type.root.startswith("TIMESTAMP") and column.type.precision > _FINEST_IN_PARQUET
        if form == "parquet" and fine:
            raise Unsupported(
                f"orcidx cannot write the type {column.type} to parquet; append the rows with Paimon",
                column=column.name,
            )
    if form == "orc":
        orc_options(schema)
    return form


def open_encoder(schema: TableSchema, form: str) -> Encoder:
    """Opens the encoder of a new data file."""
    return _Orc(schema) if form == "orc" else _Parquet(schema)


def as_stored(rows: pa.RecordBatch, schema: TableSchema, form: str) -> pa.RecordBatch:
    """Converts rows to the form in which the file stores them, and in which its statistics are computed. In ORC files,
    CHAR values are padded."""
    arrays = []
    for array, field in zip(rows.columns, schema.fields):
        if form == "orc" and field.type.root == "CHAR":
            array = pc.utf8_rpad(array, field.type.length, " ")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _codec(form: str, options: Mapping[str, str]) -> str:
    name = options.get("file.compression", "zstd").strip().lower()
    if form == "orc":
        name = options.get("orc.compress", name).strip().lower()
    codecs = _ORC_CODECS if form == "orc" else _PARQUET_CODECS
    if name not in codecs:
        raise Unsupported(
            f"orcidx cannot write {form} files with compression {name!r}; it supports {', '.join(codecs)}"
        )
    return codecs[name]


# ---------------------------------------------------------------------- ORC


class _NewFile(io.BytesIO):
    name = "a new data file"
    """The name of the file in error messages."""


_UNFILTERED = frozenset({"BOOLEAN", "ARRAY", "MAP", "MULTISET", "ROW"})
"""Types of columns that get no bloom filter in a file that orcidx writes."""


class _Orc:
    def __init__(self, schema: TableSchema) -> None:
        self._sink = _NewFile()
        self._schema = pa.schema([_orc_field(field) for field in schema.fields])
        self._writer = OrcWriter(self._sink, self._schema, options=orc_options(schema))

    @property
    def size(self) -> int:
        return self._writer.bytes_written + self._writer.bytes_buffered

    def write(self, rows: pa.RecordBatch) -> None:
        arrays = [_cast(array, field.type) for array, field in zip(rows.columns, self._schema)]
        self._writer.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def finish(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()


def _orc_field(field: DataField) -> pa.Field:
    """A field with its id. Paimon finds columns by name. Other readers, such as Iceberg's, use the id."""
    metadata = {"paimon.id": str(field.id)}
    if field.type.root in TEXTS and field.type.length <= _LONGEST_IN_ORC:
        metadata["orc.type"] = f"{field.type.root.lower()}({field.type.length})"
    return pa.field(field.name, _orc_type(field.type), metadata=metadata)


def _orc_type(data_type: DataType) -> pa.DataType:
    """The type in the ORC file. ORC has no times of day, so Paimon stores them as milliseconds."""
    return pa.int32() if data_type.root == "TIME" else data_type.arrow_type


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def orc_options(schema: TableSchema) -> WriteOptions:
    """The write options from the table's options. As in Paimon's Java, ``orc.*`` has priority over ``file.*``, except
    over ``file.block-size``."""
    options = schema.options
    given: dict[str, Any] = {"compression": _codec("orc", options)}
    if given["compression"] == "zstd":
        option = "orc.compression.zstd.level"
        given["compression_level"] = _whole(options, option, _whole(options, "file.compression.zstd-level", 1))
    given["compression_block_size"] = _whole(options, "orc.compress.size", WriteOptions.compression_block_size)
    given["stripe_size"] = _whole(options, "orc.stripe.size", WriteOptions.stripe_size)
    if "file.block-size" in options:
        given["stripe_size"] = parse_size("file.block-size", options["file.block-size"])
    given["row_index_stride"] = _whole(options, "orc.row.index.stride", WriteOptions.row_index_stride)
    if not schema.is_on("orc.create.index", default=True):
        given["row_index_stride"] = 0
    if "orc.dictionary.key.threshold" in options:
        given["dictionary_key_size_threshold"] = _share(options, "orc.dictionary.key.threshold")
    names = [name.strip() for name in options.get("orc.bloom.filter.columns", "").split(",") if name.strip()]
    # Java accepts the option for every column, but writes no bloom filters for columns of the types in _UNFILTERED.
    bare = {field.name for field in schema.fields if field.type.root in _UNFILTERED}
    if names := [name for name in names if name not in bare]:
        given["bloom_filter_columns"] = names
        if "orc.bloom.filter.fpp" in options:
            given["bloom_filter_fpp"] = _share(options, "orc.bloom.filter.fpp")
    try:
        return WriteOptions(**given)
    except InvalidQuery as error:
        raise Unsupported(
            f"the table's orc.* options are not supported: {error}; append the rows with Paimon"
        ) from None


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default)).strip()
    if not text.isascii() or not text.isdigit():
        raise InvalidQuery(f"the table option {name} is {text!r}, which is not a whole number")
    return int(text)


def _share(options: Mapping[str, str], name: str) -> float:
    try:
        return float(options[name])
    except ValueError:
        raise InvalidQuery(f"the table option {name} is {options[name]!r}, which is not a number") from None


# ---------------------------------------------------------------------- Parquet


class _Parquet:
    def __init__(self, schema: TableSchema) -> None:
        self._sink = io.BytesIO()
        fields = [pa.field(f.name, f.type.arrow_type, metadata={"PARQUET:field_id": str(f.id)}) for f in schema.fields]
        self._schema = pa.schema(fields)
        codec = _codec("parquet", schema.options)
        # Java does not find decimals of more than 18 digits in a Parquet dictionary, because it searches for bytes of
        # another width. So columns of such decimals get no dictionary.
        wide = [f.name for f in schema.fields if f.type.root == "DECIMAL" and f.type.precision > 18]
        self._writer = pyarrow.parquet.ParquetWriter(
            self._sink,
            self._schema,
            compression=codec,
            compression_level=_whole(schema.options, "file.compression.zstd-level", 1) if codec == "zstd" else None,
            use_dictionary=[field.name for field in fields if field.name not in wide],
            store_decimal_as_integer=True,
        )

    @property
    def size(self) -> int:
        return self._sink.tell()

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_arrays(rows.columns, schema=self._schema))

    def finish(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
