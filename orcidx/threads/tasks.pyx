"""Calls that run in other threads: ``Task`` for one, ``Pool`` for many, ``Once`` for a thread that serves for good.

They are what ``concurrent.futures`` has, which an interrupt of the main thread leaves locked at times (``waiting``).
Threads are begun by ``_thread``: ``threading.Thread.start`` waits for its thread, by such a lock.

When the interpreter ends, what was handed over is done; from then on calls run where they are handed over.
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
cdef list POOLS = []                    # that have threads


class Cancelled(Exception):
    """A task has no result, as it was cancelled."""


cdef class Task:
    """A call and its end, once it has run. Without a call it is somebody else who ends it, by ``finish``.

    ``on_cancel``: called when it is cancelled while it runs; one that has none goes on.
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
        """Whether it has ended."""
        return self.state == DONE

    def run(self):
        """Runs the call here, unless somebody has begun it or it was cancelled."""
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
        """Ends it, if it has not ended."""
        if self.state == DONE:
            return
        self.value, self.error, self.state = value, error, DONE
        self.call = self.on_cancel = None
        self.waiters.call()
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def cancel(self):
        """Ends it without a result where that can be; whether it has none."""
        cdef object hook = self.on_cancel
        if self.state == DONE or (self.state == RUNS and hook is None):
            return isinstance(self.error, Cancelled)
        self.finish(None, Cancelled("cancelled"))
        if hook is not None:
            hook()
        return True

    def call_when_done(self, callback):
        """Calls ``callback()`` once, when it ends or has ended, in whatever thread."""
        if self.state == DONE:
            callback()
        else:
            self.callbacks.append(callback)

    def wait(self):
        """Waits for its end."""
        while self.state != DONE:
            self.waiters.wait(-1, True)

    def exception(self):
        """The error that it ended with, or None; waits for its end."""
        self.wait()
        return self.error

    def result(self):
        """What the call gave, or its error; waits for its end."""
        self.wait()
        if self.error is not None:
            raise self.error
        return self.value


cdef class Pool:
    """Up to ``size`` threads that run calls in the order in which they come. They begin when they are wanted, and go
    when the size is made less than there are. A forked child begins with none."""

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
        """0 where no call runs or waits for a thread."""
        self.renew()
        return len(self.queue) + self.threads - len(self.idle.seats)

    def submit(self, call):
        """The call as a ``Task``: run by a thread of the pool, or here where it can have none."""
        task = Task(call)
        self.take(task)
        return task

    def take(self, Task task not None):
        """Has a task run, as ``submit`` does with its call."""
        if not self.hand_over(task):
            task.run()

    def offer(self, call):
        """Whether a thread of the pool is going to run the call; False where the pool can have none."""
        return self.hand_over(Task(call))

    cdef bint hand_over(self, Task task) except -1:
        self.renew()
        if ENDS:
            return False
        self.queue.append(task)
        if self.idle.seats:
            self.idle.call_one()
        elif self.threads < self.size and not self.begin_thread() and not self.threads:
            self.queue.remove(task)     # nobody else takes any
            return False
        return True

    cdef bint begin_thread(self) except -1:
        if self.threads == 0 and self not in POOLS:
            POOLS.append(self)
        self.threads += 1
        try:
            start_new_thread(self.work, ())
        except RuntimeError:            # the system has no more, or the interpreter ends
            self.threads -= 1
            return False
        return True

    def run_all(self, tasks):
        """Runs calls side by side, the last one here; of several errors the first call's is raised. An interrupt leaves
        when all have ended: what they work on is the caller's."""
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
        """What a thread of the pool does."""
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
    """A thread that is begun at the first call, and anew in a forked child. ``serve`` gets a task, which it ends with
    what everybody gets; then it may stay."""

    cdef object serve
    cdef Task ready
    cdef long forks

    def __cinit__(self, serve):
        self.serve = serve

    def get(self):
        """What the thread has given; begins it, and waits for that."""
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
    """The call as a ``Task``, in a thread of its own; here where there can be none. The interpreter ends without it."""
    task = Task(call)
    try:
        begin(task.run, ())
    except RuntimeError:
        task.run()
    return task


cdef class _Share:
    """Runs tasks as long as some are left and none has failed."""

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
    """``[call(item) for item in items]``, by so many threads at most. The first error in their order leaves; what has
    not begun by then never does, and what has begun is waited for, but for an interrupt."""
    cdef list tasks = [Task(partial(call, item)) for item in items]
    cdef object left = deque(tasks), share = _Share(left)
    cdef Task task
    try:
        for task in [spawn(share) for _ in range(min(threads, len(tasks)))]:
            task.wait()
        return [task.result() for task in tasks]
    finally:
        left.clear()
