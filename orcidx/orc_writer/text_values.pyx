"""Takes the values of a column of texts, in any form that the stripe selects. The rows are those of plain arrays or of
Arrow dictionaries.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from orcidx.orc_writer.columns cimport BLOCK, BaseColumn
from orcidx.orc_writer.dictionary cimport Dictionary
from orcidx.orc_writer.gathered_texts cimport (
    AHEAD,
    NARROW,
    SHORT,
    WIDE,
    Entries,
    KnownEntries,
    find_texts,
    text_prefetch,
)
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.source cimport ArraySource
from orcidx.orc_writer.text_bounds cimport Bound, bound_of, is_less, is_within, text_big, text_is_ascii, text_is_utf8

from orcidx.orc.kinds import StreamKind
from orcidx.orc_writer.columns import BadValue

cdef enum:
    LONGEST = 0x7FFFFFFF  # the most bytes of a value that Java reads
    SLOTS_AHEAD = 24  # rows whose slots are prefetched before the first one is copied
    MOST_AT_ONCE = 1 << 16  # the most bytes of texts that are appended to a stream at once


cdef inline int take(
    TextValues self, const uint8_t* data, int64_t length, const uint8_t* data_end, int64_t code
) except -1 nogil:
    """Updates the bounds and the bloom filter for one value. With a dictionary, also appends the number of its entry.
    ``code``: this number, or -1 if it is not known."""
    cdef Bound value
    if length > LONGEST:
        with gil:
            raise ValueError("a value has 2 GiB or more")
    if self.bounds:
        value = bound_of(data, length, data_end)
        if not self.has_bounds:
            self.has_bounds = True
            self.least = self.greatest = value
        elif is_less(&value, &self.least):
            self.least = value
        elif is_less(&self.greatest, &value):
            self.greatest = value
    if not self.direct:
        if code < 0:
            code = self.dictionary.find_or_add(data, <uint32_t>length)
        self.codes[self.code_count] = <uint32_t>code
        self.code_count += 1
    if self.bloom is not None:
        self._add_to_bloom(data, length)
    return 0


cdef inline uint64_t mask_of(int64_t length) noexcept nogil:
    """A mask that keeps the bytes of a word that belong to a text of the given length."""
    if length <= 0:
        return 0
    return ~<uint64_t>0 if length >= 8 else ~(~<uint64_t>0 >> (8 * length))


cdef class TextValues(BaseColumn):
    """Takes values one by one. Keeps their bytes and lengths, or their numbers in the dictionary. Updates the bounds
    and the bloom filter. ``TextColumn`` selects the form of the stripe."""

    def __init__(self, open_stream, *, double threshold, bint checks_utf8, bint bounds, bloom=None,
                 bint trims_for_bloom=False, bint decides=True):
        self.data = open_stream()
        self.lengths = IntRuns(open_stream(), signed=False)
        self.dictionary_data = open_stream()
        self.threshold = threshold
        self.checks_utf8 = checks_utf8
        self.bounds = bounds
        self.trims_for_bloom = trims_for_bloom
        self.decides = decides
        self.streams.append((StreamKind.DATA, self.data, 0))
        self.streams.append((StreamKind.LENGTH, self.lengths.stream, 1))
        self._begin_stripe()

    def __dealloc__(self):
        free(self.codes)

    cdef _begin_stripe(self):
        self.known = None
        self.direct = self.threshold == 0
        self.dictionary = None if self.direct else Dictionary()
        self.code_count = 0
        self.code_starts = []
        self.bytes_in_all = 0
        self.bytes_of_groups = []

    cdef _start_group(self):
        BaseColumn._start_group(self)
        self.code_starts.append(self.code_count)

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t row, at
        cdef const uint8_t* first = source.data + source.begin(start)
        if self.checks_utf8 and not text_is_ascii(first, source.begin(stop) - source.begin(start)):
            for row in range(start, stop):
                at = source.begin(row)
                if source.is_valid(row) and not text_is_utf8(source.data + at, source.begin(row + 1) - at):
                    self._refuse_text(source, row, row)
                    return 0
        self._put_values(source, start, stop, nulls)
        with gil:
            self._keep_bounds()
        return 0

    cdef int _put_values(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t lengths[BLOCK]
        cdef int64_t row, at, length, total
        cdef int64_t begin = start
        cdef int64_t end
        cdef int m
        cdef bint direct = self.direct
        cdef const uint8_t* data_end = source.data + source.data_size
        if not direct:
            self._grow_codes(stop - start)
        while begin < stop:
            end = min(stop, begin + BLOCK)
            m = 0
            total = 0
            at = source.begin(begin)
            for row in range(begin, end):
                length = source.begin(row + 1) - at
                if not nulls or source.is_valid(row):
                    lengths[m] = length
                    m += 1
                    total += length
                    take(self, source.data + at, length, data_end, -1)
                at += length
            if direct:
                self._put_bytes(source, begin, end, total)
                self.lengths.put_many(lengths, m)
            self.group_bytes += total
            begin = end
        return 0

    cdef int _put_bytes(self, ArraySource source, int64_t start, int64_t stop, int64_t total) except -1 nogil:
        """Writes the bytes of some rows in one piece. Nulls must have no bytes."""
        cdef int64_t first = source.begin(start)
        cdef int64_t row, at
        if source.begin(stop) - first == total:
            return self.data.append(source.data + first, total)
        for row in range(start, stop):
            if source.is_valid(row):
                at = source.begin(row)
                self.data.append(source.data + at, source.begin(row + 1) - at)
        return 0

    cdef int _refuse_text(self, ArraySource source, int64_t index, int64_t row) except -1 nogil:
        cdef int64_t at = source.begin(index)
        with gil:
            value = source.data[at:min(source.begin(index + 1), at + 40)]
            return self._refuse(row, f"{value!r} is not UTF-8; cast the column to binary, or correct the value")

    cdef int _grow_codes(self, int64_t more) except -1 nogil:
        cdef size_t needed = self.code_count + more
        cdef void* grown
        if needed > self.codes_capacity:
            self.codes_capacity = max(needed, self.codes_capacity + self.codes_capacity // 2)
            grown = realloc(self.codes, self.codes_capacity * sizeof(uint32_t))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.codes = <uint32_t*>grown
        return 0

    cdef int _add_to_bloom(self, const uint8_t* data, int64_t length) except -1 nogil:
        cdef int64_t trimmed = length
        self.bloom.add_bytes(data, length)
        if self.trims_for_bloom:
            while trimmed and data[trimmed - 1] == 32:
                trimmed -= 1
            if trimmed != length:
                self.bloom.add_bytes(data, trimmed)
        return 0

    cdef _keep_bounds(self):
        """Copies the bounds out of an array that will be freed."""
        if not self.has_bounds:
            return
        if self.kept_least is None or self.least.data != <const uint8_t*><char*>self.kept_least:
            self.kept_least = self.least.data[:self.least.length]
            self.least.data = <const uint8_t*><char*>self.kept_least
        if self.kept_greatest is None or self.greatest.data != <const uint8_t*><char*>self.kept_greatest:
            self.kept_greatest = self.greatest.data[:self.greatest.length]
            self.greatest.data = <const uint8_t*><char*>self.kept_greatest

    cdef object _take_statistics(self, int64_t count):
        if not count:
            self.group_bytes = 0
            return None
        found = self.kept_least, self.kept_greatest, self.group_bytes
        self.group_bytes = 0
        self.has_bounds = False
        self.kept_least = self.kept_greatest = None
        return found

    def clear(self):
        BaseColumn.clear(self)
        self.dictionary_data.clear()
        self._begin_stripe()


cdef class EntryValues(TextValues):
    """Also takes the rows of Arrow dictionaries, which consist of the numbers of entries and the texts of the
    entries."""

    cdef int _end_rows(self, const int32_t* indexes, int64_t wrong, int64_t rows, int64_t nulls) except -1:
        """Counts the appended rows, or raises the error of a wrong row. ``wrong``: the first row whose index has no
        entry in the Arrow dictionary, or -1."""
        if wrong >= 0:
            raise IndexError(f"dictionary index {indexes[wrong]} of row {wrong} is outside the dictionary")
        if self.wrong_row >= 0:
            raise BadValue(self.wrong_row, self.wrong)
        self._keep_bounds()
        self.rows += rows
        self.group_rows += rows
        self.group_nulls += nulls
        return 0

    def write_indexes(self, ArraySource source not None, ArraySource values not None, int64_t start, int64_t stop):
        """Appends rows of an Arrow dictionary, and returns the number of nulls. ``source`` has int32 indexes, and
        ``values`` has the texts.

        The stripe must have a dictionary. Raises ``BadValue``."""
        cdef const int32_t* indexes = (<const int32_t*>source.values) + source.offset
        cdef int64_t nulls, row, at, index, one, code = -1
        cdef uint32_t group
        cdef Py_ssize_t wrong = -1
        cdef bint knows
        self._open_group()
        group = <uint32_t>len(self.group_starts)
        # After the first row group, the column may stop using a dictionary. So codes of known entries are kept only
        # from the second row group on.
        knows = group > 1 and values.length <= 4 * source.length
        if knows and (self.known is None or not self.known.are_of(values)):
            self.known = KnownEntries(values)
        with nogil:
            nulls = self._begin_rows(source, start, stop)
            if not self.direct:
                self._grow_codes(stop - start)
            for row in range(start, stop):
                if nulls and not source.is_valid(row):
                    continue
                index = indexes[row]
                if not 0 <= index < values.length:
                    wrong = row
                    break
                if knows:
                    code = <int64_t>self.known.codes[index] - 1
                    if code >= 0 and self.known.groups[index] == group:
                        self.codes[self.code_count] = <uint32_t>code
                        self.code_count += 1
                        self.group_bytes += self.dictionary.entries[code].length
                        continue
                at = values.begin(index)
                one = values.begin(index + 1) - at
                if code < 0 and self.checks_utf8 and not text_is_utf8(values.data + at, one):
                    self._refuse_text(values, index, row)
                    break
                take(self, values.data + at, one, values.data + values.data_size, code)
                if knows:
                    self.known.codes[index] = self.codes[self.code_count - 1] + 1
                    self.known.groups[index] = group
                self.group_bytes += one
        self._end_rows(indexes, wrong, stop - start, nulls)
        return nulls

    def write_entries(self, ArraySource source not None, Entries entries not None, int64_t start, int64_t stop):
        """Appends rows of an Arrow dictionary, like ``write_indexes``, to a stripe without a dictionary. The texts are
        copied directly into the stream, some hundred rows at a time."""
        cdef const int32_t* indexes = (<const int32_t*>source.values) + source.offset
        cdef int64_t nulls, first, last
        cdef int64_t wrong = -1
        if not self.direct:
            raise ValueError("the stripe has a dictionary")
        self._open_group()
        with nogil:
            nulls = self._begin_rows(source, start, stop)
            first = start
            while first < stop and wrong < 0 and self.wrong_row < 0:
                last = min(stop, first + AHEAD)
                if entries.slots != NULL:
                    wrong = self._put_slots(indexes, source, entries, first, last)
                else:
                    wrong = self._put_entries(indexes, source, entries.values, first, last)
                first = last
        self._end_rows(indexes, wrong, stop - start, nulls)
        return nulls

    cdef bint _are_texts(
        self, const int32_t* indexes, ArraySource source, ArraySource values, int64_t first, int64_t last,
        const uint8_t* together, int64_t total
    ) except -1 nogil:
        """Refuses the first row that is not UTF-8, if the column requires UTF-8. Returns False if a row is refused.
        ``together``: the bytes of all rows, or NULL."""
        cdef int64_t row, at
        if not self.checks_utf8 or (together != NULL and text_is_ascii(together, total)):
            return True
        for row in range(first, last):
            if source.is_valid(row):
                at = values.begin(indexes[row])
                if not text_is_utf8(values.data + at, values.begin(indexes[row] + 1) - at):
                    self._refuse_text(values, indexes[row], row)
                    return False
        return True

    cdef int64_t _put_slots(
        self, const int32_t* indexes, ArraySource source, Entries entries, int64_t first, int64_t last
    ) except -2 nogil:
        """Appends rows, whose texts are in slots. Returns the first row whose index has no entry, or -1."""
        cdef int64_t lengths[AHEAD]
        cdef int64_t row, index, length, total = 0
        cdef int64_t far = source.length - SLOTS_AHEAD
        cdef int64_t count = entries.values.length
        cdef int64_t width = entries.width
        cdef int64_t same = entries.same
        cdef bint narrow = (same or width) <= NARROW
        cdef bint nulls = source.validity != NULL
        cdef bint quick = self.bloom is None  # without a filter, texts between the bounds need no further work
        cdef int m = 0
        cdef const uint8_t* slots = entries.slots
        cdef const uint8_t* last_slot = entries.slots_end - WIDE
        cdef const uint8_t* slot
        cdef uint8_t* out = self.data.reserve((last - first) * WIDE)
        cdef uint64_t first_mask = mask_of(same or 16)
        cdef uint64_t second_mask = mask_of((same or 16) - 8)
        cdef Bound value, least = self.least, greatest = self.greatest
        for row in range(first, last):
            if row < far:
                index = indexes[row + SLOTS_AHEAD]
                if 0 <= index < count:
                    text_prefetch(slots + index * width)
                    text_prefetch(slots + index * width + width - 1)
            if nulls and not source.is_valid(row):
                continue
            index = indexes[row]
            if not 0 <= index < count:
                return row
            slot = slots + index * width
            length = same or slot[width - 1]
            lengths[m] = length
            m += 1
            if slot > last_slot:
                memcpy(out + total, slot, length)
            elif narrow:
                memcpy(out + total, slot, NARROW)
            else:
                memcpy(out + total, slot, WIDE)
            total += length
            if quick and not self.bounds:
                continue
            if quick and self.has_bounds and slot <= last_slot:
                value.first = text_big(slot) & first_mask
                value.second = text_big(slot + 8) & second_mask
                if is_within(&value, &least, &greatest):
                    continue
            take(self, slot, length, entries.slots_end, -1)
            least = self.least
            greatest = self.greatest
        if not self._are_texts(indexes, source, entries.values, first, last, out, total):
            return -1
        self.data.advance(total)
        self.lengths.put_many(lengths, m)
        self.group_bytes += total
        return -1

    cdef int64_t _put_entries(
        self, const int32_t* indexes, ArraySource source, ArraySource values, int64_t first, int64_t last
    ) except -2 nogil:
        """Appends rows, whose texts are not in slots. Returns the first row whose index has no entry, or -1."""
        cdef int64_t starts[AHEAD]
        cdef int64_t ends[AHEAD + 1]
        cdef int64_t lengths[AHEAD]
        cdef int64_t i, length, total, wrong
        cdef bint nulls = source.validity != NULL
        cdef bint quick = self.bloom is None  # without a filter, texts between the bounds need no further work
        cdef Bound least = self.least
        cdef Bound greatest = self.greatest
        cdef Bound value
        cdef int m = 0
        cdef const uint8_t* data
        cdef const uint8_t* data_end = values.data + values.data_size
        cdef uint8_t* out = NULL
        ends[0] = 0
        if values.offsets32 != NULL:
            wrong = find_texts[int32_t](
                indexes, source, first, last, values.offsets32, values.length, values.data, starts, ends
            )
        else:
            wrong = find_texts[int64_t](
                indexes, source, first, last, values.offsets64, values.length, values.data, starts, ends
            )
        if wrong >= 0:
            return wrong
        total = ends[last - first]
        if total <= MOST_AT_ONCE:
            out = self.data.reserve(total + SHORT)
        for i in range(last - first):
            if nulls and not source.is_valid(first + i):
                continue
            length = ends[i + 1] - ends[i]
            data = values.data + starts[i]
            if out == NULL:
                self.data.append(data, length)
            elif length <= SHORT and data + SHORT <= data_end:
                memcpy(out + ends[i], data, SHORT)
            else:
                memcpy(out + ends[i], data, length)
            lengths[m] = length
            m += 1
            if quick and length <= LONGEST:
                if not self.bounds:
                    continue
                value = bound_of(data, length, data_end)
                if self.has_bounds and is_within(&value, &least, &greatest):
                    continue
            take(self, data, length, data_end, -1)
            least = self.least
            greatest = self.greatest
        if not self._are_texts(indexes, source, values, first, last, out, total):
            return -1
        if out != NULL:
            self.data.advance(total)
        self.lengths.put_many(lengths, m)
        self.group_bytes += total
        return -1
