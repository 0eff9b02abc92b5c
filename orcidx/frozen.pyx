"""``with_fields``: copies of frozen dataclasses, for code that runs for each file."""

__all__ = ["with_fields"]


def with_fields(value, /, **fields):
    """A copy of a dataclass with other values of some fields, as ``dataclasses.replace`` returns it.

    The generated ``__init__`` of a frozen dataclass sets each field by a call. For ten fields this takes 3 us, as long
    as decoding a column of a small file. This function copies all fields at once. It checks nothing, and does not call
    ``__post_init__``.
    """
    cdef type kind = type(value)
    found = kind.__new__(kind)
    cdef dict own = found.__dict__
    own.update(value.__dict__)
    own.update(fields)
    return found
