"""Calls a compression library's own C functions, so that a chunk is compressed without the GIL; ``codecs`` finds them.

A context never serves two threads at once: it is taken out of a slot by an atomic exchange and put back afterwards, as
``orc.native_codec`` does for reading. A codec that no package exports in C is called as a Python function.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static void* orcidx_exchange(void** slot, void* value) { return _InterlockedExchangePointer(slot, value); }
    #else
    static void* orcidx_exchange(void** slot, void* value) {
        return __atomic_exchange_n(slot, value, __ATOMIC_ACQ_REL);
    }
    #endif
    """
    void* orcidx_exchange(void** slot, void* value) noexcept nogil

ctypedef void* (*create_zstd_t)() noexcept nogil
ctypedef void* (*create_deflate_t)(int level) noexcept nogil
ctypedef size_t (*destroy_t)(void*) noexcept nogil
ctypedef size_t (*zstd_t)(void*, void*, size_t, const void*, size_t, int) noexcept nogil
ctypedef size_t (*deflate_t)(void*, const void*, size_t, void*, size_t) noexcept nogil
ctypedef unsigned int (*is_error_t)(size_t) noexcept nogil


cdef class Compressor:
    """One codec at one level. ``functions``: addresses (create, destroy, compress) of libdeflate's functions, with a
    fourth (is_error) of zstd's; without them ``through`` compresses a buffer to bytes. ``faster``: the codec at a lower
    level, which streams try as well."""

    def __cinit__(self, *, str name, int level=0, through=None, functions=None, Compressor faster=None):
        self.name = name
        self.faster = faster
        self.level = level
        self.through = through
        if functions is not None:
            self.create, self.destroy, self.call = (
                <void*> <size_t> functions[0], <void*> <size_t> functions[1], <void*> <size_t> functions[2]
            )
            self.is_zstd = len(functions) == 4
            if self.is_zstd:
                self.is_error = <void*> <size_t> functions[3]

    def __dealloc__(self):
        cdef int i
        for i in range(CONTEXT_SLOTS):
            if self.slots[i] != NULL:
                (<destroy_t> self.destroy)(self.slots[i])

    cdef Py_ssize_t compress(self, const uint8_t* raw, size_t length, uint8_t* out) except -1 nogil:
        cdef void* context = NULL
        cdef size_t written
        cdef int i
        if length < 2:
            return 0
        if self.call == NULL:
            with gil:
                return self._through_python(raw, length, out)
        for i in range(CONTEXT_SLOTS):
            context = orcidx_exchange(&self.slots[i], NULL)
            if context != NULL:
                break
        if context == NULL:
            if self.is_zstd:
                context = (<create_zstd_t> self.create)()
            else:
                context = (<create_deflate_t> self.create)(self.level)
            if context == NULL:
                with gil:
                    raise MemoryError
        # Room for one byte less than there was: a library that needs more says so, and the chunk stays as it is.
        if self.is_zstd:
            written = (<zstd_t> self.call)(context, out, length - 1, raw, length, self.level)
            if (<is_error_t> self.is_error)(written):
                written = 0
        else:
            written = (<deflate_t> self.call)(context, raw, length, out, length - 1)
        for i in range(CONTEXT_SLOTS):
            context = orcidx_exchange(&self.slots[i], context)
            if context == NULL:
                break
        if context != NULL:
            (<destroy_t> self.destroy)(context)
        return <Py_ssize_t> written

    cdef Py_ssize_t _through_python(self, const uint8_t* raw, size_t length, uint8_t* out) except -1:
        cdef const uint8_t[::1] found
        found = self.through(PyBytes_FromStringAndSize(<const char*> raw, length))
        if <size_t> found.shape[0] >= length or not found.shape[0]:
            return 0
        memcpy(out, &found[0], found.shape[0])
        return found.shape[0]

    def shrink(self, const uint8_t[::1] raw not None):
        """The chunk compressed, or None when that does not make it shorter."""
        cdef Py_ssize_t length = raw.shape[0]
        cdef Py_ssize_t written = 0
        if length < 2:
            return None
        out = PyBytes_FromStringAndSize(NULL, length)
        cdef uint8_t* target = <uint8_t*> <char*> out
        with nogil:
            written = self.compress(&raw[0], length, target)
        return out[:written] if written else None
