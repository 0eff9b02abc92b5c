"""Calls that run in other threads. ``Task`` is one call, ``Pool`` runs many calls, and ``Once`` is one thread that is
never stopped.

These classes replace ``concurrent.futures``. An interrupt of the main thread can leave the locks of
``concurrent.futures`` locked (see ``waiting``). Threads are started with ``_thread``, because
``threading.Thread.start`` waits for the new thread with such a lock.

When the interpreter ends, submitted calls are completed. After that, each call runs in its caller's thread.
"""

import atexit
from _thread import start_new_thread
from collections import deque
from functools import partial

from orcidx.threads.waiting cimport Waiters, forks

cdef enum:
    WAITS = 0
    RUNS = 1
    DONE = 2

cdef bint ENDS = False
cdef list POOLS = []  # the pools that have started threads


class Cancelled(Exception):
    """The task was cancelled, so it has no result."""


cdef class Task:
    """A call and, after the call has run, its result or error. If a task has no call, another thread ends it with
    ``finish``.

    ``on_cancel`` is called if the task is cancelled while it runs. If ``on_cancel`` is None, a running task continues.
    """

    cdef object call, value, error
    cdef public object on_cancel
    cdef list callbacks
    cdef Waiters waiters
    cdef int state

    def __cinit__(self, call=None):
        self.call = call
        self.waiters = Waiters()
        self.callbacks = []

    def done(self):
        """Whether the task has ended."""
        return self.state == DONE

    def run(self):
        """Runs the call in this thread, unless another thread has started it or the task was cancelled."""
        if self.state != WAITS:
            return
        self.state = RUNS
        try:
            value = self.call()
        except BaseException as error:
            self.finish(None, error)
        else:
            self.finish(value)

    def finish(self, value=None, error=None):
        """Ends the task, if it has not ended."""
        if self.state == DONE:
            return
        self.value, self.error, self.state = value, error, DONE
        self.call = self.on_cancel = None
        self.waiters.call()
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def cancel(self):
        """Ends the task without a result if possible. Returns whether the task ended without a result."""
        cdef object hook = self.on_cancel
        if self.state == DONE or (self.state == RUNS and hook is None):
            return isinstance(self.error, Cancelled)
        self.finish(None, Cancelled("cancelled"))
        if hook is not None:
            hook()
        return True

    def call_when_done(self, callback):
        """Calls ``callback()`` once when the task ends, in any thread. If the task has ended, calls it immediately."""
        if self.state == DONE:
            callback()
        else:
            self.callbacks.append(callback)

    def wait(self):
        """Waits until the task has ended."""
        while self.state != DONE:
            self.waiters.wait(-1, True)

    def exception(self):
        """Waits until the task has ended, and returns its error or None."""
        self.wait()
        return self.error

    def result(self):
        """Waits until the task has ended. Returns the result of the call, or raises its error."""
        self.wait()
        if self.error is not None:
            raise self.error
        return self.value


cdef class Pool:
    """Up to ``size`` threads that run calls in the order of their submission. Threads are started when they are needed.
    If ``size`` becomes smaller than the number of threads, some threads end. In a forked child the pool has no
    threads at first."""

    cdef object queue
    cdef Waiters idle, gone
    cdef readonly int threads
    cdef public int size
    cdef long forks

    def __cinit__(self, int size):
        self.size = size
        self.forks = -1
        self.renew()

    cdef int renew(self) except -1:
        if self.forks != forks():
            self.forks = forks()
            self.queue, self.idle, self.gone, self.threads = deque(), Waiters(), Waiters(), 0
        return 0

    @property
    def busy(self) -> int:
        """0 if no call is running or waiting for a thread, and otherwise a positive number."""
        self.renew()
        return len(self.queue) + self.threads - len(self.idle.seats)

    def submit(self, call):
        """Returns the call as a ``Task``. The call runs in a thread of the pool. If no thread can be started, the call
        runs in the caller's thread."""
        task = Task(call)
        self.take(task)
        return task

    def take(self, Task task not None):
        """Runs a task in a thread of the pool. If no thread can be started, the task runs in the caller's thread."""
        if not self.hand_over(task):
            task.run()

    def offer(self, call):
        """Submits a call, and returns whether a thread of the pool will run it. If no thread can be started, the call
        does not run."""
        return self.hand_over(Task(call))

    cdef bint hand_over(self, Task task) except -1:
        self.renew()
        if ENDS:
            return False
        self.queue.append(task)
        if self.idle.seats:
            self.idle.call_one()
        elif self.threads < self.size and not self.begin_thread() and not self.threads:
            self.queue.remove(task)  # there is no thread that could take the task
            return False
        return True

    cdef bint begin_thread(self) except -1:
        if self.threads == 0 and self not in POOLS:
            POOLS.append(self)
        self.threads += 1
        try:
            start_new_thread(self.work, ())
        except RuntimeError:  # the system allows no more threads, or the interpreter is ending
            self.threads -= 1
            return False
        return True

    def run_all(self, tasks):
        """Runs calls in parallel. The last call runs in the caller's thread. If several calls fail, the error of the
        first of these calls is raised. An interrupt is raised only after all calls have ended, because the calls use
        the caller's objects."""
        cdef list calls = list(tasks)
        cdef Py_ssize_t last = len(calls) - 1
        cdef list running = [self.submit(call) for call in calls[:max(last, 0)]]
        cdef object error = None
        cdef Task task
        try:
            if calls:
                calls[last]()
        except BaseException as failure:
            error = failure
        for task in reversed(running):
            while task.state != DONE:
                task.waiters.wait(-1, False)
            error = task.error if task.error is not None else error
        if error is not None:
            raise error

    def work(self):
        """The loop of a thread of the pool."""
        while True:
            if self.queue and self.threads <= self.size:
                task = self.queue.popleft()
                task.run()
                task = None
            elif ENDS or self.threads > self.size:
                self.threads -= 1
                self.gone.call()
                if self.queue:
                    self.idle.call_one()
                return
            else:
                self.idle.wait(-1, False)

    cdef int end(self) except -1:
        self.renew()
        self.idle.call()
        while self.threads:
            self.gone.wait(-1, True)
        return 0


def _end():
    global ENDS
    ENDS = True
    for pool in POOLS:
        (<Pool> pool).end()


atexit.register(_end)


cdef class Once:
    """A thread that is started at the first call of ``get``, and again in a forked child. The thread runs ``serve``.
    ``serve`` gets a task, and ends the task with the result for all callers. After that, ``serve`` may continue to
    run."""

    cdef object serve
    cdef Task ready
    cdef long forks

    def __cinit__(self, serve):
        self.serve = serve

    def get(self):
        """The result of the task. Starts the thread if needed, and waits for the result."""
        cdef Task ready = self.ready
        if ready is None or self.forks != forks() or (ready.state == DONE and ready.error is not None):
            ready = Task()
            begin(self.serve, (ready,))
            self.ready, self.forks = ready, forks()
        return ready.result()


cdef int begin(call, tuple arguments) except -1:
    start_new_thread(call, arguments)
    return 0


def spawn(call):
    """Runs a call in a new thread, and returns the call as a ``Task``. If no thread can be started, the call runs in
    the caller's thread. When the interpreter ends, it does not wait for the call."""
    task = Task(call)
    try:
        begin(task.run, ())
    except RuntimeError:
        task.run()
    return task


cdef class _Share:
    """Runs tasks until none are left or one has failed."""

    cdef object left

    def __cinit__(self, left):
        self.left = left

    def __call__(self):
        cdef Task task
        while self.left:
            task = self.left.popleft()
            task.run()
            if task.error is not None:
                self.left.clear()


def side_by_side(call, items, int threads):
    """Returns ``[call(item) for item in items]``. The calls run in at most ``threads`` threads. The first error in the
    order of the items is raised. After an error no further calls are started, and running calls are completed first.
    After an interrupt, this function does not wait for the running calls."""
    cdef list tasks = [Task(partial(call, item)) for item in items]
    cdef object left = deque(tasks), share = _Share(left)
    cdef Task task
    try:
        for task in [spawn(share) for _ in range(min(threads, len(tasks)))]:
            task.wait()
        return [task.result() for task in tasks]
    finally:
        left.clear()
