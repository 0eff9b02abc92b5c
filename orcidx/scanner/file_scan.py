"""``FileScan``: one file in one pass of a scan. The columns of the file are matched with the wanted columns. Then the
file is pruned, and its remaining stripes are read one by one.

A ``FileJob`` describes which data of a file is wanted. A ``FileScan`` reads this data. Like a ``StripeReader``, a
``FileScan`` has generators that never wait for bytes. If a generator needs bytes, it yields a ``Fetch`` request.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from orcidx.errors import located
from orcidx.fetching.byte_budget import Share
from orcidx.fetching.drive import Fetch, Pending
from orcidx.orc.dictionary import StreamBuffers
from orcidx.orc.kinds import EncodingKind
from orcidx.orc.reader import OpenStripe, OrcReader, stripe_limits
from orcidx.orc.row_index import group_count, usual_bounds
from orcidx.orc.types import STRING_KINDS, OrcType
from orcidx.planner.column_plan import StripeRows
from orcidx.planner.data_fetches import piece_bytes
from orcidx.planner.fetch_policy import StripeRequests
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.stripe_pruning import FilePruner, StripeDecision
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_evidence import FileEvidence
from orcidx.scanner.file_request import FileColumns, WantedRows
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_stripes import HeldBytes, held_stripe, is_for_one_call, read_at_once
from orcidx.scanner.stripe_reader import Caller, Step, scan_stripe
from orcidx.storage.local_file import LocalFile

__all__ = ["FileScan", "count_groups", "count_stripes", "stripe_nodes", "tested_rows"]

Requests = Generator[Fetch, Any, Any]


class FileScan:
    """Reads one open file for a request. The schema is known after ``prepare`` has run. ``columns``, ``rows``: the
    wanted columns and rows. ``evidence``: what is known about the rows."""

    def __init__(self, reader: OrcReader, job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> None:
        self.reader = reader
        self.job = job
        self.request = request
        self.options = request.options
        self.metrics = metrics
        self.columns = FileColumns(reader, job, request)
        self.rows = WantedRows(reader, job, request)
        self._alive: list[int] | None = None
        self._not_at_once = -1

    def prepare(self) -> Requests:
        """Reads the metadata that the schema depends on. With ``strings="dictionary"`` this is the footer of every
        stripe."""
        if self.options.strings == "dictionary":
            yield from self.fetch_footers(range(len(self.reader.stripes)))
            self.columns.dictionaries = _dictionary_columns(self.reader)

    def fetch_footers(self, stripes: Any) -> Requests:
        """Reads the missing footers of these stripes in one request."""
        missing = [stripe for stripe in stripes if not self.reader.has_footer(stripe)]
        if missing:
            buffers = yield Fetch(tuple(map(self.reader.footer_range, missing)), "footer")
            for stripe, buffer in zip(missing, buffers, strict=True):
                self.reader.put_footer(stripe, buffer)
                if not self.reader.storage.is_local:
                    self._requests.spend(stripe)

    # ------------------------------------------------------------------ stripes

    @cached_property
    def evidence(self) -> FileEvidence:
        return FileEvidence(self.columns, self.rows)

    def stripe_numbers(self) -> list[int]:
        """The numbers of the stripes that may have to be read. Such a stripe has wanted rows, and neither the
        statistics of the file nor the statistics of the stripe rule it out."""
        if self._alive is None:
            if self.rows.takes_all:
                with located(file=self.reader.name):
                    self.columns.schema_plan.asked.nodes  # noqa: B018  raises the error for a missing column now
                self._alive = [number for number, stripe in enumerate(self.reader.stripes) if stripe.rows]
            else:
                self._alive = self.evidence.pruner.stripes()
        return self._alive

    def decide(self, stripe: int) -> Generator[Fetch | Pending, Any, StripeDecision]:
        """Prunes one stripe with all its indexes. Does not read data."""
        if self.reader.storage.is_local:
            if self.reader.whole() is None:
                yield from self.fetch_footers([stripe])
            decision: StripeDecision = yield from self.evidence.pruner.decide(stripe)
            return decision
        decision = yield from self._requests.decide(stripe, self.stripe_numbers(), self.evidence.pruner)
        return decision

    @cached_property
    def _requests(self) -> StripeRequests:
        selective = self.request.where is not None or not self.rows.wanted.is_all
        return StripeRequests(self.reader, self.options, selective=selective)

    def read(
        self,
        decision: StripeDecision,
        share: Share | None = None,
        count: Callable[[int], None] | None = None,
        *,
        pauses: bool = False,
    ) -> Step:
        """The batches of a stripe, in the wanted schema. ``share``: the part of the scan's memory that the stripe may
        use. None means the whole memory of the scan. ``count``: a function for a request without columns. It receives
        numbers of rows, and no batches are made. ``pauses``: see ``Caller``."""
        # If there is no pruner, no streams were fetched to decide on the stripe.
        pruner: FilePruner | None = self.evidence.__dict__.get("pruner")
        fetched = {} if pruner is None else pruner.take_fetched(decision.stripe)
        if decision.rows.may.is_empty:
            return
        rows = tested_rows(self.request, decision)
        whole = self.reader.whole()
        held = None
        if whole is None:
            held = yield from held_stripe(self.reader, stripe_nodes(self, rows), decision)
        if self.request.where is None and decision.rows.may.is_all and count is None:
            source = (0, whole) if whole is not None else held or getattr(self.reader.storage, "local_file", None)
            batch = None if source is None else self._decoded(decision.stripe, source)
            if batch is not None:
                yield batch
                return
        stripe = _opened(self, decision, held, fetched, in_memory=whole is not None)
        requests = None if stripe.is_local else self._requests.left(decision.stripe)

        def goes_on() -> bool:
            return count is not None or self.request.wanted_as != "batches" or self.metrics.rows_returned > 0

        takes_all = self.request.wanted_as != "batches" and self.request.limit is None
        steps = scan_stripe(
            stripe,
            self.columns.plan,
            rows,
            self.options,
            where=self.columns.schema_plan.where,
            constants=self.columns.constants,
            requests=requests,
            share=share,
            caller=Caller(goes_on, count, pauses, takes_all=takes_all),
        )
        answer = None
        try:
            while True:
                try:
                    item = steps.send(answer)
                except StopIteration:
                    break
                answer = None
                if isinstance(item, Fetch | Pending):
                    answer = yield item
                else:
                    yield self.columns.complete(item)
        finally:  # also runs if a pass ends early
            steps.close()
            stripe.streams.close()
            _add_work(stripe, self.metrics)

    def at_once(self, stripe: int) -> pa.RecordBatch | None:
        """Decodes a whole stripe in one call, if the bytes of the whole file are in memory. All rows of the file must
        be wanted (``WantedRows.takes_all``). Returns None for other files, and if column readers are needed."""
        whole = self.reader.whole()
        batch = None if whole is None else self._decoded(stripe, (0, whole))
        if batch is not None:
            self.metrics.row_groups_kept += group_count(batch.num_rows, self.reader.facts.row_index_stride)
            self.metrics.rows_considered += batch.num_rows
        return batch

    def _decoded(self, stripe: int, source: HeldBytes | LocalFile) -> pa.RecordBatch | None:
        reader, plan = self.reader, self.columns.schema_plan
        information = reader.stripes[stripe]
        if stripe == self._not_at_once or not is_for_one_call(plan, information, self.options):
            return None
        footer = reader.footer(stripe)
        request, metrics = self.request, self.metrics
        batch = read_at_once(plan, reader.facts, information, footer, source, request=request, metrics=metrics)
        if batch is None:
            self._not_at_once = stripe
        return None if batch is None else self.columns.complete(batch)


def _opened(
    scan: FileScan, decision: StripeDecision, held: HeldBytes | None, fetched: StreamBuffers, *, in_memory: bool
) -> OpenStripe:
    """Opens the streams of a stripe. ``held``: the bytes of the stripe, if they were read at once. ``fetched``: the
    streams that were read for the decision. ``in_memory``: whether the bytes of the whole file are in memory."""
    reader, plan, options = scan.reader, scan.columns.plan, scan.options
    read_ahead = 0
    if not in_memory:
        read_ahead = piece_bytes(plan.decoded, options, is_local=reader.storage.is_local)
    return OpenStripe(
        reader,
        decision.stripe,
        index=decision.index,
        read_ahead=read_ahead,
        limits=stripe_limits(reader.stripes[decision.stripe], options),
        dictionaries=scan.columns.dictionaries,
        held=held,
        fetched=fetched,
        ahead_bytes=options.io_bytes // 4,
    )


def _dictionary_columns(reader: OrcReader) -> frozenset[int]:
    """Text columns that have a dictionary in each stripe. All footers must have been read."""
    direct = {EncodingKind.DIRECT, EncodingKind.DIRECT_V2}
    texts = [node.id for node in reader.root.walk() if node.kind in STRING_KINDS]
    footers = [reader.footer(stripe) for stripe, info in enumerate(reader.stripes) if info.rows]
    return frozenset(
        column for column in texts if footers and all(f.encodings[column].kind not in direct for f in footers)
    )


def _add_work(stripe: OpenStripe, metrics: ScanMetrics) -> None:
    chunks, size = stripe.wasted
    metrics.chunks_decompressed -= chunks
    metrics.bytes_decompressed -= size
    for window in stripe.windows:
        metrics.chunks_decompressed += window.chunks_decompressed
        metrics.bytes_decompressed += window.bytes_decompressed


def tested_rows(request: ScanRequest, decision: StripeDecision) -> StripeRows:
    """Returns the rows of a stripe that must be read. If the request requires that the predicate is evaluated for each
    row, then no row is marked as certainly matching."""
    rows = decision.rows
    if not request.tests_each or request.where is None:
        return rows
    return replace(rows, must=RowSelection.none(rows.may.length))


def stripe_nodes(scan: FileScan, rows: StripeRows) -> Mapping[int, OrcType]:
    """The columns that are read from a stripe, and all columns below them, by column id. If all rows of the stripe
    certainly match, columns that only the predicate uses are not read."""
    asked = scan.columns.schema_plan.asked
    proved = scan.request.where is not None and rows.are_proved
    return asked.mapped.nodes if proved else asked.nodes


def count_groups(scan: FileScan, decision: StripeDecision) -> None:
    """Adds the numbers of remaining rows and row groups of a stripe to the metrics of the scan."""
    may, bounds = decision.rows.may, decision.rows.bounds
    if may.is_all:
        kept = group_count(may.length, scan.reader.facts.row_index_stride)
    else:
        bounds = usual_bounds(scan.reader.tail, decision.stripe) if len(bounds) == 2 else bounds  # no index was needed
        kept = int(may.any_in(bounds).sum())
    scan.metrics.row_groups_kept += kept
    scan.metrics.rows_considered += may.count


def count_stripes(scan: FileScan, alive: int) -> None:
    """Adds the numbers of stripes and row groups of a file to the metrics of the scan. ``alive``: the number of stripes
    that may have to be read."""
    metrics, reader = scan.metrics, scan.reader
    metrics.files_skipped += alive == 0
    metrics.stripes += len(reader.stripes)
    metrics.stripes_skipped += len(reader.stripes) - alive
    stride = reader.facts.row_index_stride
    for stripe in reader.stripes:
        metrics.row_groups += group_count(stripe.rows, stride)
