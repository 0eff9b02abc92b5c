"""Makes an ``Explanation`` of the decisions of a scan. Only metadata and indexes are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from orcidx.errors import FileGone, OrcidxError
from orcidx.explain.model import FileExplanation, StripeExplanation, explain_row_groups
from orcidx.explain.overlap import ColumnDepth
from orcidx.fetching.drive import run_value
from orcidx.orc.row_index import group_count, usual_bounds
from orcidx.planner.read_bytes import Planned, data_planned, data_without_evidence
from orcidx.planner.request import FileIndexes, FileJob, ScanRequest, listing_notes
from orcidx.pruning.findings import Note
from orcidx.scanner.file_queue import FileQueue, OpenFile, index_reads, wanted_jobs
from orcidx.scanner.file_scan import FileScan, stripe_nodes, tested_rows
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.scanner.overlap import GroupRanges
from orcidx.scanner.row_limit import limit_note, open_in_turn
from orcidx.scanner.small_files import TAIL_BYTES
from orcidx.scanner.top_rows import SortKey
from orcidx.scanner.top_scan import KEPT_FILES, top_note, with_sort_keys
from orcidx.spellings import counted
from orcidx.storage import RangeReader
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["explain_file", "explain_files", "gone_file"]

MOST_GROUPS = 20_000
SMALL_GROUP, SMALL_GROUPS = 1 << 7, 1 << 18
GROUP_BYTES = 1 << 10
"""The limit on the row groups of a file that are shown one by one is the largest of three numbers. The first number is
``MOST_GROUPS``. The second number is one row group for each 128 bytes of the file, but at most 262,144. The third
number is one row group for each KiB of the file. Each stripe beyond the limit is shown as one row group."""


def _most_groups(size: int) -> int:
    return max(MOST_GROUPS, min(size // SMALL_GROUP, SMALL_GROUPS), size // GROUP_BYTES)


def explain_files(
    jobs: Sequence[FileJob],
    request: ScanRequest,
    given: ScanRequest,
    *,
    limit: int | None,
    indexes: FileIndexes | None,
    order: tuple[SortKey, ...],
) -> tuple[list[FileExplanation], tuple[ColumnDepth, ...]]:
    """Explains what a scan would read of each of its files, and how much the value ranges of the row groups overlap.
    ``order``: the sort keys of a scan for the first rows in an order, or an empty tuple. ``given``: the
    request of the caller. If it has no schema, the scan opens its first file to find the schema."""
    if request.rereads is None:
        request = replace(request, rereads=True)
    request = with_sort_keys(request, order)
    ranges = GroupRanges()
    files: list[FileExplanation] = []
    of_schema: list[int] = []
    if limit is not None and request.where is None and not order:
        rows = 0

        def gone(error: FileGone) -> None:
            of_schema.append(0)
            files.append(gone_file(error))

        with closing(open_in_turn(jobs, request, limit, to_the_end=True, gone=gone)) as files_in_turn:
            for file in files_in_turn:
                of_schema.append(_read_for_schema(file))
                found = explain_file(file.scan, file.storage, ranges)
                if files and rows >= limit:  # a scan ends before this file
                    found = replace(found, read_bytes=0)
                files.append(found)
                rows += found.kept_rows
    else:
        notes: tuple[Note, ...] = ()
        jobs = tuple(jobs)  # a catalog's listing makes new jobs at each access, but jobs are compared by ``id`` below
        left: Sequence[FileJob] = jobs
        metrics = ScanMetrics()
        if indexes is not None and request.where is not None:
            left, notes = indexes.plan(jobs, request, count=partial(add_reads, metrics))
            jobs = _with_indexes(jobs, left)
        with FileQueue(jobs, request, metrics, open_all=True) as queue:
            files.extend(_explained(queue, ranges, of_schema))
        opened = set(map(id, wanted_jobs(left, request, ScanMetrics(), open_all=False)))
        reads = [id(job) in opened or (not at and given.schema is None) for at, job in enumerate(jobs)]
        files = _read_files(files, reads, metrics.bytes_read)
        if order:
            files = list(_opened_again(files, jobs))
        if len(files) > 1 and request.where is not None and not order:
            files = list(_read_small(files, jobs))
        if not jobs or id(jobs[0]) not in opened:
            of_schema.clear()  # the first file is read only for its schema: these bytes are already counted
        if notes and files:
            files[0] = replace(files[0], notes=(*notes, *files[0].notes))
    if (len(files) > 1 or (files and order)) and given.schema is None and of_schema:
        files[0] = replace(files[0], read_bytes=files[0].read_bytes + of_schema[0])
    if files and (told := listing_notes(indexes)):
        files[0] = replace(files[0], notes=(*told, *files[0].notes))
    if limit is not None and files:
        note = top_note(order, limit) if order else limit_note(limit, request)
        files[0] = replace(files[0], notes=(note, *files[0].notes))
    return files, ranges.depths


def _explained(queue: FileQueue, ranges: GroupRanges, of_schema: list[int]) -> Iterator[FileExplanation]:
    """Yields the explanations of the files of the queue, in order. Missing files are included at their positions. The
    metrics of the queue then count only the reads of copies of tails, which are read for several files together. For
    each file, the result of ``_read_for_schema`` is added to ``of_schema``."""
    while True:
        try:
            file = queue.take(wait=True)
            if file is None:
                return
            file.scan.metrics = ScanMetrics()
            with file:
                of_schema.append(_read_for_schema(file))
                found = explain_file(file.scan, file.storage, ranges)
        except FileGone as error:
            of_schema.append(0)
            found = gone_file(error)
        yield found


def _read_for_schema(file: OpenFile) -> int:
    """The bytes of the first file that a scan reads to find the schema, and reads again later. This applies to scans of
    several files, and to scans for the first rows in an order. If the first file is a large local file, or a remote
    file whose version was listed, its tail stays in memory, so nothing is read again."""
    size, job = file.scan.reader.tail.size, file.scan.job
    if file.storage.is_local:
        return size if job.source.kind == "path" and size <= SMALL_FILE_BYTES else 0
    return 0 if job.fingerprint is not None and job.fingerprint.is_version else file.storage.metrics.bytes_fetched


def _read_files(files: Iterable[FileExplanation], opened: Iterable[bool], copies: int) -> list[FileExplanation]:
    """Returns the explanations with the bytes that the scan reads. An explanation opens all files to say how many rows
    are skipped, but a scan opens only some of them. ``opened``: for each file, whether a scan opens it. ``copies``: the
    bytes of the copies of tails. They are added to the first file that is opened."""
    found = []
    for file, is_opened in zip(files, opened, strict=True):
        found.append(replace(file, read_bytes=file.read_bytes + copies if is_opened else 0))
        copies = 0 if is_opened else copies
    if copies and found:
        found[0] = replace(found[0], read_bytes=copies)
    return found


def _opened_again(files: Iterable[FileExplanation], jobs: Iterable[FileJob]) -> Iterator[FileExplanation]:
    """Yields the explanations with the bytes that a scan for the first rows reads when it opens files again."""
    kept = 0
    for file, job in zip(files, jobs, strict=True):
        kept += file.kept_rows > 0
        if file.kept_rows and (kept > KEPT_FILES or job.source.kind != "path"):
            again = file.size if file.read_bytes == file.size else file.index_bytes
            file = replace(file, read_bytes=file.read_bytes + again)
        yield file


def _is_small(file: FileExplanation, job: FileJob) -> bool:
    """Whether the scan reads a small local file."""
    return job.source.kind == "path" and 0 < file.read_bytes == file.size <= SMALL_FILE_BYTES


def _read_small(files: Iterable[FileExplanation], jobs: Iterable[FileJob]) -> Iterator[FileExplanation]:
    """Yields the explanations with the bytes that ``SmallFiles`` reads of small local files. After a file that its
    statistics rule out, only the tail of the next file is read first. After any other file, the next file is read
    completely."""
    last = TAIL_BYTES
    for file, job in zip(files, jobs, strict=True):
        if not _is_small(file, job):
            yield file
            continue
        read = min(last, file.size)
        last = TAIL_BYTES if file.reasons else SMALL_FILE_BYTES
        yield replace(file, read_bytes=read if file.reasons or read == file.size else read + file.size)


def gone_file(error: FileGone) -> FileExplanation:
    """Returns the explanation of a file that was listed but is missing now. Its number of rows is unknown."""
    return FileExplanation(error.file or "", 0, (), (Note("file", "gone", str(error)),))


def _with_indexes(jobs: Iterable[FileJob], left: Iterable[FileJob]) -> tuple[FileJob, ...]:
    """Returns a copy of ``jobs``, in which each job in ``left`` replaces the job for the same file. The files must have
    the same order in ``left`` and in ``jobs``."""
    found = deque(left)
    return tuple(found.popleft() if found and found[0].source == job.source else job for job in jobs)


def explain_file(scan: FileScan, storage: RangeReader, ranges: GroupRanges) -> FileExplanation:
    """Explains what the scan would read of its file. A stripe is not examined if the statistics in the tail or the
    file's Paimon index rule it out. The ranges of the file's row groups are added to ``ranges``."""
    to_open = storage.metrics.bytes_fetched
    alive = set(scan.stripe_numbers())
    left = _most_groups(scan.reader.tail.size)
    stripes: list[StripeExplanation] = []
    lumped: list[int] = []
    data = 0
    for number in range(len(scan.reader.stripes)):
        stripe, requested, groups = _explain_stripe(scan, number, number in alive, storage, most_groups=left)
        stripes.append(stripe)
        left -= len(stripe.row_groups)
        lumped += [groups] * (groups > len(stripe.row_groups))
        data += requested
    whole = scan.reader.whole() is not None
    index = index_reads(scan)
    indexed = 0 if index is None else index.bytes_fetched
    read = storage.metrics.bytes_fetched + indexed
    scan.reader.rereads = False  # a scan does not make the reads below, so they may use the caches
    uncounted = _count_skipped(scan, stripes, alive, storage)
    ranges.add(scan)
    outcome = scan.evidence.pruner.outcome
    rows = scan.reader.tail.footer.rows
    return FileExplanation(
        file=scan.reader.name,
        rows=rows,
        stripes=tuple(stripes),
        notes=(*_notes_of_file(scan, lumped), *uncounted, *(() if outcome is None else outcome.notes)),
        reasons=() if outcome is None or alive or not rows else outcome.reasons(0, rows),
        index_bytes=read - to_open,
        read_bytes=read if whole else read + data,
        size=scan.reader.tail.size,
    )


def _count_skipped(
    scan: FileScan, stripes: list[StripeExplanation], alive: set[int], storage: RangeReader
) -> tuple[Note, ...]:
    """Sets the number of bytes of the stripes that the statistics in the tail or the file's Paimon index rule out. A
    scan does not read the footers of these stripes, but this function reads the footers to find the number of bytes. If
    a footer is damaged, the bytes of all columns of its stripe are counted. A note says how many footers are
    damaged."""
    skipped = [number for number in range(len(stripes)) if number not in alive and stripes[number].rows]
    with suppress(OrcidxError):  # damaged footers are handled below
        run_value(scan.fetch_footers(skipped), storage)
    damaged = 0
    for number in skipped:
        try:
            size = data_without_evidence(scan.reader, number, scan.evidence.pruner.nodes)
        except OrcidxError:
            damaged += 1
            continue
        stripes[number] = replace(stripes[number], bytes=size)
    text = f"{counted(damaged, 'footer')} of skipped stripes cannot be read: the bytes of all their columns are counted"
    return (Note("bytes", "damaged", text),) if damaged else ()


def _notes_of_file(scan: FileScan, lumped: list[int]) -> tuple[Note, ...]:
    """The notes on a file. Some stripes with many row groups are shown as one row group. ``lumped`` has the number of
    row groups of each such stripe."""
    if scan.reader.tail.size == 0:
        return (
            Note("file", "absent", "the file is empty: a file of zero bytes counts as a file without rows and columns"),
        )
    if lumped:
        stripes = counted(len(lumped), "stripe")
        text = f"{sum(lumped):,} row groups of {stripes} are not shown one by one: each stripe counts as one row group"
        most = f"at most {_most_groups(scan.reader.tail.size):,} row groups are shown for a file of this size"
        return (Note("row groups", "off", f"{text} ({most}); rows and bytes are exact"),)
    return ()


def _explain_stripe(
    scan: FileScan, number: int, alive: bool, storage: RangeReader, *, most_groups: int
) -> tuple[StripeExplanation, int, int]:
    """Returns the explanation of the stripe, the number of bytes of its data that a scan requests, and its number of
    row groups."""
    decision = run_value(scan.decide(number) if alive else scan.evidence.pruner.decide(number), storage)
    total, planned = scan.reader.stripes[number].data_length, Planned()
    fetched = scan.evidence.pruner.take_fetched(number)
    if alive:
        reader, columns = scan.reader, stripe_nodes(scan, tested_rows(scan.request, decision))
        total = data_without_evidence(reader, number, scan.evidence.pruner.nodes)
        planned = data_planned(
            reader, number, columns, index=decision.index, kept=decision.kept, fetched=fetched.keys()
        )
    rows = decision.rows
    # If the decision has only one range of rows, either no index was needed, or no index could be read. The row groups
    # are then computed from the row index stride.
    count, bounds = len(rows.bounds) - 1, rows.bounds
    if count < 2:
        count = max(count, group_count(rows.may.length, scan.reader.tail.facts.row_index_stride))
        bounds = usual_bounds(scan.reader.tail, number, most=most_groups)
    if len(bounds) - 1 > most_groups:
        bounds = bounds[[0, -1]]
    groups = explain_row_groups(
        bounds, first_row=rows.first_row, may=rows.may, must=rows.must, outcome=decision.outcome
    )
    stripe = StripeExplanation(
        stripe=number,
        first_row=rows.first_row,
        rows=rows.may.length,
        kept_rows=rows.may.count,
        bytes=total,
        kept_bytes=planned.planned,
        row_groups=groups,
        notes=decision.notes,
    )
    return stripe, planned.requested, count
