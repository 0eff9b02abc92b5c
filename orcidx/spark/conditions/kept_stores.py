"""Keeps catalogs of indexes in memory between two ``read`` calls for the same directory.

Reading a catalog of a few files takes the driver some eight milliseconds, which is noticeable in a count over one
column. Catalogs are numbered and never changed. So an ``IndexStore`` in memory stays valid as long as a listing shows
the same catalogs with the same sizes and times."""

from __future__ import annotations

from orcidx.index_directory.store import IndexStore, identity_of
from orcidx.storage import IdentityCache

__all__ = ["KeptStores"]

CHEAPLY_LISTED = ("path", "hadoop")
"""Kinds of storages that list files cheaply. Their listings have tags, or times in milliseconds."""
MOST_STORES, STORE_BYTES = 16, 16 << 20
"""How many stores are kept, and the largest size of a kept store in bytes: some 50,000 files with statistics of a few
columns."""


class KeptStores:
    """The ``IndexStore`` objects of the most recently used directories. Safe to use from several threads."""

    def __init__(self) -> None:
        self._stores: IdentityCache[IndexStore] = IdentityCache(MOST_STORES)

    def known(self, store: IndexStore) -> IndexStore:
        """Returns the kept store with the same catalogs. The kept store contains all data that was read from it before.
        Returns the given store if there is no kept store."""
        if store.root.kind not in CHEAPLY_LISTED:
            return store
        kept = self._stores.get(identity_of(store))
        return store if kept is None else kept

    def keep(self, store: IndexStore) -> None:
        """Keeps a store, including the data that it has read so far, unless the store is too large."""
        if store.root.kind not in CHEAPLY_LISTED:
            return
        large = store.catalogs.nbytes > STORE_BYTES
        self._stores.put(identity_of(store), store, MOST_STORES + 1 if large else 1)
