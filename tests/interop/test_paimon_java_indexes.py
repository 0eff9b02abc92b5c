"""Paimon's own reader gives the same answers as orcidx for indexes that orcidx writes, and these answers are right."""

from __future__ import annotations

import datetime
import decimal
import math
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from paimon_kinds import supports
from paimon_oracle import first_values, holds, is_nan
from pyroaring import BitMap

from orcidx import paimon
from orcidx.paimon.container import Container, Entry, write_container
from orcidx.paimon.index import EmptyIndex
from orcidx.predicate import col

KINDS = {
    "bloom-filter": ("bloom-filter", {"items": 50, "fpp": 0.01}),
    "bitmap1": ("bitmap", {"version": 1}),
    "bitmap2": ("bitmap", {"version": 2, "index-block-size": "256b"}),
    "range-bitmap": ("range-bitmap", {}),
    "range-small": ("range-bitmap", {"chunk-size": "40b"}),
    "bsi": ("bsi", {}),
}
OPERATIONS = {
    "equal": "eq",
    "notEqual": "neq",
    "lessThan": "lt",
    "lessOrEqual": "lte",
    "greaterThan": "gt",
    "greaterOrEqual": "gte",
    "in": "in",
    "notIn": "notin",
    "between": "between",
    "isNull": "isnull",
    "isNotNull": "isnotnull",
    "startsWith": "startswith",
}


def number(value: Any) -> str:
    """Returns a float as text for Java's parsers."""
    return "NaN" if is_nan(value) else str(value).replace("inf", "Infinity")


@dataclass(frozen=True)
class Case:
    """A type, values of this type, and a function that makes the text of a value for Java's parser."""

    sql: str
    arrow: pa.DataType
    pool: list[Any]
    text: Callable[[Any], str] = str


def whole(sql: str, kind: pa.DataType) -> Case:
    top = (1 << (kind.bit_width - 1)) - 1
    return Case(sql, kind, [0, 1, -1, 2, 7, -100, 100, top, -top, top - 1])


def real(sql: str, kind: pa.DataType) -> Case:
    pool = [0.0, -0.0, 1.5, -1.5, 0.25, 2.0**100, math.inf, -math.inf, math.nan, 2.0**-20]
    return Case(sql, kind, pool, number)


def money(precision: int) -> Case:
    pool = [decimal.Decimal(text) for text in ("0.00", "1.50", "-1.50", "0.01", "1234567.89", "-1234567.89", "2.00")]
    return Case(f"DECIMAL({precision}, 2)", pa.decimal128(precision, 2), pool)


def moments(sql: str, unit: str, zone: str | None = None) -> Case:
    micros = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    start = datetime.datetime(1970, 1, 1, tzinfo=zone and datetime.UTC)
    pool = [start + datetime.timedelta(microseconds=n * micros) for n in (0, 1, -1, 999, 10**9, -(10**8), 1_000_001)]
    return Case(sql, pa.timestamp(unit, zone), pool)


def in_java(case: Case, value: Any, zone: str) -> str:
    """Returns the text of a literal. Paimon reads a timestamp with time zone in the JVM's zone."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
    return case.text(value)


TEXTS = ["", "a", "ab", "abc", "b", "é", "中文", "😀", "a ", "z" * 40, "Z"]
DAYS = [datetime.date(1970, 1, 1) + datetime.timedelta(days=n) for n in (0, 1, -1, 20000, -5000, 365)]
TIMES = [datetime.time(0), datetime.time(0, 0, 0, 1000), datetime.time(12, 30), datetime.time(23, 59, 59, 999000)]
CASES = [
    Case("BOOLEAN", pa.bool_(), [True, False], lambda value: str(value).lower()),
    whole("TINYINT", pa.int8()),
    whole("SMALLINT", pa.int16()),
    whole("INT", pa.int32()),
    whole("BIGINT", pa.int64()),
    real("FLOAT", pa.float32()),
    real("DOUBLE", pa.float64()),
    money(9),
    money(20),
    Case("DATE", pa.date32(), DAYS),
    Case("TIME(3)", pa.time32("ms"), TIMES, lambda value: value.isoformat("milliseconds")),
    moments("TIMESTAMP(0)", "s"),
    moments("TIMESTAMP(3)", "ms"),
    moments("TIMESTAMP(6)", "us"),
    moments("TIMESTAMP(6) WITH LOCAL TIME ZONE", "us", "UTC"),
    Case("CHAR(5)", pa.string(), [text[:5] for text in TEXTS]),
    Case("VARCHAR(50)", pa.string(), TEXTS),
    Case("STRING", pa.string(), TEXTS),
    Case("BYTES", pa.binary(), [text.encode() for text in TEXTS], lambda value: value.decode()),
]


def questions(case: Case, columns: list[str], rng: np.random.Generator, count: int) -> list[tuple[str, str, list[Any]]]:
    """Returns (column, operation of Paimon's PredicateBuilder, literals) for each operation once, and for random
    ones."""
    found = []
    for column in columns:
        for operation in [*OPERATIONS, *map(str, rng.choice(list(OPERATIONS), count))]:
            if operation == "startsWith" and case.arrow != pa.string():
                continue
            sizes = {"in": int(rng.integers(1, 4)), "notIn": int(rng.integers(1, 4)), "between": 2}
            size = sizes.get(operation, 0 if operation.startswith("is") else 1)
            found.append((column, operation, [case.pool[int(i)] for i in rng.integers(0, len(case.pool), size)]))
    return found


def java_order(value: Any) -> Any:
    """Returns a key that sorts floats as Java does: -0.0 is below 0.0, and NaN is the largest."""
    if not isinstance(value, float):
        return value
    return (math.inf, 2.0) if is_nan(value) else (value, math.copysign(1, value))


def rows_in_java(kind: str, op: str, values: list[Any], literals: list[Any]) -> BitMap:
    """Returns the rows that Java's readers name. They are the rows of the predicate, except that -0.0 and 0.0 differ,
    and that <> and NOT IN of a bitmap include null rows."""
    asked = list(map(java_order, literals))
    rows = BitMap(row for row, value in enumerate(values) if holds(op, java_order(value), asked))
    if kind == "bitmap" and op in ("neq", "notin"):
        rows |= BitMap(row for row, value in enumerate(values) if value is None)
    return rows


def is_bug_of_nulls(kind: str, op: str, positions: list[int]) -> bool:
    """Whether this is Paimon's issue 9140. If all values are null, a range-bitmap names only the first and last row."""
    return (kind, op, positions) == ("range-bitmap", "isnull", [0, NULLS - 1])


NULLS = 5


def columns_of(case: Case, rng: np.random.Generator) -> dict[str, list[Any]]:
    def some(count: int) -> list[Any]:
        return [case.pool[int(i)] for i in rng.integers(0, len(case.pool), count)]

    mixed = [None if rng.random() < 0.2 else value for value in some(80)]
    constant = [case.pool[1]] * 9
    return {"mixed": mixed, "complete": some(50), "nulls": [None] * NULLS, "one": some(1), "constant": constant}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sql)
def test_every_kind_alone(paimon_java: Any, rng: np.random.Generator, case: Case) -> None:
    kinds = {name: how for name, how in KINDS.items() if supports(how[0], case.sql)}
    types = dict.fromkeys(kinds, case.sql)
    zone = str(paimon_java.jvm.java.util.TimeZone.getDefault().getID())
    for shape, values in columns_of(case, rng).items():
        rows = pa.table(dict.fromkeys(kinds, pa.array(values, case.arrow)))
        spec: dict[str, dict[str, Any]] = {}
        for name, (kind, options) in kinds.items():
            spec.setdefault(kind, {})[name] = options
        index = paimon.build_file_index(rows, spec, types=types)
        asked = questions(case, list(kinds), rng, 12)
        texts = [[name, operation, *(in_java(case, x, zone) for x in literals)] for name, operation, literals in asked]
        answers = paimon_java.answers(index.to_bytes(), types, texts)
        for (name, operation, literals), (kind_of_answer, positions) in zip(asked, answers):
            kind, op = kinds[name][0], OPERATIONS[operation]
            one = index.index(name, kind)
            assert one is not None
            ours = one.evaluate(op, literals)
            true = BitMap(row for row, value in enumerate(values) if holds(op, value, literals))
            where = (shape, name, operation, literals)
            if kind == "bloom-filter":
                assert ours.kind == ("remain" if true or op not in one.answered else ours.kind), where
                zeros = case.arrow in (pa.float32(), pa.float64()) and 0.0 in literals
                assert kind_of_answer == ours.kind.upper() or (zeros and kind_of_answer == "SKIP"), where
            elif op not in one.answered:
                assert (kind_of_answer, ours.kind) == ("REMAIN", "remain"), where
            else:
                assert ours.exact, where
                assert (ours.rows or BitMap()) == true, where
                assert kind_of_answer == ("ROWS" if positions else "SKIP"), where
                expected = rows_in_java(kind, op, values, literals)
                excused = shape == "nulls" and is_bug_of_nulls(kind, op, positions)
                assert BitMap(positions) == expected or excused, where


def test_an_index_without_payload(paimon_java: Any, rng: np.random.Generator) -> None:
    case = next(case for case in CASES if case.sql == "STRING")
    kinds = ["bloom-filter", "bitmap", "range-bitmap"]
    data = write_container(Container(tuple(Entry(kind, kind, None) for kind in kinds)))
    types = dict.fromkeys(kinds, case.sql)
    asked = [question for question in questions(case, kinds, rng, 5) if question[1] not in ("in", "notIn", "between")]
    answers = paimon_java.answers(data, types, [[name, operation, *literals] for name, operation, literals in asked])
    for (name, operation, literals), (answer, _) in zip(asked, answers):
        ours = paimon.read_file_index(data, types=types).index(name, name)
        assert isinstance(ours, EmptyIndex)
        assert ours.evaluate(OPERATIONS[operation], literals).kind.upper() == answer, (name, operation)


ODD = "n\0ul-é-中-😀"
TREE_TYPES = {"i": "INT", "s": "STRING", "l": "BIGINT", ODD: "INT", "m[k]": "INT"}
TREE_SPEC: dict[str, dict[str, dict[str, Any]]] = {
    "bitmap": {"s": {}, ODD: {}, "m[k]": {}},
    "bloom-filter": {"s": {"items": 20}, "l": {"items": 40, "fpp": 0.01}, "i": {"items": 40}},
    "range-bitmap": {"i": {}, "s": {}},
    "bsi": {"l": {}, "i": {}},
}


def tree_rows(rng: np.random.Generator) -> pa.Table:
    def draw(low: int, high: int) -> list[int | None]:
        return [None if rng.random() < 0.15 else int(x) for x in rng.integers(low, high, 200)]

    return pa.table(
        {
            "i": pa.array(draw(-5, 15), pa.int32()),
            "s": pa.array([x and f"s{x}" for x in draw(1, 12)]),
            "l": pa.array(draw(0, 30), pa.int64()),
            ODD: pa.array(draw(0, 4), pa.int32()),
            "m": pa.array([x and [("k", x), ("z", 0)] for x in draw(1, 5)], pa.map_(pa.string(), pa.int32())),
        }
    )


def both_leaves(paimon_java: Any, rng: np.random.Generator) -> tuple[Any, Any, str]:
    """Returns a random comparison as a predicate of orcidx and of Paimon, and its operation."""
    name = str(rng.choice(list(TREE_TYPES)))
    operation = str(rng.choice(["equal", "notEqual", "lessThan", "greaterOrEqual", "in", "notIn", "between", "isNull"]))
    size = {"in": 3, "notIn": 2, "between": 2, "isNull": 0}.get(operation, 1)
    numbers = [int(x) for x in rng.integers(0, 12, size)]
    if operation == "between":
        numbers.sort()  # Paimon does not recognize a reversed range as empty
    literals: list[Any] = [f"s{x}" for x in numbers] if name == "s" else numbers
    c = col(name)
    ours = {
        "equal": lambda: c == literals[0],
        "notEqual": lambda: c != literals[0],
        "lessThan": lambda: c < literals[0],
        "greaterOrEqual": lambda: c >= literals[0],
        "in": lambda: c.is_in(literals),
        "notIn": lambda: ~c.is_in(literals),
        "between": lambda: c.between(*literals),
        "isNull": c.is_null,
    }[operation]()
    return ours, paimon_java.leaf(TREE_TYPES, name, operation, *map(str, literals)), operation


def test_predicate_trees_on_a_sidecar(paimon_java: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    data = tree_rows(rng)
    columns = {name: text for name, text in TREE_TYPES.items() if name != "m[k]"}
    index = paimon.build_file_index(data, TREE_SPEC, types={**columns, "m": "MAP<STRING, INT>"})
    java_types = paimon_java.paimon.types.DataTypes
    columns["m"] = java_types.MAP(java_types.STRING(), java_types.INT())
    sidecar = tmp_path / "data.orc.index"
    sidecar.write_bytes(index.to_bytes())
    kinds = set()
    for _ in range(60):
        leaves = [both_leaves(paimon_java, rng) for _ in range(int(rng.integers(1, 5)))]
        ours, java, operation = leaves[0]
        keeps_nulls = operation.startswith("not")
        for more, java_more, operation in leaves[1:]:
            keeps_nulls |= operation.startswith("not")
            if rng.random() < 0.5:
                ours, java = ours & more, paimon_java.both(java, java_more)
            else:
                ours, java = ours | more, paimon_java.either(java, java_more)
        kind, positions = paimon_java.evaluate(sidecar, columns, java)
        verdict = index.evaluate(ours)
        kinds.add(kind)
        if keeps_nulls and verdict.rows is not None:
            assert kind == "REMAIN" or verdict.rows <= BitMap(positions), ours
        else:
            assert kind == {"rows": "ROWS", "skip": "SKIP", "remain": "REMAIN"}[verdict.kind] or verdict.is_empty, ours
            assert BitMap(positions) == (verdict.rows or BitMap()), ours
    assert kinds == {"ROWS", "SKIP", "REMAIN"}


@pytest.mark.parametrize(
    "case", [case for case in CASES if supports("range-bitmap", case.sql)], ids=lambda case: case.sql
)
def test_top_rows(paimon_java: Any, rng: np.random.Generator, case: Case) -> None:
    types = {"c": case.sql}
    for shape, values in columns_of(case, rng).items():
        column = pa.table({"c": pa.array(values, case.arrow)})
        index = paimon.build_file_index(column, {"range-bitmap": {"c": {"chunk-size": "64b"}}}, types=types)
        body, one = index.to_bytes(), index.index("c", "range-bitmap")
        assert one is not None
        for _ in range(12):
            k = int(rng.integers(1, 15))
            selection = None
            if rng.random() < 0.5 and len(values) > k:
                selection = sorted(map(int, rng.choice(len(values), k + 1 + int(rng.integers(len(values) - k)), False)))
            order = {"descending": bool(rng.integers(2)), "nulls_first": bool(rng.integers(2))}
            strict = bool(rng.integers(2))
            answer, found = paimon_java.top(body, types, "c", k, strict=strict, selection=selection, **order)
            rows = BitMap(found) if answer == "ROWS" else BitMap(range(len(values)) if answer == "REMAIN" else ())
            given = None if selection is None else BitMap(selection)
            ours = one.top_k(k, strict=strict, selection=given, **order)
            where = (shape, k, order, strict, selection)
            if shape == "nulls":  # Paimon's issue 9140: if all values are null, Java ignores the selection, too
                assert ours <= rows or found == [0, NULLS - 1], where
                continue
            candidates = list(range(len(values)) if selection is None else selection)
            nulls = sum(values[row] is None for row in candidates)
            if not strict and nulls and (nulls > k if order["nulls_first"] else len(candidates) - nulls < k):
                # Paimon before 2.0 does not treat nulls as equal to each other, so it may return fewer rows.
                assert rows < ours or rows == ours, where
            else:
                assert ours == rows, where
            if strict:
                wanted = first_values(values, k, candidates=candidates, **order)
                assert sorted(map(repr, wanted)) == sorted(repr(values[row]) for row in ours), where


def test_times_of_nanoseconds(paimon_java: Any) -> None:
    """An index of nanoseconds has keys in microseconds. Released versions of Java treat the keys as exact, and lose
    rows. orcidx does not use such keys to exclude rows."""
    start = datetime.datetime(2024, 1, 1)
    values = pa.array([1704067200000000001, 1704067200000000002], pa.timestamp("ns"))
    types = {"bitmap": "TIMESTAMP(9)", "bsi": "TIMESTAMP(9)", "bloom-filter": "TIMESTAMP(9)"}
    spec = {kind: {kind: {"items": 10} if kind == "bloom-filter" else {}} for kind in types}
    index = paimon.build_file_index(pa.table(dict.fromkeys(types, values)), spec, types=types)
    text = "2024-01-01 00:00:00.000000001"
    answers = paimon_java.answers(index.to_bytes(), types, [[kind, "notEqual", text] for kind in types])
    assert answers == [("SKIP", []), ("SKIP", []), ("REMAIN", [])]  # SKIP is wrong, because the second row matches
    for kind in types:
        assert index.evaluate(col(kind) != start).kind == "remain"
    answers = paimon_java.answers(index.to_bytes(), types, [["bloom-filter", "equal", text]])
    assert answers == [("REMAIN", [])]
    answers = paimon_java.answers(index.to_bytes(), types, [["bloom-filter", "equal", "2024-01-01 00:00:01"]])
    assert answers == [("SKIP", [])]
