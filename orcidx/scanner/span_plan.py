"""``SpanPlan``: which rows of a stripe are read at once, some spans in advance.

What a span takes is known once it is decoded, and the next ones are cut by that. Threads can go ahead only as far as
it is settled what will be asked for, so that the next spans are cut before the present one is read: the further the
scan has come, the more. This is so whatever the number of threads, for batches must not depend on it.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from orcidx.planner.column_plan import StripeRows
from orcidx.pruning.selection import RowSelection

__all__ = ["FIRST_ROWS", "SpanPlan"]

FIRST_ROWS = 4096
"""Rows of the first read of a stripe whose row width is not known yet: for memory, as time is the same (decision
0108)."""

GROWTH = 8
"""While it is not known whether the other columns are read side by side, a read is at most so many times as long as
the one before: what is read until then is read by few threads."""

DEPTH = 8
"""Spans that are cut before the present one is read, at most. More would react late to rows that grow."""

Span = tuple[int, int]


class SpanPlan:
    """Spans (start, stop) inside runs of living row groups, trimmed to wanted rows.

    ``most``: rows of the first span, where others follow with ``GROWTH``.
    """

    def __init__(self, rows: StripeRows, alive: RowSelection, *, most: int) -> None:
        self._rows = rows
        self._runs: list[list[int]] = alive.runs().tolist()
        self._most = most
        self._run = 0
        self._row = self._runs[0][0] if self._runs else 0
        self._planned: deque[Span] = deque()
        self._before: deque[tuple[int, int, int]] = deque()
        self.taken = 0
        """Spans that were read."""

    def plan(self, rows: int, *, dense: bool) -> list[Span]:
        """The spans that come next, so far as they are settled; none at the end. New ones get ``rows`` rows at most."""
        wanted = 1 + min(self.taken, DEPTH)
        while len(self._planned) < wanted and self._run < len(self._runs):
            self._cut(rows if dense else min(rows, self._most))
        return list(self._planned)

    def take(self) -> Span:
        """The next span, which is read now."""
        self.taken += 1
        self._before.popleft()
        return self._planned.popleft()

    def drop(self) -> None:
        """Forgets what is planned: rows turned out larger than it was planned by."""
        if self._before:
            self._run, self._row, self._most = self._before[0]
        self._planned.clear()
        self._before.clear()

    def _cut(self, rows: int) -> None:
        before = self._run, self._row, self._most
        last = self._runs[self._run][1]
        start, stop = self._row, min(last, self._row + rows)
        self._most *= GROWTH
        self._row = stop
        if stop == last:
            self._run += 1
            self._row = self._runs[self._run][0] if self._run < len(self._runs) else stop
        may = self._rows.may
        if not may.is_all:
            runs = may.slice(start, stop).runs()
            if not len(runs):
                self._jump(rows)
                return
            start, stop = start + int(runs[0, 0]), start + int(runs[-1, 1])
        self._planned.append((start, stop))
        self._before.append(before)

    def _jump(self, rows: int) -> None:
        """To the span that has the next wanted row: one after the other, those of a billion rows take seconds."""
        wanted = self._rows.may.runs()
        while self._run < len(self._runs):
            after = int(np.searchsorted(wanted[:, 1], self._row, "right"))
            if after == len(wanted):
                self._run = len(self._runs)
                return
            ahead = int(wanted[after, 0]) - self._row
            if self._row + ahead < self._runs[self._run][1]:
                self._row += max(0, ahead // rows * rows)
                return
            self._run += 1
            self._row = self._runs[self._run][0] if self._run < len(self._runs) else self._row
