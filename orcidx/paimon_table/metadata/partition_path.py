"""The directory of a partition: ``dt=2024-01-01/region=a%2Fb/``."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from typing import Any

from orcidx.errors import Unsupported
from orcidx.paimon.data_types import BINARIES, BYTE_STRINGS, INTEGERS, DataField, DataType
from orcidx.predicate.nodes import NANOS

__all__ = ["depends_on_jvm", "partition_path", "partition_pattern"]

_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{}[]^") | {chr(code) for code in range(32)}
_EPOCH = datetime.datetime(1970, 1, 1)
_NOT_JAVAS_BLANKS = "\x85\xa0\u2007\u202f"
"""Characters that are white space in Python, but not for Java's ``Character.isWhitespace``."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def partition_path(fields: Sequence[DataField], values: Sequence[Any], *, default_name: str, legacy: bool) -> str:
    """The path of a partition with a slash at its end. The result is empty for a table without partitions.

    ``values`` have the form of ``BinaryRow``. ``default_name`` is used for null and for blank text. With ``legacy``
    (the table option ``partition.legacy-name``) dates are day numbers and timestamps are ISO 8601. Raises
    ``Unsupported`` for a value whose text is not the same in every JVM (``depends_on_jvm``).
    """
    parts = []
    for field, value in zip(fields, values):
        if value is not None and depends_on_jvm(field.type, legacy=legacy):
            raise Unsupported(
                f"the directory name of a partition by {field.type} depends on the JVM that writes it: "
                f"{_why(field.type)}",
                column=field.name,
            )
        parts.append(f"{_escape(field.name)}={_part(field.type, value, default_name, legacy)}/")
    return "".join(parts)


def partition_pattern(
    fields: Sequence[DataField], values: Sequence[Any], *, default_name: str, legacy: bool
) -> re.Pattern[str]:
    """A pattern for the paths of a partition. It accepts any text for a value whose text depends on the JVM."""
    parts = []
    for field, value in zip(fields, values):
        free = value is not None and depends_on_jvm(field.type, legacy=legacy)
        text = "[^/]+" if free else re.escape(_part(field.type, value, default_name, legacy))
        parts.append(f"{re.escape(_escape(field.name))}={text}/")
    return re.compile("".join(parts))


def depends_on_jvm(data_type: DataType, *, legacy: bool) -> bool:
    """Whether the text of a value in Paimon's Java depends on Java's version or time zone, or changes with each
    call."""
    root = data_type.root
    if root in BINARIES:
        return legacy
    return root in ("FLOAT", "DOUBLE") or (root == "TIMESTAMP_LTZ" and not legacy)


def _why(data_type: DataType) -> str:
    if data_type.root in ("FLOAT", "DOUBLE"):
        return "Java before 19 writes 2E23 as 1.9999999999999998E23; write the rows with Paimon's Java"
    if data_type.root == "TIMESTAMP_LTZ":
        return "the JVM writes the time of its own zone; write the rows with Paimon's Java"
    return (
        "with partition.legacy-name Java uses Object.toString: its text differs in each call, so no reader can find "
        "the directory by the value"
    )


def _part(data_type: DataType, value: Any, default_name: str, legacy: bool) -> str:
    text = "" if value is None else _text(data_type, value, legacy)
    blank = not text.strip() and not any(char in _NOT_JAVAS_BLANKS for char in text)
    return _escape(default_name if blank else text)


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _text(data_type: DataType, value: Any, legacy: bool) -> str:
    root = data_type.root
    if root in BYTE_STRINGS:
        # For the three bytes of an encoded surrogate, Java's decoder writes one replacement character. Python's decoder
        # would write three.
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}".encode(), bytes(value)).decode("utf-8", "replace")
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root in INTEGERS:
        return str(value)
    if root == "DECIMAL" and isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if root == "DATE":
        return str(value) if legacy else _date(value, data_type).isoformat()
    if root == "TIME":
        millis = value // NANOS["ms"]
        return str(millis) if legacy else _time(millis, data_type.precision)
    if root == "TIMESTAMP" or (root == "TIMESTAMP_LTZ" and legacy):
        return _timestamp(data_type, value, legacy)
    raise Unsupported(f"orcidx does not know how Paimon names the directories of partitions by {data_type}")


def _date(days: int, data_type: DataType) -> datetime.date:
    try:
        return _EPOCH.date() + datetime.timedelta(days=days)
    except OverflowError:
        raise Unsupported(
            f"a partition by {data_type} has the date {days} days from 1970, outside the years 1 to 9999"
        ) from None


def _time(millis: int, precision: int) -> str:
    """The text of a time of day. If ``precision`` is 0, it has no fraction. Otherwise the fraction has between one and
    ``precision`` digits, without unneeded zeros at its end."""
    seconds, millis = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision == 0:
        return text
    return f"{text}.{f'{millis:03d}'.rstrip('0')[:precision] or '0'}"


def _timestamp(data_type: DataType, nanos: int, legacy: bool) -> str:
    seconds, fraction = divmod(nanos, NANOS["s"])
    day = _date(seconds // 86400, data_type).isoformat()
    second = seconds % 86400
    minutes = f"{second // 3600:02d}:{second // 60 % 60:02d}"
    digits = f"{fraction:09d}"
    if not legacy:
        digits = digits[: data_type.precision] + digits[data_type.precision :].rstrip("0")
        return f"{day} {minutes}:{second % 60:02d}" + (f".{digits}" if digits else "")
    # The text is the same as in Java's LocalDateTime.toString. Seconds are written only if they are needed, and a
    # fraction has 3, 6 or 9 digits.
    text = f"{day}T{minutes}"
    if second % 60 or fraction:
        text += f":{second % 60:02d}"
    if fraction:
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text
