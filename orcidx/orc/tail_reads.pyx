"""Reads small local files and the messages of their tails without the GIL.

The files of a directory are usually similar: only the positions and lengths of their parts, the numbers of their rows
and their statistics differ. A ``TailPattern`` has all other bytes of the PostScript and the Footer of one file, which
was read and checked. If another file has exactly the same bytes, only its numbers are read and checked. The meaning of
the bytes is known from the first file.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from orcidx.orc.native_codec cimport NativeCodec, put_room, take_room
from orcidx.orc.small_file cimport FoundFile, SmallFile
from orcidx.orc.stripe_tables cimport StripeTables, free_tables, read_tables, taken_tables
from orcidx.orc.wire cimport LENGTH, VARINT, Cursor, Field, inner_cursor, open_cursor, read_field
from orcidx.storage.local_file cimport FileEnd, end_view, read_end
from orcidx.threads.work cimport WorkItem

from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.stripe_footer import StripeFooter, writer_timezone

__all__ = ["TailPattern", "TailReads"]

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object text)

cdef enum:
    MAGIC_BYTES = 4     # "ORC" and the length of the PostScript are the last bytes of a file


# The numbers that are read from the messages of a tail.
cdef struct Tail:
    uint64_t footer_length
    uint64_t metadata_length
    uint64_t[5] stripe          # offset, length of the indexes, of the data, and of the footer, and the number of rows
    Py_ssize_t stripes
    Py_ssize_t fields


cdef struct Message:
    uint8_t* data               # from malloc, NULL if the message was not read
    Py_ssize_t length


cdef struct SmallRead:
    FileEnd end                 # `data` is NULL if the file could not be read
    Tail tail
    Message footer              # NULL if the tail does not have the bytes of the pattern
    StripeTables tables         # of the footer of the stripe
    Message others              # the field of this footer that is neither a stream nor an encoding


cdef struct Bytes:
    const uint8_t* data
    Py_ssize_t length


cdef Bytes bytes_of(bytes data):
    cdef Bytes found
    found.data, found.length = <const uint8_t*> <char*> data, len(data)
    return found


cdef bint may_differ(const Field* field, bint in_footer) noexcept nogil:
    # Whether similar files may have different values in this field. Of the other fields of a Footer, only the header's
    # length, the content's length, the number of rows and the statistics may differ. They are not needed here.
    if not in_footer:
        return field.wire_type == VARINT and (field.number == 1 or field.number == 5)
    if field.number == 3:
        return field.wire_type == LENGTH
    return field.number == 1 or field.number == 2 or field.number == 6 or field.number == 7


cdef bint read_numbers(Cursor cursor, uint64_t* numbers, uint64_t count) noexcept nogil:
    # Reads the fields 1 to `count` of a message of numbers.
    cdef Field field
    while cursor.at < cursor.end:
        if not read_field(&cursor, &field):
            return False
        if field.wire_type == VARINT and 1 <= field.number <= count:
            numbers[field.number - 1] = field.value
    return True


cdef bint follows(Cursor cursor, bint in_footer, Bytes expected, Tail* tail) noexcept nogil:
    # Whether a message has exactly the `expected` bytes in all fields that may not differ. Reads the other fields.
    cdef Field field
    cdef Py_ssize_t before, length
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            return False
        tail.fields += 1
        if not may_differ(&field, in_footer):
            length = cursor.at - before
            if length > expected.length or memcmp(cursor.base + before, expected.data, length) != 0:
                return False
            expected.data += length
            expected.length -= length
        elif in_footer:
            if field.number == 3:
                tail.stripes += 1
                if not read_numbers(inner_cursor(&cursor, &field), tail.stripe, 5):
                    return False
        elif field.number == 1:
            tail.footer_length = field.value
        else:
            tail.metadata_length = field.value
    return expected.length == 0


cdef bytes same_in_all(const uint8_t[::1] data, bint in_footer):
    # The bytes of the fields that may not differ.
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t before
    cdef list parts = []
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise ValueError("the message is damaged")
        if not may_differ(&field, in_footer):
            parts.append(PyBytes_FromStringAndSize(<const char*> cursor.base + before, cursor.at - before))
    return b"".join(parts)


cdef bint keep(Message* message, const uint8_t* data, Py_ssize_t length) noexcept nogil:
    message.data = <uint8_t*> malloc(length if length else 1)
    if message.data == NULL:
        return False
    memcpy(message.data, data, length)
    message.length = length
    return True


cdef class TailPattern:
    """The bytes that the tails of similar files share. ``like``: what the caller knows of these files. ``columns``: the
    number of their column ids. ``postscript`` and ``footer``: the messages of a file with one stripe that was read and
    checked. ``codec``: None for files without a codec.

    Files that exceed a limit do not have the pattern: ``most_fields`` of a message, ``most_bytes`` of a decompressed
    message, and ``most_size`` of the file."""

    cdef readonly object like
    cdef bytes postscript, footer
    cdef NativeCodec codec
    cdef Py_ssize_t columns, block_size, most_fields, most_bytes
    cdef int64_t most_size
    cdef bytes others
    cdef object timezone        # the writer's time zone in `others`

    def __cinit__(self, like, *, Py_ssize_t columns, bytes postscript not None, bytes footer not None,
                  NativeCodec codec, Py_ssize_t block_size, Py_ssize_t most_fields, Py_ssize_t most_bytes,
                  int64_t most_size):
        self.like, self.columns, self.codec, self.block_size = like, columns, codec, block_size
        self.postscript, self.footer = same_in_all(postscript, False), same_in_all(footer, True)
        self.most_fields, self.most_bytes, self.most_size = most_fields, most_bytes, most_size

    cdef Py_ssize_t unframe(self, const uint8_t** data, Py_ssize_t length, uint8_t* room) noexcept nogil:
        # Decompresses a message to `room`, and makes `data` point to it. Returns its length, or -1.
        if self.codec is not None:
            length = self.codec.unframe_into(data[0], length, self.block_size, room)
            data[0] = room
        return length if length <= self.most_bytes else -1

    cdef bint read(self, SmallRead* file, Bytes postscript, Bytes footer, uint8_t* room) noexcept nogil:
        # Reads the tail, and the footer of the stripe if it is in memory. Returns whether the file has this pattern.
        cdef const uint8_t* data = file.end.data
        cdef const uint8_t* found
        cdef Tail* tail = &file.tail
        cdef Cursor cursor
        cdef uint64_t length, end, limit
        cdef int64_t held = file.end.held, before
        if held < MAGIC_BYTES or file.end.size > self.most_size:
            return False
        length = data[held - 1]
        if not 3 <= length < <uint64_t> held or memcmp(data + held - MAGIC_BYTES, b"ORC", 3) != 0:
            return False
        cursor.base, cursor.at, cursor.end = data, held - 1 - <int64_t> length, held - 1
        if not follows(cursor, False, postscript, tail):
            return False
        # Neither length is larger than the file, so the sum does not overflow.
        limit = file.end.size
        if tail.footer_length > <uint64_t> cursor.at or tail.metadata_length > limit:
            return False
        end = tail.footer_length + tail.metadata_length + length + 1
        if end > limit:
            return False
        limit -= end
        found = data + cursor.at - <int64_t> tail.footer_length
        cursor.at, cursor.end = 0, self.unframe(&found, <Py_ssize_t> tail.footer_length, room)
        cursor.base = found
        tail.fields = 0
        if not (cursor.end >= 0 and follows(cursor, True, footer, tail) and tail.fields <= self.most_fields
                and tail.stripes == 1 and is_before(tail.stripe, limit) and keep(&file.footer, found, cursor.end)):
            return False
        before = file.end.size - held
        end = tail.stripe[0] + tail.stripe[1] + tail.stripe[2]
        if before <= <int64_t> end:
            found = data + (<int64_t> end - before)
            cursor.end = self.unframe(&found, <Py_ssize_t> tail.stripe[3], room)
            self.read_stripe(file, found, cursor.end, <int64_t> end)
        return True

    cdef bint read_stripe(self, SmallRead* file, const uint8_t* message, Py_ssize_t length, int64_t end) noexcept nogil:
        cdef StripeTables* tables = &file.tables
        if length < 0 or not read_tables(message, length, self.columns, self.most_fields, <int64_t> file.tail.stripe[0],
                                         end, tables):
            return False
        if tables.start < tables.stop and not keep(&file.others, message + tables.start, tables.stop - tables.start):
            free_tables(tables)
        return True

    cdef SmallFile found(self, SmallRead* file):
        cdef SmallFile found = SmallFile.__new__(SmallFile)
        cdef const uint64_t* stripe = file.tail.stripe
        set_end(found, file)
        found.like, found.footer_bytes = self.like, taken_bytes(&file.footer)
        found.rows = <int64_t> stripe[4]
        found.stripes = (StripeInformation(stripe[0], stripe[1], stripe[2], stripe[3], stripe[4]),)
        if file.tables.rows != NULL:
            others = taken_bytes(&file.others)
            if others != self.others:
                self.timezone, self.others = None if others is None else writer_timezone(others), others
            streams, encodings = taken_tables(&file.tables)
            found.footer = StripeFooter(streams, encodings, self.timezone)
        return found


cdef bint is_before(const uint64_t* stripe, uint64_t limit) noexcept nogil:
    # Whether a stripe has some rows, but not very many, and ends before `limit`.
    cdef int place
    for place in range(4):
        if stripe[place] > limit:
            return False
    return stripe[0] + stripe[1] + stripe[2] + stripe[3] <= limit and 0 < stripe[4] <= <uint64_t> INT32_MAX


cdef bytes name_of(str path):
    # The path for functions of C. None if they cannot open it. `LocalReader` then raises the error.
    cdef bytes name
    try:
        name = PyUnicode_EncodeFSDefault(path)
    except UnicodeEncodeError:
        return None
    return None if b"\0" in name else name


cdef class TailReads(WorkItem):
    """Reads the last ``last`` bytes of some files, and their tails if these have the ``pattern`` (None: of no file).
    ``run`` reads the files. ``most``: files of more bytes are not read. ``left``: the number of files
    that were not taken."""

    cdef TailPattern pattern
    cdef list paths, held
    cdef const char** names     # of the files, NULL for a name that cannot be opened
    cdef Bytes postscript, footer
    cdef SmallRead* files
    cdef Py_ssize_t count
    cdef readonly Py_ssize_t left  # the number of files that were not taken
    cdef int64_t most, last

    def __cinit__(self, list paths not None, TailPattern pattern, *, int64_t most, int64_t last):
        self.pattern, self.paths, self.most, self.last = pattern, paths, most, last
        self.held = [name_of(path) for path in paths]
        self.files = <SmallRead*> calloc(len(paths) or 1, sizeof(SmallRead))
        self.names = <const char**> calloc(len(paths) or 1, sizeof(char*))
        if self.files == NULL or self.names == NULL:
            raise MemoryError
        self.count = self.left = len(paths)
        for place in range(self.count):
            if self.held[place] is not None:
                self.names[place] = <const char*> <bytes> self.held[place]
        if pattern is not None:
            self.postscript, self.footer = bytes_of(pattern.postscript), bytes_of(pattern.footer)

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self.count):
            free(self.files[place].end.data)
            free(self.files[place].footer.data)
            free(self.files[place].others.data)
            free_tables(&self.files[place].tables)
        free(self.files)
        free(self.names)

    cdef int work(self) noexcept nogil:
        cdef Py_ssize_t place
        for place in range(self.count):
            if self.names[place] != NULL:
                self.read(&self.files[place], self.names[place])
        return 0

    cdef int read(self, SmallRead* file, const char* name) noexcept nogil:
        cdef uint8_t* room
        if not read_end(name, self.most, self.last, &file.end) or self.pattern is None:
            return 0
        room = take_room()
        if room != NULL:
            self.pattern.read(file, self.postscript, self.footer, room)
        put_room(room)
        return 0

    def take(self, str path not None):
        """Returns a file that was read. It is a ``SmallFile`` if it has the pattern, and otherwise a ``FoundFile``. The
        files must be taken in their order, but files may be left out. Returns None if no such file is left, and if the
        file could not be read; ``LocalReader`` then raises the error."""
        cdef FoundFile found
        cdef SmallRead* file
        cdef Py_ssize_t place = self.count - self.left
        if not self.left:
            return None
        if self.paths[place] != path:
            if path not in self.paths[place:]:
                return None
            place = self.paths.index(path, place)
        file = &self.files[place]
        self.left = self.count - place - 1
        if file.end.data == NULL:
            return None
        if file.footer.data != NULL:
            return self.pattern.found(file)
        found = FoundFile.__new__(FoundFile)
        set_end(found, file)
        return found


cdef int set_end(FoundFile found, SmallRead* file) except -1:
    found.size, found.mtime_ns = file.end.size, file.end.mtime_ns
    found.data = end_view(&file.end)
    return 0


cdef bytes taken_bytes(Message* message):
    return None if message.data == NULL else PyBytes_FromStringAndSize(<const char*> message.data, message.length)
