"""``FoundFile`` and ``SmallFile``: a small file that was read, and the parts of its tail.

Thousands of these objects are made in a scan, so they are made by compiled code (``tail_reads``)."""

from libc.stdint cimport int64_t

from orcidx.orc.compression import open_codec, read_framed
from orcidx.orc.stripe_footer import check_not_zeros, checked_footer

__all__ = ["FoundFile", "SmallFile"]


cdef class FoundFile:
    """A small file, or its end. ``data``: a memoryview of its last bytes. ``size``: the number of all its bytes.
    ``mtime_ns``: its modification time, in nanoseconds since 1970."""

    def __init__(self, data, int64_t size, int64_t mtime_ns):
        self.data, self.size, self.mtime_ns = data, size, mtime_ns

    @property
    def is_whole(self):
        """Whether ``data`` has all bytes of the file."""
        return len(self.data) == self.size


cdef class SmallFile(FoundFile):
    """A file whose tail is known. ``like``: what is known of all similar files (``small_tails.Like``).
    ``footer_bytes``: the Footer message. ``footer``: the StripeFooter of the only stripe, if it was read with the
    tail."""

    def __init__(self, found, like, int64_t rows, tuple stripes, bytes footer_bytes):
        super().__init__(found.data, found.size, found.mtime_ns)
        self.like, self.rows, self.stripes, self.footer_bytes = like, rows, stripes, footer_bytes

    @property
    def kind(self):
        """The ``FileKind`` of the file."""
        return self.like.kind

    @property
    def facts(self):
        """The ``FileFacts`` of the file."""
        return self.like.kind.facts

    def stripe_footer(self, stripe, limits):
        """The footer of a stripe, for a file whose bytes are all in memory. Raises the same errors as
        ``parse_stripe_footer``."""
        if self.footer is not None:
            return self.footer
        kind = self.like.kind
        start = stripe.footer_offset
        framed = self.data[start : start + stripe.footer_length]
        check_not_zeros(framed)
        most = limits.bytes_of(len(framed))
        codec = open_codec(kind.facts.compression)
        raw = read_framed(framed, codec, kind.facts.block_size, name="StripeFooter", max_size=most)
        return checked_footer(raw, stripe, kind.columns, limits)
