"""Copies the texts of an Arrow dictionary's rows to one buffer, and remembers which entries were written.

Entries may be anywhere in memory. They are prefetched some hundred rows in advance, and copied to a buffer that stays
in the cache. Arrow's ``take`` of all rows at once takes up to four times as long (decision 0129).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from orcidx.orc_writer.source cimport ArraySource, find_lengths

cdef enum:
    FEW_SLOTS = 4096  # at most this many entries stay in the first-level caches
    MOST_IN_SLOTS = 8 << 20                 # bytes


cdef void copy_texts(const int64_t* starts, const int64_t* ends, int64_t rows, const uint8_t* data, int64_t data_size,
                     uint8_t* out) noexcept nogil:
    """Copies texts to their places in the buffer. The buffer must have room for one more short text at its end."""
    cdef int64_t i, length
    for i in range(rows):
        length = ends[i + 1] - ends[i]
        if 0 < length <= SHORT and starts[i] + SHORT <= data_size:
            memcpy(out + ends[i], data + starts[i], SHORT)
        elif length:
            memcpy(out + ends[i], data + starts[i], length)


cdef class GatheredTexts:
    """Gathers the texts of one row group after the other in the same memory."""

    def __dealloc__(self):
        free(self.offsets)
        free(self.data)

    def bring(self, ArraySource source not None, ArraySource values not None, int64_t start, int64_t stop):
        """The texts of some rows as a separate array, which is valid until the next call.

        ``source`` has int32 indexes, and ``values`` has the texts. Raises ``IndexError`` for an index that has no
        text."""
        cdef const int32_t* indexes = (<const int32_t*>source.values) + source.offset
        cdef int64_t first, last, total = 0, wrong = -1
        cdef size_t rows = stop - start
        cdef int64_t starts[AHEAD]
        cdef int64_t* ends
        cdef int64_t* here
        cdef void* grown
        if rows + 1 > self.rows:
            grown = realloc(self.offsets, (rows + 1) * sizeof(int64_t))
            if grown == NULL:
                raise MemoryError
            self.offsets = <int64_t*>grown
            self.rows = rows + 1
        ends = self.offsets
        ends[0] = 0
        with nogil:
            first = start
            while first < stop:
                last = min(stop, first + AHEAD)
                here = ends + (first - start)
                if values.offsets32 != NULL:
                    wrong = find_texts[int32_t](indexes, source, first, last, values.offsets32, values.length,
                                                values.data, starts, here)
                else:
                    wrong = find_texts[int64_t](indexes, source, first, last, values.offsets64, values.length,
                                                values.data, starts, here)
                if wrong >= 0:
                    break
                total = ends[last - start]
                if <size_t>total + SHORT > self.size:
                    self._grow(total + SHORT)
                copy_texts(starts, here, last - first, values.data, values.data_size, self.data)
                first = last
        if wrong >= 0:
            raise IndexError(f"dictionary index {indexes[wrong]} of row {wrong} is outside the dictionary")
        if self.source is None:
            self.source = ArraySource.__new__(ArraySource)
        self.source.length = rows
        self.source.validity = source.validity
        self.source.offset = source.offset + start
        self.source.offsets64 = ends
        self.source.data = self.data
        self.source.data_size = total
        return self.source

    cdef int _grow(self, int64_t needed) except -1 nogil:
        cdef size_t size = max(<size_t>needed, 2 * self.size)
        cdef void* grown = realloc(self.data, size)
        if grown == NULL:
            with gil:
                raise MemoryError
        self.data = <uint8_t*>grown
        self.size = size
        return 0


cdef class KnownEntries:
    """The entries of one Arrow dictionary that a column has already written. ``codes``: their numbers in the column's
    own dictionary, plus 1. ``groups``: the last row group of each entry. The Arrow dictionary's buffers are kept
    alive."""

    def __init__(self, ArraySource values not None):
        self.values = values
        self.codes = <uint32_t*>calloc(values.length + 1, sizeof(uint32_t))
        self.groups = <uint32_t*>calloc(values.length + 1, sizeof(uint32_t))
        if self.codes == NULL or self.groups == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.codes)
        free(self.groups)

    cdef bint are_of(self, ArraySource values) noexcept:
        """Whether an array is this dictionary. This is so if it has the same buffers."""
        return values.data == self.values.data and values.length == self.values.length and (
            values.offsets32 == self.values.offsets32 and values.offsets64 == self.values.offsets64
        )


cdef class Entries:
    """The entries of one Arrow dictionary, from one batch to the next.

    Short texts get slots. With a slot, a row reads one place of memory, instead of the offsets and the bytes at two
    places (decision 0129). If texts have the same length, their bytes in the dictionary serve as slots. Other texts are
    copied to slots once many rows refer to them."""

    def __init__(self, dictionary):
        cdef int64_t shortest
        self.values = ArraySource(dictionary)
        self.places = places_of(dictionary)
        if self.values.length <= FEW_SLOTS:
            self.tried = True
            return
        if self.values.offsets32 != NULL:
            shortest = find_lengths(self.values.offsets32, self.values.length, &self.longest)
        else:
            shortest = find_lengths(self.values.offsets64, self.values.length, &self.longest)
        if 0 < shortest == self.longest <= WIDE:
            self.tried = True
            self.same = self.width = shortest
            self.slots = self.values.data + self.values.begin(0)
            self.slots_end = self.values.data + self.values.data_size

    def __dealloc__(self):
        free(self.memory)

    def are_of(self, dictionary):
        """Whether the texts of this object are those of ``dictionary``. The buffers of both are compared by their
        addresses. This object keeps its buffers alive, so no other dictionary can have these addresses."""
        return self.places == places_of(dictionary)

    def note(self, int64_t rows):
        """Must be called before ``rows`` more rows are written. Creates the slots when there have been enough rows that
        this saves time. Filling a slot takes as long as a slot saves for 1.25 rows."""
        self.rows += rows
        if not self.tried and 2 * self.rows >= 3 * self.values.length:
            self.tried = True
            self._fill_slots()

    cdef int _fill_slots(self) except -1:
        cdef int64_t length, entry
        cdef uint8_t* slot
        cdef size_t room
        if self.longest >= WIDE:
            return 0
        self.width = NARROW if self.longest < NARROW else WIDE
        room = <size_t>(self.values.length * self.width)
        if room > MOST_IN_SLOTS:
            return 0
        self.memory = malloc(room + 2 * WIDE)
        if self.memory == NULL:
            raise MemoryError
        slot = <uint8_t*>self.memory + (WIDE - <size_t>self.memory % WIDE)  # no slot is in two cache lines
        self.slots = slot
        self.slots_end = slot + room
        with nogil:
            for entry in range(self.values.length):
                length = self.values.begin(entry + 1) - self.values.begin(entry)
                memcpy(slot, self.values.data + self.values.begin(entry), length)
                memset(slot + length, 0, self.width - length)
                slot[self.width - 1] = <uint8_t>length
                slot += self.width
        return 0


def places_of(dictionary):
    """The addresses of an array's buffers, and which of their values the array has."""
    return [
        dictionary.type, len(dictionary), dictionary.offset,
        *[(buffer.address, buffer.size) for buffer in dictionary.buffers() if buffer is not None],
    ]
