"""Building predicates: operators, NOT on leaves, repr, pickle, equality, and the errors of binding."""

from __future__ import annotations

import base64
import datetime
import json
import math
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from orcidx.errors import InvalidQuery
from orcidx.predicate import (
    And,
    Column,
    Constant,
    Leaf,
    Op,
    Or,
    all_of,
    any_of,
    bind,
    col,
    parse,
    predicate_from_json,
    predicate_to_json,
)

NAMES = {"col": col, "datetime": datetime, "Decimal": Decimal, "np": np, "pa": pa, "Constant": Constant}

PREDICATES = [
    col("a") > 100,
    col("a") != 1,
    ~(col("a") < 5),
    col("a", "b.c") <= 1.5,
    (col("a") >= 1) & (col("b") == "x") & ~col("c").is_null(),
    (col("a") == 1) | (col("b") == 2) & (col("c") == 3),
    ((col("a") == 1) | (col("b") == 2)) & (col("c") == 3),
    ~(col("a").is_in([1, None, "x"]) | col("b").between(1, 2)),
    col("a").is_nan() & col("a").eq_null_safe(None),
    ~col("a").starts_with("x") & col("a").ends_with("y") & col("a").contains("z"),
    col("a").like("a%") | ~col("a").like("b!%", escape="!") | col("a").like("c_", escape=""),
    col("t") == datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    col("t") == datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
    col("t") < datetime.date(2020, 1, 2),
    col("t") < np.datetime64("2020-01-02T03:04:05.123456789"),
    col("t") < pa.scalar(1, pa.timestamp("ns", tz="UTC")),
    col("t") < pa.scalar(5, pa.time64("us")),
    col("d") > Decimal("1.50"),
    col("f") > math.nan,
    col("f") > -math.inf,
    Constant(True),
    Constant(None),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=repr)
def test_repr_is_the_code_and_pickle_keeps_it(predicate):
    again = eval(repr(predicate), dict(NAMES))
    assert again == predicate
    assert hash(again) == hash(predicate)
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    assert parse(predicate) is predicate
    assert predicate_from_json(json.loads(json.dumps(predicate_to_json(predicate)))) == predicate


def test_not_is_pushed_to_the_leaves_and_never_flips_an_operator():
    predicate = ~((col("a") < 5) & ((col("b") == 1) | ~col("c").is_null()))
    assert predicate == Or(
        (
            Leaf(("a",), Op.LT, (5,), True),
            And((Leaf(("b",), Op.EQ, (1,), True), Leaf(("c",), Op.IS_NULL))),
        )
    )
    assert ~~(col("a") < 5) == (col("a") < 5)


def test_and_or_flatten_and_fold_constants():
    a, b, c = col("a") == 1, col("b") == 1, col("c") == 1
    assert a & b & c == And((a, b, c)) == a & (b & c)
    assert a | b | c == Or((a, b, c))
    assert all_of() == Constant(True)
    assert any_of() == Constant(False)
    assert all_of(a, Constant(True)) == a
    assert all_of(a, Constant(False)) == Constant(False)
    assert any_of(a, Constant(True)) == Constant(True)
    assert ~Constant(None) == Constant(None)


def test_literals_of_other_types_are_other_literals():
    assert (col("a") == 1) != (col("a") == 1.0)
    assert (col("a") == 1) != (col("a") == True)  # noqa: E712
    assert (col("a") == math.nan) == (col("a") == float("nan"))
    assert len({col("a") == 1, col("a") == True, col("a") == 1.0}) == 3  # noqa: E712


def test_scalars_of_numpy_and_arrow_become_plain_literals():
    assert (col("a") == np.int8(5)) == (col("a") == 5)
    assert (col("a") == pa.scalar(5, pa.int16())) == (col("a") == 5)
    assert (col("a") == pa.scalar(None, pa.int16())) == (col("a") == None)  # noqa: E711
    assert (col("a") == bytearray(b"x")) == (col("a") == b"x")
    assert (col("a") == np.datetime64("NaT", "s")) == (col("a") == None)  # noqa: E711
    assert (col("a") == Decimal("sNaN")) == (col("a") == math.nan)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: bool(col("a") == 1),
        lambda: 1 < col("a") < 3,
        lambda: not col("a").is_null(),
        lambda: (col("a") == 1) and (col("b") == 2),
        lambda: bool((col("a") == 1) & (col("b") == 2)),
        lambda: bool(col("a")),
    ],
)
def test_python_and_or_not_are_refused(attempt):
    with pytest.raises(TypeError, match="truth value"):
        attempt()


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: col(), "the name of a column"),
        (lambda: col(""), "the name of a column"),
        (lambda: col("a").is_in([col("b")]), "is not a literal"),
        (lambda: col("a") == [1], "not a literal"),
        (lambda: col("a").is_in("abc"), "a list of values"),
        (lambda: Leaf(("a",), Op.BETWEEN, (1,)), "takes 2"),
        (lambda: parse(col("a")), "for a boolean column write"),
        (lambda: parse(5), "not a predicate"),
    ],
)
def test_what_is_no_predicate_is_refused(attempt, message):
    with pytest.raises(InvalidQuery, match=message):
        attempt()


@pytest.mark.parametrize("zone", [None, "Europe/Oslo"])
def test_a_timestamp_of_pandas_keeps_its_nanoseconds_in_json(zone):
    pandas = pytest.importorskip("pandas")
    moment = pandas.Timestamp("2020-07-01 00:00:00.123456789", tz=zone)
    again = predicate_from_json(json.loads(json.dumps(predicate_to_json(col("t") == moment))))
    exact = pa.scalar(moment.value, pa.timestamp("ns", zone and "UTC"))
    assert again == (col("t") == exact)


def test_an_expression_of_pyarrow_has_a_json_form():
    predicate = parse(pc.field("a") * 2 > 1) & (col("b") == b"\xff")
    again = predicate_from_json(json.loads(json.dumps(predicate_to_json(predicate))))
    assert again == predicate
    assert again.children[0].columns == (("a",),)


def form_of(nodes: list[tuple[str, str]], *, batches: int = 1) -> dict[str, str]:
    """Returns the form of a pyarrow Expression that consists of these nodes and one literal. Anyone could write such a
    form."""
    schema = pa.schema([("0", pa.int64())]).with_metadata(pa.KeyValueMetadata(nodes))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch([pa.array([1])], schema=schema))
    return {"expression": base64.b64encode(sink.getvalue()).decode()}


CALL = [("call", "greater"), ("field_ref", "a"), ("literal", "0"), ("end", "greater")]


def test_an_expression_by_hand_is_read():
    assert predicate_from_json(form_of(CALL)).may == (col("a") > 1)


@pytest.mark.parametrize(
    "data",
    [
        form_of(CALL, batches=0),
        form_of(CALL, batches=2),
        form_of([*CALL[:2], ("literal", "-1"), CALL[3]]),
        form_of([*CALL[:2], ("literal", "1"), CALL[3]]),
        form_of([*CALL[:2], ("literal", "99999999999"), CALL[3]]),
        form_of([("call", "invert")] * 100_000 + CALL + [("end", "invert")] * 100_000),
        form_of([("nested_field_ref", "1000000000"), ("field_ref", "a")]),
        form_of(CALL[:3]),
        form_of([("end", "x")]),
        {"expression": base64.b64encode(b"ARROW1\0\0").decode()},
        {"expression": "?"},
    ],
)  # fmt: skip
def test_an_expression_of_a_stranger_is_refused(data):
    with pytest.raises(InvalidQuery):
        predicate_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        {},
        [],
        {"and": 5},
        {"and": [{}]},
        {"constant": "x"},
        {"constant": 1},
        {"constant": 0.0},
        {"or": [{"constant": 1}, {"constant": 0}]},
        {"expression": "!"},
        {"expression": "AAAA"},
        {"column": [], "op": "EQ", "literals": [1], "negated": False},
        {"column": [1], "op": "EQ", "literals": [1], "negated": False},
        {"column": ["a"], "op": "XX", "literals": [1], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [{"decimal": "x"}], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [{"odd": "x"}], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [{"float": 5}], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [{"datetime64": [1, "q", 1]}], "negated": False},
        {"column": ["a"], "op": "EQ", "literals": [1], "negated": "no"},
    ],
    ids=repr,
)
def test_json_that_is_no_predicate_is_refused(data):
    with pytest.raises(InvalidQuery):
        predicate_from_json(data)


SCHEMA = pa.schema(
    [
        ("price", pa.int64()),
        ("city", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("utc", pa.timestamp("us", tz="UTC")),
        ("amount", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.struct([("k", pa.string())]))),
        ("Name", pa.string()),
        ("a.b", pa.int32()),
        ("a", pa.struct([("b", pa.string()), ("c.d", pa.struct([("e", pa.float32())]))])),
        ("twice", pa.int8()),
        ("twice", pa.int8()),
    ]
)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (col("prise") == 1, "did you mean 'price'"),
        (col("name") == 1, "did you mean 'Name'"),
        (col("zzzzzz") == 1, "the columns are price, city"),
        (col("a.c.d.f") == 1, "did you mean 'a.c.d.e'"),
        (col("tags.k") == "x", "inside a list"),
        (col("tags") == "x", "only is_null"),
        (col("twice") == 1, "ambiguous"),
        (col("price") == "x", "price is of type int64 and cannot be compared with 'x' \\(str\\)"),
        (col("price") == True, "True \\(bool\\)"),  # noqa: E712
        (col("price").is_in([1, "x"]), "'x'"),
        (col("price").between(1, b"x"), "b'x'"),
        (col("price").starts_with("x"), "needs a text or binary column"),
        (col("city") == 5, "string and cannot be compared with 5 \\(int\\)"),
        (col("city") == b"x", "bytes"),
        (col("city") == "\ud800", "string"),
        (col("city").is_nan(), "no NaN"),
        (col("city").like("a\\"), "ends in its escape"),
        (col("city").like("a", escape="ab"), "one character"),
        (col("raw") == "x", "binary"),
        (col("flag") == 1, "bool"),
        (col("day") == 5, "date32"),
        (col("day") == "2020-02-30", "ISO 8601"),
        (col("at") == datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "needs a time without a zone"),
        (col("utc") == datetime.datetime(2020, 1, 1), "needs a time with a zone"),
        (col("utc") == datetime.date(2020, 1, 1), "needs a time with a zone"),
        (col("utc") == np.datetime64("2020-01-01"), "needs a time with a zone"),
        (col("at") == "2020-01-01T00:00:00Z", "needs a time without a zone"),
        (col("at") == 5, "timestamp"),
        (col("amount") == "1.5", "decimal128"),
    ],
    ids=repr,
)
def test_binding_errors_name_column_literal_and_type(predicate, message):
    with pytest.raises(InvalidQuery, match=message):
        bind(predicate, SCHEMA)


def test_a_dotted_name_is_the_column_of_that_name_first_and_the_nested_field_second():
    assert bind(col("a.b") == 1, SCHEMA).columns == (("a.b",),)
    assert bind(col("a", "b") == "x", SCHEMA).columns == (("a", "b"),)
    assert bind(col("a.c.d.e") == 1, SCHEMA).columns == (("a", "c.d", "e"),)
    assert bind(col("NAME") == "x", SCHEMA, case_sensitive=False).columns == (("Name",),)


def test_a_bound_predicate_pickles():
    bound = bind((col("price") > 1.5) & col("city").is_in(["Oslo"]), SCHEMA)
    assert pickle.loads(pickle.dumps(bound)) == bound
    assert [leaf.op for leaf in bound.leaves()] == [Op.GE, Op.EQ]


def test_column_is_hashable_and_reads_well():
    assert repr(col("a", "b")) == "col('a', 'b')"
    assert len({col("a")}) == 1
    assert isinstance(col("a"), Column)
