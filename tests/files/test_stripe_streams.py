"""PlannedStream: the bytes that it hands over are the file's, wherever it is asked, in memory that is used again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from orcidx import CorruptFile
from orcidx.orc.stripe_streams import PlannedStream

CONTENT = np.random.default_rng(5).bytes(300_000)
START, LENGTH = 1000, 250_000


class File:
    """``read_ranges`` and ``read_into`` over the content; ``rooms`` are the places that were read into."""

    def __init__(self) -> None:
        self.rooms: list[memoryview] = []

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [memoryview(CONTENT)[offset : offset + length] for offset, length in ranges]

    def read_into(self, offset: int, parts: Sequence[memoryview]) -> None:
        for part in parts:
            part[:] = CONTENT[offset : offset + len(part)]
            offset += len(part)
        self.rooms += parts


@pytest.mark.parametrize("here", [False, True])
def test_bytes_are_right_forwards_and_backwards(here: bool, rng: np.random.Generator) -> None:
    file = File()
    stream = PlannedStream(
        file.read_ranges, offset=START, length=LENGTH, read_ahead=10_000, read_into=file.read_into if here else None
    )
    stream.plan([(0, 60_000), (100_000, LENGTH)])
    for offset in [0, 9_999, 10_000, 5, 59_999, 61_000, 100_000, 99_999, *rng.integers(0, LENGTH, 200).tolist()]:
        data = stream.fetch(offset)
        assert 0 < len(data) <= 10_000
        assert data == CONTENT[START + offset : START + offset + len(data)]
        assert stream.held_bytes <= 10_000 if here else stream.held_bytes
    assert stream.fetch(LENGTH) == b""
    with pytest.raises(CorruptFile, match="past the end"):
        stream.fetch(LENGTH + 1)


def test_pieces_of_a_local_file_share_their_memory() -> None:
    file = File()
    stream = PlannedStream(file.read_ranges, offset=START, length=LENGTH, read_ahead=10_000, read_into=file.read_into)
    stream.plan([(0, LENGTH)])
    for offset in range(0, LENGTH, 10_000):
        stream.fetch(offset)
    assert len(file.rooms) == LENGTH // 10_000
    assert len({np.frombuffer(room, np.uint8).ctypes.data for room in file.rooms}) == 1
