from cpython.pythread cimport PyThread_type_lock


cdef class Seat:
    cdef PyThread_type_lock lock
    cdef bint called


cdef class Waiters:
    cdef list seats
    # Returns True when another thread calls this waiter, and False after the given number of seconds. A negative number
    # means no limit. If ``interruptible`` is set, signal handlers run during the wait, and their exceptions are raised.
    cdef bint wait(self, double seconds, bint interruptible) except -1
    cdef int call(self) except -1
    cdef int call_one(self) except -1


cdef long forks() noexcept
