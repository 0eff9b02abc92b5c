from cpython.ref cimport PyObject


cdef class WorkItem:
    cdef bint is_done           # written and read under the lock of the queue
    cdef readonly object error

    # Does the work. Returns -1 if it has raised an error.
    cdef int work(self) noexcept nogil


# Does the work, and keeps its error.
cdef void do_work(PyObject* work) noexcept nogil
