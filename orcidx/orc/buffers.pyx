"""Turns decoded values into Arrow buffers of texts and lists: computes offsets, and gathers dictionary entries.

Every function works on whole buffers without the GIL. Sizes are checked on entry. Validity is an Arrow bitmap (least
significant bit first). "Dense" values are only the values of valid rows. Integer streams are read in blocks, so that
not more than one block of values is in memory with 64 bits for each value.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.nulls cimport bit_at, bits_of, load_word, ones_between
from orcidx.predicate.compares cimport mark_int32

from orcidx.errors import CorruptFile

cdef enum:
    CHECKED = 16384         # values that are read and then checked at a time, so few that they are still in the cache
    VIEW = 16               # bytes of a view of a string

cdef int64_t MOST_BYTES = 2147483647
SPARE_BYTES = SPARE

ctypedef fused offset_t:
    int32_t
    int64_t


# --- strings, lists, maps ---------------------------------------------------------------------------------------------


cdef int64_t place_offsets(const int64_t* lengths, const uint8_t* valid, int64_t start, int64_t stop, int64_t total,
                           int32_t* out, uint64_t* seen) noexcept nogil:
    """Computes the offsets of rows ``start`` to ``stop``. ``start`` is a multiple of 64, and the range is at most one
    block. Null rows are empty.

    Returns where the last row ends. The result is invalid if a length is 2**31 or more. ``seen`` records such lengths.
    """
    cdef int64_t i, next_length = 0
    cdef uint64_t at = total, bits = 0, bit
    if valid == NULL:
        for i in range(stop - start):
            out[start + i] = <int32_t> at
            at += <uint64_t> lengths[i]
            bits |= <uint64_t> lengths[i]
    else:
        for i in range(start, stop):
            out[i] = <int32_t> at
            bit = bit_at(valid, i)
            at += <uint64_t> lengths[next_length] & (0 - bit)
            bits |= <uint64_t> lengths[next_length]
            next_length += <int64_t> bit
    seen[0] = bits
    return <int64_t> at


def read_offsets(IntRle lengths not None, const uint8_t[::1] valid, int64_t n, int64_t count, int32_t[::1] out not None,
                 *, int64_t first=0):
    """Computes ``n + 1`` offsets, starting at ``first``, from the ``count`` lengths of the valid rows. Null rows are
    empty.

    Returns the last offset. If it would exceed 2**31 - 1, stops and returns the offset that exceeds it. Raises
    ``CorruptFile`` for a negative length.
    """
    cdef const uint8_t* bits = bits_of(valid, n, count)
    cdef int64_t block[LENGTHS + 1]
    cdef int64_t total = first
    if n < 0 or out.shape[0] < n + 1 or not 0 <= first <= MOST_BYTES:
        raise ValueError("the offsets do not fit")
    with nogil:
        total = place_all(lengths, bits, 0, n, first, &out[0], block, False)
    return total


cdef int64_t place_all(IntRle lengths, const uint8_t* bits, int64_t start, int64_t n, int64_t total, int32_t* out,
                       int64_t* block, bint is_read) except -1 nogil:
    cdef int64_t stop, ones, first
    cdef uint64_t seen = 0
    while start < n:
        stop = min(n, start + LENGTHS)
        ones = stop - start if bits == NULL else ones_between(bits, start, stop)
        if not is_read:
            block[ones] = 0             # `place_offsets` reads this element if null rows follow, and masks it to zero
            lengths.read_int64(block, ones)
        is_read = False
        first = total
        total = place_offsets(block, bits, start, stop, first, out, &seen)
        if seen >> 31:
            total = lengths.add_lengths(block, ones, first)
        if total > MOST_BYTES:
            return total
        start = stop
    out[n] = <int32_t> total
    return total


def read_lengths(IntRle lengths not None, int64_t n, int32_t[::1] out not None):
    """Like ``read_offsets`` for ``n`` rows without nulls. If all lengths are equal, writes no offsets.

    Returns the last offset, and the length that all rows have. This length is -1 if offsets were written.
    """
    cdef int64_t block[LENGTHS + 1]
    cdef int64_t start = 0, step, i, length = -1, other, total = 0
    if n < 0 or out.shape[0] < n + 1:
        raise ValueError("the offsets do not fit")
    with nogil:
        while start < n:
            step = min(n - start, <int64_t> LENGTHS)
            block[step] = 0
            lengths.read_int64(block, step)
            if start == 0:
                length = block[0]
            other = 0
            for i in range(step):
                other |= block[i] ^ length
            if other or not 0 <= length <= MOST_BYTES // n:
                break
            start += step
        if start == n and n:
            total = n * length
        else:
            for i in range(start):
                out[i] = <int32_t> (i * length)
            total = place_all(lengths, NULL, start, n, start * max(length, <int64_t> 0), &out[0], block, n > 0)
            length = -1
    return total, length


def fill_offsets(offset_t[::1] out not None, int64_t length):
    """Writes the offsets of strings that all have ``length`` bytes. The first offset is 0."""
    cdef int64_t i, count = out.shape[0]
    cdef int64_t most = <int64_t> ((<uint64_t> 1 << (8 * sizeof(offset_t) - 1)) - 1)
    if length < 0 or length > most // max(count - 1, <int64_t> 1):
        raise ValueError(f"{count - 1} strings of {length} bytes are too long for the offsets")
    with nogil:
        for i in range(count):
            out[i] = <offset_t> (i * length)


def skip_lengths(IntRle lengths not None, int64_t count):
    """Skips ``count`` lengths and returns their sum. Raises ``CorruptFile`` for a negative length."""
    cdef int64_t total = 0
    if count > 0:
        with nogil:
            total = lengths.skip_lengths(count)
    return total


# --- dictionaries -----------------------------------------------------------------------------------------------------


cdef uint32_t outside(const int32_t* values, int64_t n, uint32_t size) noexcept nogil:
    """Returns 1 if at least one value, taken as unsigned, is ``size`` or more. ``size`` is at most 2**31."""
    cdef int64_t i
    cdef uint32_t seen = 0
    for i in range(n):
        seen |= <uint32_t> values[i] | (size - 1 - <uint32_t> values[i])
    return seen >> 31


def read_indexes(IntRle indexes not None, int64_t count, int64_t size, int32_t[::1] out not None):
    """Reads ``count`` dictionary indexes into ``out``. ``size``: the number of entries of the dictionary. Raises
    ``CorruptFile`` if an index is not below ``size``."""
    if not 0 <= count <= out.shape[0] or not 0 <= size <= MOST_BYTES:
        raise ValueError("the indexes do not fit")
    if count:
        with nogil:
            fill_indexes(indexes, count, size, &out[0])


cdef int fill_indexes(IntRle indexes, int64_t count, int64_t size, int32_t* out) except -1 nogil:
    cdef int64_t step, done = 0
    indexes.largest = 0                 # reading sets it to the largest index, which may exceed 32 bits
    while done < count:
        step = min(count - done, <int64_t> CHECKED)
        next_indexes(indexes, step, size, out + done)
        done += step
    return 0


cdef int next_indexes(IntRle indexes, int64_t count, int64_t size, int32_t* out) except -1 nogil:
    # Reads the next indexes, and checks that each has an entry.
    indexes.read_int32(out, count)
    if indexes.largest >= <uint64_t> size or outside(out, count, <uint32_t> size):
        fail_index(indexes, out, count, size)
    return 0


def read_kept_indexes(IntRle indexes not None, const int32_t[::1] entries not None, Mask mask not None,
                      int32_t[::1] out not None, *, int64_t uniform=-1):
    """Reads a dictionary index for each row of ``mask``, and writes the kept indexes to ``out``, which must have room
    for one index more. Returns the sum of the lengths of the entries that the indexes of all rows select.

    ``entries``: offsets of the dictionary's entries. ``uniform``: the length of each entry, or -1 if the lengths
    differ. Raises ``CorruptFile`` if an index has no entry."""
    cdef int32_t block[LENGTHS]
    cdef int64_t i, step, done = 0, kept = 0, total = 0, rows = mask.rows, size = entries.shape[0] - 1
    cdef uint64_t pair
    if size < 0 or mask.count >= out.shape[0]:
        raise ValueError("there must be room for one index more than are kept")
    with nogil:
        indexes.largest = 0                 # see read_indexes
        while done < rows:
            step = min(rows - done, <int64_t> LENGTHS)
            next_indexes(indexes, step, size, block)
            if uniform < 0:
                for i in range(step):
                    pair = load_word(&entries[block[i]])
                    total += <int64_t> (pair >> 32) - <int64_t> <uint32_t> pair
            kept += keep_block(block, 4, mask.at + done, step, &out[kept])
            done += step
    return total if uniform < 0 else rows * uniform


cdef int fail_index(IntRle indexes, const int32_t* values, int64_t n, int64_t size) except -1 with gil:
    cdef int64_t i
    cdef uint64_t worst = indexes.largest
    for i in range(n):
        worst = max(worst, <uint64_t> <uint32_t> values[i])
    raise CorruptFile(f"dictionary index {worst} is outside a dictionary of {size} entries", stream=indexes.window.name)


def read_views(IntRle indexes not None, int64_t count, const uint8_t[::1] views not None, uint8_t[::1] out not None):
    """Reads ``count`` dictionary indexes. For each index, writes the view of that dictionary entry to ``out``.
    ``views`` has the views of all entries, 16 bytes each. Raises ``CorruptFile`` if an index has no entry."""
    cdef int32_t codes[LENGTHS]
    cdef int64_t i, step, done = 0, size = views.shape[0] // VIEW
    cdef const uint8_t* source
    cdef uint8_t* target
    if not 0 <= count * VIEW <= out.shape[0] or not 0 <= size <= MOST_BYTES:
        raise ValueError("the views do not fit")
    if count == 0:
        return
    source = &views[0] if size else NULL
    target = &out[0]
    with nogil:
        indexes.largest = 0                 # see read_indexes
        while done < count:
            step = min(count - done, <int64_t> LENGTHS)
            next_indexes(indexes, step, size, codes)
            for i in range(step):
                memcpy(target + (done + i) * VIEW, source + <int64_t> codes[i] * VIEW, VIEW)
            done += step


def read_marks(IntRle indexes not None, const uint8_t[::1] marks not None, uint8_t[::1] out not None):
    """Reads a dictionary index for each byte of ``out``, and writes the byte of that dictionary entry there. ``marks``
    has a byte for each entry. Raises ``CorruptFile`` if an index has no entry."""
    cdef int32_t codes[LENGTHS]
    cdef int64_t step, first, last, done = 0, count = out.shape[0], size = marks.shape[0]
    cdef bint is_range
    cdef const uint8_t* of_entries
    cdef uint8_t* target
    if size > MOST_BYTES:
        raise ValueError("a dictionary has too many entries")
    if count == 0:
        return
    of_entries, target = &marks[0] if size else NULL, &out[0]
    with nogil:
        first = same_marks(of_entries, 0, size, 0)
        last = same_marks(of_entries, first, size, 1)
        is_range = same_marks(of_entries, last, size, 0) == size    # then two comparisons are enough
        indexes.largest = 0                 # see read_indexes
        while done < count:
            step = min(count - done, <int64_t> LENGTHS)
            next_indexes(indexes, step, size, codes)
            if is_range:
                mark_int32(codes, step, <int32_t> first, <int32_t> (last - 1), target + done)
            else:
                mark_entries(codes, step, of_entries, target + done)
            done += step


cdef int64_t same_marks(const uint8_t* marks, int64_t start, int64_t size, uint8_t mark) noexcept nogil:
    # The first entry from `start` on that does not have this mark, or `size`.
    while start < size and marks[start] == mark:
        start += 1
    return start


cdef void mark_entries(const int32_t* codes, int64_t n, const uint8_t* marks, uint8_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = marks[codes[i]]


def length_range(const int32_t[::1] entries not None):
    """Returns the lengths of the shortest and the longest entry of a dictionary, computed from the offsets of its
    entries. Returns (0, 0) if the dictionary is empty."""
    cdef int32_t shortest = 0, longest = 0
    if entries.shape[0] > 1:
        find_lengths(&entries[0], entries.shape[0] - 1, &shortest, &longest)
    return shortest, longest


cdef void find_lengths(const int32_t* entries, int64_t size, int32_t* shortest, int32_t* longest) noexcept nogil:
    cdef int64_t i
    cdef int32_t length, least = 2147483647, most = 0
    for i in range(size):
        length = entries[i + 1] - entries[i]
        least = min(least, length)
        most = max(most, length)
    shortest[0], longest[0] = min(least, most), most


cdef int64_t pick_lengths(const int32_t* indexes, const int32_t* entries, int64_t n, int64_t total,
                          int32_t* out) noexcept nogil:
    """Computes the offsets of ``n`` strings, starting at ``total``. Returns where the last string ends. ``n`` must be
    so small that nothing overflows."""
    cdef int64_t i
    cdef uint64_t pair
    for i in range(n):
        out[i] = <int32_t> total
        pair = load_word(entries + indexes[i])              # the start of an entry and, next to it, its end
        total += <int64_t> (pair >> 32) - <int64_t> <uint32_t> pair
    return total


def gather_offsets(const int32_t[::1] indexes not None, const int32_t[::1] entries not None, const uint8_t[::1] valid,
                   int64_t n, int64_t count, int32_t[::1] out not None, *, int64_t uniform=-1):
    """Computes the offsets of ``n`` strings that the ``count`` indexes of the valid rows select from a dictionary.

    ``entries``: offsets of the dictionary's entries. ``read_indexes`` must have checked the indexes for this number of
    entries. ``uniform``: the length of the entries if all have the same length. Returns the sum of the lengths. ``out``
    is incomplete if the sum exceeds 2**31 - 1.
    """
    cdef const uint8_t* bits = bits_of(valid, n, count)
    cdef int64_t total = 0
    if n < 0 or out.shape[0] < n + 1 or count > indexes.shape[0] or (count and entries.shape[0] < 2):
        raise ValueError("the offsets do not fit")
    with nogil:
        total = place_entries(&indexes[0] if count else NULL, &entries[0] if count else NULL, bits, n, 0, uniform,
                              &out[0])
    return total


cdef int64_t place_entries(const int32_t* indexes, const int32_t* entries, const uint8_t* bits, int64_t n,
                           int64_t total, int64_t uniform, int32_t* out) noexcept nogil:
    cdef int64_t i, at = 0, step, first = total
    if bits == NULL and uniform >= 0:
        total += n * uniform
        for i in range(n if total <= MOST_BYTES else 0):
            out[i] = <int32_t> (first + i * uniform)
    elif bits == NULL:
        while at < n and total <= MOST_BYTES:
            step = min(n - at, <int64_t> LENGTHS)
            total = pick_lengths(indexes + at, entries, step, total, out + at)
            at += step
    else:
        for i in range(n):
            out[i] = <int32_t> total
            if bit_at(bits, i):
                total += entries[indexes[at] + 1] - entries[indexes[at]]
                at += 1
                if total > MOST_BYTES:
                    break
    if total <= MOST_BYTES:
        out[n] = <int32_t> total
    return total


cdef inline int64_t copy_entries(const int32_t* indexes, int64_t count, const int32_t* entries, const uint8_t* blob,
                                 int64_t total, uint8_t* out, int width) noexcept nogil:
    """Copies up to ``total`` bytes of entries. An entry of fewer than ``width`` bytes is copied as ``width`` bytes, and
    the next entry overwrites the bytes that do not belong to it. ``width`` is a constant where this function is
    inlined."""
    cdef int64_t i, at = 0, start, length
    cdef uint64_t pair
    for i in range(count):
        pair = load_word(entries + indexes[i])
        start = <int64_t> <uint32_t> pair
        length = <int64_t> (pair >> 32) - start
        if at + length > total:
            break
        if length <= width:
            memcpy(out + at, blob + start, width)
        else:
            memcpy(out + at, blob + start, length)
        at += length
    return at


def gather_bytes(const int32_t[::1] indexes not None, int64_t count, const int32_t[::1] entries not None,
                 const uint8_t[::1] blob not None, int64_t total, uint8_t[::1] out not None, *, int64_t uniform=-1,
                 int64_t longest=SPARE):
    """Copies the ``count`` selected entries, with ``total`` bytes, one after the other.

    ``gather_offsets`` must have checked the indexes. ``blob`` and ``out`` must have ``SPARE`` bytes after the used
    bytes. ``longest``: the length of the longest entry. Entries are copied in moves of this length or a few bytes more.
    """
    cdef int64_t copied
    if not 0 <= count <= indexes.shape[0] or (count and entries.shape[0] < 2):
        raise ValueError("there are too few indexes")
    if blob.shape[0] < entries[entries.shape[0] - 1] + <int64_t> SPARE or out.shape[0] < total + <int64_t> SPARE:
        raise ValueError("there are no spare bytes after the data")
    if count == 0:
        return
    with nogil:
        copied = copy_selected(&indexes[0], count, &entries[0], &blob[0], total, &out[0], uniform, longest)
    if copied != total:
        raise ValueError("the indexes do not give the total size")


cdef int64_t copy_selected(const int32_t* indexes, int64_t count, const int32_t* entries, const uint8_t* blob,
                           int64_t total, uint8_t* out, int64_t uniform, int64_t longest) noexcept nogil:
    cdef int64_t i
    if uniform == 1:                                    # entry i is byte i of the data
        for i in range(min(count, total)):
            out[i] = blob[entries[0] + indexes[i]]
        return count
    if longest <= 8:
        return copy_entries(indexes, count, entries, blob, total, out, 8)
    if longest <= 16:
        return copy_entries(indexes, count, entries, blob, total, out, 16)
    return copy_entries(indexes, count, entries, blob, total, out, SPARE)
