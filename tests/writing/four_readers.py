"""Checks that orcidx, pyarrow, pyorc and ORC Java read the same table as a whole, from row groups, and with predicates.

The long check is started by hand: ``PYTHONPATH=.:tests python tests/writing/four_readers.py --tables 2000 --seed 1``.
``test_four_readers.py`` runs short checks.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import orc
from writing.orc_java import OrcJava
from writing.plain_rows import arrow_rows, java_rows, open_pyorc, pyorc_row
from writing.random_tables import (
    comparable_column,
    java_question,
    matching,
    random_leaf,
    random_options,
    random_table,
)
from writing.written_tables import written

import orcidx
from orcidx.orc.kinds import TypeKind
from orcidx.orc.statistics import stripe_statistics, unit_statistics
from orcidx.planner import bloom_choice
from orcidx.predicate import Leaf, Op

pytest.importorskip("pyorc")
import pyorc
from pyorc.predicates import PredicateColumn

NANOSECONDS = {"timestamp_unit": "ns"}


def check_whole(data: bytes, expected: list[str]) -> None:
    """Checks that orcidx, pyarrow and pyorc read these rows from the file."""
    with orcidx.open(data) as file:
        found = file.read(**NANOSECONDS)
        found.validate(full=True)
    assert arrow_rows(found) == expected, "orcidx"
    assert arrow_rows(orc.read_table(io.BytesIO(data))) == expected, "pyarrow"
    reader = open_pyorc(data)
    show = pyorc_row(reader)
    assert [show(row) for row in reader] == expected, "pyorc"


def group_starts(data: bytes) -> list[int]:
    """Returns the first row of every row group of the file. The order is descending, so that readers must seek by
    positions."""
    with orcidx.open(data) as file:
        starts, at = [], 0
        for stripe in file.stripes:
            starts += range(at, at + stripe.rows, file.tail.footer.row_index_stride or stripe.rows)
            at += stripe.rows
    return starts[::-1]


def check_seeks(data: bytes, expected: list[str], starts: Sequence[int], *, with_pyorc: bool = True) -> None:
    """Checks the rows that orcidx and pyorc return after a seek. ``starts`` has the first rows of row groups. From each
    of these rows, orcidx reads up to three rows, and pyorc reads one row."""
    with orcidx.open(data) as file:
        for start in starts:
            stop = min(start + 3, len(expected))
            assert arrow_rows(file.read(row_range=(start, stop), **NANOSECONDS)) == expected[start:stop], start
    reader = open_pyorc(data)
    show = pyorc_row(reader)
    for start in starts if with_pyorc else ():
        reader.seek(start)
        assert show(next(reader)) == expected[start], f"pyorc, row {start}"


def seekable(data: bytes) -> bool:
    """Whether ORC C++ can skip rows of the file. It cannot skip rows if a stripe has a text column without values, not
    even in files that it wrote."""
    texts = {TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY}
    with orcidx.open(data) as file:
        columns = [stripe_statistics(file.tail, node) for node in file._reader.root.walk() if node.kind in texts]
        return all(
            unit_statistics(raw, stripe, hybrid=False).count for raw in columns for stripe in range(len(file.stripes))
        )


def own_leaf(leaf: Leaf, kind: str, zone: str | None) -> Leaf:
    """Returns the leaf with literals in the form that orcidx accepts."""
    if kind == "DATE":
        return replace(leaf, literals=tuple(np.datetime64(value, "D") for value in leaf.literals))
    if kind == "TIMESTAMP":
        stamps = [
            pd.Timestamp(value, unit="ns", tz=zone) if zone else np.datetime64(value, "ns") for value in leaf.literals
        ]
        return replace(leaf, literals=tuple(stamps))
    return leaf


def pyorc_predicate(leaf: Leaf, type_: Any) -> Any:
    """Returns the predicate for pyorc, or None if pyorc has no such predicate."""
    kinds = {
        "bool": "BOOLEAN", "int8": "BYTE", "int16": "SHORT", "int32": "INT", "int64": "LONG", "uint8": "SHORT",
        "uint16": "INT", "uint32": "LONG", "halffloat": "FLOAT", "float": "FLOAT", "double": "DOUBLE",
        "string": "STRING", "large_string": "STRING", "string_view": "STRING", "date32[day]": "DATE",
        "date64[ms]": "DATE",
    }  # fmt: skip
    name = kinds.get(str(type_))
    literals: tuple[Any, ...] = leaf.literals
    if pa.types.is_dictionary(type_):
        name = "STRING"
    more = {}
    if pa.types.is_decimal(type_):
        name, more = "DECIMAL", {"precision": type_.precision, "scale": type_.scale}
    if name is None or leaf.op not in (Op.EQ, Op.LT, Op.LE, Op.IN, Op.BETWEEN, Op.IS_NULL):
        return None

    def column() -> Any:
        return PredicateColumn(pyorc.TypeKind[name], leaf.path[0], **more)

    if leaf.op is Op.BETWEEN:
        found = (column() >= literals[0]) & (column() <= literals[1])
    elif leaf.op is Op.IN:
        found = column() == literals[0]
        for literal in literals[1:]:
            found = found | (column() == literal)
    else:
        literal = literals[0] if literals else None
        ops = {Op.EQ: "__eq__", Op.LT: "__lt__", Op.LE: "__le__", Op.IS_NULL: "__eq__"}
        found = getattr(column(), ops[leaf.op])(literal)
    return ~found if leaf.negated else found


class Checker:
    """Checks tables, and counts the checks. Without ``java``, only orcidx, pyarrow and pyorc read the files."""

    def __init__(self, java: OrcJava | None) -> None:
        self.java = java
        self.tally: Counter[str] = Counter()

    def check(self, table: pa.Table, options: dict[str, Any], rng: np.random.Generator, predicates: int = 6) -> None:
        """Writes a table, and checks it with each reader. If a reader returns a wrong result, raises an
        ``AssertionError`` that names this reader."""
        self.check_file(written(table, **options), table, rng, predicates)

    def check_file(self, data: bytes, table: pa.Table, rng: np.random.Generator, predicates: int = 6) -> None:
        """Checks that all readers read the rows of ``table`` from the file. Any writer may have written the file."""
        expected = arrow_rows(table)
        check_whole(data, expected)
        starts = group_starts(data)
        starts = (
            starts if len(starts) <= 30 else [starts[i] for i in sorted(rng.choice(len(starts), 30, replace=False))]
        )
        check_seeks(data, expected, starts, with_pyorc=seekable(data))
        leaves = self._leaves(table, rng, predicates)
        for leaf, kind, values in leaves:
            self._ask_own(data, table, leaf, kind, matching(leaf, values))
            self._ask_pyorc(data, table, leaf, expected, matching(leaf, values))
        if self.java is not None:
            self._ask_java(data, java_rows(expected), starts, leaves)
        self.tally["tables"] += 1

    def _leaves(self, table: pa.Table, rng: np.random.Generator, count: int) -> list[tuple[Leaf, str, list[Any]]]:
        columns = [(name, comparable_column(table.column(name).combine_chunks())) for name in table.schema.names]
        known = [(name, *found) for name, found in columns if found is not None]
        chosen = [known[int(rng.integers(len(known)))] for _ in range(count)]
        return [(random_leaf(rng, name, kind, values), kind, values) for name, kind, values in chosen]

    def _ask_own(self, data: bytes, table: pa.Table, leaf: Leaf, kind: str, wanted: list[int]) -> None:
        type_ = table.schema.field(leaf.path[0]).type
        zone = type_.tz if pa.types.is_timestamp(type_) else None
        # In small files, bloom filters are larger than the data, so they are not used by default.
        with orcidx.open(data) as file, mock.patch.object(bloom_choice, "BLOOM_SHARE", float("inf")):
            scan = file.scan(["row"], own_leaf(leaf, kind, zone))
            found = scan.to_table().column("row").to_pylist()
            self.tally["row groups skipped by orcidx"] += "bloom" in str(scan.explain())
        assert found == wanted, f"orcidx where {leaf}"
        self.tally["predicates of orcidx"] += 1

    def _ask_pyorc(self, data: bytes, table: pa.Table, leaf: Leaf, expected: list[str], wanted: list[int]) -> None:
        predicate = pyorc_predicate(leaf, table.schema.field(leaf.path[0]).type)
        if predicate is None or not seekable(data):
            return
        reader = open_pyorc(data, predicate)
        show = pyorc_row(reader)
        self._check_pruned("pyorc", leaf, [show(row) for row in reader], expected, wanted)

    def _ask_java(self, data: bytes, expected: list[str], starts: Sequence[int], leaves: Any) -> None:
        assert self.java is not None
        seeks = "\t".join(("seek", *map(str, starts)))
        questions = ["all", seeks, *(java_question(leaf, kind) for leaf, kind, _ in leaves)]
        whole, sought, *pruned = self.java.ask(data, questions)
        assert whole == expected, "ORC Java"
        assert sought == [expected[start] for start in starts], "ORC Java, after a seek"
        for (leaf, _, values), rows in zip(leaves, pruned, strict=True):
            self._check_pruned("ORC Java", leaf, rows, expected, matching(leaf, values))

    def _check_pruned(self, who: str, leaf: Leaf, rows: list[str], expected: list[str], wanted: list[int]) -> None:
        found = [int(line.partition(" ")[0]) for line in rows]
        assert rows == [expected[row] for row in found], f"{who} where {leaf}: wrong rows"
        assert set(wanted) <= set(found), f"{who} where {leaf}: lacks rows {sorted(set(wanted) - set(found))[:5]}"
        self.tally[f"predicates of {who}"] += 1
        self.tally[f"rows that {who} skipped"] += len(expected) - len(found)


def check_many(checker: Checker, numbers: range, seed: int, *, rows: int = 600) -> list[str]:
    """Checks random tables with random options. Returns the errors."""
    wrong = []
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        table = random_table(rng, int(rng.integers(0, rows)), int(rng.integers(1, 7)))
        options = random_options(rng, table)
        try:
            checker.check(table, options, rng)
        except (AssertionError, orcidx.OrcidxError) as error:
            wrong.append(f"table {number} {options}\n{table.schema}\n  {type(error).__name__}: {str(error)[:400]}")
            print(wrong[-1], flush=True)
        if number % 100 == 99:
            print(f"{number}: {dict(checker.tally)}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return wrong


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--tables", type=int, default=2000)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--no-java", action="store_true")
    asked = words.parse_args()
    start = time.monotonic()
    java = None
    if not asked.no_java:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        java = OrcJava(builder.getOrCreate(), Path(tempfile.mkdtemp()))
    checker = Checker(java)
    wrong = check_many(checker, range(asked.first, asked.tables), asked.seed)
    print(f"seed {asked.seed}: {dict(checker.tally)}, {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
