"""``WrittenPositions``: the positions of a column's row groups, from which the ROW_INDEX stream is made.

The position of a row group has some numbers for each stream of the column. The table is filled number by number, in the
order of the streams.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    USUAL_WIDTH = 6  # PRESENT and one more stream, compressed


cdef class WrittenPositions:
    """``groups``: the number of row groups."""

    def __cinit__(self, Py_ssize_t groups):
        if groups < 0:
            raise ValueError("a table cannot have fewer than 0 row groups")
        self.groups = groups

    def __dealloc__(self):
        free(self.numbers)

    def append(self, const int64_t[:] numbers not None):
        """Adds one number to each position. ``numbers``: a number for each row group."""
        cdef Py_ssize_t group
        if numbers.shape[0] != self.groups:
            raise ValueError("a position table needs a number for each row group")
        cdef int64_t* out = self.add()
        for group in range(self.groups):
            out[group] = numbers[group]

    cdef int64_t* add(self) except NULL:
        cdef Py_ssize_t room = max(<Py_ssize_t>1, self.groups)
        cdef void* grown
        if self.width == self.capacity:
            grown = realloc(self.numbers, (self.capacity + USUAL_WIDTH) * room * sizeof(int64_t))
            if grown == NULL:
                raise MemoryError
            self.numbers = <int64_t*>grown
            self.capacity += USUAL_WIDTH
        cdef int64_t* out = self.numbers + self.width * room
        memset(out, 0, room * sizeof(int64_t))
        self.width += 1
        return out

    cdef int64_t number(self, Py_ssize_t group, Py_ssize_t place) noexcept nogil:
        return self.numbers[place * self.groups + group]
