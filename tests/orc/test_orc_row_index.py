"""Row indexes: the positions in real files, the messages for damaged indexes, and the speed of decoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orc_messages as pb
import pytest
from work_done import python_calls

import orcidx
from orcidx import CorruptFile, ReadOptions
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.metadata import FileTail, read_tail
from orcidx.orc.row_index import RowIndex, build_row_index, group_count
from orcidx.orc.statistics import decode_statistics
from orcidx.orc.streams import PositionIterator
from orcidx.orc.stripe_footer import StripeFooter, parse_stripe_footer
from orcidx.orc.types import build_tree
from orcidx.orc.wire import read_index_entries


def test_every_entry_of_the_examples_fits_its_streams(golden_orc: Path) -> None:
    """For every writer, codec and encoding of the example files, all positions of an entry are used and lie inside
    their streams."""
    entries = 0
    for path in sorted(golden_orc.glob("*.orc")):
        if path.stat().st_size == 0:
            continue
        reader = orcidx.open(path)._reader
        nodes = list(reader.root.walk())
        for stripe in range(len(reader.stripes)):
            index = read_row_index(reader, stripe, nodes)
            assert not index.untrusted, path
            for column in index.columns.values():
                assert column.unseekable is None, path
                entries += len(column.positions)
                assert len(column.positions) == len(column.statistics) == index.groups
            assert index.bounds[-1] == reader.stripes[stripe].rows
    assert entries > 6_000


def numbers_of(positions: PositionIterator) -> int:
    """Returns how many positions the iterator has."""
    taken = 0
    try:
        while True:
            positions.take()
            taken += 1
    except CorruptFile:
        return taken


def test_first_entry_without_positions_is_the_start(golden_orc: Path) -> None:
    reader = orcidx.open(golden_orc / "TestStringDictionary.testRowIndex.orc")._reader
    index = read_row_index(reader, 0, reader.root.children)
    table = index.columns[1].positions
    assert table.bounds[1] == 0
    assert table.iterator(0).take() == 0
    assert numbers_of(index.positions([1], 1)[1]) == 5
    data = index.stream_positions(1, StreamKind.DATA)
    assert data is not None
    assert (data.offsets[0], data.mid_run[0]) == (0, False)
    assert index.stream_positions(1, StreamKind.DICTIONARY_DATA) is None
    assert index.bounds.tolist() == list(range(0, 32769, 4096))


def test_streams_of_an_uncompressed_file(golden_orc: Path) -> None:
    reader = orcidx.open(golden_orc / "TestOrcFile.columnProjection.orc")._reader
    index = read_row_index(reader, 0, reader.root.walk())
    data = index.stream_positions(1, StreamKind.DATA)
    assert data is not None
    assert data.within is None
    assert (np.diff(data.offsets) > 0).all()
    assert index.unseekable([0, 1, 2]) is None
    assert "no row index" in (index.unseekable([1, 99]) or "")


@pytest.mark.parametrize(
    ("rows", "stride", "groups"), [(0, 10, 0), (10, 10, 1), (11, 10, 2), (5, 0, 1), (0, 0, 0), (2**62, 1, 2**62)]
)
def test_group_count(rows: int, stride: int, groups: int) -> None:
    assert group_count(rows, stride) == groups


def made(
    entries: list[bytes], *, rows: int = 25, stride: int = 10, stream: bytes | None = None, present: int | None = None
) -> tuple[RowIndex, FileTail, StripeFooter]:
    """Makes the index of a bigint column whose DATA stream has 100 bytes."""
    raw = b"".join(pb.blob(1, entry) for entry in entries) if stream is None else stream
    streams = [(6, 1, len(raw)), *([] if present is None else [(0, 1, present)]), (1, 1, 100)]
    data = raw + bytes(100 + (present or 0))
    footer = pb.stripe_footer(streams, [b"", pb.uint(1, 2)])
    types = [pb.type_message("struct", [1], ["x"]), pb.type_message("bigint")]
    stripe = pb.blob(3, b"".join(pb.uint(i, part) for i, part in enumerate((3, 0, len(data), len(footer), rows), 1)))
    file = pb.orc_file(types, footer_fields=stripe + pb.uint(8, stride))
    file = file[:3] + data + footer + file[3:]

    class Reader:
        name = "made.orc"

        def read_tail(self, length: int) -> tuple[bytes, int]:
            return file, len(file)

        def read_ranges(self, ranges: object) -> list[bytes]:
            raise AssertionError

    tail = read_tail(Reader())
    parsed = parse_stripe_footer(footer, tail, 0)
    nodes = list(build_tree(tail.footer.types).walk())
    return build_row_index(tail, 0, parsed, nodes, {1: raw}), tail, parsed


def entry(*positions: int) -> bytes:
    return pb.packed(1, positions)


def test_a_sound_index() -> None:
    index, _, _ = made([entry(0, 0), entry(40, 3), entry(100, 0)])
    assert (index.groups, index.bounds.tolist(), index.unseekable([1])) == (3, [0, 10, 20, 25], None)
    data = index.stream_positions(1, StreamKind.DATA)
    assert data is not None
    assert (data.offsets.tolist(), data.mid_run.tolist()) == ([0, 40, 100], [False, True, False])
    assert index.columns[1].statistics.rows.tolist() == [10, 10, 5]


def test_a_huge_stride_makes_one_group() -> None:
    index, _, _ = made([entry(0, 0)], rows=2**63 - 1, stride=2**64 - 1)
    assert index.bounds.tolist() == [0, 2**63 - 1]


def test_positions_of_present_come_first() -> None:
    index, _, _ = made([entry(0, 0, 0, 0, 0), entry(5, 1, 8, 9, 9), entry(6, 0, 0, 50, 0)], present=6)
    present = index.stream_positions(1, StreamKind.PRESENT)
    assert present is not None
    assert present.offsets.tolist() == [0, 5, 6]
    assert numbers_of(index.positions([1], 1)[1]) == 5


@pytest.mark.parametrize(
    ("entries", "present", "reason"),
    [
        ([entry(0, 0), entry(101, 0), entry(101, 0)], None, "beyond the 100 bytes of stream DATA"),
        ([entry(0, 0), entry(2**63 - 1, 0), entry(2**63 - 1, 0)], None, "beyond the 100 bytes"),
        ([entry(0, 0), entry(50, 0), entry(40, 0)], None, "goes backwards"),
        ([entry(0, 0), entry(50), entry(60, 0)], None, "has 1 positions instead of 2"),
        ([entry(0, 0), entry(50, 0, 0), entry(60, 0)], None, "has 3 positions instead of 2"),
        ([entry(0, 0), entry(), entry(60, 0)], None, "has 0 positions"),
        ([entry(*[0] * 5), entry(0, 0, 9, 0, 0), entry(0, 0, 0, 0, 0)], 6, "beyond a byte of stream PRESENT"),
    ],
)
def test_damaged_positions_keep_the_statistics(entries: list[bytes], present: int | None, reason: str) -> None:
    index, _, _ = made(entries, present=present)
    assert reason in (index.unseekable([1]) or "")
    assert index.stream_positions(1, StreamKind.DATA) is None
    assert len(index.columns[1].statistics) == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"entries": [entry(0, 0)] * 2}, "the row index has 2 entries, but the stripe has 3 row groups"),
        ({"entries": [entry(0, 0)] * 4}, "the row index has 4 entries, but the stripe has 3 row groups"),
        ({"entries": [], "stream": b"\x0b"}, "damaged row index"),
        ({"entries": [entry(2**63, 0)] * 3}, "below 2**63"),
        ({"entries": [entry(0, 0)] * 3, "stride": 0}, "no row index stride"),
        ({"entries": [entry(0, 0)] * 3, "rows": 2**62, "stride": 1}, "row groups"),
        ({"entries": [entry(0, 0) + pb.blob(2, b"\x0b")] * 3}, "damaged row index"),
    ],
)
def test_damaged_indexes_are_left_out(options: dict, reason: str) -> None:
    index, tail, _ = made(**options)
    assert not index.columns
    assert reason in index.untrusted[1]
    assert reason in (index.unseekable([1]) or "")
    assert index.bounds.tolist() == [0, tail.footer.stripes[0].rows]


def test_flipped_bytes_never_escape() -> None:
    whole = b"".join(
        pb.blob(1, entry(at, 0) + pb.blob(2, pb.statistics(10, False, pb.blob(2, pb.sint(1, at) + pb.sint(2, at + 5)))))
        for at in (0, 40, 80)
    )
    index, tail, footer = made([], stream=whole)
    assert not index.untrusted
    nodes = list(build_tree(tail.footer.types).walk())
    for at in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            found = build_row_index(tail, 0, footer, nodes, {1: bytes(damaged)})
            assert found.untrusted or len(found.columns[1].positions) == 3
            for column in found.columns.values():
                bound_statistics(column.statistics, tail.facts, ReadOptions())


def unit(number: int, kind: TypeKind) -> bytes:
    if kind is TypeKind.STRING:
        return pb.blob(4, pb.blob(1, f"key{number:09d}") + pb.blob(2, f"key{number + 9:09d}") + pb.sint(3, 120_000))
    if kind is TypeKind.DECIMAL:
        return pb.blob(6, pb.blob(1, f"{number}.25") + pb.blob(2, f"{number + 9}.5") + pb.blob(3, "99999.25"))
    return pb.blob(2, pb.sint(1, number) + pb.sint(2, number + 9) + pb.sint(3, number * 10))


@pytest.mark.parametrize("kind", [TypeKind.LONG, TypeKind.STRING, TypeKind.DECIMAL])
def test_entries_are_decoded_and_compared_all_at_once(kind: TypeKind) -> None:
    """Ten thousand entries take as many Python calls as a hundred."""
    _, tail, _ = made([entry(0, 0)] * 3)
    node = replace(build_tree(tail.footer.types).children[0], kind=kind, precision=20, scale=2)
    literal = {TypeKind.LONG: 500, TypeKind.STRING: b"key000000500"}.get(kind, 500)

    def found(count: int) -> int:
        raw = b"".join(
            pb.blob(
                1, entry(number * 7, number % 65536, 300) + pb.blob(2, pb.statistics(10_000, False, unit(number, kind)))
            )
            for number in range(count)
        )
        may: list[Any] = []

        def prune() -> None:
            entries = read_index_entries(raw)
            rows = np.full(count, 10_000)
            statistics = decode_statistics(node, "row_group", raw, entries[2:], rows=rows, stripes=[0] * count)
            column = bound_statistics(statistics, tail.facts, ReadOptions())
            may.append((column.lower.compare(literal) <= 0) & (column.upper.compare(literal) >= 0))

        calls = python_calls(prune)
        assert may[0].sum() == (9 if kind is TypeKind.DECIMAL else 10)
        return calls

    assert found(10_000) <= found(1_000) + 5
