from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef struct EncodingRow:
    uint64_t kind
    uint64_t dictionary_size
    uint64_t bloom_encoding


cdef struct StreamRow:
    uint64_t kind
    uint64_t column
    uint64_t length
    int64_t offset              # in the file
    int64_t following           # the next stream of its column, -1 if there is none


# The index of the stream of a column in `rows`, or -1 if there is no such stream. `heads` has an entry for each of the
# `columns`.
cdef inline int64_t find_stream(const StreamRow* rows, const int64_t* heads, Py_ssize_t columns, Py_ssize_t column,
                                uint64_t kind) noexcept nogil:
    cdef int64_t at = heads[column] if 0 <= column < columns else -1
    while at >= 0 and rows[at].kind != kind:
        at = rows[at].following
    return at


cdef class EncodingTable:
    cdef EncodingRow* rows
    cdef Py_ssize_t columns


cdef class StreamTable:
    cdef StreamRow* rows
    cdef int64_t* heads         # for each column its first stream, -1 if there is none
    cdef Py_ssize_t streams, columns

    # Returns the index of a stream in `rows`, or -1 if there is no such stream.
    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept


# The streams and encodings of a stripe, in memory from malloc. `start`, `stop`: where the other field of the message is
# in its bytes. If there is no such field, both are 0.
cdef struct StripeTables:
    StreamRow* rows
    int64_t* heads
    EncodingRow* encodings      # NULL if the footer was not read
    Py_ssize_t streams
    Py_ssize_t columns
    Py_ssize_t start
    Py_ssize_t stop


# Reads a StripeFooter of a file with this number of column ids. `most`: the most fields. The streams begin at `start`,
# and all must end before `end`. Returns False, and reads nothing, for every error and for an unusual footer.
cdef bint read_tables(const uint8_t* data, Py_ssize_t length, Py_ssize_t columns, Py_ssize_t most, int64_t start,
                      int64_t end, StripeTables* tables) noexcept nogil
cdef void free_tables(StripeTables* tables) noexcept nogil
# A StreamTable and an EncodingTable of what was read. They take the memory.
cdef tuple taken_tables(StripeTables* tables)
