"""Totals of tables equal the totals of the rows that a scan returns. The tests use random tables, and also check what
the totals are computed from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from aggregation.totals import forms, reference
from conftest import SEED
from paimon_empty import empty_table
from paimon_table.delete_random import Made, make_appended, make_nested, make_predicate

import orcidx
from orcidx.aggregation.functions import has_order
from orcidx.paimon import open_table


def origins(table: pa.Table) -> dict[str, int]:
    found: dict[str, int] = json.loads(table.schema.metadata[b"orcidx"])["rows"]
    return found


def _values(rows: pa.Table, made: Made, path: tuple[str, ...]) -> tuple[list[Any], pa.DataType]:
    column = rows[path[0]].combine_chunks()
    array = pc.struct_field(column, list(path[1:])) if len(path) > 1 else column
    return forms(array, char=made.columns[path].kind.text.startswith("CHAR")), array.type


def _ask(made: Made, rng: np.random.Generator, seen: dict[str, int]) -> None:
    """Compares random aggregates of a table with totals of the rows of a scan without a condition. ``predicate_oracle``
    selects the rows that match."""
    table = open_table(made.folder)
    rows = table.scan(jvm_zone="UTC").to_table()
    numbers = rows["id"].to_numpy()
    nan: Any = "ieee" if rng.random() < 0.6 else "largest"
    predicate = None if rng.random() < 0.3 else make_predicate(rng, made)
    mask = np.ones(made.rows, bool) if predicate is None else made.matching(predicate, nan)
    held = {path: _values(rows, made, path) for path in made.columns}
    by = [path for path in made.columns if rng.random() < 0.2][:2]
    asked: list[Any] = []
    for function in rng.choice(["count", "sum", "min", "max", "avg"], 3).tolist():
        fitting = [path for path, (_, kind) in held.items() if function in ("count", "min", "max") or _is_number(kind)]
        fitting = [path for path in fitting if function == "count" or has_order(held[path][1])]
        path = fitting[int(rng.integers(len(fitting)))] if fitting and rng.random() < 0.8 else None
        asked.append(("count", None) if path is None else (function, path))
    wanted = [(name, None, None) if path is None else (name, *held[path]) for name, path in asked]
    right = reference(np.flatnonzero(mask[numbers]), [held[path][0] for path in by], wanted, nan)
    texts = {f"c{i}": f"{name}({'*' if path is None else '.'.join(path)})" for i, (name, path) in enumerate(asked)}
    question = f"{made.how}\n  {texts} by {by} where {predicate!r} nan={nan}"
    try:
        found = table.aggregate(texts, predicate, [".".join(path) for path in by], jvm_zone="UTC", nan=nan)
    except orcidx.ValueOutOfRange:
        totals = [one for row in right.values() for one, (name, *_) in zip(row, asked) if name == "sum"]
        assert any(one is not None and abs(one) >= 10**20 for one in totals), question
        return
    got = [forms(column, char=False) for column in found.columns]
    for place, (name, _) in enumerate(asked, len(by)):
        if name == "sum" and pa.types.is_decimal(found.schema.types[place]):
            got[place] = [None if one is None else one for one in found.column(place).to_pylist()]
    assert {row[: len(by)]: row[len(by) :] for row in zip(*got)} == right, question
    for origin, count in origins(found).items():
        seen[origin] = seen.get(origin, 0) + count


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def test_random_tables(tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    for number in range(8):
        rng = np.random.default_rng([SEED, 30, number])
        made = (make_nested if number % 4 == 3 else make_appended)(rng, tmp_path / str(number))
        for case in range(12):
            if case == 6:
                predicate = make_predicate(rng, made)
                open_table(made.folder).delete(predicate, jvm_zone="UTC")
                made.deleted |= made.matching(predicate, "ieee")
            _ask(made, rng, seen)
    assert seen["decoded"]


def test_where_totals_come_from(tmp_path: Path, saves: Callable[..., bool]) -> None:
    """Groups are computed from partitions, and totals from statistics. If a deletion vector deletes rows of a file, the
    rows of this file are decoded."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "day": "DATE"}, partition_keys=["day"])
    for day in (0, 1):
        dates = pa.array([day] * 100, pa.int32()).view(pa.date32())
        open_table(folder).append(pa.table({"id": range(day * 100, day * 100 + 100), "day": dates}))
    first = open_table(folder)
    asked = {"n": "count(*)", "total": "sum(id)", "last": "max(id)"}
    found = first.aggregate(asked, by="day")
    assert [(row["n"], int(row["total"]), row["last"]) for row in found.to_pylist()] == [
        (100, 4950, 99),
        (100, 14950, 199),
    ]
    if saves("totals from statistics"):
        assert origins(found) == {"file statistics": 200}
        assert origins(first.aggregate({"n": "count(*)"}, by="day")) == {"metadata": 200}
    first.delete("id < 10")
    later = open_table(folder)
    found = later.aggregate(asked)
    assert found.to_pylist()[0] == {"n": 190, "total": 19900 - 45, "last": 199}
    if saves("totals from statistics"):
        assert origins(found) == {"file statistics": 100, "decoded": 90}
    assert first.aggregate({"n": "count(*)"}).to_pylist() == [{"n": 200}]  # this object still reads the older snapshot
    assert later.aggregate({"n": "count(*)"}, by="day")["n"].to_pylist() == [90, 100]
    later.delete("id < 100")
    assert open_table(folder).aggregate({"n": "count(*)"}, by="day")["n"].to_pylist() == [100]


def test_an_empty_table(tmp_path: Path) -> None:
    table = open_table(empty_table(tmp_path / "t"))
    assert table.aggregate({"n": "count(*)", "last": "max(id)"}).to_pylist() == [{"n": 0, "last": None}]


def test_a_char_is_compared_without_its_blanks(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "kind": "CHAR(5)"})
    open_table(folder).append(pa.table({"id": range(3), "kind": ["a", "a  ", "b"]}))
    found = open_table(folder).aggregate({"n": "count(*)"}, by="kind").to_pylist()
    assert found == [{"kind": "a", "n": 2}, {"kind": "b", "n": 1}]


def test_an_unknown_column(tmp_path: Path) -> None:
    table = open_table(empty_table(tmp_path / "t"))
    with pytest.raises(orcidx.InvalidQuery, match="nowhere"):
        table.aggregate({"n": "count(nowhere)"})


def test_groups_of_bitmaps_and_sums_of_bit_slices(tmp_path: Path, saves: Callable[..., bool]) -> None:
    """Totals use the file index, which is in the manifest or beside the file. The file also has a deletion vector."""
    options = {"file-index.bitmap.columns": "kind", "file-index.bsi.columns": "id"}
    for place, threshold in (("in the manifest", "1 MB"), ("beside the file", "1 B")):
        more = {**options, "file-index.in-manifest-threshold": threshold}
        folder = empty_table(tmp_path / place, {"id": "BIGINT", "kind": "STRING"}, **more)
        open_table(folder).append(pa.table({"id": range(300), "kind": ["a", "b", None] * 100}))
        open_table(folder).delete("id < 30")
        table = open_table(folder)
        asked = {"n": "count(*)", "total": "sum(id)", "last": "max(id)"}
        found = table.aggregate(asked, by="kind")
        assert [(row["kind"], row["n"], int(row["total"]), row["last"]) for row in found.to_pylist()] == [
            (kind, 90, sum(range(30 + first, 300, 3)), 297 + first) for first, kind in enumerate(("a", "b", None))
        ]
        if saves("indexes of a table's files"):
            assert origins(found) == {"Paimon bitmap and bsi indexes": 270}
        found = table.aggregate(asked, "kind = 'b'")
        if saves("indexes of a table's files", "Paimon index"):
            assert origins(found) == {"Paimon bsi index": 90}
        assert found["total"][0].as_py() == sum(range(31, 300, 3))


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_partitions_by_days_that_python_lacks(tmp_path: Path, form: str) -> None:
    """Python has no dates after the year 9999. Earlier, totals of a table with such dates raised ``OverflowError``."""
    columns = {"id": "BIGINT", "day": "DATE"}
    folder = empty_table(tmp_path / "t", columns, partition_keys=["day"], file__format=form)
    days = pa.array([0, 2_932_897, 2_932_897], pa.int32()).view(pa.date32())
    open_table(folder).append(pa.table({"id": range(3), "day": days}))
    for where, counts in ((None, [1, 2]), ("id < 2", [1, 1])):
        found = open_table(folder).aggregate({"n": "count(*)", "last": "max(day)"}, where, "day").sort_by("day")
        assert found["n"].to_pylist() == counts
        assert found["last"].cast(pa.int32()).to_pylist() == [0, 2_932_897]
