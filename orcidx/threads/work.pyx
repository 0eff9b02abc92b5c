"""``WorkItem``: a piece of work that any thread begins and ends without the GIL (the interpreter's lock).

``scanner/work_queue`` runs it. Work that needs Python is a ``Call``.
"""

from cpython.ref cimport PyObject

__all__ = ["Call", "WorkItem"]

ctypedef int (*Quiet)(Call) noexcept nogil


cdef class WorkItem:
    """The base of all work. ``error``: the error that the work has raised, or None."""

    cdef int work(self) noexcept nogil:
        return 0

    def run(self):
        """Does the work in this thread. An error is kept in ``error``."""
        with nogil:
            do_work(<PyObject*> self)


cdef void do_work(PyObject* work) noexcept nogil:
    if (<WorkItem> work).work() < 0:
        keep_error(<WorkItem> work)


cdef int keep_error(WorkItem work) noexcept with gil:
    try:
        raised()
    except BaseException as error:
        work.error = error
    return 0


cdef int raised() except? -1:
    # Raises the error that was raised without the GIL.
    return -1


cdef class Call(WorkItem):
    """Calls a function without arguments. The thread takes the GIL for this."""

    cdef object call

    def __cinit__(self, call):
        self.call = call

    cdef int work(self) noexcept nogil:
        return (<Quiet> call_python)(self)


cdef int call_python(Call self) except -1 nogil:
    with gil:
        self.call()
    return 0
