"""Totals that come from a directory's catalog equal the totals of the files. The catalog is used for all totals that it
proves."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import SEED
from indexed_directory import index_here

import orcidx
from orcidx import col

ASKED = {
    "n": "count(*)", "c": "count(d)", "i": "sum(i)", "d": "sum(d)", "lo": "min(i)", "hi": "max(s)", "f": "max(f)",
    "day": "min(day)", "p": "sum(p)", "b": "max(b)",
}  # fmt: skip


def origins(table: pa.Table) -> dict[str, int]:
    found: dict[str, int] = json.loads(table.schema.metadata[b"orcidx"])["rows"]
    return found


def table_of(number: int, rng: np.random.Generator, rows: int = 40) -> pa.Table:
    """Returns the rows of one file. ``t`` grows from file to file."""
    start = number * 100
    return pa.table(
        {
            "t": pa.array(np.arange(start, start + rows)),
            "i": pa.array(rng.integers(-1000, 1000, rows), pa.int32(), mask=rng.random(rows) < 0.1),
            "d": pa.array([Decimal(int(one)).scaleb(-2) for one in rng.integers(-(10**9), 10**9, rows)]),
            "f": pa.array(rng.normal(size=rows), pa.float32()),
            "s": [f"{'x' * int(rng.integers(0, 70))}{one}" for one in range(rows)],
            "day": pa.array([datetime.date(2026, 1, 1) + datetime.timedelta(int(one)) for one in range(rows)]),
            "b": pa.array(rng.random(rows) < 0.5),
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes twelve files in three partitions. In one file ``i`` has another type, and one file does not have ``d``."""
    root = tmp_path_factory.mktemp("totals") / "events"
    rng = np.random.default_rng(SEED)
    for number in range(12):
        table = table_of(number, rng)
        if number == 5:
            table = table.set_column(1, "i", table["i"].cast(pa.int16()))
        if number == 7:
            table = table.drop_columns(["d"])
        (root / f"p={number % 3}").mkdir(parents=True, exist_ok=True)
        orcidx.write_table(table, root / f"p={number % 3}" / f"{number:02}.orc", row_index_stride=10)
    index_here(root, {"bitmap": {"b": {}}})
    return root


CONDITIONS = [
    None, "t between 120 and 930", "p = 1", "p <> 1 and t > 250", "t > 300 or p = 0", "i < 2000", "s is not null",
    "nothing_of = 3 or t > 0", "t >= 0 and d > 0", [("t", ">", 250.5)], col("t").isin([105, 310]), "f < 100",
]  # fmt: skip


@pytest.mark.parametrize("where", CONDITIONS, ids=str)
@pytest.mark.parametrize("by", [None, "p", "b", ["p", "b"]], ids=str)
def test_they_equal_those_of_the_files(directory: Path, where: Any, by: Any) -> None:
    if "nothing_of" in str(where):
        where = "t > 0 or d > 10"
    asked = {name: call for name, call in ASKED.items() if by is None or f"({name})" not in call}
    found = orcidx.aggregate(directory, {f"x_{name}": call for name, call in asked.items()}, where, by)
    plain = orcidx.aggregate(directory, {f"x_{name}": call for name, call in asked.items()}, where, by, indexes="none")
    assert found.to_pylist() == plain.to_pylist()
    assert "catalog" not in origins(plain)
    assert (
        orcidx.scan(directory, where=where).count_rows()
        == orcidx.scan(directory, where=where, indexes="none").count_rows()
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"s": "sum(big)", "m": "min(BIG)"},
        {"m": "min(BIG)", "s": "sum(big)"},
        {"q": "quantile_disc(big, 0.5)", "n": "count(BIG)"},
        {"m": "max(text)", "n": "count(TEXT)"},
        {"s": "sum(X)", "n": "count(x)"},
    ],
    ids=str,
)
def test_two_spellings_of_a_column(tmp_path: Path, asked: dict[str, str]) -> None:
    """A query names one column in two spellings. The catalog is used only if it proves the totals of both. It cannot
    prove a sum beyond 64 bits, a maximum of long texts, or totals of a column with NaN."""
    for number in range(2):
        columns = {"Big": [2**62] * 3, "Text": ["a", "b", "c" * 3000], "x": [1.5, 2.5, float("nan")]}
        orcidx.write_table(pa.table(columns), tmp_path / f"{number}.orc")
    index_here(tmp_path, {"bitmap": {"Text": {}}})
    found = orcidx.aggregate(tmp_path, asked, case_sensitive=False)
    plain = orcidx.aggregate(tmp_path, asked, case_sensitive=False, indexes="none")
    assert str(found.to_pylist()) == str(plain.to_pylist())
    assert "catalog" not in origins(found)


def test_a_range_opens_the_files_at_its_ends(directory: Path, saves: Callable[..., bool]) -> None:
    asked = {"n": "count(*)", "s": "sum(i)", "m": "avg(i)", "lo": "min(i)"}
    found = orcidx.aggregate(directory, asked, "t between 120 and 920", "p")
    plain = orcidx.aggregate(directory, asked, "t between 120 and 920", "p", indexes="none")
    assert found.to_pylist() == plain.to_pylist()
    assert sum(origins(found).values()) == 7 * 40 + 20 + 21
    if saves("file statistics"):
        assert origins(found)["catalog"] == 7 * 40
    whole = orcidx.aggregate(directory, {"n": "count(*)", "t": "max(t)"}, "t >= 0", "p")
    assert whole["n"].to_pylist() == [160] * 3
    if saves("file statistics"):
        assert origins(whole) == {"catalog": 480}


@pytest.mark.levels("counts without arrays", "file statistics")
def test_a_dataset_counts_as_a_scan_does(directory: Path, tmp_path: Path) -> None:
    """The catalog shows that all rows of some files match the condition. ``count_rows`` of a dataset does not open
    these files, but a scanner does."""
    copy = tmp_path / "events"
    shutil.copytree(directory, copy)
    rows = orcidx.dataset(copy)
    condition = (pc.field("t") >= 120) & (pc.field("t") <= 920)
    assert rows.count_rows(condition) == 321
    hurt = copy / "p=0" / "06.orc"
    times = hurt.stat().st_atime_ns, hurt.stat().st_mtime_ns
    hurt.write_bytes(bytes(hurt.stat().st_size))
    os.utime(hurt, ns=times)
    assert rows.count_rows(condition) == 321
    with pytest.raises(orcidx.CorruptFile):
        rows.scanner(columns=[], filter=condition).count_rows()


def test_values_that_are_no_values_are_read(directory: Path) -> None:
    """The catalog does not prove sums of floats, the maximum of strings that it truncates, or totals of a column that
    a file does not have. It proves totals of a column that has a narrower integer type in one file."""
    assert "catalog" not in origins(orcidx.aggregate(directory, {"f": "sum(f)"}))
    cut = orcidx.aggregate(directory, {"s": "max(s)"})
    assert origins(cut).get("catalog", 0) < 480
    assert origins(orcidx.aggregate(directory, {"d": "sum(d)"}))["catalog"] == 11 * 40
    wide = orcidx.aggregate(directory, {"i": "sum(i)"})
    assert origins(wide)["catalog"] == 480, "one file stores a narrower integer"


def test_files_with_a_selection_are_read(directory: Path) -> None:
    path = sorted(directory.rglob("*.orc"))[0]
    found = orcidx.aggregate(directory, {"n": "count(*)"}, deletion_vector={path: [0, 1]})
    assert found["n"][0].as_py() == 478
    assert origins(found)["catalog"] == 440


def test_files_that_changed_are_read(tmp_path: Path, saves: Callable[..., bool]) -> None:
    rng = np.random.default_rng(1)
    for number in range(4):
        orcidx.write_table(table_of(number, rng), tmp_path / f"{number}.orc")
    index_here(tmp_path, {"bitmap": {"b": {}}})
    scan = orcidx.scan(tmp_path)
    orcidx.write_table(table_of(1, rng, 17), tmp_path / "1.orc")
    orcidx.write_table(table_of(9, rng, 3), tmp_path / "9.orc")
    os.utime(tmp_path / "1.orc", ns=(0, 10**18))
    found = orcidx.aggregate(tmp_path, {"n": "count(*)", "t": "max(t)"})
    assert found.to_pylist() == [{"n": 3 * 40 + 17 + 3, "t": 902}]
    facts = json.loads(found.schema.metadata[b"orcidx"])
    assert facts["rows"] == {"catalog": 120, "file statistics" if saves("totals from statistics") else "decoded": 20}
    assert any("changed after" in note for note in facts["notes"])
    assert scan.aggregate({"n": "count(*)"})["n"][0].as_py() == 3 * 40 + 17, "the scan keeps its old listing"


@pytest.mark.parametrize("options", [{"row_index": False}, {"utf8": "replace"}, {"match": "position"}])
def test_options_by_which_values_are_read_otherwise(directory: Path, options: Any) -> None:
    one = directory / "p=0"
    found = orcidx.aggregate(one, {"s": "max(s)", "t": "max(t)"}, **options)
    assert "catalog" not in origins(found)
    assert (
        found.to_pylist()
        == orcidx.aggregate(one, {"s": "max(s)", "t": "max(t)"}, indexes="none", **options).to_pylist()
    )
