# Contexts of a C library, or pieces of memory, that no thread is using. A thread takes a context from a slot by an
# atomic exchange and puts it back afterwards, so two threads never use the same context. There is no lock, so a fork
# during a call loses one context but blocks no thread.

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

cdef enum:
    CONTEXT_SLOTS = 32


cdef inline void* take_context(void** slots) noexcept nogil:
    """Returns a context that no thread is using. NULL if there is none."""
    cdef void* context = NULL
    cdef int i
    for i in range(CONTEXT_SLOTS):
        context = orcidx_exchange(&slots[i], NULL)
        if context != NULL:
            break
    return context


cdef inline void* put_context(void** slots, void* context) noexcept nogil:
    """Puts a context back. Returns NULL, or the context if no slot is free. The caller must then destroy the
    context."""
    cdef int i
    for i in range(CONTEXT_SLOTS):
        context = orcidx_exchange(&slots[i], context)
        if context == NULL:
            break
    return context
