"""The compiled loops return the same results as NumPy, pyarrow, and plain Python on bytes."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.predicate import Leaf, Op, bind, compares, compiled, evaluation, ranges

ROUNDS = int(os.environ.get("ORCIDX_PREDICATES", "60"))
ALPHABET = ["a", "b", "ab", "\0", "é", "aaaaaaaa", "aaaaaaab", "\U0001f600", " "]
ORDERED = (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ_NULL_SAFE)
KINDS = {"string": pa.string(), "large": pa.large_string(), "view": pa.string_view(), "binary": pa.binary()}


def a_text(rng: np.random.Generator) -> str:
    return "".join(rng.choice(ALPHABET, int(rng.integers(0, 6))))


def a_text_leaf(rng: np.random.Generator) -> tuple[Leaf, Any]:
    """Returns a leaf, and a function that evaluates the leaf on bytes."""
    op = [*ORDERED, Op.IN, Op.BETWEEN, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE][int(rng.integers(12))]
    one, other = sorted(text.encode() for text in (a_text(rng), a_text(rng)))
    if op is Op.IN:
        texts = [a_text(rng) for _ in range(int(rng.integers(1, 8)))]
        return Leaf(("x",), op, tuple(texts)), lambda value: value in [text.encode() for text in texts]
    if op is Op.BETWEEN:
        return Leaf(("x",), op, (one.decode(), other.decode())), lambda value: one <= value <= other
    if op is Op.LIKE:
        parts = [a_text(rng) for _ in range(int(rng.integers(2, 5)))]
        return Leaf(("x",), op, ("%".join(parts), "\\")), lambda value: is_like(
            value, [part.encode() for part in parts]
        )
    tests = {
        Op.EQ: one.__eq__,
        Op.EQ_NULL_SAFE: one.__eq__,
        Op.LT: one.__gt__,
        Op.LE: one.__ge__,
        Op.GT: one.__lt__,
        Op.GE: one.__le__,
        Op.STARTS_WITH: lambda value: value.startswith(one),
        Op.ENDS_WITH: lambda value: value.endswith(one),
        Op.CONTAINS: lambda value: one in value,
    }
    return Leaf(("x",), op, (one.decode(),)), tests[op]


def is_like(value: bytes, parts: list[bytes]) -> bool:
    front, *middle, back = parts
    if len(value) < len(front) + len(back) or not value.startswith(front) or not value.endswith(back):
        return False
    value = value[len(front) : len(value) - len(back)]
    for part in middle:
        _, found, value = value.partition(part) if part else (b"", b"-", value)
        if not found:
            return False
    return True


@pytest.mark.parametrize("name", KINDS)
def test_strings(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(ROUNDS):
        texts = [None if rng.random() < 0.1 else a_text(rng) for _ in range(int(rng.integers(0, 60)))]
        array = pa.array(texts, pa.string()).cast(KINDS[name])
        array = array.slice(int(rng.integers(0, 1 + len(array))))
        leaf, says = a_text_leaf(rng)
        if name == "binary":
            literals = tuple(one.encode() for one in leaf.literals)
            leaf = Leaf(("x",), leaf.op, (*literals[:1], "\\") if leaf.op is Op.LIKE else literals)
        where = bind(leaf, pa.schema({"x": array.type}))
        batch = pa.record_batch({"x": array})
        found = where.evaluate(batch).tolist()
        values = [value.encode() if isinstance(value, str) else value for value in array.to_pylist()]
        assert found == [value is not None and bool(says(value)) for value in values], (leaf, values)
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "ENABLED", False)
            assert where.evaluate(batch).tolist() == found


def is_between(low: Any, high: Any, value: Any) -> bool:
    return bool(low <= value <= high)


WIDE = [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**64 - 1, 10**38 - 1, -(10**38) + 1]


def test_decimals(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(ROUNDS):
        numbers = [WIDE[place] + int(more) for place, more in zip(rng.integers(0, 9, 40), rng.integers(-1, 2, 40))]
        values = [None if rng.random() < 0.1 else Decimal(number) for number in [*numbers, *WIDE[-2:]]]
        array = pa.array(values, pa.decimal128(38, 0)).slice(int(rng.integers(0, 5)))
        one, other = sorted(Decimal(WIDE[place]) for place in rng.integers(0, len(WIDE), 2))
        one -= Decimal(rng.choice(["0", "0.5"]))
        op = [*ORDERED, Op.BETWEEN][int(rng.integers(7))]
        leaf = Leaf(("x",), op, (one, other) if op is Op.BETWEEN else (one,), negated=bool(rng.random() < 0.3))
        where = bind(leaf, pa.schema({"x": array.type}))
        batch = pa.record_batch({"x": array})
        found = where.evaluate(batch)
        tests = {
            Op.EQ: one.__eq__,
            Op.EQ_NULL_SAFE: one.__eq__,
            Op.LT: one.__gt__,
            Op.LE: one.__ge__,
            Op.GT: one.__lt__,
            Op.GE: one.__le__,
            Op.BETWEEN: partial(is_between, one, other),
        }
        for value, is_true in zip(array.to_pylist(), found.tolist()):
            if value is None:
                assert is_true is (op is Op.EQ_NULL_SAFE and leaf.negated)
            else:
                assert is_true is (bool(tests[op](value)) is not leaf.negated), (leaf, value)
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "ENABLED", False)
            assert where.evaluate(batch).tolist() == found.tolist()


INTEGERS = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "int16": pa.int16(),
    "timestamp": pa.timestamp("us"),
    "string": pa.string(),
    "decimal": pa.decimal128(38, 2),
}
ENDS = (Op.GT, Op.GE, Op.LT, Op.LE)


@pytest.mark.parametrize("name", INTEGERS)
def test_ends_of_a_range(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons with the ends of a range return the same results if both ends are tested together and if each
    comparison is evaluated alone. The predicates are an AND of two comparisons, or an AND of three below an OR."""
    kind = INTEGERS[name]
    edge = 2**15 if name == "int16" else 2**31 if name == "int32" else 2**40
    for _ in range(ROUNDS):
        numbers = [int(n) for n in rng.choice([-edge, edge - 1, *range(-4, 5)], int(rng.integers(0, 60)))]
        array = pa.array([None if rng.random() < 0.1 else n for n in numbers], pa.int64()).cast(kind)
        array = array.slice(int(rng.integers(0, 1 + len(array))))
        literals: list[Any] = [int(n) for n in rng.choice([-(2**70), -edge, edge, 2**70, *range(-4, 5)], 4)]
        if name == "string":
            literals = list(map(str, literals))
        leaves = [Leaf(("x",), ENDS[int(rng.integers(4))], (literal,)) for literal in literals]
        if name == "timestamp":
            leaves = [
                Leaf(("x",), leaf.op, (pa.scalar(min(max(n, -edge), edge), kind),)) for leaf, n in zip(leaves, literals)
            ]
        predicate = leaves[0] & leaves[1] if rng.random() < 0.5 else (leaves[0] & leaves[1] & ~leaves[2]) | leaves[3]
        batch = pa.record_batch({"x": array.dictionary_encode() if rng.random() < 0.2 else array})
        found = bind(predicate, pa.schema({"x": kind})).evaluate(batch).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(ranges, "ENABLED", False)
            patch.setattr(compiled, "ENABLED", False)
            assert bind(predicate, pa.schema({"x": kind})).evaluate(batch).tolist() == found, (predicate, array)


POINTS = [math.nan, -math.inf, math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.0, 1.5, -1.0, 1.7976931348623157e308]


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_ranges_of_floats(
    kind: pa.DataType, nan: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4 * ROUNDS):
        values = pa.array([None if rng.random() < 0.1 else float(one) for one in rng.choice(POINTS, 30)], kind)
        one, other = (float(end) for end in rng.choice(POINTS, 2))
        first, second = (Leaf(("x",), ENDS[int(rng.integers(4))], (end,)) for end in (one, other))
        predicate = first & second if rng.random() < 0.7 else Leaf(("x",), Op.BETWEEN, (one, other))
        batch = pa.record_batch({"x": values})
        found = bind(predicate, batch.schema, nan=nan).evaluate(batch).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(ranges, "ENABLED", False)
            patch.setattr(compiled, "ENABLED", False)
            assert bind(predicate, batch.schema, nan=nan).evaluate(batch).tolist() == found, (predicate, values)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("longest", [1, 7, 16, 40])
def test_equal_texts(rng: np.random.Generator, kind: Any, longest: int) -> None:
    """Texts of up to 16 bytes are compared 16 bytes at a time. The data may end with the last text."""
    for _ in range(20):
        texts = [rng.integers(97, 99, rng.integers(0, longest + 1), np.uint8).tobytes() for _ in range(60)]
        offsets = np.cumsum([3, *map(len, texts)]).astype(kind)
        data = np.frombuffer(b"xyz" + b"".join(texts) + b"a" * int(rng.integers(0, 17)), np.uint8).copy()
        for literal in {b"", b"a", b"ab" * 8, b"ab" * 8 + b"a", *texts[::7], *(text + b"a" for text in texts[::20])}:
            out = np.zeros(len(texts), np.uint8)
            compares.equals(offsets, data, literal, out)
            assert out.tolist() == [text == literal for text in texts], literal
    compares.equals(np.zeros(1, kind), data, b"a", out[:0])


def test_bytes_that_are_no_text() -> None:
    """``%`` matches any bytes, with and without the compiled loops. The bytes need not be UTF-8."""
    array = pa.array([b"a\xffb", b"ab", b"a\xff"], pa.binary()).view(pa.string())
    where = bind(Leaf(("x",), Op.LIKE, ("a%b", "\\")), pa.schema({"x": pa.string()}))
    for is_on in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "ENABLED", is_on)
            assert where.evaluate(pa.record_batch({"x": array})).tolist() == [True, True, False]


@pytest.mark.parametrize("offsets", [[0, 2, 9], [-1, 2, 3], [3, 2, 1], [0, 1]])
def test_offsets_beyond_the_data(offsets: list[int]) -> None:
    out = np.zeros(2, np.uint8)
    places, data = np.array(offsets, np.int32), np.zeros(4, np.uint8)
    for call in (
        lambda: compares.equals(places, data, b"a", out),
        lambda: compares.at_ends(places, data, b"a", b"", out),
        lambda: compares.contains(places, data, b"a", out),
        lambda: compares.between(places, data, b"a", None, out),
        lambda: compares.follows(places[:-1].astype(np.int64), places, data, b"a", 0, out),
    ):
        with pytest.raises(ValueError, match=r"offsets|one byte for each value"):
            call()
    with pytest.raises(ValueError, match="one byte for each value"):
        compares.within_wide(np.zeros(3, np.uint64), 0, 1, out)
    with pytest.raises(ValueError, match="part is empty"):
        compares.contains(np.zeros(3, np.int32), data, b"", out)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_ranges_of_texts_that_share_words(rng: np.random.Generator, kind: Any) -> None:
    """Many bounds and texts start with the same words of 8 bytes. So the first byte that differs can be in any word, or
    in the bytes after the last whole word. Equal texts have no such byte."""
    pieces = [b"key-0000", b"aaaaaaaa", b"\0" * 8, b"\xff" * 8, b"0123456", b"z", b"\0", b"abc"]

    def text() -> bytes:
        return b"".join(pieces[place] for place in rng.integers(0, len(pieces), rng.integers(0, 5)))

    for _ in range(1000):
        values = [text() for _ in range(rng.integers(0, 30))]
        pool: list[bytes | None] = [*values, text(), text(), None]
        low, high = (pool[place] for place in rng.integers(0, len(pool), 2))
        above, below = (rng.random(2) < 0.5).tolist()
        offsets = np.cumsum([0, *map(len, values)]).astype(kind)
        out = np.zeros(len(values), np.uint8)
        compares.between(offsets, np.frombuffer(b"".join(values), np.uint8), low, high, out, above=above, below=below)
        expected = [
            (low is None or (one > low if above else one >= low))
            and (high is None or (one < high if below else one <= high))
            for one in values
        ]
        assert out.tolist() == expected, (values, low, high, above, below)


def test_pyarrow_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_COMPARISONS", {})
    monkeypatch.setattr(evaluation, "_like", None)
    batch = pa.record_batch({"x": ["abc", "abd", None]})
    for leaf in (Leaf(("x",), Op.EQ, ("abd",)), Leaf(("x",), Op.LIKE, ("%b%d", "\\"))):
        assert bind(leaf, batch.schema).evaluate(batch).tolist() == [False, True, False]
