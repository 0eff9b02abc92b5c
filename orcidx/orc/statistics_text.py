"""Statistics as text for the explanation of a scan. The text shows the minimum, the maximum and nulls of the units for
which the decision was made."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc.bound_values import BytesBounds, NumberBounds
from orcidx.orc.bounds import StatisticsColumn
from orcidx.predicate import BoundLeaf, Domain, Op

__all__ = ["UnitText", "value_text"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitText:
    """A function that makes a text for each given row. The text has the statistics of the unit that contains the
    row."""

    column: StatisticsColumn
    leaf: BoundLeaf
    bounds: Int64s

    def __call__(self, rows: Int64s) -> list[str]:
        units, places = np.unique(np.searchsorted(self.bounds, rows, "right") - 1, return_inverse=True)
        texts = self._of_units(units)
        return texts if len(texts) == len(rows) else [texts[place] for place in places.tolist()]

    def _of_units(self, units: Int64s) -> list[str]:
        column = self.column
        all_null, may_null = column.all_null[units].tolist(), column.may_null[units].tolist()
        if self.leaf.op is Op.IS_NULL:
            facts = [["some rows are null"] if null else [] for null in may_null]
        else:
            numbers = self.leaf.domain in _NUMBERS and isinstance(column.lower, NumberBounds)
            texts = self.leaf.domain is Domain.STRING and isinstance(column.lower, BytesBounds)
            show = (
                str
                if numbers
                else _show_text
                if texts
                else partial(value_text, domain=self.leaf.domain, kind=self.leaf.type)
            )
            lower, upper = column.lower.at(units), column.upper.at(units)
            if not (any(all_null) or self.leaf.op is Op.IS_NAN or None in lower or None in upper):
                nulls = ["" if null else ", no null" for null in may_null]
                return [f"min {show(low)}, max {show(high)}{null}" for low, high, null in zip(lower, upper, nulls)]
            facts = [
                [f"{side} {show(bound)}" for side, bound in (("min", low), ("max", high)) if bound is not None]
                for low, high in zip(lower, upper)
            ]
            if self.leaf.op is Op.IS_NAN:
                facts = [ends if nan else ["no NaN"] for ends, nan in zip(facts, column.may_nan[units].tolist())]
        return [
            "every row is null" if null else ", ".join(ends if maybe else [*ends, "no null"])
            for null, maybe, ends in zip(all_null, may_null, facts)
        ]


_NUMBERS = (Domain.INT, Domain.FLOAT, Domain.DECIMAL)
_SHOWN_LENGTH = 40
"""The number of characters of a text, or of bytes of a binary value, that are shown."""
_EPOCH = datetime.datetime(1970, 1, 1)


def _show_text(value: Any) -> str:
    text = value.decode("utf-8", "replace")
    return repr(text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…")


def value_text(value: bytes | int | float | Decimal, domain: Domain, kind: pa.DataType) -> str:
    """A bound as text. ``value`` is in the form that predicates of ``domain`` compare, and ``kind`` is the type of the
    column. Long texts and binary values are cut."""
    if isinstance(value, bytes):
        if domain is Domain.STRING:
            return _show_text(value)
        return value[:_SHOWN_LENGTH].hex() + ("…" if len(value) > _SHOWN_LENGTH else "")
    if domain is Domain.BOOL:
        return "true" if value else "false"
    try:
        if domain is Domain.DATE:
            return (_EPOCH + datetime.timedelta(days=int(value))).date().isoformat()
        if domain is Domain.TIMESTAMP:
            seconds, nanos = divmod(int(value), 10**9)
            fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
            zone = "Z" if kind.tz else ""
            return (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat(" ") + fraction + zone
    except OverflowError:  # outside the years 1 to 9999
        return f"{value} {'days' if domain is Domain.DATE else 'ns'} from 1970-01-01"
    return str(value)
