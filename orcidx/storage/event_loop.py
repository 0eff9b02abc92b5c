"""The event loop of requests, in a thread of its own, so that callers with and without a loop share connections.

The asynchronous file systems of fsspec have a loop of their own, which is fsspec's.
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
    """The loop, started at the first call, and anew after a fork (a child has none of the threads)."""
    return _LOOP.get()
