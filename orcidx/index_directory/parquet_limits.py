"""What a Parquet file may take in memory once it is read, by its own metadata and then by its dictionaries.

One value that is repeated takes nothing in Parquet: a name of 10 KB for 200,000 rows is a file of 11 KB, and 2 GB as
Arrow strings. So texts are read as dictionaries, and what they take without them is counted before they lose these.
What a column chunk says of itself is believed here; that its pages keep to it is pyarrow's to see.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile
from orcidx.index_directory.parquet_footer import FooterFacts, read_footer

__all__ = ["LimitedParquet"]

_ENCODINGS = frozenset({0, 2, 3, 4, 8})
"""PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY: those of catalogs; with others a value may repeat the one
before it."""
_LEAST_ROWS, _LEAST_VALUES, _LEAST_BYTES = 50_000, 5_000_000, 32 << 20
_ROW_BYTES = 4
_VALUES_PER_BYTE = _BYTES_PER_BYTE = 16
"""Rows, values and decompressed bytes that a file may have whatever its size, and for each stored byte beyond."""


class LimitedParquet:
    """A Parquet file whose metadata is within the limits, else ``CorruptFile``. ``source``: as pyarrow takes it."""

    def __init__(self, source: Any) -> None:
        from pyarrow import parquet

        file = pa.input_stream(source, compression=None)
        self._size = _check(read_footer(file))
        metadata = parquet.read_metadata(file)
        schema = metadata.schema
        texts = [column.path for column in map(schema.column, range(len(schema))) if "BYTE" in column.physical_type]
        self._file = parquet.ParquetFile(
            file, metadata=metadata, read_dictionary=texts, pre_buffer=True, page_checksum_verification=True
        )

    @property
    def schema_metadata(self) -> dict[bytes, bytes]:
        """Key-value metadata."""
        return self._file.schema_arrow.metadata or {}

    def read(self, columns: list[str]) -> pa.Table:
        """These columns, their texts as dictionaries. Raises ``CorruptFile`` where they would take too much without."""
        table = self._file.read(columns=columns)
        taken = sum(_text_bytes(chunk) for column in table.columns for chunk in column.chunks)
        if taken > (most := max(_LEAST_BYTES, _BYTES_PER_BYTE * self._size)):
            raise CorruptFile(f"texts of {taken} bytes in a catalog of {self._size}: more than {most}")
        return table


def _check(footer: FooterFacts) -> int:
    """Bytes of the file up to the end of its last column chunk, which is what the limits go by."""
    chunks = footer.chunks
    size = max((chunk.start + chunk.stored for chunk in chunks), default=0)
    limits = {
        "rows": (footer.rows if chunks else 0, _LEAST_ROWS),
        "values": (sum(max(0, chunk.values) for chunk in chunks), _LEAST_VALUES),
        "bytes": (sum(max(0, chunk.decompressed) for chunk in chunks), _LEAST_BYTES),
    }
    per_byte = {"rows": 1 / _ROW_BYTES, "values": _VALUES_PER_BYTE, "bytes": _BYTES_PER_BYTE}
    for what, (count, least) in limits.items():
        if count > (most := max(least, int(size * per_byte[what]))):
            raise CorruptFile(
                f"a catalog of {size} bytes claims {count} {what}, more than {most}; build the indexes again"
            )
    if strange := {number for chunk in chunks for number in chunk.encodings} - _ENCODINGS:
        message = f"a catalog has encoding {min(strange)} of Parquet, which no catalog is written with"
        raise CorruptFile(f"{message}; build the indexes again")
    return size


def _text_bytes(array: pa.Array) -> int:
    """Bytes of the texts in an array, and in those below it, without their dictionaries."""
    if isinstance(array, pa.DictionaryArray):
        lengths = pc.binary_length(array.dictionary)
        return int(pc.sum(lengths.cast(pa.int64()).take(array.indices)).as_py() or 0)
    if isinstance(array, pa.StructArray):
        return sum(map(_text_bytes, array.flatten()))
    return _text_bytes(array.flatten()) if isinstance(array, pa.ListArray) else 0
