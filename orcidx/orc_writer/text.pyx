"""STRING, VARCHAR, CHAR and BINARY: bytes and lengths, or numbers into a sorted dictionary.

A stripe of a string column begins with a dictionary. When its first row group ends, what both forms take before
compression is compared: direct is bytes and the bits of the lengths, a dictionary its distinct texts and the bits of
the numbers. It stays where that is below three quarters, unless the texts are so short (2 bytes on average) that a
codec does better on them than on numbers; and it is given up later when the distinct texts grow with the rows.
Statistics: (least, greatest, bytes in all), least and greatest None for BINARY.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.columns cimport BLOCK, Column
from orcidx.orc_writer.dictionary cimport Dictionary, Entry
from orcidx.orc_writer.gathered_texts cimport KnownEntries
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.source cimport Source
from orcidx.orc_writer.text_bounds cimport Bound, bound_of, is_less, text_is_ascii, text_is_utf8

import numpy as np

from orcidx.orc.kinds import StreamKind
from orcidx.orc_writer.columns import BadValue

cdef enum:
    LONGEST = 0x7FFFFFFF                    # bytes of a value that Java reads
    ENOUGH = 50000                          # values after which a dictionary must save bytes to be kept

cdef class TextValues(Column):
    """What comes in, value by value: bytes and lengths or numbers into the dictionary, bounds, bloom filter. What the
    stripe makes of it is ``TextColumn``'s."""

    cdef OutStream data
    cdef IntRuns lengths
    cdef OutStream dictionary_data
    cdef bint checks_utf8
    cdef bint bounds
    cdef bint trims_for_bloom
    cdef double threshold
    cdef bint direct                        # of this stripe
    cdef Dictionary dictionary
    cdef uint32_t* codes                    # of the stripe, while it has a dictionary
    cdef size_t code_count
    cdef size_t codes_capacity
    cdef list code_starts
    cdef int64_t bytes_in_all               # of values in the stripe
    cdef int64_t group_bytes
    cdef bint has_bounds
    cdef Bound least
    cdef Bound greatest
    cdef bytes kept_least                   # what the bounds point into, between calls
    cdef bytes kept_greatest
    cdef bint decides                       # whether its dictionary stays; not, where another column takes over
    cdef list bytes_of_groups
    cdef KnownEntries known                 # of the Arrow dictionary whose rows come

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
        Column._start_group(self)
        self.code_starts.append(self.code_count)

    cdef int _put(self, Source source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
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

    cdef int _put_values(self, Source source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
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
                    self._take(source.data + at, length, data_end, -1)
                at += length
            if direct:
                self._put_bytes(source, begin, end, total)
                self.lengths.put_many(lengths, m)
            self.group_bytes += total
            begin = end
        return 0

    cdef inline int _take(self, const uint8_t* data, int64_t length, const uint8_t* data_end,
                          int64_t code) except -1 nogil:
        """What each value goes through in either form. ``code``: its number in the dictionary; -1: not known."""
        cdef Bound value
        if length > LONGEST:
            with gil:
                raise ValueError("a value of 2 GiB or more")
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

    cdef int _put_bytes(self, Source source, int64_t start, int64_t stop, int64_t total) except -1 nogil:
        """The bytes of some rows, in one piece where nulls have none."""
        cdef int64_t first = source.begin(start)
        cdef int64_t row, at
        if source.begin(stop) - first == total:
            return self.data.append(source.data + first, total)
        for row in range(start, stop):
            if source.is_valid(row):
                at = source.begin(row)
                self.data.append(source.data + at, source.begin(row + 1) - at)
        return 0

    def write_indexes(self, Source source not None, Source values not None, int64_t start, int64_t stop):
        """Appends rows of an Arrow dictionary: ``source`` has int32 indexes, ``values`` the texts. Returns the nulls.

        The stripe must have a dictionary. Raises ``BadValue``."""
        cdef const int32_t* indexes = (<const int32_t*>source.values) + source.offset
        cdef int64_t nulls, row, at, index, one, code = -1
        cdef uint32_t group
        cdef Py_ssize_t wrong = -1
        cdef bint knows
        self._open_group()
        group = <uint32_t>len(self.group_starts)
        # The first row group may be the last one with a dictionary; from the second on entries are known again.
        knows = group > 1 and values.length <= 4 * source.length
        if knows and (self.known is None or not self.known.are_of(values)):
            self.known = KnownEntries(values)
        with nogil:
            nulls = source.nulls(start, stop)
            if nulls and not self.keeps_present:
                self.present.put_same(True, self.rows)
                self.keeps_present = True
            if self.keeps_present:
                self.present.put_bitmap(source.validity, source.offset + start, stop - start)
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
                self._take(values.data + at, one, values.data + values.data_size, code)
                if knows:
                    self.known.codes[index] = self.codes[self.code_count - 1] + 1
                    self.known.groups[index] = group
                self.group_bytes += one
        if wrong >= 0:
            raise IndexError(f"dictionary index {indexes[wrong]} of row {wrong} is outside the dictionary")
        if self.wrong_row >= 0:
            raise BadValue(self.wrong_row, self.wrong)
        self._keep_bounds()
        self.rows += stop - start
        self.group_rows += stop - start
        self.group_nulls += nulls
        return nulls

    cdef int _refuse_text(self, Source source, int64_t index, int64_t row) except -1 nogil:
        cdef int64_t at = source.begin(index)
        with gil:
            value = source.data[at:min(source.begin(index + 1), at + 40)]
            return self._refuse(row, f"{value!r} is not UTF-8; cast the column to binary, or mend it")

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
        """Copies the bounds out of an array that goes away."""
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
        Column.clear(self)
        self.dictionary_data.clear()
        self._begin_stripe()


cdef class TextColumn(TextValues):
    """The form of a stripe's texts: decided by what has come, changed where that stops paying, written at the end.

    ``threshold``: 0 no dictionary, below 0 by measured bytes, else the most distinct values for each value that a
    dictionary may have. ``bounds``: keep the least and the greatest value."""

    @property
    def knows_entries(self):
        """Whether entries of an Arrow dictionary that come again are known: from a stripe's second row group on."""
        return not self.direct and len(self.group_starts) + (not self.group_is_open) > 1

    cdef int _end_runs(self) except -1:
        self.lengths.end_run()
        if self.decides:
            self._end_bytes(self.group_bytes)
        else:
            self.bytes_of_groups.append(self.group_bytes)
        return 0

    cdef int _end_bytes(self, int64_t group_bytes) except -1:
        self.bytes_in_all += group_bytes
        if not self.direct and not self._pays(False):
            self._give_up_dictionary()
        return 0

    def follow(self, TextColumn other not None):
        """Writes what comes as the other column would at this moment, which then takes it over."""
        if other.direct and not self.direct:
            self._drop_dictionary()

    def take_over(self, Column other not None):
        cdef TextColumn texts = other
        cdef Py_ssize_t group
        cdef size_t first, last, i
        cdef Entry* entry
        cdef int64_t length
        if texts.direct:
            self.code_starts += [self.code_count] * len(texts.group_starts)
            for one in texts.bytes_of_groups:
                self.bytes_in_all += one
            Column.take_over(self, other)
            return
        cdef int64_t[::1] codes = np.full(texts.dictionary.count, -1, np.int64)
        starts = [*texts.code_starts, texts.code_count]
        for group in range(len(texts.group_starts)):
            row = texts.group_starts[group][0]
            self.group_starts.append((self.rows + row, self.data.total, self.lengths.stream.total))
            self.code_starts.append(self.code_count)
            first = starts[group]
            last = starts[group + 1]
            with nogil:
                if not self.direct:
                    self._grow_codes(last - first)
                for i in range(first, last):
                    entry = &texts.dictionary.entries[texts.codes[i]]
                    if self.direct:
                        length = entry.length
                        self.data.append(texts.dictionary.arena + entry.start, entry.length)
                        self.lengths.put_many(&length, 1)
                        continue
                    if codes[texts.codes[i]] < 0:
                        codes[texts.codes[i]] = self.dictionary.find_or_add(
                            texts.dictionary.arena + entry.start, entry.length
                        )
                    self.codes[self.code_count] = <uint32_t>codes[texts.codes[i]]
                    self.code_count += 1
                self.lengths.end_run()
            self._end_bytes(texts.bytes_of_groups[group])
        self._take_present(other)

    cdef bint _pays(self, bint finally_):
        """Whether the dictionary is worth keeping for the values so far; before 50,000 of them only a hopeless one is
        not, since new texts get rarer."""
        cdef size_t distinct = self.dictionary.count
        if not self.code_count:
            return True
        if self.threshold > 0:
            return distinct <= self.threshold * self.code_count
        if self.bytes_in_all <= 2 * <int64_t>self.code_count or distinct > 0.8 * self.code_count:
            return False
        if not finally_ and self.code_count < ENOUGH:
            return True
        bits = max(1, int(distinct - 1).bit_length())
        longest = max(1, (self.bytes_in_all // self.code_count).bit_length())
        in_dictionary = self.dictionary.arena_size + self.code_count * bits / 8
        return in_dictionary < 0.75 * (self.bytes_in_all + self.code_count * longest / 8)

    cdef _give_up_dictionary(self):
        """Writes what has come so far as it would have been written from the start."""
        cdef size_t i, first, last
        cdef Py_ssize_t group
        cdef Entry* entry
        cdef int64_t length
        starts = [*self.code_starts, self.code_count]
        for group in range(len(self.code_starts)):
            first = starts[group]
            last = starts[group + 1]
            self.group_starts[group] = (self.group_starts[group][0], self.data.total, self.lengths.stream.total)
            with nogil:
                for i in range(first, last):
                    entry = &self.dictionary.entries[self.codes[i]]
                    length = entry.length
                    self.data.append(self.dictionary.arena + entry.start, entry.length)
                    self.lengths.put_many(&length, 1)
                self.lengths.end_run()
        self._drop_dictionary()

    cdef _drop_dictionary(self):
        self.direct = True
        self.dictionary = None
        self.known = None
        free(self.codes)
        self.codes = NULL
        self.code_count = self.codes_capacity = 0

    def finish(self):
        """A dictionary is written at the end of the stripe: the numbers, the lengths and the bytes of its entries."""
        if not self.direct and not self._pays(True):
            self._give_up_dictionary()
        if not self.direct and not self.code_count:
            self.direct = True              # an empty dictionary helps nobody
        if not self.direct:
            self._write_codes()
        Column.finish(self)
        self.dictionary_data.finish()

    cdef _write_codes(self):
        cdef IntRuns numbers = IntRuns(self.data, signed=False)
        cdef int64_t block[BLOCK]
        cdef uint32_t* order = self.dictionary.sorted_order()
        cdef size_t i, first, last
        cdef Py_ssize_t group
        cdef Entry* entry
        cdef int64_t length
        cdef int n
        starts = [*self.code_starts, self.code_count]
        for group in range(len(self.code_starts)):
            first = starts[group]
            last = starts[group + 1]
            self.group_starts[group] = (self.group_starts[group][0], self.data.total, 0)
            with nogil:
                n = 0
                for i in range(first, last):
                    block[n] = self.dictionary.entries[self.codes[i]].rank
                    n += 1
                    if n == BLOCK:
                        numbers.put_many(block, n)
                        n = 0
                numbers.put_many(block, n)
                numbers.end_run()
        with nogil:
            for i in range(self.dictionary.count):
                entry = &self.dictionary.entries[order[i]]
                length = entry.length
                self.dictionary_data.append(self.dictionary.arena + entry.start, entry.length)
                self.lengths.put_many(&length, 1)
            self.lengths.end_run()
        free(order)

    def position_columns(self, Py_ssize_t groups):
        columns = Column.position_columns(self, groups)
        if self.direct:
            return columns
        # Numbers of a dictionary's rows are runs of integers, and its lengths are read whole: one number more for the
        # one, none for the others.
        bytes_numbers = len(self.data.positions(np.zeros(1, np.int64)))
        return [*columns[:len(columns) - bytes_numbers - 1], np.zeros(groups, np.int64)]

    def all_streams(self):
        found = Column.all_streams(self)
        if not self.direct:
            found.append((int(StreamKind.DICTIONARY_DATA), self.dictionary_data))
        return found

    @property
    def is_dictionary(self):
        return not self.direct

    @property
    def dictionary_size(self):
        return 0 if self.direct else self.dictionary.count

    @property
    def held(self):
        found = Column.held.__get__(self) + self.dictionary_data.held + 4 * <int64_t>self.code_count
        return found if self.dictionary is None else found + <int64_t>self.dictionary.arena_size + (
            <int64_t>(self.dictionary.count * sizeof(Entry) + self.dictionary.slot_count * sizeof(uint32_t))
        )
