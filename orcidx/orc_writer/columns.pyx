"""``BaseColumn``: the common part of columns of all types: PRESENT, row groups, positions.

A column gets its rows in pieces that are within one row group. The caller decides where a row group ends. At the end
of the stripe the column has its streams, and the positions in them where each row group begins. PRESENT is created at
the first null. A stripe without nulls has no PRESENT stream, and no numbers for it in the index.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from orcidx.orc_writer.bloom_filters cimport BloomBuilder
from orcidx.orc_writer.byte_runs cimport Bits
from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.positions cimport WrittenPositions
from orcidx.orc_writer.source cimport ArraySource

from orcidx.orc.kinds import StreamKind


class BadValue(Exception):
    """A value that cannot be written: its ``row`` in the given array, the ``reason``, and the dotted ``path`` of its
    column as soon as it is known."""

    def __init__(self, row, reason):
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.path = ""


cdef class BaseColumn:
    """``open_stream()`` creates the column's streams. ``bloom``, if there is one, takes the hashes of the values."""

    def __cinit__(self, open_stream, *args, BloomBuilder bloom=None, **options):
        self.streams = []
        self.bloom = bloom
        self.present = Bits(open_stream())
        self.group_starts = []
        self.wrong_row = -1

    def write(self, ArraySource source not None, int64_t start, int64_t stop):
        """Appends rows of one row group, and returns how many of them are null. Raises ``BadValue``."""
        cdef int64_t nulls
        if not 0 <= start <= stop <= source.length:
            raise ValueError("the rows are outside the array")
        self._open_group()
        with nogil:
            nulls = self._begin_rows(source, start, stop)
            self._put(source, start, stop, nulls)
        if self.wrong_row >= 0:
            raise BadValue(self.wrong_row, self.wrong)
        self.rows += stop - start
        self.group_rows += stop - start
        self.group_nulls += nulls
        return nulls

    def write_valid(self, int64_t rows):
        """Appends rows of one row group that are not null and have no values in this column itself, such as rows of the
        root or of a union."""
        self._open_group()
        self.rows += rows
        self.group_rows += rows

    cdef int64_t _begin_rows(self, ArraySource source, int64_t start, int64_t stop) except -1 nogil:
        """Marks which of the rows are null, and returns their number."""
        cdef int64_t nulls = source.nulls(start, stop)
        if nulls and not self.keeps_present:
            self.present.put_same(True, self.rows)
            self.keeps_present = True
        if self.keeps_present:
            self.present.put_bitmap(source.validity, source.offset + start, stop - start)
        return nulls

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        return 0

    cdef int _end_runs(self) except -1:
        return 0

    cdef object _take_statistics(self, int64_t count):
        return None

    cdef int _refuse(self, int64_t row, str reason) except -1:
        if self.wrong_row < 0:
            self.wrong_row = row
            self.wrong = reason
        return 0

    cdef int _open_group(self) except -1:
        if not self.group_is_open:
            self.group_is_open = True
            self._start_group()
        return 0

    cdef _start_group(self):
        self.group_starts.append((self.rows, *[(<OutStream>entry[1]).total for entry in self.streams]))

    def note_null_parents(self):
        """Records that rows of the open row group are null because an enclosing struct is null. Without this, readers
        that use the column's statistics would not find these nulls."""
        self.null_parents = True

    def end_group(self):
        """Ends the open row group. Returns the number of its values that are not null, whether it has nulls, and its
        statistics. What these statistics contain depends on the type of the column."""
        cdef int64_t count = self.group_rows - self.group_nulls
        self._open_group()
        self._end_runs()
        self.group_is_open = False
        # If the statistics of a row group have neither a value nor a null, Java assumes that no row of the group can
        # match (ORC-1553). So the statistics of a group without values say that it has nulls.
        has_null = bool(self.group_nulls or self.null_parents or not count)
        statistics = self._take_statistics(count)
        self.group_rows = 0
        self.group_nulls = 0
        self.null_parents = False
        return count, has_null, statistics

    def take_over(self, BaseColumn other not None):
        """Appends whole row groups that another column of the same kind has encoded into streams with ``keeps_raw``.
        Afterwards ``cut`` must be called for the streams. Both columns must be at the end of a row group."""
        totals = (self.rows, *[(<OutStream>entry[1]).total for entry in self.streams])
        for starts in other.group_starts:
            self.group_starts.append(tuple([base + more for base, more in zip(totals, starts)]))
        for i in range(len(self.streams)):
            (<OutStream>self.streams[i][1]).take_over(<OutStream>other.streams[i][1])
        self._take_present(other)

    cdef int _take_present(self, BaseColumn other) except -1:
        with nogil:
            if other.keeps_present and not self.keeps_present:
                self.present.put_same(True, self.rows)
                self.keeps_present = True
            if self.keeps_present:
                if other.keeps_present:
                    self.present.put_bits(other.present)
                else:
                    self.present.put_same(True, other.rows)
        if self.bloom is not None:
            self.bloom.filters.extend(other.bloom.filters)
        self.rows += other.rows
        return 0

    def finish(self):
        """Ends all streams of the stripe. Must be called once, after the last row group."""
        for _, stream, _ in self.streams:
            (<OutStream>stream).finish()

    def positions(self, Py_ssize_t groups):
        """The positions of the first ``groups`` row groups. Also finishes the PRESENT stream."""
        cdef WrittenPositions table = WrittenPositions(min(groups, <Py_ssize_t>len(self.group_starts)))
        self._add_positions(table)
        return table

    cdef int _add_positions(self, WrittenPositions table) except -1:
        cdef Py_ssize_t i
        self._add_present(table)
        for i in range(len(self.streams)):
            self._add_stream(table, i)
        return 0

    cdef int _add_present(self, WrittenPositions table) except -1:
        cdef int64_t* rows
        if self.keeps_present:
            rows = self._starts(table.groups, 0)
            try:
                self.present.put_all(table, rows)
            finally:
                free(rows)
        return 0

    cdef int _add_stream(self, WrittenPositions table, Py_ssize_t number) except -1:
        cdef int64_t* offsets = self._starts(table.groups, number + 1)
        _, stream, more = self.streams[number]
        try:
            (<OutStream>stream).put_positions(table, offsets)
        finally:
            free(offsets)
        for _ in range(more):
            table.add()
        return 0

    cdef int64_t* _starts(self, Py_ssize_t groups, Py_ssize_t number) except NULL:
        """For each row group, number ``number`` of its entry in ``group_starts``. The caller must free the result."""
        cdef Py_ssize_t group
        cdef int64_t* found = <int64_t*>malloc((groups + 1) * sizeof(int64_t))
        if found == NULL:
            raise MemoryError
        for group in range(groups):
            found[group] = (<tuple>self.group_starts[group])[number]
        return found

    def all_streams(self):
        """Pairs (kind, stream) in the order of the file. Must be called after ``positions``."""
        own = [(int(kind), stream) for kind, stream, _ in self.streams]
        return [(int(StreamKind.PRESENT), self.present.stream), *own] if self.keeps_present else own

    @property
    def is_dictionary(self):
        return False

    @property
    def dictionary_size(self):
        return 0

    @property
    def held(self):
        """The bytes of memory that the stripe's data takes."""
        return sum([(<OutStream>stream).held for _, stream, _ in self.streams], self.present.held)

    def clear(self):
        """Clears everything for the next stripe."""
        for _, stream, _ in self.streams:
            (<OutStream>stream).clear()
        self.present.clear()
        self.present.stream.clear()
        self.keeps_present = False
        self.rows = 0
        self.group_starts = []
        self.group_is_open = False


cdef class StructColumn(BaseColumn):
    """A struct, which has only a PRESENT stream."""

    def __init__(self, open_stream):
        pass
