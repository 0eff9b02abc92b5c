"""Timestamps and decimals from ORC's own tests, read in every batch size and from storage pieces of every size."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from columns.column_encoder import Encoded, Layout, node, numbered
from streams.encoders import varint
from streams.framing import chop, chunk_sizes, read_sizes, split_counts

from orcidx.errors import CorruptFile
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import EncodingKind, StreamKind, TypeKind
from orcidx.orc.types import OrcType

V1, V2 = EncodingKind.DIRECT, EncodingKind.DIRECT_V2


def column(root: OrcType, rows: int, encoding: EncodingKind, chunk: int = 1 << 20, **streams: str | bytes) -> Encoded:
    """Returns a column of streams that are given as hex or bytes. ``chunk``: bytes that the storage delivers at a
    time."""
    encoded = Encoded(numbered(root), Layout(), rows, writer_timezone="UTC")
    encoded.encodings = {number: ColumnEncoding(encoding) for number in encoded.node.ids}
    for name, content in streams.items():
        data = content if isinstance(content, bytes) else bytes.fromhex(content)
        encoded.streams[1, StreamKind[name]] = chop(data, chunk, "NONE")
    return encoded


def read_everywhere(encoded: Encoded, **options: Any) -> list[Any]:
    """Reads the values 1, 3, 7 or all at a time, from storage pieces of different sizes. All results must be equal."""
    expected = encoded.open(**options).read(encoded.rows)
    expected.validate(full=True)
    whole = dict(encoded.streams)
    longest = max(len(stream.content) for stream in whole.values())
    for piece in chunk_sizes(b"x" * longest, 9):
        encoded.streams = {place: chop(stream.content, piece, "NONE") for place, stream in whole.items()}
        for size in read_sizes(encoded.rows):
            reader = encoded.open(**options)
            parts = [reader.read(count) for count in split_counts(encoded.rows, size)]
            assert pa.concat_arrays(parts).equals(expected), (piece, size)
    return nanoseconds(expected) if pa.types.is_timestamp(expected.type) else expected.to_pylist()


def nanoseconds(array: pa.Array) -> list[int | None]:
    return array.cast(pa.int64()).to_pylist()


def instant(text: str) -> int:
    """Converts a text such as ``1905-05-05 12:34:56.1905`` to nanoseconds since 1970."""
    whole, _, digits = text.partition(".")
    seconds = pa.scalar(whole).cast(pa.timestamp("s")).cast(pa.int64()).as_py()
    return seconds * 10**9 + int(digits.ljust(9, "0") or 0)


LONG_AGO = [
    "2000-03-12 15:00:00",
    "2000-03-20 12:00:00.123456789",
    "1900-01-01 00:00:00",
    "1900-05-05 12:34:56.19",
    *(f"190{year}-05-05 12:34:56.190{year}" for year in (1, 2, 3, 4, 5)),
    "1910-05-05 12:34:56.191",
]


# Seconds are counted from 2015-01-01. In Los Angeles, neither this day nor any time in LONG_AGO is in daylight saving
# time, so the streams have the same wall clock times in both zones.
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_timestamps_of_a_century(zone: str) -> None:
    encoded = column(
        node(TypeKind.TIMESTAMP),
        10,
        V1,
        DATA="f69ff4c6bd03ffecf3bc03ffb1f8841b9d86d7fa1a9db8cddc1a9deac3be1a9d9cbaa01a9d88a6821a9dba9ce4199deee1cd18",
        SECONDARY="f600a8d1f9d603009e01ec76f476fc7684778c77fd0b",
    )
    encoded.writer_timezone = zone
    assert read_everywhere(encoded) == [instant(text) for text in LONG_AGO]


def test_timestamps_with_nulls() -> None:
    encoded = column(
        node(TypeKind.TIMESTAMP), 8, V1, PRESENT="ffcc", DATA="fcbbb5be31a1eee210f892ee0f92a0d430", SECONDARY="01085e"
    )
    # In Los Angeles, 2015-01-01, from which seconds are counted, is in winter, but all these times are in summer. With
    # the zone UTC, the times would be read an hour too early.
    encoded.writer_timezone = "America/Los_Angeles"
    assert read_everywhere(encoded) == [
        *(instant("2013-05-10 10:40:50.11"), instant("2014-06-11 11:41:51.12"), None, None),
        *(instant("2015-07-12 12:42:52.13"), instant("2016-08-13 13:43:53.14"), None, None),
    ]


def decimal_column(data: str | bytes, scales: str, rows: int, precision: int, scale: int) -> Encoded:
    return column(node(TypeKind.DECIMAL, precision=precision, scale=scale), rows, V1, DATA=data, SECONDARY=scales)


def test_decimals_of_shrinking_length() -> None:
    data = "f8e8e2cff4cbb6da0d86c1cccd9ed5c511b4f6fcf3b9ba16cae7a3a6df1ceaadc0e524f8948c2f86a43c944d62"
    encoded = decimal_column(data, "060014", 9, 38, 10)
    whole = 493827160549382716
    assert read_everywhere(encoded) == [Decimal(whole // 10 ** (2 * i)).scaleb(-10) for i in range(9)]


NINES = 10**38 - 1


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("aacdb3f29ef099d6bef8b69ee4b7fdce8f34", 17320508075688772935274463415058723669),
        ("a9cdb3f29ef099d6bef8b69ee4b7fdce8f34", -17320508075688772935274463415058723669),
        ("feffffffff8f918a93e8a3ecd096d4ccf6ac02", NINES),
        ("fdffffffff8f918a93e8a3ecd096d4ccf6ac02", -NINES),
        ("808080b1ac8bafc7d715", 10**20),
    ],
)
def test_long_decimals(data: str, value: int) -> None:
    assert read_everywhere(decimal_column(data * 3, "000000", 3, 38, 0)) == [Decimal(value)] * 3


@pytest.mark.parametrize(
    "data", ["8080808080c0b0f5f3aefdcb94d7e1f1d38ceb01", "ffffffffff8f918a93e8a3ecd096d4ccf6ac02"], ids=["40", "38"]
)
def test_decimals_beyond_38_digits(data: str) -> None:
    encoded = decimal_column(data * 3, "000000", 3, 38, 0)
    with pytest.raises(CorruptFile, match=r"128 bits|more digits"):
        encoded.read()


def test_scales_are_brought_up_and_down() -> None:
    up = decimal_column("02" * 21, "12ff28", 21, 38, 20)
    with localcontext() as context:
        context.prec = 60
        assert read_everywhere(up) == [(Decimal(1) * 10**i).scaleb(-20) for i in range(21)]
    down = decimal_column(bytes.fromhex("808080b1ac8bafc7d715") * 21, "120100", 21, 38, 0)
    assert read_everywhere(down) == [Decimal(10 ** (20 - i)) for i in range(21)]


def test_decimal64() -> None:
    encoded = column(node(TypeKind.DECIMAL, precision=12, scale=2), 128, V2, PRESENT="05ff0400ff01", DATA="c0403f02")
    encoded.layout = Layout(decimal64=True)
    numbers = [Decimal(value).scaleb(-2) for value in range(-32, 33)]
    assert read_everywhere(encoded) == [*numbers[:64], *[None] * 63, numbers[64]]


@pytest.mark.parametrize("size", range(1, 20))
def test_varints_of_every_length(size: int) -> None:
    """The largest and the smallest number of each length stand between short numbers. They are also written with more
    groups of 7 bits than needed."""
    most = min((1 << (7 * size)) - 1, (1 << 128) - 1)
    codes = [1, most, 2, most - 1, 3]
    values = [(code >> 1) ^ -(code & 1) for code in codes]
    padded = b""
    if size < 19:
        padded = b"".join(bytes([value << 1 | 128]) + b"\x80" * (size - 1) + b"\0" for value in (1, 2))
    rows = 5 + 2 * bool(padded)
    encoded = decimal_column(b"".join(map(varint, codes)) + padded, _zeros(rows), rows, 38, 0)
    expected = [Decimal(value) for value in (*values, 1, 2)[:rows]]
    if max(map(abs, values)) > NINES:
        with pytest.raises(CorruptFile, match="precision"):
            encoded.read()
    else:
        assert read_everywhere(encoded) == expected


@pytest.mark.parametrize(
    "data", [b"\x80" * 19 + b"\0", b"\xff" * 18 + b"\x04", b"\xff" * 200, b"\x80" * 18 + b"\x80\1"]
)
def test_varints_of_more_than_128_bits(data: bytes) -> None:
    for before in (b"", b"\2" * 70):
        rows = len(before) + 1
        with pytest.raises(CorruptFile, match="128 bits"):
            decimal_column(before + data, _zeros(rows), rows, 38, 0).read()


def test_a_varint_that_the_stream_ends_in() -> None:
    for size in range(1, 19):
        with pytest.raises(CorruptFile, match="ends before"):
            decimal_column(b"\2" + b"\x81" * size, _zeros(2), 2, 38, 0).read()


def _zeros(rows: int) -> bytes:
    runs, rest = divmod(rows, 128)
    return (b"\x80" + bytes(128)) * runs + (bytes([256 - rest]) + bytes(rest) if rest else b"")
