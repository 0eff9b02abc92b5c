"""Predicates from other libraries have the same meaning as in their engine, and prune without losing a matching row."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from dataclasses import dataclass
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcidx.errors import InvalidQuery
from orcidx.predicate import (
    And,
    BoundLeaf,
    Constant,
    External,
    Op,
    Or,
    arrow_expression,
    bind,
    col,
    keep_bindable,
    parse,
    predicate_from_json,
    predicate_to_json,
)
from orcidx.predicate.adapters import from_spark
from orcidx.predicate.arrow_expression import from_expression
from orcidx.predicate.char_leaf import CharLeaf
from orcidx.predicate.padded_leaf import PaddedLeaf
from orcidx.predicate.polars_tree import from_polars

field = pc.field

# ---------------------------------------------------------------------- SQL

SQL = {
    "price > 100 AND city IN ('Oslo')": (col("price") > 100) & col("city").is_in(["Oslo"]),
    "a = 1 OR b = 2 AND NOT c = 3": (col("a") == 1) | ((col("b") == 2) & (col("c") != 3)),
    "NOT (a = 1 OR b IS NULL)": (col("a") != 1) & col("b").is_not_null(),
    "a <=> NULL": col("a").eq_null_safe(None),
    "a IS NOT DISTINCT FROM 5": col("a").eq_null_safe(5),
    "a IS DISTINCT FROM 5": ~col("a").eq_null_safe(5),
    "5 < a AND 7 >= a": (col("a") > 5) & (col("a") <= 7),
    "a BETWEEN -1 AND 1.50": col("a").between(-1, Decimal("1.50")),
    "a NOT BETWEEN 1 AND 2": ~col("a").between(1, 2),
    "a NOT IN (1, NULL)": ~col("a").is_in([1, None]),
    "a LIKE 'x%'": col("a").like("x%"),
    "a NOT LIKE 'x!%' ESCAPE '!'": ~col("a").like("x!%", escape="!"),
    "a IS NOT NULL": col("a").is_not_null(),
    "a IS TRUE": col("a").eq_null_safe(True),
    "a IS NOT FALSE": ~col("a").eq_null_safe(False),
    "flag AND NOT other": (col("flag") == True) & (col("other") != True),  # noqa: E712
    "d = DATE '2020-02-29'": col("d") == datetime.date(2020, 2, 29),
    "t >= TIMESTAMP '2020-01-01 10:20:30.5'": col("t") >= datetime.datetime(2020, 1, 1, 10, 20, 30, 500_000),
    "t < TIMESTAMP '1969-01-01 00:00:00.000000001'": col("t") < np.datetime64("1969-01-01T00:00:00.000000001"),
    "t = TIMESTAMPTZ '2020-01-01 01:00:00+01:00'": col("t") == datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "t > TIME '00:00:00' OR t = TIME '23:59:59.999999999'": (col("t") > pa.scalar(0, pa.time64("ns")))
    | (col("t") == pa.scalar(86_399_999_999_999, pa.time64("ns"))),
    "\"a b\".c = 'it''s'": col("a b", "c") == "it's",
    "`a.b` = 0.1": col("a.b") == Decimal("0.1"),
    "a.b.c.d.e.f = 1e3": col("a.b.c.d.e.f") == 1000.0,
    '"a"."b"."c".d.e."f" = 1e3': col("a", "b", "c", "d.e", "f") == 1000.0,
    "x = X'ab0F'": col("x") == b"\xab\x0f",
    "isnan(a) OR a IS NAN": col("a").is_nan() | col("a").is_nan(),
    "starts_with(a, 'x') AND endswith(a, 'y') AND contains(a, 'z')": col("a").starts_with("x")
    & col("a").ends_with("y")
    & col("a").contains("z"),
    "a = 123456789012345678901234567890": col("a") == 123456789012345678901234567890,
    "a == 1 AND b <> 2 AND c != 3": (col("a") == 1) & (col("b") != 2) & (col("c") != 3),
    "TRUE": Constant(True),
    "NOT NULL": Constant(None),
}


@pytest.mark.parametrize("text", SQL)
def test_sql(text):
    assert parse(text) == SQL[text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("a =", "at column 3"),
        ("a = 1 )", "cannot be parsed"),
        ("a = 'x", "cannot be parsed"),
        ("a = 1; DROP TABLE x", "not supported"),
        ("1 = 1", "compares no column"),
        ("a + 1 <=> 2", "null-safely"),
        ("soundex(a) = 'X'", "is an unknown function"),
        ("b = 2 AND a ILIKE 'x'", "'a ILIKE 'x'' |\"a ILIKE 'x'\""),
        ("a IN (SELECT 1)", "not supported"),
        ("a = INTERVAL '1' DAY", "not a literal"),
        ("d = DATE '2020-13-01'", "ISO 8601"),
        ("d = DATE '2020-01-01 10:00:00'", "not a date"),
        ("t = TIMESTAMPTZ '2020-01-01 10:00:00'", "names no zone"),
        ("t = TIME '25:00'", "ISO 8601"),
        ("a BETWEEN SYMMETRIC 2 AND 1", "not supported"),
        ("a NOT BETWEEN SYMMETRIC 2 AND 1", "not supported"),
        ("a IN b", "not supported"),
        ("a NOT IN b", "not supported"),
        ("contains(a, 'x', 1)", "not supported"),
        ("round(a, 1) = 1", "unknown function"),
        ("round(a, -1) = 1", "unknown function"),
        ("CAST(a AS VARCHAR(1)) = 'x'", "length"),
        ("CAST(a AS TIMESTAMP(0)) = TIMESTAMP '2020-01-01 10:00:00'", "precision"),
        ("t = TIMESTAMP(0) '2020-01-01 10:00:00.5'", "not|precision"),
        ("t = TIME '2020-01-01 10:00'", "ISO 8601"),
        ("t = TIME '10:00:00Z'", "no zone"),
        ("x = X'abc'", "hexadecimal"),
        ("a = ?", "not a literal"),
        ("CASE WHEN a THEN b END", "not supported"),
        ("a LIKE ANY ('x', 'y')", "not a literal"),
    ],
)
def test_sql_that_is_refused_is_pointed_at(text, message):
    with pytest.raises(InvalidQuery, match=message):
        parse(text)


def test_sql_nested_too_deeply_is_an_error_not_a_crash():
    with pytest.raises(InvalidQuery):
        parse("(" * 5000 + "a = 1" + ")" * 5000)


@pytest.mark.parametrize(("word", "kind"), [("OR", Or), ("AND", And)])
def test_sql_of_many_terms_is_not_deep(word, kind):
    found = parse(f" {word} ".join(f"a = {i}" for i in range(5000)))
    assert found == kind(tuple(col("a") == i for i in range(5000)))
    assert parse(f"NOT (a = 1 {word} b = 2 {word} c = 3)") == ~kind((col("a") == 1, col("b") == 2, col("c") == 3))


@settings(max_examples=150, deadline=None)
@given(st.text("ab1'\"`=<>!() ,.%xANDORNOTINLIKEBETWEEN-+*/;", max_size=40))
def test_any_sql_text_parses_or_raises_invalid_query(text):
    try:
        parse(text)
    except InvalidQuery:
        pass


# ---------------------------------------------------------------------- DNF


def test_dnf():
    assert parse([("price", ">", 100)]) == (col("price") > 100)
    assert parse(("price", ">", 100)) == (col("price") > 100)
    assert parse([("a", "=", 1), ("b", "in", {2})]) == (col("a") == 1) & col("b").is_in([2])
    assert parse([[("a", "!=", 1)], [("b", "not in", (2, 3)), (("c", "d"), "<=", 4)]]) == (col("a") != 1) | (
        ~col("b").is_in([2, 3]) & (col("c", "d") <= 4)
    )
    assert parse([("a", "is", None), ("b", "is not", None)]) == col("a").eq_null_safe(None) & ~col("b").eq_null_safe(
        None
    )
    assert parse([("a", "LIKE", "x%")]) == col("a").like("x%")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([], "empty"),
        ([("a", ">")], "not a tuple \\(column, op, value\\)"),
        ([("a", "~", 1)], "not an operator"),
        ([(1, "=", 1)], "not a column"),
        ([((), "=", 1)], "not a column"),
        ([("a", "in", "xyz")], "a list of values"),
        ([("a", "in", 5)], "a list of values"),
        ([("a", "=", 1), [("b", "=", 2)]], "neither"),
        ([[]], "neither"),
        (["a > 1"], "neither"),
        ({"a": 1}, "not a predicate"),
    ],
)
def test_dnf_that_is_refused(where, message):
    with pytest.raises(InvalidQuery, match=message):
        parse(where)


# ---------------------------------------------------------------------- pyarrow Expressions

TABLE = pa.table(
    {
        "i": pa.array([-(2**53) - 1, -1, 0, 1, 2, None, 2**53, 2**53 + 1], pa.int64()),
        "f": pa.array([-math.inf, -0.0, 0.0, 0.1, math.nan, None, 2.0, math.inf], pa.float64()),
        "g": pa.array([0.1, 0.5, -0.0, 1.0, math.nan, None, 2.0, 16777216.0], pa.float32()),
        "s": pa.array(["", "a", "a ", "ab", "b%", None, "é", "ab\n"]),
        "b": pa.array([True, False, None, True, False, None, True, False]),
        "d": pa.array(
            [Decimal(x) if x else None for x in ("-1.10", "0.00", "0.10", "1.10", "1.50", None, "2.00", "99.99")],
            pa.decimal128(10, 2),
        ),
        "t": pa.array([-1, 0, 1, 999, 1000, None, 1500, 10**9], pa.int64()).cast(pa.timestamp("ns")),
        "u": pa.array([-1, 0, 1, 999, 1000, None, 1500, 10**6], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "n": pa.array([{"z": 1}, {"z": None}, None, {"z": 3}, {"z": -1}, {"z": 2}, None, {"z": 0}]),
        "day": pa.array([-1, 0, 1, 2, 3, None, 5, 6], pa.int32()).cast(pa.date32()),
    }
)
BATCH = TABLE.combine_chunks().to_batches()[0]
NANO = pa.scalar(999, pa.timestamp("ns"))
LITERALS = {
    "i": [-1, 0, 1, 2**53, 1.5, 0.5, None],
    "f": [0.0, -0.0, 0.1, 2, math.inf, math.nan, None],
    "g": [0.1, 0.5, 0.0, 1, math.nan, float(np.float32(0.1)), None],
    "s": ["", "a", "ab", "é", None],
    "b": [True, False, None],
    "d": [Decimal("1.10"), Decimal("0.1"), Decimal("1.105"), 1.1, 0.1, None],
    "t": [NANO, datetime.datetime(1970, 1, 1), pa.scalar(1, pa.timestamp("us")), None],
    "u": [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), pa.scalar(1000, pa.timestamp("us", "UTC")), None],
    "day": [datetime.date(1970, 1, 2), datetime.date(1970, 1, 1), None],
}
OPERATORS = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


@st.composite
def simple_expressions(draw):
    name = draw(st.sampled_from(sorted(LITERALS)))
    form = draw(st.sampled_from(["compare", "compare", "mirror", "in", "null", "valid", "text", "nested", "odd"]))
    kind = TABLE.schema.field(name).type
    literal = draw(st.sampled_from(LITERALS[name]))
    if literal is None:
        literal = pa.scalar(None, kind)
    if form in ("compare", "mirror"):
        op = draw(st.sampled_from(OPERATORS))
        return op(field(name), literal) if form == "compare" else op(pc.scalar(literal), field(name))
    if form == "in":
        values = draw(st.lists(st.sampled_from(LITERALS[name]), min_size=1, max_size=3))
        try:
            value_set = pa.array([v.as_py() if v is NANO else v for v in values], None if name in "id" else kind)
        except (pa.ArrowException, TypeError, ValueError):
            value_set = pa.array([None], kind)
        return pc.is_in(field(name), value_set=value_set, skip_nulls=draw(st.booleans()))
    if form == "null":
        return field(name).is_null(nan_is_null=draw(st.booleans()))
    if form == "valid":
        return field(name).is_valid()
    if form == "text":
        function = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like]))
        return function(field("s"), draw(st.sampled_from(["", "a", "a%", "%b", "_"])), ignore_case=draw(st.booleans()))
    if form == "nested":
        return draw(st.sampled_from(OPERATORS))(field(("n", "z")), draw(st.integers(-1, 3)))
    return draw(
        st.sampled_from(
            [
                field("b"),
                pc.scalar(True),
                pc.scalar(pa.scalar(None, pa.bool_())),
                field("i") + 1 > 1,
                field("i").cast(pa.float64()) > 0.5,
                field("i") > field("i"),
                pc.if_else(field("i").is_valid(), field("i") == 1, pa.scalar(None, pa.bool_())),
                pc.if_else(field("b"), field("i") > 0, field("s") == "a"),
                pc.xor(field("b"), field("i") > 0),
                pc.and_(field("b"), field("i") > 0),
                pc.or_(field("b"), field("i") > 0),
                field("f").is_nan(),
            ]
        )
    )


expressions = st.recursive(
    simple_expressions(),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


def tightest(node):
    """Returns the part of a bound tree that pruning can use, as a tree without External."""
    if isinstance(node, External):
        return tightest(node.may)
    if isinstance(node, (And, Or)):
        return type(node)(tuple(tightest(child) for child in node.children))
    assert isinstance(node, (BoundLeaf, Constant))
    return node


@settings(max_examples=200, deadline=None)
@given(expressions)
def test_a_pyarrow_expression_means_what_pyarrow_says(expression):
    numbered = TABLE.append_column("row", pa.array(range(TABLE.num_rows)))
    try:
        wanted = numbered.filter(expression)["row"].to_pylist()
    except pa.ArrowException:
        wanted = None
    bound = bind(parse(expression), TABLE.schema)
    try:
        found = np.flatnonzero(bound.evaluate(BATCH)).tolist()
    except InvalidQuery:
        assert wanted is None
        return
    if wanted is not None:
        assert found == wanted
        pruned = type(bound)(tightest(bound.root), bound.columns, bound.schema).evaluate(BATCH)
        assert set(wanted) <= set(np.flatnonzero(pruned).tolist())
        negated = bind(~parse(expression), TABLE.schema)
        assert np.flatnonzero(negated.evaluate(BATCH)).tolist() == numbered.filter(~expression)["row"].to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@settings(max_examples=60, deadline=None)
@given(
    op=st.sampled_from(OPERATORS),
    nanos=st.sampled_from([-(10**9), -1, 0, 1, 999, 10**6, 10**9 - 1, 10**9]),
    negated=st.booleans(),
)
def test_an_expression_sees_times_floored_to_the_unit_of_the_output(unit, op, nanos, negated):
    values = [-(10**9) - 1, -(10**9), -1, 0, 1, 999, 10**6 + 1, 10**9 - 1, 10**9, None]
    native = pa.array(values, pa.int64()).cast(pa.timestamp("ns"))
    factor = {"s": 10**9, "ms": 10**6, "us": 10**3}[unit]
    shown = pa.array([None if v is None else v // factor for v in values], pa.int64()).cast(pa.timestamp(unit))
    literal = pa.scalar(nanos, pa.timestamp("ns"))
    expression = ~op(field("t"), literal) if negated else op(field("t"), literal)
    table = pa.table({"t": shown, "row": range(len(values))})
    bound = bind(parse(expression), table.schema.remove(1))
    batch = pa.record_batch([native], ["t"])
    wanted = table.filter(expression)["row"].to_pylist()
    assert np.flatnonzero(bound.evaluate(batch)).tolist() == wanted
    pruned = type(bound)(tightest(bound.root), bound.columns, bound.schema).evaluate(batch)
    assert set(wanted) <= set(np.flatnonzero(pruned).tolist())
    wide = pa.array([None if v is None else Decimal(v) for v in values], pa.decimal128(38, 0))
    assert np.flatnonzero(bound.evaluate(pa.record_batch([wide], ["t"]))).tolist() == wanted


def test_what_compares_alike_is_carried_over_whole():
    expression = (field("i") > 1) & field("s").isin(["a"]) & ~field("day").is_null()
    bound = bind(parse(expression), TABLE.schema)
    assert bound.root == bind((col("i") > 1) & col("s").is_in(["a"]) & ~col("day").is_null(), TABLE.schema).root or (
        [leaf.column for leaf in bound.leaves()] == ["i", "s", "day"]
    )
    assert not isinstance(bound.root, External)
    assert isinstance(bind(parse(field("d") == 1.1), TABLE.schema).root, External)
    assert isinstance(bind(parse(field("i") + 1 > 1), TABLE.schema).root, External)


def test_char_columns_are_padded_for_pyarrow():
    schema = pa.schema([("c", pa.string())])
    batch = pa.record_batch([pa.array(["a", "a ", "b ", None])], ["c"])
    for expression, wanted in [
        (field("c") == "a", [True, False, False, False]),
        (field("c") != "a", [False, True, True, False]),
        (field("c") < "b", [True, True, False, False]),
    ]:
        bound = bind(parse(expression), schema, char_lengths={("c",): 2})
        assert bound.evaluate(batch).tolist() == wanted
        pruned = type(bound)(tightest(bound.root), bound.columns, schema).evaluate(batch)
        assert (pruned >= wanted).all()


def test_a_field_by_number_is_refused():
    """A number could mean the wrong column, because the columns that are evaluated have another order than the columns
    of the schema."""
    with pytest.raises(InvalidQuery, match="give its name"):
        from_expression(field(0) == 1)


def test_an_expression_that_cannot_be_read_prunes_nothing_and_is_still_evaluated(monkeypatch):
    monkeypatch.setattr(arrow_expression, "_read", mock.Mock(side_effect=ValueError))
    external = from_expression(field("i") == 1)
    assert external.may == Constant(True)
    assert external.columns is None
    bound = bind(external, TABLE.schema)
    assert bound.columns == tuple((name,) for name in TABLE.schema.names)
    assert np.flatnonzero(bound.evaluate(BATCH)).tolist() == [3]


def test_expressions_nested_in_predicates_pickle_and_compare():
    predicate = parse(field("i") + 1 > 1) & (col("s") == "a")
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    bound = pickle.loads(pickle.dumps(bind(predicate, TABLE.schema)))
    assert bound.columns == (("i",), ("s",))
    assert not bound.evaluate(BATCH).any()
    assert hash(predicate) == hash(parse(field("i") + 1 > 1) & (col("s") == "a"))


def test_an_unknown_column_of_an_expression_is_named():
    with pytest.raises(InvalidQuery, match="did you mean 'day'"):
        bind(parse(field("dayy") == 1), TABLE.schema)


def test_what_pyarrow_refuses_is_an_invalid_query():
    with pytest.raises(InvalidQuery, match="pyarrow cannot evaluate"):
        bind(parse(field("u") == datetime.datetime(2020, 1, 1)), TABLE.schema).evaluate(BATCH)
    with pytest.raises(InvalidQuery, match="a condition must be boolean"):
        bind(parse(field("i") + 1), TABLE.schema).evaluate(BATCH)


# ---------------------------------------------------------------------- Spark


@dataclass
class EqualTo:
    attribute: tuple
    value: object


@dataclass
class In:
    attribute: tuple
    value: tuple


@dataclass
class IsNotNull:
    attribute: tuple


@dataclass
class StringContains:
    attribute: tuple
    value: str


@dataclass
class Not:
    child: object


@dataclass
class FromTheFuture:
    attribute: tuple


def padded(leaf):
    """The leaf that an engine pushes down. It compares the trailing spaces of CHAR values."""
    return PaddedLeaf(leaf.path, leaf.op, leaf.literals, leaf.negated)


def test_leaves_of_char_columns_as_json():
    """After the conversion to JSON and back, the leaf compares the same spaces."""
    for leaf in (padded(col("a") < "x"), CharLeaf(("a",), Op.EQ, ("x",), False, 4)):
        found = predicate_from_json(json.loads(json.dumps(predicate_to_json(leaf))))
        assert (type(found), found) == (type(leaf), leaf)
    assert CharLeaf(("a",), Op.EQ, ("x",), False, 4) != CharLeaf(("a",), Op.EQ, ("x",), False, 5)
    for length in (0, -1, True, "4"):
        with pytest.raises(InvalidQuery, match="length of a CHAR"):
            predicate_from_json({**predicate_to_json(col("a") == "x"), "char": length})


def test_leaves_of_polars_as_json():
    """After the conversion to JSON and back, the leaf compares NaN in the same way."""
    pl = pytest.importorskip("polars")
    for expression, other in ((pl.col("f") > 1, col("f") > 1), (pl.col("f") + 0 > 1, col("f") + 0 > 1)):
        predicate = parse(expression)
        found = predicate_from_json(json.loads(json.dumps(predicate_to_json(predicate))))
        assert found == predicate != other
        assert ~found == parse(~expression) != ~other
        assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_spark_filters():
    filters = [
        IsNotNull(("a",)),
        EqualTo(("a", "x.y"), 1),
        Not(In(("b",), [1, 2])),
        StringContains(("s",), "x"),
        FromTheFuture(("a",)),
        Not(FromTheFuture(("a",))),
    ]
    assert from_spark(filters) == And(
        (
            col("a").is_not_null(),
            padded(col("a", "x.y") == 1),
            padded(~col("b").is_in([1, 2])),
            padded(col("s").contains("x")),
        )
    )
    assert from_spark([]) == Constant(True)


def test_the_names_of_sparks_filters_are_known():
    module = pytest.importorskip("pyspark.sql.datasource")
    known = {
        "EqualTo": ((("a",), 1), col("a") == 1),
        "EqualNullSafe": ((("a",), 1), col("a").eq_null_safe(1)),
        "GreaterThan": ((("a",), 1), col("a") > 1),
        "GreaterThanOrEqual": ((("a",), 1), col("a") >= 1),
        "LessThan": ((("a",), 1), col("a") < 1),
        "LessThanOrEqual": ((("a",), 1), col("a") <= 1),
        "In": ((("a",), (1, 2)), col("a").is_in([1, 2])),
        "IsNull": ((("a",),), col("a").is_null()),
        "IsNotNull": ((("a",),), col("a").is_not_null()),
        "StringStartsWith": ((("a",), "x"), col("a").starts_with("x")),
        "StringEndsWith": ((("a",), "x"), col("a").ends_with("x")),
        "StringContains": ((("a",), "x"), col("a").contains("x")),
    }
    for name, (arguments, predicate) in known.items():
        expected = predicate if predicate.op is Op.IS_NULL else padded(predicate)
        assert from_spark([getattr(module, name)(*arguments)]) == expected
    assert from_spark([module.Not(module.EqualTo(("a",), 1))]) == padded(col("a") != 1)


def test_what_does_not_bind_is_kept_for_the_engine():
    predicate = (col("i") == "x") & ((col("s") == "a") | (col("nope") == 1)) & (col("i") > 1)
    assert keep_bindable(predicate, TABLE.schema) == (col("i") > 1)
    bind(keep_bindable(predicate, TABLE.schema), TABLE.schema)


# ---------------------------------------------------------------------- Polars


def polars_expressions(pl):
    c = pl.col
    stamp = datetime.datetime(1970, 1, 1)
    return [
        c("i") > 1,
        (c("i") > 1) & (c("s") == "a") | ~c("b").is_null(),
        c("i").is_in([1, 2]),
        ~c("i").is_in([1, 2]),
        c("s").is_in(["a", None]),
        ~c("s").is_in(["a", None]),
        c("i").is_between(0, 2, closed="left"),
        ~c("i").is_between(0, 2, closed="none"),
        c("s").str.starts_with("a"),
        ~c("s").str.ends_with("b"),
        c("s").str.contains("b", literal=True),
        c("s").str.contains("b."),
        c("f").is_nan(),
        c("f") == math.nan,
        c("f") > 1.0,
        c("f") <= math.nan,
        c("g") == 0.1,
        c("g") > 0.1,
        c("i") == 1.5,
        c("i") == float(2**53),
        c("i").eq_missing(1),
        c("i").ne_missing(None),
        c("d") == Decimal("1.10"),
        c("d") > 1.1,
        c("t") >= stamp,
        c("u") >= stamp.replace(tzinfo=datetime.UTC),
        c("day") == datetime.date(1970, 1, 2),
        c("b"),
        ~c("b"),
        pl.lit(True),
        c("n").struct.field("z") == 1,
        c("i") + 1 > 2,
        c("i").cast(pl.Int8, strict=False) > 1,
        pl.lit(1) < c("i"),
        c("b") ^ (c("i") > 0),
        c("i").is_in(pl.Series([1, 3]).implode()),
        ~c("s").is_in(pl.Series(["a", None]).implode()),
        c("i").is_in(pl.Series([[1, 3]])),
        (c("i") == 1) | pl.lit(None).cast(pl.Boolean),
        ~((c("i") == 1) | pl.lit(None).cast(pl.Boolean)),
    ]


def test_polars_expressions_prune_without_losing_a_row():
    pl = pytest.importorskip("polars")
    frame = pl.from_arrow(TABLE).with_row_index("row")
    pruning = 0
    for expression in polars_expressions(pl):
        predicate = from_polars(json.loads(expression.meta.serialize(format="json")), TABLE.schema)
        kept = set(np.flatnonzero(bind(predicate, TABLE.schema, nan="largest").evaluate(BATCH)).tolist())
        wanted = set(frame.filter(expression)["row"].to_list())
        assert wanted <= kept, expression
        pruning += kept < set(range(TABLE.num_rows))
    assert pruning >= 26


@pytest.mark.parametrize("tree", [None, 5, {}, {"Column": 5}, {"BinaryExpr": {}}, {"Function": {"input": []}}, [1]])
def test_a_polars_tree_of_another_version_prunes_nothing(tree):
    assert bind(from_polars(tree, TABLE.schema), TABLE.schema).evaluate(BATCH).all()
