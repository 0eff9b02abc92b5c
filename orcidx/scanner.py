"""``Scan``: one pass, or many, over the rows of one or many ORC files.

A ``Scan`` is a value: it holds no open file, may be iterated any number of times and pickles. Each iteration opens the
files in order, judges their stripes by all indexes, and reads what is left; see ``file_run`` and ``stripe_scan``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from orcidx.batches import join_batches
from orcidx.errors import InvalidQuery
from orcidx.explaining import explain_file
from orcidx.explanation import Explanation
from orcidx.file_run import FileJob, FileRun, ScanRequest
from orcidx.io_loop import run, run_async, run_in_turn, run_value
from orcidx.judge import StripeDecision
from orcidx.metrics import ScanMetrics
from orcidx.options import ReadOptions
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import group_count
from orcidx.orc.tail_cache import read_tail_cached
from orcidx.storage import RangeReader

__all__ = ["Batches", "Scan", "StripeScan"]

TABLE_ROWS = 1 << 18
"""Rows that are decoded at once for a table, whose chunks nobody asked to be small."""


@dataclass(frozen=True)
class Scan:
    """Rows of files, as record batches. Made by ``OrcFile.scan`` and ``orcidx.scan``.

    Iterating yields ``pyarrow.RecordBatch``es of at most ``options.batch_size`` rows; remainders are joined across row
    groups and stripes. One iterator belongs to one thread; the scan itself may be shared.
    """

    jobs: tuple[FileJob, ...]
    request: ScanRequest
    limit: int | None = None

    @property
    def options(self) -> ReadOptions:
        return self.request.options

    # ------------------------------------------------------------------ schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches; reads the first file's tail, unless a schema was given."""
        return self._schema()

    def _schema(self) -> pa.Schema:
        if "_known_schema" not in self.__dict__:
            object.__setattr__(self, "_known_schema", self._find_schema())
        return self.__dict__["_known_schema"]

    def _find_schema(self) -> pa.Schema:
        if not self.jobs:
            if self.request.schema is None:
                raise InvalidQuery("a scan of no files has no schema; give schema=")
            return self.request.schema
        with closing(self.jobs[0].source.open(self.options)) as storage:
            return self._run_of(self.jobs[0], storage, ScanMetrics()).schema

    def _know_schema(self, job: FileJob, run: FileRun) -> None:
        """Takes the schema from a run over the first file, which spares opening it once more."""
        if job is self.jobs[0] and "_known_schema" not in self.__dict__:
            object.__setattr__(self, "_known_schema", run.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_known_schema"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ------------------------------------------------------------------ batches

    def to_batches(self) -> Batches:
        """An iterator over the batches, with ``.metrics`` of its own pass and ``.close()``."""
        return Batches(self)

    def __iter__(self) -> Batches:
        return self.to_batches()

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Batches; ranges are awaited where the backend is asynchronous, decoding runs off the event loop."""
        left = self.limit
        waiting: list[pa.RecordBatch] = []
        metrics = ScanMetrics()
        for job in self.jobs:
            with closing(job.source.open(self.options)) as storage:
                run = self._run_of(job, storage, metrics)
                async for batch in run_async(_all_stripes(run), storage):
                    if left is not None:
                        batch = batch.slice(0, left)
                        left -= batch.num_rows
                    waiting.append(batch)
                    if sum(piece.num_rows for piece in waiting) >= self.options.batch_size:
                        for joined in self._joined(iter(waiting)):
                            yield joined
                        waiting = []
                    if left == 0:
                        break
            if left == 0:
                break
        for joined in self._joined(iter(waiting)):
            yield joined

    def stripes(self) -> Iterator[StripeScan]:
        """Stripe by stripe: each has its ``decision`` and iterates over its own batches, never joined with others'.

        Stripes without a wanted or possibly matching row come too, with no batches, so that every decision is seen.
        """
        for job in self.jobs:
            with closing(job.source.open(self.options)) as storage:
                run = self._run_of(job, storage, ScanMetrics())
                for number in range(len(run.reader.stripes)):
                    decision = run_value(run.decide(number), storage)
                    yield StripeScan(run, decision, storage)

    def to_reader(self) -> pa.RecordBatchReader:
        """A ``pyarrow.RecordBatchReader`` over one pass."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """All rows as one table."""
        rows = max(self.options.batch_size, TABLE_ROWS)
        scan = replace(self, request=replace(self.request, options=replace(self.options, batch_size=rows)))
        batches = list(scan)
        return pa.Table.from_batches(batches, scan.schema)

    def head(self, n: int) -> pa.Table:
        """The first ``n`` rows."""
        limit = n if self.limit is None else min(n, self.limit)
        return replace(self, limit=limit).to_table()

    def count_rows(self) -> int:
        """The number of rows; from metadata and indexes alone where those prove it."""
        total = 0
        request = replace(self.request, columns=(), row_numbers=None, file_path=None, schema=None)
        counting = replace(self, request=request)
        for job in counting.jobs:
            with closing(job.source.open(self.options)) as storage:
                run = counting._run_of(job, storage, ScanMetrics())
                for number in run.stripe_numbers():
                    total += _count_stripe(run, number, storage)
                    if self.limit is not None and total >= self.limit:
                        return self.limit
        return total

    def explain(self) -> Explanation:
        """What the scan will read and why it can skip the rest; reads metadata and indexes only."""
        files = []
        for job in self.jobs:
            with closing(job.source.open(self.options)) as storage:
                files.append(explain_file(self._run_of(job, storage, ScanMetrics()), storage))
        where = None if self.request.where is None else repr(self.request.where)
        return Explanation(where, tuple(self.schema.names), tuple(files))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    # ------------------------------------------------------------------ inside

    def _run_of(self, job: FileJob, storage: RangeReader, metrics: ScanMetrics) -> FileRun:
        reader = OrcReader(storage, read_tail_cached(storage))
        run = FileRun(reader, job, self.request, metrics)
        run_value(run.prepare(), storage)
        return run

    def _joined(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return join_batches(batches, batch_size=self.options.batch_size, batch_bytes=self.options.batch_bytes)


def _all_stripes(run: FileRun) -> Any:
    for number in run.stripe_numbers():
        yield from _decided_scan(run, number)


def _decided_scan(run: FileRun, number: int) -> Any:
    decision = yield from run.decide(number)
    _count_groups(run, decision)
    yield from run.scan(decision)


def _count_groups(run: FileRun, decision: StripeDecision) -> None:
    alive = decision.rows.may.any_in(decision.rows.bounds)
    run.metrics.row_groups_kept += int(alive.sum())
    run.metrics.rows_considered += decision.rows.may.count


def _count_stripe(run: FileRun, number: int, storage: RangeReader) -> int:
    decision = run_value(run.decide(number), storage)
    rows = decision.rows
    if (rows.may - rows.must).is_empty:
        return rows.may.count
    return sum(batch.num_rows for batch in StripeScan(run, decision, storage))


@dataclass(frozen=True, eq=False)
class StripeScan:
    """One stripe of a scan: ``decision`` says what was skipped and why; iterating reads what was not."""

    run: FileRun
    decision: StripeDecision
    storage: RangeReader

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        options = self.run.options
        return join_batches(
            run(self.run.scan(self.decision), self.storage),
            batch_size=options.batch_size,
            batch_bytes=options.batch_bytes,
        )


class Batches:
    """One pass over a scan: an iterator of record batches. ``metrics`` grows while it runs."""

    def __init__(self, scan: Scan) -> None:
        self.metrics = ScanMetrics()
        self._scan = scan
        self._batches = self._all()

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self.metrics.rows_returned += batch.num_rows
        return batch

    def close(self) -> None:
        """Ends the pass and closes its files."""
        self._batches.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> Any:
        scan = self._scan
        batches = join_batches(
            _limited(self._of_files(), scan.limit),
            batch_size=scan.options.batch_size,
            batch_bytes=scan.options.batch_bytes,
        )
        yield from batches

    def _of_files(self) -> Iterator[pa.RecordBatch]:
        for job in self._scan.jobs:
            yield from self._of_file(job)

    def _of_file(self, job: FileJob) -> Iterator[pa.RecordBatch]:
        metrics = self.metrics
        with metrics.stage("open"):
            storage = job.source.open(self._scan.options)
        pool = None if storage.is_local else ThreadPoolExecutor(2, thread_name_prefix="orcidx-io")
        try:
            with metrics.stage("open"):
                run = self._scan._run_of(job, storage, metrics)
                self._scan._know_schema(job, run)
            numbers = run.stripe_numbers()
            metrics.files += 1
            metrics.stripes += len(run.reader.stripes)
            metrics.stripes_skipped += len(run.reader.stripes) - len(numbers)
            stride = run.reader.facts.row_index_stride
            metrics.row_groups += sum(group_count(stripe.rows, stride) for stripe in run.reader.stripes)
            starts = iter([partial(_decided_scan, run, number) for number in numbers])
            for stripe in run_in_turn(starts, storage, pool):
                yield from stripe
        finally:
            metrics.requests += storage.metrics.requests
            metrics.bytes_read += storage.metrics.bytes_fetched
            storage.close()
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    if left <= 0:
        return
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
