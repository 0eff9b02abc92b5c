"""The event loop of requests. It runs in its own thread, so that callers with and without a loop share connections.

The asynchronous file systems of fsspec run on fsspec's loop instead.
"""

from __future__ import annotations

import asyncio

from orcidx.threads.tasks import Once, Task

__all__ = ["shared_loop"]


def _serve(ready: Task[asyncio.AbstractEventLoop]) -> None:
    try:
        loop = asyncio.new_event_loop()
    except BaseException as error:
        ready.finish(error=error)
        raise
    ready.finish(loop)
    loop.run_forever()


_LOOP: Once[asyncio.AbstractEventLoop] = Once(_serve)


def shared_loop() -> asyncio.AbstractEventLoop:
    """The loop. It is started at the first call, and again after a fork, because a child has no threads of its
    parent."""
    return _LOOP.get()
