"""The directory of a partition: ``dt=2024-01-01/region=a%2Fb/``."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from orcidx.errors import Unsupported
from orcidx.paimon.data_types import DataField, DataType

__all__ = ["partition_path"]

_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{}[]^") | {chr(code) for code in range(1, 32)}
_NANOS = 1_000_000_000
_EPOCH = datetime.datetime(1970, 1, 1)


def partition_path(fields: Sequence[DataField], values: Sequence[Any], *, default_name: str, legacy: bool) -> str:
    """The path of a partition with a slash behind it; empty for a table without partitions.

    ``values`` in the physical domain (``BinaryRow``). ``default_name`` stands for null and for blank text. ``legacy``
    (the table option ``partition.legacy-name``): dates are day numbers and timestamps ISO 8601.
    """
    parts = []
    for field, value in zip(fields, values):
        text = "" if value is None else _text(field.type, value, legacy)
        parts.append(f"{_escape(field.name)}={_escape(text if text.strip() else default_name)}/")
    return "".join(parts)


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _text(data_type: DataType, value: Any, legacy: bool) -> str:
    root = data_type.root
    if root in ("CHAR", "VARCHAR"):
        return bytes(value).decode("utf-8", "replace")
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return str(value)
    if root == "DECIMAL" and isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if root == "DATE":
        return str(value) if legacy else _date(value, data_type).isoformat()
    if root == "TIME" and legacy:
        return str(value // 1_000_000)
    if root == "TIMESTAMP" or (root == "TIMESTAMP_LTZ" and legacy):
        return _timestamp(data_type, value, legacy)
    raise Unsupported(f"the directory of a partition by {data_type} is not known")


def _date(days: int, data_type: DataType) -> datetime.date:
    try:
        return _EPOCH.date() + datetime.timedelta(days=days)
    except OverflowError:
        raise Unsupported(f"partition by {data_type}: day {days} is outside the years 1 to 9999") from None


def _timestamp(data_type: DataType, nanos: int, legacy: bool) -> str:
    seconds, fraction = divmod(nanos, _NANOS)
    moment = datetime.datetime.combine(_date(seconds // 86400, data_type), datetime.time())
    moment += datetime.timedelta(seconds=seconds % 86400)
    if not legacy:
        digits = f"{fraction:09d}"[: data_type.precision]
        return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{digits}" if digits else "")
    # Java's LocalDateTime.toString: seconds only when needed, fractions in groups of three digits.
    text = f"{moment:%Y-%m-%dT%H:%M}"
    if moment.second or fraction:
        text += f":{moment:%S}"
    if fraction:
        digits = f"{fraction:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text
