"""Columns of every type with unusual values, and predicates over them, for property tests."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from predicate_oracle import Compared, known_as

from orcidx.predicate import Leaf, Op, col

BIG = 2**53
INTS = [-(2**63), -BIG - 1, -129, -128, -1, 0, 1, 2, 127, 128, BIG, BIG + 1, 2**63 - 1]
NUMBERS = [*INTS, -1.5, 0.0, -0.0, 0.1, 1.5, 2.0, float(BIG), math.inf, -math.inf, math.nan, 2**64, 10**30, 10**400]
NUMBERS += [Decimal("1.50"), Decimal("0.1"), Decimal("-0.01"), Decimal("1E+500"), Decimal("1E-500"), Decimal("2.00")]
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.5, 2.0, float(BIG), 1e300, math.inf, math.nan]
DECIMALS = [Decimal(x) for x in ("-12.34", "-0.01", "0.00", "0.01", "0.10", "1.50", "2.00", "99999999.99")]
WIDE = [Decimal(f"{x}E-2") for x in (-(10**38) + 1, -(2**64), -(2**63) - 1, -1, 0, 1, 2**63, 2**64 + 5, 10**38 - 1)]
TEXTS = ["", "a", "a ", "a  ", "a\x01", "ab", "b", "a%", "a_b", "a\nb", "\\", "é", "éa", "\U0001f600", "\uffff", "a\0"]
PATTERNS = ["", "%", "a%", "%a", "%b%", "_", "__", "a_b", "a\\%", "a\\_%", "\\\\", "%\\%%", "a%b", "_%_", "é_", "a "]
DAY = 86_400 * 10**9
STAMPS = [-(10**9) - 1, -DAY, -1, 0, 1, 999, 1000, 10**9, DAY, 1_577_836_800 * 10**9, 1_577_836_800 * 10**9 + 1]
MOMENTS = [
    datetime.datetime(1970, 1, 1),
    datetime.datetime(1970, 1, 1, 0, 0, 1),
    datetime.datetime(1969, 12, 31),
    datetime.datetime(2020, 1, 1, 0, 0, 0, 1),
    datetime.date(1970, 1, 2),
    datetime.date(2020, 1, 1),
    np.datetime64(1, "ns"),
    np.datetime64(-1, "ns"),
    np.datetime64("1970-01", "M"),
    np.datetime64(1000, "ns"),
]
DAYS = [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2020, 1, 1), datetime.date(9999, 12, 31)]


def rounded(value):
    """Rounds a Python float to float32."""
    return float(np.float32(value)) if math.isnan(value) or abs(value) < 1e38 or math.isinf(value) else 1.0


STRING_OPS = [Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS]
# name: (arrow type, values, literals, operators besides the comparisons)
KINDS = {
    "int8": (pa.int8(), [x for x in INTS if -128 <= x < 128], NUMBERS, [Op.IS_NAN]),
    "int64": (pa.int64(), INTS, NUMBERS, [Op.IS_NAN]),
    "float64": (pa.float64(), FLOATS, NUMBERS, [Op.IS_NAN]),
    "float32": (pa.float32(), [rounded(x) for x in FLOATS], NUMBERS, [Op.IS_NAN]),
    "decimal": (pa.decimal128(10, 2), DECIMALS, NUMBERS, [Op.IS_NAN]),
    "wide": (pa.decimal128(38, 2), WIDE + DECIMALS, NUMBERS + WIDE, []),
    "string": (pa.string(), TEXTS, TEXTS, [*STRING_OPS, Op.LIKE]),
    "char": (pa.string(), TEXTS, TEXTS, [*STRING_OPS, Op.LIKE]),
    "binary": (pa.binary(), [b"", b"a", b"a ", b"\xff", b"\x00"], [b"", b"a", b"\xff", b"\x80"], STRING_OPS),
    "bool": (pa.bool_(), [True, False], [True, False], []),
    "date": (pa.date32(), DAYS, [*DAYS, *MOMENTS], []),
    "timestamp": (pa.timestamp("ns"), STAMPS, MOMENTS, []),
}
COMPARISONS = [Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ_NULL_SAFE]


def leaves(name):
    _, _, literals, extra = KINDS[name]
    literal = st.sampled_from([None, *literals])

    def build(op, negated, draw_one, draw_many):
        if op is Op.LIKE:
            return Leaf((name,), op, (draw_one, "\\"), negated)
        if op in (Op.IS_NULL, Op.IS_NAN):
            return Leaf((name,), op, (), negated)
        many = {Op.IN: tuple(draw_many), Op.BETWEEN: tuple(draw_many[:2])}
        return Leaf((name,), op, many.get(op, (draw_one,)), negated)

    ops = st.sampled_from([*COMPARISONS, Op.IN, Op.BETWEEN, Op.IS_NULL, *extra])
    return ops.flatmap(
        lambda op: st.builds(
            build,
            st.just(op),
            st.booleans(),
            st.sampled_from(PATTERNS) if op is Op.LIKE else literal,
            st.lists(literal, min_size=2, max_size=12),
        )
    )


COMPUTED = {
    "plus": (lambda value: value + 0, lambda value: value + 0),
    "minus": (lambda value: -value, lambda value: -value),
    "abs": (abs, abs),
    "times": (lambda value: value * 1, lambda value: value * 1),
    "same": (lambda value: value, lambda value: value),
}
"""Functions of a float column, and the same functions of its value."""
BESIDE = ("float64", "float32", "int8", "int16")
"""Columns with which a float column is compared. pyarrow refuses integers that cannot be a float32."""
BESIDE_VALUES = [math.nan, -1.5, 0.0, 1.5, math.inf, 2, 0]


def compared(path, op, how, other):
    """Returns a comparison of an expression of the float column ``path`` with a column or a value. Notes its
    meaning."""
    of_column, of_value = COMPUTED[how]
    left = of_column(col(*path))
    compare = {Op.EQ: "__eq__", Op.LT: "__lt__", Op.LE: "__le__", Op.GT: "__gt__", Op.GE: "__ge__"}[op]
    is_column = isinstance(other, tuple)
    if how == "same" and not is_column:
        left, of_value = of_column(col(*path)) + 0, COMPUTED["plus"][1]
    condition = getattr(left, compare)(col(*other) if is_column else other)

    def first(value_of):
        value = value_of(path)
        return None if value is None else of_value(value)

    meaning = Compared(
        op, first, (lambda value_of: value_of(other)) if is_column else (lambda value_of: other),
        (path, other) if is_column else (path,),
    )  # fmt: skip
    return known_as(condition, meaning)


def comparisons(names):
    """Returns a strategy for computed comparisons of the float columns in ``names``, or None if there are no such
    columns."""
    floats = [(name,) for name in names if name in ("float64", "float32")]
    beside = [(name,) for name in names if name in BESIDE]
    if not floats:
        return None
    return st.builds(
        compared,
        st.sampled_from(floats),
        st.sampled_from([Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE]),
        st.sampled_from(list(COMPUTED)),
        st.sampled_from([*beside, *BESIDE_VALUES]),
    )


def predicates(names):
    leaf = st.sampled_from(names).flatmap(leaves)
    if (computed := comparisons(names)) is not None:
        leaf = st.one_of(leaf, computed)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=4,
    )


def column(name, values):
    kind = KINDS[name][0]
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


CHAR = {("char",): 5}
SCHEMA = {(name,): ("char", 5) if name == "char" else kind[0] for name, kind in KINDS.items()}
