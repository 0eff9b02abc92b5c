# The numbers of the portable format of roaring bitmaps (see `roaring.pyx`), for the reader and the writer.

cdef enum:
    COOKIE_WITHOUT_RUNS = 12346
    COOKIE_WITH_RUNS = 12347
    OFFSETS_FROM = 4  # containers; a bitmap with run flags and fewer containers has no offsets
    LARGEST_ARRAY = 4096  # the most values of an array container
    BITSET_BYTES = 8192
