"""Opens the files of a scan in order. While one file is read, the tails of the next files are already read, and these
files are pruned.

A file is never opened if its constant columns (Hive partitions) rule it out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported
from orcidx.fetching.drive import run_value
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.planner.constant_evidence import rules_out
from orcidx.planner.request import FileIndexes, FileJob, ScanRequest
from orcidx.planner.schema_mapping import computed_type
from orcidx.predicate import BoundPredicate, External, bind
from orcidx.predicate.fold import parts
from orcidx.scanner.file_scan import FileScan, count_stripes
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.scanner.small_files import SmallFiles, SmallRows
from orcidx.scanner.small_queue import SmallQueue
from orcidx.storage import RangeReader, ReadMetrics
from orcidx.storage.failures import gone
from orcidx.storage.threads import READERS
from orcidx.threads.tasks import Task

__all__ = ["FileQueue", "OpenFile", "check_condition", "index_reads", "jobs_left", "open_job", "wanted_jobs"]

REMOTE_AHEAD = 8
"""The most files that are opened in advance. With half as many, small files take 1.5 times as long (decision 0113).
Local files are not opened in advance, because handing a file to a thread takes longer than opening it."""


class OpenFile:
    """An open file of a scan, and the ``FileScan`` that reads the file. ``close`` adds the file's requests to the
    metrics of the scan. If ``before_close`` is given, ``close`` calls it first, to end the threads that read the
    file."""

    def __init__(self, storage: RangeReader, scan: FileScan) -> None:
        self.storage = storage
        self.scan = scan
        self.is_open = True
        self.before_close: Callable[[], None] | None = None

    def close(self) -> None:
        if self.is_open:
            if self.before_close is not None:
                self.before_close()
            self.is_open = False
            self.scan.metrics.requests += self.storage.metrics.requests
            self.scan.metrics.bytes_read += self.storage.metrics.bytes_fetched
            if (reads := index_reads(self.scan)) is not None:
                add_reads(self.scan.metrics, reads)
            self.storage.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def index_reads(scan: FileScan) -> ReadMetrics | None:
    """The counts of what was read from an index that the scan has opened."""
    evidence = scan.__dict__.get("evidence")
    found = None if evidence is None else evidence.__dict__.get("index")
    return None if found is None or found is scan.job.file_index else found.reads


def open_job(job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> OpenFile:
    """Opens a file and reads what is needed before its stripes: the tail, and everything that ``prepare`` requests.

    Raises ``FileGone`` if the file is missing, although it existed when it was listed or when the scan was split.
    """
    try:
        storage = job.source.open(request.options, expected=job.fingerprint)
    except FileNotFoundError as error:
        raise gone(job.source.name) from error
    try:
        scan = FileScan(_reader(storage, job, request, metrics), job, request, metrics)
        if request.options.strings == "dictionary":
            run_value(scan.prepare(), storage)
        return OpenFile(storage, scan)
    except FileNotFoundError as error:  # an object store raises this error at the first read
        storage.close()
        raise gone(job.source.name) from error
    except BaseException:
        storage.close()
        raise


def _reader(storage: RangeReader, job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> OrcReader:
    """Opens the file. If a copy of its tail is stored elsewhere, the copy is read instead of the tail."""
    limits = MetadataLimits.of(request.options)
    rereads = bool(request.rereads)
    if job.tail is None or job.fingerprint is None or not hasattr(storage, "at_hand"):
        return OrcReader(storage, limits, rereads=rereads)
    remote: Any = storage
    remote.at_hand.stored_tail = partial(job.tail.read, metrics)
    try:
        return OrcReader(storage, limits, rereads=rereads)
    except (CorruptFile, Unsupported):  # the catalog's copy of the tail is damaged: read the file's own tail
        return OrcReader(storage, limits, rereads=rereads)


def check_condition(
    jobs: Sequence[FileJob], left: Sequence[FileJob], request: ScanRequest, metrics: ScanMetrics
) -> None:
    """Raises the errors of a condition if a scan has only one file, and indexes rule out this file. Indexes may have
    only some of the file's columns, so they may rule out the file although the condition has an unknown or ambiguous
    name, or a literal of a wrong type. ``left``: the jobs that the indexes leave."""
    if jobs and not left and request.schema is None and request.where is not None:
        with open_job(jobs[0], request, metrics) as file:
            file.scan.columns.check_condition()


def jobs_left(
    indexes: FileIndexes | None, jobs: Sequence[FileJob], request: ScanRequest, metrics: ScanMetrics
) -> Sequence[FileJob]:
    """Evaluates the indexes that are stored beside the files. Returns the files that these indexes do not rule out."""
    if indexes is None or request.where is None:
        return jobs
    with metrics.stage("open"):
        left, _ = indexes.plan(jobs, request, count=partial(add_reads, metrics))
    metrics.skip_files(len(jobs) - len(left))
    check_condition(jobs, left, request, metrics)
    return left


def _open_and_prune(job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> OpenFile:
    """Opens a file and prunes it. For a local file the remaining rows are computed only when they are needed."""
    file = open_job(job, request, metrics)
    if file.storage.is_local:
        return file
    try:
        file.scan.stripe_numbers()
        return file
    except BaseException:
        file.close()
        raise


def wanted_jobs(
    jobs: Iterable[FileJob], request: ScanRequest, metrics: ScanMetrics, *, open_all: bool
) -> Iterator[FileJob]:
    """Returns the jobs of the files that are not ruled out by their constants. If ``open_all`` is set, returns all
    jobs."""
    where = None if open_all else _bound(request)
    without = where is not None and rules_out(where, {})  # the same for all files without constants
    for job in jobs:
        metrics.files += 1
        if where is not None:
            constants = _constants(job, request)
            if rules_out(where, constants) if constants else without:
                metrics.files_skipped += 1
                continue
        yield job


def _constants(job: FileJob, request: ScanRequest) -> Mapping[str, Any]:
    name = request.file_path
    return job.constants if name is None else {**job.constants, name: job.source.name}


def _bound(request: ScanRequest) -> BoundPredicate | None:
    """The predicate, bound to the wanted schema. This schema has the types of the constant columns."""
    if request.where is None or request.schema is None:
        return None
    schema = request.predicate_schema
    options = request.options
    computed = None
    if any(isinstance(part, External) for part in parts(request.where)):
        computed = pa.schema([one.with_type(computed_type(one.type, one.type)) for one in schema])
    return bind(request.where, schema, nan=options.nan, case_sensitive=options.case_sensitive, computed=computed)


class FileQueue:
    """Opens the files of ``jobs``. It is a context manager, which closes all files that are still open.

    ``open_all``: whether files are opened even if their constants rule them out. ``tails_alone``: whether only tails
    are read. In this case stripes are neither read nor counted in the metrics. ``small``: the reader of small files, if
    the caller has already used it. ``counted``: whether stripes are counted in the metrics.
    """

    def __init__(
        self,
        jobs: Iterable[FileJob],
        request: ScanRequest,
        metrics: ScanMetrics,
        *,
        open_all: bool = False,
        tails_alone: bool = False,
        small: SmallFiles | None = None,
        counted: bool = True,
    ) -> None:
        self._open = open_job if tails_alone else _open_and_prune
        is_only = not tails_alone and isinstance(jobs, list | tuple) and len(jobs) == 1
        small = small or SmallFiles(request, metrics, tails_alone=tails_alone, is_only=is_only)
        self._counted = counted and not tails_alone
        self._request = request
        self._metrics = metrics
        self._jobs = JobsLeft(wanted_jobs(jobs, request, metrics, open_all=open_all))
        self._smalls = SmallQueue(self._jobs, small, request, may_group=not (is_only or tails_alone))
        self._opening: deque[Task[OpenFile]] = deque()
        self._taken = 0
        self._rows_left = None if request.where is not None else request.limit
        self._in_use: list[OpenFile] = []

    def take_small(self, *, together: bool = False) -> SmallRows | None:
        """Returns the rows of the next file, or of several files, if they can be read without opening the files.
        Returns None for any other file, and after the last file. ``together``: whether several files may be read before
        the first rows are returned."""
        if self._opening:
            return None
        return self._smalls.take(together=together)

    def take(self, *, wait: bool) -> OpenFile | None:
        """Returns the next file after pruning it. Returns None after the last file. With ``wait=False``, also returns
        None if no file is ready."""
        if wait and not self._opening:
            job = self._jobs.take()
            if job is None:
                return None
            job = self._smalls.to_open(job)
            self._fill()
            with self._metrics.stage("open"):
                file = self._open(job, self._request, self._metrics)
        else:
            self._fill()
            if not self._opening or not (wait or self._opening[0].done()):
                return None
            with self._metrics.stage("open"):
                file = self._opening.popleft().result()
        self._taken += 1
        if self._rows_left is not None and self._rows_left > 0:
            self._rows_left -= file.scan.rows.wanted.count
        self._in_use = [one for one in self._in_use if one.is_open]
        self._in_use.append(file)
        if self._counted:
            count_stripes(file.scan, len(file.scan.stripe_numbers()))
        self._fill()
        return file

    def _fill(self) -> None:
        """Starts opening the next files. The more files have been used, the more files are opened in advance. If the
        files that were taken have enough rows for the limit, no file is opened in advance."""
        if self._in_use and self._in_use[-1].storage.is_local:
            return
        if self._rows_left is not None and self._rows_left <= 0:
            return
        if not self._smalls.is_empty:
            return
        while len(self._opening) < min(REMOTE_AHEAD, self._taken):
            job = self._jobs.take()
            if job is None:
                return
            self._opening.append(READERS.submit(partial(self._open, job, self._request, self._metrics)))

    def __iter__(self) -> Iterator[OpenFile]:
        """The files one after the other. Each file is closed when the next one is requested."""
        while (file := self.take(wait=True)) is not None:
            with file:
                yield file

    def close(self) -> None:
        """Closes every file, and waits for the files that are being opened."""
        self._smalls.close()
        opening = [future for future in self._opening if not future.cancel()]
        self._opening.clear()
        for future in opening:
            if future.exception() is None:
                future.result().close()
        for file in self._in_use:
            file.close()

    def __enter__(self) -> FileQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
