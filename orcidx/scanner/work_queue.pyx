"""``WorkQueue``: work that the caller shares with the threads of a pool. No thread needs the GIL between two pieces.

A thread that needs the GIL has to wait as long as the caller's Python code runs. For small files, this code runs for
some 0.3 ms at a time, about as long as a thread decodes a group of files. With ``Chains``, a thread needs the GIL at
the beginning and at the end of each task, so it waits a quarter of the time.

A lock protects the queue. A thread holds it only for a few instructions, and never waits for the GIL meanwhile. As in
``Chains``, a fork waits until no thread of the pool is inside ``help``.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_allocate_lock, PyThread_free_lock, PyThread_type_lock,
)
from cpython.ref cimport PyObject
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from orcidx.scanner.chains cimport enter, fork_waits, leave, send_helpers
from orcidx.threads.waiting cimport forks
from orcidx.threads.work cimport WorkItem, do_work

__all__ = ["WorkQueue"]

cdef extern from "Python.h":
    int PyThread_acquire_lock(PyThread_type_lock lock, int mode) noexcept nogil
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible) noexcept nogil
    void PyThread_release_lock(PyThread_type_lock lock) noexcept nogil
    int PY_LOCK_ACQUIRED

# The number of microseconds between two checks for signals, as in ``threads/waiting``.
cdef long long SIGNAL_SLICE = 100_000
# The number of microseconds that a thread waits for more work before it goes back to the pool, for which it needs the
# GIL. Waking a thread of the pool takes longer than waking a thread that waits here.
cdef long long LINGER = 1_000


cdef class WorkQueue:
    """``threads``: the number of threads, including the caller. Work begins in the order in which it was added."""

    cdef PyThread_type_lock lock    # protects the next fields
    cdef PyObject** queued          # the work that has not begun, in order
    cdef Py_ssize_t room, length
    cdef int running
    cdef bint awaited               # whether the caller waits for `ended`
    cdef int idle                   # the threads that wait for `more`
    cdef bint called                # whether `more` was released for one of them
    cdef PyThread_type_lock ended   # released when some work has ended
    cdef PyThread_type_lock more    # released when there is more work
    # The GIL protects the next fields.
    cdef set known                  # all work that was not finished
    cdef int threads, helpers
    cdef long forks

    def __cinit__(self, int threads):
        self.threads, self.known, self.forks = threads, set(), forks()
        self.lock, self.ended, self.more = new_lock(), new_lock(), new_lock()
        PyThread_acquire_lock(self.ended, NOWAIT_LOCK)
        PyThread_acquire_lock(self.more, NOWAIT_LOCK)

    def __dealloc__(self):
        free(self.queued)
        free_lock(self.lock, False)
        free_lock(self.ended, True)
        free_lock(self.more, True)

    def add(self, list works not None):
        """Adds work. Threads of the pool begin it."""
        cdef WorkItem work
        for work in works:
            if work in self.known or work.is_done:
                raise ValueError("the work was added before")
            self.push(work)
            self.known.add(work)
        self.call(len(works))

    cdef int push(self, WorkItem work) except -1:
        cdef void* larger
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        if self.length == self.room:
            larger = realloc(self.queued, 2 * (self.room + 8) * sizeof(PyObject*))
            if larger == NULL:
                PyThread_release_lock(self.lock)
                raise MemoryError
            self.queued, self.room = <PyObject**> larger, 2 * (self.room + 8)
        self.queued[self.length] = <PyObject*> work
        self.length += 1
        self.call_idle()
        PyThread_release_lock(self.lock)
        return 0

    cdef void call_idle(self) noexcept nogil:
        # Wakes a thread that waits for work. The caller holds the lock.
        if self.length and self.idle and not self.called:
            self.called = True
            PyThread_release_lock(self.more)

    cdef int call(self, Py_ssize_t most) except -1:
        # Sends threads of the pool here.
        if self.forks != forks():       # the threads of the pool do not exist in this process
            self.forks, self.helpers, self.idle, self.called = forks(), 0, 0, False
        return send_helpers(self.help, self.threads, most + self.helpers, &self.helpers)

    cdef PyObject* run_next(self) noexcept nogil:
        # Does the work that was added first. Returns it, or NULL if there is none.
        cdef PyObject* work = NULL
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        if self.length:
            work = self.queued[0]
            self.length -= 1
            memmove(self.queued, self.queued + 1, self.length * sizeof(PyObject*))
            self.running += 1
        PyThread_release_lock(self.lock)
        if work == NULL:
            return NULL
        do_work(work)
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        (<WorkItem> work).is_done = True
        self.running -= 1
        if self.awaited:
            self.awaited = False
            PyThread_release_lock(self.ended)
        PyThread_release_lock(self.lock)
        return work

    cdef bint has_ended(self, WorkItem work):
        # Whether the work has ended; for None, whether no work is running. If not, the next work that ends wakes the
        # caller.
        cdef bint ended
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        ended = self.running == 0 if work is None else work.is_done
        self.awaited = not ended
        PyThread_release_lock(self.lock)
        return ended

    cdef int wait(self) except -1:
        # Waits until some work has ended, after `has_ended` has returned False.
        cdef bint woken = False
        try:
            while not woken:
                PyErr_CheckSignals()
                with nogil:
                    woken = PyThread_acquire_lock_timed(self.ended, SIGNAL_SLICE, 1) == PY_LOCK_ACQUIRED
        finally:
            if not woken:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
                if not self.awaited:
                    PyThread_acquire_lock(self.ended, NOWAIT_LOCK)  # it was released meanwhile
                self.awaited = False
                PyThread_release_lock(self.lock)
        return 0

    def finish(self, list works not None):
        """Returns when the work has ended. Until then, this thread does any work that has not begun."""
        cdef WorkItem work, mine
        cdef PyObject* done
        for work in works:
            while not self.is_done(work):
                with nogil:
                    done = self.run_next()
                if done != NULL:
                    mine = <WorkItem> done
                    if mine.error is not None and not isinstance(mine.error, Exception):
                        raise mine.error    # an interrupt of this thread
                elif not self.has_ended(work):
                    self.wait()
            self.known.discard(work)

    cdef bint is_done(self, WorkItem work):
        cdef bint done
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        done = work.is_done
        PyThread_release_lock(self.lock)
        if not done and work not in self.known:
            raise ValueError("the work was dropped, or was never added")
        return done

    def close(self):
        """Drops all work that has not begun, and returns when no work is running."""
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.length = 0
        PyThread_release_lock(self.lock)
        while not self.has_ended(None):
            self.wait()
        self.known.clear()

    cdef bint linger(self) noexcept nogil:
        # Waits a moment for more work. Returns whether there is some.
        cdef bint found
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        found = self.length > 0
        if not found:
            self.idle += 1
            PyThread_release_lock(self.lock)
            PyThread_acquire_lock_timed(self.more, LINGER, 0)
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
            self.idle -= 1
            found = self.length > 0
            if self.called:
                PyThread_acquire_lock(self.more, NOWAIT_LOCK)   # if it was released after this thread's time was over
                self.called = False
        self.call_idle()
        PyThread_release_lock(self.lock)
        return found

    def help(self):
        """The loop that a thread of the pool runs."""
        cdef bint ends = False
        while not ends:
            enter()
            try:
                with nogil:
                    while not fork_waits() and (self.run_next() != NULL or self.linger()):
                        pass
                if not self.length:     # work is added only with the GIL
                    self.helpers -= 1
                    ends = True
            finally:
                leave()


cdef PyThread_type_lock new_lock() except NULL:
    cdef PyThread_type_lock lock = PyThread_allocate_lock()
    if lock == NULL:
        raise MemoryError
    return lock


cdef void free_lock(PyThread_type_lock lock, bint is_held) noexcept:
    if lock != NULL:
        if is_held:
            PyThread_release_lock(lock)
        PyThread_free_lock(lock)
