"""Evaluates leaves by compiled loops (``predicate/compares``) for strings, 128-bit decimals and ranges of numbers.

``evaluation`` defines the meaning of each leaf. These functions compute the same results in one pass, and return None
for leaves that they do not support. Tests set ``ENABLED`` to False; NumPy and pyarrow then evaluate everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.predicate import compares
from orcidx.predicate.like import like_parts
from orcidx.predicate.masks import new_mask
from orcidx.predicate.nodes import EQUALITIES, BoundLeaf, Op

__all__ = ["match_doubles", "match_range", "match_text", "match_texts", "match_wide"]

BoolArray = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.signedinteger[Any]]
ByteArray = npt.NDArray[np.uint8]

ENABLED = True

FEW_STRING_LITERALS = 4
"""The largest number of literals with which strings are compared one by one. Comparing with one literal takes 0.7 to
1.1 ns a row. A lookup among any number of literals takes 16 ns a row (decision 0148)."""

_NOTHING = np.zeros(0, np.uint8)


def match_wide(data: pa.Buffer, start: int, rows: int, low: int | None, high: int | None) -> BoolArray | None:
    """Tests ``rows`` 128-bit integers of a buffer, starting with the integer at index ``start``. Returns for each
    integer whether it is in a closed range. If ``low`` or ``high`` is None, the range has no such end."""
    if not ENABLED:
        return None
    end = 1 << 127
    least = -end if low is None else max(low, -end)
    most = end - 1 if high is None else min(high, end - 1)
    if least > most:
        return np.zeros(rows, np.bool_)
    words = np.frombuffer(data, np.uint64, 2 * rows, start * 16)
    if not words.flags.aligned:
        return None
    found = new_mask(rows)
    compares.within_wide(words, least, most - least, found.view(np.uint8))
    return found


def match_range(values: npt.NDArray[Any], low: int, high: int) -> BoolArray | None:
    """Returns for each integer whether it is in a closed range. Both ends must fit the type of the integers."""
    if not ENABLED or values.dtype not in _RANGED or not (values.flags.aligned and values.flags.c_contiguous):
        return None
    if low > high:
        return np.zeros(len(values), np.bool_)
    found = new_mask(len(values))
    compares.within(values, low, high, found.view(np.uint8))
    return found


_FAST = compares.is_within_fast()
_RANGED = [np.dtype(np.int32), np.dtype(np.int64)][: 2 if _FAST else 1]
"""The types of integers that a compiled loop tests faster than NumPy. For 64-bit integers, a loop without AVX2 takes
0.57 ns a value (0.8 ns for doubles). NumPy's two comparisons together take 0.38 ns (0.5 ns for doubles). A loop with
AVX2 takes 0.25 ns."""


def match_doubles(values: npt.NDArray[np.float64], low: float, high: float) -> BoolArray | None:
    """Returns for each double whether it is in a closed range. NaN is in no range. A range is empty if one of its ends
    is NaN."""
    if not (ENABLED and _FAST and values.flags.aligned and values.flags.c_contiguous):
        return None
    found = new_mask(len(values))
    compares.within_doubles(values, low, high, found.view(np.uint8))
    return found


def match_texts(low: BoundLeaf, high: BoundLeaf, values: pa.Array) -> BoolArray | None:
    """Returns for each value of a binary array whether it satisfies both ends of a range. The result at null rows is
    undefined."""

    def ask(offsets: Ints, content: ByteArray, out: ByteArray) -> bool:
        above, below = low.op is Op.GT, high.op is Op.LT
        compares.between(offsets, content, low.literals[0], high.literals[0], out, above=above, below=below)
        return True

    return _match(values, ask)


def match_text(leaf: BoundLeaf, values: pa.Array) -> BoolArray | None:
    """Returns for each value of a binary array whether the leaf without its negation is TRUE. The result at null rows
    is undefined."""
    return _match(values, partial(_ask, leaf))


def _match(values: pa.Array, ask: Callable[[Ints, ByteArray, ByteArray], bool]) -> BoolArray | None:
    if not ENABLED or not len(values):
        return None
    wide = values.type == pa.large_binary()
    if not wide and values.type != pa.binary():
        return None
    _, places, data = values.buffers()
    kind: type[np.signedinteger[Any]] = np.int64 if wide else np.int32
    offsets: Ints = np.frombuffer(places, kind, len(values) + 1, values.offset * (8 if wide else 4))
    if not offsets.flags.aligned:
        return None
    content = _NOTHING if data is None else np.frombuffer(data, np.uint8)
    found = new_mask(len(values))
    found[:] = False
    return found if ask(offsets, content, found.view(np.uint8)) else None


def _ask(leaf: BoundLeaf, offsets: Ints, content: ByteArray, out: ByteArray) -> bool:
    """Writes the results to ``out``, which must contain only zeros before the call. Returns whether the leaf is
    supported."""
    op, literals = leaf.op, leaf.literals
    if op in EQUALITIES:
        if len(literals) > FEW_STRING_LITERALS:
            return False
        for literal in literals:
            compares.equals(offsets, content, literal, out)
    elif op in _RANGES:
        low, high, above, below = _RANGES[op]
        ends = (literals[0] if low else None), (literals[-1] if high else None)
        compares.between(offsets, content, *ends, out, above=above, below=below)
    elif op is Op.STARTS_WITH:
        compares.at_ends(offsets, content, literals[0], b"", out)
    elif op is Op.ENDS_WITH:
        compares.at_ends(offsets, content, b"", literals[0], out)
    elif op is Op.CONTAINS and literals[0]:
        compares.contains(offsets, content, literals[0], out)
    elif op is Op.LIKE and (parts := like_parts(literals[0])) is not None:
        front, *middle, back = parts
        _match_parts(front, tuple(filter(None, middle)), back, offsets, content, out)
    else:
        return False
    return True


def _match_parts(
    front: bytes, middle: tuple[bytes, ...], back: bytes, offsets: Ints, content: ByteArray, out: ByteArray
) -> None:
    if front or back or not middle:
        compares.at_ends(offsets, content, front, back, out)
    else:  # searching for the longest part first rules out most strings
        compares.contains(offsets, content, max(middle, key=len), out)
    places = offsets[:-1] + np.int64(len(front))
    for part in middle:
        compares.follows(places, offsets, content, part, len(back), out)


_RANGES = {
    Op.LT: (False, True, False, True),
    Op.LE: (False, True, False, False),
    Op.GT: (True, False, True, False),
    Op.GE: (True, False, False, False),
    Op.BETWEEN: (True, True, False, False),
}
"""For each operator: whether the range has a low end and a high end, and which of these ends are excluded."""
