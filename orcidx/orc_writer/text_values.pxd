from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.columns cimport BaseColumn
from orcidx.orc_writer.dictionary cimport Dictionary
from orcidx.orc_writer.gathered_texts cimport Entries, KnownEntries
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.source cimport ArraySource
from orcidx.orc_writer.text_bounds cimport Bound


cdef class TextValues(BaseColumn):
    cdef OutStream data
    cdef IntRuns lengths
    cdef OutStream dictionary_data
    cdef bint checks_utf8
    cdef bint bounds
    cdef bint trims_for_bloom
    cdef double threshold
    cdef bint direct  # whether this stripe has no dictionary
    cdef Dictionary dictionary
    cdef uint32_t* codes  # the numbers of the stripe's values, while it has a dictionary
    cdef size_t code_count
    cdef size_t codes_capacity
    cdef list code_starts
    cdef int64_t bytes_in_all               # bytes of all values in the stripe
    cdef int64_t group_bytes
    cdef bint has_bounds
    cdef Bound least
    cdef Bound greatest
    cdef bytes kept_least  # keeps the bytes of the bounds alive between calls
    cdef bytes kept_greatest
    cdef bint decides  # whether this column decides on its dictionary; False if another column takes over its result
    cdef list bytes_of_groups
    cdef KnownEntries known  # entries of the Arrow dictionary whose rows are being written

    cdef _begin_stripe(self)
    cdef int _put_values(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil
    cdef int _put_bytes(self, ArraySource source, int64_t start, int64_t stop, int64_t total) except -1 nogil
    cdef int _refuse_text(self, ArraySource source, int64_t index, int64_t row) except -1 nogil
    cdef int _grow_codes(self, int64_t more) except -1 nogil
    cdef int _add_to_bloom(self, const uint8_t* data, int64_t length) except -1 nogil
    cdef _keep_bounds(self)


cdef class EntryValues(TextValues):
    cdef int _end_rows(self, const int32_t* indexes, int64_t wrong, int64_t rows, int64_t nulls) except -1
    cdef int64_t _put_entries(
        self, const int32_t* indexes, ArraySource source, ArraySource values, int64_t first, int64_t last
    ) except -2 nogil
    cdef int64_t _put_slots(
        self, const int32_t* indexes, ArraySource source, Entries entries, int64_t first, int64_t last
    ) except -2 nogil
    cdef bint _are_texts(
        self, const int32_t* indexes, ArraySource source, ArraySource values, int64_t first, int64_t last,
        const uint8_t* together, int64_t total
    ) except -1 nogil
