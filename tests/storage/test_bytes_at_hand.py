"""``BytesAtHand``: responses that a remote reader keeps, because most of their bytes were not requested."""

from __future__ import annotations

import numpy as np
import pytest

from orcidx.storage.remote import BytesAtHand


def test_only_ranges_inside_of_one_response_are_found() -> None:
    data = bytes(range(200))
    hand = BytesAtHand(100, tail_start=180, tail=memoryview(data)[180:])
    hand.keep(10, memoryview(data)[10:50])
    hand.keep(60, memoryview(data)[60:100])
    for start in range(200):
        for stop in range(start + 1, 201):
            inside = any(low <= start and stop <= high for low, high in ((10, 50), (60, 100), (180, 200)))
            found = hand.find(start, stop - start)
            assert (None if found is None else bytes(found)) == (data[start:stop] if inside else None)


def test_the_oldest_responses_are_dropped() -> None:
    hand = BytesAtHand(100)
    for offset in range(0, 500, 50):
        hand.keep(offset, memoryview(bytes(40)))
    assert [offset for offset, _ in hand.responses] == [400, 450]
    hand.keep(1000, memoryview(bytes(101)))
    assert not hand.responses, "a response that is larger than the room is not kept"


@pytest.mark.parametrize("seed", range(20))
def test_random_responses(seed: int) -> None:
    """Found bytes are always those of the object, and the kept bytes always fit into the room."""
    rng = np.random.default_rng(seed)
    data = rng.bytes(10_000)
    hand = BytesAtHand(3000)
    for _ in range(200):
        offset, length = int(rng.integers(0, 9000)), int(rng.integers(1, 1000))
        found = hand.find(offset, length)
        assert found is None or bytes(found) == data[offset : offset + length]
        if found is None:
            hand.keep(offset, memoryview(data)[offset : offset + length])
            assert hand.find(offset, length) is not None
        assert sum(len(kept) for _, kept in hand.responses) <= hand.room
