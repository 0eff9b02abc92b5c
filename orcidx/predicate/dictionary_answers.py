"""``DictionaryAnswers`` caches the results of leaves for the entries of dictionaries, so each entry is tested once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.predicate.masks import compared
from orcidx.predicate.nodes import BoundLeaf

__all__ = ["DictionaryAnswers"]

BoolArray = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer[Any]]

MOST_BYTES = 64 << 20
"""The maximum number of bytes in the cache. A result has one byte for each leaf and entry. The dictionaries count too,
because the cache keeps them alive. The oldest results are dropped first."""

FEW_CODE_RUNS = 4
"""With at most this many runs of matching codes, the codes are compared with the ends of the runs. This comparison
takes 0.14 ns a row for each end of a run. Looking up each code would take 5 ns a row."""


class DictionaryAnswers:
    """Results of the leaves of one predicate for dictionaries that occur in several batches. Several threads must not
    use the same object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[BoundLeaf, pa.Array, DictionaryAnswer]] = {}
        self._bytes = 0
        self.asked = 0
        """The number of entries that leaves tested."""

    def of(self, leaf: BoundLeaf, dictionary: pa.Array, ask: Callable[[], BoolArray]) -> DictionaryAnswer:
        """The result of the leaf for each entry. ``ask`` computes the result if it is not cached."""
        # pyarrow makes a new dictionary object at each access. So the key contains the leaf and the addresses of the
        # dictionary's buffers. The cache keeps these buffers alive, so no other buffer can get the same address.
        places = tuple(0 if buffer is None else buffer.address for buffer in dictionary.buffers())
        key = id(leaf), dictionary.type, dictionary.offset, len(dictionary), places
        kept = self._kept.get(key)
        if kept is not None:
            return kept[2]
        self.asked += len(dictionary)
        answer = DictionaryAnswer(ask())
        self._kept[key] = leaf, dictionary, answer
        self._bytes += _weight_of(dictionary)
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            _, oldest, _ = self._kept.pop(next(iter(self._kept)))
            self._bytes -= _weight_of(oldest)
        return answer


def _weight_of(dictionary: pa.Array) -> int:
    """Bytes of the dictionary's buffers and of one result."""
    return int(dictionary.get_total_buffer_size()) + len(dictionary)


class DictionaryAnswer:
    """The results of a leaf for a dictionary: for each entry, whether the leaf is TRUE."""

    def __init__(self, matches: BoolArray) -> None:
        self._matches = matches
        edges = np.flatnonzero(np.diff(matches.view(np.int8), prepend=0, append=0))
        self._runs = edges.reshape(-1, 2).tolist() if len(edges) <= 2 * FEW_CODE_RUNS else None

    def at(self, codes: Codes, valid: BoolArray | None) -> BoolArray:
        """Returns for each code whether the leaf is TRUE. The result is undefined where the codes are not ``valid``."""
        if self._runs is None:
            found: BoolArray = self._matches[codes if valid is None else np.where(valid, codes, 0)]
            return found
        result: BoolArray | None = None
        for start, stop in self._runs:
            inside = _within(codes, start, stop, len(self._matches))
            result = inside if result is None else np.logical_or(result, inside, out=result)
        return np.zeros(len(codes), np.bool_) if result is None else result


def _within(codes: Codes, start: int, stop: int, entries: int) -> BoolArray:
    # If ``stop`` is the number of entries, it may be too large for the type of the codes. In this case the codes are
    # not compared with ``stop``.
    kind = codes.dtype.type
    if stop == start + 1:
        return compared(np.equal, codes, kind(start))
    after = None if start == 0 else compared(np.greater_equal, codes, kind(start))
    before = None if stop == entries else compared(np.less, codes, kind(stop))
    if after is None:
        return np.ones(len(codes), np.bool_) if before is None else before
    both: BoolArray = after if before is None else np.logical_and(after, before, out=after)
    return both
