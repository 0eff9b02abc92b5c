"""``StageTimer``: measures the time of a stage. It is compiled, because a scan of small files uses it for each file."""

from time import perf_counter

__all__ = ["StageTimer"]


cdef class StageTimer:
    """A context manager that adds the time of its body to one entry of ``seconds``."""

    cdef dict seconds
    cdef str name
    cdef double began

    def __init__(self, dict seconds not None, str name not None):
        self.seconds, self.name = seconds, name

    def __enter__(self):
        self.began = perf_counter()

    def __exit__(self, *unused):
        cdef double before = self.seconds.get(self.name, 0.0)
        self.seconds[self.name] = before + <double> perf_counter() - self.began
