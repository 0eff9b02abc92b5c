"""``IdentityCache``: what was parsed from an object, kept for as long as the object stays the same."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

__all__ = ["IdentityCache"]

V = TypeVar("V")

_caches: weakref.WeakSet[IdentityCache[Any]] = weakref.WeakSet()


class IdentityCache(Generic[V]):
    """A thread-safe cache of at most ``capacity`` bytes that forgets what was least recently used.

    Keys are a reader's ``identity`` (with whatever tells several values of one object apart); a key of ``None`` is
    never stored. The caller says how many bytes a value weighs; one that outweighs the whole cache is not kept, or,
    with ``keeps_newest``, is kept alone until the next value comes. A forked child starts empty.
    """

    def __init__(self, capacity: int, *, keeps_newest: bool = False) -> None:
        self.capacity = capacity
        self._keeps_newest = keeps_newest
        self._reset()
        _caches.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self.hits = 0
        self.misses = 0

    @property
    def weight(self) -> int:
        """Bytes held, as the callers gave them."""
        return self._weight

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable | None) -> V | None:
        with self._lock:
            entry = None if key is None else self._entries.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable | None, value: V, weight: int) -> None:
        """Keeps ``value``, in place of an older one of the same key."""
        if key is None:
            return
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if weight > self.capacity and not self._keeps_newest:
                return
            self._entries[key] = (value, weight)
            self._weight += weight
            while self._weight > self.capacity and len(self._entries) > self._keeps_newest:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]


def _empty_all() -> None:
    """In a forked child: another thread of the parent may have held a lock, and its readers' sockets are not ours."""
    for cache in _caches:
        cache._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_empty_all)
