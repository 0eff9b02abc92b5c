"""Decodes strings and tests whether they equal one of a few literals. No array of the strings is made.

A block of lengths is decoded. If no length is that of a literal, the block's strings are left out. Otherwise they are
compared where they were decompressed. For each string one byte is written: the number of the literal that it equals,
counted from 1, or 0.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from orcidx.orc.int_rle cimport BLOCK, IntRle, near_int64, skip_same
from orcidx.orc.window cimport Window
from orcidx.predicate.compares cimport are_same

cdef enum:
    MOST = 8            # literals
    ROOM = 1 << 16      # bytes of a literal, and of a block of strings that lies in several chunks

MOST_LITERALS = MOST
LONGEST_LITERAL = ROOM

ctypedef fused word_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef struct Literals:
    int count
    const uint8_t* bytes[MOST]
    int64_t sizes[MOST]


cdef void mark_words(const uint8_t* strings, int64_t n, const Literals* wanted, word_t kind,
                     uint8_t* out) noexcept nogil:
    """Compares ``n`` strings that have the length of a word."""
    cdef word_t literal, word
    cdef int64_t i
    cdef int k
    memset(out, 0, n)
    for k in range(wanted.count):
        if wanted.sizes[k] == sizeof(word_t):
            memcpy(&literal, wanted.bytes[k], sizeof(word_t))
            for i in range(n):
                memcpy(&word, strings + i * sizeof(word_t), sizeof(word_t))
                out[i] |= <uint8_t> (k + 1) if word == literal else 0


cdef void mark_strings(const uint8_t* strings, const int64_t* lengths, int64_t n, const Literals* wanted,
                       int64_t uniform, uint8_t* out) noexcept nogil:
    cdef int64_t i, length = uniform
    cdef int k
    for i in range(n):
        if uniform < 0:
            length = lengths[i]
        out[i] = 0
        for k in range(wanted.count):
            if length == wanted.sizes[k] and are_same(strings, wanted.bytes[k], length):
                out[i] = <uint8_t> (k + 1)
        strings += length


cdef void mark(const uint8_t* strings, const int64_t* lengths, int64_t n, const Literals* wanted, int64_t uniform,
               uint8_t* out) noexcept nogil:
    """``uniform``: the length of all strings, or -1. ``lengths`` is only read if it is -1."""
    if uniform == 1:
        mark_words[uint8_t](strings, n, wanted, 0, out)
    elif uniform == 2:
        mark_words[uint16_t](strings, n, wanted, 0, out)
    elif uniform == 4:
        mark_words[uint32_t](strings, n, wanted, 0, out)
    elif uniform == 8:
        mark_words[uint64_t](strings, n, wanted, 0, out)
    else:
        mark_strings(strings, lengths, n, wanted, uniform, out)


cdef bint has_wanted(const int64_t* lengths, int64_t n, const Literals* wanted) noexcept nogil:
    cdef int64_t i, found = 0
    cdef int k
    for k in range(wanted.count):
        for i in range(n):
            found |= lengths[i] == wanted.sizes[k]
    return found


cdef int64_t uniform_length(const int64_t* lengths, int64_t n) noexcept nogil:
    cdef int64_t i, other = 0
    for i in range(n):
        other |= lengths[i] ^ lengths[0]
    return -1 if other else lengths[0]


cdef int64_t mark_one_by_one(Window data, const int64_t* lengths, int64_t n, const Literals* wanted, uint8_t* room,
                             uint8_t* out) except -1 nogil:
    """Reads only the strings that have the length of a literal. Returns the number of bytes after the last of them,
    which have not been skipped yet."""
    cdef int64_t i, unread = 0
    for i in range(n):
        out[i] = 0
        if has_wanted(lengths + i, 1, wanted):
            data.drop(unread)
            unread = 0
            data.take(room, lengths[i])
            mark_strings(room, lengths + i, 1, wanted, -1, out + i)
        else:
            unread += lengths[i]
    return unread


cdef int64_t test_block(Window data, const int64_t* lengths, int64_t n, int64_t total, const Literals* wanted,
                        int64_t unread, uint8_t* room, uint8_t* out) except -1 nogil:
    """Tests ``n`` strings of ``total`` bytes, which come after ``unread`` bytes that have not been skipped yet. Returns
    the number of bytes that have not been skipped yet."""
    if not has_wanted(lengths, n, wanted):
        memset(out, 0, n)
        return unread + total
    data.drop(unread)
    if total == 0:                      # there may be no memory with bytes of the stream
        mark(room, lengths, n, wanted, 0, out)
        return 0
    if data.p == data.end:
        data.refill()
    if data.end - data.p >= total:
        mark(data.p, lengths, n, wanted, uniform_length(lengths, n), out)
        data.p += total
        return 0
    if total <= ROOM:
        data.take(room, total)
        mark(room, lengths, n, wanted, uniform_length(lengths, n), out)
        return 0
    return mark_one_by_one(data, lengths, n, wanted, room, out)


cdef int64_t test_run(Window data, int64_t length, int64_t n, const Literals* wanted, int64_t unread, uint8_t* room,
                      uint8_t* out) except -1 nogil:
    """Tests ``n`` strings that all have ``length`` bytes, at most ``ROOM``. Otherwise like ``test_block``."""
    cdef int64_t step
    data.drop(unread)
    while n:
        if length == 0:
            step = n
            mark(room, NULL, step, wanted, 0, out)
        elif data.end - data.p < length:
            step = 1
            data.take(room, length)
            mark(room, NULL, step, wanted, length, out)
        else:
            step = min(n, (data.end - data.p) // length)
            mark(data.p, NULL, step, wanted, length, out)
            data.p += step * length
        out += step
        n -= step
    return 0


def strings_among(IntRle lengths not None, Window data not None, uint8_t[::1] out not None, tuple literals not None, *,
                  int64_t unread):
    """Tests a string for each byte of ``out``. The first string comes after ``unread`` bytes that have not been skipped
    yet. No literal may occur twice.

    Returns the number of bytes after the last string that was read. They have not been skipped yet. Raises
    ``CorruptFile`` for a negative length, and if the stream has fewer bytes than are read. Does not check whether the
    strings are valid UTF-8.
    """
    cdef int64_t block[BLOCK]
    cdef int64_t step, total, same = -1, done = 0, rows = out.shape[0]
    cdef Literals wanted
    cdef uint8_t* room
    wanted.count = 0
    if len(literals) > MOST or unread < 0:
        raise ValueError(f"{len(literals)} literals, and {unread} bytes that were not skipped")
    for literal in literals:
        if not isinstance(literal, bytes) or PyBytes_GET_SIZE(literal) > ROOM:
            raise ValueError(f"a literal must have at most {LONGEST_LITERAL} bytes")
        wanted.bytes[wanted.count] = <const uint8_t*> PyBytes_AS_STRING(literal)
        wanted.sizes[wanted.count] = PyBytes_GET_SIZE(literal)
        same = wanted.sizes[wanted.count] if same in (-1, wanted.sizes[wanted.count]) else -2
        wanted.count += 1
    room = <uint8_t*> malloc(ROOM)
    if room == NULL:
        raise MemoryError
    try:
        with nogil:
            while done < rows:
                step = skip_same(lengths, rows - done, same) if same >= 0 else 0
                if step:
                    unread = test_run(data, same, step, &wanted, unread, room, &out[done])
                    done += step
                    continue
                step = near_int64(lengths, block, rows - done)
                total = lengths.add_lengths(block, step, 0)
                if unread > (<int64_t> 1 << 62) - total:
                    data.fail_end()
                unread = test_block(data, block, step, total, &wanted, unread, room, &out[done])
                done += step
    finally:
        free(room)
    return unread
