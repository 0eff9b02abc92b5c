"""How many of a scan's bytes each of two stripes may hold while both are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcidx.fetching.byte_budget import ByteBudget


def test_the_first_may_take_all_and_the_next_half_or_waits() -> None:
    budget = ByteBudget(100)
    first, second = budget.enter(), budget.enter()
    assert first.room(100, whole=True) == 100
    assert second.room(51, whole=True) is None
    assert second.room(50, whole=True) == 50
    second.held = 50
    assert first.room(50, whole=True) == 50
    first.held = 20
    assert first.room(31, whole=True) == 30, "the rest is read in pieces"
    first.close()
    assert second.room(50, whole=True) == 50
    second.close()
    assert budget.shares == []


def test_whoever_reads_in_pieces_never_waits() -> None:
    budget = ByteBudget(100)
    first, second = budget.enter(), budget.enter()
    assert first.room(1000, whole=False) == second.room(1000, whole=False) == 50
    first.held = 80
    assert second.room(1000, whole=False) == 20
    second.held = 20
    assert second.room(1000, whole=False) == 0


@given(st.data())
def test_no_more_is_held_than_the_budget_says(data: st.DataObject) -> None:
    """Two stripes are read at the same time and request bytes in any order. The second stripe may have to wait, but
    only until the first stripe is done."""
    budget = ByteBudget(100)
    current = budget.enter()
    for _ in range(data.draw(st.integers(1, 6))):
        following = budget.enter()
        for share in data.draw(st.permutations([current, following, current])):
            needed = data.draw(st.integers(0, 150))
            room = share.room(needed, whole=data.draw(st.booleans()))
            assert room is not None or share is following
            share.held += min(needed, room or 0)
            assert sum(one.held for one in budget.shares) <= 100
        current.close()
        current = following
        assert current.room(data.draw(st.integers(0, 150)), whole=True) is not None


def test_a_share_is_given_back_once() -> None:
    share = ByteBudget(1).enter()
    share.close()
    with pytest.raises(ValueError, match="not in list"):
        share.close()
