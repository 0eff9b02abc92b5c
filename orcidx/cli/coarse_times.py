"""Checks that ``orcidx table append`` loses no digits of timestamps. The command reads a column in microseconds if the
type of the column in the table has no nanoseconds. So digits below a microsecond in the files would be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from orcidx.errors import ValueOutOfRange, located
from orcidx.paimon.data_types import DataField
from orcidx.predicate import Predicate, col

__all__ = ["check_digits"]

_Unit = Literal["us", "ns"]

_ENDS = (-(1 << 63), (1 << 63) - 1)
"""The first and the last time that 64 bits of nanoseconds can represent."""


def check_digits(
    files: Sequence[str], rows: pa.Schema, fields: Mapping[str, DataField], stores: Mapping[str, Any] | None
) -> None:
    """Raises ``ValueOutOfRange`` if a timestamp in the files has digits below a microsecond.

    ``rows``: the schema in which the files are read. ``fields``: the columns of the table. Other columns, and columns
    that are read in nanoseconds, are not checked."""
    for shown in rows:
        field = fields.get(shown.name)
        if field is None or not pa.types.is_timestamp(field.type.arrow_type):
            continue
        if pa.types.is_timestamp(shown.type) and shown.type.unit != "ns":
            with located(column=shown.name):
                _check_column(list(files), shown, field, stores)


def _check_column(files: list[str], shown: pa.Field, field: DataField, stores: Mapping[str, Any] | None) -> None:
    """Checks one column. Times that fit into 64 bits of nanoseconds are read in nanoseconds. The other times are read
    in microseconds, which drops further digits. Then a second scan counts the rows whose stored time is exactly one of
    the times in microseconds. If it finds fewer rows than the first scan, a stored time has further digits."""
    from orcidx import scan

    column = col(shown.name)

    def scan_in(unit: _Unit, where: Predicate) -> Iterable[pa.RecordBatch]:
        # The schema is given, because the first file may lack the column.
        schema = pa.schema([pa.field(shown.name, pa.timestamp(unit, shown.type.tz))])
        return scan(files, where=where, timestamp_unit=unit, schema=schema, storage_options=stores)

    near = column.between(*(pa.scalar(end, pa.timestamp("ns", shown.type.tz)) for end in _ENDS))
    for batch in scan_in("ns", near):
        try:
            batch.column(0).cast(shown.type)
        except pa.ArrowInvalid as error:
            raise ValueOutOfRange(f"a value does not fit {field.type}: {error}") from None
    count, far = 0, pa.array([], shown.type)
    for batch in scan_in("us", ~near):
        count += batch.num_rows
        far = pa.chunked_array([far, batch.column(0)]).unique()
    if count and count != sum(batch.num_rows for batch in scan_in("us", column.is_in(list(far)))):
        raise ValueOutOfRange(f"a value does not fit {field.type}: a time has digits below a microsecond")
