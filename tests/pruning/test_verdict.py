"""The operations of ``Verdict``, compared with sets of rows."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from orcidx.pruning.evaluate import Verdict

ROWS = 6
row_sets = st.sets(st.integers(0, ROWS - 1))


@st.composite
def facts(draw: st.DrawFn) -> tuple[Verdict, set[int]]:
    """Draws a verdict, and the rows for which its predicate is true. The verdict may have additional rows, but no row
    may be missing."""
    true = draw(row_sets)
    kind = draw(st.sampled_from(["remain", "rows", "exact", "skip"]))
    if kind == "skip":
        return Verdict.skip(), set()
    if kind == "exact":
        return Verdict.of(BitMap(true), True), true
    if kind == "rows":
        return Verdict.of(BitMap(true | draw(row_sets))), true
    return Verdict.remain(), true


def check(verdict: Verdict, true: set[int]) -> None:
    may = set(range(ROWS)) if verdict.rows is None else set(verdict.rows)
    assert true <= may
    assert (verdict.kind == "remain") == (verdict.rows is None)
    if verdict.kind == "skip":
        assert may == set()
    if verdict.exact:
        assert may == true


@given(facts(), facts())
def test_and_or_are_sound(a: tuple[Verdict, set[int]], b: tuple[Verdict, set[int]]) -> None:
    check(a[0] & b[0], a[1] & b[1])
    check(a[0] | b[0], a[1] | b[1])


@given(row_sets, row_sets, row_sets, st.booleans())
def test_refine_keeps_the_exact_answer(true: set[int], extra: set[int], more: set[int], exact: bool) -> None:
    first = Verdict.of(BitMap(true), True) if exact else Verdict.of(BitMap(true | extra))
    second = Verdict.of(BitMap(true | more))
    for verdict in (first.refine(second), second.refine(first)):
        check(verdict, true)
        assert verdict.exact == exact
    assert first.refine(Verdict.remain()) == first
    assert Verdict.remain().refine(first) == first
    assert first.refine(Verdict.skip()).is_empty


@pytest.mark.parametrize("verdict", [Verdict.remain(), Verdict.skip(), Verdict.of(BitMap([1, 5]), True)])
def test_verdicts_pickle_and_compare(verdict: Verdict) -> None:
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_emptiness() -> None:
    assert Verdict.skip().is_empty
    assert Verdict.of(BitMap()).is_empty
    assert not Verdict.remain().is_empty
    assert not Verdict.of(BitMap([0])).is_empty
