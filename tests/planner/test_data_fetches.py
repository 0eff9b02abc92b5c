"""Which columns of a stripe are fetched together, how many requests this takes, and what waits until bytes of the
budget are free."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from orcidx import ReadOptions
from orcidx.fetching.byte_budget import ByteBudget
from orcidx.fetching.drive import PENDING, Fetch
from orcidx.planner.data_fetches import JOINED_BYTES, JOINED_OVER_READ_BYTES, DataFetches

MIB = 1 << 20


class Stream:
    """A stream whose planned bytes are these ranges of the file."""

    def __init__(self, *planned: tuple[int, int]) -> None:
        self.planned = planned
        self.got: list[tuple[int, int]] = []

    @property
    def size(self) -> int:
        return sum(stop - start for start, stop in self.planned)

    def absolute(self, piece: tuple[int, int]) -> tuple[int, int]:
        return piece[0], piece[1] - piece[0]

    def first_pieces(self, share: int) -> list[tuple[int, int]]:
        if self.size <= share:
            return list(self.planned)
        return [(self.planned[0][0], self.planned[0][0] + share)] if share else []

    def put(self, start: int, buffer: bytes) -> None:
        self.got.append((start, len(buffer)))


def fetches(
    requests: int | None, *, budget: ByteBudget | None = None, is_local: bool = False
) -> tuple[DataFetches, ByteBudget]:
    stripe: Any = SimpleNamespace(is_local=is_local)
    budget = ByteBudget(64 * MIB) if budget is None else budget
    return DataFetches(stripe, ReadOptions(), requests, budget.enter()), budget


def answered(steps: Any) -> list[Fetch]:
    asked, answer = [], None
    while (item := next(steps, None) if answer is None else _sent(steps, answer)) is not None:
        asked.append(item)
        answer = [bytes(length) for _, length in item.ranges]
    return asked


def _sent(steps: Any, answer: Sequence[bytes]) -> Fetch | None:
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def first_of(requests: int | None, first: Sequence[Stream], rest: Sequence[Stream]) -> tuple[Fetch, DataFetches]:
    made, _ = fetches(requests)
    (asked,) = answered(made.fetch_first(list(first), lambda: list(rest)))
    return asked, made


@pytest.mark.parametrize(("size", "together"), [(JOINED_BYTES, True), (JOINED_BYTES + 1, False)])
def test_without_a_limit_few_bytes_of_other_columns_come_with_the_predicate_s(size: int, together: bool) -> None:
    one, other = Stream((0, 10)), Stream((50, 50 + size))
    asked, _ = first_of(None, [one], [other])
    assert asked == Fetch(((0, 10), (50, size)) if together else ((0, 10),), "data", None)
    assert (one.got, other.got) == ([(0, 10)], [(50, size)] if together else [])


def test_the_last_request_takes_all() -> None:
    asked, made = first_of(1, [Stream((0, 10))], [Stream((50 * MIB, 60 * MIB))])
    assert asked == Fetch(((0, 10), (50 * MIB, 10 * MIB)), "data", 1)
    assert made.requests == 0


def test_requests_go_where_they_save_most() -> None:
    first, rest = [Stream((0, 10), (5 * MIB, 5 * MIB + 10))], [Stream((10 * MIB, 12 * MIB))]
    asked, made = first_of(3, first, rest)
    assert asked == Fetch(((0, 10), (5 * MIB, 10)), "data", 2)
    assert answered(made.fetch(rest)) == [Fetch(((10 * MIB, 2 * MIB),), "data", 1)]
    assert made.requests == 0


def test_few_bytes_far_away_are_left_to_a_request_of_their_own() -> None:
    near, far = JOINED_OVER_READ_BYTES, 20 * MIB
    for gap, together in ((near, True), (far, False)):
        rest = [Stream((10 + gap, 1010 + gap), (1010 + 3 * gap, 2010 + 3 * gap))]
        asked, _ = first_of(2, [Stream((0, 10))], rest)
        assert (len(asked.ranges) == 3) == together


@pytest.mark.parametrize(("gap", "together"), [(3 * MIB, True), (1 * MIB, False)])
def test_other_columns_come_along_where_that_costs_less_than_reading_apart(gap: int, together: bool) -> None:
    """Two requests are allowed. If one of them is left for the other columns, the two ranges of the predicate's column
    must share the first, which then also reads the gap between them. If the gap has more bytes than the other columns,
    all columns are read together."""
    first = [Stream((0, 10), (10 + gap, 20 + gap))]
    rest = [Stream((20 + gap, 20 + gap + 2 * MIB))]
    asked, _ = first_of(2, first, rest)
    assert (len(asked.ranges) == 3) == together


def test_nothing_is_fetched_of_a_local_file_or_of_no_streams() -> None:
    local, budget = fetches(None, is_local=True)
    assert answered(local.fetch([Stream((0, 10))])) == []
    assert answered(local.fetch_first([Stream((0, 10))], lambda: [Stream((20, 30))])) == []
    remote, _ = fetches(2)
    assert answered(remote.fetch([])) == []
    assert remote.requests == 2
    assert budget.shares[0].held == 0


def test_a_stripe_that_is_read_in_few_requests_waits_for_room() -> None:
    budget = ByteBudget(100)
    ahead = budget.enter()
    ahead.held = 80
    made, _ = fetches(4, budget=budget)
    steps = made.fetch([Stream((0, 30))])
    assert [next(steps), next(steps)] == [PENDING, PENDING]
    ahead.held = 60
    assert next(steps) == Fetch(((0, 30),), "data", 4)
    assert made.share.held == 30
    assert made.requests == 0


def test_without_a_limit_a_part_that_has_room_is_fetched() -> None:
    budget = ByteBudget(100)
    budget.enter().held = 80
    made, _ = fetches(None, budget=budget)
    assert answered(made.fetch([Stream((0, 30)), Stream((40, 70))])) == [Fetch(((0, 10), (40, 10)), "data", None)]
    assert made.share.held == 20


def test_the_first_stripe_takes_a_part_when_all_does_not_fit() -> None:
    made, _ = fetches(4, budget=ByteBudget(100))
    assert answered(made.fetch([Stream((0, 300))])) == [Fetch(((0, 50),), "data", None)]
    assert made.share.held == 50
