"""Reads rows of a local file that the caller has opened, without opening it again. ``OpenedFile`` reads all rows: one
call decodes each stripe (``small_stripes``). ``rows_that_match`` reads the rows that match a predicate, if all of them
go into one table.

Opening a file again creates a reader, a scan and a pruner, and the scan runs a chain of generators for each stripe.
Together, these steps take about 200 Python calls. This takes as long as decoding 100,000 integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from orcidx.fetching.drive import run, run_value
from orcidx.options import ReadOptions
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.schema_plan import SchemaPlan
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.file_scan import FileScan, count_groups, count_stripes
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_stripes import HeldBytes, is_for_one_call, is_one_read, read_at_once
from orcidx.storage import ReadMetrics
from orcidx.storage.local import lent, reopened
from orcidx.storage.local_file import LocalFile

__all__ = ["OpenedFile", "opened_file", "rows_that_match"]


@dataclass(frozen=True, eq=False, slots=True)
class OpenedFile:
    """``file``: the open file. ``reads`` counts what is read from it."""

    reader: OrcReader
    file: LocalFile
    reads: ReadMetrics

    def batches(self, plan: SchemaPlan, request: ScanRequest, metrics: ScanMetrics) -> list[pa.RecordBatch] | None:
        """All rows, as a batch for each stripe. Returns None if one of the stripes needs column readers, or if all
        stripes together have too many bytes to decode them before the first batch is returned. ``metrics`` counts the
        decompressed bytes."""
        reader = self.reader
        numbers = [number for number, stripe in enumerate(reader.stripes) if stripe.rows]
        if not plan.is_complete or (len(numbers) > 1 and request.wanted_as != "table"):
            return None
        if not self._are_for_one_call(plan, request.options, numbers):
            return None
        batches = []
        for number in numbers:
            stripe = reader.stripes[number]
            footer = self._footer(number)
            source = None if footer is None else self._source(plan, stripe)
            if footer is None or source is None:
                return None
            batch = read_at_once(plan, reader.facts, stripe, footer, source, request=request, metrics=metrics)
            if batch is None:
                return None
            batches.append(batch)
        return batches

    def _are_for_one_call(self, plan: SchemaPlan, options: ReadOptions, numbers: Sequence[int]) -> bool:
        return all(is_for_one_call(plan, self.reader.stripes[number], options) for number in numbers)

    def _footer(self, number: int) -> StripeFooter | None:
        """The footer of a stripe. If it is not known, it is read now. None if it cannot be read."""
        if not self.reader.has_footer(number):
            data = self._bytes(*self.reader.footer_range(number))
            if data is None:
                return None
            self.reader.put_footer(number, data)
        return self.reader.footer(number)

    def _source(self, plan: SchemaPlan, stripe: StripeInformation) -> HeldBytes | LocalFile | None:
        if not is_one_read(self.reader, plan.asked.nodes, stripe):
            return self.file
        data = self._bytes(stripe.offset, stripe.footer_offset - stripe.offset)
        return None if data is None else (stripe.offset, data)

    def _bytes(self, offset: int, length: int) -> memoryview | None:
        data = memoryview(pa.allocate_buffer(length)).cast("B")
        return data if self.file.read(offset, data) else None


def opened_file(reader: OrcReader, job: FileJob, limits: MetadataLimits) -> OpenedFile | None:
    """Returns the file that a reader has open. Returns None if another file is now at the path of the job. Also returns
    None if the file must be opened again, for example because its metadata was read with other limits."""
    if not _is_known(reader, job, limits):
        return None
    reads = ReadMetrics()
    file = reopened(reader.storage, job.source.location, reads)
    return None if file is None else OpenedFile(reader, file, reads)


def _is_known(reader: OrcReader, job: FileJob, limits: MetadataLimits) -> bool:
    tail = reader.tail
    return (
        job.fingerprint is not None
        and tail.footer.encryption is None
        and (tail.limits is limits or tail.limits == limits.for_file(tail.size))
    )


def rows_that_match(
    reader: OrcReader, job: FileJob, request: ScanRequest, limits: MetadataLimits
) -> tuple[FileScan, list[pa.RecordBatch]] | None:
    """The rows of an open file that match the predicate, as batches, with the scan that has read them. None if the file
    must be opened again, as in ``opened_file``. Also None if several threads may read several stripes at the same time
    (``stripes_together``)."""
    if not _is_known(reader, job, limits):
        return None
    storage = lent(reader.storage, job.source.location, request.options)
    if storage is None:
        return None
    scan = FileScan(reader.through(storage), job, request, ScanMetrics())
    batches: list[pa.RecordBatch] = []
    numbers = scan.stripe_numbers()
    if len(numbers) > 1 and thread_count(use_threads=request.options.use_threads) > 1:
        return None
    count_stripes(scan, len(numbers))
    for number in numbers:
        decision = run_value(scan.decide(number), storage)
        count_groups(scan, decision)
        batches += run(scan.read(decision), storage)
    scan.metrics.requests += storage.metrics.requests
    scan.metrics.bytes_read += storage.metrics.bytes_fetched
    return scan, batches
