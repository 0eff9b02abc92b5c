from libc.stdint cimport int64_t


cdef class WrittenPositions:
    cdef readonly Py_ssize_t groups
    cdef Py_ssize_t width
    cdef Py_ssize_t capacity
    cdef int64_t* numbers  # all first numbers, then all second numbers, and so on

    # Adds one number to each position. The numbers are 0 at first. The pointer is valid until the next `add`.
    cdef int64_t* add(self) except NULL
    cdef int64_t number(self, Py_ssize_t group, Py_ssize_t place) noexcept nogil
