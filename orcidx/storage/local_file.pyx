"""Reads local files piece by piece without calling Python.

A column of doubles is read in pieces of half a megabyte, each of which takes some tens of microseconds here. A read
through ``LocalReader``, with its checks and counters in Python, takes a tenth longer. ``LocalReader`` opens and closes
the file, and raises the errors. After any failure here, such as a short read or a changed file, the caller reads
through ``LocalReader``."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from os import fsencode
from time import perf_counter

import os

cdef extern from *:
    """
    #if defined(_WIN32)
    static int orcidx_pread(int fd, void* out, int64_t n, int64_t offset, int64_t size, int64_t mtime_ns) {
        (void)fd, (void)out, (void)n, (void)offset, (void)size, (void)mtime_ns;
        return 0;
    }
    static int orcidx_unchanged(int fd, int64_t size, int64_t mtime_ns) {
        (void)fd, (void)size, (void)mtime_ns;
        return 0;
    }
    static int orcidx_open(const char* path, int64_t* size, int64_t* mtime_ns) {
        (void)path, (void)size, (void)mtime_ns;
        return -1;
    }
    static void orcidx_close(int fd) { (void)fd; }
    #else
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <unistd.h>
    #if defined(__APPLE__)
    #define ORCIDX_MTIME st_mtimespec
    #else
    #define ORCIDX_MTIME st_mtim
    #endif
    /* Returns whether the file still has this size and time. */
    static int orcidx_unchanged(int fd, int64_t size, int64_t mtime_ns) {
        struct stat status;
        return fstat(fd, &status) == 0 && status.st_size == size
            && (int64_t)status.ORCIDX_MTIME.tv_sec * 1000000000 + status.ORCIDX_MTIME.tv_nsec == mtime_ns;
    }
    /* Returns whether all n bytes were read from a file that has this size and time. */
    static int orcidx_pread(int fd, void* out, int64_t n, int64_t offset, int64_t size, int64_t mtime_ns) {
        return pread(fd, out, (size_t)n, (off_t)offset) == n && orcidx_unchanged(fd, size, mtime_ns);
    }
    /* Opens a regular file and gets its current size and time. Returns -1 for anything else. */
    static int orcidx_open(const char* path, int64_t* size, int64_t* mtime_ns) {
        struct stat status;
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
            close(fd);
            fd = -1;
        }
        if (fd >= 0) {
            *size = (int64_t)status.st_size;
            *mtime_ns = (int64_t)status.ORCIDX_MTIME.tv_sec * 1000000000 + status.ORCIDX_MTIME.tv_nsec;
        }
        return fd;
    }
    static void orcidx_close(int fd) { close(fd); }
    #endif
    """
    bint orcidx_pread(int fd, void* out, int64_t n, int64_t offset, int64_t size, int64_t mtime_ns) noexcept nogil
    bint orcidx_unchanged(int fd, int64_t size, int64_t mtime_ns) noexcept nogil
    int orcidx_open(const char* path, int64_t* size, int64_t* mtime_ns) noexcept nogil
    void orcidx_close(int fd) noexcept nogil


cdef object preadv = getattr(os, "preadv", None)
cdef int64_t LARGEST_READ = 1 << 30  # as in ``storage.local``


cdef bint read_end(const char* path, int64_t most, int64_t last, FileEnd* end) noexcept nogil:
    cdef int64_t size = 0, mtime_ns = 0, n
    cdef uint8_t* room = NULL
    cdef bint done = False
    cdef int fd = orcidx_open(path, &size, &mtime_ns)
    if fd < 0:
        return False
    n = min(size, last)
    if 0 < n and size <= most:
        room = <uint8_t*> malloc(n)
        done = room != NULL and orcidx_pread(fd, room, n, size - n, size, mtime_ns)
    orcidx_close(fd)
    if not done:
        free(room)
        return False
    end.data, end.held, end.size, end.mtime_ns = room, n, size, mtime_ns
    return True


cdef class FileMemory:
    """Owns bytes that were read from a file, and gives views of them."""

    cdef uint8_t* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, True, flags)


cdef object end_view(FileEnd* end):
    cdef FileMemory memory = FileMemory.__new__(FileMemory)
    memory.data, memory.size = end.data, end.held
    end.data = NULL
    return PyMemoryView_FromObject(memory)


def read_small(str path not None, int64_t most, int64_t last):
    """Opens a file, reads its end by one call and closes it. Returns its last ``last`` bytes, its size, and its
    modification time in nanoseconds. Returns None for a file that is empty or larger than ``most`` bytes, and for every
    error; ``LocalReader`` then raises the error."""
    cdef bytes name = fsencode(path)
    cdef const char* raw = name
    cdef FileEnd end
    cdef bint done
    if b"\0" in name:
        return None
    with nogil:
        done = read_end(raw, most, last, &end)
    return (end_view(&end), end.size, end.mtime_ns) if done else None


cdef class LocalFile:
    """A file that the caller has opened. ``size`` (bytes) and ``mtime_ns`` (nanoseconds) are those when it was opened.

    ``metrics`` counts the reads. The caller must call ``close`` before it closes the descriptor.
    """

    def __cinit__(self, int fd, *, int64_t size, int64_t mtime_ns, metrics):
        self.fd = fd
        self.size = size
        self.mtime_ns = mtime_ns
        self.metrics = metrics

    def close(self):
        self.fd = -1

    def counted_by(self, metrics):
        """The same open file. ``metrics`` counts the reads of the returned object, which cannot be used after this
        object was closed."""
        cdef LocalFile file = LocalFile(-1, size=self.size, mtime_ns=self.mtime_ns, metrics=metrics)
        file.opened = self
        return file

    cdef int descriptor(self) noexcept:
        return self.fd if self.opened is None else self.opened.fd

    def read(self, int64_t offset, uint8_t[::1] out not None):
        """Whether ``out`` now has the bytes at ``offset`` of an unchanged file. See ``fill``."""
        return self.fill(&out[0], out.shape[0], offset) if out.shape[0] else False

    cdef bint fill(self, uint8_t* out, int64_t n, int64_t offset) except -1:
        cdef int fd = self.descriptor()
        cdef bint done
        if fd < 0 or n <= 0 or offset < 0 or offset > self.size - n:
            return False
        started = perf_counter()
        with nogil:
            done = orcidx_pread(fd, out, n, offset, self.size, self.mtime_ns)
        if not done or self.descriptor() < 0:  # if the file was closed, another file may have its descriptor
            return False
        self.metrics.read(offset, n, perf_counter() - started)
        return True

    def read_parts(self, int64_t offset, parts):
        """Whether ``parts`` (writable buffers, filled one after the other) now have the bytes at ``offset`` of an
        unchanged file. They are read by one call."""
        cdef int fd = self.descriptor()
        cdef int64_t n = sum(map(len, parts))
        cdef bint done
        if fd < 0 or preadv is None or not 0 < n <= LARGEST_READ or offset < 0 or offset > self.size - n:
            return False
        started = perf_counter()
        try:
            done = preadv(fd, parts, offset) == n and orcidx_unchanged(fd, self.size, self.mtime_ns)
        except OSError:
            return False
        if not done or self.descriptor() < 0:
            return False
        self.metrics.read(offset, n, perf_counter() - started)
        return True


cdef class PieceRun:
    """Reads the pieces of one stream, one after the other, into one buffer of its source (``room``).

    ``file_offset``: where the stream begins in the file. ``step``: the most bytes of a piece. The source calls
    ``allow`` to set the range that it has planned and the bytes that ``room`` holds. Afterwards ``at`` and ``held``
    describe the bytes in ``room``. """

    def __cinit__(self, LocalFile file not None, *, int64_t file_offset, int64_t step):
        self.file = file
        self.base = file_offset
        self.step = step

    def allow(self, int64_t start, int64_t stop, *, uint8_t[::1] room not None, int64_t at, int64_t held):
        """Permits pieces between ``start`` and ``stop`` of the stream. ``room`` holds ``held`` bytes of the stream,
        from ``at``."""
        self.start, self.stop = start, stop
        self.room = &room[0] if room.shape[0] else NULL
        self.capacity = room.shape[0]
        self.at, self.held = at, held

    def forbid(self):
        """Permits no more pieces until the next ``allow``. ``room`` keeps its bytes."""
        self.start = self.stop = 0

    def read(self, int64_t offset, uint8_t[::1] out not None):
        """Whether ``out`` now has the bytes of the stream from ``offset``. ``room`` is not changed."""
        return self.file.fill(&out[0], out.shape[0], self.base + offset) if out.shape[0] else False

    cdef int64_t refill(self, void* piece, int64_t offset) except -1:
        cdef int64_t n = min(self.step, self.stop - offset)
        if piece != <void*> self.room or offset < self.start or not 0 < n <= self.capacity:
            return 0
        self.held = 0
        if not self.file.fill(self.room, n, self.base + offset):
            return 0
        self.at, self.held = offset, n
        return n


cdef int64_t fill_parts(read_into, int64_t offset, list parts) except -1:
    cdef int64_t done, size = sum(map(len, parts))
    try:
        done = read_into(offset, parts)
    finally:
        for part in parts:
            part.release()
    if done != 0 and done != size:
        raise ValueError(f"a source filled {done} of {size} bytes")
    return done
