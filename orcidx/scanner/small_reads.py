"""``SmallReads``: reads each small local file with one call, usually before it is needed. If the file must be opened
afterwards, its bytes are not read again."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from orcidx.options import RequestOptions
from orcidx.orc.metadata_cache import KINDS
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.small_file import FoundFile, SmallFile
from orcidx.orc.small_tails import SmallTails
from orcidx.orc.tail_reads import TailReads
from orcidx.scanner import reads_ahead
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.reads_ahead import ReadsAhead
from orcidx.scanner.work_queue import WorkQueue
from orcidx.storage import Fingerprint, RangeReader, Source
from orcidx.storage.local import SMALL_FILE_BYTES, hold

__all__ = ["SmallReads", "held_source"]


class HeldFile(NamedTuple):
    """The small file at ``path``, of which all bytes are in memory."""

    path: str
    file: FoundFile

    def source_like(self, source: Source) -> Source:
        """Returns a source of this file. Opening the source does not read the file's bytes again. ``source``: another
        source of this file."""
        return HeldSource(**{one.name: getattr(source, one.name) for one in fields(Source)}, held=self)


@dataclass(frozen=True)
class HeldSource(Source):
    """A small local file whose bytes were read before. Its readers do not read them again, unless the file has changed
    since then."""

    held: HeldFile = field(kw_only=True, compare=False, repr=False)

    def open(self, options: RequestOptions | None = None, *, expected: Fingerprint | None = None) -> RangeReader:
        """See ``Source.open``."""
        storage = super().open(options, expected=expected)
        hold(storage, self.held.file.data, self.held.file.mtime_ns)
        return storage


def held_source(source: Source, reader: OrcReader) -> Source:
    """Returns a source of the file that ``reader`` has open. Opening the source does not read the file's bytes again.
    For a file that is not small and local, returns ``source``."""
    whole = reader.whole() if source.kind == "path" else None
    version = reader.storage.fingerprint()
    if whole is None or len(whole) > SMALL_FILE_BYTES or version.mtime is None:
        return source
    return HeldFile(source.location, FoundFile(memoryview(bytes(whole)), len(whole), version.mtime)).source_like(source)


@dataclass(eq=False)
class SmallReads:
    """Reads small files, and counts the reads in ``metrics``. ``last``: how many bytes at the end of a file are read.
    ``held``: the file that was read last, if all its bytes were read and it must still be opened."""

    metrics: ScanMetrics
    last: int
    limits: MetadataLimits | None = None
    held: HeldFile | None = None
    _size: int = 0
    _tails: SmallTails | None = None
    _ahead: ReadsAhead | None = None

    def read(self, path: str) -> FoundFile | None:
        """Returns the end of a file and its tail. Returns None for a file that is not small, and for every error."""
        found = None if self._ahead is None else self._ahead.take(path, self.last)
        if found is not None and len(found.data) < min(found.size, self.last):  # only its tail was wanted before
            self._count(found)
            found = None
        if found is None:
            pattern = None if self._tails is None else self._tails.pattern
            alone = TailReads([path], pattern, most=SMALL_FILE_BYTES, last=self.last)
            alone.run()
            found = alone.take(path)
        if found is not None:
            self._count(found)
            self.held = HeldFile(path, found) if found.is_whole else None
        return found

    def _count(self, found: FoundFile) -> None:
        self._size = len(found.data)
        self.metrics.requests += 1
        self.metrics.bytes_read += self._size

    def split(self, found: FoundFile) -> SmallFile | None:
        """See ``SmallTails.split``."""
        if self._tails is None:
            self._tails = SmallTails(self.limits or MetadataLimits(), KINDS.get)
        return self._tails.split(found)

    def read_ahead(self, jobs: JobsLeft, queue: WorkQueue) -> None:
        """Lets threads read the files of the next jobs, if a similar file was read before. ``queue``: as in
        ``ReadsAhead``."""
        if reads_ahead.ENABLED and self._tails is not None and self._size:
            self._ahead = ReadsAhead(jobs, self._tails, self._size, queue)
            self._ahead.begin(self.last)

    def close(self) -> None:
        """Waits for the threads that read the next files. Files that they have read, and that were not taken, are
        dropped."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def to_open(self, source: Source) -> Source:
        """The source of a file that must be opened. If the file was read last, its bytes are not read again."""
        held, self.held = self.held, None
        return source if held is None or held.path != source.location else held.source_like(source)
