"""Waiting, excluding and counting, for threads of which any may be interrupted at any moment.

The handler of a signal runs between two instructions of Python in the main thread. What it raises, as Ctrl-C does,
leaves ``threading.Condition``, ``Event``, ``Semaphore``, ``queue.Queue`` and ``Future`` locked where it comes between
their taking a lock and the block that gives it back (they are written in Python), and from Python 3.14 on a plain
``with lock`` too, whose ``__enter__`` is an ordinary call. Every other thread then waits for ever.

No method here has such a moment. The interpreter's lock (GIL) makes each change of state one step: the code is
compiled, no Python runs in it, and it gives the GIL up where it waits alone. A thread waits on a lock of its own, its
``Seat``, that nobody else needs; handlers run there, by ``PyErr_CheckSignals``, while nothing is held. A module that
does not say that it can do without the GIL has it switched on, also in a free-threaded interpreter.
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


cdef long long SLICE = 100_000       # us; a signal that another thread was given does not end the main one's waiting
cdef long FORKS = 0


cdef long forks() noexcept:
    # How many forks lie between the first process and this one: what threads of another process held is nobody's here.
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
    """Threads that wait until another one calls them."""

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
    """Something that has happened or has not, and never unhappens."""

    cdef bint happened
    cdef Waiters waiters

    def __cinit__(self):
        self.waiters = Waiters()

    def set(self):
        """Lets everybody go on who waits."""
        self.happened = True
        self.waiters.call()

    def wait(self, double seconds):
        """Waits so many seconds at most; whether it has happened."""
        return self.happened or (self.waiters.wait(seconds, True) or self.happened)


cdef class Mutex:
    """Runs calls of several threads one after the other. In a forked child nobody is inside."""

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
        """The result of a call, that nobody else's overlaps. Raises ``RuntimeError`` inside a call of this thread, as
        in the handler of a signal: it would wait for itself."""
        while self.is_held():
            if self.holder == PyThread_get_thread_ident():
                raise RuntimeError("used again by a thread that is inside, as by the handler of a signal")
            self.waiters.wait(-1, True)
        return self.inside(call, arguments)

    def attempt(self, call):
        """Runs a call unless another one runs; whether it ran."""
        if self.is_held():
            return False
        self.inside(call, ())
        return True


cdef class Tally:
    """A sum that several threads add to."""

    cdef readonly object sum

    def __cinit__(self):
        self.sum = 0

    def add(self, number):
        """Adds a number; the sum then."""
        self.sum = self.sum + number
        return self.sum


cdef class Held:
    """Sizes of what several owners keep, and their sum."""

    cdef readonly object sum
    cdef dict sizes

    def __cinit__(self):
        self.sum = 0
        self.sizes = {}

    def set(self, owner, size):
        """Notes the size of what an owner keeps now; the sum then. Owners are numbers or texts, or tuples of them."""
        self.sum = self.sum + size - self.sizes.get(owner, 0)
        self.sizes[owner] = size
        return self.sum


cdef class Channel:
    """Objects on their way from one thread to another, in order, ``capacity`` of them at most."""

    cdef object items
    cdef Py_ssize_t capacity
    cdef Waiters waiters

    def __cinit__(self, Py_ssize_t capacity):
        self.items = deque()
        self.capacity = capacity
        self.waiters = Waiters()

    def put(self, item):
        """Waits for room."""
        while len(self.items) >= self.capacity:
            self.waiters.wait(-1, True)
        self.items.append(item)
        self.waiters.call()

    def get(self):
        """Waits for an object."""
        while not self.items:
            self.waiters.wait(-1, True)
        item = self.items.popleft()
        self.waiters.call()
        return item
