"""Writes columns of STRING, VARCHAR, CHAR and BINARY.

Each value is stored either as its bytes and its length (direct form), or as the number of its entry in a sorted
dictionary (dictionary form). At the start of each stripe of a string column, the writer uses the dictionary form. At
the end of each row group, it changes to the direct form if more than 80 % of the values are distinct, or if they have
at most 2 bytes on average. A codec compresses values of so few bytes better than the numbers of entries.

After 50,000 values, and at the end of the stripe, the writer also compares the sizes of the two forms before
compression. It keeps the dictionary form only if it takes less than three quarters of the bytes of the direct form. The
direct form takes the bytes of all values and the bits of their lengths. The dictionary form takes the bytes of the
distinct values and the bits of the entry numbers.

Statistics are (least, greatest, total bytes). For BINARY least and greatest are None.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free

from orcidx.orc_writer.columns cimport BLOCK, BaseColumn
from orcidx.orc_writer.dictionary cimport Entry
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.positions cimport WrittenPositions
from orcidx.orc_writer.text_values cimport EntryValues

import numpy as np

from orcidx.orc.kinds import StreamKind

cdef enum:
    ENOUGH = 50000  # after this many values a dictionary is kept only if it saves bytes


cdef class TextColumn(EntryValues):
    """A column of texts. It changes from the dictionary form to the direct form if a dictionary does not save bytes.

    ``threshold``: if it is 0, no dictionary is used. If it is below 0, the sizes of the two forms decide. Otherwise it
    is the largest share of distinct values with which a dictionary is used. ``bounds``: whether to keep the least and
    the greatest value."""

    @property
    def knows_entries(self):
        """Whether the column remembers which entries of an Arrow dictionary it has written. It does so from the second
        row group of a stripe on, while it uses a dictionary."""
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
        """Selects the form that the other column has now, because the other column will take over the result."""
        if other.direct and not self.direct:
            self._drop_dictionary()

    def take_over(self, BaseColumn other not None):
        cdef TextColumn texts = other
        cdef Py_ssize_t group
        cdef size_t first, last, i
        cdef Entry* entry
        cdef int64_t length
        if texts.direct:
            self.code_starts += [self.code_count] * len(texts.group_starts)
            for one in texts.bytes_of_groups:
                self.bytes_in_all += one
            BaseColumn.take_over(self, other)
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
        """Whether the dictionary saves bytes for the values so far. If ``threshold`` is above 0, only the share of
        distinct values decides. Otherwise the answer is no if more than 80 % of the values are distinct, or if they
        have at most 2 bytes on average. The sizes of both forms are compared only after 50,000 values or at the end.
        An earlier comparison would underestimate what the dictionary saves, because new texts become rarer."""
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
        """Writes the values so far in the direct form, as if it had been selected from the start."""
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
        """Ends the stripe. If it has a dictionary, writes the numbers, and the lengths and the bytes of the entries."""
        if not self.direct and not self._pays(True):
            self._give_up_dictionary()
        if not self.direct and not self.code_count:
            self.direct = True              # an empty dictionary is useless
        if not self.direct:
            self._write_codes()
        BaseColumn.finish(self)
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

    cdef int _add_positions(self, WrittenPositions table) except -1:
        if self.direct:
            return BaseColumn._add_positions(self, table)
        # With a dictionary, the DATA stream contains runs of integers. A position in this stream has one more number,
        # the position in the run.
        # The lengths of the dictionary's entries are always read completely, so they need no positions.
        self._add_present(table)
        self._add_stream(table, 0)
        table.add()
        return 0

    def all_streams(self):
        found = BaseColumn.all_streams(self)
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
        found = BaseColumn.held.__get__(self) + self.dictionary_data.held + 4 * <int64_t>self.code_count
        return found if self.dictionary is None else found + <int64_t>self.dictionary.arena_size + (
            <int64_t>(self.dictionary.count * sizeof(Entry) + self.dictionary.slot_count * sizeof(uint32_t))
        )
