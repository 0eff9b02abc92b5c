"""Canonical forms of values, for comparing and grouping. The form of a value is a Python value. Equal values of a
column have equal forms. -0.0 becomes 0.0. All NaN values become one value. Dates and timestamps become integers. Text
becomes its UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NAN", "Comparable", "Form", "NotANumber", "as_form", "comparable", "form_of", "restored"]


class Comparable(Protocol):
    """A canonical value: an integer, float, Decimal or bytes."""

    def __lt__(self, other: Any, /) -> bool: ...


class NotANumber:
    """NaN as a group key, which is equal only to itself."""

    def __repr__(self) -> str:
        return "NaN"

    def __reduce__(self) -> str:
        return "NAN"


NAN = NotANumber()

Form = Comparable | NotANumber | None
"""The canonical form of a value. The form of a null is None."""


def comparable(values: pa.Array) -> pa.Array:
    """Converts values to a type that Arrow can compare and sort. The Python values of the result have the same
    order. NaN stays NaN."""
    kind = values.type
    types = pa.types
    if types.is_floating(kind):
        return pc.add(values.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0
    if types.is_boolean(kind):
        return values.cast(pa.uint8())
    if types.is_date32(kind) or types.is_time32(kind):
        return values.view(pa.int32())
    if types.is_date64(kind) or types.is_time64(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return values.view(pa.int64())
    if types.is_string(kind):
        return values.view(pa.binary())
    if types.is_large_string(kind):
        return values.view(pa.large_binary())
    if types.is_string_view(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    return values


def form_of(value: pa.Scalar) -> Form:
    """The form of one value."""
    return as_form(comparable(pa.array([value], value.type))[0].as_py())


def as_form(value: Comparable | None) -> Form:
    """The form of a Python value of a ``comparable`` array."""
    return NAN if isinstance(value, float) and value != value else value


def restored(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns the inverse of ``comparable``: an array of the column's type from canonical values, None and ``NAN``."""
    types = pa.types
    if types.is_floating(kind):
        return pa.array([float("nan") if value is NAN else value for value in values], pa.float64()).cast(kind)
    if types.is_boolean(kind):
        return pa.array([None if value is None else bool(value) for value in values], kind)
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if types.is_date64(kind) or types.is_time64(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    if types.is_string(kind):
        return pa.array(values, pa.binary()).view(kind)
    if types.is_large_string(kind):
        return pa.array(values, pa.large_binary()).view(kind)
    if types.is_string_view(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.array(values, pa.binary()).cast(kind)
    return pa.array(values, kind)
