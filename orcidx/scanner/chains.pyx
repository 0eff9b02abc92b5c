"""``Chains``: tasks that the caller shares with the threads of a pool.

A fork of the process waits until no thread of the pool is inside a task. The threads do not exist in the child process.
But in the child no reader is in the middle of a read, so the child can continue to read without the threads.

An interrupt reaches the caller only inside a task or while the caller waits. The code between tasks is compiled, and
other threads cannot run while it holds the GIL (``threads/waiting``). So the end of every started task is always
recorded.
"""

import os
from time import perf_counter

from orcidx.threads.tasks import Pool

from orcidx.threads.waiting cimport Waiters, forks

CHUNKS = 64
"""A thread decompresses at most this many chunks before it checks whether a fork waits. This takes a few
milliseconds."""

AWAY_SECONDS = 3e-4
"""Other threads take the caller's tasks only if the caller spends at least this many seconds between two rounds. A
thread of the pool starts about 5e-5 s after it was notified."""

POOL = Pool(1)
"""The only pool on which columns are decoded. ``Chains`` objects set the number of its threads."""

cdef long INSIDE = 0  # threads of the pool that are inside a task
cdef long CLOSING = 0  # forks that are running, or that wait until no thread is inside a task
cdef Waiters ENTERING = Waiters()
cdef Waiters LEAVING = Waiters()


cdef int enter() except -1:
    global INSIDE
    while CLOSING:
        ENTERING.wait(-1, False)
    INSIDE += 1
    return 0


cdef int leave() except -1:
    global INSIDE
    INSIDE -= 1
    if CLOSING and not INSIDE:
        LEAVING.call()
    return 0


cdef bint fork_waits() noexcept nogil:
    return CLOSING != 0


def _before_fork():
    global CLOSING
    CLOSING += 1
    while INSIDE:
        LEAVING.wait(-1, False)


def _after_fork():
    global CLOSING
    CLOSING -= 1
    if not CLOSING:
        ENTERING.call()


def _in_child():
    global INSIDE, CLOSING, ENTERING, LEAVING
    INSIDE = CLOSING = 0
    ENTERING, LEAVING = Waiters(), Waiters()


if hasattr(os, "register_at_fork"):     # not on Windows, because it has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


cdef int send_helpers(help, int threads, Py_ssize_t most, int* helpers) except -1:
    cdef int wanted = <int> min(threads - 1, most) - helpers[0]
    if wanted > 0:
        POOL.size = threads
    for _ in range(wanted):
        helpers[0] += 1
        if not POOL.offer(help):
            helpers[0] -= 1
            return 0
    return 0


cdef class Round:
    """Tasks of different chains whose results are needed together. ``results``: the results of the finished tasks, in
    the order of the tasks. ``errors``: errors by the position of their task."""

    cdef readonly list results
    cdef readonly dict errors
    cdef list chains, tasks
    cdef list begin  # positions of the tasks that have not started, in the order in which they should start
    cdef Py_ssize_t left

    def __cinit__(self, list chains, list tasks, list begin):
        self.chains, self.tasks, self.begin = chains, tasks, begin
        self.left = len(tasks)
        self.results = [None] * len(tasks)
        self.errors = {}


cdef class Chains:
    """Chains of tasks. The tasks of one chain run one after the other. Tasks of different chains run in parallel.

    ``weights``: the weight of each chain. Tasks of heavy chains start first, because the caller waits for the task that
    ends last. Threads of the pool take tasks that can start, first the tasks of older rounds. In ``finish`` the caller
    also runs tasks until its round is done. No task waits for another task. After an error a chain runs no further
    tasks.

    ``chunks``: the next chunks in the streams of the chains. Threads of the pool decompress chunks before they start a
    task. If there are chunks, or only one chain, the caller itself runs the tasks of its round. Other threads then
    start tasks of later rounds only if the caller spends at least ``AWAY_SECONDS`` between two rounds, because handing
    over a short task takes longer than running it.
    """

    cdef public object chunks
    cdef list weights, rounds
    cdef bytearray busy, broken
    cdef Waiters waiters
    cdef int threads, helpers, running
    cdef bint asked, inside
    cdef double left, away
    cdef long forks

    def __cinit__(self, weights, int threads):
        self.chunks = ()
        self.weights = list(weights)
        self.threads = threads
        self.busy, self.broken = bytearray(len(self.weights)), bytearray(len(self.weights))
        self.rounds = []
        self.waiters = Waiters()
        self.forks = forks()

    def add(self, chains, tasks, *, bint urgent=False):
        """Appends a task to each of some chains, and returns the ``Round`` of these tasks. Tasks that are ``urgent``
        run before the tasks of other rounds. The chains of an urgent round must not be in those other rounds."""
        cdef list named = list(chains)
        begin = sorted(range(len(named)), key=lambda place: -self.weights[named[place]])
        added = Round(named, list(tasks), begin)
        self.rounds.insert(0 if urgent else len(self.rounds), added)
        return added

    cdef bint caller_first(self):
        return len(self.chunks) > 0 or len(self.weights) == 1

    cdef bint may_help(self):
        return self.inside or self.away >= <double> AWAY_SECONDS or not self.caller_first()

    def start_early(self):
        """Wakes threads of the pool for tasks that can start, before the caller requests their round. Does nothing if
        the caller itself runs the tasks of its round."""
        if not self.caller_first():
            self.start()

    cpdef start(self):
        """Wakes one thread of the pool for each task that can start."""
        cdef set chains = set()
        cdef Round one
        if not self.may_help():
            return
        for one in self.rounds:
            for place in one.begin:
                if not self.busy[<Py_ssize_t> one.chains[place]]:
                    chains.add(one.chains[place])
        self.call(len(chains))

    def caller_is_back(self):
        """Records the time since ``caller_leaves``. Returns whether this time was long enough for other threads to
        start the caller's tasks."""
        self.away = <double> perf_counter() - self.left
        return self.away >= <double> AWAY_SECONDS

    def caller_leaves(self):
        """Records the time at which the caller leaves with its results."""
        self.left = perf_counter()

    def ask(self, _):
        """Makes threads of the pool decompress chunks whenever they have no task."""
        self.asked = True
        self.waiters.call()
        self.call(self.threads)

    cdef int call(self, Py_ssize_t most) except -1:
        if self.forks != forks():       # the threads of the pool do not exist in this process
            self.forks, self.helpers = forks(), 0
        return send_helpers(self.help, self.threads, most, &self.helpers)

    def finish(self, Round wanted not None):
        """Runs tasks that have not started, until all tasks of a round have ended. Errors are stored in the round."""
        cdef Round one
        cdef Py_ssize_t place
        self.caller_is_back()
        self.start_early()
        self.inside = True
        try:
            while wanted.left:
                place = -1
                for one in self.rounds:
                    place = self.pick(one)
                    if place >= 0:
                        break
                if place >= 0:
                    if self.caller_first():
                        self.start()    # other threads run the other chains of the round
                    self.run(one, place, True)
                elif self.asked:
                    self.asked = False
                    while wanted.left and self.decompress(1):
                        pass
                else:
                    self.waiters.wait(-1, True)
            self.rounds.remove(wanted)
        finally:
            self.inside = False
        self.caller_leaves()
        self.start()  # some tasks can start only now, after this thread's last task

    def close(self):
        """Drops all tasks that have not started, and returns when no task is running. Chains that failed can be used
        again."""
        cdef Round one
        for one in self.rounds:
            one.begin.clear()
        while self.running:
            self.waiters.wait(-1, True)
        self.broken = bytearray(len(self.broken))
        self.rounds = []

    cdef Py_ssize_t pick(self, Round one) except -2:
        # Finds a task in the round whose chain allows it to start, and marks this task as started. Returns the position
        # of the task, or -1 if no task can start.
        cdef Py_ssize_t at, place, chain
        for at in range(len(one.begin)):
            place = one.begin[at]
            chain = one.chains[place]
            if not self.busy[chain]:
                del one.begin[at]
                self.busy[chain] = True
                self.running += 1
                return place
        return -1

    cdef bint decompress(self, int most) except -1:
        for one in self.chunks:
            if one.help(most):
                return True
        return False

    cdef int run(self, Round one, Py_ssize_t place, bint mine) except -1:
        cdef Py_ssize_t chain = one.chains[place]
        cdef object error = None
        cdef bint ended = False
        try:
            if not self.broken[chain]:
                one.results[place] = one.tasks[place]()
                ended = True
        except BaseException as failure:
            error = failure
        if not ended:
            one.errors[place] = error
            self.broken[chain] = True
        one.left -= 1
        self.busy[chain] = False
        self.running -= 1
        self.waiters.call()
        if mine and error is not None and not isinstance(error, Exception):
            raise error
        return 0

    def help(self):
        """The loop that a thread of the pool runs."""
        cdef Round one
        cdef Py_ssize_t place
        while True:
            enter()
            try:
                if self.decompress(CHUNKS):
                    continue
                place = -1
                if self.may_help():
                    for one in self.rounds:
                        place = self.pick(one)
                        if place >= 0:
                            break
                if place < 0 and not self.asked:
                    self.helpers -= 1
                    return
                self.asked = False
                if place >= 0:
                    self.run(one, place, False)
                one = None
            finally:
                leave()
