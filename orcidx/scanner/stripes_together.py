"""Reads several stripes of a local file at the same time. Each stripe is decoded, filtered and gathered in one thread.

Inside a stripe, threads decode columns ahead, but the condition is evaluated and the rows are gathered in the caller's
thread. If several stripes are read at the same time, the threads share this work, too. This is only done if the caller
takes all rows, for example for a table or for a count. The results are taken in the order of the stripes.

A step reads one span of a stripe (a range of consecutive rows). The steps of a stripe are one chain of tasks
(``chains``). The caller's thread also runs steps. No step waits for another thread.

If the memory of the results is not limited, the last stripes are all begun together, even if there are more of them
than threads. Each new step is then added for the stripe that has the fewest steps in relation to its rows. So these
stripes end at about the same time, and no thread is idle while the last stripe is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.fetching.drive import PENDING, Fetch, run_value
from orcidx.options import ReadOptions
from orcidx.orc.types import OrcType, row_bytes
from orcidx.planner.data_fetches import piece_bytes
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.chains import Chains, Round
from orcidx.scanner.decode_ahead import RESERVE_FACTOR
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.file_queue import OpenFile
from orcidx.scanner.file_scan import FileScan, count_groups
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage import RangeReader

__all__ = ["StripesTogether", "stripes_together"]

LEAST_ROWS = 1 << 15
"""Only files with at least this many rows per stripe are read in this way. In a stripe of fewer rows, handing a step to
another thread takes longer than it saves."""

STEPS_AHEAD = 32
"""The most steps of a stripe that wait for a thread or for the caller. Steps are added whenever the caller takes a
result, but not while the caller waits. With 8 steps, all steps of a later stripe ended while the caller waited for an
earlier stripe, although the later stripe had spans left. For a table, the results of the steps need no more memory than
the table itself. For another caller, the results must fit into ``ahead_bytes``, so there may be fewer steps."""

LEAST_STEP_BYTES = 1 << 18
"""A step counts as at least this many bytes, because later steps may have more rows."""

GAIN_PER_THREAD = 0.5
"""If the columns of one stripe are decoded ahead, each thread after the first is assumed to add half the speed of the
first thread. Two threads were 1.36 to 1.76 times as fast as one (decision 0060)."""

STREAMS_PER_COLUMN = 3
"""A column usually has at most this many streams: nulls, values, and lengths or scales."""


@dataclass(eq=False)
class _Reading:
    """A stripe that is being read. ``steps``: the generator that reads it. ``counts``: if rows are only counted, the
    number of matching rows of each span. ``failed``: the error that was raised while the stripe was pruned.
    ``has_batch``: whether the last step has returned a batch. ``begun``: the number of steps that were added."""

    scan: FileScan
    source: RangeReader
    decision: StripeDecision | None = None
    steps: Generator[Any, Any, None] | None = None
    counts: list[int] = field(default_factory=list)
    rounds: deque[Round] = field(default_factory=deque)
    failed: Exception | None = None
    has_batch: bool = False
    begun: int = 0

    @property
    def share(self) -> float:
        """The steps that were added, in relation to the rows that may match."""
        assert self.decision is not None
        return self.begun / max(1, self.decision.rows.may.count)

    def step(self) -> pa.RecordBatch | None:
        """Reads the next span. Returns a batch, if there is one. Does nothing after the last span."""
        answer: Any = None
        span_ends, self.has_batch = self.has_batch, False  # the first PENDING after a batch only ends the batch's span
        while self.steps is not None:
            try:
                item = self.steps.send(answer)
            except StopIteration:
                self.steps = None
                return None
            answer = None
            if isinstance(item, Fetch):
                answer = self.source.read_ranges(item.ranges, **item.limit)
            elif item is not PENDING:
                self.has_batch = True
                return item
            elif span_ends:
                span_ends = False
            else:
                return None
        return None

    def close(self) -> None:
        steps, self.steps = self.steps, None
        if steps is not None:
            steps.close()


class StripesTogether:
    """Reads the stripes ``numbers`` of a file. As many stripes as ``threads`` are begun at the same time, and ``more``
    stripes in addition at the end. The caller must request the stripes in order, with ``batches`` or with ``count``.

    ``step_bytes``: the expected number of bytes of a step's result. It is None if the memory of the results is not
    limited."""

    def __init__(
        self,
        file: OpenFile,
        numbers: Sequence[int],
        *,
        threads: int,
        more: int,
        counts: bool,
        step_bytes: int | None = None,
    ) -> None:
        self._file = file
        self._numbers = numbers
        self._chain_of = {number: chain for chain, number in enumerate(numbers)}
        self._threads = threads
        self._more = more
        self._counts = counts
        self._step_bytes = step_bytes
        self._largest = 0
        self._chains = Chains([0] * len(numbers), threads)
        self._begun: dict[int, _Reading] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._chain_of

    def batches(self, number: int) -> Generator[pa.RecordBatch, None, None]:
        """The batches of a stripe."""
        reading = self._first(number)
        assert reading.decision is not None
        count_groups(self._file.scan, reading.decision)
        yield from self._results(number, reading)

    def count(self, number: int) -> int:
        """The number of matching rows of a stripe."""
        reading = self._first(number)
        for _ in self._results(number, reading):
            raise AssertionError("a count returned a batch")
        return sum(reading.counts)

    def _first(self, number: int) -> _Reading:
        self._go_on(number)
        reading = self._begun[number]
        if reading.failed is not None:
            raise reading.failed
        return reading

    def _results(self, number: int, reading: _Reading) -> Generator[pa.RecordBatch, None, None]:
        while reading.rounds or reading.steps is not None:
            self._go_on(number)
            one = reading.rounds.popleft()
            self._chains.finish(one)
            if one.errors:
                try:
                    raise one.errors.pop(0) or RuntimeError("a step did not run")
                finally:
                    del one
            (batch,) = one.results
            if self._step_bytes is not None:
                self._largest = max(self._largest, LEAST_STEP_BYTES, 0 if batch is None else batch.nbytes)
                self._step_bytes = self._largest
            if batch is not None:
                yield batch
        del self._begun[number]
        metrics, done = self._file.scan.metrics, reading.scan.metrics
        metrics.chunks_decompressed += done.chunks_decompressed
        metrics.bytes_decompressed += done.bytes_decompressed

    def _go_on(self, number: int) -> None:
        """Adds steps for a stripe and for the stripes after it, as many stripes as may be read at the same time."""
        first, count = self._chain_of[number], len(self._numbers)
        last = count if count - first <= self._threads + self._more else first + self._threads
        readings: list[tuple[int, _Reading]] = []
        for chain in range(first, last):
            reading = self._begun.get(self._numbers[chain])
            if reading is None:
                reading = self._begun[self._numbers[chain]] = self._begin(self._numbers[chain])
            readings.append((chain, reading))
            if reading.failed is not None:
                break
        while open_ := [(chain, one) for chain, one in readings if one.steps is not None and self._takes_step(one)]:
            # If memory is limited, an earlier stripe goes first, because the caller takes its results first.
            chain, reading = open_[0] if self._step_bytes is not None else min(open_, key=lambda pair: pair[1].share)
            reading.rounds.append(self._chains.add((chain,), (reading.step,)))
            reading.begun += 1
        if not readings or readings[-1][1].failed is None:
            self._chains.start_early()

    def _takes_step(self, reading: _Reading) -> bool:
        return len(reading.rounds) < STEPS_AHEAD and self._has_room(reading)

    def _has_room(self, reading: _Reading) -> bool:
        """Whether the result of one more step fits into the memory. Each stripe may have one step in any case."""
        if self._step_bytes is None or not reading.rounds:
            return True
        steps = sum(len(one.rounds) for one in self._begun.values())
        return (steps + 1) * self._step_bytes <= self._file.scan.options.ahead_bytes

    def _begin(self, number: int) -> _Reading:
        """Prunes a stripe in the caller's thread, because all stripes use the same indexes of the file."""
        scan = self._file.scan
        reading = _Reading(_apart(scan), self._file.storage)
        try:
            decision = reading.decision = run_value(scan.decide(number), self._file.storage)
        except Exception as error:  # raised after the rows of earlier stripes have been returned
            reading.failed = error
            return reading
        rows = decision.rows
        if not self._counts:
            reading.steps = reading.scan.read(decision, pauses=True)
        elif rows.may is rows.must or (rows.may - rows.must).is_empty:
            reading.counts.append(rows.may.count)
        else:
            reading.steps = reading.scan.read(decision, count=reading.counts.append, pauses=True)
        return reading

    def close(self) -> None:
        """Drops all steps that have not started, and waits for the steps that are running."""
        self._chains.close()
        for reading in self._begun.values():
            reading.close()
        self._begun.clear()


def _apart(scan: FileScan) -> FileScan:
    """The same scan with its own metrics. It decodes in one thread, while other threads decode other stripes."""
    apart = copy(scan)
    apart.metrics = ScanMetrics()
    apart.options = scan.options.override(use_threads=False)
    apart.request = replace(scan.request, options=apart.options)
    return apart


def stripes_together(file: OpenFile, *, counts: bool = False) -> StripesTogether | None:
    """Returns an object that reads the first stripes of a file at the same time. Returns None if the stripes are read
    one after the other.

    ``counts``: whether rows are only counted.
    """
    scan = file.scan
    request, reader, options = scan.request, scan.reader, scan.options
    if not options.use_threads or request.limit is not None or request.where is None:
        return None
    if not counts and request.wanted_as == "batches":
        return None
    numbers = scan.stripe_numbers()
    sizes = [reader.stripes[number].rows for number in numbers]
    if len(numbers) < 2 or sum(sizes) < LEAST_ROWS * len(numbers):
        return None
    threads = thread_count(use_threads=True)
    if threads < 2 or not reader.needs_no_gil:
        return None
    try:
        plan = scan.columns.plan
    except OrcidxError:  # the error is raised again when the first stripe is read
        return None
    columns = [*plan.predicate, *plan.rest_columns]
    reserved = _reserved(columns, options)  # only steps that run need this memory, not the stripes between their steps
    if not columns or 1 + options.ahead_bytes // reserved < threads:
        return None
    most = options.io_bytes // max(1, _piece_bytes(columns, options))
    if most < threads:
        return None
    limited = None if counts or request.wanted_as == "table" else reserved
    more = len(numbers) % threads if limited is None and most >= threads + len(numbers) % threads else 0
    first = _first_together(sizes, threads, len(columns), all_end_together=more > 0)
    if first < 2:
        return None
    together = StripesTogether(file, numbers[:first], threads=threads, more=more, counts=counts, step_bytes=limited)
    file.before_close = together.close
    return together


def _reserved(columns: Sequence[OrcType], options: ReadOptions) -> int:
    """The number of bytes for which memory is reserved for a span."""
    sizes = [row_bytes(column) for column in columns]
    if None in sizes:
        return options.batch_bytes
    width = sum(size for size in sizes if size is not None)
    return max(1, min(options.batch_bytes, int(RESERVE_FACTOR * width * options.batch_size)))


def _piece_bytes(columns: Sequence[OrcType], options: ReadOptions) -> int:
    """The bytes of the pieces of all streams of a stripe that are read at the same time."""
    streams = STREAMS_PER_COLUMN * sum(len(column.ids) for column in columns)
    return streams * piece_bytes(len(columns), options, is_local=True)


def _first_together(sizes: Sequence[int], threads: int, columns: int, *, all_end_together: bool) -> int:
    """How many of the first stripes are read at the same time. The other stripes are read one after the other, and the
    columns of each are decoded ahead. If three equal stripes are read by two threads, the third is read by both, unless
    all three can be read at the same time.

    ``sizes``: the numbers of rows of the stripes. ``columns``: the number of columns that are decoded.
    ``all_end_together``: whether the last stripes can be read at the same time, and then end at about the same time."""
    gain = min(1 + GAIN_PER_THREAD * (threads - 1), columns + GAIN_PER_THREAD)
    ends, left = [0] * threads, sum(sizes)
    best, least = 0, left / gain
    if all_end_together and max(*sizes, left / threads) < least:
        return len(sizes)
    for number, size in enumerate(sizes, 1):
        ends[ends.index(min(ends))] += size
        left -= size
        whole = max(ends) + left / gain
        if number > 1 and whole < least:
            best, least = number, whole
    return best
