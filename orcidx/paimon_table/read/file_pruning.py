"""Finds the data files that can contain a matching row, by their partition values, minima, maxima and null counts.

``orcidx.pruning`` evaluates a predicate with statistics or indexes that say which rows may match. This module uses
``orcidx.pruning`` for a list of files, as if each file were one row. So the results for the leaves of a predicate are
combined in the same way as for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile
from orcidx.orc.statistics_text import value_text
from orcidx.paimon.data_types import BINARIES, INTEGERS, TIMESTAMPS, DataField, DataType
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.paimon_table.metadata.manifest import FileEntry, RowStats
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.predicate import BoundLeaf, Domain
from orcidx.predicate.literals import domain_of
from orcidx.predicate.nodes import NANOS
from orcidx.pruning.bounds import ColumnBounds, ValueBounds, leaf_in_bounds
from orcidx.pruning.findings import Finding, Note
from orcidx.pruning.selection import RowSelection
from orcidx.spellings import counted

__all__ = ["Bounds", "FileBounds", "partition_bounds", "value_bounds"]

_ORDERED = frozenset({"BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"})
_ORDERED |= {*BINARIES, "DATE", "TIME", *TIMESTAMPS}


@dataclass(frozen=True)
class Bounds:
    """The minimum, the maximum, the null count and the row count of a column in one file. None means unknown."""

    low: Any
    high: Any
    nulls: int | None
    rows: int

    @classmethod
    def all_null(cls, rows: int) -> Bounds:
        """The bounds of a column in which every row is null."""
        return cls(None, None, rows, rows)

    def text(self, leaf: BoundLeaf) -> str:
        """The known bounds and nulls, in the form in which the statistics of ORC files are shown."""
        if self.nulls == self.rows:
            return "every row is null"
        ends = (("min", self.low), ("max", self.high))
        facts = [f"{side} {value_text(end, leaf.domain, leaf.type)}" for side, end in ends if end is not None]
        if self.nulls is not None:
            facts.append(f"{self.nulls:,} of {counted(self.rows, 'row')} null" if self.nulls else "no null")
        return ", ".join(facts)


class FileBounds:
    """Decides for each file of a list whether the file may have rows for which a leaf is true. ``bounds_of`` returns
    the bounds of a top-level column in file ``i``, or None."""

    def __init__(self, name: str, files: int, bounds_of: Callable[[int, str], Bounds | None]) -> None:
        self.name = name
        self.notes: list[Note] = []
        self._files = files
        self._bounds_of = bounds_of

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Returns which of the files in ``alive`` may have a row for which the leaf is true, and in which files the
        leaf is true for all rows. The result is None if the bounds prove nothing. See
        ``orcidx.pruning.evaluate.Evidence.test``."""
        if len(leaf.path) != 1:
            return None
        known: dict[int, Bounds] = {}
        for i in alive.positions().tolist():
            try:
                bounds = self._bounds_of(i, leaf.path[0])
            except CorruptFile as error:
                self.notes.append(Note(self.name, "damaged", str(error), leaf.column))
                continue
            if bounds is not None:
                known[i] = bounds
        if not known:
            return None
        may, must = np.ones(self._files, np.bool_), np.zeros(self._files, np.bool_)
        files = list(known)
        may[files], must[files] = leaf_in_bounds(leaf, _together(list(known.values()), leaf))
        if may.all() and not must.any():
            return None
        return Finding(RowSelection.from_mask(may), RowSelection.from_mask(must), self.name, _Described(known, leaf))


def _together(known: Sequence[Bounds], leaf: BoundLeaf) -> ColumnBounds:
    """Puts the bounds of all files into arrays. Bounds of floats do not include NaN, so any file may have a NaN."""
    return ColumnBounds(
        lower=ValueBounds.of([bounds.low for bounds in known]),
        upper=ValueBounds.of([bounds.high for bounds in known]),
        may_null=np.array([bounds.nulls != 0 for bounds in known], np.bool_),
        all_null=np.array([bounds.nulls == bounds.rows for bounds in known], np.bool_),
        may_nan=np.full(len(known), leaf.domain is Domain.FLOAT),
    )


@dataclass(frozen=True)
class _Described:
    known: Mapping[int, Bounds]
    leaf: BoundLeaf

    def __call__(self, files: npt.NDArray[np.int64]) -> list[str]:
        return [self.known[file].text(self.leaf) if file in self.known else "" for file in files.tolist()]


# ---------------------------------------------------------------------- from manifests


def partition_bounds(fields: Sequence[DataField], values: Sequence[Any], rows: int) -> dict[str, Bounds]:
    """The bounds of the partition columns, which have one value in all rows. Bounds of floats do not include NaN."""
    return {
        field.name: Bounds.all_null(rows) if value is None else Bounds(*_compared(field.type, value, value), 0, rows)
        for field, value in zip(fields, values)
        if value == value
    }


def _compared(data_type: DataType, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds in the form that predicates compare. In this form CHAR values have no trailing blanks, but in manifests
    they are padded.

    A value without its trailing blanks is never larger than the padded value, so the maximum stays valid. The minimum
    is cut at its first byte that is less than a blank. Otherwise the minimum would not be a bound: "a" sorts before
    "a\\x01", but "a " sorts after "a\\x01".
    """
    if data_type.root != "CHAR" or low is None or high is None:
        return low, high
    if low == high:
        return low.rstrip(b" "), high.rstrip(b" ")
    least = next((place for place, byte in enumerate(low) if byte < ord(" ")), len(low))
    return low[:least].rstrip(b" "), high


def value_bounds(entry: FileEntry, file_schema: TableSchema, field: DataField) -> Bounds | None:
    """The bounds of the table's ``field`` in one file, as the manifest gives them. ``file_schema``: the schema with
    which the file was written.

    A field that was added after the file was written is null in every row. The result is None if nothing is known.
    Raises ``CorruptFile`` for damaged statistics.
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
    """The bounds of the column at ``position``, from statistics that describe ``rows`` rows."""
    counts = stats.null_counts
    nulls = counts[position] if counts is not None and position < len(counts) else None
    if nulls is not None and not 0 <= nulls <= rows:
        raise CorruptFile(
            f"the statistics of a column have the null count {nulls}, but it must be from 0 to {rows}, the number of "
            "rows"
        )
    low = BinaryRow(stats.minima).value(position, data_type)
    high = BinaryRow(stats.maxima).value(position, data_type)
    if data_type.root in TIMESTAMPS and high is not None and high % NANOS["ms"] == 0:
        high += NANOS["ms"] - 1  # some ORC writers cut maxima to whole milliseconds, so the true maximum may be larger
    if isinstance(low, float) and (low != low or high != high):
        low = high = None  # if a bound is NaN, neither bound is reliable
    if low is not None and high is not None and high < low:
        kind = data_type.arrow_type
        least, most = (value_text(end, domain_of(kind), kind) for end in (low, high))
        raise CorruptFile(f"a column has the minimum {least}, which is greater than its maximum {most}")
    return Bounds(*_compared(data_type, low, high), nulls, rows)


def _comparable(file: DataType, table: DataType) -> bool:
    """Whether bounds in the file's type are valid for the table's type. Bounds are never valid if one of the types is
    CHAR: CHAR values are compared without trailing blanks, but the bounds contain trailing blanks."""
    if file.root not in _ORDERED or table.root not in _ORDERED:
        return False
    return file.root == table.root or (file.root in INTEGERS and table.root in INTEGERS)
