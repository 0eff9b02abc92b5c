from libc.stdint cimport int64_t


cdef class FoundFile:
    cdef readonly object data
    cdef readonly int64_t size, mtime_ns


cdef class SmallFile(FoundFile):
    cdef readonly object like
    cdef readonly int64_t rows
    cdef readonly tuple stripes
    cdef readonly bytes footer_bytes
    cdef readonly object footer
