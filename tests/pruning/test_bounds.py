"""Evaluates leaves on bounds, and compares the results with an evaluation of every value within the bounds."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx import col
from orcidx.orc.bound_values import NumberBounds
from orcidx.predicate import BoundLeaf, Op, bind, like_prefix
from orcidx.pruning.bounds import ColumnBounds, UnitBounds, ValueBounds, leaf_in_bounds, numbers_rule_out, successor

LOW, HIGH = 2, 4
ENDS = (0, 30)
"""The smallest and largest value that is tried for an unknown bound."""
LITERALS = {"below": 1, "at low": LOW, "inside": 3, "at high": HIGH, "above": 5}
MANY = tuple(range(5, 25))  # more literals than are compared one by one
NULLS = ("none", "some", "all")


def leaves() -> Iterator[BoundLeaf]:
    number = col("v")
    for literal in LITERALS.values():
        for made in (number < literal, number <= literal, number > literal, number >= literal, number == literal):
            yield from bind(made, pa.schema([("v", pa.float64())])).leaves()
        other = col("v").eq_null_safe(literal)
        yield from bind(other, pa.schema([("v", pa.float64())])).leaves()
        for many in ((literal,), (literal, 9), (literal, *MANY), MANY):
            yield from bind(number.is_in(list(many)), pa.schema([("v", pa.float64())])).leaves()
    for first, last in itertools.product(LITERALS.values(), repeat=2):
        if first <= last:
            yield from bind(number.between(first, last), pa.schema([("v", pa.float64())])).leaves()
    yield from bind(number.is_null(), pa.schema([("v", pa.float64())])).leaves()
    yield from bind(number.is_nan(), pa.schema([("v", pa.float64())])).leaves()


LEAVES = [
    replace(leaf, negated=negated, nan=nan)
    for leaf in leaves()
    for negated, nan in itertools.product((False, True), ("ieee", "largest"))
]


def truth(leaf: BoundLeaf, value: float | None) -> bool:
    """Whether the leaf is TRUE for a value."""
    plain = plainly(leaf, value)
    return plain is not None and plain is not leaf.negated


def plainly(leaf: BoundLeaf, value: Any) -> bool | None:
    op, literals = leaf.op, leaf.literals
    if op is Op.IS_NULL:
        return value is None
    if op is Op.EQ_NULL_SAFE:
        return value == literals[0]
    if value is None:
        return None
    if op is Op.IS_NAN:
        return value != value
    if op in (Op.EQ, Op.IN):
        return value in literals
    if op is Op.BETWEEN:
        return bool(literals[0] <= value <= literals[1])
    if value != value and leaf.nan == "largest":
        return op in (Op.GT, Op.GE)
    return bool(
        {Op.LT: value < literals[0], Op.LE: value <= literals[0], Op.GT: value > literals[0]}.get(
            op, value >= literals[0]
        )
    )


def admitted(low: int | None, high: int | None, nulls: str, nan: bool) -> list[float | None]:
    """Returns all values that can occur within these bounds. An unknown bound allows values beyond all literals."""
    if nulls == "all":
        return [None]
    least, most = ENDS[0] if low is None else low, ENDS[1] if high is None else high
    values: list[float | None] = [step / 2 for step in range(2 * least, 2 * most + 1)]
    return values + [None] * (nulls == "some") + [float("nan")] * nan


@pytest.mark.parametrize("number", [1, len(MANY) + 1], ids=["alone", "among many"])
def test_texts_that_end_in_zero_bytes(number: int) -> None:
    """``ValueBounds`` and predicates distinguish texts with trailing zero bytes from texts without them."""
    texts = [b"a", b"a\0", b"a\0\0", b"a\1"]
    bounds = ValueBounds.of(texts)
    for text in texts:
        assert bounds.compare(text).tolist() == [(one > text) - (one < text) for one in texts]
    one_of = col("v").is_in(["a\0", *(f"b{i}" for i in range(1, number))])
    none = np.zeros(len(texts), np.bool_)
    known = ColumnBounds(lower=bounds, upper=bounds, may_null=none, all_null=none, may_nan=none)
    (leaf,) = bind(one_of, pa.schema([("v", pa.string())])).leaves()
    assert [one.tolist() for one in leaf_in_bounds(leaf, known)] == [[False, True, False, False]] * 2


def as_values(ends: list[int | None]) -> UnitBounds[Any]:
    return ValueBounds.of([None if end is None else float(end) for end in ends])


def as_numbers(ends: list[int | None]) -> UnitBounds[Any]:
    valid = np.array([end is not None for end in ends])
    return NumberBounds(np.array([float(end or 0) for end in ends]), valid, valid)


@pytest.mark.parametrize("form", [as_values, as_numbers])
@pytest.mark.parametrize("nan", [False, True])
def test_every_operator_at_every_place(form: Any, nan: bool) -> None:
    units = [
        (low, high, nulls)
        for low, high in ((LOW, HIGH), (3, 3), (None, HIGH), (LOW, None), (None, None))
        for nulls in NULLS
    ]
    known = ColumnBounds(
        lower=form([low for low, _, _ in units]),
        upper=form([high for _, high, _ in units]),
        may_null=np.array([nulls != "none" for _, _, nulls in units]),
        all_null=np.array([nulls == "all" for _, _, nulls in units]),
        may_nan=np.full(len(units), nan),
    )
    for leaf in LEAVES:
        may, must = leaf_in_bounds(leaf, known)
        for place, (low, high, nulls) in enumerate(units):
            found = [truth(leaf, value) for value in admitted(low, high, nulls, nan)]
            said = f"{leaf} over {units[place]}"
            assert may[place] == any(found), said
            # If several literals together cover the range, the code does not detect it.
            covered = leaf.op is Op.IN and low != high
            only_nan = nan and nulls != "all"  # bounds do not say whether there are other values than NaN
            assert must[place] == all(found) or (all(found) and (covered or only_nan)), said


def test_bounds_that_are_not_asked() -> None:
    """If the order of a column's bounds differs from the order that the comparison uses, only facts about nulls are
    used.
    """
    flags = np.array([True, False]), np.array([False, False])
    known = ColumnBounds(lower=None, upper=None, may_null=flags[0], all_null=flags[1], may_nan=flags[1])
    for leaf in LEAVES:
        may, must = leaf_in_bounds(leaf, known)
        nan_alone = leaf.op is Op.IS_NAN
        assert may.tolist() == ([leaf.negated] * 2 if nan_alone else may.tolist())
        if leaf.op is Op.IS_NULL:
            assert (may.tolist(), must.tolist()) == (
                ([True, True], [False, True]) if leaf.negated else ([True, False], [False, False])
            )
        elif not nan_alone:
            assert may.all(), leaf
            assert not must.any(), leaf


@pytest.mark.parametrize("form", [as_values, as_numbers])
def test_many_literals_and_ends_beyond_them_or_not_known(form: Any) -> None:
    """The placeholder of an unknown bound (0) is not used as a bound, even if 0 is a literal."""
    none = np.zeros(4, np.bool_)
    lower, upper = form([30, 30, None, 0]), form([31, None, 0, 0])
    known = ColumnBounds(lower=lower, upper=upper, may_null=none, all_null=none, may_nan=none)
    [leaf] = bind(col("v").is_in([0, *MANY]), pa.schema([("v", pa.float64())])).leaves()
    may, must = leaf_in_bounds(leaf, known)
    assert (may.tolist(), must.tolist()) == ([False, False, True, True], [False, False, False, True])


def test_two_numbers_say_what_arrays_say() -> None:
    asked = 0
    for leaf in LEAVES:
        for low, high in ((LOW, HIGH), (3, 3)):
            none = np.zeros(1, np.bool_)
            known = ColumnBounds(
                lower=as_values([low]), upper=as_values([high]), may_null=none, all_null=none, may_nan=none
            )
            ruled_out = not leaf_in_bounds(leaf, known)[0][0]
            if leaf.negated or leaf.op in (Op.IS_NULL, Op.IS_NAN):
                assert not numbers_rule_out(leaf, low, high)
            else:
                assert numbers_rule_out(leaf, low, high) == ruled_out, leaf
                asked += ruled_out
    assert asked > 50


def text_bounds(units: Sequence[tuple[str | None, str | None]], nulls: str) -> ColumnBounds:
    return ColumnBounds(
        lower=ValueBounds.of([None if low is None else low.encode() for low, _ in units]),
        upper=ValueBounds.of([None if high is None else high.encode() for _, high in units]),
        may_null=np.full(len(units), nulls != "none"),
        all_null=np.full(len(units), nulls == "all"),
        may_nan=np.zeros(len(units), np.bool_),
    )


def with_nulls(found: list[bool], nulls: str) -> list[bool]:
    """Adds the null rows to the results of a leaf. For null, neither the leaf nor its negation is true."""
    return [False] if nulls == "all" else found + [False] * (nulls == "some")


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("prefix", ["", "b", "ba", "c"])
def test_prefixes(prefix: str, negated: bool, nulls: str) -> None:
    units = [("a", "az"), ("a", "b"), ("ba", "bz"), ("b", "c"), ("ba", "ba"), ("d", "e"), (None, "a"), ("c", None)]
    texts = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("abcdez", repeat=size)]
    known = text_bounds(units, nulls)
    schema = pa.schema([("v", pa.string())])
    for where, longer in ((col("v").starts_with(prefix), 0), (col("v").like(f"{prefix}_%"), 1)):
        for leaf in bind(~where if negated else where, schema).leaves():
            assert leaf.op is (Op.LIKE if longer else Op.STARTS_WITH)
            may, must = leaf_in_bounds(leaf, known)
            for place, (low, high) in enumerate(units):
                within = [text for text in texts if (low or "") <= text <= (high or "zzzz")]
                begins = [text.startswith(prefix) for text in within]
                long = [len(text) >= len(prefix) + longer for text in within]
                found = with_nulls([(one and other) is not leaf.negated for one, other in zip(begins, long)], nulls)
                assert may[place] >= any(found), (leaf, low, high)
                assert must[place] <= all(found), (leaf, low, high)
                proved = any(begins), not longer and all(begins)
                expected = (not proved[1], not proved[0]) if leaf.negated else proved
                assert may[place] == (expected[0] and nulls != "all"), (leaf, low, high)
                assert must[place] == (expected[1] and nulls == "none"), (leaf, low, high)


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("part", ["", "a"])
def test_what_is_inside_of_texts_is_not_bounded(part: str, negated: bool, nulls: str) -> None:
    """Bounds cannot decide ENDS_WITH and CONTAINS. The empty text is an exception, because every text contains it."""
    known = text_bounds([("b", "b")], nulls)
    for where in (col("v").ends_with(part), col("v").contains(part)):
        for leaf in bind(~where if negated else where, pa.schema([("v", pa.string())])).leaves():
            may, must = leaf_in_bounds(leaf, known)
            assert may[0] == ((bool(part) or not negated) and nulls != "all"), leaf
            assert must[0] == (not part and not negated and nulls == "none"), leaf


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("kept", [1, 2])
def test_inexact_ends_of_texts(kept: int, nulls: str) -> None:
    """A truncated minimum is at most the smallest value, and the successor of a truncated maximum is above all values.
    An inexact bound does not prove that the bound itself is a value."""
    rows = [["aab", "aac"], ["abc", "abc"], ["abc", "acc"], ["baa", "bab", "bba"], ["ab\x7f", "ac"]]
    literals = sorted({"", "a", "b", "c", *(text[:size] for texts in rows for text in texts for size in (1, 2, 3))})
    units = [(min(texts)[:kept], (successor(max(texts)[:kept].encode()) or b"").decode()) for texts in rows]
    assert all(low < min(texts) or len(low) == len(min(texts)) for (low, _), texts in zip(units, rows))
    assert all(high > max(texts) for (_, high), texts in zip(units, rows))
    known, value, asked = text_bounds(units, nulls), col("v"), 0
    for one in literals:
        comparisons = [value < one, value <= one, value > one, value >= one, value == one, value.eq_null_safe(one)]
        comparisons += [value.is_in([one, "zz"]), value.is_in([one, *(f"z{i}" for i in range(20))])]
        comparisons += [value.between(one, other) for other in literals if one <= other]
        parts = [value.starts_with(one), value.ends_with(one), value.contains(one), value.like(f"{one}%c")]
        for where in (*comparisons, *parts, ~value.like(f"{one}%c"), *(~part for part in parts)):
            for bound in bind(where, pa.schema([("v", pa.string())])).leaves():
                for leaf in (bound, replace(bound, negated=not bound.negated)):
                    may, must = leaf_in_bounds(leaf, known)
                    for place, texts in enumerate(rows):
                        values = [None] if nulls == "all" else [*texts, *([None] * (nulls == "some"))]
                        found = [text_truth(leaf, text) for text in values]
                        assert may[place] >= any(found), (leaf, units[place])
                        assert must[place] <= all(found), (leaf, units[place])
                        asked += must[place] + (not may[place])
    assert asked > 100


@pytest.mark.parametrize("negated", [False, True])
def test_an_inexact_end_is_not_a_value(negated: bool) -> None:
    """The values are "abc" to "abd". Truncated to two bytes, the bounds are "ab" and "ac", which are not values."""
    ends = {"ab": (True, False), "ac": (True, False), "abc": (True, False), "aa": (False, False), "ad": (False, False)}
    known = text_bounds([("ab", "ac")], "none")
    for literal, (may, must) in ends.items():
        [leaf] = bind(col("v") == literal, pa.schema([("v", pa.string())])).leaves()
        found = leaf_in_bounds(replace(leaf, negated=negated), known)
        assert [one.tolist() for one in found] == ([[not must], [not may]] if negated else [[may], [must]])


def text_truth(leaf: BoundLeaf, value: str | None) -> bool:
    """Whether a leaf on a column of texts is TRUE for a value."""
    if value is None:
        same = False if leaf.op is Op.EQ_NULL_SAFE else None
    elif leaf.op in (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE):
        stored, part = value.encode(), leaf.literals[0]
        same = {
            Op.STARTS_WITH: stored.startswith(part),
            Op.ENDS_WITH: stored.endswith(part),
            Op.CONTAINS: part in stored,
        }.get(leaf.op, stored.startswith(like_prefix(part)) and stored.endswith(b"c") and len(stored) >= len(part) - 1)
    else:
        same = plainly(leaf, value.encode())
    return same is not None and same is not leaf.negated


def test_a_nan_bounds_nothing() -> None:
    assert ValueBounds.of([float("nan"), 1.0, None]).valid.tolist() == [False, True, False]


def test_the_successor_of_a_prefix() -> None:
    assert successor(b"ab") == b"ac"
    assert successor(b"a\xff") == b"b"
    assert successor(b"\xff") is None
