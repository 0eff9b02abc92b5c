"""What was parsed of files, kept per file identity and shared by scans: tails, stripe footers, row indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orcidx.orc.metadata import FileTail, StripeFooter, read_tail
from orcidx.orc.metadata_limits import MetadataLimits
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


def read_tail_cached(storage: RangeReader, limits: MetadataLimits) -> tuple[FileTail, OrcType]:
    """The tail of a file and its tree of types, from memory when it is the same version of the same object, as the
    storage says, and was read within the same limits."""
    identity = storage.identity
    key = None if identity is None else (identity, limits)
    known = _TAILS.get(key)
    if known is None:
        tail = read_tail(storage, limits=limits)
        known = tail, build_tree(tail.footer.types)
        size = max(tail.footer_size, tail.postscript.footer_length) + tail.postscript.metadata_length
        identity = storage.identity  # some storage knows it only now
        _TAILS.put(None if identity is None else (identity, limits), known, 1024 + PARSED * size)
    return known


def forget_metadata() -> None:
    """Empties the caches, as in a process that has just started."""
    for cache in (_TAILS, FOOTERS, INDEXES):
        cache.clear()
