"""The two forms of a set of rows, and functions that read them. ``RowSelection`` adds the operations on sets.

The first form is runs ``[start, stop)``: an int64 array of shape (k, 2), sorted, disjoint, non-empty and never
adjacent. The second form is a roaring bitmap. The missing form is created when it is needed, and kept."""

from __future__ import annotations

import itertools
from array import array
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from orcidx.errors import InvalidQuery

__all__ = [
    "NO_RUNS",
    "BoolArray",
    "Int64Array",
    "RowForms",
    "bitmap_of_rows",
    "joined_runs",
    "runs_of_mask",
    "runs_of_sorted",
]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_Kind = TypeVar("_Kind", BitMap, BitMap64)

# A bitmap is converted to runs window by window. So a nearly full bitmap is never expanded to an array of all its rows.
_WINDOW_ROWS = 1 << 20
"""The number of rows of one window of a bitmap. An array of the row numbers of a window takes 8 MiB."""
SHORT_RUN = 16
"""A run of at least this many rows is added to a bitmap as a range. This takes 0.2 us, about as long as adding 16 rows
from an array (decision 0113)."""
LONG_RUN = 256
"""If the runs have at least this many rows on average, a mask is filled run by run, at 0.4 us a run. If they have
fewer, the mask is computed by a sum over the edges of runs, at 3.4 ns a row (decision 0148)."""
_BITMAP_ROWS = 1 << 32
"""The number of rows that a 32-bit bitmap can number."""


def _frozen(runs: Int64Array) -> Int64Array:
    runs.flags.writeable = False
    return runs


NO_RUNS = _frozen(np.empty((0, 2), np.int64))


def bitmap_of_rows(rows: npt.NDArray[np.integer[Any]], kind: type[_Kind]) -> _Kind:
    """Returns a roaring bitmap, ``BitMap`` or ``BitMap64``, of row numbers. They must fit into its kind.

    pyroaring adds the numbers of an ``array.array`` in one call. It takes each number of a NumPy array as an object,
    which takes up to 30 times as long (200,000 numbers: 36 ms instead of 1.2 ms).
    """
    code, dtype = ("I", np.uint32) if kind is BitMap else ("Q", np.uint64)
    return kind(array(code, rows.astype(dtype).tobytes()))


class RowForms:
    """An immutable set of rows, as runs or as a bitmap. The rows belong to a span of ``length`` rows, which are
    numbered from 0."""

    # These attributes are read so often that properties would take noticeable time.
    __slots__ = {
        "_bitmap": None,
        "_runs": None,
        "count": "Number of selected rows.",
        "is_all": "Whether every row of the span is selected. This is true for an empty span.",
        "is_empty": "Whether no row is selected.",
        "length": "Number of rows of the span.",
    }

    length: int
    count: int
    is_all: bool
    is_empty: bool
    _runs: Int64Array | None
    _bitmap: Any

    def __init__(self, length: int, runs: Int64Array | None, bitmap: Any = None) -> None:
        # The runs in ``runs`` are ascending and do not touch each other. Runs and bitmaps lie within ``length`` rows.
        # Callers outside this module use the constructors of ``RowSelection``.
        if length < 0:
            raise InvalidQuery(f"length must not be negative, but is {length}")
        if runs is None:
            count = len(bitmap)
        else:
            runs.flags.writeable = False
            count = int(runs[0, 1] - runs[0, 0]) if len(runs) == 1 else int((runs[:, 1] - runs[:, 0]).sum())
        put = object.__setattr__
        put(self, "length", length)
        put(self, "count", count)
        put(self, "is_all", count == length)
        put(self, "is_empty", count == 0)
        put(self, "_runs", runs)
        put(self, "_bitmap", bitmap)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a RowSelection cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.length, None if self._runs is None else self._runs.copy(), self._bitmap)

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        raise TypeError("the truth value of a RowSelection is ambiguous; use .is_empty, .is_all or .count")

    def __repr__(self) -> str:
        runs = self.runs()
        shown = ", ".join(f"[{start}, {stop})" for start, stop in runs[:4].tolist())
        return f"RowSelection({self.count} of {self.length} rows: {shown}{', ...' if len(runs) > 4 else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowForms):
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
        """The selected rows as runs ``[start, stop)``.

        Returns
        -------
        int64 array of shape (k, 2)
            Sorted, disjoint and never adjacent. The array is read-only.
        """
        if self._runs is None:
            object.__setattr__(self, "_runs", _frozen(_runs_of_bitmap(self._bitmap, self.length)))
        runs = self._runs
        assert runs is not None
        return runs

    def positions(self) -> Int64Array:
        """The numbers of the selected rows.

        Returns
        -------
        int64 array of ``count`` values
            Ascending row numbers.
        """
        return _positions_of(self.runs())

    def mask(self) -> BoolArray:
        """The selection as one truth value for each row of the span.

        Returns
        -------
        bool array of ``length`` values
        """
        if self._runs is None:
            mostly = 2 * self.count > self.length
            fewer = self._bitmap.flip(0, self.length) if mostly else self._bitmap
            found = np.full(self.length, mostly)
            found[np.asarray(fewer.to_array())] = not mostly
            return found
        runs = self.runs()
        if len(runs) * LONG_RUN <= self.length:
            filled = np.zeros(self.length, np.bool_)
            for start, stop in runs.tolist():
                filled[start:stop] = True
            return filled
        edges = np.zeros(self.length + 1, np.int8)
        edges[runs[:, 0]] = 1
        edges[runs[:, 1]] = -1
        return np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)

    def bitmap(self) -> BitMap | BitMap64:
        """The selected rows as a roaring bitmap, which the caller may change.

        Returns
        -------
        pyroaring.BitMap or pyroaring.BitMap64
            A ``BitMap64`` if the span has more than 2^32 rows.
        """
        if self._bitmap is None:
            object.__setattr__(self, "_bitmap", self._as_bitmap())
        copy: BitMap | BitMap64 = self._bitmap.copy()
        return copy

    def _as_bitmap(self) -> Any:
        if self._bitmap is not None:
            return self._bitmap
        runs = self.runs()
        kind = self._kind
        # All short runs are added together as one array of positions. Each long run is added as a range, because
        # roaring stores ranges in run containers.
        lengths = runs[:, 1] - runs[:, 0]
        short = lengths < SHORT_RUN
        bitmap = bitmap_of_rows(_positions_of(runs[short]), kind) if short.any() else kind()
        for start, stop in runs[~short].tolist():
            bitmap.add_range(start, stop)
        return bitmap

    @property
    def _kind(self) -> Any:
        """The kind of bitmap for this span."""
        return BitMap if self.length <= _BITMAP_ROWS else BitMap64

    # ------------------------------------------------------------------ groups

    def count_in(self, bounds: Int64Array) -> Int64Array:
        """The number of selected rows in each group.

        Parameters
        ----------
        bounds : int64 array of n + 1 values
            Ascending row numbers. Group ``g`` is ``[bounds[g], bounds[g + 1])``.

        Returns
        -------
        int64 array of n values
        """
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
        """Whether each group contains a selected row.

        Parameters
        ----------
        bounds : int64 array of n + 1 values
            Ascending row numbers. Group ``g`` is ``[bounds[g], bounds[g + 1])``.

        Returns
        -------
        bool array of n values
        """
        return self.count_in(bounds) > 0


def _positions_of(runs: Int64Array) -> Int64Array:
    """The numbers of the rows in some runs, in ascending order."""
    lengths = runs[:, 1] - runs[:, 0]
    before = np.cumsum(lengths) - lengths
    rows: Int64Array = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(runs[:, 0] - before, lengths)
    return rows


def joined_runs(runs: Int64Array) -> Int64Array:
    """Joins adjacent runs of a sorted, disjoint list."""
    if len(runs) < 2:
        return runs
    gap = runs[1:, 0] > runs[:-1, 1]
    if gap.all():
        return runs
    starts = runs[np.concatenate(([True], gap)), 0]
    stops = runs[np.concatenate((gap, [True])), 1]
    return np.stack((starts, stops), axis=1)


def runs_of_mask(mask: BoolArray) -> Int64Array:
    """Runs of consecutive True values, as pairs (start, stop)."""
    padded = np.zeros(len(mask) + 2, np.bool_)
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).astype(np.int64, copy=False).reshape(-1, 2)


def runs_of_sorted(positions: Int64Array) -> Int64Array:
    """The runs of some row numbers, which must be in ascending order."""
    if not len(positions):
        return NO_RUNS
    breaks = np.flatnonzero(np.diff(positions) != 1)
    starts = positions[np.concatenate(([0], breaks + 1))]
    stops = positions[np.concatenate((breaks, [len(positions) - 1]))] + 1
    return np.stack((starts, stops), axis=1)


def _runs_of_bitmap(bitmap: Any, length: int) -> Int64Array:
    if not len(bitmap):
        return NO_RUNS
    pieces: list[Int64Array] = []
    kind = type(bitmap)
    start = int(bitmap.min()) // _WINDOW_ROWS * _WINDOW_ROWS
    while start < length:
        stop = min(start + _WINDOW_ROWS, length)
        present = bitmap.range_cardinality(start, stop)
        if present == stop - start:
            pieces.append(np.array([[start, stop]], np.int64))
        elif present:
            part = bitmap & kind(range(start, stop))
            pieces.append(runs_of_sorted(np.asarray(part.to_array()).astype(np.int64)))
        else:
            following = bitmap.next_set_bit(stop) if stop <= bitmap.max() else length
            start = following // _WINDOW_ROWS * _WINDOW_ROWS if following < length else length
            continue
        start = stop
    return joined_runs(np.concatenate(pieces))
