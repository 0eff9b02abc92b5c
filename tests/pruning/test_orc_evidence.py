"""ORC's statistics, bloom filters and dictionaries as evidence. No row may be excluded or proved wrongly, and no index
may keep more rows than it must."""

from __future__ import annotations

import dataclasses
import datetime
import io
import math
import pickle
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_oracle import leaf_truth, plain, truth
from predicate_strategies import CHAR, KINDS, SCHEMA, column, predicates
from work_done import python_calls

from orcidx.options import ReadOptions
from orcidx.orc.bloom import BloomFilters
from orcidx.orc.bounds import BytesBounds, NumberBounds, StatisticsColumn, bound_statistics
from orcidx.orc.evidence import BloomEvidence, DictionaryEvidence, StatisticsEvidence, bloom_answers, compares_alike
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import CompressionKind, StreamKind, TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts, unframe
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import file_statistics, stripe_statistics
from orcidx.orc.timezones import zone_of_statistics
from orcidx.orc.types import OrcType
from orcidx.predicate import BoundLeaf, bind, col
from orcidx.pruning.evaluate import evaluate
from orcidx.pruning.selection import RowSelection
from orcidx.storage import open_reader

OPTIONS = ReadOptions()


def orc_type(kind, **details):
    return OrcType(id=1, kind=kind, path=("x",), **details)


NODES = {
    "int8": orc_type(TypeKind.BYTE),
    "int64": orc_type(TypeKind.LONG),
    "float64": orc_type(TypeKind.DOUBLE),
    "float32": orc_type(TypeKind.FLOAT),
    "decimal": orc_type(TypeKind.DECIMAL, precision=10, scale=2),
    "wide": orc_type(TypeKind.DECIMAL, precision=38, scale=2),
    "string": orc_type(TypeKind.STRING),
    "char": orc_type(TypeKind.CHAR, max_length=5),
    "binary": orc_type(TypeKind.BINARY),
    "bool": orc_type(TypeKind.BOOLEAN),
    "date": orc_type(TypeKind.DATE),
    "timestamp": orc_type(TypeKind.TIMESTAMP),
}
SCALES = {"decimal": 2, "wide": 2}


def physical(name, value):
    """Converts a value to the form that bounds have."""
    if name in SCALES:
        return int(Decimal(value).scaleb(SCALES[name], Context(60)))
    value = plain(value, SCHEMA[(name,)])
    return value.rstrip(b" ") if name == "char" else int(value) if isinstance(value, bool) else value


def bounds_of(name, values, valid, exact):
    """Returns the lower or the upper bounds. The bound is None for a list without values."""
    values = list(values)
    valid = np.array([ok and value is not None for ok, value in zip(valid, values)], bool)
    exact = np.array(exact, bool) & valid
    if NODES[name].kind in (TypeKind.STRING, TypeKind.CHAR):
        texts = [value or b"" for value in values]
        stops = np.cumsum([len(text) for text in texts])
        starts = stops - [len(text) for text in texts]
        return BytesBounds(b"".join(texts), np.stack([starts, stops], axis=1).astype(np.int64), valid, exact)
    if NODES[name].kind is TypeKind.BINARY:
        return NumberBounds(np.zeros(len(values), np.int64), np.zeros_like(valid), np.zeros_like(valid))
    filled = [0 if value is None else value for value in values]
    floats = NODES[name].kind in (TypeKind.DOUBLE, TypeKind.FLOAT)
    small = all(abs(value) < 1 << 62 for value in filled) if not floats else True
    array = np.array(filled, np.float64 if floats else np.int64 if small else object)
    return NumberBounds(array, valid, exact, SCALES.get(name, 0))


def lowered(value):
    if value is None or isinstance(value, bytes):
        return value[:-1] if value else value
    return -math.inf if isinstance(value, float) else value - 1


def raised(value):
    if value is None or isinstance(value, bytes):
        return value if value is None else value + b"\x00"
    return math.inf if isinstance(value, float) else value + 1


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


@st.composite
def statistics(draw, name):
    """Draws lists of values, and correct statistics of them, which may be incomplete."""
    value = st.sampled_from([*KINDS[name][1], None])
    units = draw(st.lists(st.lists(value, min_size=1, max_size=4), min_size=1, max_size=6))
    flags = st.lists(st.booleans(), min_size=len(units), max_size=len(units))
    solid = [[physical(name, v) for v in unit if v is not None and not is_nan(v)] for unit in units]
    low_exact, high_exact = draw(flags), draw(flags)
    lows = [min(s, default=None) if keep else lowered(min(s, default=None)) for s, keep in zip(solid, low_exact)]
    highs = [max(s, default=None) if keep else raised(max(s, default=None)) for s, keep in zip(solid, high_exact)]
    unsure_null, unsure_all, unsure_nan = draw(flags), draw(flags), draw(flags)
    rows = np.array([len(unit) for unit in units], np.int64)
    floats = NODES[name].kind in (TypeKind.DOUBLE, TypeKind.FLOAT)
    made = StatisticsColumn(
        node=NODES[name],
        level="row_group",
        rows=rows,
        count=np.array([sum(v is not None for v in unit) for unit in units], np.int64),
        may_null=np.array([None in unit or unsure for unit, unsure in zip(units, unsure_null)], bool),
        all_null=np.array([not any(v is not None for v in u) and not x for u, x in zip(units, unsure_all)], bool),
        may_nan=np.array([floats and (any(map(is_nan, u)) or x) for u, x in zip(units, unsure_nan)], bool),
        lower=bounds_of(name, lows, draw(flags), low_exact),
        upper=bounds_of(name, highs, draw(flags), high_exact),
        distrusted=None,
        reasons=(),
    )
    return units, made


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), nan=st.sampled_from(["ieee", "largest"]))
def test_statistics_lose_no_row_and_promise_none_wrongly(name, data, nan):
    units, made = data.draw(statistics(name))
    values = [value for unit in units for value in unit]
    predicate = data.draw(predicates([name]))
    root = bind(predicate, pa.schema([(name, KINDS[name][0])]), nan=nan, char_lengths=CHAR).root
    bounds = np.cumsum([0, *made.rows])
    evidence = StatisticsEvidence("row-group statistics", {(name,): made}, bounds, OPTIONS)
    outcome = evaluate(root, [evidence], RowSelection.all(len(values)))
    true = {i for i, v in enumerate(values) if truth(predicate, lambda _, v=v: v, SCHEMA, nan) is True}
    assert true <= set(outcome.may.positions().tolist())
    assert set(outcome.must.positions().tolist()) <= true
    pickle.loads(pickle.dumps(outcome))
    for reasons in (*outcome.reasons_in(bounds), *outcome.proofs_in(bounds)):
        for reason in reasons:
            assert str(reason)


# ---------------------------------------------------------------------- sharpness

YES, NO, NULL, YES_NULL, NO_NULL, YES_NO, YES_NO_NULL = "Y", "N", "U", "YU", "NU", "YN", "YNU"


def ints(low, high, *, null=False, count=10, exact=True):
    """Returns the statistics of 20 rows, or of rows that are all null."""
    present = count > 0
    return StatisticsColumn(
        node=orc_type(TypeKind.LONG),
        level="row_group",
        rows=np.array([20]),
        count=np.array([count]),
        may_null=np.array([null]),
        all_null=np.array([not present]),
        may_nan=np.array([False]),
        lower=NumberBounds(np.array([low]), np.array([present]), np.array([exact])),
        upper=NumberBounds(np.array([high]), np.array([present]), np.array([exact])),
        distrusted=None,
        reasons=(),
    )


def texts(low, high):
    stops = np.array([len(low), len(low) + len(high)])
    spans = np.array([[0, stops[0]], [stops[0], stops[1]]])
    valid, inexact = np.array([True]), np.array([False])
    sides = [BytesBounds(low + high, spans[i : i + 1], valid, inexact) for i in (0, 1)]
    return StatisticsColumn(
        node=orc_type(TypeKind.STRING), level="row_group", rows=np.array([20]), count=np.array([20]),
        may_null=np.array([False]), all_null=np.array([False]), may_nan=np.array([False]),
        lower=sides[0], upper=sides[1], distrusted=None, reasons=(),
    )  # fmt: skip


def verdict(predicate, made, kind=None, negate=False, nan="ieee"):
    """Returns (may, must) for statistics of one list of rows."""
    kind = kind or pa.int64()
    root = bind(~predicate if negate else predicate, pa.schema([("x", kind)]), nan=nan).root
    evidence = StatisticsEvidence("statistics", {("x",): made}, np.array([0, 20]), OPTIONS)
    outcome = evaluate(root, [evidence], RowSelection.all(20))
    return not outcome.may.is_empty, outcome.must.is_all


x = col("x")
ANCHORS = [
    # =
    (x == 9, NO), (x == 21, NO), (x == 10, YES_NO), (x == 15, YES_NO), (x == 20, YES_NO),
    (x.eq_null_safe(9), NO), (x.eq_null_safe(15), YES_NO), (x.eq_null_safe(None), NO),
    # <, <=
    (x < 10, NO), (x < 11, YES_NO), (x < 20, YES_NO), (x < 21, YES),
    (x <= 9, NO), (x <= 10, YES_NO), (x <= 19, YES_NO), (x <= 20, YES),
    (x > 20, NO), (x > 19, YES_NO), (x > 9, YES), (x >= 21, NO), (x >= 20, YES_NO), (x >= 10, YES),
    # IN, BETWEEN
    (x.is_in([1, 9, 21]), NO), (x.is_in([1, 12]), YES_NO), (x.is_in([1, None]), NULL),
    (x.is_in([*range(-50, 10), 21]), NO), (x.is_in(range(20, 60)), YES_NO),
    (x.between(1, 9), NO), (x.between(21, 30), NO), (x.between(10, 20), YES), (x.between(0, 100), YES),
    (x.between(11, 100), YES_NO), (x.between(0, 10), YES_NO), (x.between(30, 1), NO),
    (x.is_null(), NO),
    # literals of other types are compared exactly
    (x == 10.5, NO), (x < 10.5, YES_NO), (x <= Decimal("20.5"), YES), (x == 2**70, NO), (x < math.inf, YES),
]  # fmt: skip


@pytest.mark.parametrize(("predicate", "answer"), ANCHORS, ids=[repr(p) for p, _ in ANCHORS])
@pytest.mark.parametrize("null", [False, True])
def test_a_range_answers_as_sharply_as_the_table(predicate, answer, null):
    made = ints(10, 20, null=null)
    null_safe = predicate.op.value in ("is_null", "eq_null_safe")
    may, must = verdict(predicate, made)
    if predicate == x.is_null() or predicate == x.eq_null_safe(None):
        assert (may, must) == (null, False)
        return
    assert may == ("Y" in answer)
    assert must == (answer == YES and not null)
    not_may, not_must = verdict(predicate, made, negate=True)
    if answer == NULL:
        assert (not_may, not_must) == (False, False)
        return
    assert not_may == ("N" in answer) or (null_safe and null)
    assert not_must == (answer == NO and (null_safe or not null))


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [(x == 10, YES), (x == 11, NO), (x.is_in([1, 10]), YES), (x.is_in([1, 11]), NO), (x <= 10, YES), (x < 10, NO)],
    ids=repr,
)
def test_one_single_value(predicate, answer):
    assert verdict(predicate, ints(10, 10)) == (answer == YES, answer == YES)
    assert verdict(predicate, ints(10, 10), negate=True) == (answer == NO, answer == NO)


@pytest.mark.parametrize(
    ("predicate", "may", "must"),
    [
        (x == 1, False, False),
        (x != 1, False, False),
        (x.is_null(), True, True),
        (~x.is_null(), False, False),
        (x.eq_null_safe(None), True, True),
        (x.eq_null_safe(1), False, False),
        (~x.eq_null_safe(1), True, True),
    ],
    ids=repr,
)
def test_all_null(predicate, may, must):
    assert verdict(predicate, ints(0, 0, null=True, count=0)) == (may, must)


@pytest.mark.parametrize(
    ("predicate", "may"),
    [
        (x.starts_with("ab"), True),
        (x.starts_with("b"), True),
        (x.starts_with("c"), False),
        (x.starts_with("ba"), False),
        (x.starts_with("aaz"), False),
        (x.starts_with(""), True),
        (x.like("c%"), False),
        (x.like("c_x"), False),
        (x.like("a%x"), True),
        (x.like("%c"), True),
        (x.ends_with("zzz"), True),
    ],
    ids=repr,
)
def test_prefixes_prune_by_range(predicate, may):
    assert verdict(predicate, texts(b"ab", b"b"), pa.string())[0] is may


def test_prefixes_are_proved_too():
    assert verdict(x.starts_with("ab"), texts(b"ab", b"abz"), pa.string()) == (True, True)
    assert verdict(x.starts_with("ab"), texts(b"ab", b"abz"), pa.string(), negate=True) == (False, False)
    assert verdict(x.like("ab%"), texts(b"ab", b"abz"), pa.string()) == (True, True)


def test_a_value_may_equal_a_cut_bound():
    """Java truncates the bound of a long value. Another value can be equal to the truncated bound."""
    low, high = b"a" * 1024, b"b" * 1023 + b"c"
    made = texts(low, high)
    assert verdict(x == low.decode(), made, pa.string()) == (True, False)
    assert verdict(x == high.decode(), made, pa.string()) == (True, False)
    assert verdict(x <= low.decode(), made, pa.string()) == (True, False)
    assert verdict(x < low.decode(), made, pa.string()) == (False, False)
    assert verdict(x < high.decode(), made, pa.string()) == (True, False)
    assert verdict(x <= high.decode(), made, pa.string()) == (True, True)
    assert verdict(x == low.decode() + "a", made, pa.string()) == (True, False)


def test_nan_hides_from_the_bounds():
    def doubles(may_nan):
        made = ints(0, 0)
        sides = [NumberBounds(np.array([x]), np.array([True]), np.array([True])) for x in (1.0, 2.0)]
        node, nan = orc_type(TypeKind.DOUBLE), np.array([may_nan])
        return dataclasses.replace(made, node=node, lower=sides[0], upper=sides[1], may_nan=nan)

    kind = pa.float64()
    assert verdict(x > 5, doubles(True), kind) == (False, False)
    assert verdict(x > 5, doubles(True), kind, nan="largest") == (True, False)
    assert verdict(x > 5, doubles(False), kind, nan="largest") == (False, False)
    assert verdict(x < 5, doubles(True), kind) == (True, False)
    assert verdict(x < 5, doubles(True), kind, negate=True) == (True, False)
    assert verdict(x < 5, doubles(False), kind, negate=True) == (False, False)
    assert verdict(x >= 1, doubles(True), kind, nan="largest") == (True, True)
    assert verdict(x.is_nan(), doubles(False), kind) == (False, False)
    assert verdict(x.is_nan(), doubles(True), kind) == (True, False)
    assert verdict(x != 5, doubles(True), kind) == (True, True)


# ---------------------------------------------------------------------- trusted writers, and texts of reasons


def notes_of(predicate, columns, **options):
    root = bind(predicate, pa.schema([("x", pa.int64()), ("s", pa.string())])).root
    evidence = StatisticsEvidence("row-group statistics", columns, np.array([0, 20]), OPTIONS, stripe=3, **options)
    evaluate(root, [evidence], RowSelection.all(20))
    return [(note.kind, note.text, note.column, note.stripe) for note in evidence.notes]


def test_evidence_says_why_it_is_silent():
    unknown = ints(0, 0, count=0).lower
    distrusted = dataclasses.replace(ints(0, 9), distrusted="wrong writer", lower=unknown, upper=unknown)
    odd = dataclasses.replace(distrusted, distrusted=None, reasons=(("upside down", np.array([True])),))
    assert notes_of(x == 1, {}) == [("absent", "the column has no statistics", "x", 3)]
    assert notes_of(x == 1, {}, missing={("x",): "damaged row index"}) == [("damaged", "damaged row index", "x", 3)]
    assert notes_of(x == 1, {("x",): distrusted}) == [("distrusted", "wrong writer", "x", 3)]
    assert notes_of(x == 1, {("x",): odd}) == [("distrusted", "upside down", "x", 3)]
    assert notes_of(x.is_null(), {("x",): distrusted}) == [("distrusted", "wrong writer", "x", 3)], "if nulls decide"
    assert notes_of(col("s").contains("q"), {("s",): texts(b"a", b"b")})[0][0] == "silent"
    assert notes_of(col("s") == "q", {("s",): ints(1, 2)})[0][0] == "silent"
    assert notes_of(x == 1, {("x",): ints(0, 0, null=True, count=0)}) == []
    assert notes_of(x == 30, {("x",): ints(1, 2)}) == []
    assert notes_of(x == 5, {("x",): ints(0, 9)}) == []
    for gone in ({"lower": unknown}, {"upper": unknown}, {"lower": unknown, "upper": unknown}):
        without = dataclasses.replace(ints(0, 9, null=True), **gone)
        assert notes_of(x == 5, {("x",): without}) == [("absent", "there are no minimum and maximum", "x", 3)]
        assert notes_of(x.is_null(), {("x",): without}) == []


def test_reasons_show_the_statistic_and_the_literal():
    def why(predicate, made, kind):
        root = bind(predicate, pa.schema([("x", kind)])).root
        evidence = StatisticsEvidence("row-group statistics", {("x",): made}, np.array([0, 20]), OPTIONS)
        return [str(reason) for reason in evaluate(root, [evidence], RowSelection.all(20)).reasons(0, 20)]

    assert why(x > 100, ints(1, 81), pa.int64()) == ["col('x') > 100: min 1, max 81, no null (row-group statistics)"]
    assert why(x.is_null(), ints(1, 81), pa.int64()) == ["col('x').is_null(): no null (row-group statistics)"]
    assert why(x == 1, ints(0, 0, null=True, count=0), pa.int64()) == [
        "col('x') == 1: every row is null (row-group statistics)"
    ]
    days = dataclasses.replace(ints(0, 59, null=True), node=NODES["date"])
    assert why(x > datetime.date(2020, 1, 1), days, pa.date32()) == [
        "col('x') > datetime.date(2020, 1, 1): min 1970-01-01, max 1970-03-01 (row-group statistics)"
    ]
    far = dataclasses.replace(ints(-(10**9), 1, null=True), node=NODES["timestamp"])
    assert (
        "min 1969-12-31 23:59:59, max 1970-01-01 00:00:00.000000001"
        in (why(x > datetime.datetime(2020, 1, 1), far, pa.timestamp("ns"))[0])
    )
    assert "max 'b'" in why(x == "c", texts(b"a", b"b"), pa.string())[0]


@pytest.mark.parametrize(
    ("kind", "node", "char", "answer"),
    [
        (pa.int64(), orc_type(TypeKind.BYTE), None, True),
        (pa.float64(), orc_type(TypeKind.INT), None, True),
        (pa.float32(), orc_type(TypeKind.INT), None, False),
        (pa.float32(), orc_type(TypeKind.SHORT), None, True),
        (pa.float64(), orc_type(TypeKind.LONG), None, False),
        (pa.float64(), orc_type(TypeKind.FLOAT), None, True),
        (pa.float32(), orc_type(TypeKind.DOUBLE), None, False),
        (pa.decimal128(20, 2), orc_type(TypeKind.LONG), None, True),
        (pa.string(), orc_type(TypeKind.INT), None, False),
        (pa.string(), orc_type(TypeKind.CHAR, max_length=3), None, False),
        (pa.string(), orc_type(TypeKind.CHAR, max_length=3), 3, True),
        (pa.string(), orc_type(TypeKind.STRING), 3, False),
        (pa.timestamp("ns"), orc_type(TypeKind.TIMESTAMP), None, True),
        (pa.timestamp("ns"), orc_type(TypeKind.TIMESTAMP_INSTANT), None, False),
        (pa.timestamp("ns", "UTC"), orc_type(TypeKind.TIMESTAMP_INSTANT), None, True),
        (pa.timestamp("us"), orc_type(TypeKind.DATE), None, False),
    ],
)
def test_only_columns_that_compare_alike_are_tested(kind, node, char, answer):
    literals = {
        pa.string(): "1",
        pa.timestamp("ns"): np.datetime64(1, "ns"),
        pa.timestamp("us"): np.datetime64(1, "us"),
    }
    literal = literals.get(kind, pa.scalar(1, kind) if pa.types.is_timestamp(kind) else 1)
    leaf = bind(x == literal, pa.schema([("x", kind)]), char_lengths={("x",): char} if char else {}).root
    assert compares_alike(leaf, node, OPTIONS) is answer


# ---------------------------------------------------------------------- bloom filters and dictionaries

JAVA = FileFacts(
    writer=WriterKind.JAVA,
    writer_version=9,
    software_version="2.0.0",
    compression=CompressionKind.NONE,
    block_size=1 << 18,
    row_index_stride=10,
    hybrid_calendar=False,
    decimal64=False,
)


def bloom_index(*bits: bytes) -> BloomFilters:
    """Returns a bloom filter with two hash functions for each bitset."""
    parts = [b"\x08\x02\x1a" + bytes([len(one)]) + one for one in bits]
    return BloomFilters(b"".join(b"\x0a" + bytes([len(part)]) + part for part in parts))


def bloom_outcome(predicate, filters, *, kind=None, node=None, **options):
    node = node or orc_type(TypeKind.LONG)
    root = bind(predicate, pa.schema([("x", kind or pa.int64())])).root
    filters = {("x",): (node, filters)} if filters is not None else {}
    evidence = BloomEvidence(filters, np.array([0, 10, 20]), JAVA, OPTIONS, stripe=1, **options)
    return evaluate(root, [evidence], RowSelection.all(20)), evidence.notes


def test_bloom_filters_rule_row_groups_out():
    nothing, everything = b"\x00" * 8, b"\xff" * 8
    filters = bloom_index(nothing, everything)
    outcome, notes = bloom_outcome(x == 5, filters)
    assert outcome.may.runs().tolist() == [[10, 20]]
    assert not notes
    assert str(outcome.reasons(0, 10)[0]) == "col('x') == 5: the filter does not contain the value (bloom filter)"
    assert bloom_outcome(x.is_in([5, 6]), filters)[0].may.count == 10
    assert bloom_outcome(x.eq_null_safe(5), filters)[0].may.count == 10
    for predicate in (x != 5, x < 5, ~x.is_in([5, 6]), x.is_null(), ~x.eq_null_safe(5), x.between(1, 3)):
        assert bloom_outcome(predicate, filters)[0].may.is_all
    assert bloom_outcome(x == 2**70, filters)[0].may.is_empty


def test_bloom_filters_that_cannot_be_used_keep_the_rows_and_say_so():
    nothing = b"\x00" * 8
    assert [n.kind for n in bloom_outcome(x == 5, None)[1]] == ["absent"]
    ignored = {("x",): ("distrusted", "bad hashes")}
    assert [n.kind for n in bloom_outcome(x == 5, None, ignored=ignored)[1]] == ["distrusted"]
    outcome, notes = bloom_outcome(x == 5, bloom_index(nothing))
    assert outcome.may.is_all
    assert [(note.kind, note.text) for note in notes] == [("damaged", "there are 1 filters for 2 row groups")]
    outcome, notes = bloom_outcome(x == 5, bloom_index(nothing, b"\x00" * 7))
    assert outcome.may.runs().tolist() == [[10, 20]]
    assert notes[0].kind == "damaged"
    outcome, notes = bloom_outcome(
        x == 5, bloom_index(nothing, nothing), kind=pa.float64(), node=orc_type(TypeKind.INT)
    )
    assert outcome.may.is_all
    assert notes[0].kind == "silent"
    when = datetime.datetime(2020, 1, 1)
    outcome, notes = bloom_outcome(
        x == when, bloom_index(nothing, nothing), kind=pa.timestamp("ns"), node=orc_type(TypeKind.TIMESTAMP)
    )
    assert outcome.may.is_all
    assert [(note.kind, note.stripe) for note in notes] == [("silent", 1)]
    assert notes[0].text.startswith("the filters cannot show whether they contain ")


def test_what_a_bloom_filter_could_answer_is_known_before_it_is_fetched():
    schema = pa.schema([("x", pa.int64())])
    node = orc_type(TypeKind.LONG)
    for predicate, answer in [(x == 1, True), (x.is_in([1, 2]), True), (x != 1, False), (x < 1, False)]:
        assert bloom_answers(bind(predicate, schema).root, node, OPTIONS) is answer


def test_zeros_of_both_signs_are_looked_for():
    filters = bloom_index(b"\x00" * 8, b"\xff" * 8)
    outcome, _ = bloom_outcome(x == 0.0, filters, kind=pa.float64(), node=orc_type(TypeKind.DOUBLE))
    assert outcome.may.count == 10


@pytest.mark.parametrize(
    ("predicate", "may"),
    [
        (x == "a", True),
        (x == "c", False),
        (x != "a", True),
        (x.is_in(["c", "d"]), False),
        (x.like("%q%"), False),
        (x.contains("b"), True),
        (~x.is_in(["a", "b"]), False),
        (x.is_null(), True),
        (~x.eq_null_safe("a"), True),
        (x.eq_null_safe("c"), False),
    ],
    ids=repr,
)
def test_dictionaries(predicate, may):
    root = bind(predicate, pa.schema([("x", pa.string())])).root
    evidence = DictionaryEvidence({("x",): pa.array(["a", "b"])}.get, 20)
    outcome = evaluate(root, [evidence], RowSelection.all(20))
    assert outcome.may.is_empty is not may
    if not may:
        assert "none of its 2 entries matches" in str(outcome.reasons(0, 20)[0])
    assert evaluate(root, [DictionaryEvidence({}.get, 20)], RowSelection.all(20)).may.is_all


# ---------------------------------------------------------------------- files


def evidence_of(source: bytes, options=OPTIONS):
    """Returns all evidence of a file of one stripe, as the reader creates it."""
    storage = open_reader(source)
    reader = OrcReader(storage)
    assert len(reader.stripes) == 1
    nodes = [node for node in reader.root.walk() if node.path and node.id not in reader.root.repeated_ids]
    index = read_row_index(reader, 0, nodes)
    rows = reader.stripes[0].rows

    def columns(raw_of, zone=None):
        found = ((node, raw_of(node)) for node in nodes)
        return {node.path: bound_statistics(raw, reader.facts, options, zone=zone) for node, raw in found if raw}

    filters = {}
    extents = reader.extents(0)
    for node in nodes:
        place = extents.get((node.id, StreamKind.BLOOM_FILTER_UTF8))
        if place:
            (raw,) = storage.read_ranges([place])
            filters[node.path] = node, BloomFilters(unframe(raw, reader.tail.postscript, name="BLOOM_FILTER_UTF8"))
    whole = np.array([0, rows])
    zone = zone_of_statistics(reader.footer(0).writer_timezone)
    groups = {path: index.columns[path_id].statistics for path, path_id in ((n.path, n.id) for n in nodes)}
    return [
        StatisticsEvidence("file", columns(lambda node: file_statistics(reader.tail, node)), whole, options),
        StatisticsEvidence("stripe", columns(lambda node: stripe_statistics(reader.tail, node)), whole, options),
        StatisticsEvidence("row group", columns(lambda node: groups[node.path], zone), index.bounds, options),
        BloomEvidence(filters, index.bounds, reader.facts, options, stripe=0),
    ]


FILE_KINDS = [name for name in KINDS if name != "char"]


@pytest.fixture(scope="module")
def files():
    """Files of pyarrow's writer with bloom filters and row groups of 10 rows, as (values by column, evidence)."""
    made = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        values = {}
        for name in FILE_KINDS:
            pool = np.empty(len(KINDS[name][1]), object)
            pool[:] = KINDS[name][1]
            few = [random.choice(len(pool), random.integers(1, 4)) for _ in range(6)]
            picks = [pool[random.choice(few[row // 10])] if random.random() > 0.15 else None for row in range(60)]
            values[name] = [None if 20 <= row < 30 and seed % 2 else value for row, value in enumerate(picks)]
        table = pa.table({name: column(name, values[name]) for name in FILE_KINDS})
        buffer = io.BytesIO()
        pa.orc.write_table(
            table, buffer, row_index_stride=10, bloom_filter_columns=list(range(len(FILE_KINDS))), compression="zlib"
        )
        made.append((values, evidence_of(buffer.getvalue())))
    return made


@settings(max_examples=120, deadline=None)
@given(data=st.data(), nan=st.sampled_from(["ieee", "largest"]), seed=st.integers(0, 5))
def test_files_by_pyarrow_lose_no_row(files, data, nan, seed):
    values, evidence = files[seed]
    names = data.draw(st.lists(st.sampled_from(FILE_KINDS), min_size=1, max_size=2, unique=True))
    predicate = data.draw(predicates(names))
    schema = pa.schema([(name, KINDS[name][0]) for name in FILE_KINDS])
    root = bind(predicate, schema, nan=nan).root
    outcome = evaluate(root, evidence, RowSelection.all(60))
    true = {row for row in range(60) if truth(predicate, lambda path, r=row: values[path[0]][r], SCHEMA, nan) is True}
    assert true <= set(outcome.may.positions().tolist())
    assert set(outcome.must.positions().tolist()) <= true


def test_blooms_of_files_find_what_is_there_and_deny_the_rest(files):
    denied = 0
    for values, (*_, blooms) in files:
        for name in ("int64", "string", "float64", "date", "decimal"):
            for literal in KINDS[name][1]:
                root = bind(col(name) == literal, pa.schema([(name, KINDS[name][0])])).root
                if not isinstance(root, BoundLeaf):
                    continue
                may = evaluate(root, [blooms], RowSelection.all(60)).may
                true = [leaf_truth(root.leaf, value, SCHEMA[(name,)], "ieee") is True for value in values[name]]
                assert set(np.flatnonzero(true).tolist()) <= set(may.positions().tolist())
                denied += not may.is_all
    assert denied > 100


def test_a_field_of_a_nullable_struct_may_be_null_where_its_own_statistics_see_no_null():
    inner = pa.array([1, 2, 3, 4], pa.int64())
    outer = pa.StructArray.from_arrays([inner], ["z"], mask=pa.array([False, True, False, True]))
    buffer = io.BytesIO()
    pa.orc.write_table(pa.table({"x": outer}), buffer)
    evidence = evidence_of(buffer.getvalue())
    schema = pa.schema([("x", outer.type)])
    assert evaluate(bind(col("x.z").is_null(), schema).root, evidence, RowSelection.all(4)).may.is_all
    assert evaluate(bind(col("x.z") > 9, schema).root, evidence, RowSelection.all(4)).may.is_empty
    assert evaluate(bind(col("x.z") < 9, schema).root, evidence, RowSelection.all(4)).must.is_empty


def test_times_before_1970_with_fractions_are_found():
    """For row groups with such times, ORC C++ computes wrong minima and maxima. Its own reader does not find any of
    these rows."""
    moment = datetime.datetime(1969, 6, 1, 12, 0, 0, 500_000)
    buffer = io.BytesIO()
    pa.orc.write_table(pa.table({"t": pa.array([moment] * 100, pa.timestamp("ns"))}), buffer)
    evidence = evidence_of(buffer.getvalue())
    schema = pa.schema([("t", pa.timestamp("ns"))])
    assert evaluate(bind(col("t") == moment, schema).root, evidence, RowSelection.all(100)).may.is_all
    later = moment + datetime.timedelta(microseconds=1)
    assert evaluate(bind(col("t") >= later, schema).root, evidence, RowSelection.all(100)).may.is_empty


@pytest.mark.parametrize("groups", [100, 10_000])
def test_row_groups_are_pruned_all_at_once(groups):
    """The number of Python calls does not depend on the number of row groups."""
    random = np.random.default_rng(0)
    low = random.integers(0, 1 << 40, groups)
    everywhere = np.ones(groups, bool)
    made = StatisticsColumn(
        node=orc_type(TypeKind.LONG), level="row_group", rows=np.full(groups, 10_000), count=np.full(groups, 10_000),
        may_null=~everywhere, all_null=~everywhere, may_nan=~everywhere,
        lower=NumberBounds(low, everywhere, everywhere), upper=NumberBounds(low + 1000, everywhere, everywhere),
        distrusted=None, reasons=(),
    )  # fmt: skip
    bounds = np.arange(groups + 1) * 10_000
    root = bind(x < 1 << 39, pa.schema([("x", pa.int64())])).root
    span = RowSelection.all(groups * 10_000)
    found = []
    calls = python_calls(
        lambda: found.append(evaluate(root, [StatisticsEvidence("row group", {("x",): made}, bounds, OPTIONS)], span))
    )
    assert calls <= 150
    assert not found[0].may.is_all
    assert not found[0].may.is_empty
