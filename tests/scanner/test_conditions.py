"""Scans with conditions. Predicates on columns with different encodings, and with few or many matching rows, are
compared with pyarrow. Each short cut is tested on and off. Other tests count the work of a scan."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx import col
from orcidx.orc.columns import base
from orcidx.predicate import Leaf, Op, column_pairs, compiled, dictionary_answers
from orcidx.scanner import (
    coded_strings,
    column_group,
    decode_ahead,
    row_width,
    small_filter,
    span_behind,
    span_reader,
    survivors,
    tested_columns,
)

ROWS = 6_000
STRIPE_ROWS = 3_000
WORDS = ["AIR", "AIR ", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK", "", "a_b", "ä%"]
DAY = datetime.date(1994, 1, 1)
KEPT = "row"

SHORT_CUTS: dict[str, list[tuple[Any, str, Any]]] = {
    "as it is": [],
    "strings as strings": [(coded_strings, "ENABLED", False)],
    "tested once decoded": [(tested_columns, "ENABLED", False), (column_group, "MANY_ROWS", 1)],
    "tested while decoded": [(column_group, "MANY_ROWS", 1)],
    "always codes": [(coded_strings, "ROWS_PER_ENTRY", 0)],
    "codes looked up": [(dictionary_answers, "FEW_CODE_RUNS", -1), (dictionary_answers, "MOST_BYTES", 0)],
    "NumPy and pyarrow alone": [(compiled, "ENABLED", False), (column_pairs, "ENABLED", False)],
    "small files opened": [(small_filter, "ENABLED", False)],
    "rows filtered": [(survivors, "LONG_RUNS", 0)],
    "rows taken": [(survivors, "LONG_RUNS", 1 << 40)],
    "kept once decoded": [(base, "KEEPS", False)],
    "cursors and threads": [
        (column_group, "MANY_ROWS", 1),
        (decode_ahead, "FEW_VALUES", 0),
        (decode_ahead, "LEAST_RESERVED_BYTES", 1),
    ],
}
"""For each short cut: the attributes that a test changes to turn the short cut off, or to use it everywhere."""


def a_column(rng: np.random.Generator, values: Any, kind: pa.DataType, *, nulls: float) -> pa.Array:
    return pa.array(values, kind, mask=rng.random(len(values)) < nulls)


def a_table(rng: np.random.Generator) -> pa.Table:
    """Returns a table with clustered and scattered values of each type that has comparisons."""
    nulls = float(rng.choice([0, 0.1]))
    step = int(rng.choice([1, 40, 900]))
    codes = np.repeat(rng.integers(0, len(WORDS), ROWS // step + 1), step)[:ROWS]
    numbers = np.repeat(rng.integers(-50, 50, ROWS // step + 1), step)[:ROWS]
    floats = rng.choice([0.0, -0.0, 1.5, -2.25, np.inf, np.nan, 7.0], ROWS)
    cents = [Decimal(int(number)).scaleb(-2) for number in rng.permutation(numbers)]
    wide = [
        Decimal(int(number)) * Decimal(10) ** int(power) for number, power in zip(numbers, rng.integers(0, 25, ROWS))
    ]
    days = [DAY + datetime.timedelta(int(number)) for number in rng.permutation(numbers)]
    times = [datetime.datetime(1994, 1, 1) + datetime.timedelta(hours=int(number)) for number in numbers]
    columns = {
        "word": a_column(rng, [WORDS[code] for code in codes], pa.string(), nulls=nulls),
        "text": a_column(rng, [f"{number}:{row}" for row, number in enumerate(numbers)], pa.string(), nulls=nulls),
        "long": a_column(rng, rng.permutation(numbers), pa.int64(), nulls=nulls),
        "short": a_column(rng, numbers, pa.int16(), nulls=nulls),
        "double": a_column(rng, floats, pa.float64(), nulls=nulls),
        "cents": a_column(rng, cents, pa.decimal128(15, 2), nulls=nulls),
        "wide": a_column(rng, wide, pa.decimal128(38, 0), nulls=nulls),
        "day": a_column(rng, days, pa.date32(), nulls=nulls),
        "time": a_column(rng, times, pa.timestamp("ns"), nulls=nulls),
        KEPT: pa.array(np.arange(ROWS)),
    }
    return pa.table(columns)


COMPARED = {
    Op.EQ: pc.equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
PATTERNS = ["%AIR%", "AIR", "R%", "%", "_AIL", "1%:%", "%7", "a\\_b", "", "%:%1%", "R%R", "%A%I%", "-%:2%9", "%1_"]


BESIDE: dict[type, Any] = {
    str: lambda value: f"{value} ",
    Decimal: lambda value: value + 1,
    int: lambda value: value + 1,
    float: lambda value: value + 1,
    datetime.date: lambda value: value + datetime.timedelta(1),
    datetime.datetime: lambda value: value + datetime.timedelta(seconds=1),
}


def two_columns(rng: np.random.Generator, table: pa.Table) -> tuple[Any, Any]:
    """Returns a comparison of two columns, which pyarrow evaluates, and pyarrow's result for it."""
    left, right = rng.permutation(
        [["long", "short"], ["word", "text"], ["cents", "cents"], ["day", "day"]][rng.integers(4)]
    )
    op = list(COMPARED)[int(rng.integers(len(COMPARED)))]
    one, other = col(str(left)), col(str(right))
    made = {Op.EQ: one == other, Op.LT: one < other, Op.LE: one <= other, Op.GT: one > other, Op.GE: one >= other}
    return made[op], COMPARED[op](table[left].combine_chunks(), table[right].combine_chunks())


def a_leaf(rng: np.random.Generator, table: pa.Table) -> tuple[Any, Any]:
    """Returns a leaf, which is a comparison of one column, and pyarrow's result for it, a boolean array with nulls."""
    if rng.random() < 0.2:
        return two_columns(rng, table)
    name = str(rng.choice([name for name in table.column_names if name != KEPT]))
    column = table[name].combine_chunks()

    values = [value for value in column.to_pylist() if value is not None and value == value]

    def one() -> Any:
        """Returns a value of the column, or a value next to it."""
        value = values[int(rng.integers(len(values)))]
        return BESIDE.get(type(value), lambda value: value)(value) if rng.random() < 0.3 else value

    negated = bool(rng.random() < 0.25)
    ops = [*COMPARED, Op.IN, Op.BETWEEN, Op.IS_NULL, *([Op.LIKE] * 4 if pa.types.is_string(column.type) else [])]
    op = ops[int(rng.integers(len(ops)))]
    if op is Op.IS_NULL:
        literals, truth = (), pc.is_null(column)
    elif op is Op.LIKE:
        literals = (PATTERNS[int(rng.integers(len(PATTERNS)))], "\\")
        truth = pc.match_like(column, literals[0])
    elif op is Op.IN:
        literals = tuple(one() for _ in range(int(rng.integers(1, 12))))
        found = pc.is_in(column, pa.array(literals, column.type))
        if name == "double":  # for IN, -0.0 equals 0.0, but not for ``is_in``
            found = pc.or_(found, pc.and_(pc.equal(column, 0.0).fill_null(False), pa.scalar(0.0 in literals)))
        truth = pc.if_else(column.is_valid(), found, None)
    elif op is Op.BETWEEN:
        literals = (one(), one())
        low, high = (pa.scalar(literal, column.type) for literal in literals)
        truth = pc.and_kleene(pc.greater_equal(column, low), pc.less_equal(column, high))
    else:
        literals = (one(),)
        truth = COMPARED[op](column, pa.scalar(literals[0], column.type))
    return Leaf((name,), op, literals, negated), pc.invert(truth) if negated else truth


def a_predicate(rng: np.random.Generator, table: pa.Table, leaves: int) -> tuple[Any, Any]:
    if leaves == 1:
        return a_leaf(rng, table)
    left = int(rng.integers(1, leaves))
    (one, first), (other, second) = a_predicate(rng, table, left), a_predicate(rng, table, leaves - left)
    if rng.random() < 0.5:
        return one & other, pc.and_kleene(first, second)
    return one | other, pc.or_kleene(first, second)


def bits(table: pa.Table) -> pa.Table:
    """Returns the table with its floating-point columns as bits, so that NaN equals itself, and -0.0 and 0.0 differ."""
    for place, name in enumerate(table.column_names):
        if pa.types.is_floating(table.schema.field(name).type):
            table = table.set_column(place, name, table[name].combine_chunks().view(pa.int64()))
    return table


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[pa.Table, Path]]:
    rng = np.random.default_rng([20261123, 27])
    made = []
    small = {"stripe_size": 1 << 20, "row_index_stride": 10_000}  # a stripe has one row group, which is decoded at once
    several = {"stripe_size": 40_000, "row_index_stride": 500}
    for number, (threshold, sizes) in enumerate([(0.8, several), (1.0, several), (0.0, several), (0.8, small)]):
        table = a_table(rng)
        path = tmp_path_factory.mktemp("conditions") / f"{number}.orc"
        batches = table.to_batches(max_chunksize=STRIPE_ROWS)
        reader = pa.RecordBatchReader.from_batches(table.schema, batches)
        orcidx.write_table(reader, str(path), dictionary_key_size_threshold=threshold, **sizes)
        made.append((table, path))
    return made


MANY = int(os.environ.get("ORCIDX_PREDICATES", "30"))
"""The number of predicates for each file in slow runs. 30 of them take eight seconds. Long runs by hand use more."""


@pytest.mark.parametrize("short_cut", SHORT_CUTS)
@pytest.mark.parametrize("predicates", [4, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
def test_rows_are_those_of_pyarrow(
    files: list[tuple[pa.Table, Path]],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    short_cut: str,
    predicates: int,
) -> None:
    for module, name, value in SHORT_CUTS[short_cut]:
        monkeypatch.setattr(module, name, value)
    for table, path in files:
        with orcidx.open(str(path)) as file:
            for _ in range(predicates):
                where, truth = a_predicate(rng, table, int(rng.choice([1, 1, 2, 3])))
                wanted = table.filter(truth)
                names = [str(name) for name in rng.choice(table.column_names, int(rng.integers(0, 4)), replace=False)]
                names = [*dict.fromkeys([*names, KEPT])]
                options = {"batch_size": int(rng.choice([97, 1000, 65536])), "use_threads": bool(rng.random() < 0.5)}
                found = file.read(names, where=where, **options)
                assert bits(found) == bits(wanted.select(names)), (where, names, options)
                assert file.scan(names, where, **options).count_rows() == wanted.num_rows, where


@pytest.fixture
def words(tmp_path: Path) -> Path:
    rng = np.random.default_rng(27)
    table = pa.table({"word": rng.choice(WORDS, 200_000), "number": np.arange(200_000)})
    orcidx.write_table(table, str(tmp_path / "words.orc"))
    return tmp_path / "words.orc"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yields a list that records the sizes of the dictionaries on which leaves are evaluated."""
    sizes: list[int] = []
    plain = dictionary_answers.DictionaryAnswer.__init__

    def noted(self: Any, matches: Any) -> None:
        sizes.append(len(matches))
        plain(self, matches)

    monkeypatch.setattr(dictionary_answers.DictionaryAnswer, "__init__", noted)
    test = tested_columns._entries_that_pass

    def passed(name: str, where: Any, entries: pa.Array) -> Any:
        sizes.append(len(entries))
        return test(name, where, entries)

    monkeypatch.setattr(tested_columns, "_entries_that_pass", passed)
    return sizes


@pytest.mark.parametrize(
    "where",
    [
        "word = 'AIR'",
        "word LIKE '%AIR'",
        "word IN ('AIR', 'ä%')",
        "word > 'M'",
        "word = 'AIR' AND number + 1 > number",  # pyarrow evaluates the second part, which has no strings
    ],
)
@pytest.mark.parametrize("columns", [["number"], ["number", "word"]])  # a column that is not returned has no codes
def test_a_leaf_is_asked_of_each_entry_once_a_stripe(
    words: Path, asked: list[int], where: str, columns: list[str]
) -> None:
    with orcidx.open(str(words)) as file:
        stripes = len(file.stripes)
        found = file.scan(columns, where, batch_size=1000).to_table()
    assert 0 < found.num_rows < 200_000
    assert asked == [len(WORDS)] * stripes


def test_strings_are_made_of_survivors_alone(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    plain = coded_strings.entries_of
    monkeypatch.setattr(coded_strings, "entries_of", lambda array, most: rows.append(len(array)) or plain(array, most))
    with orcidx.open(str(words)) as file:
        assert file.read(["number"], where="word = 'AIR'").num_rows > 10_000
        assert not rows
        found = file.read(["word"], where="word = 'AIR'")
    assert sum(rows) == found.num_rows
    assert found["word"].unique().to_pylist() == ["AIR"]


def test_a_count_makes_no_arrays_of_survivors(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with orcidx.open(str(words)) as file:
        wanted = file.read(["number"], where="word = 'AIR' AND number > 7").num_rows
        monkeypatch.setattr(survivors, "as_batch", None)
        monkeypatch.setattr(span_behind, "as_batch", None)
        monkeypatch.setattr(coded_strings, "entries_of", None)
        made = []
        plain = span_reader.picked
        monkeypatch.setattr(
            span_reader,
            "picked",
            lambda arrays, *rest: made.extend(a for a in arrays if a is not None) or plain(arrays, *rest),
        )
        assert file.scan(where="word = 'AIR' AND number > 7").count_rows() == wanted
        assert file.scan(where=col("number") < 150_000).count_rows() == 150_000
    assert not made


def test_columns_are_decoded_ahead_under_a_condition(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all rows match, threads decode spans of all columns ahead. If some rows do not match, threads decode only the
    columns of the predicate ahead, because other columns are filtered while they are decoded."""
    expected: list[int] = []
    plain = decode_ahead.DecodeAhead.expect
    monkeypatch.setattr(
        decode_ahead.DecodeAhead,
        "expect",
        lambda self, columns, *rest: expected.append(len(columns)) or plain(self, columns, *rest),
    )
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    monkeypatch.setattr(row_width, "ENABLED", False)  # each span has one batch, so there are many spans
    with orcidx.open(str(words)) as file:
        for where, columns in (("word <> 'BOAT'", 2), ("word <> 'AIR'", 1), ("word = 'AIR'", 1)):
            expected.clear()
            list(file.scan(["number"], where, batch_size=4096))
            assert expected.count(columns) > 20, (where, expected)
        expected.clear()
        list(file.scan(["number"], "word LIKE 'AI_' AND word <> 'AIR'", batch_size=4096))
        assert expected.count(1) > 20
        expected.clear()
        assert file.scan(where="word = 'AIR'", batch_size=4096).count_rows() > 10_000
        assert expected.count(1) > 20
