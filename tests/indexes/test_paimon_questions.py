"""``questions_of`` translates a leaf into questions that an index can answer. The keys for which the questions hold are
compared with the rows for which the leaf is TRUE."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.paimon.data_types import parse_type
from orcidx.paimon.keys import Key, key_type, ordered_bits
from orcidx.paimon.questions import NullTest, Points, Question, questions_of
from orcidx.predicate import BoundLeaf, Leaf, Op, bind

ORDER = (Op.EQ, Op.EQ_NULL_SAFE, Op.LT, Op.LE, Op.GT, Op.GE)
TEXT = (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE)
INF = math.inf


def after(nanos: int) -> pa.Scalar:
    return pa.scalar(1_767_225_600_000_000_000 + nanos, pa.timestamp("ns"))


def bits(width: int) -> Callable[[Any], int]:
    kind, signed = (np.float64, np.int64) if width == 8 else (np.float32, np.int32)

    def key(value: float) -> int:
        canonical = np.array([math.nan if math.isnan(value) else value], kind)
        return int(ordered_bits(canonical.view(signed).astype(np.int64), width)[0])

    return key


@dataclass(frozen=True)
class Column:
    """Values of a column, the keys that an index stores for them, and the literals of the conditions."""

    arrow: pa.DataType
    values: Sequence[Any]
    literals: Sequence[Any]
    key: Callable[[Any], Key] = lambda value: value
    ops: Sequence[Op] = ORDER
    length: int | None = None
    points_alone: bool = False
    """Whether indexes answer only equality, because several values can have the same key."""


FLOATS = [-INF, -1.5, -0.0, 0.0, 0.1, 1.5, INF, math.nan]
TEXTS = ["", " ", "a", "ab", "ab ", "ab!", "abc", "b", "\x1f", "a\x01", "a\x1f", "é", "\uffff", "\U0010ffff"]
COLUMNS: dict[str, Column] = {
    "INT": Column(pa.int32(), [-7, 0, 1, 2, 2**31 - 1], [-7, 0, 1, 2, 3]),
    "BOOLEAN": Column(pa.bool_(), [False, True], [False, True], int),
    "DATE": Column(
        pa.date32(),
        [datetime.date(1970, 1, 1), datetime.date(1969, 12, 31), datetime.date(2026, 1, 1)],
        [datetime.date(1970, 1, 1), datetime.date(2020, 1, 1)],
        lambda day: (day - datetime.date(1970, 1, 1)).days,
    ),
    **{
        f"TIME({precision})": Column(
            pa.time32("ms"),
            [datetime.time(10), datetime.time(10, 0, 0, 1000), datetime.time(11)],
            [datetime.time(10, 0, 0, micros) for micros in (0, 500, 1000, 1500)],
            lambda time: 1000 * (3600 * time.hour + time.second) + time.microsecond // 1000,
        )
        for precision in (3, 9)
    },
    "DOUBLE": Column(pa.float64(), FLOATS, FLOATS, bits(8), (*ORDER, Op.IS_NAN)),
    "FLOAT": Column(
        pa.float32(), [*FLOATS[:4], float(np.float32(0.1)), *FLOATS[5:]], [*FLOATS, 1e300], bits(4), (*ORDER, Op.IS_NAN)
    ),
    "DECIMAL(5, 2)": Column(
        pa.decimal128(5, 2),
        [Decimal("-1.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01"), Decimal("1.50"), Decimal("999.99")],
        [Decimal("-1.5"), Decimal("0"), Decimal("0.005"), Decimal("-0.005"), Decimal("1.5"), Decimal("0.01")],
        lambda value: int(value.scaleb(2)),
    ),
    **{
        f"TIMESTAMP({precision})": Column(
            pa.timestamp("ns"),
            [after(n) for n in (-1_000_000, 0, 1_000_000, 2_000_000)],
            [after(n) for n in (-1, 0, 1, 1_000_000, 1_500_000, 1_000_001)],
            (lambda value, unit=1_000_000 if precision == 3 else 1000: value.value // unit),
        )
        for precision in (3, 6)
    },
    "TIMESTAMP(9)": Column(
        pa.timestamp("ns"),
        [after(n) for n in (-1000, -1, 0, 1, 999, 1000, 1001)],
        [after(n) for n in (-1, 0, 1, 999, 1000)],
        lambda value: value.value // 1000,
        points_alone=True,
    ),
    "STRING": Column(pa.string(), TEXTS, TEXTS, str.encode, (*ORDER, *TEXT)),
    "CHAR(3)": Column(
        pa.string(),
        [*TEXTS, "a  ", "   ", "ab", "b  "],
        [text.rstrip(" ") for text in TEXTS] + ["abcd"],
        str.encode,
        (*ORDER, *TEXT),
        length=3,
    ),
    "CHAR(70)": Column(
        pa.string(),
        [*(text.ljust(70) for text in ("abcde", "abcdef", "abcdefg", "a b")), "abcdef", "abcdef " + "x" * 63],
        ["abcde", "abcdef", "abcdefg", "a b", "a"],
        str.encode,
        length=70,
    ),
}


def leaves(column: Column) -> Iterator[Leaf]:
    """Yields leaves of every operator with every literal and some pairs of literals, with their negations."""
    for negated in (False, True):
        yield Leaf(("x",), Op.IS_NULL, (), negated)
        for op in column.ops:
            if op is Op.IS_NAN:
                yield Leaf(("x",), op, (), negated)
            elif op is Op.LIKE:
                for pattern in ("a%", "%b", "a_", "%", "ab", "_%", "ab %", "\U0010ffff%"):
                    yield Leaf(("x",), op, (pattern, "\\"), negated)
            else:
                for literal in column.literals:
                    yield Leaf(("x",), op, (literal,), negated)
        for pair in itertools.product(column.literals, repeat=2):
            yield Leaf(("x",), Op.BETWEEN, pair, negated)
            yield Leaf(("x",), Op.IN, pair, negated)


def holds(question: Question, key: Key | None) -> bool:
    if isinstance(question, NullTest):
        return (key is None) is not question.negated
    if key is None:
        return False
    if isinstance(question, Points):
        return (key in question.keys) is not question.negated
    low, high = question.low, question.high
    return (low is None or low < key or (low == key and not question.low_open)) and (
        high is None or key < high or (high == key and not question.high_open)
    )


def is_point(question: Question) -> bool:
    return isinstance(question, NullTest) or (isinstance(question, Points) and not question.negated)


NOT_EXACT = {"TIMESTAMP(9)": (0, 40), "STRING": (78, 2), "CHAR(3)": (185, 747), "CHAR(70)": (30, 90)}
"""For each type: the number of leaves that no index can answer, and of leaves for which an index finds more rows than
match. Other types have no such leaves."""


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize("name", COLUMNS)
def test_questions_hold_for_the_rows_that_match(name: str, nan: Any) -> None:
    column = COLUMNS[name]
    batch = pa.record_batch({"x": pa.array([*column.values, None], column.arrow)})
    stored = [*(column.key(value) for value in column.values), None]
    lengths = {} if column.length is None else {("x",): column.length}
    kind, told = key_type(parse_type(name)), {"none": 0, "exact": 0, "inexact": 0}
    for leaf in leaves(column):
        bound = bind(leaf, batch.schema, nan=nan, char_lengths=lengths)
        if not isinstance(bound.root, BoundLeaf):
            continue  # the condition is constant for all rows
        asked = questions_of(bound.root, kind)
        told["none"] += asked is None
        if asked is None or (column.points_alone and not all(map(is_point, asked.questions))):
            continue
        expected = bound.evaluate(batch).tolist()
        found = [any(holds(question, key) for question in asked.questions) for key in stored]
        assert all(one or not wanted for one, wanted in zip(found, expected)), (leaf, asked)
        assert not asked.exact or found == expected, (leaf, asked)
        told["exact" if asked.exact else "inexact"] += 1
    assert (told["none"], told["inexact"]) == NOT_EXACT.get(name, (0, 0))
    assert told["exact"] > 10
