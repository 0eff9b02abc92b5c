"""Converts Arrow arrays to Python's values, including values for which Python has no type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["python_values"]


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow array. Dates and times that Python cannot represent become ISO 8601 text. A struct in
    which two fields have the same name becomes a list of pairs (name, value)."""
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):  # Python's times end at the years 1 and 9999, and have no nanoseconds
        return [_python_value(scalar) for scalar in array]


def _python_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        import numpy as np
        import pyarrow as pa

        kind = scalar.type
        if pa.types.is_struct(kind):
            fields = [(field.name, _python_value(scalar[i])) for i, field in enumerate(kind)]
            return dict(fields) if len(set(kind.names)) == len(fields) else fields
        if pa.types.is_nested(kind):
            entries = [_python_value(entry) for entry in scalar.values]
            return [tuple(entry.values()) for entry in entries] if pa.types.is_map(kind) else entries
        shown = str(np.datetime64(scalar.value, "D" if pa.types.is_date(kind) else kind.unit))
        return f"{shown}+00:00" if getattr(kind, "tz", None) else shown
