"""Catalogs of indexes that stay in memory between one ``read`` and the next of the same directory.

Reading a catalog of a few files takes the driver some eight milliseconds, of which a count over one column notices
every one. Catalogs are written once, under numbers; a store is the same while the listing of them is, sizes and times
included.
"""

from __future__ import annotations

from orcidx.index_directory.store import IndexStore, identity_of, memory_of
from orcidx.storage import IdentityCache

__all__ = ["KeptStores"]

KINDS = ("path", "hadoop")
"""Of stores whose listings are cheap and tell versions to the millisecond, or by tags."""
STORES, STORE_BYTES = 16, 16 << 20
"""How many stores are kept, and how large each may be: some 50,000 files with statistics of a few columns."""


class KeptStores:
    """The last stores of directories that were used. Threads may share it."""

    def __init__(self) -> None:
        self._stores: IdentityCache[IndexStore] = IdentityCache(STORES)

    def known(self, store: IndexStore) -> IndexStore:
        """A store that was opened at the same catalogs, with what it has read; the given one where there is none."""
        if store.root.kind not in KINDS:
            return store
        kept = self._stores.get(identity_of(store))
        return store if kept is None else kept

    def keep(self, store: IndexStore) -> None:
        """Remembers a store with what it has read by now, unless that is large."""
        if store.root.kind not in KINDS:
            return
        large = memory_of(store) > STORE_BYTES
        self._stores.put(identity_of(store), store, STORES + 1 if large else 1)
