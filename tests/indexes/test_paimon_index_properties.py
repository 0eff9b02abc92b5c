"""Indexes of random columns, checked against a simple oracle, for every type, kind of index and operator."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paimon_kinds import supports
from paimon_oracle import first_values, holds
from pyroaring import BitMap

from orcidx import paimon
from orcidx.errors import InvalidQuery
from orcidx.paimon import bitmap, bsi, range_bitmap
from orcidx.paimon.data_types import parse_type
from orcidx.pruning.selection import RowSelection

KINDS = ("bloom-filter", "bitmap", "range-bitmap", "bsi")
ONE = ("eq", "neq", "lt", "lte", "gt", "gte")
TEXT = ("startswith", "endswith", "contains", "like")
OPERATORS = (*ONE, "in", "notin", "between", "notbetween", "isnull", "isnotnull", "isnan", *TEXT)
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Case:
    """A type, values to draw from, and functions that convert an oracle's value to Arrow and to a literal."""

    sql: str
    values: st.SearchStrategy[Any]
    to_arrow: Callable[[list[Any]], pa.Array]
    to_literal: Callable[[Any], Any] = lambda value: value

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if supports(kind, self.sql)]


def arrow(kind: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array(values, kind)


def numbers(bits: int) -> st.SearchStrategy[int]:
    top = 1 << (bits - 1)
    return st.one_of(st.integers(-3, 3), st.integers(-top, top - 1), st.sampled_from([-top, -top + 1, top - 1]))


def floats(width: int) -> st.SearchStrategy[float]:
    special = st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324 if width == 64 else 1e-45])
    return st.one_of(special, st.floats(width=width)).map(lambda x: float(np.float32(x)) if width == 32 else x)


some_texts = ["", "a", "ab", "abc", "b", "é", "中", "😀", "\0", "a ", "z" * 40]
texts = st.sampled_from(some_texts) | st.text(max_size=4)
unscaled = st.integers(-(10**9) + 1, 10**9 - 1) | st.integers(-3, 3)


def dec(value: Any) -> Any:
    return None if value is None else decimal.Decimal(value).scaleb(-2)


def micros(unit: int) -> st.SearchStrategy[int]:
    return st.integers(-2, 2).map(lambda x: x * unit) | st.integers(-(10**12), 10**12).map(lambda x: x * unit)


def moment(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.timestamp("us"))


CASES = [
    Case("BOOLEAN", st.booleans(), arrow(pa.bool_())),
    Case("TINYINT", numbers(8), arrow(pa.int8())),
    Case("SMALLINT NOT NULL", numbers(16), arrow(pa.int16())),
    Case("INT", numbers(32), arrow(pa.int32())),
    Case("BIGINT", numbers(64), arrow(pa.int64())),
    Case("FLOAT", floats(32), arrow(pa.float32())),
    Case("DOUBLE", floats(64), arrow(pa.float64())),
    Case("DECIMAL(9, 2)", unscaled, lambda v: pa.array([dec(x) for x in v], pa.decimal128(9, 2)), dec),
    Case("DECIMAL(20, 2)", unscaled, lambda v: pa.array([dec(x) for x in v], pa.decimal128(20, 2)), dec),
    Case("DATE", numbers(32), lambda v: pa.array(v, pa.int32()).cast(pa.date32())),
    Case("TIME(3)", st.integers(0, 86_399_999), lambda v: pa.array(v, pa.int32()).cast(pa.time32("ms"))),
    Case("TIMESTAMP(0)", micros(1_000_000), arrow(pa.timestamp("us")), moment),
    Case("TIMESTAMP(3)", micros(1000), arrow(pa.timestamp("us")), moment),
    Case("TIMESTAMP(6)", micros(1), arrow(pa.timestamp("us")), moment),
    Case(
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        micros(1),
        arrow(pa.timestamp("us", "UTC")),
        lambda value: pa.scalar(value, pa.timestamp("us", "Europe/Oslo")),
    ),
    Case(
        "TIMESTAMP(9)", st.integers(-3000, 3000), arrow(pa.timestamp("ns")), lambda v: pa.scalar(v, pa.timestamp("ns"))
    ),
    Case("CHAR(5)", texts, arrow(pa.string())),
    Case("STRING", texts, arrow(pa.large_string())),
    Case("VARCHAR(9)", texts, arrow(pa.string_view())),
    Case("VARBINARY(9)", st.binary(max_size=9), arrow(pa.large_binary())),
    Case("BYTES", st.binary(max_size=40), arrow(pa.binary())),
]


@st.composite
def columns(draw: st.DrawFn, case: Case) -> list[Any]:
    pool = draw(st.lists(case.values, min_size=1, max_size=8))
    size = draw(st.integers(0, 40))
    some = st.sampled_from([*pool, None])
    return draw(st.lists(some, min_size=size, max_size=size))


def options_of(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    if kind == "bloom-filter":
        return {"items": draw(st.integers(1, 60)), "fpp": draw(st.sampled_from([0.5, "0.1", 0.01]))}
    if kind == "bitmap":
        return {"version": draw(st.sampled_from([1, 2, "2"])), "index-block-size": draw(st.sampled_from([256, "1 kb"]))}
    if kind == "range-bitmap":
        return {"chunk-size": draw(st.sampled_from([0, 1, 20, "64b", "16kb"]))}
    return {}


def is_text(sql: str) -> bool:
    return "CHAR" in sql or sql == "STRING"


def asks(op: str, sql: str) -> bool:
    """Whether the type has this operator. Paimon has no prefix operator for bytes."""
    if op in TEXT:
        return is_text(sql)
    return op != "isnan" or sql in ("FLOAT", "DOUBLE")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sql)
@settings(max_examples=30)
@given(data=st.data())
def test_answers_are_sound_and_exact(case: Case, data: st.DataObject) -> None:
    values = data.draw(columns(case))
    kind = data.draw(st.sampled_from(case.kinds))
    if kind == "bsi":  # a BSI cannot hold the smallest int64 value
        values = [None if value == -(1 << 63) else value for value in values]
    built = paimon.build_index(kind, case.to_arrow(values), case.sql, options_of(data.draw, kind))
    built.check()
    index = paimon.read_index(kind, built.to_bytes(), case.sql)
    for _ in range(6):
        op = data.draw(st.sampled_from([op for op in OPERATORS if asks(op, case.sql)]))
        counts = {"in": st.integers(0, 4), "notin": st.integers(0, 4), "between": st.just(2), "notbetween": st.just(2)}
        count = data.draw(counts.get(op, st.just(0 if op.startswith("is") else 1)))
        literals = [data.draw(st.sampled_from([*values, None]) | case.values) for _ in range(count)]
        if op == "like" and literals[0] is not None:
            literals = [literals[0].replace("\\", "") + data.draw(st.sampled_from(["", "%", "_"]))]
        given_literals = [None if x is None else case.to_literal(x) for x in literals]
        verdict = index.evaluate(op, given_literals)
        true = BitMap([row for row, value in enumerate(values) if holds(op, value, literals)])
        if verdict.kind == "remain":
            assert op not in index.answered or kind == "bloom-filter" or case.sql == "TIMESTAMP(9)"
            continue
        assert true <= verdict.rows, (op, literals)
        if verdict.exact or kind != "bloom-filter":
            assert true == verdict.rows, (op, literals)


@pytest.mark.parametrize("case", [c for c in CASES if "range-bitmap" in c.kinds], ids=lambda case: case.sql)
@settings(max_examples=40)
@given(data=st.data())
def test_top_rows_are_the_first(case: Case, data: st.DataObject) -> None:
    values = data.draw(columns(case))
    index = paimon.build_index("range-bitmap", case.to_arrow(values), case.sql)
    selection = data.draw(st.none() | st.sets(st.integers(0, max(len(values) - 1, 0)), max_size=len(values)))
    candidates = [row for row in range(len(values)) if selection is None or row in selection]
    order = {"descending": data.draw(st.booleans()), "nulls_first": data.draw(st.booleans())}
    k = data.draw(st.integers(0, 12))
    given_selection = selection
    if selection is not None:
        rows = BitMap(row for row in selection if row < len(values))
        given_selection = RowSelection.from_bitmap(rows, len(values)) if data.draw(st.booleans()) else rows
    found = index.top_k(k, selection=given_selection, **order)
    loose = index.top_k(k, selection=given_selection, strict=False, **order)
    assert set(found) <= set(loose) <= set(candidates)
    if not index.cardinality:
        assert set(found) == set(candidates)
        return
    wanted = first_values(values, k, candidates=candidates, **order)

    def key(value: Any) -> tuple[bool, str, float]:
        signed = isinstance(value, float) and not math.isnan(value)  # NaNs with different signs are equal
        return value is None, str(value), math.copysign(1, value) if signed else 0

    assert sorted(map(key, wanted)) == sorted(key(values[row]) for row in found)
    assert all(any(values[row] is v or str(values[row]) == str(v) for v in wanted) for row in loose) or not k


@given(st.lists(st.none() | st.integers(-5, 5), max_size=30))
def test_contents_come_back(values: list[Any]) -> None:
    column = pa.array(values, pa.int32())
    kind = parse_type("INT")
    for version in (1, 2):
        contents = paimon.build_index("bitmap", column, kind, {"version": version}).contents()
        again = bitmap.BitmapIndex(bitmap.write(contents, kind, version=version), kind)
        assert again.contents() == contents
    contents = paimon.build_index("range-bitmap", column, kind, {"chunk-size": 8}).contents()
    assert range_bitmap.RangeBitmapIndex(range_bitmap.write(contents, kind, chunk_size=8), kind).contents() == contents
    contents = paimon.build_index("bsi", column, kind).contents()
    assert bsi.BsiIndex(bsi.write(contents), kind).contents() == contents


@pytest.mark.parametrize("smallest", [1, 7])
def test_a_bsi_may_start_above_zero(smallest: int) -> None:
    """Java always writes 0 as the minimum of a BSI, but the format allows any number."""
    numbers_ = [smallest, smallest + 1, smallest + 6]
    slices = tuple(BitMap([i for i, n in enumerate(numbers_) if (n - smallest) >> bit & 1]) for bit in range(3))
    part = bsi.BsiPart(smallest, smallest + 6, BitMap(range(3)), slices)
    index = bsi.BsiIndex(bsi.write(bsi.Contents(3, part, None)), "INT")
    for op in ONE:
        for literal in range(-2, smallest + 9):
            expected = [i for i, n in enumerate(numbers_) if holds(op, n, [literal])]
            assert list(index.evaluate(op, [literal]).rows) == expected, (op, literal)


def test_literals_that_do_not_fit() -> None:
    index = paimon.build_index("range-bitmap", pa.array([1, 2, None, 100], pa.int8()), "TINYINT")
    assert list(index.evaluate("eq", [300]).rows) == []
    assert list(index.evaluate("lt", [300]).rows) == [0, 1, 3]
    assert list(index.evaluate("gt", [1.5]).rows) == [1, 3]
    assert list(index.evaluate("lte", [decimal.Decimal("1.99999")]).rows) == [0]
    assert list(index.evaluate("between", [-1e300, math.inf]).rows) == [0, 1, 3]
    money = paimon.build_index("bsi", pa.array([dec(150), dec(-1)], pa.decimal128(9, 2)), "DECIMAL(9, 2)")
    assert list(money.evaluate("gt", [decimal.Decimal("1.499")]).rows) == [0]
    assert list(money.evaluate("eq", [decimal.Decimal("1.501")]).rows) == []
    assert list(money.evaluate("lt", [decimal.Decimal("1E+999999")]).rows) == [0, 1]
    assert list(money.evaluate("lt", [decimal.Decimal("-1E-999999")]).rows) == [1]
    single = paimon.build_index("range-bitmap", pa.array([0.1, 0.0, 3.4e38], pa.float32()), "FLOAT")
    assert list(single.evaluate("eq", [0.1]).rows) == []
    assert list(single.evaluate("gt", [0.1]).rows) == [0, 2]
    assert list(single.evaluate("lt", [1e300]).rows) == [0, 1, 2]
    assert list(single.evaluate("gt", [1e-50]).rows) == [0, 2]
    moments = paimon.build_index("bitmap", pa.array([EPOCH]), "TIMESTAMP(3)")
    assert list(moments.evaluate("eq", [EPOCH + datetime.timedelta(microseconds=1)]).rows) == []


def test_wrong_questions() -> None:
    index = paimon.build_index("bitmap", pa.array([1, 2]), "BIGINT")
    with pytest.raises(InvalidQuery, match="unknown operator"):
        index.evaluate("equals", [1])
    with pytest.raises(InvalidQuery):
        index.evaluate("eq", ["one"])
    with pytest.raises(InvalidQuery):
        index.evaluate("eq", [])
    with pytest.raises(InvalidQuery, match="order"):
        index.top_k(1, descending=True, nulls_first=True)
    with pytest.raises(InvalidQuery, match="zone"):
        paimon.build_index("bitmap", pa.array([EPOCH]), "TIMESTAMP(6)").evaluate(
            "eq", [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]
        )


@pytest.mark.parametrize(
    ("values", "sql", "error"),
    [
        (pa.array(["a"]), "INT", "do not fit INT"),
        (pa.array([300]), "TINYINT", "do not fit TINYINT"),
        (pa.array([1]), "STRING", "do not fit STRING"),
        (pa.array([0.1]), "FLOAT", "cannot be stored as FLOAT"),
        (pa.array([1], pa.timestamp("ns")), "TIMESTAMP(6)", "more digits"),
        (pa.array([1], pa.timestamp("us")), "TIMESTAMP_LTZ(6)", "do not fit|not timestamps with"),
        (pa.array([decimal.Decimal("0.001")]), "DECIMAL(9, 2)", "do not fit|not timestamps with"),
    ],
)
def test_values_of_another_type_are_refused(values: pa.Array, sql: str, error: str) -> None:
    with pytest.raises(InvalidQuery, match=error):
        paimon.build_index("bitmap" if "DECIMAL" not in sql else "bsi", values, sql)


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("bloom-filter", {"item": 5}, "did you mean 'items'"),
        ("bloom-filter", {"items": 0}, "items must be at least 1"),
        ("bloom-filter", {"fpp": 1.0}, "fpp must be between 0 and 1"),
        ("bloom-filter", {"fpp": "low"}, "not a number"),
        ("bloom-filter", {"items": 1 << 40}, "at most 2147483647 bits"),
        ("bitmap", {"version": 3}, "must be 1 or 2"),
        ("bitmap", {"index-block-size": "16 parsecs"}, "a unit such as b"),
        ("bitmap", {"index-block-size": "8b"}, "raise index-block-size"),
        ("range-bitmap", {"chunk-size": -1}, "chunk-size"),
        ("bsi", {"version": 1}, "it has none"),
    ],
)
def test_wrong_options_are_refused(kind: str, options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidQuery, match=error):
        paimon.build_index(kind, pa.array([1, 2, 3]), "BIGINT", options)


def test_slices_dictionaries_and_chunks_of_arrow_are_columns_too() -> None:
    values = ["b", None, "a", "b", "c", None]
    plain = paimon.build_index("bitmap", pa.array(values), "STRING")
    padded = pa.array(["x", *values, "y"])
    assert paimon.build_index("bitmap", padded.slice(1, 6), "STRING") == plain
    assert paimon.build_index("bitmap", padded.dictionary_encode().slice(1, 6), "STRING") == plain
    assert paimon.build_index("bitmap", pa.chunked_array([values[:2], [], values[2:]], pa.string()), "STRING") == plain
    assert paimon.build_index("bitmap", padded.cast(pa.string_view()).slice(1, 6), "STRING") == plain
    for sql, numbers_ in [("INT", pa.array([5, 1, None, 1, 7], pa.int32())), ("DECIMAL(9, 2)", None)]:
        column = numbers_ if numbers_ is not None else pa.array([dec(1), None, dec(3)], pa.decimal128(9, 2))
        kind = "bsi"
        whole = paimon.build_index(kind, column, sql)
        longer = pa.concat_arrays([column[:1], column, column[:1]])
        assert paimon.build_index(kind, longer.slice(1, len(column)), sql) == whole
