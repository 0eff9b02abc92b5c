"""Calls the C functions of a compression library, so chunks are compressed without the GIL. ``codecs`` finds the
functions.

Two threads never use a context at the same time. A thread takes a context from a slot by an atomic exchange and puts it
back afterwards, as in ``orc.native_codec`` for reading. A codec that no package exports in C is called as a Python
function.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from orcidx.orc.context_slots cimport put_context, take_context

ctypedef void* (*create_zstd_t)() noexcept nogil
ctypedef void* (*create_deflate_t)(int level) noexcept nogil
ctypedef size_t (*destroy_t)(void*) noexcept nogil
ctypedef size_t (*zstd_t)(void*, void*, size_t, const void*, size_t) noexcept nogil
ctypedef size_t (*parameter_t)(void*, int, int) noexcept nogil
ctypedef size_t (*deflate_t)(void*, const void*, size_t, void*, size_t) noexcept nogil
ctypedef unsigned int (*is_error_t)(size_t) noexcept nogil

cdef enum:                      # values of ZSTD_cParameter, whose numbers are fixed (zstd.h)
    COMPRESSION_LEVEL = 100
    WINDOW_LOG = 101
    HASH_LOG = 102
    MIN_MATCH = 105
    STRATEGY = 107
    LONG_CHUNK = 1 << 16  # the least bytes of a chunk for which `min_match` is used


cdef class Compressor:
    """One codec at one level. ``functions``: the addresses (create, destroy, compress) of libdeflate's functions, or
    these and two more (is_error, set_parameter) of zstd's functions. Without them ``through`` compresses a buffer to
    bytes.

    For zstd, 0 in each of the following means the level's own value. ``min_match``: the shortest match in chunks of 64
    KiB and more. ``window_log``: how far back matches are searched for, as a power of two. ``hash_log``: how many
    places are remembered, as a power of two. ``strategy``: the number of the strategy that selects matches.

    Streams may also try other compressors. ``faster``: a lower level. ``narrow``: the level of ``faster`` with a
    smaller window. ``for_numbers``: for streams of integers. ``thorough``: a higher level, for a short stream of many
    values."""

    def __cinit__(
        self, *, str name, int level=0, int min_match=0, int window_log=0, int hash_log=0, int strategy=0,
        through=None, functions=None, Compressor faster=None, Compressor narrow=None, Compressor for_numbers=None,
        Compressor thorough=None,
    ):
        self.name = name
        self.faster = faster
        self.narrow = narrow
        self.for_numbers = for_numbers
        self.thorough = thorough
        self.min_match = min_match
        self.window_log = window_log
        self.hash_log = hash_log
        self.strategy = strategy
        self.level = level
        self.through = through
        if functions is not None:
            self.create, self.destroy, self.call = (
                <void*> <size_t> functions[0], <void*> <size_t> functions[1], <void*> <size_t> functions[2]
            )
            self.is_zstd = len(functions) == 5
            if self.is_zstd:
                self.is_error = <void*> <size_t> functions[3]
                self.set_parameter = <void*> <size_t> functions[4]

    def __dealloc__(self):
        cdef int i
        for i in range(CONTEXT_SLOTS):
            if self.slots[i] != NULL:
                (<destroy_t> self.destroy)(self.slots[i])

    cdef Py_ssize_t compress(self, const uint8_t* raw, size_t length, uint8_t* out) except -1 nogil:
        cdef void* context = NULL
        cdef size_t written
        if length < 2:
            return 0
        if self.call == NULL:
            with gil:
                return self._through_python(raw, length, out)
        context = take_context(self.slots)
        if context == NULL:
            context = self._new_context()
            if context == NULL:
                with gil:
                    raise MemoryError
        # The output has room for one byte less than the input. If a library needs more room, it fails. The chunk is
        # then stored uncompressed.
        if self.is_zstd:
            if self.min_match:
                (<parameter_t> self.set_parameter)(context, MIN_MATCH, self.min_match if length >= LONG_CHUNK else 0)
            written = (<zstd_t> self.call)(context, out, length - 1, raw, length)
            if (<is_error_t> self.is_error)(written):
                written = 0
        else:
            written = (<deflate_t> self.call)(context, raw, length, out, length - 1)
        context = put_context(self.slots, context)
        if context != NULL:
            (<destroy_t> self.destroy)(context)
        return <Py_ssize_t> written

    cdef void* _new_context(self) noexcept nogil:
        cdef void* context
        if not self.is_zstd:
            return (<create_deflate_t> self.create)(self.level)
        context = (<create_zstd_t> self.create)()
        if context != NULL:
            (<parameter_t> self.set_parameter)(context, COMPRESSION_LEVEL, self.level)
            if self.window_log:
                (<parameter_t> self.set_parameter)(context, WINDOW_LOG, self.window_log)
            if self.hash_log:
                (<parameter_t> self.set_parameter)(context, HASH_LOG, self.hash_log)
            if self.strategy:
                (<parameter_t> self.set_parameter)(context, STRATEGY, self.strategy)
        return context

    cdef Py_ssize_t _through_python(self, const uint8_t* raw, size_t length, uint8_t* out) except -1:
        cdef const uint8_t[::1] found
        found = self.through(PyBytes_FromStringAndSize(<const char*> raw, length))
        if <size_t> found.shape[0] >= length or not found.shape[0]:
            return 0
        memcpy(out, &found[0], found.shape[0])
        return found.shape[0]
