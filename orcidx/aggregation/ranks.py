"""``Ranks`` holds the values of one column, and finds the value at a position of their sorted order.

If ``n`` values are sorted, ``quantile_disc(c, q)`` is the value at position ``ceil(q * n)``, counted from 1. For ``q =
0`` it is the first value. The result is always a value of the column. Values are held until the end, as arrays or as
distinct values with counts. If all values come from one index, its bit slices give the value at a position. The values
are read from the index only if other rows are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.functions import LARGEST_PRECISION
from orcidx.aggregation.value_forms import NAN, Form, comparable

__all__ = ["Ordered", "Ranks", "place_of"]


class Ordered(Protocol):
    """Sorted values of some rows in an index. ``numbers``: the number of sorted values. ``nans``: the number of NaN
    values. NaN values are not sorted."""

    numbers: int
    nans: int

    def at(self, place: int) -> Form:
        """The value at a position, counted from 0."""
        ...

    def counts(self) -> Iterator[tuple[Any, int]]:
        """Each value with its count."""
        ...


def place_of(share: Fraction, count: int) -> int:
    """Returns the position of a quantile among ``count`` sorted values, counted from 0."""
    return max(1, -(-share.numerator * count // share.denominator)) - 1


class Ranks:
    """The values that were added, in the forms of ``value_forms``. Nulls are not added."""

    def __init__(self, kind: pa.DataType) -> None:
        self._wide = pa.decimal128(LARGEST_PRECISION, kind.scale) if pa.types.is_decimal(kind) else None
        self._kind = comparable(pa.array([], self._wide or kind)).type
        self._chunks: list[pa.Array] = []
        self._repeated: Counter[Any] = Counter()
        self._index: Ordered | None = None
        self._nans = 0

    def add(self, values: pa.Array) -> None:
        """Adds values that are ``comparable`` and not null."""
        if pa.types.is_floating(values.type):
            number = pc.invert(pc.is_nan(values))
            kept = values.filter(number)
            self._nans += len(values) - len(kept)
            values = kept
        if len(values):
            self._chunks.append(values if values.type == self._kind else values.cast(self._kind))

    def add_repeated(self, value: Form, times: int) -> None:
        """Adds one value ``times`` times."""
        if value is NAN:
            self._nans += times
        elif times:
            self._repeated[value] += times

    def add_index(self, found: Ordered) -> None:
        """Adds the values of an index. They are read from the index only if there are other values, too."""
        if self._index is None and not self._chunks and not self._repeated:
            self._index = found
        else:
            self._take(found)

    def _take(self, found: Ordered) -> None:
        self._nans += found.nans
        for value, times in found.counts():
            self._repeated[value] += times

    def merge(self, other: Ranks) -> None:
        """Adds the values of other rows."""
        self._nans += other._nans
        self._chunks += other._chunks
        self._repeated.update(other._repeated)
        if other._index is not None:
            self.add_index(other._index)

    def value(self, share: Fraction, *, nan_is_largest: bool) -> Form:
        """Returns the quantile, or None if there are no values. With ``nan_is_largest``, NaN is greater than every
        number. Otherwise NaN is ignored if there are other values."""
        index = self._index
        if index is not None and (self._chunks or self._repeated):
            self._index = None
            self._take(index)
            index = None
        nans = self._nans + (0 if index is None else index.nans)
        order: Ordered | _Held = index or _Held(self._chunks, self._repeated, self._kind)
        count = order.numbers + (nans if nan_is_largest or not order.numbers else 0)
        if not count:
            return None
        place = place_of(share, count)
        return order.at(place) if place < order.numbers else NAN

    def __getstate__(self) -> dict[str, Any]:
        if self._index is not None:  # the pickled form has the values instead of the index
            index, self._index = self._index, None
            self._take(index)
        return self.__dict__


class _Held:
    """Values in memory, as arrays and as distinct values with counts."""

    def __init__(self, chunks: list[pa.Array], repeated: Counter[Any], kind: pa.DataType) -> None:
        self._values = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
        self.numbers = len(self._values) + repeated.total()
        self._repeated = repeated

    def at(self, place: int) -> Form:
        kind = self._values.type
        if not self._repeated and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            found: Form = np.partition(np.asarray(self._values), place)[place].item()
            return found
        distinct = pc.value_counts(self._values)
        values = pa.concat_arrays([distinct.field("values"), pa.array(list(self._repeated), kind)])
        times = np.concatenate([distinct.field("counts"), np.array([*self._repeated.values()], np.int64)])
        order = np.asarray(pc.array_sort_indices(values))
        last = np.searchsorted(np.cumsum(times[order]), place, side="right")
        return values[int(order[last])].as_py()  # type: ignore[no-any-return]
