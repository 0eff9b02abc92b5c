"""The evaluator uses random evidence correctly for rows that may match and rows that must match. It is lazy, and
records which evidence excluded a row."""

from __future__ import annotations

import functools
import pickle
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcidx.predicate import And, BoundLeaf, Constant, Or, bind, col
from orcidx.pruning.evaluate import Outcome, evaluate
from orcidx.pruning.findings import Finding, Note
from orcidx.pruning.selection import RowSelection

ROWS = 24
SCHEMA = pa.schema([(name, pa.int64()) for name in "abc"])
BOUNDS = np.arange(0, ROWS + 1, 4)


def describe(name: str, rows: np.ndarray) -> list[str]:
    return [f"{name} of row {row}" for row in rows]


@dataclass
class Made:
    """Evidence whose answers are in a table. It records the leaves that were tested."""

    name: str
    answers: dict[BoundLeaf, tuple[RowSelection, RowSelection] | None]
    asked: list[tuple[BoundLeaf, RowSelection]] = field(default_factory=list)
    notes: tuple[Note, ...] = ()

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        assert not alive.is_empty
        self.asked.append((leaf, alive))
        answer = self.answers.get(leaf)
        return None if answer is None else Finding(*answer, self.name, functools.partial(describe, self.name))


def rows(*numbers: int) -> RowSelection:
    return RowSelection.from_positions(np.array(numbers, np.int64), ROWS)


def span(*ranges: tuple[int, int]) -> RowSelection:
    return RowSelection.from_runs(ranges, ROWS)


ALL, NONE = RowSelection.all(ROWS), RowSelection.none(ROWS)
sets = st.sets(st.integers(0, ROWS - 1)).map(lambda s: rows(*s))
leaf_predicates = st.builds(lambda name, value: col(name) == value, st.sampled_from("abc"), st.integers(0, 2))
trees = st.recursive(
    leaf_predicates,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
        st.sampled_from([Constant(True), Constant(False)]),
    ),
    max_leaves=6,
)


def true_rows(node, truth) -> RowSelection:
    if isinstance(node, BoundLeaf):
        return truth[node]
    if isinstance(node, Constant):
        return ALL if node.value else NONE
    parts = [true_rows(child, truth) for child in node.children]
    return functools.reduce(lambda x, y: x & y if isinstance(node, And) else x | y, parts)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_it_never_loses_a_row_and_never_promises_a_wrong_one(data):
    bound = bind(data.draw(trees), SCHEMA)
    leaves = list(dict.fromkeys(bound.leaves()))
    truth = {leaf: data.draw(sets) for leaf in leaves}
    alive = data.draw(st.one_of(st.just(ALL), sets))
    evidence = []
    for number in range(data.draw(st.integers(0, 3))):
        answers = {}
        for leaf in leaves:
            if data.draw(st.booleans()):
                answers[leaf] = truth[leaf] | data.draw(sets), truth[leaf] & data.draw(sets)
        evidence.append(Made(f"evidence {number}", answers))
    wanted = true_rows(bound.root, truth) & alive
    cut = data.draw(st.integers(0, len(evidence)))
    whole = evaluate(bound.root, evidence, alive)
    coarse = evaluate(bound.root, evidence[:cut], alive)
    fine = evaluate(bound.root, evidence[cut:], coarse.may, prior=coarse.states)
    for outcome in (whole, coarse, fine):
        assert (wanted - outcome.may).is_empty
        assert (outcome.must - wanted).is_empty
        assert (outcome.may - alive).is_empty
        assert not outcome.notes
        again = pickle.loads(pickle.dumps(outcome))
        assert (again.may, again.must) == (outcome.may, outcome.must)
        for start, stop in pairwise(BOUNDS.tolist()):
            dead = outcome.may.slice(start, stop).is_empty
            reasons = outcome.reasons(start, stop)
            assert bool(reasons) == dead
            assert reasons == outcome.slice(start, ROWS).reasons(0, stop - start)
    assert fine.may == whole.may


def leaf_of(predicate) -> BoundLeaf:
    return bind(predicate, SCHEMA).root


A, B = leaf_of(col("a") == 1), leaf_of(col("b") == 2)


def test_answers_meet_per_leaf_before_and_and_or():
    bitmap = Made("bitmap index", {A: (rows(1, 2), rows(1, 2))})
    statistics = Made("statistics", {B: (span((20, 24)), NONE)})
    outcome = evaluate(Or((A, B)), [bitmap, statistics], ALL)
    assert outcome.may == rows(1, 2, 20, 21, 22, 23)
    assert outcome.must == rows(1, 2)
    assert not outcome.proved


def test_fine_evidence_is_asked_only_about_rows_that_coarse_evidence_left_alive():
    coarse = Made("coarse", {A: (span((0, 8)), NONE), B: (span((4, 12)), NONE)})
    fine = Made("fine", {})
    evaluate(And((A, B)), [coarse, fine], ALL)
    assert coarse.asked == [(A, ALL), (B, span((0, 8)))]
    assert fine.asked == [(A, span((4, 8))), (B, span((4, 8)))]


def test_under_or_sure_rows_are_not_asked_again():
    first = Made("first", {A: (span((0, 8)), span((0, 8)))})
    second = Made("second", {})
    evaluate(Or((A, B)), [first, second], ALL)
    assert first.asked[1] == (B, span((8, 24)))
    assert second.asked == [(B, span((8, 24)))]


def test_nothing_is_asked_once_all_is_decided():
    late = Made("late", {})
    dead = evaluate(A, [Made("early", {A: (NONE, NONE)}), late], ALL)
    sure = evaluate(A, [Made("early", {A: (ALL, ALL)}), late], ALL)
    assert dead.may.is_empty
    assert sure.proved
    assert not late.asked


def test_rows_that_were_not_asked_about_do_not_count():
    first = Made("first", {A: (span((0, 8)), NONE)})
    careless = Made("careless", {A: (NONE, span((8, 24)))})
    outcome = evaluate(Or((A, B)), [first, careless], ALL)
    assert outcome.may == ALL
    assert outcome.must.is_empty
    assert [str(reason) for reason in evaluate(A, [first, careless], ALL).reasons(8, 24)] == [
        "col('a') == 1: first of row 8 (first)"
    ]


def test_evidence_that_contradicts_itself_is_not_believed():
    outcome = evaluate(A, [Made("broken", {A: (rows(1), rows(2))})], ALL)
    assert outcome.may == ALL
    assert [(note.source, note.kind, note.column) for note in outcome.notes] == [("broken", "damaged", "a")]


def test_reasons_name_the_one_that_sufficed_or_all_that_together_did():
    def why(root, *evidence: Made, start=0, stop=4, alive=ALL) -> list[str]:
        return [reason.source for reason in evaluate(root, evidence, alive).reasons(start, stop)]

    half = Made("half", {A: (rows(2, 3), NONE)})
    other = Made("other", {B: (rows(0, 1), NONE)})
    whole = Made("whole", {B: (span((4, 24)), NONE)})
    assert why(And((A, B)), half, whole) == ["half", "whole"]
    assert why(And((A, B)), whole, half) == ["whole"]
    assert why(And((A, B)), half, other) == ["half", "other"]
    assert why(Or((A, B)), Made("x", {A: (NONE, NONE), B: (NONE, NONE)})) == ["x", "x"]
    assert why(And((A, B)), half) == []
    assert why(Constant(False)) == ["predicate"]
    assert why(A, alive=span((4, 24))) == ["selection"]


def test_proofs_name_what_proved_rows():
    outcome = evaluate(A, [Made("statistics", {A: (ALL, span((4, 8)))})], ALL)
    found = outcome.proofs_in(np.array([0, 8, 12]))
    assert [[str(proof) for proof in proofs] for proofs in found] == [
        ["col('a') == 1: statistics of row 4 (statistics)"],
        [],
    ]


def test_notes_are_collected_once():
    note = Note("bloom filter", "distrusted", "written by ORC C++ 1.6.0", "a")
    outcome = evaluate(A, [Made("one", {}, notes=(note,)), Made("two", {}, notes=(note,))], ALL)
    assert outcome.notes == (note,)


def test_ten_thousand_groups_fold_quickly():
    bounds = np.arange(0, 10_001) * 10_000
    mask = np.zeros(10_000, bool)
    mask[::2] = True
    may = RowSelection.from_groups(mask, bounds)
    length = may.length
    all_rows = RowSelection.all(length)

    class Groups:
        name, notes = "groups", ()

        def test(self, leaf, alive):
            return Finding(RowSelection.from_groups(mask, bounds), RowSelection.none(length), "groups", self.describe)

        def describe(self, rows):
            asked.append(len(rows))
            return [f"row {row}" for row in rows]

    asked = []
    outcome = evaluate(And((A, B)), [Groups(), Groups()], all_rows)
    assert isinstance(outcome, Outcome)
    assert outcome.may == may
    reasons = outcome.reasons_in(bounds)
    assert asked == [5_000], "one call describes all facts, and only the facts that are used"
    assert [(len(one), str(one[0]) if one else "") for one in reasons[2:4]] == [
        (0, ""),
        (1, "col('a') == 1: row 30000 (groups)"),
    ]


@settings(max_examples=60)
@given(trees, st.data())
def test_groups_have_the_reasons_that_each_has_alone(where, data):
    root = bind(where, SCHEMA).root
    leaves = list(dict.fromkeys(bind(where, SCHEMA).leaves()))
    evidence = []
    for name in ("coarse", "fine"):
        may = {leaf: data.draw(sets) for leaf in leaves}
        evidence.append(Made(name, {leaf: (may[leaf], may[leaf] & data.draw(sets)) for leaf in leaves}))
    outcome = evaluate(root, evidence, data.draw(sets))
    for (start, stop), reasons in zip(pairwise(BOUNDS.tolist()), outcome.reasons_in(BOUNDS)):
        alone = outcome.reasons(start, stop)
        assert reasons == alone if outcome.may.slice(start, stop).is_empty else not alone


@pytest.mark.parametrize("value", [True, False])
def test_constants(value):
    outcome = evaluate(Constant(value), [], span((0, 5)))
    assert outcome.may == outcome.must == (span((0, 5)) if value else NONE)
