from libc.stdint cimport uint8_t

from orcidx.orc.context_slots cimport CONTEXT_SLOTS


cdef class Compressor:
    cdef readonly str name
    cdef int level
    cdef int min_match
    cdef int window_log
    cdef int hash_log
    cdef int strategy
    cdef bint is_zstd
    cdef void* create
    cdef void* destroy
    cdef void* call
    cdef void* is_error
    cdef void* set_parameter
    cdef void* slots[CONTEXT_SLOTS]  # contexts that are not in use
    cdef readonly Compressor faster  # a lower level, which compresses some streams better; None: there is none
    cdef readonly Compressor narrow  # the lower level with a smaller window
    cdef readonly Compressor for_numbers  # the compressor for streams of integers; None: this one
    cdef readonly Compressor thorough  # a higher level, for few bytes that stand for many values
    cdef object through  # a Python function on bytes, which is used if there is no native function

    # Returns the number of bytes written to `out`, which is less than `length`. Returns 0 if compression does not make
    # the bytes fewer, and -1 if a Python error is set.
    cdef Py_ssize_t compress(self, const uint8_t* raw, size_t length, uint8_t* out) except -1 nogil
    cdef void* _new_context(self) noexcept nogil
    cdef Py_ssize_t _through_python(self, const uint8_t* raw, size_t length, uint8_t* out) except -1
