"""Statistics of a data file's columns in the form of manifests: minima, maxima and null counts, truncated as the
table's options say.

The option ``metadata.stats-mode`` is none, counts, truncate(n) or full. The option ``fields.<column>.stats-mode`` sets
the mode of one column. Text is cut to n characters. If a maximum was cut, the last character that can be increased is
increased. If no character can be increased, both bounds are unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import INTEGERS, TEXTS, TIMESTAMPS, DataField, DataType
from orcidx.paimon_table.metadata.binary_row import write_binary_row
from orcidx.paimon_table.metadata.option_values import parse_whole
from orcidx.predicate.nodes import NANOS

__all__ = ["ManifestStatistics", "StatsMode", "physical", "stats_modes", "stored_stats"]

_BOUNDED = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "DECIMAL", *TEXTS, "DATE", "TIME", *TIMESTAMPS)
_MODE = re.compile(r"(none|counts|full|truncate\((\d{1,9})\))")
_LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True)
class StatsMode:
    """Which statistics are stored for a column.

    ``kind`` is none, counts, full or truncate. ``length``: the number of characters for truncate."""

    kind: str
    length: int = 0

    @classmethod
    def parse(cls, option: str, text: str) -> StatsMode:
        found = _MODE.fullmatch(text.strip().lower())
        if found is None or found[2] == "0":
            raise InvalidQuery(f"{option} is {text!r}, but must be none, counts, truncate(n) or full")
        return cls("truncate", int(found[2])) if found[2] else cls(found[1])


def stats_modes(fields: Sequence[DataField], options: Mapping[str, str]) -> dict[str, StatsMode]:
    """The mode of each column. With ``metadata.stats-keep-first-n-columns`` = n, columns after the first n have the
    mode none."""
    default = StatsMode.parse("metadata.stats-mode", options.get("metadata.stats-mode", "truncate(16)"))
    name = "metadata.stats-keep-first-n-columns"
    most = parse_whole(name, options.get(name, "-1"), least=-1)
    modes = {}
    for number, field in enumerate(fields):
        option = f"fields.{field.name}.stats-mode"
        if option in options:
            modes[field.name] = StatsMode.parse(option, options[option])
        else:
            modes[field.name] = default if most < 0 or number < most else StatsMode("none")
    return modes


class ManifestStatistics:
    """Computes the bounds and the null count of one column from its arrays, which are added in order."""

    def __init__(self, data_type: DataType, mode: StatsMode) -> None:
        self.type = data_type
        self.mode = mode
        self.nulls = 0
        self._least: Any = None
        self._most: Any = None
        self._unordered = data_type.root not in _BOUNDED or mode.kind in ("none", "counts")

    def add(self, array: pa.Array) -> None:
        self.nulls += array.null_count
        if self._unordered or array.null_count == len(array):
            return
        if self.type.root in ("FLOAT", "DOUBLE") and pc.any(pc.is_nan(array)).as_py():
            self._unordered = True  # readers order NaN differently, so a column with NaN gets no bounds
            return
        found = pc.min_max(array)
        least, most = (physical(found[name], self.type) for name in ("min", "max"))
        if self.type.root in ("FLOAT", "DOUBLE"):
            least, most = _signed_zeros(array, least, most)
        self._least = least if self._least is None else min(self._least, least, key=_order)
        self._most = most if self._most is None else max(self._most, most, key=_order)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The minimum and the maximum in the form of ``BinaryRow``, truncated as ``mode`` says. None means unknown."""
        if self._unordered or self._least is None:
            return None, None
        if self.mode.kind == "full" or self.type.root not in TEXTS:
            return self._least, self._most
        most = _raised(self._most, self.mode.length)
        return (None, None) if most is None else (_cut(self._least, self.mode.length), most)


def stored_stats(
    fields: Sequence[DataField], columns: Mapping[str, ManifestStatistics], *, dense: bool
) -> tuple[dict[str, Any], list[str] | None]:
    """The record with a file's statistics, and the names of the columns in the record (None: all columns). With
    ``dense``, columns without statistics are left out."""
    kept = [field for field in fields if not dense or columns[field.name].mode.kind != "none"]
    types = [field.type for field in kept]
    bounds = [columns[field.name].bounds for field in kept]
    counts = [None if columns[f.name].mode.kind == "none" else columns[f.name].nulls for f in kept]
    record = {
        "_MIN_VALUES": write_binary_row(types, [least for least, _ in bounds]),
        "_MAX_VALUES": write_binary_row(types, [most for _, most in bounds]),
        "_NULL_COUNTS": counts,
    }
    return record, None if len(kept) == len(fields) else [field.name for field in kept]


def physical(scalar: pa.Scalar, data_type: DataType) -> Any:
    """Converts an Arrow value to the form of ``BinaryRow``. Null becomes None."""
    if not scalar.is_valid:
        return None
    if data_type.root in TIMESTAMPS or data_type.root == "TIME":
        return scalar.value * NANOS[scalar.type.unit]
    if data_type.root == "DATE":
        return scalar.value
    value = scalar.as_py()
    return value.encode() if isinstance(value, str) else value


def _order(value: Any) -> Any:
    """A sort key. -0.0 sorts below 0.0, as in Java."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def _signed_zeros(array: pa.Array, least: float, most: float) -> tuple[float, float]:
    """Corrects the signs of bounds that are zero. Arrow treats -0.0 and 0.0 as equal. If a column has both, a minimum
    of zero is -0.0, and a maximum of zero is 0.0."""
    if least != 0.0 and most != 0.0:
        return least, most
    zeros = pc.filter(array, pc.equal(array, 0.0))
    signs = {math.copysign(1.0, value) for value in (pc.unique(zeros).to_pylist() or [0.0])}
    least = -0.0 if least == 0.0 and -1.0 in signs else least if least != 0.0 else 0.0
    most = 0.0 if most == 0.0 and 1.0 in signs else most if most != 0.0 else -0.0
    return least, most


def _cut(value: bytes, length: int) -> bytes:
    return value.decode()[:length].encode()


def _raised(value: bytes, length: int) -> bytes | None:
    """A text of at most ``length`` characters that is not less than ``value``. The result is None if there is no such
    text.

    Surrogates are skipped, because UTF-8 cannot store them (Java would store "?", which is not a bound).
    """
    text = value.decode()
    if len(text) <= length:
        return value
    for end in range(length - 1, -1, -1):
        following = ord(text[end]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000
        if following <= _LAST_CHARACTER:
            return (text[:end] + chr(following)).encode()
    return None
