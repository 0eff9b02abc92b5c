"""Caches of parsed metadata (tails, stripe footers, row indexes), by file identity. All scans share these caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orcidx.orc.metadata import FileTail, Footer, read_tail
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_tails import FileKind, likeness_of
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType, build_tree
from orcidx.storage import IdentityCache, RangeReader

if TYPE_CHECKING:
    from orcidx.orc.row_index import RowIndex

__all__ = ["FOOTERS", "INDEXES", "KINDS", "PARSED_PER_STORED_BYTE", "PLANS", "forget_metadata", "read_tail_cached"]

PARSED_PER_STORED_BYTE = 8
"""The estimated bytes of memory for each stored byte of metadata after it is parsed. If the estimate is wrong, the
caches hold more or less than intended."""

_TAILS: IdentityCache[tuple[FileTail, OrcType]] = IdentityCache(64 << 20)

_TREES: IdentityCache[OrcType] = IdentityCache(16 << 20)
"""Trees of types, by the bytes of the footer from which they are made. Files of a directory share one tree."""

KINDS: IdentityCache[FileKind] = IdentityCache(16 << 20)
"""The ``FileKind`` of each ``Likeness``. It comes from a file that was read and checked."""

FOOTERS: IdentityCache[StripeFooter] = IdentityCache(32 << 20)
"""Stripe footers, by (identity, stripe)."""

INDEXES: IdentityCache[RowIndex] = IdentityCache(64 << 20)
"""Row indexes by (identity, stripe, column ids)."""

PLANS: IdentityCache[Any] = IdentityCache(64 << 20, keeps_newest=True)
"""Plans of scans of a schema (``planner.schema_plan``), by the schema and the request. A plan with a million keys is
larger than the cache, and binding it takes a second. Such a plan is still kept, because the next files of the scan need
it."""


def read_tail_cached(
    storage: RangeReader, limits: MetadataLimits, *, rereads: bool = False
) -> tuple[FileTail, OrcType]:
    """The tail of a file, and its tree of types. If the same version of the same object was read before with the same
    limits, both come from the cache. The storage reports the version of the object. ``rereads``: whether the tail is
    read even if it is in the cache."""
    identity = storage.identity
    key = None if identity is None else (identity, limits.key)
    known = _TAILS.get(key)
    if known is not None and rereads:
        read_tail(storage, limits=limits, is_sound=lambda _: True)
    if known is None:
        trees: list[OrcType | None] = []

        def is_sound(footer: Footer) -> bool:
            trees.append(_TREES.get(_tree_key(footer)))
            return trees[-1] is not None

        tail = read_tail(storage, limits=limits, is_sound=is_sound)
        known = tail, (trees[-1] if trees else None) or _tree_of(tail.footer)
        size = max(tail.footer_size, tail.postscript.footer_length) + tail.postscript.metadata_length
        identity = storage.identity  # some storages know the file's identity only after a read
        _TAILS.put(None if identity is None else (identity, limits.key), known, 1024 + PARSED_PER_STORED_BYTE * size)
        _remember_kind(*known)
    return known


def _remember_kind(tail: FileTail, root: OrcType) -> None:
    likeness = likeness_of(tail)
    if likeness is None:
        return
    kind = KINDS.get(likeness)
    if kind is not None:
        tail.__dict__.update(facts=kind.facts, columns=kind.columns)  # shares the objects of an earlier file
    else:
        KINDS.put(likeness, FileKind(tail.facts, root, tail.columns), 1024 + _tree_size(tail.footer))


def _tree_key(footer: Footer) -> tuple[bytes, int]:
    return footer.type_bytes, footer.most_items


def _tree_size(footer: Footer) -> int:
    return 64 * len(footer.type_bytes)


def _tree_of(footer: Footer) -> OrcType:
    key = _tree_key(footer)
    root = _TREES.get(key)
    if root is None:
        root = build_tree(footer.types)
        _TREES.put(key, root, 1024 + _tree_size(footer))
    return root


def forget_metadata() -> None:
    """Empties the caches, as in a new process."""
    for cache in (_TAILS, _TREES, KINDS, FOOTERS, INDEXES, PLANS):
        cache.clear()
