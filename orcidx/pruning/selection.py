"""``RowSelection`` is an immutable set of rows of a span. A span is a range of rows, for example all rows of a file, a
stripe or a row group. All pruning uses this class.

Rows are numbered from 0 in the span. There are two forms of the set. The first form is runs ``[start, stop)``: an int64
array of shape (k, 2), sorted, disjoint, non-empty and never adjacent. The second form is a roaring bitmap. A selection
keeps the form in which it was given. The other form is created when it is needed, and kept. Operations use bitmaps if
the rows of both sides are scattered, and runs otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from orcidx.errors import InvalidQuery
from orcidx.pruning.row_forms import NO_RUNS, BoolArray, Int64Array, RowForms, joined_runs, runs_of_mask, runs_of_sorted

__all__ = ["RowSelection"]

FEW_RUNS = 256
"""A bitmap is combined with runs as a bitmap if there are at most this many runs. With more runs, both sides become
runs (decision 0113)."""


class RowSelection(RowForms):
    """An immutable set of rows of a span, which is a range of ``length`` rows.

    To build a selection, use ``all``, ``none``, ``from_runs``, ``from_positions``, ``from_bitmap``, ``from_mask`` or
    ``from_groups``. ``&``, ``|``, ``-`` and ``~`` combine selections of the same length. ``==`` compares the sets.

    Examples
    --------
    >>> from orcidx import RowSelection
    >>> rows = RowSelection.from_positions([7, 2, 3], 10)
    >>> rows.runs().tolist()
    [[2, 4], [7, 8]]
    >>> (~rows).count
    7
    >>> (rows & RowSelection.from_runs([(0, 3)], 10)).positions().tolist()
    [2]
    """

    __slots__ = ()

    # ------------------------------------------------------------------ constructors

    @classmethod
    def all(cls, length: int) -> RowSelection:
        """Every row of a span.

        Parameters
        ----------
        length : int
            The number of rows in the span.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            ``length`` is negative.
        """
        return cls(length, np.array([[0, length]], np.int64) if length else NO_RUNS)

    @classmethod
    def none(cls, length: int) -> RowSelection:
        """No row of a span.

        Parameters
        ----------
        length : int
            The number of rows in the span.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            ``length`` is negative.
        """
        return cls(length, NO_RUNS)

    @classmethod
    def from_runs(cls, runs: Int64Array | Iterable[Sequence[int]], length: int) -> RowSelection:
        """The rows of some runs.

        Parameters
        ----------
        runs : int64 array of shape (k, 2), or iterable of (int, int)
            Pairs ``(start, stop)`` in any order. Empty, overlapping and adjacent runs are allowed.
        length : int
            The number of rows in the span.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            A run is outside ``[0, length]``, or it ends before it starts.
        """
        array = np.array(runs if isinstance(runs, np.ndarray) else list(runs), np.int64).reshape(-1, 2)
        if array.size and (array.min() < 0 or array.max() > length or np.any(array[:, 1] < array[:, 0])):
            raise InvalidQuery(f"each run of rows must be (start, stop) with 0 <= start <= stop <= {length}")
        return cls(length, _normalised(array))

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike, length: int) -> RowSelection:
        """The rows with the given numbers.

        Parameters
        ----------
        positions : array of whole numbers
            Row numbers, counted from 0, in any order. They may repeat.
        length : int
            The number of rows in the span.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            A row is outside the span, or the values are not whole numbers.
        """
        given = np.asarray(positions) if np.size(positions) else np.empty(0, np.int64)
        if given.dtype.kind not in "iu":
            raise InvalidQuery(f"row numbers must be whole numbers below 2^63, but they have the type {given.dtype}")
        array: Int64Array = np.unique(given.astype(np.int64, casting="same_kind", copy=False))
        if array.size and (array[0] < 0 or array[-1] >= length):
            wrong = array[0] if array[0] < 0 else array[-1]
            raise InvalidQuery(f"row {wrong} does not exist: the span has {length} rows, numbered from 0")
        return cls(length, runs_of_sorted(array))

    @classmethod
    def from_bitmap(cls, bitmap: BitMap | BitMap64, length: int) -> RowSelection:
        """The rows of a roaring bitmap, which is copied.

        Parameters
        ----------
        bitmap : pyroaring.BitMap or pyroaring.BitMap64
            Row numbers, counted from 0.
        length : int
            The number of rows in the span.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            A row is outside the span.
        """
        if len(bitmap) and bitmap.max() >= length:
            raise InvalidQuery(f"row {bitmap.max()} does not exist: the span has {length} rows, numbered from 0")
        return cls(length, None, bitmap.copy())

    @classmethod
    def from_mask(cls, mask: BoolArray) -> RowSelection:
        """The rows where a boolean array is true.

        Parameters
        ----------
        mask : bool array
            One value for each row of the span.

        Returns
        -------
        RowSelection
        """
        return cls(len(mask), runs_of_mask(np.asarray(mask, bool)))

    @classmethod
    def from_groups(cls, mask: BoolArray, bounds: Int64Array) -> RowSelection:
        """The rows of some groups.

        Parameters
        ----------
        mask : bool array of n values
            Whether a group is selected.
        bounds : int64 array of n + 1 values
            Ascending row numbers. Group ``g`` is ``[bounds[g], bounds[g + 1])``, and the span ends at ``bounds[-1]``.
            Rows before ``bounds[0]`` are not selected.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            The lengths of ``mask`` and ``bounds`` do not match.
        """
        mask = np.asarray(mask, bool)
        bounds = np.asarray(bounds, np.int64)
        if len(bounds) != len(mask) + 1:
            raise InvalidQuery(
                f"bounds must have {len(mask) + 1} numbers for {len(mask)} groups, but has {len(bounds)}"
            )
        if bounds[0] == 0 and mask.all():
            return cls.all(int(bounds[-1]))
        runs = bounds[runs_of_mask(mask)]
        if (runs[:, 0] == runs[:, 1]).any() or (runs[1:, 0] == runs[:-1, 1]).any():  # groups without rows
            runs = joined_runs(runs[runs[:, 0] < runs[:, 1]])
        return cls(int(bounds[-1]), runs)

    @classmethod
    def concat(cls, parts: Sequence[RowSelection]) -> RowSelection:
        """Joins spans, one after the other.

        Parameters
        ----------
        parts : sequence of RowSelection
            The selections of the spans, in order.

        Returns
        -------
        RowSelection
            A selection whose length is the sum of the lengths of the parts.
        """
        starts = np.cumsum([0, *(part.length for part in parts)])
        pieces = [part.runs() + start for part, start in zip(parts, starts)]
        return cls(int(starts[-1]), joined_runs(np.concatenate(pieces)) if pieces else NO_RUNS)

    # ------------------------------------------------------------------ algebra

    def __and__(self, other: RowSelection) -> RowSelection:
        if self.length != other.length:
            raise self._other_span(other)
        if self is other or other.is_all or self.is_empty:
            return self
        if self.is_all or other.is_empty:
            return other
        if self._prefers_bitmap(other):
            return self._of_bitmap(self._as_bitmap() & other._as_bitmap())
        return self._of_runs(_combined(self.runs(), other.runs(), (False, False, False, True)))

    def __or__(self, other: RowSelection) -> RowSelection:
        if self.length != other.length:
            raise self._other_span(other)
        if self is other or other.is_empty or self.is_all:
            return self
        if self.is_empty or other.is_all:
            return other
        if self._prefers_bitmap(other):
            return self._of_bitmap(self._as_bitmap() | other._as_bitmap())
        return self._of_runs(_combined(self.runs(), other.runs(), (False, True, True, True)))

    def __sub__(self, other: RowSelection) -> RowSelection:
        if self.length != other.length:
            raise self._other_span(other)
        if other.is_empty or self.is_empty:
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
        """Keeps only those rows of this selection that ``inner`` selects.

        Parameters
        ----------
        inner : RowSelection
            A selection whose row ``i`` is the ``i``-th selected row of this selection. Its ``length`` must be this
            selection's ``count``.

        Returns
        -------
        RowSelection
            A selection of the same span as this selection.

        Raises
        ------
        InvalidQuery
            ``inner`` has another length.
        """
        if inner.length != self.count:
            raise InvalidQuery(
                f"the length of the inner selection must be {self.count}, because the outer selection selects "
                f"{self.count} rows, but it is {inner.length}"
            )
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
        return self._of_runs(joined_runs(np.stack((starts + shift, stops + shift), axis=1)))

    def slice(self, start: int, stop: int) -> RowSelection:
        """The part of the selection in ``[start, stop)``.

        Parameters
        ----------
        start, stop : int
            The first row of the part, and the row after the last row of the part.

        Returns
        -------
        RowSelection
            A selection of a span of ``stop - start`` rows, numbered from 0.

        Raises
        ------
        InvalidQuery
            The part is outside the span.
        """
        if not 0 <= start <= stop <= self.length:
            raise InvalidQuery(f"the range [{start}, {stop}) is not within the span, which has {self.length} rows")
        if stop - start == self.length:
            return self
        if self.is_all:
            return RowSelection.all(stop - start)
        if self._runs is None and type(self._bitmap) is BitMap:
            within = self._bitmap & BitMap(range(start, stop))
            return RowSelection(stop - start, None, within.shift(-start))
        runs = self.runs()
        first = int(runs[:, 1].searchsorted(start, "right"))
        last = int(runs[:, 0].searchsorted(stop, "left")) if start < stop else first
        if first == last:
            return RowSelection(stop - start, NO_RUNS)
        part = runs[first:last] - start
        # Runs are ascending and disjoint, so only the first and the last run can extend beyond the part.
        part[0, 0] = max(int(part[0, 0]), 0)
        part[-1, 1] = min(int(part[-1, 1]), stop - start)
        return RowSelection(stop - start, part)

    def shift_into(self, length: int, offset: int) -> RowSelection:
        """The same rows in a longer span. An offset is added to the number of each row.

        Parameters
        ----------
        length : int
            The number of rows in the longer span.
        offset : int
            The number that is added to each row.

        Returns
        -------
        RowSelection

        Raises
        ------
        InvalidQuery
            At ``offset``, this span does not fit into the longer span.
        """
        if offset < 0 or offset + self.length > length:
            raise InvalidQuery(
                f"a selection of {self.length} rows that starts at row {offset} does not fit into {length} rows"
            )
        return RowSelection(length, self.runs() + offset)

    def limit(self, n: int) -> RowSelection:
        """The first selected rows.

        Parameters
        ----------
        n : int
            The maximum number of rows that stay selected. If ``n`` is 0 or less, no row stays selected.

        Returns
        -------
        RowSelection
        """
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

    def issubset(self, other: RowSelection) -> bool:
        """Whether every row of this selection is also in ``other``.

        Parameters
        ----------
        other : RowSelection
            A selection of the same length.

        Returns
        -------
        bool

        Raises
        ------
        InvalidQuery
            The two lengths differ.
        """
        if self.length != other.length:
            raise self._other_span(other)
        if other.is_all or self.is_empty:
            return True
        if self.count > other.count:
            return False
        mine, theirs = self.runs(), other.runs()
        at = np.searchsorted(theirs[:, 0], mine[:, 0], "right") - 1
        return bool(at[0] >= 0 and (theirs[at, 1] >= mine[:, 1]).all())

    # ------------------------------------------------------------------ inside

    def _other_span(self, other: RowSelection) -> InvalidQuery:
        return InvalidQuery(
            f"selections of {self.length} and of {other.length} rows cannot be combined, because their lengths "
            "must be equal"
        )

    def _prefers_bitmap(self, other: RowSelection) -> bool:
        mine, theirs = self._bitmap is not None, other._bitmap is not None
        if mine and theirs:
            return type(self._bitmap) is type(other._bitmap)
        if not mine and not theirs:
            return False
        kind = self._kind
        scattered, runs = (self, other) if mine else (other, self)
        return type(scattered._bitmap) is kind and scattered._runs is None and len(runs.runs()) <= FEW_RUNS

    def _of_runs(self, runs: Int64Array) -> RowSelection:
        return RowSelection(self.length, runs)

    def _of_bitmap(self, bitmap: Any) -> RowSelection:
        return RowSelection(self.length, None, bitmap)


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
    """Combines two lists of runs. The ends of all runs divide the span into segments. ``table[in a + 2 * in b]`` says
    whether a segment belongs to the result."""
    edges = np.concatenate((a.ravel(), b.ravel()))
    steps = np.empty(len(edges), np.int8)
    steps[0 : 2 * len(a) : 2], steps[1 : 2 * len(a) : 2] = 1, -1
    steps[2 * len(a) :: 2], steps[2 * len(a) + 1 :: 2] = 2, -2
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    inside = np.cumsum(steps[order], dtype=np.int8)[:-1]
    starts, stops = edges[:-1], edges[1:]
    # ``inside`` tells which selections contain each segment. If both ends of a segment are at the same row, the segment
    # is empty, and its entry in ``inside`` has no meaning. Empty segments are dropped. Adjacent segments form one run.
    keep = np.array(table)[inside]
    keep &= starts < stops
    starts, stops = starts[keep], stops[keep]
    gaps = starts[1:] != stops[:-1]
    runs = np.empty((int(gaps.sum()) + 1 if len(starts) else 0, 2), np.int64)
    if len(starts):
        runs[0, 0], runs[-1, 1] = starts[0], stops[-1]
        runs[1:, 0], runs[:-1, 1] = starts[1:][gaps], stops[:-1][gaps]
    return runs
