"""ORC's bloom filters: exact hash values, damaged filters, writers that hashed wrongly, and the keys of each type."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orc_messages as pb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from work_done import python_calls

import orcidx
from orcidx import CorruptFile, ReadOptions
from orcidx.orc.bloom import BloomFilters, hash_byte_strings, hash_integers
from orcidx.orc.bloom_keys import (
    OLD_CLOCKS_MILLIS,
    distrust_bloom,
    each_hash,
    literal_hashes,
    many_hashes,
    may_wrap,
)
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import CompressionKind, EncodingKind, StreamKind, TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts, unframe
from orcidx.orc.timezones import CALM_FROM, CALM_UNTIL, load_zone
from orcidx.orc.types import LONGEST_SIZED, OrcType

K = TypeKind
OPTIONS = ReadOptions()
FACTS = FileFacts(
    writer=WriterKind.JAVA,
    writer_version=9,
    software_version="",
    compression=CompressionKind.NONE,
    block_size=65536,
    row_index_stride=1000,
    hybrid_calendar=False,
    decimal64=False,
)

WANG = {
    0: 0,
    -1: 6614246905173314819,
    -2: -5218250166726157773,
    -3: 1396019780946710816,
    790302201: 1499534499340523007,
    790302202: -5108695154500810163,
    790302203: -2450623810987162260,
    18000000000: -1097054448615658549,
    9223372036064673413: -4986173376161118712,
    9223372036064673414: 3785699328822078862,
    9223372036064673415: 294188322706112357,
    -9223372036854775805: 3691278333958578070,
    -9223372036854775806: -1192099642781211952,
    -9223372036854775807: -9102499068535824902,
}
DICKENS = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing "
    "before us, we were all going direct to Heaven, we were all going direct the other way."
)
MURMUR = {
    "": 8404154273843829576,
    "a": -2460741455279943289,
    "hello": 4118559451821261121,
    "12345678": -1431689528261165993,
    "123456789": -6669057911568175144,
    DICKENS: 305830725663368540,
}
# The filter is for 128 values and a false positive rate of 5 %, so it has 832 bits and five hashes. The dicts map
# values to the bits that they set.
LONG_BITS = {
    1: {567, 288, 246, 306, 228}, 11: {228, 285, 342, 399, 456}, 111: {802, 630, 458, 545, 717},
    1111: {826, 526, 40, 480, 86}, 0: {0}, -1: {120, 308, 335, 108, 535}, -11: {323, 685, 215, 577, 107},
    -111: {357, 318, 279, 15, 54}, -1111: {572, 680, 818, 434, 232},
}  # fmt: skip
DOUBLE_BITS = {
    1.1: {522, 692, 12, 370, 753}, 11.11: {210, 188, 89, 720, 389}, 111.111: {831, 252, 583, 500, 335},
    1111.1111: {725, 175, 374, 92, 642}, 0.0: {0}, -1.1: {636, 163, 565, 206, 679},
    -11.11: {473, 192, 743, 462, 181}, -111.111: {167, 152, 472, 295, 24}, -1111.1111: {308, 346, 384, 422, 371},
}  # fmt: skip


def positions(key: int, bits: int, hashes: int) -> set[int]:
    """Computes the bits of a hash in plain Python."""
    low, high = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    found = set()
    for i in range(1, hashes + 1):
        combined = (low + i * high) & 0xFFFFFFFF
        if combined >> 31:
            combined = ~combined & 0xFFFFFFFF
        found.add(combined % bits)
    return found


def build(keys: list[int], bits: int = 832, hashes: int = 5) -> bytes:
    """Builds a bitset that contains these hashes."""
    flags = np.zeros(bits, np.uint8)
    for key in keys:
        flags[list(positions(key, bits, hashes))] = 1
    return np.packbits(flags, bitorder="little").tobytes()


def filter_message(bitset: bytes, hashes: int = 5, *, words: str | None = None) -> bytes:
    """Builds a filter message. ``words``: None for utf8bitset, otherwise "packed" or "unpacked" for fixed64 words."""
    if words is None:
        body = pb.blob(3, bitset)
    elif words == "packed":
        body = pb.blob(2, bitset)
    else:
        body = b"".join(pb.varint(2 << 3 | 1) + bitset[i : i + 8] for i in range(0, len(bitset), 8))
    return pb.blob(1, pb.uint(1, hashes) + body)


def text_hashes(texts: list[bytes]) -> list[int]:
    return hash_byte_strings(np.cumsum([0, *map(len, texts)]), b"".join(texts)).tolist()


def double_bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def test_hash_of_integers() -> None:
    assert hash_integers(list(WANG)).tolist() == list(WANG.values())
    assert hash_integers([]).tolist() == []


def test_hash_of_bytes() -> None:
    assert text_hashes([text.encode() for text in MURMUR]) == list(MURMUR.values())
    array = pa.array(list(MURMUR), pa.string())
    _, offsets, data = array.buffers()
    assert hash_byte_strings(np.frombuffer(offsets, np.int32), data).tolist() == list(MURMUR.values())
    for offsets in ([0, 5], [3, 2], [-1, 1]):
        with pytest.raises(ValueError, match="outside"):
            hash_byte_strings(offsets, b"abc")


def test_bits_of_the_reference_filter() -> None:
    for value, bits in LONG_BITS.items():
        assert positions(int(hash_integers([value])[0]), 832, 5) == bits
    for double, bits in DOUBLE_BITS.items():
        assert positions(int(hash_integers([double_bits(double)])[0]), 832, 5) == bits
    assert positions(MURMUR[""], 832, 5) == {656, 807, 480, 151, 304}


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.sampled_from([None, "packed", "unpacked"]))
def test_finds_what_was_added(values: list[int], words: str | None) -> None:
    keys = hash_integers(values)
    bits = build(keys.tolist())
    raw = filter_message(bits, words=words) + filter_message(bytes(8), 1)
    filters = BloomFilters(raw)
    assert filters.reasons == [None, None]
    may = filters.may_contain(np.concatenate([keys, [0, 12345]]))
    assert may[0, : len(values)].all()
    assert not may[1].any()
    ones = set(np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist())
    expected = [positions(key, 832, 5) <= ones for key in (0, 12345)]
    assert may[0, len(values) :].tolist() == expected


def test_kinds_of_bitset_mix() -> None:
    bitsets = [build([key]) for key in (11, 22, 33, 44)]
    raw = b"".join(
        filter_message(bits, words=words) for bits, words in zip(bitsets, (None, "packed", "unpacked", None))
    )
    both = pb.blob(1, pb.uint(1, 5) + pb.blob(3, bitsets[0]) + pb.blob(2, bitsets[1]))
    filters = BloomFilters(raw + both)
    may = filters.may_contain([11, 22, 33, 44])
    assert may.tolist() == [*np.eye(4, dtype=bool).tolist(), [True, False, False, False]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pb.uint(1, 0) + pb.blob(3, bytes(8)), "0 hash functions"),
        (pb.blob(3, bytes(8)), "0 hash functions"),
        (pb.uint(1, 65) + pb.blob(3, bytes(8)), "65 hash functions"),
        (pb.uint(1, 2**31) + pb.blob(3, bytes(8)), "hash functions"),
        (pb.uint(1, 2**64 - 1) + pb.blob(3, bytes(8)), "hash functions"),
        (pb.uint(1, 3), "bitset of 0 bytes"),
        (pb.uint(1, 3) + pb.blob(3, b""), "bitset of 0 bytes"),
        (pb.uint(1, 3) + pb.blob(3, bytes(7)), "bitset of 7 bytes"),
        (pb.uint(1, 3) + pb.blob(2, bytes(9)), "bitset of 9 bytes"),
        (pb.uint(1, 3) + pb.uint(3, 5), "before the format was final"),
    ],
)
def test_damaged_filters_may_contain_everything(body: bytes, reason: str) -> None:
    filters = BloomFilters(filter_message(bytes(8), 1) + pb.blob(1, body))
    assert filters.reasons[0] is None
    assert reason in (filters.reasons[1] or "")
    assert filters.may_contain([1, 2]).tolist() == [[False, False], [True, True]]


def test_bytes_that_are_no_filters() -> None:
    for raw in (b"\x0b", pb.blob(1, b"\x0b"), b"\x0a\x05"):
        with pytest.raises(CorruptFile, match="BloomFilterIndex"):
            BloomFilters(raw)
    assert len(BloomFilters(b"")) == 0
    assert BloomFilters(b"").may_contain([1]).shape == (0, 1)


def encoding(bloom: int = 0) -> ColumnEncoding:
    return ColumnEncoding(EncodingKind.DIRECT_V2, 0, bloom)


@pytest.mark.parametrize(
    ("stream", "kind", "bloom", "facts", "reason"),
    [
        (8, K.STRING, 0, {}, None),
        (8, K.TIMESTAMP, 0, {}, "ORC-135"),
        (8, K.TIMESTAMP, 1, {}, None),
        (8, K.TIMESTAMP, 2, {}, "unknown"),
        (8, K.BOOLEAN, 0, {}, "not used"),
        (8, K.LIST, 0, {}, "not used"),
        (7, K.INT, 0, {}, None),
        (7, K.DATE, 0, {}, None),
        (7, K.STRING, 0, {}, "original kind"),
        (7, K.DECIMAL, 0, {}, "original kind"),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": ""}, "ORC-1024"),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": "1.6.0"}, "ORC-1024"),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": "1.6.11-SNAPSHOT"}, "ORC-1024"),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": "1.7.0"}, "ORC-1024"),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": "1.6.12"}, None),
        (8, K.INT, 1, {"writer": WriterKind.CPP, "software_version": "2.2.2"}, None),
        (8, K.CHAR, 1, {"writer": WriterKind.CPP, "software_version": "2.2.2"}, "CHAR"),
        (8, K.CHAR, 0, {}, None),
        (8, K.BYTE, 1, {"writer": WriterKind.CPP, "software_version": "2.3.1"}, "BYTE"),
        (8, K.BYTE, 0, {}, None),
    ],
)
def test_which_filters_are_believed(
    stream: int, kind: TypeKind, bloom: int, facts: dict[str, Any], reason: str | None
) -> None:
    found = distrust_bloom(stream, OrcType(id=1, kind=kind), encoding(bloom), replace(FACTS, **facts), OPTIONS)
    assert reason in (found or "") if reason else found is None


@pytest.mark.parametrize(("rounding", "facts", "believed"), [
    ("error", {}, True), ("truncate", {}, False), ("half_up", {}, False), ("half_up", {"by_spark": True}, True),
    ("half_up", {"decimal64": True}, True), ("half_up", {"writer": WriterKind.CPP, "software_version": "2.2.2"}, False),
])  # fmt: skip
def test_filters_of_decimals_that_are_rounded(rounding: Any, facts: dict[str, Any], believed: bool) -> None:
    column = OrcType(id=1, kind=K.DECIMAL, precision=10, scale=2)
    options = OPTIONS.override(decimal_rounding=rounding)
    found = distrust_bloom(8, column, encoding(1), replace(FACTS, **facts), options)
    assert (found is None) is believed
    assert believed or rounding in (found or "")


def hashes_of(
    kind: TypeKind, literal: Any, facts: FileFacts = FACTS, node: dict[str, Any] | None = None, **options: Any
) -> list[int] | None:
    column = OrcType(id=1, kind=kind, **(node or {}))
    return literal_hashes(column, literal, facts, OPTIONS.override(**options), zone=load_zone("UTC"))


def longs(*values: int) -> list[int]:
    return hash_integers(list(values)).tolist()


def test_keys_of_numbers() -> None:
    assert hashes_of(K.INT, 11) == longs(11)
    for outside in (2**63, -(2**63) - 1, 2**64, 2**70):
        assert hashes_of(K.LONG, outside) == []
    for inside in (2**63 - 1, -(2**63)):
        assert hashes_of(K.LONG, inside) == longs(inside)
    assert hashes_of(K.FLOAT, 1.1) == longs(double_bits(1.1))
    assert hashes_of(K.DOUBLE, 0.0) == longs(0, -(2**63))
    assert hashes_of(K.DOUBLE, math.nan) is None
    assert hashes_of(K.BOOLEAN, True) is None
    marked = {"attributes": (("spark.sql.catalyst.type", "timestamp_ntz"),)}
    assert hashes_of(K.LONG, 5000, node=marked) == longs(5)
    assert hashes_of(K.LONG, 5001, node=marked) == []
    assert hashes_of(K.LONG, 5001, node=marked, timestamp_ntz=False) == longs(5001)


def test_keys_of_days_and_times() -> None:
    hybrid = replace(FACTS, hybrid_calendar=True)
    assert hashes_of(K.DATE, -171664) == longs(-171664)
    assert hashes_of(K.DATE, -171664, hybrid) == longs(-171655)
    assert hashes_of(K.DATE, -171664, hybrid, calendar="stored") == longs(-171664)
    assert hashes_of(K.DATE, -141430, hybrid) == []
    day = 86_400_000_000_000
    assert hashes_of(K.TIMESTAMP, day + 999_999) == longs(86_400_000)
    assert hashes_of(K.TIMESTAMP, -day - 1) == longs(-86_400_001)
    assert hashes_of(K.TIMESTAMP, 500_000_000) == longs(500, -500)
    assert hashes_of(K.TIMESTAMP, -200_000 * day, hybrid) is None
    assert hashes_of(K.TIMESTAMP, OLD_CLOCKS_MILLIS * 10**6) == longs(OLD_CLOCKS_MILLIS)
    assert hashes_of(K.TIMESTAMP, OLD_CLOCKS_MILLIS * 10**6 - 1) is None
    assert hashes_of(K.TIMESTAMP, day, timezone="Europe/Oslo") is None
    assert hashes_of(K.TIMESTAMP_INSTANT, day, timezone="Europe/Oslo") == longs(86_400_000)


def test_keys_of_wall_clocks_of_other_tables() -> None:
    """The writer and the reader may have different rules for a time zone. Then the keys include the times that other
    rules may give, or the filter is not used."""
    column, hour = OrcType(id=1, kind=K.TIMESTAMP), 3_600_000

    def keys(zone: str | None, year: int) -> list[int] | None:
        literal = int(np.datetime64(f"{year}-06-01", "ns").astype(int))
        return literal_hashes(column, literal, FACTS, OPTIONS, zone=load_zone(zone) if zone else None)

    june = int(np.datetime64("1990-06-01", "ms").astype(int))
    assert keys("GMT-03:00", 1990) == longs(june)
    assert sorted(keys("Europe/Oslo", 1990) or []) == sorted(longs(june - hour, june, june + hour))
    assert len(keys("Asia/Tehran", 1990) or []) == 7
    assert set(longs(june + 3 * hour, june - 3 * hour)) < set(keys("Antarctica/Rothera", 1990) or [])
    assert keys("Europe/Oslo", 1960) is None
    assert keys("Europe/Oslo", 2040) is None
    assert keys("UTC", 2040) is not None
    assert keys(None, 1990) is None
    oslo = load_zone("Europe/Oslo")
    for second, is_known in ((CALM_FROM - 1, False), (CALM_FROM, True), (CALM_UNTIL - 1, True), (CALM_UNTIL, False)):
        assert (literal_hashes(column, second * 10**9, FACTS, OPTIONS, zone=oslo) is not None) == is_known
    instant = OrcType(id=1, kind=K.TIMESTAMP_INSTANT)
    assert literal_hashes(instant, june * 10**6, FACTS, OPTIONS, zone=None) == longs(june)


def test_keys_of_texts() -> None:
    assert hashes_of(K.STRING, b"hello") == [MURMUR["hello"]]
    assert hashes_of(K.BINARY, b"hello") == [MURMUR["hello"]]
    assert hashes_of(K.STRING, "\ufffd".encode(), utf8="replace") is None
    assert hashes_of(K.CHAR, "ü ".encode(), node={"max_length": 3}) == text_hashes(["ü".encode(), "ü  ".encode()])
    assert hashes_of(K.CHAR, b"abc", node={"max_length": 3}) == text_hashes([b"abc"])
    padded = b"a".ljust(LONGEST_SIZED + 1)
    assert hashes_of(K.CHAR, b"a", node={"max_length": LONGEST_SIZED + 1}) == text_hashes([b"a", padded])
    assert hashes_of(K.CHAR, b"a", node={"max_length": LONGEST_SIZED + 2}) is None


def test_integers_that_may_have_been_larger_than_their_type() -> None:
    """A filter may contain the hash of an integer that was too large for its type. In Java's filters, this is possible
    for SHORT and INT, but not for TINYINT, because Java casts TINYINT values before it hashes them."""
    cpp = replace(FACTS, writer=WriterKind.CPP)
    for kind in (K.BYTE, K.SHORT, K.INT, K.LONG, K.STRING):
        column = OrcType(id=1, kind=kind)
        assert may_wrap(column, cpp) == (kind in (K.BYTE, K.SHORT, K.INT))
        assert may_wrap(column, FACTS) == (kind in (K.SHORT, K.INT))


def test_keys_of_many_literals() -> None:
    """Keys are made for a list of literals. Each key has the number of its literal in the list. Literals that have no
    usable key are marked as unknown, not as absent."""

    def each(kind: TypeKind, literals: list[Any], **fields: Any) -> tuple[list[int], list[int], list[bool]]:
        hashes, owners, unknown = each_hash(OrcType(id=1, kind=kind, **fields), literals, FACTS, OPTIONS, zone=None)
        return hashes.tolist(), owners.tolist(), unknown.tolist()

    assert each(K.LONG, [5, -7]) == (longs(5, -7), [0, 1], [False, False])
    assert each(K.LONG, [5, 2**63, -(2**63) - 1, -7]) == (longs(5, -7), [0, 3], [False] * 4)
    assert each(K.STRING, [b"hello", b""]) == (text_hashes([b"hello", b""]), [0, 1], [False, False])
    numbers = (longs(double_bits(1.5), 0, -(2**63)), [0, 2, 2], [False, True, False])
    assert each(K.DOUBLE, [1.5, math.nan, 0.0]) == numbers
    assert each(K.TIMESTAMP, [10**15, 2 * 10**15]) == ([], [], [True, True])
    assert each(K.BOOLEAN, [True]) == ([], [], [True])
    assert many_hashes(OrcType(id=1, kind=K.DOUBLE), [1.5], OPTIONS) is None

    def many(kind: TypeKind, *literals: int, **options: Any) -> list[int] | None:
        found = many_hashes(OrcType(id=1, kind=kind), literals, OPTIONS.override(**options))
        return None if found is None else found.tolist()

    ends = (-(2**63), 2**63 - 1, 0)
    assert many(K.LONG, 5, *ends, 2**63, -(2**63) - 1, 2**64) == longs(5, *ends)
    assert many(K.DATE, -141427, 7, 2**40 - 1) == longs(-141427, 7, 2**40 - 1)
    assert many(K.DATE, -141428, 7) is None
    assert many(K.DATE, 2**40) is None


def test_keys_of_decimals() -> None:
    two = {"precision": 10, "scale": 2}
    for literal, texts in {
        "15": [b"15", b"15.00"],
        "0.5": [b"0.5", b"0.50"],
        "-0.5": [b"-0.5", b"-0.50"],
        "0": [b"0", b"0.00"],
        "-0.00": [b"0", b"0.00"],
        "1.25": [b"1.25"],
        "1E2": [b"100", b"100.00"],
    }.items():
        assert hashes_of(K.DECIMAL, Decimal(literal), node=two) == text_hashes(texts)
    assert hashes_of(K.DECIMAL, Decimal("0.125"), node=two) == []
    whole = {"precision": 10, "scale": 0}
    assert hashes_of(K.DECIMAL, Decimal(100), node=whole) == text_hashes([b"100"])
    assert hashes_of(K.DECIMAL, Decimal(1)) is None
    short = replace(FACTS, decimal64=True)
    assert hashes_of(K.DECIMAL, Decimal("1.25"), short, two) == text_hashes([b"1.25"]) + longs(125)


def filters_of(path: Path, column: int, kind: StreamKind) -> tuple[BloomFilters, orcidx.orc.reader.OrcReader]:
    file = orcidx.open(path)
    reader = file._reader
    offset, length = reader.extents(0)[column, kind]
    (raw,) = reader.storage.read_ranges([(offset, length)])
    return BloomFilters(unframe(raw, reader.tail.postscript, name=kind.name)), reader


def test_bad_filters_of_an_early_c_plus_plus_writer(golden_orc: Path) -> None:
    """With the correct hash function, the filter does not find two of five ids that are in the file. All texts are
    found."""
    path = golden_orc / "bad_bloom_filter_1.6.0.orc"
    ids, reader = filters_of(path, 1, StreamKind.BLOOM_FILTER_UTF8)
    names, _ = filters_of(path, 2, StreamKind.BLOOM_FILTER_UTF8)
    assert ids.may_contain(hash_integers([0, 1, 2, 3, 18000000000]))[0].tolist() == [False, True, True, True, False]
    assert names.may_contain(text_hashes([b"Alice", b"Bob", b"a", b"b", b"Mike"])).all()
    for column in (1, 2):
        node = reader.root.children[column - 1]
        found = reader.footer(0).encodings[column]
        assert "ORC-1024" in (distrust_bloom(8, node, found, reader.facts, OPTIONS) or "")


def test_filters_from_before_the_format_settled(golden_orc: Path) -> None:
    filters, _ = filters_of(golden_orc / "over1k_bloom.orc", 1, StreamKind.BLOOM_FILTER)
    assert len(filters) == 1
    assert filters.reasons[0] is not None
    assert filters.may_contain([1, 2, 3]).all()


def test_filters_are_probed_all_at_once() -> None:
    """Ten thousand filters take as many Python calls as ten filters."""
    one, keys = filter_message(build([1, 2, 3], 1024, 7), 7), hash_integers(range(10))
    few, many = BloomFilters(one * 10), BloomFilters(one * 10_000)
    assert python_calls(lambda: many.may_contain(keys)) == python_calls(lambda: few.may_contain(keys))
