"""Rows that a caller gives as Arrow data: data frames of pandas, Polars and DuckDB, record batch readers and scans."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery, OrcidxError

__all__ = ["stream_of"]


def stream_of(data: object) -> pa.RecordBatchReader:
    """Makes a ``RecordBatchReader`` for an object that has ``__arrow_c_stream__``.

    Raises ``InvalidQuery`` for values that have no Arrow type, and for an object that is a single column.
    """
    name = type(data).__name__
    if type(data).__module__.startswith("polars"):
        _refuse_objects(data)
    try:
        return pa.RecordBatchReader.from_stream(data)
    except OrcidxError:  # raised by a scan of orcidx
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        if "non-struct type" in str(error):
            raise InvalidQuery(f"a {name} is a single column: give a table or data frame that contains it") from error
        hint = "; cast integers of 128 bits to decimals" if "_pl" in str(error) else ""
        raise InvalidQuery(f"the {name} cannot be read as Arrow data: {error}{hint}") from error


def _refuse_objects(frame: Any) -> None:
    """Raises an error for columns of Python objects. Polars exports such objects as their addresses in memory."""
    for column, kind in dict(getattr(frame, "schema", {})).items():
        if str(kind) == "Object":
            raise InvalidQuery(
                "the column has Python objects, for which Arrow has no type: cast the column", column=column
            )
