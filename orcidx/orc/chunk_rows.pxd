from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.window cimport Window

# Up to n bytes of the next chunks to `out`, decompressed side by side, and how many; 0 where `take_some` is due.
cdef int64_t take_row(Window window, uint8_t* out, int64_t n) except -1 nogil
