"""The spans of a stripe that ``SpanPlan`` yields, and the amount of work to find them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from orcidx.planner.column_plan import StripeRows
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.span_plan import SpanPlan


def spans_of(plan: SpanPlan, rows: int) -> list[tuple[int, int]]:
    found = []
    while plan.plan(rows, dense=True):
        found.append(plan.take())
    return found


def plan_of(length: int, may: RowSelection, alive: RowSelection) -> SpanPlan:
    return SpanPlan(StripeRows(0, np.array([0, length]), may, may), alive, most=64, batch_size=1 << 20)


def test_rows_that_nobody_wants_are_not_walked_span_by_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work must not depend on the number of rows that are not selected. Here, a billion such rows precede the first
    five selected rows."""
    length, first = 3 * 10**9, 10**9 + 7
    may = RowSelection.from_runs([(first, first + 5), (first + 10**9, first + 10**9 + 1)], length)
    calls = []
    slice_of = RowSelection.slice
    monkeypatch.setattr(RowSelection, "slice", lambda self, *span: (calls.append(span), slice_of(self, *span))[1])
    assert spans_of(plan_of(length, may, RowSelection.all(length)), 4096) == [
        (first, first + 5), (first + 10**9, first + 10**9 + 1),
    ]  # fmt: skip
    assert len(calls) < 10


@pytest.mark.parametrize("seed", range(20))
def test_spans_hold_every_wanted_row_that_lives_once_and_in_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    length = 5000
    may = RowSelection.from_positions(np.flatnonzero(random.random(length) < random.choice([0.001, 0.01, 0.5])), length)
    alive = RowSelection.from_groups(random.random(50) < 0.4, np.arange(0, 5001, 100))
    rows = int(random.integers(1, 300))
    spans = spans_of(plan_of(length, may, alive), rows)
    assert all(0 < stop - start <= rows for start, stop in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    wanted, lives = may.mask(), alive.mask()
    held = [row for start, stop in spans for row in range(start, stop) if wanted[row]]
    assert held == (may & alive).positions().tolist()
    assert all(lives[start:stop].all() for start, stop in spans)


@pytest.mark.parametrize(
    ("length", "rows", "sizes"),
    [
        (2_037_226, 645_276, [509_307, 509_307, 509_307, 509_305]),
        (1_971_690, 967_916, [985_845, 985_845]),  # no small span is left over
        (1_400_000, 700_000, [700_000, 700_000]),
        (700_000, 700_000, [700_000]),
        (720_000, 700_000, [720_000]),
        (900_000, 700_000, [450_000, 450_000]),
        (2_050_000, 1_030_000, [1_025_000, 1_025_000]),
        (1_060_000, 1_030_000, [530_000, 530_000]),  # a batch has at most 1,048,576 rows
        (300_000, 100_000, [100_000, 100_000, 100_000]),  # small spans are not made equal
        (3_000_000, 1 << 20, [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]),  # whole batches
    ],
)
def test_long_spans_are_equal(length: int, rows: int, sizes: list[int]) -> None:
    whole = RowSelection.all(length)
    assert [stop - start for start, stop in spans_of(plan_of(length, whole, whole), rows)] == sizes


def test_equal_spans_of_other_sizes() -> None:
    """The size stays as long as it fits. It is computed again if rows are larger than expected, and in each run."""
    length = 3_000_000
    runs = RowSelection.from_runs([(0, 1_400_000), (2_000_000, 2_900_000)], length)
    plan = plan_of(length, RowSelection.all(length), runs)
    sizes = []
    for rows in (700_000, *(300_000,) * 8):
        assert plan.plan(rows, dense=True)
        start, stop = plan.take()
        sizes.append(stop - start)
        if rows == 700_000:
            plan.drop()  # what was planned after this span
    assert not plan.plan(300_000, dense=True)
    assert sizes == [700_000, *(175_000,) * 4, *(225_000,) * 4]


@pytest.mark.parametrize("seed", range(20))
def test_equal_spans_hold_each_row_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    length = int(random.integers(1, 5_000_000))
    whole = RowSelection.all(length)
    plan, at = plan_of(length, whole, whole), 0
    while True:
        rows = int(random.integers(100_000, 1 << 20))
        if not plan.plan(rows, dense=True):
            break
        start, stop = plan.take()
        assert start == at < stop <= start + (1 << 20)
        at = stop
        if random.random() < 0.2:
            plan.drop()
    assert at == length
