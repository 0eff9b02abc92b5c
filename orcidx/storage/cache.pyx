"""``IdentityCache`` keeps data that was parsed from stored files and objects, as long as these do not change."""

from collections import OrderedDict

from orcidx.threads.waiting cimport forks


cdef class _Entry:
    cdef object value, number
    cdef object weight


cdef class IdentityCache:
    """A thread-safe cache of at most ``capacity`` bytes, which drops the least recently used values.

    A key is a reader's ``identity``, with a name if one object has several values. Nothing is stored for the key
    ``None``. The caller gives the size of each value in bytes. A value that is larger than the whole cache is not kept.
    With ``keeps_newest`` such a value is kept alone until the next value comes. A forked child starts with an empty
    cache. One reason is that another thread of the parent may have been changing the cache at the fork. The other
    reason is that the child must not use the parent's sockets."""

    # Comparing keys may run Python code. An interrupt or another thread may run during this time. So each look-up by
    # key is a separate step, and the data is consistent before and after it. The numbers of the entries show the order
    # of use.
    cdef dict entries                   # from key to _Entry
    cdef object order  # from the number of an entry to its key; the last used entry is at the end
    cdef object total
    cdef long forks, numbers
    cdef bint keeps_newest
    cdef readonly object capacity
    cdef readonly long hits, misses

    def __cinit__(self, capacity, *, bint keeps_newest=False):
        self.capacity = capacity
        self.keeps_newest = keeps_newest
        self.forks = -1
        self.renew()

    @classmethod
    def __class_getitem__(cls, _):
        return cls

    cdef int renew(self) except -1:
        if self.forks != forks():
            self.forks = forks()
            self.hits = self.misses = self.numbers = 0
            self.clear()
        return 0

    cpdef clear(self):
        """Removes all values."""
        self.entries, self.order, self.total = {}, OrderedDict(), 0

    @property
    def weight(self) -> int:
        """The bytes of all values, as the callers gave them."""
        self.renew()
        return self.total

    def __len__(self):
        self.renew()
        return len(self.entries)

    def get(self, key):
        """The value for a key; None if there is none."""
        cdef _Entry entry = None
        self.renew()
        if key is not None:
            entry = self.entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        if entry.number in self.order:
            self.order.move_to_end(entry.number)
        return entry.value

    def put(self, key, value, weight):
        """Stores ``value``. It replaces an older value of the same key."""
        cdef _Entry entry
        if key is None:
            return
        self.renew()
        if weight > self.capacity and not self.keeps_newest:
            self.drop(key)
            return
        entry = _Entry()
        entry.number, entry.weight = None, 0
        entry = self.entries.setdefault(key, entry)
        if entry.number is None:
            self.numbers += 1
            entry.number = self.numbers
        self.order[entry.number] = key
        self.order.move_to_end(entry.number)
        self.total = self.total + weight - entry.weight
        entry.value, entry.weight = value, weight
        while self.total > self.capacity and len(self.order) > self.keeps_newest:
            number, oldest = next(iter(self.order.items()))
            self.drop(oldest)
            self.order.pop(number, None)

    cdef int drop(self, key) except -1:
        cdef _Entry entry = self.entries.pop(key, None)
        if entry is not None:
            self.total = self.total - entry.weight
            entry.weight = 0
            self.order.pop(entry.number, None)
        return 0
