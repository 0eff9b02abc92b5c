"""Sources of streams whose bytes are in memory or in a local file. A ``Window`` reads the stream from its source."""

from libc.stdint cimport int64_t

from orcidx.storage.local_file cimport LocalFile, PieceRun

import pyarrow as pa

from orcidx.errors import CorruptFile, StorageError

__all__ = ["FileStream", "HeldStream"]


cdef class HeldStream:
    """One stream of a file in memory. ``data`` has all of it. Bytes after the stream may be loaded but are not used."""

    cdef object data
    cdef int64_t offset
    cdef readonly int64_t length

    # A window looks up these attributes. They exist and are None, because a failed lookup would create an exception
    # each time.
    read_into = None
    run = None

    def __cinit__(self, data, int64_t offset, int64_t length):
        self.data = data
        self.offset = offset
        self.length = length

    def fetch(self, int64_t offset):
        """Contiguous bytes from ``offset`` on. See ``PlannedStream.fetch``."""
        if offset >= self.length:
            if offset > self.length:
                raise CorruptFile(f"offset {offset} is past the end of the stream ({self.length} bytes)")
            return memoryview(b"")
        return self.data[self.offset + offset:]


cdef class FileStream:
    """One stream of a local file. Its bytes are read piece by piece into one buffer, which stays in the processor's
    cache. The pieces are the same as those of a ``PlannedStream`` that plans the whole stream."""

    cdef readonly PieceRun run
    cdef readonly int64_t length
    cdef LocalFile file
    cdef object room
    cdef int64_t offset, step

    def __cinit__(self, LocalFile file not None, int64_t offset, int64_t length, int64_t step, room):
        self.run = PieceRun(file, file_offset=offset, step=step)
        self.file, self.offset, self.length, self.step, self.room = file, offset, length, step, room

    def fetch(self, int64_t offset):
        """Contiguous bytes from ``offset`` on. See ``PlannedStream.fetch``."""
        cdef int64_t n = min(self.step, self.length - offset)
        if offset >= self.length:
            if offset > self.length:
                raise CorruptFile(f"offset {offset} is past the end of the stream ({self.length} bytes)")
            return memoryview(b"")
        if self.run.at <= offset < self.run.at + self.run.held:
            return self.room[offset - self.run.at : self.run.held]
        if len(self.room) < n:
            self.room = memoryview(pa.allocate_buffer(n)).cast("B")
        view = self.room[:n]
        self.run.allow(0, 0, room=self.room, at=0, held=0)
        if not self.run.read(offset, view):
            raise StorageError("the file could not be read")
        self.run.allow(0, self.length, room=self.room, at=offset, held=n)
        return view

    def read_into(self, int64_t offset, list parts):
        """See ``PlannedStream.read_into``."""
        cdef int64_t size = sum(map(len, parts))
        if self.run.at <= offset and offset + size <= self.run.at + self.run.held:
            return 0
        return size if self.file.read_parts(self.offset + offset, parts) else 0
