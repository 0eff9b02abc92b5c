# A thread of the pool calls `enter` before it runs tasks, and `leave` afterwards. It must leave soon if a fork waits.
cdef int enter() except -1
cdef int leave() except -1
cdef bint fork_waits() noexcept nogil
