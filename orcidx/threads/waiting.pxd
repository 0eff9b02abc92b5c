from cpython.pythread cimport PyThread_type_lock


cdef class Seat:
    cdef PyThread_type_lock lock
    cdef bint called


cdef class Waiters:
    cdef list seats
    # True once it was called, False after so many seconds; below 0 means without limit. It can be interrupted: the
    # handler of a signal runs meanwhile, and what the handler raises is raised here.
    cdef bint wait(self, double seconds, bint interruptible) except -1
    cdef int call(self) except -1
    cdef int call_one(self) except -1


cdef long forks() noexcept
