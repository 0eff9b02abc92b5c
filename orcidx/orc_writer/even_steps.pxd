# Finds out whether all integers of a stream are one arithmetic progression. `note_steps` is called for each block of
# integers that is encoded.

from libc.stdint cimport int64_t, uint8_t, uint64_t


ctypedef struct EvenSteps:
    int64_t count  # number of values so far
    int64_t first
    int64_t last
    int64_t step                # not 0
    bint broken


cdef inline int64_t step_from(int64_t value, EvenSteps* known) noexcept nogil:
    """Returns the value that follows ``value`` in the progression. If it does not fit into 64 bits, sets ``broken``."""
    cdef int64_t found = <int64_t>(<uint64_t>value + <uint64_t>known.step)
    if (found > value) != (known.step > 0):
        known.broken = True
    return found


cdef inline void note_steps(EvenSteps* known, const int64_t* values, int n, const uint8_t* run) noexcept nogil:
    """Checks whether a block of values continues the progression with the same step. ``run``: the encoded block."""
    cdef int i
    if not known.count:
        if n < 2 or values[0] == values[1]:  # equal values already take few bytes
            known.broken = True
            return
        known.first = values[0]
        known.step = <int64_t>(<uint64_t>values[1] - <uint64_t>values[0])
    elif values[0] != step_from(known.last, known):
        known.broken = True
    if n > 3:  # if all steps are equal, the block is one DELTA run without bits for the steps
        if run[0] & 0xFE != 0xC0 or ((run[0] & 1) << 8 | run[1]) + 1 != n:
            known.broken = True
        if <int64_t>(<uint64_t>values[1] - <uint64_t>values[0]) != known.step:
            known.broken = True
    for i in range(1, n if n <= 3 else 1):
        if values[i] != step_from(values[i - 1], known):
            known.broken = True
    known.last = values[n - 1]
    known.count += n


cdef inline void join_steps(EvenSteps* known, const EvenSteps* more) noexcept nogil:
    """Adds the record of another stream, whose values follow the values of this stream."""
    if not more.count and not more.broken:
        return
    if not known.count and not known.broken:
        known[0] = more[0]
        return
    if more.broken or more.step != known.step or more.first != step_from(known.last, known):
        known.broken = True
    known.last = more.last
    known.count += more.count
