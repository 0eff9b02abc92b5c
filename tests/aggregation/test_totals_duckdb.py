"""Random totals are compared with DuckDB's. ``ORCIDX_DUCKDB`` is the number of queries (60 in CI)."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import SEED

import orcidx
from orcidx import paimon

duckdb = pytest.importorskip("duckdb")
QUESTIONS = int(os.environ.get("ORCIDX_DUCKDB", "60"))
ROWS = 3000
TOTALS = {
    "i": ("count", "sum", "min", "max", "avg", "quantile_disc"),
    "k": ("count", "sum", "min", "max", "quantile_disc"),
    "d": ("count", "sum", "min", "max", "quantile_disc"),
    "f": ("count", "min", "max", "quantile_disc"),
    "s": ("count", "min", "max", "quantile_disc"),
    "day": ("count", "min", "max", "quantile_disc"),
}


def rows(rng: np.random.Generator) -> pa.Table:
    """Returns a table in which ``t`` grows, so that some row groups match as a whole. All columns but ``t`` have
    nulls."""
    day = datetime.date(2025, 1, 1)

    def holes() -> Any:
        return rng.random(ROWS) < 0.1

    return pa.table(
        {
            "t": np.arange(ROWS),
            "i": pa.array(rng.integers(-(10**6), 10**6, ROWS), pa.int32(), mask=holes()),
            "k": pa.array(rng.integers(-(1 << 40), 1 << 40, ROWS), mask=holes()),
            "d": pa.array([Decimal(int(one)).scaleb(-2) for one in rng.integers(-(10**9), 10**9, ROWS)], mask=holes()),
            "f": pa.array(rng.normal(size=ROWS), mask=holes()),
            "s": pa.array([f"s{one}é" for one in rng.integers(0, 300, ROWS)], mask=holes()),
            "g": pa.array(rng.integers(0, 6, ROWS), mask=holes()),
            "day": pa.array([day + datetime.timedelta(int(one)) for one in rng.integers(0, 900, ROWS)], mask=holes()),
        }
    )


def condition(rng: np.random.Generator) -> str:
    """Returns one to three comparisons, joined by AND or OR."""
    low, high = sorted(rng.integers(0, ROWS, 2).tolist())
    parts = [
        f"t BETWEEN {low} AND {high}",
        f"i {rng.choice(['<', '>', '<=', '<>'])} {int(rng.integers(-(10**6), 10**6))}",
        f"g IN ({int(rng.integers(0, 6))}, {int(rng.integers(0, 6))})",
        f"s {rng.choice(['>', '<='])} 's{int(rng.integers(0, 300))}'",
        f"d >= {int(rng.integers(-(10**6), 10**6))}.25",
        "k IS NULL",
        "f IS NOT NULL",
        f"day < DATE '2026-{int(rng.integers(1, 13)):02}-01'",
    ]
    chosen = rng.choice(parts, int(rng.integers(1, 4)), replace=False).tolist()
    text = f" {rng.choice(['AND', 'AND', 'OR'])} ".join(f"({one})" for one in chosen)
    return f"NOT ({text})" if rng.random() < 0.1 else text


def test_they_are_those_of_duckdb() -> None:
    rng = np.random.default_rng(SEED)
    connection = duckdb.connect()
    wrong = []
    for number in range(QUESTIONS):
        if number % 20 == 0:
            table = rows(rng)
            sink = pa.BufferOutputStream()
            orcidx.write_table(
                table, sink, stripe_size=int(rng.choice([20_000, 1 << 20])), max_memory=1 << 20, row_index_stride=100
            )
            data = sink.getvalue().to_pybytes()
            kinds = {"bitmap": {"g": {}}, "bsi": {"i": {}, "d": {}}, "range-bitmap": {"day": {}}}
            index = paimon.build_file_index(data, kinds) if rng.random() < 0.5 else None
        where = condition(rng) if rng.random() < 0.9 else None
        by = str(rng.choice(["g", "s"])) if rng.random() < 0.5 else None
        calls = ["count(*)"]
        for column in rng.choice(list(TOTALS), 2, replace=False).tolist():
            share = rng.choice([0.01, 0.25, 0.5, 0.9, 0.999])
            names = rng.choice(TOTALS[column], 2, replace=False).tolist()
            calls += [f"{name}({column}{f', {share}' if name == 'quantile_disc' else ''})" for name in names]
        asked = {f"x{place}": call for place, call in enumerate(calls)}
        with orcidx.open(data) as file:
            found = file.scan(where=where, file_index=index).aggregate(asked, by)
        listed = ", ".join([*([by] if by else []), *(f"{call} AS {name}" for name, call in asked.items())])
        text = f"SELECT {listed} FROM kept" + (f" WHERE {where}" if where else "") + (f" GROUP BY {by}" if by else "")
        connection.register("kept", table)
        theirs = connection.sql(text).fetchall()
        ours = [tuple(row.values()) for row in found.to_pylist()]
        if sorted(map(repr, map(plain, ours))) != sorted(map(repr, map(plain, theirs))):
            wrong.append((text, ours[:3], theirs[:3]))
    assert not wrong, wrong[0]


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts the numbers of a row to one type. Averages are rounded to twelve digits, because DuckDB adds doubles."""
    found: list[Any] = []
    for one in row:
        if isinstance(one, float):
            found.append(float(f"{one:.12g}"))
        else:
            found.append(Decimal(one).normalize() if isinstance(one, (int, Decimal)) else one)
    return tuple(found)
