"""Connects tasks of threads with event loops. A task can be awaited in an event loop, and a coroutine can run in the
event loop of another thread."""

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
        with suppress(RuntimeError):  # raised if the loop is closed; then no caller waits any more
            loop.call_soon_threadsafe(_arrive, arrived)

    task.call_when_done(tell)
    await arrived


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


async def awaited(task: Task[T]) -> T:
    """Returns the result of a task. If the caller that awaits it is cancelled, the task is cancelled, too."""
    try:
        await arrival(task)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()


def start_on(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> Task[T]:
    """Runs a coroutine in the event loop of another thread. ``make`` is called in this loop and returns the coroutine.
    If the task is cancelled before ``make`` is called, no coroutine is made, and there is no warning that a coroutine
    was never awaited."""
    task: Task[T] = Task()

    def begin() -> None:
        if task.done():  # the task was cancelled before the loop called this function
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
