"""What was parsed of files, kept per file identity and shared by scans: tails, stripe footers, row indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orcidx.orc.metadata import FileTail, StripeFooter, read_tail
from orcidx.orc.types import OrcType, build_tree
from orcidx.storage import IdentityCache, RangeReader

if TYPE_CHECKING:
    from orcidx.orc.row_index import RowIndex

__all__ = ["FOOTERS", "INDEXES", "PARSED", "forget_metadata", "read_tail_cached"]

PARSED = 8
"""Bytes of memory that a stored byte of metadata is taken to need once it is parsed."""

_TAILS: IdentityCache[tuple[FileTail, OrcType]] = IdentityCache(64 << 20)

FOOTERS: IdentityCache[tuple[StripeFooter, Mapping[tuple[int, int], tuple[int, int]]]] = IdentityCache(32 << 20)
"""Stripe footers and where the streams lie, by (identity, stripe)."""

INDEXES: IdentityCache[RowIndex] = IdentityCache(64 << 20)
"""Row indexes by (identity, stripe, column ids)."""


def read_tail_cached(storage: RangeReader) -> tuple[FileTail, OrcType]:
    """The tail of a file and its tree of types, from memory when it is the same version of the same object, as the
    storage says."""
    known = _TAILS.get(storage.identity)
    if known is None:
        tail = read_tail(storage)
        known = tail, build_tree(tail.footer.types)
        stored = tail.postscript.footer_length + tail.postscript.metadata_length
        _TAILS.put(storage.identity, known, 1024 + PARSED * stored)
    return known


def forget_metadata() -> None:
    """Empties the caches, as in a process that has just started."""
    for cache in (_TAILS, FOOTERS, INDEXES):
        cache.clear()
