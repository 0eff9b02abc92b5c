"""Compares random totals of the golden ORC files with totals of their rows. Many writers made these files, including
old versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregation.totals import call, forms, reference
from conftest import SEED
from goldens import GOLDEN_ORC, names_of

import orcidx
from orcidx import col
from orcidx.aggregation.functions import has_order
from orcidx.aggregation.value_forms import NAN
from orcidx.orc.metadata import TypeKind

QUESTIONS = 15
MOST_ROWS = 10_000
"""Of a larger file, only this many rows are selected, because the reference takes a microsecond for each value."""


class Columns:
    """The top-level columns of a file whose values have an order, with the values in a form that can be compared."""

    def __init__(self, path: str) -> None:
        with orcidx.open(path) as file:
            root = file.reader.root
            self.rows = min(file.num_rows, MOST_ROWS)
            kinds = dict(zip(root.names, root.children))
            names = [field.name for field in file.schema if field.name and has_order(field.type)]
            table = file.read(names, row_index=False, selection=np.arange(self.rows)) if names else None
        self.types: dict[str, pa.DataType] = {}
        self.values: dict[str, list[Any]] = {}
        self.given: dict[str, list[Any]] = {}
        for name in names:
            assert table is not None
            self.types[name] = table[name].type
            self.given[name] = table[name].to_pylist()
            self.values[name] = forms(table[name], char=kinds[name].kind is TypeKind.CHAR)

    def condition(self, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """Returns a condition and the numbers of the rows that match. The condition is a range between the values of
        two random rows, or IS NULL if one of the two values is null or NaN."""
        name = str(rng.choice(sorted(self.values)))
        first, second = (int(row) for row in rng.integers(0, self.rows, 2))
        ends = self.values[name][first], self.values[name][second]
        if None in ends or NAN in ends:
            return col(name).is_null(), np.flatnonzero([value is None for value in self.values[name]])
        if ends[0] > ends[1]:
            first, second, ends = second, first, ends[::-1]
        inside = [value not in (None, NAN) and ends[0] <= value <= ends[1] for value in self.values[name]]
        return col(name).between(self.given[name][first], self.given[name][second]), np.flatnonzero(inside)

    def function(self, rng: np.random.Generator) -> tuple[str, str | None]:
        function = str(rng.choice(["count", "min", "max", "sum", "avg", "quantile_disc:0.5"]))
        fitting = sorted(self.types)
        if function in ("sum", "avg"):
            fitting = [name for name in fitting if _is_number(self.types[name])]
        return (function, str(rng.choice(fitting))) if fitting else ("count", None)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


SOUND = [name for name in names_of(GOLDEN_ORC, "*.orc") if not str(name).startswith(("bad", "corrupt"))]


@pytest.mark.parametrize("name", SOUND)
def test_golden_files(golden_orc: Path, name: str) -> None:
    path = str(golden_orc / name)
    columns = Columns(path)
    if not columns.rows or not columns.types:
        assert orcidx.aggregate(path, {"n": "count(*)"})["n"].to_pylist() == [columns.rows]
        return
    rng = np.random.default_rng([SEED, len(name), columns.rows])
    with orcidx.open(path) as file:
        whole = file.num_rows == columns.rows
        for _ in range(QUESTIONS):
            where, rows = columns.condition(rng)
            asked = [columns.function(rng) for _ in range(3)]
            scan = file.scan(where=where, selection=None if whole else np.arange(columns.rows))
            found = scan.aggregate(
                {f"c{place}": call(one, None if of is None else (of,)) for place, (one, of) in enumerate(asked)}
            )
            wanted = [
                (one, None, None) if of is None else (one, columns.values[of], columns.types[of]) for one, of in asked
            ]
            right = reference(rows, [], wanted, "ieee")[()]
            assert tuple(_form(column) for column in found.columns) == right, (where, asked)


def _form(column: pa.ChunkedArray) -> Any:
    return forms(column, char=False)[0]
