"""Tasks of other threads for event loops: awaited on one, or run on one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from orcidx.threads.tasks import Cancelled, Task

__all__ = ["arrival", "awaited", "start_on"]

T = TypeVar("T")


async def arrival(task: Task[Any]) -> None:
    """Waits until a task has ended, whatever its end is."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_arrive, arrived)

    task.call_when_done(tell)
    await arrived


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


async def awaited(task: Task[T]) -> T:
    """The result of a task, which is cancelled with who awaits it."""
    try:
        await arrival(task)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()


def start_on(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> Task[T]:
    """Runs the coroutine that ``make`` gives on the loop of another thread. It is made there, so that none is left over
    that nobody awaits."""
    task: Task[T] = Task()

    def begin() -> None:
        if task.done():  # cancelled before
            return
        inner = loop.create_task(make())
        task.on_cancel = partial(loop.call_soon_threadsafe, inner.cancel)
        inner.add_done_callback(partial(_hand_on, task))
        if task.done():
            inner.cancel()

    loop.call_soon_threadsafe(begin)
    return task


def _hand_on(task: Task[Any], inner: asyncio.Task[Any]) -> None:
    error = Cancelled("cancelled") if inner.cancelled() else inner.exception()
    task.finish(None if error is not None else inner.result(), error)
