"""``RowSelection``: an immutable set of rows of a span, the currency of pruning.

Rows are numbered from 0 in the span. The set is kept in the form it came in: runs ``[start, stop)`` (an int64 array of
shape (k, 2), sorted, disjoint, non-empty and never adjacent) or a roaring bitmap; the other form is made when it is
asked for and kept. Algebra stays in bitmaps while both sides are scattered, and works on runs, vectorised, otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from orcidx.errors import InvalidQuery

__all__ = ["RowSelection"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# A bitmap is turned into runs window by window, so that a nearly full bitmap never becomes a list of all its rows.
_WINDOW = 1 << 20
# Bitmap algebra pays when both sides are bitmaps, or the side in runs has few enough of them to add one by one.
_FEW_RUNS = 256
_BITMAP_ROWS = 1 << 32


def _frozen(runs: Int64Array) -> Int64Array:
    runs.flags.writeable = False
    return runs


_NO_RUNS = _frozen(np.empty((0, 2), np.int64))


class RowSelection:
    """An immutable set of rows of a span of ``length`` rows.

    Build one with ``all``, ``none``, ``from_runs``, ``from_positions``, ``from_bitmap``, ``from_mask`` or
    ``from_groups``. ``&``, ``|``, ``-`` and ``~`` combine selections of one length; ``==`` compares the sets.
    """

    __slots__ = ("_bitmap", "_count", "_runs", "length")

    length: int
    _runs: Int64Array | None
    _bitmap: Any
    _count: int | None

    def __init__(self, length: int, runs: Int64Array | None, bitmap: Any = None) -> None:
        # Takes canonical runs or a bitmap within the span; callers outside this module use the constructors below.
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "_runs", None if runs is None else _frozen(runs))
        object.__setattr__(self, "_bitmap", bitmap)
        object.__setattr__(self, "_count", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a RowSelection does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return RowSelection, (self.length, None if self._runs is None else self._runs.copy(), self._bitmap)

    # ------------------------------------------------------------------ constructors

    @classmethod
    def all(cls, length: int) -> RowSelection:
        """Every row of a span of ``length`` rows."""
        _check_length(length)
        selection = cls(length, np.array([[0, length]], np.int64) if length else _NO_RUNS)
        object.__setattr__(selection, "_count", length)
        return selection

    @classmethod
    def none(cls, length: int) -> RowSelection:
        """No row of a span of ``length`` rows."""
        _check_length(length)
        return cls(length, _NO_RUNS)

    @classmethod
    def from_runs(cls, runs: Int64Array | Iterable[Sequence[int]], length: int) -> RowSelection:
        """Runs ``(start, stop)`` in any order; empty, overlapping and adjacent ones are allowed.

        Raises ``InvalidQuery`` for a run outside ``[0, length]`` or with ``stop < start``.
        """
        _check_length(length)
        array = np.array(runs if isinstance(runs, np.ndarray) else list(runs), np.int64).reshape(-1, 2)
        if array.size and (array.min() < 0 or array.max() > length or np.any(array[:, 1] < array[:, 0])):
            raise InvalidQuery(f"a run of rows lies outside the span of {length} rows or ends before it starts")
        return cls(length, _normalised(array))

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike, length: int) -> RowSelection:
        """Row numbers in any order, repeats allowed. Raises ``InvalidQuery`` for one outside the span."""
        _check_length(length)
        given = np.asarray(positions) if np.size(positions) else np.empty(0, np.int64)
        if given.dtype.kind not in "iu":
            raise InvalidQuery(f"row numbers are whole numbers below 2^63, and these are of type {given.dtype}")
        array: Int64Array = np.unique(given.astype(np.int64, casting="same_kind", copy=False))
        if array.size and (array[0] < 0 or array[-1] >= length):
            raise InvalidQuery(f"row {array[0] if array[0] < 0 else array[-1]} lies outside the span of {length} rows")
        return cls(length, _runs_of_sorted(array))

    @classmethod
    def from_bitmap(cls, bitmap: BitMap | BitMap64, length: int) -> RowSelection:
        """The rows of a roaring bitmap, which is copied. Raises ``InvalidQuery`` for a row outside the span."""
        _check_length(length)
        if len(bitmap) and bitmap.max() >= length:
            raise InvalidQuery(f"row {bitmap.max()} lies outside the span of {length} rows")
        return cls(length, None, bitmap.copy())

    @classmethod
    def from_mask(cls, mask: BoolArray) -> RowSelection:
        """The rows where a boolean array is true; the span is the array's length."""
        return cls(len(mask), _runs_of_mask(np.asarray(mask, bool)))

    @classmethod
    def from_groups(cls, mask: BoolArray, bounds: Int64Array) -> RowSelection:
        """The rows of the groups where ``mask`` is true.

        ``bounds`` holds ``len(mask) + 1`` ascending row numbers; group ``g`` is ``[bounds[g], bounds[g + 1])`` and the
        span ends at ``bounds[-1]``. Rows before ``bounds[0]`` are not selected.
        """
        mask = np.asarray(mask, bool)
        bounds = np.asarray(bounds, np.int64)
        if len(bounds) != len(mask) + 1:
            raise InvalidQuery(f"{len(mask)} groups need {len(mask) + 1} bounds, not {len(bounds)}")
        if bounds[0] == 0 and mask.all():
            return cls.all(int(bounds[-1]))
        runs = bounds[_runs_of_mask(mask)]
        if (runs[:, 0] == runs[:, 1]).any() or (runs[1:, 0] == runs[:-1, 1]).any():  # groups without rows
            runs = _joined(runs[runs[:, 0] < runs[:, 1]])
        return cls(int(bounds[-1]), runs)

    @classmethod
    def concat(cls, parts: Sequence[RowSelection]) -> RowSelection:
        """Spans one after the other."""
        starts = np.cumsum([0, *(part.length for part in parts)])
        pieces = [part.runs() + start for part, start in zip(parts, starts)]
        return cls(int(starts[-1]), _joined(np.concatenate(pieces)) if pieces else _NO_RUNS)

    # ------------------------------------------------------------------ facts

    @property
    def count(self) -> int:
        """Number of selected rows."""
        if self._count is None:
            if self._runs is None:
                count = len(self._bitmap)
            else:
                count = int((self._runs[:, 1] - self._runs[:, 0]).sum())
            object.__setattr__(self, "_count", count)
        count_known = self._count
        assert count_known is not None
        return count_known

    @property
    def is_all(self) -> bool:
        """Whether every row of the span is selected (true of an empty span)."""
        return self.count == self.length

    @property
    def is_empty(self) -> bool:
        """Whether no row is selected."""
        return self.count == 0

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        raise TypeError("ask .is_empty, .is_all or .count: the truth of a RowSelection is ambiguous")

    def __repr__(self) -> str:
        runs = self.runs()
        shown = ", ".join(f"[{start}, {stop})" for start, stop in runs[:4].tolist())
        return f"RowSelection({self.count} of {self.length} rows: {shown}{', ...' if len(runs) > 4 else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSelection):
            return NotImplemented
        if self.length != other.length or self.count != other.count:
            return False
        if self._bitmap is not None and other._bitmap is not None and type(self._bitmap) is type(other._bitmap):
            return bool(self._bitmap == other._bitmap)
        return bool(np.array_equal(self.runs(), other.runs()))

    def __hash__(self) -> int:
        return hash((self.length, self.runs().tobytes()))

    # ------------------------------------------------------------------ forms

    def runs(self) -> Int64Array:
        """Runs ``[start, stop)``: read-only int64 array of shape (k, 2), sorted, disjoint, never adjacent."""
        if self._runs is None:
            object.__setattr__(self, "_runs", _frozen(_runs_of_bitmap(self._bitmap, self.length)))
        runs = self._runs
        assert runs is not None
        return runs

    def positions(self) -> Int64Array:
        """The selected row numbers, ascending: int64 array of ``count`` values."""
        runs = self.runs()
        lengths = runs[:, 1] - runs[:, 0]
        before = np.cumsum(lengths) - lengths
        rows: Int64Array = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(runs[:, 0] - before, lengths)
        return rows

    def mask(self) -> BoolArray:
        """Boolean array of ``length`` values."""
        if self._runs is None:
            mostly = 2 * self.count > self.length
            fewer = self._bitmap.flip(0, self.length) if mostly else self._bitmap
            found = np.full(self.length, mostly)
            found[np.asarray(fewer.to_array())] = not mostly
            return found
        runs = self.runs()
        edges = np.zeros(self.length + 1, np.int8)
        edges[runs[:, 0]] = 1
        edges[runs[:, 1]] = -1
        return np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)

    def bitmap(self) -> BitMap | BitMap64:
        """A roaring bitmap of the rows (``BitMap64`` when the span passes 2**32 rows); the caller may change it."""
        if self._bitmap is None:
            object.__setattr__(self, "_bitmap", self._as_bitmap())
        copy: BitMap | BitMap64 = self._bitmap.copy()
        return copy

    def _as_bitmap(self) -> Any:
        if self._bitmap is not None:
            return self._bitmap
        runs = self.runs()
        kind = self._kind
        # Short runs go in as one array; long ones as ranges, which roaring stores as runs of containers.
        lengths = runs[:, 1] - runs[:, 0]
        short = lengths < _FEW_RUNS
        dtype = np.uint32 if kind is BitMap else np.uint64
        bitmap = kind(RowSelection(self.length, runs[short]).positions().astype(dtype)) if short.any() else kind()
        for start, stop in runs[~short].tolist():
            bitmap.add_range(start, stop)
        return bitmap

    # ------------------------------------------------------------------ algebra

    def __and__(self, other: RowSelection) -> RowSelection:
        if self is self._check_same(other) or other.is_all or self.is_empty:
            return self
        if self.is_all or other.is_empty:
            return other
        if self._prefers_bitmap(other):
            return self._of_bitmap(self._as_bitmap() & other._as_bitmap())
        return self._of_runs(_combined(self.runs(), other.runs(), (False, False, False, True)))

    def __or__(self, other: RowSelection) -> RowSelection:
        if self is self._check_same(other) or other.is_empty or self.is_all:
            return self
        if self.is_empty or other.is_all:
            return other
        if self._prefers_bitmap(other):
            return self._of_bitmap(self._as_bitmap() | other._as_bitmap())
        return self._of_runs(_combined(self.runs(), other.runs(), (False, True, True, True)))

    def __sub__(self, other: RowSelection) -> RowSelection:
        if self._check_same(other).is_empty or self.is_empty:
            return self
        if self.is_all:
            return ~other
        if self._prefers_bitmap(other):
            return self._of_bitmap(self._as_bitmap() - other._as_bitmap())
        return self._of_runs(_combined(self.runs(), other.runs(), (False, True, False, False)))

    def __invert__(self) -> RowSelection:
        if self._runs is None and type(self._bitmap) is self._kind:
            return self._of_bitmap(self._bitmap.flip(0, self.length))
        return self._of_runs(_complement(self.runs(), self.length))

    def and_then(self, inner: RowSelection) -> RowSelection:
        """Narrows by a selection over the selected rows: ``inner.length`` must be ``count``.

        Row ``i`` of ``inner`` is the ``i``-th selected row of this one.
        """
        if inner.length != self.count:
            raise InvalidQuery(f"the inner selection spans {inner.length} rows, but {self.count} are selected")
        if inner.is_all:
            return self
        outer = self.runs()
        ranks = np.cumsum(outer[:, 1] - outer[:, 0])
        inside = inner.runs()
        edges = np.unique(np.concatenate((ranks, inside.ravel())))
        edges = np.concatenate((np.zeros(1 if not edges.size or edges[0] else 0, np.int64), edges))
        starts, stops = edges[:-1], edges[1:]
        at = np.searchsorted(inside[:, 0], starts, "right") - 1
        keep = (at >= 0) & (starts < inside[:, 1][at]) if len(inside) else np.zeros(len(starts), bool)
        starts, stops = starts[keep], stops[keep]
        run = np.searchsorted(ranks, starts, "right")
        shift = outer[run, 1] - ranks[run]
        return self._of_runs(_joined(np.stack((starts + shift, stops + shift), axis=1)))

    def slice(self, start: int, stop: int) -> RowSelection:
        """The part in ``[start, stop)`` as a selection of a span of ``stop - start`` rows."""
        if not 0 <= start <= stop <= self.length:
            raise InvalidQuery(f"[{start}, {stop}) lies outside the span of {self.length} rows")
        if self.is_all:
            return self if stop - start == self.length else RowSelection.all(stop - start)
        if self._runs is None and type(self._bitmap) is BitMap:
            within = self._bitmap & BitMap(range(start, stop))
            return RowSelection(stop - start, None, within.shift(-start))
        runs = self.runs()
        first = int(runs[:, 1].searchsorted(start, "right"))
        last = int(runs[:, 0].searchsorted(stop, "left")) if start < stop else first
        if first == last:
            return RowSelection(stop - start, _NO_RUNS)
        part = runs[first:last] - start
        # runs ascend and don't touch: no other than the first and the last can reach out of the part
        part[0, 0] = max(int(part[0, 0]), 0)
        part[-1, 1] = min(int(part[-1, 1]), stop - start)
        return RowSelection(stop - start, part)

    def shift_into(self, length: int, offset: int) -> RowSelection:
        """The same rows as part of a longer span of ``length`` rows, moved up by ``offset``."""
        if offset < 0 or offset + self.length > length:
            raise InvalidQuery(f"{self.length} rows at {offset} lie outside the span of {length} rows")
        return RowSelection(length, self.runs() + offset)

    def limit(self, n: int) -> RowSelection:
        """The first ``n`` selected rows."""
        if n >= self.count:
            return self
        if n <= 0:
            return RowSelection.none(self.length)
        runs = self.runs()
        ranks = np.cumsum(runs[:, 1] - runs[:, 0])
        last = int(np.searchsorted(ranks, n, "left"))
        kept = runs[: last + 1].copy()
        kept[last, 1] -= ranks[last] - n
        return self._of_runs(kept)

    # ------------------------------------------------------------------ groups

    def count_in(self, bounds: Int64Array) -> Int64Array:
        """Selected rows in each group ``[bounds[g], bounds[g + 1])``: int64 array one shorter than ``bounds``."""
        bounds = np.asarray(bounds, np.int64)
        if self.is_all and len(bounds) and bounds[0] >= 0 and bounds[-1] <= self.length:
            return bounds[1:] - bounds[:-1]
        if self._runs is None:
            edges = np.clip(bounds, 0, self.length).tolist()
            return np.array([self._bitmap.range_cardinality(*edge) for edge in itertools.pairwise(edges)], np.int64)
        runs = self.runs()
        if not len(runs):
            return np.zeros(max(len(bounds) - 1, 0), np.int64)
        lengths = runs[:, 1] - runs[:, 0]
        before = np.cumsum(lengths) - lengths
        at = np.maximum(np.searchsorted(runs[:, 0], bounds, "right") - 1, 0)
        below = before[at] + np.clip(bounds - runs[at, 0], 0, lengths[at])
        counts: Int64Array = np.diff(below)
        return counts

    def any_in(self, bounds: Int64Array) -> BoolArray:
        """Whether each group ``[bounds[g], bounds[g + 1])`` holds a selected row."""
        return self.count_in(bounds) > 0

    def issubset(self, other: RowSelection) -> bool:
        """Whether every row of this selection is in the other, of the same span."""
        if self._check_same(other).is_all or self.is_empty:
            return True
        if self.count > other.count:
            return False
        mine, theirs = self.runs(), other.runs()
        at = np.searchsorted(theirs[:, 0], mine[:, 0], "right") - 1
        return bool(at[0] >= 0 and (theirs[at, 1] >= mine[:, 1]).all())

    # ------------------------------------------------------------------ inside

    @property
    def _kind(self) -> Any:
        """The kind of bitmap for this span."""
        return BitMap if self.length <= _BITMAP_ROWS else BitMap64

    def _check_same(self, other: RowSelection) -> RowSelection:
        if self.length != other.length:
            raise InvalidQuery(f"selections of {self.length} and of {other.length} rows do not combine")
        return other

    def _prefers_bitmap(self, other: RowSelection) -> bool:
        mine, theirs = self._bitmap is not None, other._bitmap is not None
        if mine and theirs:
            return type(self._bitmap) is type(other._bitmap)
        if not mine and not theirs:
            return False
        kind = self._kind
        scattered, runs = (self, other) if mine else (other, self)
        return type(scattered._bitmap) is kind and scattered._runs is None and len(runs.runs()) <= _FEW_RUNS

    def _of_runs(self, runs: Int64Array) -> RowSelection:
        return RowSelection(self.length, runs)

    def _of_bitmap(self, bitmap: Any) -> RowSelection:
        return RowSelection(self.length, None, bitmap)


def _check_length(length: int) -> None:
    if length < 0:
        raise InvalidQuery(f"a span cannot have {length} rows")


def _joined(runs: Int64Array) -> Int64Array:
    """Joins adjacent runs of a sorted, disjoint list."""
    if len(runs) < 2:
        return runs
    gap = runs[1:, 0] > runs[:-1, 1]
    if gap.all():
        return runs
    starts = runs[np.concatenate(([True], gap)), 0]
    stops = runs[np.concatenate((gap, [True])), 1]
    return np.stack((starts, stops), axis=1)


def _normalised(runs: Int64Array) -> Int64Array:
    runs = runs[runs[:, 0] < runs[:, 1]]
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    if len(runs) > 1:
        reach = np.maximum.accumulate(runs[:, 1])
        gap = runs[1:, 0] > reach[:-1]
        starts = runs[np.concatenate(([True], gap)), 0]
        runs = np.stack((starts, reach[np.concatenate((gap, [True]))]), axis=1)
    return runs


def _complement(runs: Int64Array, length: int) -> Int64Array:
    edges: Int64Array = np.concatenate(([0], runs.ravel(), [length])).reshape(-1, 2)
    gaps: Int64Array = edges[edges[:, 0] < edges[:, 1]]
    return gaps


def _combined(a: Int64Array, b: Int64Array, table: tuple[bool, bool, bool, bool]) -> Int64Array:
    """Sweeps the edges of both lists; ``table[in a + 2 * in b]`` says whether a segment belongs to the result."""
    edges = np.concatenate((a.ravel(), b.ravel()))
    steps = np.empty(len(edges), np.int8)
    steps[0 : 2 * len(a) : 2], steps[1 : 2 * len(a) : 2] = 1, -1
    steps[2 * len(a) :: 2], steps[2 * len(a) + 1 :: 2] = 2, -2
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    inside = np.cumsum(steps[order], dtype=np.int8)[:-1]
    starts, stops = edges[:-1], edges[1:]
    # Between two edges at the same row the sum is not meaningful, and the segment is empty anyway. A segment starts a
    # run where the one before it is left out, or empty; segments that touch are one run.
    keep = np.array(table)[inside]
    keep &= starts < stops
    starts, stops = starts[keep], stops[keep]
    gaps = starts[1:] != stops[:-1]
    runs = np.empty((int(gaps.sum()) + 1 if len(starts) else 0, 2), np.int64)
    if len(starts):
        runs[0, 0], runs[-1, 1] = starts[0], stops[-1]
        runs[1:, 0], runs[:-1, 1] = starts[1:][gaps], stops[:-1][gaps]
    return runs


def _runs_of_sorted(positions: Int64Array) -> Int64Array:
    if not len(positions):
        return _NO_RUNS
    breaks = np.flatnonzero(np.diff(positions) != 1)
    starts = positions[np.concatenate(([0], breaks + 1))]
    stops = positions[np.concatenate((breaks, [len(positions) - 1]))] + 1
    return np.stack((starts, stops), axis=1)


def _runs_of_mask(mask: BoolArray) -> Int64Array:
    padded = np.zeros(len(mask) + 2, np.bool_)
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).astype(np.int64, copy=False).reshape(-1, 2)


def _runs_of_bitmap(bitmap: Any, length: int) -> Int64Array:
    if not len(bitmap):
        return _NO_RUNS
    pieces: list[Int64Array] = []
    kind = type(bitmap)
    start = int(bitmap.min()) // _WINDOW * _WINDOW
    while start < length:
        stop = min(start + _WINDOW, length)
        present = bitmap.range_cardinality(start, stop)
        if present == stop - start:
            pieces.append(np.array([[start, stop]], np.int64))
        elif present:
            part = bitmap & kind(range(start, stop))
            pieces.append(_runs_of_sorted(np.asarray(part.to_array()).astype(np.int64)))
        else:
            following = bitmap.next_set_bit(stop) if stop <= bitmap.max() else length
            start = following // _WINDOW * _WINDOW if following < length else length
            continue
        start = stop
    return _joined(np.concatenate(pieces))
