"""Reads each small local file of a known schema with one call. If compiled code supports all columns of the file
(``orc/small_stripe``), one more call decodes the file. A large file that the caller has opened can also be read without
opening it again (``opened_file``).

Opening a file creates a reader, a tail, a scan and a pruner. Running the generators of the scan takes as long as
creating these objects. Together, opening and scanning take ten times as long as decoding a hundred rows. So in a
directory of small files usually only the first file is opened. For each other file ``take`` returns the rows (possibly
none). It returns None if this file must be opened and pruned, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.plain_columns import PLAIN_ROWS
from orcidx.orc.reader import OrcReader
from orcidx.orc.small_file import FoundFile, SmallFile
from orcidx.orc.small_tails import FileKind, Like
from orcidx.orc.types import OrcType
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.schema_plan import SchemaPlan, schema_plan
from orcidx.scanner import small_groups
from orcidx.scanner.like_files import LikeFiles, like_files, schema_of
from orcidx.scanner.metrics import ScanMetrics, add_counts
from orcidx.scanner.opened_file import opened_file, rows_that_match
from orcidx.scanner.small_filter import SmallFilter
from orcidx.scanner.small_groups import WaitingFile, WholeRows
from orcidx.scanner.small_reads import SmallReads
from orcidx.scanner.small_stripes import count_file, is_for_one_call, read_at_once
from orcidx.scanner.stage_timer import StageTimer
from orcidx.storage import Fingerprint
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["SmallFiles", "SmallRows"]

TAIL_BYTES = 16 << 10
"""Bytes that are read if only the tail is needed. A file with a larger footer is opened."""

TRIES_IN_VAIN = 8
TRIES_A_SUCCESS = 4
"""After ``TRIES_IN_VAIN`` files that could not be read without opening them, reading without opening is not tried
again. Each success allows ``TRIES_A_SUCCESS`` more failures. Reading the tail of a small file takes 25 us, and opening
the file takes 150 us."""


class SmallRows(NamedTuple):
    """The rows of a file, or of several files. ``batches``: the rows as batches. It is empty if the rows are only
    counted. ``schema``: a function that returns the schema of the batches. ``stored``: the number of all rows of the
    file, including rows that do not match. ``waiting``: the file, if its rows wait to be decoded together with those of
    other files. ``rows`` and ``batches`` are empty in that case."""

    rows: int
    batches: list[pa.RecordBatch]
    schema: Callable[[], pa.Schema]
    stored: int
    waiting: WaitingFile | None = None


class SmallFiles:
    """Reads the small files of one pass. ``tails_alone``: whether rows are counted without examining stripes.
    ``is_only``: whether the pass reads only one file. This file is read completely, so that it is read only once."""

    def __init__(self, request: ScanRequest, metrics: ScanMetrics, *, tails_alone: bool, is_only: bool = False) -> None:
        options = request.options
        self._request = request
        self._metrics = metrics
        self._opening = StageTimer(metrics.seconds, "open")
        self._decoding = StageTimer(metrics.seconds, "decode")
        self._tails_alone = tails_alone
        whole = is_only or (request.where is None and not tails_alone)
        self._limits = MetadataLimits.of(options)
        self.reads = SmallReads(metrics, SMALL_FILE_BYTES if whole else TAIL_BYTES, self._limits)
        self._plan: tuple[bytes, SchemaPlan] | None = None
        self._known: LikeFiles | None = None
        cut = request.limit is not None and request.where is None
        usable = not (options.mmap or cut or options.strings == "dictionary")
        self._tries = TRIES_IN_VAIN if usable else 0

    def take(self, job: FileJob, *, together: bool = False) -> SmallRows | None:
        """Returns the rows of the file. Returns None if the file must be opened. ``reads.held`` then has its bytes,
        if all of them were read. ``together``: whether the caller decodes the rows of waiting files."""
        if not self._tries or job.source.kind != "path" or not _is_all(job):
            return None
        together = together and small_groups.ENABLED
        if job.constants and not (together or self._tails_alone):
            return None
        self._tries -= 1
        reader = None if job.opened is None else job.opened()
        if reader is not None and reader.tail.size > SMALL_FILE_BYTES:
            return self._take_large(reader, job)
        with self._opening:
            file = self._read(reader, job)
        if file is None:
            return None
        try:
            found = self._rows(file, job, together=together)
        except OrcidxError:  # opening the file raises the error again, with its position
            return None
        if found is not None:
            self._tries += 1 + TRIES_A_SUCCESS
            self.reads.held = None
        return found

    def _take_large(self, reader: OrcReader, job: FileJob) -> SmallRows | None:
        """Returns all rows of a file that the caller has opened, or all matching rows."""
        if job.stripes is not None or self._tails_alone:
            return None
        if self._request.where is not None:
            return self._filter_large(reader, job)
        file = opened_file(reader, job, self._limits)
        if file is None:
            return None
        work = ScanMetrics()
        try:
            plan = self._planned(reader.schema_key, reader.root, job)
            with self._decoding:
                batches = file.batches(plan, self._request, work)
        except OrcidxError:  # opening the file raises the error again
            return None
        if batches is None:
            return None
        metrics = self._metrics
        metrics.requests += file.reads.requests
        metrics.bytes_read += file.reads.bytes_fetched
        metrics.chunks_decompressed += work.chunks_decompressed
        metrics.bytes_decompressed += work.bytes_decompressed
        count_file(metrics, reader.stripes, reader.facts.row_index_stride, is_out=False)
        footer = reader.tail.footer
        schema = partial(schema_of, plan, self._request, footer.user_metadata)
        return SmallRows(footer.rows, batches, schema, footer.rows)

    def _filter_large(self, reader: OrcReader, job: FileJob) -> SmallRows | None:
        """Returns the matching rows of a file that the caller has opened, if all of them go into one table. For a
        request without columns the rows are only counted."""
        request = self._request
        if request.wanted_as != "table" or request.limit is not None or request.columns == ():
            return None
        try:
            with self._decoding:
                found = rows_that_match(reader, job, request, self._limits)
        except (OrcidxError, OSError):  # the file is opened again, also if the caller has closed it meanwhile
            return None
        if found is None:
            return None
        scan, batches = found
        add_counts(self._metrics, scan.metrics)
        rows = 0
        for batch in batches:
            rows += batch.num_rows
        return SmallRows(rows, batches, partial(getattr, scan.columns, "schema"), reader.tail.footer.rows)

    def give_up(self) -> None:
        """Makes ``take`` return None for all later files, so that they are opened."""
        self._tries = 0

    def _read(self, reader: OrcReader | None, job: FileJob) -> SmallFile | None:
        metrics = self._metrics
        if reader is not None:
            reads = reader.storage.metrics
            requests, size = reads.requests, reads.bytes_fetched
            opened = _opened(reader, job, self._limits)
            metrics.requests += reads.requests - requests
            metrics.bytes_read += reads.bytes_fetched - size
            if opened is not None:
                return opened
        found = self.reads.read(job.source.location)
        if found is None:
            return None
        if job.fingerprint is not None and not Fingerprint(found.size, None, found.mtime_ns).matches(job.fingerprint):
            return None
        return self.reads.split(found)

    def _rows(self, file: SmallFile, job: FileJob, *, together: bool) -> SmallRows | None:
        if job.stripes is not None and list(job.stripes) != list(range(len(file.stripes))):
            return None
        known = self._known
        if known is None or not known.holds_for(file, job):
            plan = self._planned(file.like.type_bytes, file.kind.root, job)
            known = self._known = like_files(file, job, plan, self._request, known)
        if self._tails_alone:
            return SmallRows(file.rows, [], known.schema, file.rows)
        is_out = False
        found: list[pa.RecordBatch] | WaitingFile | None
        if known.plan.where is None:
            found = self._decoded(file, job, known, together=together)
        elif known.rules_out is not None and known.rules_out(file):
            found, is_out = [], True
            self.reads.last = TAIL_BYTES
        else:
            found = self._filtered(file, job, known.reader, together=together)
        if found is None:
            return None
        if isinstance(found, WaitingFile):
            return SmallRows(0, [], known.schema, file.rows, found)
        count_file(self._metrics, file.stripes, file.facts.row_index_stride, is_out=is_out)
        rows = 0
        for batch in found:
            rows += batch.num_rows
        return SmallRows(rows, found, known.schema, file.rows)

    def _planned(self, key: bytes, root: OrcType, job: FileJob) -> SchemaPlan:
        if job.constants:
            return schema_plan(key, root, self._request, job)
        if self._plan is None or self._plan[0] != key:
            self._plan = key, schema_plan(key, root, self._request, job)
        return self._plan[1]

    def _filtered(
        self, file: SmallFile, job: FileJob, under: SmallFilter | WholeRows | None, *, together: bool
    ) -> list[pa.RecordBatch] | WaitingFile | None:
        """Returns the matching rows, or the file with rows that are not decoded yet. Returns None if the file must be
        opened, for example because only its tail was read. After such a file, the next file is read completely."""
        self.reads.last = SMALL_FILE_BYTES
        request = self._request
        if not isinstance(under, SmallFilter) or not under.takes(file, request) or not file.is_whole:
            return None
        footer = file.stripe_footer(file.stripes[0], self._limits)
        if under.may_rule_out(footer, request):
            return None
        if together and under.together:
            return WaitingFile(under, request, self._metrics, file, footer, self._values(job), file.stripes[0].rows)
        work = ScanMetrics()
        with self._decoding:
            found = under.rows_of(file, footer, (0, file.data), request=request, metrics=work)
        if found is None:
            return None
        self._metrics.chunks_decompressed += work.chunks_decompressed
        self._metrics.bytes_decompressed += work.bytes_decompressed
        return [found] if found.num_rows else []

    def _values(self, job: FileJob) -> Mapping[str, Any]:
        """The values of the columns that have one value in the file, by name."""
        name = self._request.file_path
        return job.constants if name is None else {**job.constants, name: job.source.name}

    def _decoded(
        self, file: SmallFile, job: FileJob, known: LikeFiles, *, together: bool
    ) -> list[pa.RecordBatch] | WaitingFile | None:
        """Returns all rows, as a batch for each stripe, or the file with rows that are not decoded yet. Returns None if
        one of the stripes needs column readers."""
        options = self._request.options
        if not file.is_whole:
            return None
        if together and len(file.stripes) == 1:
            stripe, under = file.stripes[0], known.reader
            if under is not None and 0 < stripe.rows <= min(PLAIN_ROWS, options.batch_size):
                footer, values = file.stripe_footer(stripe, self._limits), self._values(job)
                return WaitingFile(under, self._request, self._metrics, file, footer, values, stripe.rows)
        plan = known.plan
        if not plan.is_complete:
            return None
        work = ScanMetrics()
        batches = []
        facts, held = file.kind.facts, (0, file.data)
        with self._decoding:
            for stripe in file.stripes:
                if not stripe.rows:
                    continue
                if not is_for_one_call(plan, stripe, options):
                    return None
                footer = file.stripe_footer(stripe, self._limits)
                batch = read_at_once(plan, facts, stripe, footer, held, request=self._request, metrics=work)
                if batch is None:
                    return None
                batches.append(batch)
        self._metrics.chunks_decompressed += work.chunks_decompressed
        self._metrics.bytes_decompressed += work.bytes_decompressed
        return batches


def _opened(reader: OrcReader, job: FileJob, limits: MetadataLimits) -> SmallFile | None:
    """Makes a ``SmallFile`` from a file that the caller has already opened, if its bytes are in memory. Returns None
    for any other file. Also returns None if the file at the path has changed since it was opened."""
    tail = reader.tail
    if job.fingerprint is None or tail.footer.encryption is not None:
        return None
    try:
        status = os.stat(job.source.location)
        known = job.fingerprint
        if (status.st_size, status.st_mtime_ns) != (known.size, known.mtime):
            return None
        data = reader.whole()
    except (OSError, OrcidxError):  # the file is closed or missing: opening it raises the error
        return None
    if data is None or limits.for_file(tail.size) is not limits:
        return None
    kind = FileKind(reader.facts, reader.root, tail.columns)
    like = Like(reader.schema_key, kind, tail.footer.user_metadata)
    found = FoundFile(data, tail.size, status.st_mtime_ns)
    return SmallFile(found, like, tail.rows, reader.stripes, tail.footer_bytes)


def _is_all(job: FileJob) -> bool:
    """Whether the job wants all rows of the file, and has no file index. This function ignores the list of stripes in a
    job. Other code checks the list."""
    chosen = job.selection is not None or job.row_range is not None
    return not (chosen or job.deleted is not None or job.file_index is not None)
