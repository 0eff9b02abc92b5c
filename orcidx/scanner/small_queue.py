"""``SmallQueue``: the rows of small files in the order of the files. Rows of files that can be decoded together are
decoded in groups (``small_groups``)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.small_files import SmallFiles, SmallRows
from orcidx.scanner.small_groups import LANES, SmallGroup, SmallGroups

__all__ = ["SmallQueue"]


class SmallQueue:
    """Takes jobs as long as their files are small and need not be opened. The first file that must be opened is put
    back. ``may_group``: whether files may be decoded together."""

    def __init__(self, jobs: JobsLeft, small: SmallFiles, request: ScanRequest, *, may_group: bool) -> None:
        self._jobs = jobs
        self._small = small
        self._use_threads = request.options.use_threads
        self._takes_all = request.wanted_as != "batches"
        self._may_group = may_group
        self._groups: SmallGroups[tuple[FileJob, SmallRows]] | None = None
        self._next: tuple[FileJob, SmallRows] | None = None
        """A file that was read, but does not belong to the current group."""
        self._empty: SmallRows | None = None
        """A file without matching rows. It gives the schema if no file has matching rows."""
        self._failed: Exception | None = None
        """An error of the next file. It is raised after the rows of earlier files were returned."""

    def take(self, *, together: bool) -> SmallRows | None:
        """Returns the rows of the next file, or of the next group of files. Returns None if the next file must be
        opened, and after the last file. ``together``: whether several files may be read before the first rows are
        returned."""
        if not (together and self._may_group) and self._next is None and self._groups is None:
            read = self._read(together=False)
            return None if read is None else read[1]
        while True:
            groups = self._groups
            if groups is None or not groups.started:
                self._read_group(together=together)
                groups = self._groups
            if groups is None or not groups.started:
                if self._failed is not None:
                    raise self._failed
                return self._taken()
            # If the caller takes all rows, threads decode groups while the next files are read.
            while self._takes_all and len(groups.started) < LANES and self._read_group(together=together):
                pass
            group, batch = groups.take()
            if batch is not None:
                return _rows_of(group, batch)
            self._read_alone([*group.owners, *groups.drop()])
            self._small.reads.close()

    @property
    def is_empty(self) -> bool:
        """Whether no file was read whose rows were not returned yet."""
        return self._next is None and (self._groups is None or not self._groups.started)

    def to_open(self, job: FileJob) -> FileJob:
        """The job of a file that must be opened. If its bytes were just read, they are not read again."""
        reads = self._small.reads
        return job if reads.held is None else replace(job, source=reads.to_open(job.source))

    def close(self) -> None:
        """Waits for the threads that decode."""
        if self._groups is not None:
            self._groups.close()
            self._small.reads.close()

    def _taken(self) -> SmallRows | None:
        found, self._next = self._next, None
        if found is None:
            empty, self._empty = self._empty, None
            return empty
        return found[1]

    def _read_group(self, *, together: bool) -> bool:
        """Reads the files of a group, and starts decoding it. Returns whether there is such a group."""
        try:
            if self._failed is None:
                self._fill_group(together=together)
        except Exception as error:
            self._failed = error
        return self._groups is not None and self._groups.start()

    def _fill_group(self, *, together: bool) -> None:
        """Reads files until a group is full. Stops at a file that does not belong to it."""
        while self._next is None or self._next[1].waiting is not None:
            read, self._next = self._next or self._read(together=together), None
            if read is None:
                break
            waiting = read[1].waiting
            if waiting is None:
                if not read[1].rows:  # statistics rule out its rows
                    self._empty = read[1]
                    continue
                self._next = read
                break
            if self._groups is None:
                self._groups = SmallGroups(use_threads=self._use_threads)
                if self._takes_all:
                    self._small.reads.read_ahead(self._jobs, self._groups.queue)
            if not self._groups.has_room_for(waiting):
                self._next = read
                break
            self._groups.current.add(read, waiting)
            if self._groups.current.is_full:
                break

    def _read(self, *, together: bool) -> tuple[FileJob, SmallRows] | None:
        """Reads the next file. A file that must be opened is put back."""
        if self._jobs.put_back is not None:
            return None
        job = self._jobs.take_new()
        if job is None:
            return None
        found = self._small.take(job, together=together and self._may_group)
        if found is None:
            self._jobs.put_back = job
            return None
        return job, found

    def _read_alone(self, files: list[tuple[FileJob, SmallRows]]) -> None:
        """Puts back files of a group that cannot be decoded. From now on, files are decoded one by one."""
        if self._next is not None:
            files.append(self._next)
            self._next = None
        self._jobs.put_back_all([job for job, _ in files])
        self._may_group = False


def _rows_of(group: SmallGroup[tuple[FileJob, SmallRows]], batch: pa.RecordBatch) -> SmallRows:
    rows = batch.num_rows
    return SmallRows(rows, [batch] if rows else [], group.owners[0][1].schema, group.rows)
