"""The event loop of requests, in a thread of its own, so that callers with and without a loop share connections.

The asynchronous file systems of fsspec have a loop of their own, which is fsspec's.
"""

from __future__ import annotations

import asyncio
import os
import threading

__all__ = ["shared_loop"]

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def shared_loop() -> asyncio.AbstractEventLoop:
    """The loop, started at the first call, and anew after a fork (a child has none of the threads)."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="orcidx-loop", daemon=True).start()
        return _loop


def _forget() -> None:
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
