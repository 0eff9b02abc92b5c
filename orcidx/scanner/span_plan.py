"""``SpanPlan``: plans which rows of a stripe are read at once. A span is a range of consecutive rows that are read at
once. Several spans are planned in advance.

The number of bytes of a span is known only after the span was decoded, and the size of later spans depends on this
number. But threads can decode a span ahead only if it is already known which rows belong to this span. So the next
spans are fixed before the current span is read. The further the scan has come, the more spans are fixed in advance. The
number of threads does not influence this, because the batches must not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from orcidx.planner.column_plan import StripeRows
from orcidx.pruning.selection import RowSelection

__all__ = ["FIRST_OF_ALL_ROWS", "FIRST_ROWS", "GROWTH_FACTOR", "GROWTH_OF_BATCHES", "SpanPlan"]

FIRST_ROWS = 4096
"""The number of rows of the first read of a stripe if the caller may stop after a few rows, and if the scan has a
condition or the width of its rows is not known. This number limits memory. It does not change the time (decision
0113)."""

FIRST_OF_ALL_ROWS = 1 << 16
"""The number of rows of the first read of a stripe if the caller takes all rows. A column of 300,000 rows then takes 2
reads instead of 4. The first read shows whether most rows match, so it is not the whole stripe. If the rows are so wide
that this read has too many bytes, its halves are read separately."""

GROWTH_FACTOR = 8
"""In a scan with a condition, each read of a stripe may have at most this many times as many rows as the read before
it. This limit does not apply if rows are only counted, or once the scan reads the bytes of all columns together. With a
smaller number, there would be more of the first reads, on which only few threads work."""

GROWTH_OF_BATCHES = 2
"""In a scan without a condition, each read of a stripe may have at most this many times as many rows as the read before
it. The first read has the rows of one batch, so a caller that stops early does not wait for rows of later batches."""

SPANS_AHEAD = 8
"""The most spans that are fixed before the current span is read. With more spans, the plan would react too late to
growing rows."""

EQUAL_ROWS = 1 << 17
"""Spans of at least this many rows are made equal. Threads do not wait long for the end of a shorter span."""

SPARE_SHARE = 1 / 16
"""Equal spans may have this share of rows more than planned, so that no small span is left over. A read is planned for
three quarters of ``batch_bytes``, so this does not exceed the limit."""

RowSpan = tuple[int, int]


@dataclass
class EqualSpans:
    """Cuts the rows that are left in a run into an even number of about equal spans, instead of spans of the most rows
    and a rest. If two threads read several stripes, they then end at about the same time. Also, no small span is left
    over, which would need a call for each column (decision 0060).

    ``batch_size``: a span has at most this many rows, or a multiple of it. In the second case spans are not made equal,
    because each span is cut into whole batches. ``size``: the number of rows of the equal spans that were begun, or
    0."""

    batch_size: int
    size: int = 0

    def next(self, left: int, rows: int) -> int:
        """The number of rows of the next span. ``left``: the rows that are left in the run. ``rows``: how many rows are
        planned for a span. It is less than ``left``."""
        if rows >= self.batch_size:
            return rows
        most = min(rows + int(rows * SPARE_SHARE), self.batch_size)
        if not rows // 2 < self.size <= most:
            count = -(-left // most)
            self.size = -(-left // (count + count % 2 if count > 1 else 1))
        return self.size


class SpanPlan:
    """The spans (start, stop) of a stripe. Each span lies inside a run of remaining row groups, and is cut to the
    wanted rows.

    ``most``: the maximum number of rows of the first span. The limit of each later span is ``growth`` times the limit
    of the span before it. ``batch_size``: the maximum number of rows of a batch.
    """

    def __init__(
        self, rows: StripeRows, alive: RowSelection, *, most: int, batch_size: int, growth: int = GROWTH_FACTOR
    ) -> None:
        self._rows = rows
        self._runs: list[list[int]] = alive.runs().tolist()
        self._most = most
        self._growth = growth
        self._equal = EqualSpans(batch_size)
        self._run = 0
        self._row = self._runs[0][0] if self._runs else 0
        self._planned: deque[RowSpan] = deque()
        self._before: deque[tuple[int, int, int]] = deque()
        self.taken = 0
        """The number of spans that were read."""

    def plan(self, rows: int, *, dense: bool) -> list[RowSpan]:
        """Returns the next spans. Returns an empty list if there are no more spans. Spans that are planned by this call
        have at most ``rows`` rows, or ``SPARE_SHARE`` more. ``dense``: the limits that grow do not apply."""
        wanted = 1 + min(self.taken, SPANS_AHEAD)
        while len(self._planned) < wanted and self._run < len(self._runs):
            self._cut(rows if dense else min(rows, self._most))
        return list(self._planned)

    def take(self) -> RowSpan:
        """Returns the next span, which the caller reads now."""
        self.taken += 1
        self._before.popleft()
        return self._planned.popleft()

    def drop(self) -> None:
        """Drops the planned spans, because rows are larger than expected."""
        if self._before:
            self._run, self._row, self._most = self._before[0]
        self._equal.size = 0
        self._planned.clear()
        self._before.clear()

    def _cut(self, rows: int) -> None:
        before = self._run, self._row, self._most
        last = self._runs[self._run][1]
        most = self._equal.next(last - self._row, rows) if EQUAL_ROWS <= rows < last - self._row else rows
        start, stop = self._row, min(last, self._row + most)
        self._most *= self._growth
        self._row = stop
        if stop == last:
            self._equal.size = 0
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
        """Goes directly to the span that has the next wanted row. It would take seconds to go through the spans of a
        billion rows one by one."""
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
