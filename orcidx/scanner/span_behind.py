"""``SpanBehind``: the span of a stripe whose other columns are decoded while the next span is filtered.

As soon as it is known which rows of a span survive, threads begin with the columns behind the filter, while the caller
decodes and filters the predicate's columns of the next span. So the batches of a span are given one span later, with
one thread too: batches, and what is given before an error, do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from orcidx.scanner.other_columns import OtherColumns
from orcidx.scanner.survivors import Survivors

__all__ = ["SpanBehind"]


@dataclass
class SpanBehind:
    """``batches``: those of a span, whose other columns are read where no thread has done that."""

    others: OtherColumns
    batches: Callable[[Survivors], Iterator[pa.RecordBatch]]
    waiting: Survivors | None = None

    def after(self, found: Survivors, *, may_wait: bool) -> Iterator[pa.RecordBatch]:
        """The batches of the span before, and those of the next span unless they ``may_wait``: then its other columns
        are begun, before the caller uses the batches."""
        before = list(self.rest())
        if may_wait and found.others is None and found.reach is not None:
            self.others.begin(found)
            self.waiting = found
        yield from before
        if self.waiting is None:
            yield from self.batches(found)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches that were not given yet."""
        before, self.waiting = self.waiting, None
        if before is not None:
            yield from self.batches(before)

    def before_an_error(self, filtered: Iterator[Survivors]) -> Iterator[Survivors | pa.RecordBatch]:
        """The same spans; where filtering them fails, first the batches of the span before."""
        try:
            yield from filtered
        except Exception:
            yield from self.rest()
            raise
