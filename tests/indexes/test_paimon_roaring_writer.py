"""The kernels that write bitmaps give the same bytes as pyroaring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from orcidx.paimon.bit_slices import BitSlices
from orcidx.paimon.roaring import read_bitmap, write_bitmap
from orcidx.paimon.roaring_writer import group_rows, write_groups, write_slices

SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "one": lambda rng: np.array([7]),
    "two containers": lambda rng: np.array([65535, 65536]),
    "sparse": lambda rng: np.unique(rng.integers(0, 1 << 22, 500)),
    "array of 4096": lambda rng: np.arange(4096) * 3,
    "bitset of 4097": lambda rng: np.arange(4097) * 3,
    "half": lambda rng: np.flatnonzero(rng.random(200_000) < 0.5),
    "nearly all": lambda rng: np.flatnonzero(rng.random(200_000) < 0.9999),
    "all of a container": lambda rng: np.arange(65536),
    "run over three containers": lambda rng: np.arange(60_000, 140_000),
    "runs in four containers": lambda rng: np.concatenate([np.arange(i << 16, (i << 16) + 99) for i in range(4)]),
    "runs no better than an array": lambda rng: np.array([1, 2, 3, 4, 8, 9]),
    "run of two": lambda rng: np.array([1, 2]),
    "run of three": lambda rng: np.array([1, 2, 3]),
    "highest rows": lambda rng: np.array([0, (1 << 31) - 2, (1 << 32) - 1]),
    "bitset with runs as long": lambda rng: np.concatenate([np.arange(i * 32, i * 32 + 20) for i in range(2048)]),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_bytes_are_those_of_the_library(name: str, rng: np.random.Generator) -> None:
    rows = SHAPES[name](rng).astype(np.uint32)
    data, sizes = write_groups(rows, np.array([0, len(rows)]))
    assert data == write_bitmap(BitMap(rows))
    assert sizes.tolist() == [len(data)]


@pytest.mark.parametrize("containers", [1, 3, 4, 7, 8, 9, 15, 16, 17])
def test_runs_in_any_number_of_containers_are_read(containers: int) -> None:
    """The format has one bit for each container, which says whether the container holds runs."""
    rows = np.concatenate([np.arange(i << 16, (i << 16) + 99) for i in range(containers)]).astype(np.uint32)
    data, _ = write_groups(rows, np.array([0, len(rows)]))
    assert read_bitmap(b"before" + data + b"behind", 6) == (BitMap(rows), 6 + len(data))


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 200_000), min_size=1, max_size=30), max_size=6))
def test_groups(groups: list[set[int]]) -> None:
    rows = np.array([row for group in groups for row in sorted(group)], np.uint32)
    starts = np.cumsum([0, *map(len, groups)])
    data, sizes = write_groups(rows, starts)
    expected = [write_bitmap(BitMap(group)) for group in groups]
    assert data == b"".join(expected)
    assert sizes.tolist() == [len(stored) for stored in expected]


@settings(max_examples=50)
@given(st.dictionaries(st.integers(0, 300_000), st.integers(0, 1023), max_size=50), st.integers(10, 64))
def test_slices(numbers: dict[int, int], count: int) -> None:
    rows = sorted(numbers)
    stored = write_slices(np.array([numbers[row] for row in rows], np.int64), np.array(rows, np.uint32), count)
    expected = [BitMap(row for row in rows if numbers[row] >> bit & 1) for bit in range(count)]
    assert stored == [write_bitmap(bitmap) for bitmap in expected]


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 31) | st.none(), max_size=60),
    st.sets(st.integers(-2, 40), max_size=12),
    st.integers(-2, 40),
)
def test_comparisons_of_slices(values: list[int | None], asked: set[int], number: int) -> None:
    rows = np.array([row for row, value in enumerate(values) if value is not None], np.uint32)
    present = np.array([value for value in values if value is not None], np.int64)
    bitmaps = [read_bitmap(data)[0] for data in write_slices(present, rows, 5)]
    slices = BitSlices(BitMap(rows), 5, lambda first, stop: bitmaps[first:stop])
    known = [(row, value) for row, value in enumerate(values) if value is not None]
    assert set(slices.any_of(sorted(asked))) == {row for row, value in known if value in asked}
    assert set(slices.equal(number)) == {row for row, value in known if value == number}
    assert set(slices.above(number)) == {row for row, value in known if value > number}
    assert set(slices.below(number)) == {row for row, value in known if value < number}


def test_rows_by_code(rng: np.random.Generator) -> None:
    codes = rng.integers(0, 50, 10_000).astype(np.int32)
    rows = np.flatnonzero(np.ones(10_000)).astype(np.uint32) * 3
    grouped, starts = group_rows(codes, rows, 60)
    assert grouped.tolist() == rows[np.argsort(codes, kind="stable")].tolist()
    assert np.diff(starts).tolist() == np.bincount(codes, minlength=60).tolist()


def test_wrong_arguments() -> None:
    some = np.array([1, 2], np.uint32)
    with pytest.raises(ValueError, match="ascend"):
        write_groups(np.array([2, 1], np.uint32), np.array([0, 2]))
    with pytest.raises(ValueError, match="ascend"):
        write_groups(np.array([2, 2], np.uint32), np.array([0, 2]))
    for starts in ([0, 3], [1, 0], [0, 0], [-1, 1]):
        with pytest.raises(ValueError, match="no rows"):
            write_groups(some, np.array(starts))
    with pytest.raises(ValueError, match="does not fit"):
        write_slices(np.array([1, 4]), some, 2)
    with pytest.raises(ValueError, match="does not fit"):
        write_slices(np.array([1, -1]), some, 2)
    for rows in ([2, 1], [2, 2]):
        with pytest.raises(ValueError, match="does not ascend"):
            write_slices(np.array([1, 1]), np.array(rows, np.uint32), 2)
    with pytest.raises(ValueError, match="ascend"):
        write_slices(np.array([1, 1]), np.array([2, 1], np.uint32), 2)
    with pytest.raises(ValueError, match="slices"):
        write_slices(np.array([1]), some, 2)
    with pytest.raises(ValueError, match="slices"):
        write_slices(np.array([1, 1]), some, 65)
    with pytest.raises(ValueError, match="code 2 is not below 2"):
        group_rows(np.array([0, 2], np.int32), some, 2)
    with pytest.raises(ValueError, match="1 codes, but 2 rows"):
        group_rows(np.array([0], np.int32), some, 2)
    assert write_groups(np.empty(0, np.uint32), np.array([0]))[0] == b""
    assert write_slices(np.empty(0, np.int64), np.empty(0, np.uint32), 2) == [write_bitmap(BitMap())] * 2
