"""``ReadMetrics`` counts the ranges that callers requested from a reader, and the requests and seconds for reading
them."""

from orcidx.storage.read_log import Request

cdef tuple NAMES = ("ranges", "bytes_asked", "requests", "bytes_fetched", "retries", "seconds")


cdef class ReadMetrics:
    """The counts of one reader, for all its threads.

    ``ranges`` and ``bytes_asked``: what callers requested. ``requests`` and ``bytes_fetched``: what was requested of
    the storage after merging. ``retries``: repeated requests. ``seconds``: the sum of the durations of the requests.
    Requests may overlap in time. ``log`` is ``None`` by default. If it is set to a list, every ``Request`` is appended
    to it.
    """

    cdef public object ranges, bytes_asked, requests, bytes_fetched, retries, log
    cdef public double seconds

    def __cinit__(self):
        self.ranges = self.bytes_asked = self.requests = self.bytes_fetched = self.retries = 0

    def asked(self, ranges, length):
        """Counts a request of a caller."""
        self.ranges = self.ranges + ranges
        self.bytes_asked = self.bytes_asked + length

    def fetched(self, offset, length, double seconds):
        """Counts a request that the storage has completed."""
        entry = None if self.log is None else Request(offset, length, seconds)
        self.requests = self.requests + 1
        self.bytes_fetched = self.bytes_fetched + length
        self.seconds += seconds
        if self.log is not None:
            self.log.append(entry)

    def read(self, offset, length, double seconds):
        """Counts one range that was requested and fetched by itself."""
        self.asked(1, length)
        self.fetched(offset, length, seconds)

    def retried(self):
        """Counts a request that was sent again."""
        self.retries = self.retries + 1

    def to_dict(self):
        return {name: getattr(self, name) for name in NAMES}

    def __repr__(self):
        return f"ReadMetrics({', '.join([f'{name}={value}' for name, value in self.to_dict().items()])})"
