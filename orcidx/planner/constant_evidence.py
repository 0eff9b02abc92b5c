"""Evidence for columns with one value in a whole file: partition columns, and columns that the file lacks (always
null)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from orcidx.planner.schema_mapping import FieldSource
from orcidx.predicate import BoundLeaf, BoundPredicate
from orcidx.predicate.evaluation import evaluate_predicate
from orcidx.pruning.evaluate import evaluate
from orcidx.pruning.findings import Finding, Note
from orcidx.pruning.reasons import Fact, same_value_text
from orcidx.pruning.selection import RowSelection

__all__ = ["ConstantEvidence", "rules_out"]

Path = tuple[str, ...]


class ConstantEvidence:
    """Decides every leaf on a constant column exactly. ``constants`` has values by path. ``rows`` is the number of rows
    of the file."""

    name = "constant column"

    def __init__(self, constants: Mapping[Path, FieldSource], rows: int) -> None:
        self.notes: Iterable[Note] = ()
        self._constants = constants
        self._rows = rows

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """The finding has either all rows or no rows; see ``pruning.Evidence``."""
        source = self._constants.get(leaf.path)
        if source is None:
            return None
        if len(leaf.path) > 1:  # the path is a field of a struct that the file lacks
            value = pa.scalar(None, leaf.type)
        else:
            value = replace(source, field=source.field.with_type(leaf.type)).scalar
        schema = pa.schema([pa.field("value", leaf.type)])
        batch = pa.RecordBatch.from_arrays([pa.repeat(value, 1)], schema=schema)
        matches = bool(evaluate_predicate(replace(leaf, path=("value",)), batch, schema).all())
        rows = RowSelection.all(self._rows) if matches else RowSelection.none(self._rows)
        return Finding(rows, rows, self.name, Fact(same_value_text(value)))


def rules_out(where: BoundPredicate, constants: Mapping[str, Any]) -> bool:
    """Whether the constants of a file (by name) prove that none of its rows can match."""
    known: dict[Path, FieldSource] = {
        leaf.path: FieldSource(pa.field(leaf.path[0], leaf.type), None, constants[leaf.path[0]])
        for leaf in where.leaves()
        if len(leaf.path) == 1 and leaf.path[0] in constants
    }
    return bool(known) and evaluate(where.root, [ConstantEvidence(known, 1)], RowSelection.all(1)).may.is_empty
