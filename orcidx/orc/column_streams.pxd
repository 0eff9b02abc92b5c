from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from orcidx.orc.byte_rle cimport BooleanRle
from orcidx.orc.stripe_tables cimport EncodingRow, StreamRow
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window
from orcidx.storage.local_file cimport LocalFile

cdef enum:
    AT_PRESENT, AT_DATA, AT_LENGTH, AT_DICTIONARY, AT_SECONDARY

cdef enum:
    MOST_STREAMS = 5


# The streams of a column in one stripe.
cdef struct StoredPart:
    Py_ssize_t number           # of the stripe
    const StreamRow* streams    # the tables of its footer
    const int64_t* heads
    const EncodingRow* encodings
    Py_ssize_t columns          # the number of column ids
    int64_t rows
    int64_t first_row           # the number of rows of earlier stripes
    int64_t count               # the number of valid rows
    int64_t entries             # the number of entries of its dictionary; a large number may be negative here
    int32_t shortest, longest   # the lengths of its shortest and longest entry
    int64_t first_entry         # where the offsets of its entries are in the memory for all dictionaries
    uint64_t encoding
    bint has_present
    const uint8_t* stored       # the memory with its streams
    int64_t first               # the offset in the file of the first byte of this memory
    int64_t size                # the size of this memory
    int64_t offsets[MOST_STREAMS]   # in the memory, or in the file if streams are read piece by piece
    int64_t lengths[MOST_STREAMS]


# Where the streams of a column are in the file, and their length in all.
cdef struct Stretch:
    int64_t start, stop, stored


cdef struct Memory:
    uint8_t* data
    int64_t size


cdef class StoredStripes:
    cdef StoredPart* parts      # of each stripe, without the streams of a column
    cdef Py_ssize_t count       # the number of stripes
    cdef int64_t rows, longest  # the rows of all stripes, and of the longest stripe
    cdef list footers, held
    cdef Py_buffer* views       # of the bytes of the stripes
    cdef Py_ssize_t viewed      # the number of views
    cdef LocalFile file         # None if all bytes are in memory
    cdef bint has_null_rows     # whether whole rows may be null


cdef class ColumnStreams:
    cdef BooleanRle present
    cdef Window data            # the next two decode its bytes
    cdef IntRle numbers
    cdef BooleanRle bits
    cdef IntRle lengths
    cdef Window dictionary
    cdef IntRle scales
    cdef StoredStripes stripes
    cdef list held              # the bytes of each stripe; of a file only those of the current column
    cdef int64_t piece
    cdef bint in_memory
    cdef Memory room            # the bytes of the current column of a file

    # Finds the streams of a column in each stripe, and checks that they are inside the memory. `parts` has an element
    # for each stripe.
    cdef int locate(self, Py_ssize_t column, StoredPart* parts) except -1 nogil
    cdef int find(self, StoredPart* part, Py_ssize_t column) except -1 nogil
    # Reads the streams of a column, which are adjacent, from the file.
    cdef int bring(self, StoredPart* part) except -1 with gil
    # Moves the window of a stream to the stream of a part. Then the decoder must be restarted.
    cdef int aim(self, StoredPart* part, int place) except -1 nogil
    cdef int open(self, StoredPart* part, int place) except -1 with gil
    cdef Window window(self, int place)
    cdef tuple windows(self)
    # Whether a window holds more bytes than are left uncounted.
    cdef bint has_counted(self) noexcept nogil


cdef Stretch stretch_of(const StreamRow* rows, const int64_t* heads, Py_ssize_t columns,
                        Py_ssize_t column) noexcept nogil
# Makes room for `size` bytes. The memory has no content afterwards.
cdef int reserve(Memory* memory, int64_t size) except -1 nogil
# Raises `Unusual`.
cdef int unusual() except -1 with gil
