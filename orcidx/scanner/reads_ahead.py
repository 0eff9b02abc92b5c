"""``ReadsAhead``: reads the next small files of a scan, while the caller works with the files before them.

Some tests set ``ENABLED`` to False. Each file is then read when it is needed, with the same results.
"""

from __future__ import annotations

from collections import deque

from orcidx.orc.small_file import FoundFile
from orcidx.orc.small_tails import SmallTails
from orcidx.orc.tail_reads import TailReads
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.work_queue import WorkQueue
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["ENABLED", "READS", "ReadsAhead"]

ENABLED = True

FILES_A_READ = 64
"""The most files that one piece of work reads. The caller waits for all of them, and can do other work meanwhile."""

BYTES_A_READ = 4 << 20
"""Fewer files are read if they would have more bytes. They are assumed to be as large as the last file."""

READS = 2
"""The number of pieces of work that are waiting or running, or whose files are not all taken."""


class ReadsAhead:
    """Reads the files of the jobs that are left. ``size``: the number of bytes that were read of the file before them.
    ``queue``: the queue to which the reads are added. If it has other work, the caller does this work while a thread
    reads files that the caller waits for."""

    def __init__(self, jobs: JobsLeft, tails: SmallTails, size: int, queue: WorkQueue) -> None:
        self._jobs = jobs
        self._tails = tails
        self._queue = queue
        self._size = size
        self._waiting: deque[TailReads] = deque()
        self._ready: TailReads | None = None

    def begin(self, last: int) -> None:
        """Lets threads read the ends of the next files. ``last``: how many bytes of each file."""
        count = max(1, min(FILES_A_READ, BYTES_A_READ // self._size))
        while len(self._waiting) + (self._ready is not None) < READS:
            jobs = self._jobs.look(count)
            if not jobs:
                break
            paths = [job.source.location for job in jobs if job.source.kind == "path" and job.opened is None]
            reads = TailReads(paths, self._tails.pattern, most=SMALL_FILE_BYTES, last=last)
            self._queue.add([reads])
            self._waiting.append(reads)

    def take(self, path: str, last: int) -> FoundFile | None:
        """Returns the file, if it was read. ``last``: how many bytes of the files after it are read."""
        while True:
            if self._ready is None:
                if not self._waiting:
                    return None
                self._queue.finish([self._waiting[0]])  # may be interrupted
                self._ready = self._waiting.popleft()
                self.begin(last)
            found = self._ready.take(path)
            if found is not None:
                self._size = len(found.data)
            if found is not None or self._ready.left:
                return found
            self._ready = None

    def close(self) -> None:
        """Drops the reads, and the other work of the queue."""
        self._queue.close()
        self._waiting.clear()
        self._ready = None
