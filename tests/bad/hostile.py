"""Functions that make small hostile ORC files, of at most 1 MB. Such a file claims to contain much more data.

A naive reader takes seconds and gigabytes for such a file.

Each function takes ``scale``, a number from 0 to 1, which reduces what the file claims. So a test run can read a
smaller file of the same shape. The compression is zstd, with which 128 KiB of one repeated byte take four bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import zstandard
from orc_messages import blob, packed, statistics, type_message, uint, varint

NONE, ZSTD = 0, 5
BLOCK = (1 << 23) - 1
PRESENT, DATA, LENGTH, DICTIONARY_DATA, DICTIONARY_COUNT, SECONDARY, ROW_INDEX, BLOOM, BLOOM_UTF8 = range(9)
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = (uint(1, kind) for kind in range(4))
LARGEST_FILE = 1_000_000


@dataclass(frozen=True)
class Hostile:
    """``make(scale)`` returns the bytes. ``where`` is a condition for the file, ``row_range`` the rows to read from
    it."""

    name: str
    make: Callable[[float], bytes]
    where: str | None = None
    row_range: tuple[int, int] | None = None


MAKERS: dict[str, Hostile] = {}


def hostile(
    *, where: str | None = None, row_range: tuple[int, int] | None = None
) -> Callable[[Callable[[float], bytes]], Callable[[float], bytes]]:
    def register(make: Callable[[float], bytes]) -> Callable[[float], bytes]:
        MAKERS[make.__name__] = Hostile(make.__name__, make, where, row_range)
        return make

    return register


# ---------------------------------------------------------------------- files


@cache
def _compressed(chunk: bytes) -> bytes:
    packed_chunk = zstandard.ZstdCompressor(level=3).compress(chunk)
    if len(packed_chunk) >= len(chunk):
        return (len(chunk) << 1 | 1).to_bytes(3, "little") + chunk
    return (len(packed_chunk) << 1).to_bytes(3, "little") + packed_chunk


def framed(data: bytes) -> bytes:
    """Returns ``data`` in compressed chunks."""
    return b"".join(_compressed(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))


def repeated(piece: bytes, times: int) -> bytes:
    """Returns ``piece`` repeated ``times`` times, in compressed chunks. Equal chunks are compressed only once."""
    per_chunk = max(1, BLOCK // len(piece))
    whole, rest = divmod(times, per_chunk)
    return _compressed(piece * per_chunk) * whole + (_compressed(piece * rest) if rest else b"")


@dataclass(frozen=True)
class Stripe:
    """``streams``: (kind, column, bytes as stored). ``extra``: more bytes of the footer, as stored."""

    rows: int
    streams: Sequence[tuple[int, int, bytes]]
    encodings: Sequence[bytes]
    extra: bytes = b""
    timezone: str = "UTC"

    def stored(self) -> tuple[bytes, bytes]:
        data = b"".join(stream for _, _, stream in self.streams)
        records = b"".join(
            blob(1, uint(1, kind) + uint(2, column) + uint(3, len(stream))) for kind, column, stream in self.streams
        )
        footer = records + b"".join(blob(2, encoding) for encoding in self.encodings) + blob(3, self.timezone)
        return data, framed(footer) + self.extra


def orc(
    types: Iterable[bytes],
    stripes: Sequence[Stripe] = (),
    *,
    more_stripes: Callable[[tuple[int, int, int, int, int]], bytes] | None = None,
    footer: bytes = b"",
    framed_footer: bytes = b"",
    metadata: bytes = b"",
    stride: int = 10_000,
    block: int = BLOCK,
) -> bytes:
    """Returns a file. ``more_stripes`` gets the last stripe's information and returns the compressed messages of
    further stripes. ``metadata`` is compressed already."""
    out = bytearray(b"ORC")
    messages = b""
    last = (3, 0, 0, 0, 0)
    for stripe in stripes:
        data, stripe_footer = stripe.stored()
        last = (len(out), 0, len(data), len(stripe_footer), stripe.rows)
        messages += _information(last)
        out += data + stripe_footer
    body = framed(uint(1, 3) + messages + b"".join(blob(4, item) for item in types) + uint(8, stride) + footer)
    body += framed_footer + (more_stripes(last) if more_stripes else b"")
    out += metadata + body
    postscript = uint(1, len(body)) + uint(2, ZSTD) + uint(3, block) + packed(4, (0, 12)) + uint(5, len(metadata))
    postscript += uint(6, 9) + blob(8000, b"ORC")
    made = bytes(out + postscript + bytes([len(postscript)]))
    assert len(made) <= LARGEST_FILE, f"{len(made)} bytes"
    return made


def _information(parts: Sequence[int]) -> bytes:
    return blob(3, b"".join(uint(number, value) for number, value in enumerate(parts, 1)))


def row_type(*kinds: str) -> list[bytes]:
    """A struct with fields a, b, ... of these kinds."""
    names = [chr(97 + i) for i in range(len(kinds))]
    return [type_message("struct", range(1, len(kinds) + 1), names), *(type_message(kind) for kind in kinds)]


def constant_rle(value: int, count: int) -> bytes:
    """Returns an unsigned value ``count`` times in RLEv1, compressed. A run has 130 values in a few bytes."""
    return repeated(bytes([127, 0]) + varint(value), -(-count // 130))


ALL_NULL = bytes([127, 0])
"""A run of byte RLE with 130 zero bytes, which are 1,040 nulls."""


# ---------------------------------------------------------------------- the tail


@hostile(row_range=(0, 10**10))
def rows_of_nothing(scale: float) -> bytes:
    return orc([type_message("struct")], [Stripe(int(10**11 * scale), (), [DIRECT])])


@hostile(row_range=(5, 10**17))
def rows_beyond_counting(scale: float) -> bytes:
    return orc([type_message("struct")], [Stripe(1 << 62, (), [DIRECT])])


@hostile(where="a > 5", row_range=(5, 10**10))
def rows_in_tiny_groups(scale: float) -> bytes:
    """The row index stride is 1, so the index has an entry for each row."""
    groups = int(20_000_000 * scale)
    index = repeated(b"\x0a\x00", groups)
    return orc(
        row_type("bigint"),
        [Stripe(groups, [(ROW_INDEX, 1, index), (DATA, 1, constant_rle(1, groups))], [DIRECT] * 2)],
        stride=1,
    )


@hostile(where="a > 5", row_range=(5, 10**10))
def tiny_groups_in_many_stripes(scale: float) -> bytes:
    stripes = [Stripe(15_000, [(DATA, 1, constant_rle(1, 15_000))], [DIRECT] * 2)] * int(3_000 * scale)
    return orc(row_type("bigint"), stripes, stride=1)


@hostile(where="a > 5")
def empty_streams(scale: float) -> bytes:
    extra = repeated(blob(1, uint(1, DATA) + uint(2, 7)), int(5_000_000 * scale))
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2, extra)])


@hostile(where="a > 5")
def empty_streams_of_unknown_kinds(scale: float) -> bytes:
    extra = b"".join(
        framed(b"".join(blob(1, uint(1, 100 + i) + uint(2, c)) for i in range(start, start + 10_000) for c in range(2)))
        for start in range(0, int(150_000 * scale), 10_000)
    )
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2, extra)])


@hostile(where="a > 5")
def encodings(scale: float) -> bytes:
    extra = repeated(blob(2, b""), int(10_000_000 * scale))
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2, extra)])


@hostile()
def metadata_items(scale: float) -> bytes:
    return orc(row_type("bigint"), framed_footer=repeated(blob(5, blob(1, "k") + blob(2, "v")), int(2_000_000 * scale)))


@hostile()
def stripes_at_one_place(scale: float) -> bytes:
    def more(last: tuple[int, int, int, int, int]) -> bytes:
        return repeated(_information(last), int(1_000_000 * scale))

    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2)], more_stripes=more)


@hostile()
def empty_stripes(scale: float) -> bytes:
    return orc(row_type("bigint"), framed_footer=repeated(_information((3, 0, 0, 0, 0)), int(1_000_000 * scale)))


@hostile()
def stripes_without_bytes(scale: float) -> bytes:
    return orc(row_type("bigint"), framed_footer=repeated(_information((3, 0, 0, 0, 1)), int(1_000_000 * scale)))


@hostile()
def unknown_field(scale: float) -> bytes:
    size = int(400_000_000 * scale)
    return orc(row_type("bigint"), framed_footer=framed(varint(100 << 3 | 2) + varint(size)) + repeated(b"\0", size))


@hostile()
def unknown_numbers(scale: float) -> bytes:
    return orc(row_type("bigint"), framed_footer=repeated(uint(100, 7), int(30_000_000 * scale)))


@hostile()
def statistics_of_the_file(scale: float) -> bytes:
    return orc(row_type("bigint"), framed_footer=repeated(blob(7, b""), int(10_000_000 * scale)))


@hostile(where="a > 5")
def statistics_of_stripes(scale: float) -> bytes:
    """The Metadata message has 300 MB."""
    size = int(300_000_000 * scale) // 2
    metadata = framed(varint(1 << 3 | 2) + varint(2 * size)) + repeated(blob(1, b""), size)
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2)], metadata=metadata)


@hostile(where="a > 5")
def statistics_of_absent_stripes(scale: float) -> bytes:
    metadata = repeated(blob(1, b""), int(100_000_000 * scale))
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2)], metadata=metadata)


@hostile(where="a > 5")
def statistics_of_numbers(scale: float) -> bytes:
    """The typed part of the statistics is repeated a million times."""
    one = statistics(100, False, blob(2, uint(1, 2) + uint(2, 200)))
    whole = blob(1, blob(1, b"") + varint(1 << 3 | 2) + varint(len(one) * int(1_000_000 * scale)))[:0]
    count = int(3_000_000 * scale)
    inner = len(one) * count
    outer = len(blob(1, b"")) + len(varint(1 << 3 | 2) + varint(inner)) + inner
    metadata = framed(whole + varint(1 << 3 | 2) + varint(outer) + blob(1, b"") + varint(1 << 3 | 2) + varint(inner))
    metadata += repeated(one, count)
    return orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2)], metadata=metadata)


# ---------------------------------------------------------------------- types


def _wide(count: int, names: Sequence[str], kind: str = "bigint") -> list[bytes]:
    return [type_message("struct", range(1, count + 1), names), *[type_message(kind)] * count]


@hostile(where="c00007 > 5")
def columns(scale: float) -> bytes:
    count = int(100_000 * scale)
    stripe = Stripe(1, [(DATA, i, b"\x07\0\0\0\x01\x07"[:0]) for i in range(1, 2)], [DIRECT] * (count + 1))
    return orc(_wide(count, [f"c{i:05}" for i in range(count)]), [stripe])


@hostile(where="c00007 > 5")
def columns_with_a_row(scale: float) -> bytes:
    count = int(9_990 * scale)
    data = framed(b"\xff\x08")
    stripe = Stripe(1, [(DATA, i, data) for i in range(1, count + 1)], [DIRECT] * (count + 1))
    return orc(_wide(count, [f"c{i:05}" for i in range(count)]), [stripe])


@hostile(where="a > 5")
def columns_of_one_name(scale: float) -> bytes:
    count = int(100_000 * scale)
    data = framed(b"\xff\x08")
    stripe = Stripe(1, [(DATA, 1, data)], [DIRECT] * (count + 1))
    return orc(_wide(count, ["a"] * count), [stripe])


@hostile()
def long_names(scale: float) -> bytes:
    """Column names have 100 KB, and structs are nested, so that paths are long."""
    name = "n" * int(100_000 * scale)
    depth = 100
    types = [type_message("struct", [level + 1], [name]) for level in range(depth)] + [type_message("bigint")]
    return orc(types, [Stripe(1, [(DATA, depth, framed(b"\xff\x08"))], [DIRECT] * (depth + 1))])


@hostile()
def subtypes(scale: float) -> bytes:
    count = int(20_000_000 * scale)
    inner = framed(varint(2 << 3 | 2) + varint(count)) + repeated(b"\x01", count)
    head = framed(varint(4 << 3 | 2) + varint(count + len(varint(2 << 3 | 2) + varint(count))))
    return orc([], framed_footer=head + inner)


@hostile()
def attributes(scale: float) -> bytes:
    count = int(5_000_000 * scale)
    one = blob(7, blob(1, "k") + blob(2, "v"))
    head = framed(blob(4, type_message("struct", [1], ["a"])) + varint(4 << 3 | 2) + varint(2 + len(one) * count))
    return orc([], framed_footer=head + framed(uint(1, 4)) + repeated(one, count))


@hostile()
def encryption_roots(scale: float) -> bytes:
    count = int(5_000_000 * scale)
    one = blob(3, uint(1, 1))
    head = framed(varint(10 << 3 | 2) + varint(len(one) * count))
    return orc(row_type("bigint"), framed_footer=head + repeated(one, count))


@hostile()
def software_version(scale: float) -> bytes:
    size = int(200_000_000 * scale)
    return orc(row_type("bigint"), framed_footer=framed(varint(12 << 3 | 2) + varint(size)) + repeated(b"v", size))


@hostile()
def time_zone_of_many_letters(scale: float) -> bytes:
    types = row_type("timestamp")
    streams = [(DATA, 1, framed(b"\xff\x08")), (SECONDARY, 1, framed(b"\xff\x08"))]
    return orc(types, [Stripe(1, streams, [DIRECT] * 2, timezone="A" * int(300 + 100_000 * scale))])


# ---------------------------------------------------------------------- values


def _strings(rows: int, entry: int, entries: int, index: bytes) -> Stripe:
    streams = [
        (DATA, 1, index),
        (LENGTH, 1, constant_rle(entry, entries)),
        (DICTIONARY_DATA, 1, repeated(b"x", entry * entries)),
    ]
    return Stripe(rows, streams, [DIRECT, DICTIONARY + uint(2, entries)])


@hostile(where="a = 'y'")
def dictionary_of_one_entry(scale: float) -> bytes:
    rows = int(1_000_000 * scale)
    return orc(row_type("string"), [_strings(rows, int(64_000_000 * scale), 1, constant_rle(0, rows))])


@hostile(where="a = 'y'")
def dictionary_of_a_gigabyte(scale: float) -> bytes:
    return orc(row_type("string"), [_strings(1000, int(1_000_000 * scale), 1_000, constant_rle(0, 1000))])


@hostile(where="a = 'y'")
def dictionary_of_no_letters(scale: float) -> bytes:
    entries = int((1 << 26) * scale)
    return orc(row_type("string"), [_strings(1000, 0, entries, constant_rle(0, 1000))])


@hostile(where="a = 'y'")
def dictionaries_of_columns(scale: float) -> bytes:
    count = 100
    size = int(10_000_000 * scale)
    index, length, data = constant_rle(0, 1000), constant_rle(size, 1), repeated(b"x", size)
    streams = []
    for column in range(1, count + 1):
        streams += [(DATA, column, index), (LENGTH, column, length), (DICTIONARY_DATA, column, data)]
    types = [type_message("struct", range(1, count + 1), ["a", *(f"c{i}" for i in range(1, count))])]
    return orc(
        [*types, *[type_message("string")] * count],
        [Stripe(1000, streams, [DIRECT, *[DICTIONARY + uint(2, 1)] * count])],
    )


@hostile(where="a = 'y'")
def one_string(scale: float) -> bytes:
    size = int(2_000_000_000 * scale)
    streams = [(DATA, 1, repeated(b"x", size)), (LENGTH, 1, framed(b"\xff" + varint(size)))]
    return orc(row_type("string"), [Stripe(1, streams, [DIRECT] * 2)])


@hostile(where="a = 'y'")
def a_string_in_each_column(scale: float) -> bytes:
    size, count = int(60_000_000 * scale), 100
    data, length = repeated(b"x", size), framed(b"\xff" + varint(size))
    streams = [(kind, column, raw) for column in range(1, count + 1) for kind, raw in ((DATA, data), (LENGTH, length))]
    types = [type_message("struct", range(1, count + 1), ["a", *(f"c{i}" for i in range(1, count))])]
    return orc([*types, *[type_message("string")] * count], [Stripe(1, streams, [DIRECT] * (count + 1))])


@hostile()
def one_list(scale: float) -> bytes:
    elements = int(1_000_000_000 * scale)
    types = [type_message("struct", [1], ["a"]), type_message("list", [2]), type_message("bigint")]
    streams = [(LENGTH, 1, framed(b"\xff" + varint(elements))), (DATA, 2, constant_rle(1, elements))]
    return orc(types, [Stripe(1, streams, [DIRECT] * 3)])


@hostile()
def one_list_of_nothing(scale: float) -> bytes:
    elements = int(2_000_000_000 * scale)
    types = [type_message("struct", [1], ["a"]), type_message("list", [2]), type_message("struct")]
    return orc(types, [Stripe(1, [(LENGTH, 1, framed(b"\xff" + varint(elements)))], [DIRECT] * 3)])


@hostile()
def one_map(scale: float) -> bytes:
    elements = int(30_000_000 * scale)
    types = [type_message("struct", [1], ["a"]), type_message("map", [2, 3]), *[type_message("tinyint")] * 2]
    ones = repeated(b"\x7f\x01", -(-elements // 130))
    streams = [(LENGTH, 1, framed(b"\xff" + varint(elements))), (DATA, 2, ones), (DATA, 3, ones)]
    return orc(types, [Stripe(1, streams, [DIRECT] * 4)])


@hostile()
def union_of_lists(scale: float) -> bytes:
    elements = int(10_000_000 * scale)
    count = 100
    types = [type_message("struct", [1], ["a"]), type_message("list", [2])]
    types += [type_message("union", range(3, 3 + count)), *[type_message("bigint")] * count]
    tags = repeated(b"\x7f\0", -(-elements // 130))
    streams = [(LENGTH, 1, framed(b"\xff" + varint(elements))), (DATA, 2, tags), (DATA, 3, constant_rle(1, elements))]
    return orc(types, [Stripe(1, streams, [DIRECT] * (count + 3))])


@hostile(where="a IS NOT NULL")
def nulls(scale: float) -> bytes:
    rows = int(10_000_000_000 * scale)
    return orc(row_type("bigint"), [Stripe(rows, [(PRESENT, 1, repeated(ALL_NULL, rows // 1040))], [DIRECT] * 2)])


@hostile(where="a > 5")
def windows(scale: float) -> bytes:
    """There are many columns, each with a chunk of 8 MB."""
    count = int(500 * scale) + 1
    data = repeated(b"\x7f\0\x02", BLOCK // 3)
    types = [type_message("struct", range(1, count + 1), ["a", *(f"c{i}" for i in range(1, count))])]
    streams = [(DATA, column, data) for column in range(1, count + 1)]
    return orc([*types, *[type_message("bigint")] * count], [Stripe(100_000_000, streams, [DIRECT] * (count + 1))])


@hostile()
def empty_chunks(scale: float) -> bytes:
    """The stream consists of empty chunks. Each has only its header of 3 bytes."""
    empties = b"\x01\0\0" * int(300_000 * scale)
    data = empties + constant_rle(1, 1000)
    return orc(row_type("bigint"), [Stripe(1000, [(DATA, 1, data)], [DIRECT] * 2)])


@hostile(row_range=(10**9, 10**9 + 5))
def rows_to_pass_over(scale: float) -> bytes:
    """The row range starts far inside a stripe that has no index."""
    rows = int(2_000_000_000 * scale) + 10**9
    return orc(row_type("string"), [_strings(rows, 10, 10, constant_rle(0, rows))])


# ---------------------------------------------------------------------- indexes


@hostile(where="a = 5")
def indexes_of_columns(scale: float) -> bytes:
    """Each of many columns has an index of 1 MiB."""
    groups = int(500_000 * scale) + 1
    count = 300
    index, data = repeated(b"\x0a\x00", groups), constant_rle(1, 200)
    streams = [(ROW_INDEX, column, index) for column in range(1, count + 1)]
    streams += [(DATA, column, data) for column in range(1, count + 1)]
    types = [type_message("struct", range(1, count + 1), ["a", *(f"c{i}" for i in range(1, count))])]
    return orc([*types, *[type_message("bigint")] * count], [Stripe(groups, streams, [DIRECT] * (count + 1))], stride=1)


@hostile(where="a = 5", row_range=(3, 7))
def index_with_positions(scale: float) -> bytes:
    """Each index entry has a million positions."""
    entry = int(1_000_000 * scale)
    groups = 50
    index = b"".join([framed(varint(1 << 3 | 2) + varint(entry * 2)) + repeated(uint(1, 0), entry)] * groups)
    streams = [(ROW_INDEX, 1, index), (DATA, 1, constant_rle(1, 5000))]
    return orc(row_type("bigint"), [Stripe(5000, streams, [DIRECT] * 2)], stride=100)


@hostile(where="a = 5")
def bloom_of_words(scale: float) -> bytes:
    words = int(8_000_000 * scale)
    body = framed(uint(1, 3)) + repeated(b"\x11" + bytes(8), words)
    bloom = framed(varint(1 << 3 | 2) + varint(2 + 9 * words)) + body
    index = framed(blob(1, blob(2, statistics(100, False, blob(2, uint(1, 2) + uint(2, 200))))))
    streams = [(ROW_INDEX, 1, index), (BLOOM_UTF8, 1, bloom), (DATA, 1, framed(bytes(range(1, 100)) * 500))]
    return orc(row_type("bigint"), [Stripe(100, streams, [DIRECT] * 2)])


@hostile(where="a IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)")
def blooms_without_number(scale: float) -> bytes:
    count = int(20_000_000 * scale)
    bloom = repeated(blob(1, b""), count)
    index = repeated(b"\x0a\x00", 100)
    streams = [(ROW_INDEX, 1, index), (BLOOM_UTF8, 1, bloom), (DATA, 1, constant_rle(1, 500_000))]
    return orc(row_type("bigint"), [Stripe(1_000_000, streams, [DIRECT] * 2)])


@hostile(where="a = 'y'")
def statistics_of_long_strings(scale: float) -> bytes:
    size = int(100_000_000 * scale)
    inner = blob(4, b"")[:0]
    part = varint(1 << 3 | 2) + varint(size)
    head = varint(4 << 3 | 2) + varint(len(part) + size)
    entry = varint(2 << 3 | 2) + varint(len(head) + len(part) + size)
    index = framed(varint(1 << 3 | 2) + varint(len(entry) + len(head) + len(part) + size) + entry + head + part + inner)
    streams = [(ROW_INDEX, 1, index + repeated(b"x", size)), (DATA, 1, framed(b"x" * 100))]
    streams.append((LENGTH, 1, constant_rle(1, 100)))
    return orc(row_type("string"), [Stripe(100, streams, [DIRECT] * 2)])
