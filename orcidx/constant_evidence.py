"""Columns that have one value in a whole file: partition columns, and columns that the file lacks (null throughout)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from orcidx.predicate import BoundLeaf, matching_values
from orcidx.pruning import Finding, Note
from orcidx.schema_mapping import FieldSource
from orcidx.selection import RowSelection

__all__ = ["ConstantEvidence"]

Path = tuple[str, ...]


class ConstantEvidence:
    """Decides every leaf on a constant column, exactly. ``constants`` by path; ``rows`` of the file."""

    name = "constant column"

    def __init__(self, constants: Mapping[Path, FieldSource], rows: int) -> None:
        self.notes: Iterable[Note] = ()
        self._constants = constants
        self._rows = rows

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """All rows or none; see ``pruning.Evidence``."""
        source = self._constants.get(leaf.path)
        if source is None:
            return None
        value = pa.scalar(None, leaf.type) if source.value is None else source.value
        if not isinstance(value, pa.Scalar):
            value = pa.scalar(value, leaf.type)
        matches = bool(matching_values(leaf, pa.array([value.as_py()], leaf.type)).all())
        rows = RowSelection.all(self._rows) if matches else RowSelection.none(self._rows)
        shown = "null" if source.value is None else str(value)
        return Finding(rows, rows, self.name, _Value(f"is {shown} in the whole file"))


class _Value:
    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, row: int) -> str:
        return self.text
