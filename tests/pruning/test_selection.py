"""Compares RowSelection with Python sets: every operation, both forms, and long chains of operations."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyroaring import BitMap, BitMap64

from orcidx.errors import InvalidQuery
from orcidx.pruning.row_forms import bitmap_of_rows
from orcidx.pruning.selection import RowSelection


def check(selection: RowSelection, rows: set[int], length: int) -> None:
    """Checks that the selection has exactly ``rows``, and that its runs are in canonical form."""
    runs = selection.runs()
    assert runs.dtype == np.int64
    assert runs.shape == (len(runs), 2)
    assert not runs.flags.writeable
    assert (runs[:, 0] < runs[:, 1]).all()
    assert (runs[1:, 0] > runs[:-1, 1]).all()
    assert selection.length == length
    assert selection.count == len(selection) == len(rows)
    assert selection.positions().tolist() == sorted(rows)
    assert set(np.flatnonzero(selection.mask()).tolist()) == rows
    assert selection.mask().dtype == bool
    assert len(selection.mask()) == length
    assert set(selection.bitmap()) == rows
    assert selection.is_empty == (not rows)
    assert selection.is_all == (len(rows) == length)


LENGTH = 60


def build(rows: set[int], form: str, length: int = LENGTH) -> RowSelection:
    if form == "bitmap":
        return RowSelection.from_bitmap(BitMap(rows), length)
    if form == "positions":
        return RowSelection.from_positions(np.array(list(rows)[::-1], np.int64), length)
    if form == "runs":
        return RowSelection.from_runs([(row, row + 1) for row in rows], length)
    mask = np.zeros(length, bool)
    mask[list(rows)] = True
    return RowSelection.from_mask(mask)


row_sets = st.sets(st.integers(0, LENGTH - 1))
forms = st.sampled_from(["bitmap", "positions", "runs", "mask"])
selections = st.tuples(row_sets, forms)


@given(selections, selections)
def test_algebra(left, right):
    (a, form_a), (b, form_b) = left, right
    x, y = build(a, form_a), build(b, form_b)
    check(x, a, LENGTH)
    check(x & y, a & b, LENGTH)
    check(x | y, a | b, LENGTH)
    check(x - y, a - b, LENGTH)
    check(~x, set(range(LENGTH)) - a, LENGTH)
    assert x.issubset(y) == (a <= b)
    assert (x & y).issubset(y)
    assert (x == y) == (a == b)
    assert x == build(a, form_b)
    assert hash(x) == hash(build(a, form_b))
    again = pickle.loads(pickle.dumps(x))
    assert again == x
    check(again, a, LENGTH)


@given(selections, st.data())
def test_and_then_selects_among_the_selected(outer, data):
    rows, form = outer
    inner = data.draw(st.sets(st.integers(0, len(rows) - 1))) if rows else set()
    ordered = sorted(rows)
    inside = RowSelection.from_positions(np.array(sorted(inner), np.int64), len(rows))
    check(build(rows, form).and_then(inside), {ordered[i] for i in inner}, LENGTH)


@given(selections, st.integers(0, LENGTH), st.integers(0, LENGTH), st.integers(0, 20), st.integers(0, LENGTH + 3))
def test_slice_shift_and_limit(selection, a, b, extra, n):
    rows, form = selection
    start, stop = sorted((a, b))
    x = build(rows, form)
    check(x.slice(start, stop), {row - start for row in rows if start <= row < stop}, stop - start)
    check(x.shift_into(LENGTH + 20, extra), {row + extra for row in rows}, LENGTH + 20)
    check(x.limit(n), set(sorted(rows)[:n]), LENGTH)


@given(st.lists(selections, max_size=4))
def test_concat(parts):
    whole = {row + LENGTH * i for i, (rows, _) in enumerate(parts) for row in rows}
    check(RowSelection.concat([build(*part) for part in parts]), whole, LENGTH * len(parts))


@given(selections, st.lists(st.integers(0, LENGTH), min_size=1, max_size=12).map(sorted))
def test_groups(selection, bounds):
    rows, form = selection
    x = build(rows, form)
    edges = np.array(bounds, np.int64)
    expected = [sum(lo <= row < hi for row in rows) for lo, hi in pairwise(bounds)]
    assert x.count_in(edges).tolist() == expected
    assert x.any_in(edges).tolist() == [n > 0 for n in expected]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), st.integers(0, 3))
def test_from_groups(groups, first):
    bounds = np.cumsum([first, *(size for size, _ in groups)])
    mask = np.array([keep for _, keep in groups], bool)
    rows = {row for lo, hi, keep in zip(bounds, bounds[1:], mask) if keep for row in range(lo, hi)}
    check(RowSelection.from_groups(mask, bounds), rows, int(bounds[-1]))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), max_size=10))
def test_from_runs_takes_any_order_and_overlap(runs):
    check(RowSelection.from_runs(runs, 50), {row for lo, hi in runs for row in range(lo, hi)}, 50)


class Chain(RuleBasedStateMachine):
    """Applies the same long chain of operations to a selection and to a set."""

    @initialize(rows=row_sets, form=forms)
    def start(self, rows, form):
        self.rows, self.selection = set(rows), build(rows, form)

    @rule(rows=row_sets, form=forms, op=st.sampled_from("&|-"))
    def combine(self, rows, form, op):
        other = build(rows, form)
        if op == "&":
            self.rows, self.selection = self.rows & rows, self.selection & other
        elif op == "|":
            self.rows, self.selection = self.rows | rows, self.selection | other
        else:
            self.rows, self.selection = self.rows - rows, self.selection - other

    @rule()
    def invert(self):
        self.rows, self.selection = set(range(LENGTH)) - self.rows, ~self.selection

    @rule(cut=st.integers(0, LENGTH))
    def rotate(self, cut):
        tail, head = self.selection.slice(cut, LENGTH), self.selection.slice(0, cut)
        self.selection = RowSelection.concat([tail, head])
        self.rows = {(row - cut) % LENGTH for row in self.rows}

    @rule()
    def through_bitmap(self):
        self.selection = RowSelection.from_bitmap(self.selection.bitmap(), LENGTH)

    @invariant()
    def same(self):
        check(self.selection, self.rows, LENGTH)


TestChain = Chain.TestCase
TestChain.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


def test_all_and_none_of_an_empty_span():
    assert RowSelection.all(0) == RowSelection.none(0)
    assert RowSelection.all(0).is_all
    assert RowSelection.all(0).is_empty
    check(RowSelection.from_positions([], 5), set(), 5)
    check(RowSelection.concat([]), set(), 0)


def test_long_sparse_and_full_bitmaps_become_runs_without_listing_their_rows():
    bitmap = BitMap(range(3_000_000_000))
    bitmap.discard(1_500_000_000)
    bitmap.add(4_000_000_000)
    selection = RowSelection.from_bitmap(bitmap, 1 << 32)
    assert selection.runs().tolist() == [
        [0, 1_500_000_000],
        [1_500_000_001, 3_000_000_000],
        [4_000_000_000, 4_000_000_001],
    ]
    far = RowSelection.from_bitmap(BitMap64([1 << 40, (1 << 40) + 1]), 1 << 41)
    assert far.runs().tolist() == [[1 << 40, (1 << 40) + 2]]
    assert isinstance(far.bitmap(), BitMap64)
    assert (~far).count == (1 << 41) - 2


@pytest.mark.parametrize("base", [0, 1 << 33])
def test_runs_of_any_length_become_a_bitmap(base):
    """Short runs are added to the bitmap as one array, and each long run is added alone."""
    runs, at = [], base
    for rows in (1, 3, 4, 5, 300, 2, 70_000, 4, 3):
        runs.append((at, at + rows))
        at += rows + 1
    bitmap = RowSelection.from_runs(runs, at).bitmap()
    assert list(bitmap) == [row for start, stop in runs for row in range(start, stop)]


def test_a_scattered_bitmap_stays_one_in_algebra():
    bitmap = BitMap(range(0, 1_000_000, 3))
    selection = RowSelection.from_bitmap(bitmap, 1_000_000) & RowSelection.from_runs([(10, 500_000)], 1_000_000)
    assert selection._runs is None
    assert selection.bitmap() == bitmap & BitMap(range(10, 500_000))


def test_the_caller_cannot_change_it():
    bitmap = BitMap([1, 2])
    selection = RowSelection.from_bitmap(bitmap, 10)
    bitmap.add(5)
    selection.bitmap().add(6)
    check(selection, {1, 2}, 10)
    with pytest.raises(AttributeError):
        selection.length = 5
    with pytest.raises(TypeError, match="is_empty"):
        bool(selection)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RowSelection.from_runs([(0, 11)], 10),
        lambda: RowSelection.from_runs([(-1, 3)], 10),
        lambda: RowSelection.from_runs([(5, 3)], 10),
        lambda: RowSelection.from_positions([10], 10),
        lambda: RowSelection.from_positions([-1], 10),
        lambda: RowSelection.from_bitmap(BitMap([10]), 10),
        lambda: RowSelection.from_groups(np.array([True]), np.array([0])),
        lambda: RowSelection.all(-1),
        lambda: RowSelection.all(3) & RowSelection.all(4),
        lambda: RowSelection.all(3).slice(2, 4),
        lambda: RowSelection.all(3).shift_into(4, 2),
        lambda: RowSelection.all(3).and_then(RowSelection.all(2)),
    ],
)
def test_rows_outside_the_span_are_refused(wrong):
    with pytest.raises(InvalidQuery):
        wrong()


def test_groups_of_all_rows_count_the_rows_inside_of_the_span():
    assert RowSelection.all(10).count_in([0, 2, 5, 10]).tolist() == [2, 3, 5]
    assert RowSelection.all(10).count_in([0, 5, 20]).tolist() == [5, 5]
    assert RowSelection.all(10).count_in([20, 30]).tolist() == [0]


@pytest.mark.parametrize("form", [RowSelection.all(9), RowSelection.from_positions([1, 5], 9)])
def test_a_selection_is_pickled_in_every_form(form):
    as_bitmap = RowSelection.from_bitmap(BitMap(form.positions()), 9)
    for selection in (form, as_bitmap):
        again = pickle.loads(pickle.dumps(selection))
        assert again == selection
        assert again.runs().tolist() == form.runs().tolist()


def test_bitmaps_of_both_widths_hold_the_same_rows():
    narrow, wide = (RowSelection.from_bitmap(kind([1, 5, 900]), 1000) for kind in (BitMap, BitMap64))
    assert narrow == wide
    assert wide == narrow
    assert narrow != RowSelection.from_bitmap(BitMap64([1, 5, 901]), 1000)


def test_all_but_a_narrow_bitmap_in_a_span_beyond_32_bits():
    length = (1 << 32) + 5
    inverted = ~RowSelection.from_bitmap(BitMap([0, 7]), length)
    assert inverted.runs().tolist() == [[1, 7], [8, length]]
    assert (~RowSelection.from_bitmap(BitMap64([0, length - 1]), length)).runs().tolist() == [[1, length - 1]]


def test_groups_that_begin_behind_the_first_row():
    for first in (0, 1, 2):
        found = RowSelection.from_groups(np.array([True, True]), np.array([first, 5, 9]))
        assert found.runs().tolist() == [[first, 9]]
        assert found.is_all == (first == 0)
    assert RowSelection.from_groups(np.array([True, False, True]), np.array([0, 1, 1, 3])) == RowSelection.all(3)


@pytest.mark.parametrize("kind", [BitMap, BitMap64])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.uint8])
def test_a_bitmap_of_row_numbers(kind: type[BitMap | BitMap64], dtype: type[np.integer[Any]]) -> None:
    rows = np.array([7, 3, 200, 3, 0, 9], dtype)
    for some in (rows, rows[::2], rows[:0]):
        made = bitmap_of_rows(some, kind)
        assert type(made) is kind
        assert list(made) == sorted(set(some.tolist()))
    largest = (1 << 32) - 1
    assert list(bitmap_of_rows(np.array([largest]), kind)) == [largest]
