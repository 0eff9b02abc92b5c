# A thread of the pool calls `enter` before it runs tasks, and `leave` afterwards. It must leave soon if a fork waits.
cdef int enter() except -1
cdef int leave() except -1
cdef bint fork_waits() noexcept nogil
# Makes threads of the pool call `help`, until `helpers`, the number of those that are there, is `most` or the number of
# all `threads` except the caller.
cdef int send_helpers(help, int threads, Py_ssize_t most, int* helpers) except -1
