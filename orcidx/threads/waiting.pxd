from cpython.pythread cimport PyThread_type_lock


cdef class Seat:
    cdef PyThread_type_lock lock
    cdef bint called


cdef class Waiters:
    cdef list seats
    # True once called, False when so many seconds have passed; below 0: without an end. Interruptible: a signal's
    # handler runs meanwhile, and what it raises leaves.
    cdef bint wait(self, double seconds, bint interruptible) except -1
    cdef int call(self) except -1
    cdef int call_one(self) except -1


cdef long forks() noexcept
