"""Single stripes of a scan. ``StripeScan`` has the decision on a stripe and reads its rows. ``count_file`` counts the
rows of a file without returning them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.fetching.drive import run, run_value
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.batches import join_batches
from orcidx.scanner.file_queue import OpenFile
from orcidx.scanner.row_limit import RowsLeft
from orcidx.scanner.stripes_together import stripes_together

__all__ = ["StripeScan", "count_file"]


@dataclass(frozen=True, eq=False)
class StripeScan:
    """One stripe of a scan. ``decision`` says which rows are skipped and why. Iterating reads the remaining rows."""

    file: OpenFile
    decision: StripeDecision
    left: RowsLeft | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        scan = self.file.scan
        if not self.file.is_open:
            raise InvalidQuery(
                "the file of this stripe is closed: iterate a stripe inside the loop over stripes()",
                file=scan.reader.name,
                stripe=self.decision.stripe,
            )
        options = scan.options
        batches: Iterator[pa.RecordBatch] = run(scan.read(self.decision), self.file.storage)
        return join_batches(
            batches if self.left is None else self.left.of((self.file, self.decision.stripe), batches),
            batch_size=options.batch_size,
            batch_bytes=options.batch_bytes,
        )


def count_file(file: OpenFile, limit: int | None, tails_alone: bool) -> int:
    """Returns the number of rows of a file. If the file has at least ``limit`` rows, the result may be too low, but it
    is at least ``limit``."""
    if tails_alone:
        return file.scan.rows.count
    numbers = file.scan.stripe_numbers()
    together = stripes_together(file, counts=True) if limit is None and len(numbers) > 1 else None
    total = 0
    for number in numbers:
        if limit is not None and total >= limit:
            break
        if together is not None and number in together:
            total += together.count(number)
        else:
            total += _count_stripe(file, number)
    return total


def _count_stripe(file: OpenFile, number: int) -> int:
    decision = run_value(file.scan.decide(number), file.storage)
    rows = decision.rows
    if rows.may is rows.must or (rows.may - rows.must).is_empty:
        return rows.may.count
    counts: list[int] = []
    for _ in run(file.scan.read(decision, count=counts.append), file.storage):
        raise AssertionError("a count returned a batch")
    return sum(counts)
