"""``JobsLeft``: the jobs of the files that a scan still has to read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from orcidx.planner.request import FileJob

__all__ = ["JobsLeft"]


class JobsLeft:
    """The jobs of the files that are still to be read. ``put_back``: a job that was taken and then put back. This job
    is taken again before the jobs that follow."""

    def __init__(self, jobs: Iterator[FileJob]) -> None:
        self.put_back: FileJob | None = None
        self._known: deque[FileJob] = deque()
        """Jobs that were put back, or that the caller has looked at. They come after ``put_back``."""
        self._rest = jobs
        self._failed: Exception | None = None
        """The error of the job after the known ones."""

    def take(self) -> FileJob | None:
        """Returns the job of the next file. Returns None after the last file."""
        job, self.put_back = self.put_back, None
        return self.take_new() if job is None else job

    def take_new(self) -> FileJob | None:
        """Returns the next job after the one that was put back. Returns None after the last file."""
        if self._known:
            return self._known.popleft()
        if self._failed is not None:
            raise self._failed
        return next(self._rest, None)

    def look(self, count: int) -> list[FileJob]:
        """Returns the next ``count`` jobs that are not known, and does not take them. If an error occurs, it is raised
        when the job is taken."""
        found: list[FileJob] = []
        try:
            while len(found) < count and self._failed is None and (job := next(self._rest, None)) is not None:
                found.append(job)
        except Exception as error:
            self._failed = error
        self._known.extend(found)
        return found

    def put_back_all(self, jobs: list[FileJob]) -> None:
        """Puts back the jobs that were taken last, in their order."""
        if self.put_back is not None:
            self._known.appendleft(self.put_back)
            self.put_back = None
        self._known.extendleft(reversed(jobs))
