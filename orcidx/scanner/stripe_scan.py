"""Single stripes of a scan. ``StripeScan`` has the decision on a stripe and reads its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.fetching.drive import run
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.batches import join_batches
from orcidx.scanner.file_queue import OpenFile
from orcidx.scanner.row_limit import RowsLeft

__all__ = ["StripeScan"]


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
