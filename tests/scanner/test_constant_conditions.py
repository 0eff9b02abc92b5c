"""Conditions that pyarrow evaluates, on partition columns, missing columns, the file path and stored columns.

If all columns of a condition have one value per file, the condition decides about whole files without decoding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from indexed_directory import index_here

import orcidx

PARTITIONS = ["1", "2", "3", "__HIVE_DEFAULT_PARTITION__"]
ROWS = 30
SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64(), "gone": pa.int64(), "p": pa.int64(), "q": pa.string()})


def sound(root: Path, rng: np.random.Generator) -> pa.Table:
    """Writes files in ``p=``/``q=`` directories, without the column ``gone``. Returns their rows in the order of a
    scan."""
    tables = {}
    for number, p in enumerate(PARTITIONS):
        for q in ("a", "b c"):
            folder = root / f"p={p}" / f"q={q}"
            folder.mkdir(parents=True)
            ids = np.arange(ROWS) + 1000 * number
            v = pa.array(rng.integers(0, 5, ROWS), mask=rng.random(ROWS) < 0.2)
            orcidx.write_table(pa.table({"id": ids, "v": v}), folder / "x.orc", row_index_stride=1000)
            value = None if p.startswith("_") else int(p)
            columns = [pa.repeat(pa.scalar(one, kind), ROWS) for one, kind in ((value, pa.int64()), (q, pa.string()))]
            tables[str(folder)] = pa.table([ids, v, pa.nulls(ROWS, pa.int64()), *columns], schema=SCHEMA)
    return pa.concat_tables([tables[name] for name in sorted(tables)])


OPERANDS = [
    ("p + 0", lambda t: pc.add(t["p"], 0)),
    ("abs(p)", lambda t: pc.abs(t["p"])),
    ("-p", lambda t: pc.negate(t["p"])),
    ("coalesce(p, 2)", lambda t: pc.coalesce(t["p"], 2)),
    ("length(q)", lambda t: pc.utf8_length(t["q"])),
    ("TRY_CAST(q AS BIGINT)", lambda t: pa.chunked_array([pa.nulls(len(t), pa.int64())])),
    ("coalesce(gone, 3)", lambda t: pc.coalesce(t["gone"], 3)),
    ("gone * 2", lambda t: pc.multiply(t["gone"], 2)),
    ("p", lambda t: t["p"]),
    ("v", lambda t: t["v"]),
    ("v + p", lambda t: pc.add(t["v"], t["p"])),
]
COMPARISONS = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, ">=": pc.greater_equal}


def condition(rng: np.random.Generator, table: pa.Table, depth: int = 2) -> tuple[str, Any]:
    """Returns a condition as text, and the result that pyarrow's functions compute for it on the table."""
    if depth and rng.random() < 0.4:
        (one, first), (other, second) = (condition(rng, table, depth - 1) for _ in range(2))
        word, joined = [("AND", pc.and_kleene), ("OR", pc.or_kleene)][int(rng.integers(2))]
        return f"({one}) {word} ({other})", joined(first, second)
    text, values = OPERANDS[int(rng.integers(len(OPERANDS) - 3))]
    if rng.random() < 0.2:
        null = pc.is_null(values(table))
        return (f"{text} IS NULL", null) if rng.random() < 0.5 else (f"NOT {text} IS NULL", pc.invert(null))
    op = list(COMPARISONS)[int(rng.integers(len(COMPARISONS)))]
    if rng.random() < 0.5:
        literal = int(rng.integers(0, 5))
        return f"{text} {op} {literal}", COMPARISONS[op](values(table), literal)
    other, others = OPERANDS[int(rng.integers(len(OPERANDS)))]
    return f"{text} {op} {other}", COMPARISONS[op](values(table), others(table))


@pytest.mark.parametrize("with_index", [False, True])
def test_random_conditions(tmp_path: Path, rng: np.random.Generator, with_index: bool) -> None:
    table = sound(tmp_path, rng)
    if with_index:
        index_here(tmp_path, {"bitmap": {"v": {}}})
    for _ in range(10):
        where, matches = condition(rng, table)
        expected = table.filter(pc.fill_null(matches, fill_value=False))
        options: Any = {"nan": str(rng.choice(["ieee", "largest"])), "batch_size": int(rng.choice([7, 65536]))}
        scan = orcidx.scan(tmp_path, where=where, schema=SCHEMA, **options)
        assert scan.to_table().to_pylist() == expected.to_pylist(), where
        assert scan.count_rows() == len(expected), where
        assert orcidx.scan(tmp_path, ["p"], where, schema=SCHEMA).to_table().num_rows == len(expected), where
        found = orcidx.aggregate(tmp_path, {"n": "count(*)", "s": "sum(id)"}, where, schema=SCHEMA)
        assert found["n"][0].as_py() == len(expected), where
        assert found["s"][0].as_py() == pc.sum(expected["id"]).as_py(), where
        assert sum(one.scan().count_rows() for one in scan.splits()) == len(expected), where
        first = orcidx.scan(tmp_path, ["id"], where, schema=SCHEMA, top=[("id", "desc")], limit=3)
        assert first.to_table()["id"].to_pylist() == sorted(expected["id"].to_pylist(), reverse=True)[:3], where


def test_a_dataset_counts_them(tmp_path: Path, rng: np.random.Generator) -> None:
    table = sound(tmp_path, rng)
    rows = orcidx.dataset(tmp_path, schema=SCHEMA)
    for where in (pc.field("p") + 0 == 2, pc.is_null(pc.field("p") + 0), pc.utf8_length(pc.field("q")) > 1):
        expected = table.filter(where)
        assert rows.count_rows(filter=where) == rows.to_table(filter=where).num_rows == len(expected)


def test_a_condition_of_no_column(tmp_path: Path, rng: np.random.Generator) -> None:
    table = sound(tmp_path, rng)
    for number, rows in ((1, 0), (3, len(table))):
        where = pc.scalar(number) > pc.scalar(2)
        scan = orcidx.scan(tmp_path, where=where)
        assert scan.to_table().num_rows == scan.count_rows() == rows
        assert orcidx.aggregate(tmp_path, {"n": "count(*)"}, where)["n"].to_pylist() == [rows]


def test_the_name_of_the_file(tmp_path: Path, rng: np.random.Generator) -> None:
    """``count_rows`` and ``to_table`` find the same rows if the condition is on the file path."""
    table = sound(tmp_path, rng)
    for where, rows in (
        ("length(file_path) > 1000", 0),
        ("length(file_path) > 1", len(table)),
        (f"file_path = '{tmp_path}/p=1/q=a/x.orc'", ROWS),
        (f"upper(file_path) = upper('{tmp_path}/p=1/q=a/x.orc') AND v >= 0", None),
    ):
        scan = orcidx.scan(tmp_path, ["id"], where, file_path=True)
        found = scan.to_table().num_rows
        assert scan.count_rows() == found
        assert found == rows or (rows is None and 0 < found <= ROWS)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_partition_by_a_day_that_python_lacks(tmp_path: Path, *, indexed: bool) -> None:
    """Python has no dates before the year 1. A directory with such a date in its name raised ``OverflowError``
    earlier."""
    for day in ("0000-12-31", "2020-01-01"):
        (tmp_path / f"d={day}").mkdir()
        orcidx.write_table(pa.table({"id": [1, 2]}), tmp_path / f"d={day}" / "x.orc")
    if indexed:
        index_here(tmp_path, {"bloom-filter": {"id": {}}})
    schema = pa.schema({"id": pa.int64(), "d": pa.date32()})
    old = orcidx.scan(tmp_path, where="d < DATE '2000-01-01'", schema=schema)
    assert old.to_table()["d"].cast(pa.string()).to_pylist() == ["0000-12-31"] * 2
    assert old.count_rows() == 2
    assert "is 0000-12-31 in the whole file" in str(old.explain())
    found = orcidx.aggregate(tmp_path, {"n": "count(*)", "last": "max(d)"}, by="d", schema=schema)
    assert [text for name in ("d", "last") for text in found[name].cast(pa.string()).to_pylist()] == [
        "0000-12-31",
        "2020-01-01",
    ] * 2
