"""Which data files can hold a row that matches: by their partition values and their minima, maxima and null counts.

The span of this evidence is a list of files, one "row" per file, so that it combines per leaf like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile
from orcidx.paimon.data_types import DataField, DataType
from orcidx.paimon_table.binary_row import BinaryRow
from orcidx.paimon_table.manifest import FileEntry, RowStats
from orcidx.paimon_table.schema import TableSchema
from orcidx.predicate import BoundLeaf, Domain, Op
from orcidx.pruning.evaluate import Finding, Note
from orcidx.pruning.selection import RowSelection

__all__ = ["Bounds", "FileBounds", "may_be_true", "partition_bounds", "value_bounds"]

_ORDERED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"})
_ORDERED |= {"BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TEXTS = frozenset({"VARCHAR", "CHAR"})
_MILLI = 1_000_000


@dataclass(frozen=True)
class Bounds:
    """What is known of a column in one file: least and largest value (None: unknown), nulls (None: unknown), rows."""

    low: Any
    high: Any
    nulls: int | None
    rows: int

    @classmethod
    def all_null(cls, rows: int) -> Bounds:
        """A column without a value."""
        return cls(None, None, rows, rows)

    def __str__(self) -> str:
        if self.nulls == self.rows:
            return "all null"
        values = "" if self.low is None and self.high is None else f"min {_show(self.low)}, max {_show(self.high)}, "
        return f"{values}{'?' if self.nulls is None else self.nulls} of {self.rows} null"


def _show(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class FileBounds:
    """Evidence over a list of files; ``bounds_of`` gives what is known of a top-level column in file ``i``, or None."""

    def __init__(self, name: str, files: int, bounds_of: Callable[[int, str], Bounds | None]) -> None:
        self.name = name
        self.notes: list[Note] = []
        self._files = files
        self._bounds_of = bounds_of

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """See ``orcidx.pruning.evaluate.Evidence``."""
        if len(leaf.path) != 1:
            return None
        known: dict[int, str] = {}
        may = np.ones(self._files, dtype=bool)
        for i in alive.positions().tolist():
            try:
                bounds = self._bounds_of(i, leaf.path[0])
            except CorruptFile as error:
                self.notes.append(Note(self.name, "damaged", str(error), leaf.column))
                continue
            if bounds is not None and not may_be_true(leaf, bounds):
                may[i] = False
                known[i] = str(bounds)
        if not known:
            return None
        return Finding(RowSelection.from_mask(may), RowSelection.none(self._files), self.name, _Described(known))


@dataclass(frozen=True)
class _Described:
    texts: dict[int, str]

    def __call__(self, files: npt.NDArray[np.int64]) -> list[str]:
        return [self.texts.get(file, "") for file in files.tolist()]


# ---------------------------------------------------------------------- from manifests


def partition_bounds(fields: Sequence[DataField], values: Sequence[Any], rows: int) -> dict[str, Bounds]:
    """A partition column has one value in all rows."""
    return {
        field.name: Bounds.all_null(rows) if value is None else Bounds(*_compared(field.type, value, value), 0, rows)
        for field, value in zip(fields, values)
    }


def _compared(data_type: DataType, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds as predicates compare them: a CHAR has no blanks at its end, while manifests have it padded.

    Without its blanks a value is at most what it was, so that the maximum holds as it is. The minimum holds up to its
    first byte below the blank: "a" comes before "a\\x01", and "a " after it.
    """
    if data_type.root != "CHAR" or low is None or high is None:
        return low, high
    if low == high:
        return low.rstrip(b" "), high.rstrip(b" ")
    least = next((place for place, byte in enumerate(low) if byte < ord(" ")), len(low))
    return low[:least].rstrip(b" "), high


def value_bounds(entry: FileEntry, file_schema: TableSchema, field: DataField) -> Bounds | None:
    """What the manifest says of the table's ``field`` in a file that was written with ``file_schema``.

    A field that the file is too old to have is null in every row. None: nothing is known. Raises ``CorruptFile``.
    """
    columns = entry.value_stats_columns
    if columns is None:
        columns = entry.written_columns or tuple(other.name for other in file_schema.fields)
    file_field = next((other for other in file_schema.fields if other.id == field.id), None)
    if file_field is None:
        return Bounds.all_null(entry.rows)
    if file_field.name not in columns or not _comparable(file_field.type, field.type):
        return None
    return stats_bounds(entry.value_stats, columns.index(file_field.name), file_field.type, entry.rows)


def stats_bounds(stats: RowStats, position: int, data_type: DataType, rows: int) -> Bounds:
    """Column ``position`` of the statistics of ``rows`` rows."""
    counts = stats.null_counts
    nulls = counts[position] if counts is not None and position < len(counts) else None
    if nulls is not None and not 0 <= nulls <= rows:
        raise CorruptFile(f"{nulls} nulls in {rows} rows")
    low = BinaryRow(stats.minima).value(position, data_type)
    high = BinaryRow(stats.maxima).value(position, data_type)
    if data_type.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and high is not None and high % _MILLI == 0:
        high += _MILLI - 1  # some ORC writers record maxima in whole milliseconds
    if isinstance(low, float) and (low != low or high != high):
        low = high = None  # a NaN that came first hides the others
    if low is not None and high is not None and high < low:
        raise CorruptFile(f"minimum {_show(low)} is above maximum {_show(high)}")
    return Bounds(*_compared(data_type, low, high), nulls, rows)


def _comparable(file: DataType, table: DataType) -> bool:
    """Whether bounds in the file's type hold for the table's: CHAR compares trimmed, which its bounds do not."""
    if file.root not in _ORDERED or table.root not in _ORDERED:
        return False
    return file.root == table.root or {file.root, table.root} <= _INTEGERS or {file.root, table.root} <= _TEXTS


# ---------------------------------------------------------------------- one leaf


def may_be_true(leaf: BoundLeaf, bounds: Bounds) -> bool:
    """Whether the leaf can be TRUE of any row within the bounds; errs on the side of yes."""
    empty, some_null = bounds.nulls == bounds.rows, bounds.nulls != 0
    if leaf.op is Op.IS_NULL:
        return not empty if leaf.negated else some_null
    if leaf.op is Op.EQ_NULL_SAFE and leaf.negated and some_null:
        return True
    if empty:
        return False
    if bounds.low is None or bounds.high is None:
        return True
    if leaf.domain is Domain.FLOAT:
        return _float_may_be_true(leaf, bounds)
    if leaf.negated:
        return not _surely_true(leaf, bounds.low, bounds.high)
    return _inside(leaf, bounds.low, bounds.high)


def _float_may_be_true(leaf: BoundLeaf, bounds: Bounds) -> bool:
    """Bounds of floats leave NaN out, which answers TRUE to every negated leaf, and to > where it is the largest."""
    if leaf.negated or (leaf.nan == "largest" and leaf.op in (Op.GT, Op.GE)):
        return True
    return _inside(leaf, bounds.low, bounds.high)


def _inside(leaf: BoundLeaf, low: Any, high: Any) -> bool:
    """Whether any value from ``low`` to ``high`` may answer TRUE to the leaf as it is without its negation."""
    op, literals = leaf.op, leaf.literals
    if op in (Op.EQ, Op.EQ_NULL_SAFE, Op.IN):
        return any(low <= value <= high for value in literals)
    if op is Op.LT:
        return bool(low < literals[0])
    if op is Op.LE:
        return bool(low <= literals[0])
    if op is Op.GT:
        return bool(high > literals[0])
    if op is Op.GE:
        return bool(high >= literals[0])
    if op is Op.BETWEEN:
        return bool(low <= literals[1] and high >= literals[0])
    if op is Op.STARTS_WITH:
        prefix = literals[0]
        return bool(low[: len(prefix)] <= prefix <= high)
    return True


def _surely_true(leaf: BoundLeaf, low: Any, high: Any) -> bool:
    """Whether every value from ``low`` to ``high`` answers TRUE to the leaf without its negation."""
    op, literals = leaf.op, leaf.literals
    if op in (Op.EQ, Op.EQ_NULL_SAFE, Op.IN):
        return bool(low == high and low in literals)
    if op is Op.LT:
        return bool(high < literals[0])
    if op is Op.LE:
        return bool(high <= literals[0])
    if op is Op.GT:
        return bool(low > literals[0])
    if op is Op.GE:
        return bool(low >= literals[0])
    if op is Op.BETWEEN:
        return bool(literals[0] <= low and high <= literals[1])
    if op is Op.STARTS_WITH:
        return bool(low.startswith(literals[0]) and high.startswith(literals[0]))
    return False
