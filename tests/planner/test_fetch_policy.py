"""Which footers and indexes are read together, and how many requests are then left for the data of a stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from orcidx import ReadOptions
from orcidx.fetching.drive import Fetch
from orcidx.planner.fetch_policy import FOOTERS_AHEAD, LARGEST_INDEX_BYTES, STRIPE_REQUESTS, StripeRequests

FOOTER = 100
DATA = 50_000


class Reader:
    """A reader of stripes whose index sections have the lengths ``indexes``. It knows no footer yet. ``requests`` is
    the number of requests that were made."""

    def __init__(self, indexes: Sequence[int], requests: int) -> None:
        self.stripes: list[Any] = []
        self.storage = SimpleNamespace(metrics=SimpleNamespace(requests=requests))
        self.footers: dict[int, Any] = {}
        offset = 3
        for length in indexes:
            self.stripes.append(SimpleNamespace(offset=offset, index_length=length))
            offset += length + DATA + FOOTER

    def has_footer(self, stripe: int) -> bool:
        return stripe in self.footers

    def footer_range(self, stripe: int) -> tuple[int, int]:
        return self.stripes[stripe].offset + self.stripes[stripe].index_length + DATA, FOOTER

    def put_footer(self, stripe: int, buffer: Any) -> None:
        self.footers[stripe] = buffer


class Pruner:
    """A pruner that requests the fetches in ``asked``, one after the other."""

    def __init__(self, *asked: Fetch, blooms: Sequence[tuple[int, int]] = ()) -> None:
        self.asked = asked
        self.blooms = list(blooms)

    def decide(self, stripe: int) -> Iterator[Fetch]:
        for one in self.asked:
            found = yield one
            assert [len(buffer) for buffer in found] == [length for _, length in one.ranges]
        return f"decided {stripe}"

    def bloom_places(self, stripe: int) -> list[tuple[int, int]]:
        return self.blooms


class Run:
    """Runs the decisions of a scan, and answers each of its requests."""

    def __init__(self, indexes: Sequence[int], *, requests: int = 1, selective: bool = True, **options: Any) -> None:
        self.reader: Any = Reader(indexes, requests)
        self.requests = StripeRequests(self.reader, ReadOptions(**options), selective=selective)

    def decide(self, stripe: int, alive: Sequence[int], pruner: Any = None) -> list[list[str] | list[tuple[int, int]]]:
        """Decides about a stripe. Returns what is fetched: footers and indexes as texts with their stripe numbers, and
        other ranges unchanged."""
        names = {self.reader.footer_range(number): f"footer {number}" for number in range(len(self.reader.stripes))}
        names |= {(one.offset, one.index_length): f"index {number}" for number, one in enumerate(self.reader.stripes)}
        steps = self.requests.decide(stripe, alive, Pruner() if pruner is None else pruner)
        fetched, answer, decided = [], None, None
        while decided is None:
            try:
                item = steps.send(answer)
            except StopIteration as stop:
                decided = stop.value
            else:
                fetched.append([names.get(one, one) for one in item.ranges])
                answer = [memoryview(bytes(length)) for _, length in item.ranges]
        assert decided == f"decided {stripe}"
        return fetched


def of(footers: Sequence[int], indexes: Sequence[int] = ()) -> list[str]:
    return [f"footer {one}" for one in footers] + [f"index {one}" for one in indexes]


def test_footers_of_the_next_stripes_come_with_their_indexes_and_that_of_the_stripe_behind() -> None:
    run = Run([1000] * 12)
    assert run.decide(0, range(12)) == [of(range(FOOTERS_AHEAD), range(FOOTERS_AHEAD + 1))]
    assert [run.decide(stripe, range(12)) for stripe in range(1, 8)] == [[]] * 7
    assert run.decide(8, range(12)) == [of(range(8, 12), range(9, 12))], "the index of stripe 8 was read before"
    run = Run([1000] * 12)
    assert run.decide(0, [0, 2, 3]) == [of([0, 2, 3], [0, 2, 3])], "the index of stripe 4 is not read"
    assert run.decide(7, [0, 2, 3]) == [of([7], [7])], "stripe 7 is ruled out, so no other footer is read"
    assert Run([1000] * 12, selective=False).decide(3, range(12)) == [of(range(3, 11))]


def test_large_indexes_are_left_to_be_read_stream_by_stream() -> None:
    lengths = [LARGEST_INDEX_BYTES, LARGEST_INDEX_BYTES + 1, 0, 5]
    assert Run(lengths).decide(0, range(4)) == [of(range(4), [0, 3])]


@pytest.mark.parametrize(
    ("quarter", "footers", "indexes"),
    [(999, 4, 0), (1000, 1, 1), (1999, 1, 1), (2000, 2, 2), (3000, 3, 3), (4000, 4, 4)],
)
def test_indexes_stay_within_a_quarter_of_the_memory(quarter: int, footers: int, indexes: int) -> None:
    run = Run([1000] * 4, io_bytes=4 * quarter)
    assert run.decide(0, range(4)) == [of(range(footers), range(indexes))]


def test_requests_that_are_left_for_the_data() -> None:
    assert STRIPE_REQUESTS == 4
    run = Run([1000] * 12, requests=2)
    run.decide(0, range(12))
    # One request reads only the index of stripe 0. The index of every other stripe is beside the footer of the stripe
    # before it.
    assert [run.requests.left(stripe) for stripe in (0, 1, 7, 8, 9)] == [2, 3, 3, 4, 4]
    # The tail took only one request, so stripe 0 has one more request left than in the run above.
    run = Run([1000] * 12, requests=1)
    run.decide(0, range(12))
    assert [run.requests.left(stripe) for stripe in (0, 1, 7)] == [3, 3, 3]
    run = Run([1000] * 12, requests=1)
    run.decide(0, range(12))
    assert [run.requests.left(stripe) for stripe in (1, 2)] == [3, 3], "stripe 0 used the second request of the file"
    run = Run([0] * 12, requests=1)
    run.decide(0, range(12))
    assert [run.requests.left(stripe) for stripe in (0, 1)] == [4, 3]
    run.requests.spend(1)
    run.requests.spend(2, 7)
    assert [run.requests.left(stripe) for stripe in (1, 2)] == [2, 1]
    assert Run([0], selective=False).requests.left(0) is None
    assert Run([0], merge_gap=7).requests.left(0) is None


def test_bloom_filters_that_may_be_wanted_come_with_the_index() -> None:
    asked = Fetch(((10, 4), (20, 5)), "index"), Fetch(((30, 6),), "bloom"), Fetch(((50, 7),), "bloom")
    run = Run([0] * 2, requests=2)
    found = run.decide(0, range(2), Pruner(*asked, blooms=[(20, 5), (30, 6), (40, 8)]))
    assert found == [of([0, 1]), [(10, 4), (20, 5), (30, 6), (40, 8)], [(50, 7)]]
    assert run.requests.left(0) == 1
