"""The tail of a file and its stripe footers: what real files contain, and what happens with hostile files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import orc_messages as pb
import pytest
from work_done import python_calls

from orcidx import CorruptFile, OrcidxError, Unsupported
from orcidx.orc import metadata
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import CompressionKind, FileTail, TypeKind, read_tail
from orcidx.orc.streams import stream_layout
from orcidx.orc.stripe_footer import parse_stripe_footer
from orcidx.orc.types import build_tree


class Bytes:
    """A reader of bytes that counts its requests."""

    def __init__(self, data: bytes, name: str = "test.orc") -> None:
        self.name = name
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def read_tail(self, length: int) -> tuple[bytes, int]:
        start = max(0, len(self.data) - length)
        self.requests.append((start, len(self.data) - start))
        return self.data[start:], len(self.data)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.requests += ranges
        assert all(offset >= 0 and offset + length <= len(self.data) for offset, length in ranges)
        return [self.data[offset : offset + length] for offset, length in ranges]


def tail_of(data: bytes) -> FileTail:
    return read_tail(Bytes(data))


ROOT = [pb.type_message("struct", [1], ["x"]), pb.type_message("bigint")]
PLAIN = pb.orc_file(ROOT)

# file: (rows, stripes, codec, block size, version, writer, writer version, stride, whether the calendar is hybrid)
FACTS = {
    "TestOrcFile.columnProjection": (21000, 5, "NONE", 262144, "0.12", 0, 1, 1000, True),
    "TestOrcFile.emptyFile": (0, 0, "NONE", 262144, "0.12", 0, 1, 10000, True),
    "TestOrcFile.test1": (2, 1, "ZLIB", 10000, "0.12", 0, 1, 10000, True),
    "TestOrcFile.testMemoryManagementV11": (2500, 25, "NONE", 262144, "0.11", 0, 1, 0, True),
    "TestOrcFile.testSargSkipPickupGroupWithoutIndexJava": (10000, 1, "ZLIB", 262144, "0.12", 0, 9, 10000, True),
    "TestOrcFile.testSnappy": (10000, 2, "SNAPPY", 100, "0.12", 0, 1, 10000, True),
    "TestVectorOrcFile.testLz4": (10000, 2, "LZ4", 1000, "0.12", 0, 4, 10000, True),
    "TestVectorOrcFile.testLzo": (10000, 2, "LZO", 1000, "0.12", 0, 4, 10000, True),
    "bad_bloom_filter_1.6.0": (5, 1, "ZLIB", 65536, "0.12", 1, 6, 10000, False),
    "decimal64_v2": (10, 1, "ZLIB", 262144, "1.9999", 0, 6, 10000, False),
    "demo-11-zlib": (1920800, 385, "ZLIB", 262144, "0.11", 0, 1, 10000, True),
    "orc-file-11-format": (7500, 2, "NONE", 262144, "0.11", 0, 0, 10000, True),
    "version1999": (0, 0, "NONE", 262144, "19.99", 0, 1, None, True),
    "encrypted/sample1": (1, 1, "SNAPPY", 262144, "0.12", 0, 9, 10000, True),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_the_examples(golden_orc: Path, name: str) -> None:
    tail = tail_of((golden_orc / f"{name}.orc").read_bytes())
    facts = tail.facts
    rows, stripes, codec, block_size, version, writer, writer_version, stride, hybrid = FACTS[name]
    assert (tail.footer.rows, len(tail.footer.stripes), tail.format_version) == (rows, stripes, version)
    assert (facts.compression.name, facts.writer, facts.writer_version) == (codec, writer, writer_version)
    assert facts.compression is CompressionKind.NONE or facts.block_size == block_size
    assert stride is None or facts.row_index_stride == stride
    assert facts.hybrid_calendar is hybrid
    assert facts.decimal64 == (name == "decimal64_v2")
    assert pickle.loads(pickle.dumps(tail)) == tail


def test_every_stripe_of_the_examples_adds_up(golden_orc: Path) -> None:
    for path in sorted(golden_orc.rglob("*.orc")):
        data = path.read_bytes()
        tail = tail_of(data)
        root = build_tree(tail.footer.types)
        for number, stripe in enumerate(tail.footer.stripes):
            footer = parse_stripe_footer(data[stripe.footer_offset : stripe.end], tail, number)
            places = [place for _, place in footer.streams.items()]
            assert all(stripe.offset <= at and at + length <= stripe.footer_offset for at, length in places)
            for node in root.walk():
                stream_layout(node, footer.encodings[node.id].kind, decimal64=tail.facts.decimal64)


def test_user_metadata_larger_than_the_first_request(golden_orc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (golden_orc / "TestOrcFile.metaData.orc").read_bytes()
    for first, requests in ((1 << 16, 1), (300, 2), (1 << 14, 2)):
        monkeypatch.setattr(metadata, "TAIL_REQUEST_BYTES", first)
        reader = Bytes(data)
        tail = read_tail(reader)
        assert len(tail.footer.user_metadata["big"]) == 40000
        assert tail.footer.user_metadata["my.meta"] == bytes([1, 2, 3, 4, 5, 6, 7, 255, 254, 127, 128])
        assert len(reader.requests) == requests
        assert sum(length for _, length in reader.requests) <= max(first, 41000)


def test_encrypted_file_names_its_keys(golden_orc: Path) -> None:
    tail = tail_of((golden_orc / "encrypted/sample1.orc").read_bytes())
    encryption = tail.footer.encryption
    assert encryption is not None
    assert encryption.roots
    assert encryption.key_names


def test_empty_file_is_an_empty_table(golden_orc: Path) -> None:
    assert (golden_orc / "zero.orc").stat().st_size == 0
    tail = tail_of(b"")
    assert (tail.footer.rows, tail.footer.types[0].kind, tail.format_version) == (0, TypeKind.STRUCT, "0.12")
    assert len(tail.stripe_statistics[0]) == 1


def test_magic_at_the_head_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive 0.11.0 wrote the magic bytes only at the start of the file, not into the PostScript."""
    footer_length = len(pb.uint(1, 3)) + sum(len(pb.blob(4, item)) for item in ROOT)
    data = pb.orc_file(ROOT, tail=pb.uint(1, footer_length))
    tail = tail_of(data)
    assert (tail.format_version, tail.postscript.version) == ("0.11", ())
    reader = Bytes(b"ORC" + b"\0" * 400 + data[3:])
    monkeypatch.setattr(metadata, "TAIL_REQUEST_BYTES", 300)
    assert len(read_tail(reader).footer.types) == 2
    assert (0, 64) in reader.requests
    with pytest.raises(CorruptFile, match="not an ORC file"):
        tail_of(b"XRC" + data[3:])


def test_rows_come_from_the_stripes() -> None:
    """Some writers do not store the number of rows in the footer, and a stored number can be wrong."""
    footer = pb.stripe_footer([], [b"", b""])
    data = pb.orc_file(ROOT, stripes=[(b"", footer, 5), (b"", footer, 7)], footer_fields=pb.uint(6, 99))
    assert tail_of(data).footer.rows == 12


@pytest.mark.parametrize(
    ("calendar", "writer", "hybrid"),
    [
        (None, None, True),
        (0, 0, True),
        (1, 1, True),
        (2, 0, False),
        (None, 1, False),
        (None, 4, False),
        (None, 9, False),
    ],
)
def test_calendar(calendar: int | None, writer: int | None, hybrid: bool) -> None:
    fields = (b"" if calendar is None else pb.uint(11, calendar)) + (b"" if writer is None else pb.uint(9, writer))
    tail = tail_of(pb.orc_file(ROOT, footer_fields=fields))
    assert tail.facts.hybrid_calendar is hybrid
    assert tail.facts.writer == (writer or 0)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        (pb.uint(2, 7), Unsupported, "compression kind 7"),
        (pb.uint(2, 2**64 - 1), Unsupported, "compression kind"),
        (pb.uint(2, 1) + pb.uint(3, 0), CorruptFile, "block size is 0"),
        (pb.uint(2, 1) + pb.uint(3, 2**40), CorruptFile, "block size"),
        (pb.uint(1, 2**63), CorruptFile, "the footers have"),
        (pb.uint(1, 2**64 - 1) + pb.uint(5, 2), CorruptFile, "the footers have"),
        (pb.uint(5, 2**62), CorruptFile, "the footers have"),
        (pb.uint(7, 2**62), CorruptFile, "the footers have"),
        (pb.uint(1, 0), CorruptFile, "no types"),
        (b"\x0b", CorruptFile, "PostScript"),
    ],
)
def test_hostile_postscript(fields: bytes, error: type[OrcidxError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        tail_of(pb.orc_file(ROOT, postscript_fields=fields))
    assert caught.value.file == "test.orc"


@pytest.mark.parametrize("data", [b"O", b"ORC", b"\0", b"ORC\0", b"ORC\xff", b"\x01", b"x" * 300])
def test_what_is_no_orc_file(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="not an ORC file"):
        tail_of(data)


STRUCT, INT, LIST, MAP, UNION = "struct", "int", "list", "map", "union"


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ([(STRUCT, [0], ["self"])], "pre-order"),
        ([(STRUCT, [1], ["a"]), (STRUCT, [0], ["up"])], "pre-order"),
        ([(STRUCT, [1, 1], ["a", "b"]), (INT, [], [])], "pre-order"),
        ([(STRUCT, [2, 1], ["a", "b"]), (INT, [], []), (INT, [], [])], "pre-order"),
        ([(STRUCT, [1], ["a"])], "the largest type id is 0"),
        ([(STRUCT, [2**32 - 1], ["a"])], "the largest type id is 0"),
        ([(STRUCT, [1], ["a"]), (INT, [], []), (INT, [], [])], "cannot be reached from the root type"),
        ([(STRUCT, [1], []), (INT, [], [])], "has 1 fields, but 0 field names"),
        ([(LIST, [], [])], "list with column id 0 has 0 child types"),
        ([(MAP, [1], []), (INT, [], [])], "map"),
        ([(UNION, [], [])], "no variants"),
        ([(INT, [1], []), (INT, [], [])], "int with column id 0 has 1 child types"),
    ],
)
def test_hostile_type_graphs(types: list[tuple[str, list[int], list[str]]], text: str) -> None:
    with pytest.raises(CorruptFile, match=text):
        tail_of(pb.orc_file([pb.type_message(*item) for item in types]))


def test_nesting_is_bounded() -> None:
    for depth, fine in ((100, True), (101, False), (9_000, False)):
        types = [pb.type_message("list", [number + 1]) for number in range(depth)] + [pb.type_message("int")]
        data = pb.orc_file(types)
        if fine:
            assert str(build_tree(tail_of(data).footer.types)).count("array<") == depth
        else:
            with pytest.raises(Unsupported, match="deeper than"):
                tail_of(data)


def test_unknown_type_kind_is_not_boolean() -> None:
    with pytest.raises(Unsupported, match="type kind 25 of column id 1"):
        tail_of(pb.orc_file([ROOT[0], pb.uint(1, 25)]))


def test_names_must_be_utf8() -> None:
    with pytest.raises(CorruptFile, match="UTF-8"):
        tail_of(pb.orc_file([pb.uint(1, 12) + pb.packed(2, [1]) + pb.blob(3, b"\xff"), ROOT[1]]))


@pytest.mark.parametrize("field", [1, 2, 3, 4])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 10_000])
def test_stripes_stay_in_the_file(field: int, value: int) -> None:
    parts = {1: 3, 2: 0, 3: 0, 4: 0} | {field: value}
    stripe = b"".join(pb.uint(number, part) for number, part in parts.items())
    with pytest.raises(CorruptFile, match="but the footers begin at offset") as caught:
        tail_of(pb.orc_file(ROOT, footer_fields=pb.blob(3, stripe)))
    assert caught.value.stripe == 0


def test_rows_are_bounded() -> None:
    stripe = pb.blob(3, pb.uint(1, 3) + pb.uint(5, 2**63 - 1))
    assert tail_of(pb.orc_file(ROOT, footer_fields=stripe)).footer.rows == 2**63 - 1
    with pytest.raises(CorruptFile, match="but an ORC file can have at most"):
        tail_of(pb.orc_file(ROOT, footer_fields=stripe + stripe))


def test_truncation_anywhere_is_an_error() -> None:
    for end in range(1, len(PLAIN)):
        with pytest.raises(OrcidxError):
            tail_of(PLAIN[:end])


def test_any_flipped_byte_is_read_or_refused(golden_orc: Path) -> None:
    for data in (PLAIN, (golden_orc / "decimal64_v2.orc").read_bytes()):
        for at in range(max(0, len(data) - 400), len(data)):
            for flip in (0x01, 0x80, 0xFF):
                damaged = bytearray(data)
                damaged[at] ^= flip
                try:
                    tail = tail_of(bytes(damaged))
                    assert tail.stripe_statistics
                    build_tree(tail.footer.types)
                except OrcidxError:
                    pass


class TestStripeFooter:
    def one(self, footer: bytes, data: bytes = b"") -> tuple[FileTail, bytes]:
        return tail_of(pb.orc_file(ROOT, stripes=[(data, footer, 1)])), footer

    def test_unknown_stream_kinds_take_room(self) -> None:
        footer = pb.stripe_footer([(77, 1, 3), (9, 0, 4), (0, 1, 2), (77, 1, 1), (1, 1, 5)], [b"", pb.uint(1, 2)])
        tail, raw = self.one(footer, bytes(15))
        parsed = parse_stripe_footer(raw, tail, 0)
        places = parsed.streams
        assert places[1, StreamKind.PRESENT] == (10, 2)
        assert places[1, StreamKind.DATA] == (13, 5)
        assert (0, StreamKind.ENCRYPTED_INDEX) not in places
        assert parsed.writer_timezone == "UTC"

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_one_encoding_for_each_column(self, count: int) -> None:
        tail, raw = self.one(pb.stripe_footer([], [b""] * count))
        with pytest.raises(CorruptFile, match=f"{count} column encodings for 2 columns"):
            parse_stripe_footer(raw, tail, 0)

    def test_unknown_encoding(self) -> None:
        tail, raw = self.one(pb.stripe_footer([], [b"", pb.uint(1, 4)]))
        with pytest.raises(CorruptFile, match="encoding kind 4") as caught:
            parse_stripe_footer(raw, tail, 0)
        assert (caught.value.file, caught.value.stripe) == ("test.orc", 0)

    @pytest.mark.parametrize("length", [6, 2**63, 2**64 - 1])
    def test_streams_stay_in_the_stripe(self, length: int) -> None:
        tail, raw = self.one(pb.stripe_footer([(1, 1, length)], [b"", b""]), bytes(5))
        with pytest.raises(CorruptFile, match="but the stripe's data ends at offset"):
            parse_stripe_footer(raw, tail, 0)

    def test_one_stream_of_a_kind_for_each_column(self) -> None:
        tail, raw = self.one(pb.stripe_footer([(1, 1, 1), (1, 1, 1)], [b"", b""]), bytes(5))
        with pytest.raises(CorruptFile, match="has two streams DATA"):
            parse_stripe_footer(raw, tail, 0)


def test_opening_many_stripes_and_columns_parses_no_statistics() -> None:
    """Opening a file of 3,000 stripes with 200 columns takes fewer calls than the file has statistics, because
    statistics are parsed only when they are needed."""
    types = [pb.type_message("struct", range(1, 201), [f"c{i}" for i in range(200)])] + [ROOT[1]] * 200
    stripe = pb.blob(3, pb.uint(1, 3) + pb.uint(5, 10))
    unit = pb.blob(1, pb.statistics(10, False, pb.blob(2, pb.sint(1, -5) + pb.sint(2, 5)))) * 201
    data = pb.orc_file(types, footer_fields=stripe * 3000, metadata=pb.blob(1, unit) * 3000)
    opened = []
    assert python_calls(lambda: opened.append(tail_of(data))) < 3000 * 10, "of 603,000 statistics"
    (tail,) = opened
    assert len(tail.footer.stripes) == 3000
    bounds, starts, _ = tail.stripe_statistics
    assert (len(bounds), len(starts)) == (3001, 3000 * 201)
