from libc.stdint cimport int64_t, uint64_t

from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.even_steps cimport EvenSteps

cdef enum:
    RUN = 512  # the most values of a run


cdef extern from *:
    """
    #include <stdint.h>
    typedef struct { int64_t least, greatest, count; uint64_t high, low; } runs_totals_t;
    """
    # Totals of all values whose runs have ended. `high` is the sum of the upper 32 bits of value + 2**63, `low` the sum
    # of the lower 32 bits.
    ctypedef struct Totals "runs_totals_t":
        int64_t least
        int64_t greatest
        int64_t count
        uint64_t high
        uint64_t low


cdef class IntRuns:
    cdef readonly OutStream stream
    cdef bint signed
    cdef int flags
    cdef int filled
    cdef int64_t values[RUN]  # the values of the run that is being filled
    cdef Totals totals  # the totals since `forget_totals`
    cdef EvenSteps sequence

    cdef int put_many(self, const int64_t* values, int64_t n) except -1 nogil
    cdef int put_same(self, int64_t value, int64_t n) except -1 nogil
    cdef int end_run(self) except -1 nogil
    cdef int _encode(self, const int64_t* values, int n, bint last) except -1 nogil
    cdef void join_sequence(self, IntRuns other) noexcept nogil
    cdef bint is_sequence(self, int64_t count) noexcept nogil
    cdef object write_sequence(self)
    cdef void forget_sequence(self) noexcept nogil
    cdef void forget_totals(self) noexcept nogil
    cdef object sum(self)
