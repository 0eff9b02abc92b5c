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
    return SpanPlan(StripeRows(0, np.array([0, length]), may, may), alive, most=64)


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
