"""What was parsed of files, kept per file identity and shared by scans: tails, stripe footers, row indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orcidx.orc.metadata import FileTail, StripeFooter, read_tail
from orcidx.storage import IdentityCache, RangeReader

if TYPE_CHECKING:
    from orcidx.orc.row_index import RowIndex

__all__ = ["FOOTERS", "INDEXES", "PARSED", "forget_metadata", "read_tail_cached"]

PARSED = 8
"""Bytes of memory that a stored byte of metadata is taken to need once it is parsed."""

_TAILS: IdentityCache[FileTail] = IdentityCache(64 << 20)

FOOTERS: IdentityCache[tuple[StripeFooter, Mapping[tuple[int, int], tuple[int, int]]]] = IdentityCache(32 << 20)
"""Stripe footers and where the streams lie, by (identity, stripe)."""

INDEXES: IdentityCache[RowIndex] = IdentityCache(64 << 20)
"""Row indexes by (identity, stripe, column ids)."""


def read_tail_cached(storage: RangeReader) -> FileTail:
    """The tail of a file, from memory when the storage says that it is the same version of the same object."""
    tail = _TAILS.get(storage.identity)
    if tail is None:
        tail = read_tail(storage)
        stored = tail.postscript.footer_length + tail.postscript.metadata_length
        _TAILS.put(storage.identity, tail, 1024 + PARSED * stored)
    return tail


def forget_metadata() -> None:
    """Empties the caches, as in a process that has just started."""
    for cache in (_TAILS, FOOTERS, INDEXES):
        cache.clear()
