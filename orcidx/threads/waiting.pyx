"""Waiting, mutual exclusion and counting, for threads that may be interrupted at any moment.

The handler of a signal runs in the main thread between two instructions of Python. It may raise an exception, as Ctrl-C
does. ``threading.Condition``, ``Event``, ``Semaphore``, ``queue.Queue`` and ``Future`` are written in Python. They stay
locked if the exception is raised after they take a lock and before the block that releases the lock. From Python 3.14 a
plain ``with lock`` has the same problem, because its ``__enter__`` is an ordinary call. All other threads then wait
forever.

An interrupt cannot break the methods of this module. The code is compiled, runs no Python code, and releases the GIL
(the interpreter's lock) only while it waits. So each change of state is one step. A thread waits on a separate lock,
its ``Seat``, which no other thread takes. Signal handlers run during this wait, through ``PyErr_CheckSignals``, while
the thread holds no lock. This also holds for a free-threaded interpreter, which turns the GIL on if a module does not
declare that it runs without the GIL.
"""

import os
from collections import deque
from time import monotonic

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)

cdef extern from "Python.h":
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int intr_flag) nogil


# The number of microseconds between two checks for signals. The checks are needed, because a signal that another thread
# receives does not end the wait of the main thread.
cdef long long SLICE = 100_000
cdef long FORKS = 0


cdef long forks() noexcept:
    # The number of forks between the first process and this process. After a fork, the child ignores locks that threads
    # of the parent process held at the fork.
    return FORKS


def _count_fork():
    global FORKS
    FORKS += 1


if hasattr(os, "register_at_fork"):     # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_count_fork)


cdef class Seat:
    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        PyThread_acquire_lock(self.lock, NOWAIT_LOCK)

    def __dealloc__(self):
        if self.lock != NULL:
            if not self.called:
                PyThread_release_lock(self.lock)
            PyThread_free_lock(self.lock)


cdef class Waiters:
    """The threads that wait until another thread wakes them with ``call`` or ``call_one``."""

    def __cinit__(self):
        self.seats = []

    cdef bint wait(self, double seconds, bint interruptible) except -1:
        cdef Seat seat = Seat()
        cdef double left = 0, end = monotonic() + seconds if seconds >= 0 else -1
        cdef long long most
        self.seats.append(seat)
        try:
            while True:
                if interruptible:
                    PyErr_CheckSignals()
                if seat.called:
                    return True
                most = SLICE if interruptible else -1
                if end >= 0:
                    left = end - <double> monotonic()
                    if left <= 0:
                        return False
                    most = min(<long long> (left * 1e6) + 1, most if most > 0 else SLICE)
                with nogil:
                    PyThread_acquire_lock_timed(seat.lock, most, interruptible)
        finally:
            if not seat.called:
                self.seats.remove(seat)

    cdef int call(self) except -1:
        while self.seats:
            self.call_one()
        return 0

    cdef int call_one(self) except -1:
        cdef Seat seat
        if self.seats:
            seat = self.seats.pop()
            seat.called = True
            PyThread_release_lock(seat.lock)
        return 0


cdef class Flag:
    """An event that has happened or not. After it has happened, it is never reset."""

    cdef bint happened
    cdef Waiters waiters

    def __cinit__(self):
        self.waiters = Waiters()

    def set(self):
        """Marks the event as happened, and wakes all waiting threads."""
        self.happened = True
        self.waiters.call()

    def wait(self, double seconds):
        """Waits at most ``seconds``. Returns whether the event has happened."""
        return self.happened or (self.waiters.wait(seconds, True) or self.happened)


cdef class Mutex:
    """Runs calls of several threads one after the other. In a forked child, a call of the parent process does not
    count as running."""

    cdef long forks
    cdef unsigned long holder
    cdef bint held
    cdef Waiters waiters

    def __cinit__(self):
        self.waiters = Waiters()

    cdef bint is_held(self):
        if self.held and self.forks != FORKS:
            self.held = False
            self.waiters = Waiters()
        return self.held

    cdef object inside(self, call, tuple arguments):
        self.held, self.forks, self.holder = True, FORKS, PyThread_get_thread_ident()
        try:
            return call(*arguments)
        finally:
            self.held = False
            self.waiters.call()

    def run(self, call, *arguments):
        """Runs a call and returns its result. No other call runs at the same time. Inside a call of the same thread,
        for example in the handler of a signal, ``run`` would wait for itself. In this case it raises
        ``RuntimeError``."""
        while self.is_held():
            if self.holder == PyThread_get_thread_ident():
                raise RuntimeError(
                    "this thread is already inside the same Mutex: do not use it in the handler of a signal"
                )
            self.waiters.wait(-1, True)
        return self.inside(call, arguments)

    def attempt(self, call):
        """Runs a call, unless another call is running. Returns whether the call ran."""
        if self.is_held():
            return False
        self.inside(call, ())
        return True


cdef class Tally:
    """A sum to which several threads add."""

    cdef readonly object sum

    def __cinit__(self):
        self.sum = 0

    def add(self, number):
        """Adds a number and returns the new sum."""
        self.sum = self.sum + number
        return self.sum


cdef class Held:
    """The number of bytes that each of several owners holds, and the sum of these numbers."""

    cdef readonly object sum
    cdef dict sizes

    def __cinit__(self):
        self.sum = 0
        self.sizes = {}

    def set(self, owner, size):
        """Records the number of bytes that an owner holds now, and returns the sum. An owner is a number, a text, or a
        tuple of these."""
        self.sum = self.sum + size - self.sizes.get(owner, 0)
        self.sizes[owner] = size
        return self.sum


cdef class Channel:
    """A queue of objects from one thread to another, in order. The queue holds at most ``capacity`` objects."""

    cdef object items
    cdef Py_ssize_t capacity
    cdef Waiters waiters

    def __cinit__(self, Py_ssize_t capacity):
        self.items = deque()
        self.capacity = capacity
        self.waiters = Waiters()

    def put(self, item):
        """Adds an object. If the queue is full, waits until an object was taken."""
        while len(self.items) >= self.capacity:
            self.waiters.wait(-1, True)
        self.items.append(item)
        self.waiters.call()

    def get(self):
        """Takes the first object. If the queue is empty, waits for an object."""
        while not self.items:
            self.waiters.wait(-1, True)
        item = self.items.popleft()
        self.waiters.call()
        return item
