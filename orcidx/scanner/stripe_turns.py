"""Makes a ``Turn`` for each remaining stripe of a scan's files. A ``Turn`` has a generator that reads the stripe. The
module ``fetching/drive`` runs the turns one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from orcidx.fetching.byte_budget import ByteBudget
from orcidx.fetching.drive import Turn
from orcidx.planner.request import ScanRequest
from orcidx.scanner.file_queue import FileQueue, OpenFile
from orcidx.scanner.file_scan import FileScan, count_groups
from orcidx.scanner.small_groups import GROUP_ROWS
from orcidx.scanner.stripes_together import stripes_together

__all__ = ["StripeTurns"]


class StripeTurns:
    """Gives a ``Turn`` for each remaining stripe of all files. A file is closed after its last turn.

    ``learn_schema``: a function that stores the schema of the scan. Its argument is a function that returns the schema
    of a file. ``early``: whether the caller needs the first rows as early as possible."""

    def __init__(
        self,
        files: FileQueue,
        request: ScanRequest,
        *,
        learn_schema: Callable[[Callable[[], pa.Schema]], None],
        early: bool = False,
    ) -> None:
        self._learn_schema = learn_schema
        self._request = request
        self._together = request.limit is None and not early  # otherwise the rows of later files may not be needed
        self._files = files
        self._pending: deque[Turn] = deque()
        self._budget = ByteBudget(request.options.io_bytes)

    def take(self, *, wait: bool) -> Turn | None:
        while not self._pending:
            batches = self._small_batches()
            if batches:
                return Turn(_no_steps, None, at_once=batches.copy)
            file = self._files.take(wait=wait)
            if file is None:
                return None
            self._learn_schema(partial(getattr, file.scan.columns, "schema"))
            self._pending.extend(_turns_of(file, self._budget))
        return self._pending.popleft()

    def _small_batches(self) -> list[pa.RecordBatch]:
        """The next rows of small files. The result is empty if the next file must be opened, and after the last
        file."""
        batches: list[pa.RecordBatch] = []
        rows = 0
        while len(batches) < self._request.together and rows < GROUP_ROWS:
            small = self._files.take_small(together=self._together)
            if small is None:
                break
            if not batches:
                self._learn_schema(small.schema)
            batches += small.batches
            rows += small.rows
        return batches


def _no_steps() -> Generator[Any, Any, Any]:
    """An empty generator, for a turn whose results are already known."""
    yield from ()


def _turns_of(file: OpenFile, budget: ByteBudget) -> Iterator[Turn]:
    numbers = file.scan.stripe_numbers()
    if not numbers:
        file.close()
    together = stripes_together(file) if len(numbers) > 1 else None
    may_be_at_once = file.storage.is_local and file.scan.rows.takes_all
    for number in numbers:
        finish = file.close if number == numbers[-1] else None
        if together is not None and number in together:
            yield Turn(partial(together.batches, number), file.storage, finish)
            continue
        at_once = partial(_at_once, file.scan, number) if may_be_at_once else None
        yield Turn(partial(_decided_scan, file.scan, number, budget), file.storage, finish, at_once)


def _at_once(scan: FileScan, number: int) -> list[pa.RecordBatch] | None:
    batch = scan.at_once(number)
    return None if batch is None else [batch]


def _decided_scan(scan: FileScan, number: int, budget: ByteBudget) -> Any:
    share = budget.enter()
    try:
        decision = yield from scan.decide(number)
        count_groups(scan, decision)
        yield from scan.read(decision, share)
    finally:
        share.close()
