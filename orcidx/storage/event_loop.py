"""The event loop that sends requests. It runs in its own thread. So synchronous and asynchronous callers use the same
connections.

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
    """Returns the loop. It is started at the first call. It is started again after a fork, because the child process
    does not have the threads of its parent."""
    return _LOOP.get()
