"""The facts of a Parquet footer, beside pyarrow's; and footers that are damaged, which ended the process once."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from orcidx import CorruptFile
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.parquet_footer import read_footer

ENCODINGS = {
    "PLAIN": 0,
    "PLAIN_DICTIONARY": 2,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "RLE_DICTIONARY": 8,
}
TABLE = pa.table(
    {
        "path": [f"part-{number % 7}" for number in range(1000)],
        "size": pa.array([None if number % 3 else number for number in range(1000)], pa.int64()),
        "lists": [[number] * (number % 4) for number in range(1000)],
        "fields": [{"a": number, "b": None} for number in range(1000)],
    }
)


def written(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 300, "compression": "zstd", "write_page_checksum": True},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"size": "DELTA_BINARY_PACKED"}, "version": "1.0"},
        {"write_statistics": False, "store_schema": False},
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_it_says_what_pyarrow_says(options: dict[str, object], rows: int) -> None:
    data = written(TABLE[:rows], **options)
    found = read_footer(pa.input_stream(pa.py_buffer(data)))
    metadata = parquet.read_metadata(io.BytesIO(data))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    assert found.rows == rows
    assert len(found.chunks) == len(chunks)
    for one, other in zip(found.chunks, chunks):
        sizes = (other.num_values, other.total_uncompressed_size, other.total_compressed_size)
        assert (one.values, one.decompressed, one.stored) == sizes
        dictionary = other.dictionary_page_offset if other.has_dictionary_page else None
        assert one.start == min(dictionary or other.data_page_offset, other.data_page_offset)
        assert one.encodings == {ENCODINGS[name] for name in other.encodings}


def test_a_footer_with_any_bit_changed_is_an_error_or_read() -> None:
    """``RowGroupMetaData.column`` of pyarrow ended the process for some of these."""
    data = Catalog.empty().to_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    outcomes = set()
    for bit in range(8 * start, 8 * len(data), 23):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            Catalog.read(pa.py_buffer(bytes(changed)))
            outcomes.add("read")
        except CorruptFile as error:
            outcomes.add(str(error).rpartition("; ")[2])
    assert outcomes == {"read", "build the indexes again"}


def test_a_footer_that_breaks_off_is_an_error() -> None:
    data = written(TABLE, row_group_size=300)
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    for kept in range(0, length, 11):
        shorter = footer[:kept] + kept.to_bytes(4, "little") + b"PAR1"
        with pytest.raises(CorruptFile, match="build the indexes again"):
            read_footer(pa.input_stream(pa.py_buffer(b"PAR1" + shorter)))
    for data in (b"", b"PAR1", b"PAR1PAR1", (99).to_bytes(4, "little") + b"PAR1", bytes(20)):
        with pytest.raises(CorruptFile, match="no Parquet footer"):
            read_footer(pa.input_stream(pa.py_buffer(data)))


@pytest.mark.parametrize(
    "footer",
    [
        b"\x38\x01x\x00",  # field 3, a text where rows are counted
        b"\x36\x02\x19\xfc\xff\xff\xff\x0f\x00",  # field 4, 2^25 row groups in nothing
        b"\x16" + b"\xff" * 12,  # a number without end
        b"\x1c" * 40,  # structs within structs
        b"\x1d\x00",  # type 13
        b"\x36\x02\x19\x1c\x26\x02\x29\x0c\x00\x00",  # a row group whose columns stand in another field
    ],
)
def test_footers_that_are_none(footer: bytes) -> None:
    with pytest.raises(CorruptFile, match="damaged"):
        read_footer(pa.input_stream(pa.py_buffer(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")))
