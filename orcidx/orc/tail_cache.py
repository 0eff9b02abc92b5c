"""Tails of files, kept per file identity and shared by scans."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

from orcidx.orc.metadata import FileTail, read_tail
from orcidx.storage import RangeReader

__all__ = ["read_tail_cached"]

MOST_TAILS = 256

_lock = threading.Lock()
_tails: OrderedDict[Hashable, FileTail] = OrderedDict()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def read_tail_cached(storage: RangeReader) -> FileTail:
    """The tail of a file, from memory when the storage says that it is the same version of the same object."""
    identity = storage.identity
    if identity is None:
        return read_tail(storage)
    with _lock:
        tail = _tails.get(identity)
        if tail is not None:
            _tails.move_to_end(identity)
            return tail
    tail = read_tail(storage)
    with _lock:
        _tails[identity] = tail
        while len(_tails) > MOST_TAILS:
            _tails.popitem(last=False)
    return tail
