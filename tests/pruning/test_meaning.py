"""Compares BoundPredicate.evaluate with the oracle, for every type, operator, array form and meaning of NaN."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_oracle import truth
from predicate_strategies import CHAR, KINDS, SCHEMA, column, predicates

from orcidx.errors import InvalidQuery
from orcidx.predicate import Leaf, bind, col


def expected(predicate, rows, nan):
    return [truth(predicate, lambda path, row=row: row[path[0]], SCHEMA, nan) is True for row in rows]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), nan=st.sampled_from(["ieee", "largest"]))
def test_one_column(name, data, nan):
    values = [*KINDS[name][1], None]
    predicate = data.draw(predicates([name]))
    batch = pa.record_batch([column(name, values)], [name])
    bound = bind(predicate, batch.schema, nan=nan, char_lengths=CHAR)
    result = bound.evaluate(batch)
    assert result.dtype == bool
    assert result.tolist() == expected(predicate, [{name: value} for value in values], nan)
    for leaf in bound.leaves():
        assert None not in leaf.literals
        assert not any(isinstance(x, float) and math.isnan(x) for x in leaf.literals)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), nan=st.sampled_from(["ieee", "largest"]))
def test_several_columns(data, nan):
    names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=3, unique=True))
    rows = data.draw(
        st.lists(st.fixed_dictionaries({name: st.sampled_from([*KINDS[name][1], None]) for name in names}), max_size=12)
    )
    batch = pa.record_batch([column(name, [row[name] for row in rows]) for name in names], names)
    predicate = data.draw(predicates(names))
    bound = bind(predicate, batch.schema, nan=nan, char_lengths=CHAR)
    assert bound.evaluate(batch).tolist() == expected(predicate, rows, nan)


def forms(name, array):
    """Yields the same values in every Arrow form that a batch can have."""
    yield "sliced", pa.concat_arrays([array[:3], array]).slice(3)
    yield "dictionary", array.dictionary_encode()
    with_null = pa.array([None if i is None else i for i in range(len(array))], pa.int16())
    yield "dictionary holding null", pa.DictionaryArray.from_arrays(with_null, array)
    if name in ("string", "char"):
        yield "large", array.cast(pa.large_string())
        yield "view", array.cast(pa.string_view())
        yield "run ends", pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)
    if name == "binary":
        yield "large", array.cast(pa.large_binary())
        yield "view", array.cast(pa.binary_view())
    if name == "timestamp":
        yield "decimal of ns", array.cast(pa.int64()).cast(pa.decimal128(38, 0))
    if name == "date":
        yield "date64", array.cast(pa.date64())


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_form_of_an_array_answers_alike(name, data):
    values = [*KINDS[name][1], None]
    if name == "date":
        values.remove(datetime.date(9999, 12, 31))
    array = column(name, values)
    predicate = data.draw(predicates([name]))
    schema = pa.schema([(name, KINDS[name][0])])
    bound = bind(predicate, schema, char_lengths=CHAR)
    plain = bound.evaluate(pa.record_batch([array], [name])).tolist()
    for form, other in forms(name, array):
        assert bound.evaluate(pa.record_batch([other], [name])).tolist() == plain, form
    empty = pa.record_batch([array[:0]], [name])
    assert bound.evaluate(empty).tolist() == []


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_field_is_null_where_a_struct_around_it_is(data):
    inner = pa.array([1, 2, None, 4, 5], pa.int64())
    middle = pa.StructArray.from_arrays([inner], ["z"], mask=pa.array([False, True, False, False, False]))
    outer = pa.StructArray.from_arrays([middle], ["y"], mask=pa.array([False, False, False, True, False]))
    values = [1, None, None, None, 5]
    predicate = data.draw(predicates(["int64"]))

    def moved(node):
        if isinstance(node, Leaf):
            return Leaf(("x", "y", "z"), node.op, node.literals, node.negated)
        return type(node)(tuple(moved(child) for child in node.children)) if hasattr(node, "children") else node

    bound = bind(moved(predicate), pa.schema([("x", outer.type)]))
    wanted = expected(predicate, [{"int64": value} for value in values], "ieee")
    assert bound.evaluate(pa.record_batch([outer], ["x"])).tolist() == wanted
    root = pa.StructArray.from_arrays([outer], ["x"])
    assert bound.evaluate(root).tolist() == wanted
    assert bound.evaluate(pa.concat_arrays([root, root])[5:]).tolist() == wanted


def test_timestamps_of_any_year_compare_as_decimal_nanoseconds():
    year_9999 = 253_402_300_799 * 10**9
    array = pa.array([Decimal(year_9999), Decimal(-(10**22)), Decimal(0), None], pa.decimal128(38, 0))
    batch = pa.record_batch([array], ["t"])
    schema = pa.schema([("t", pa.timestamp("us"))])
    bound = bind(col("t") >= datetime.datetime(9999, 12, 31, 23, 59, 59), schema)
    assert bound.evaluate(batch).tolist() == [True, False, False, False]
    assert bind(col("t") < datetime.datetime(1970, 1, 1), schema).evaluate(batch).tolist() == [
        False,
        True,
        False,
        False,
    ]
    same = bind(col("t") == np.datetime64("9999-12-31T23:59:59", "s"), schema)
    assert same.evaluate(batch).tolist() == [True, False, False, False]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_literal_finer_than_the_column_is_exact(unit):
    batch = pa.record_batch([pa.array([-1, 0, 1], pa.int64()).cast(pa.timestamp(unit))], ["t"])
    literal = np.datetime64(1, "ns")

    def rows(predicate):
        return bind(predicate, batch.schema).evaluate(batch).tolist()

    assert rows(col("t") < literal) == [True, True, False]
    assert rows(col("t") <= literal) == [True, True, unit == "ns"]
    assert rows(col("t") >= literal) == [False, False, True]
    assert rows(col("t") == literal) == [False, False, unit == "ns"]
    assert rows(col("t") < np.datetime64(1, "ps")) == [True, True, False]


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01 01:00:01+01:00", 10**9),
        ("1969-12-31 23:30-0030", 0),
    ],
)
def test_iso_text_for_zoned_columns(text, nanos):
    batch = pa.record_batch([pa.array([nanos], pa.int64()).cast(pa.timestamp("ns", tz="Europe/Rome"))], ["t"])
    assert bind(col("t") == text, batch.schema).evaluate(batch).tolist() == [True]
    zoned = pa.scalar(nanos, pa.timestamp("ns", tz="UTC"))
    assert bind(col("t") == zoned, batch.schema).evaluate(batch).tolist() == [True]


def test_times_of_day():
    batch = pa.record_batch([pa.array([0, 61, None], pa.int32()).cast(pa.time32("s"))], ["t"])
    assert bind(col("t") == datetime.time(0, 1, 1), batch.schema).evaluate(batch).tolist() == [False, True, False]
    assert bind(col("t") > pa.scalar(1, pa.time64("ns")), batch.schema).evaluate(batch).tolist() == [False, True, False]


def test_a_column_of_nulls_and_a_missing_column():
    batch = pa.record_batch([pa.nulls(2)], ["n"])

    def rows(predicate):
        return bind(predicate, batch.schema).evaluate(batch).tolist()

    assert rows(col("n") == 1) == rows(~(col("n") == 1)) == rows(col("n").like("x")) == [False, False]
    assert rows(col("n").is_null()) == rows(~col("n").eq_null_safe(1)) == [True, True]
    with pytest.raises(InvalidQuery, match="no column 'n'"):
        bind(col("n") == 1, pa.schema([("n", pa.int8())])).evaluate(pa.record_batch([pa.nulls(2)], ["m"]))


def test_invalid_utf8_does_not_stop_the_filter():
    data = pa.array([b"a\xff", b"ab", b"\xff"]).view(pa.string())
    batch = pa.record_batch([data], ["s"])

    def rows(predicate, **options):
        return bind(predicate, batch.schema, **options).evaluate(batch).tolist()

    assert rows(col("s").starts_with("a")) == [True, True, False]
    assert rows(col("s") > "ab") == [True, False, True]
    assert rows(col("s").like("a_b%")) == [False, False, False]
    assert rows(col("s") == "ab  ", char_lengths={("s",): 4}) == [False, True, False]


def test_many_values_in_a_list():
    batch = pa.record_batch([pa.array(range(1000), pa.int16())], ["a"])
    wanted = list(range(0, 2000, 3))
    result = bind(col("a").is_in([*wanted, 10**30]), batch.schema).evaluate(batch)
    assert np.flatnonzero(result).tolist() == [x for x in wanted if x < 1000]
    digits = [Decimal(f"{x}E-2") for x in range(0, 10**21, 10**18)]
    batch = pa.record_batch([pa.array(digits, pa.decimal128(38, 2))], ["a"])
    assert bind(col("a").is_in(digits[::2]), batch.schema).evaluate(batch).tolist() == [True, False] * 500


def test_float32_compares_as_float64():
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    batch = pa.record_batch([pa.array([single], pa.float32())], ["f"])
    assert bind(col("f") == 0.1, batch.schema).evaluate(batch).tolist() == [False]
    assert bind(col("f") > 0.1, batch.schema).evaluate(batch).tolist() == [True]
    assert bind(col("f") == np.float32(0.1), batch.schema).evaluate(batch).tolist() == [True]


def test_a_hostile_decimal_exponent_is_not_spelled_out():
    schema = pa.schema([("d", pa.decimal128(38, 2)), ("i", pa.int64()), ("f", pa.float64())])
    batch = pa.record_batch(
        [pa.array([Decimal(1)], pa.decimal128(38, 2)), pa.array([1]), pa.array([1.0])], schema=schema
    )
    for name in ("d", "i", "f"):
        for literal in (Decimal("1E+999999999999"), Decimal("1E-999999999999")):
            below = bind(col(name) < literal, schema).evaluate(batch).tolist()
            assert below == [literal > 1]
