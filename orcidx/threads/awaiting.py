"""Connects tasks of other threads with event loops: a task is awaited on a loop, or a coroutine runs on another
thread's loop."""

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
    """Waits until a task has ended, successfully or not."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed, so no caller waits any more
            loop.call_soon_threadsafe(_arrive, arrived)

    task.call_when_done(tell)
    await arrived


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


async def awaited(task: Task[T]) -> T:
    """The result of a task. If the awaiting caller is cancelled, so is the task."""
    try:
        await arrival(task)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()


def start_on(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> Task[T]:
    """Runs the coroutine that ``make`` returns on the loop of another thread. It is made there, so that no coroutine is
    left without being awaited."""
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
