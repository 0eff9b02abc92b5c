"""ReaderFile reads the same bytes as a file in memory from every position, with and without a cached tail."""

from __future__ import annotations

import io

import numpy as np
import pytest

from orcidx.storage import ReaderFile, open_reader

DATA = np.random.default_rng(3).bytes(10_000)


@pytest.mark.parametrize("tail", [None, 0, 1, 4000, 10_000])
def test_reads_like_a_file_in_memory(tail: int | None, rng: np.random.Generator) -> None:
    reader = open_reader(DATA)
    file = ReaderFile(reader, tail=None if tail is None else memoryview(DATA)[len(DATA) - tail :])
    like = io.BytesIO(DATA)
    assert file.readable()
    assert file.seekable()
    for _ in range(300):
        offset, size = int(rng.integers(0, 11_000)), int(rng.integers(-1, 5000))
        assert file.seek(offset) == like.seek(offset)
        assert file.read(size) == like.read(size)
        assert file.tell() == like.tell()
    assert file.seek(-10, io.SEEK_END) == like.seek(-10, io.SEEK_END)
    assert file.read() == like.read()


def test_what_is_at_hand_is_not_read_again() -> None:
    reader = open_reader(DATA)
    file = ReaderFile(reader, tail=memoryview(DATA)[6000:])
    file.seek(5000)
    assert file.read(2000) == DATA[5000:7000]
    assert file.read() == DATA[7000:]
    assert reader.metrics.bytes_asked == 1000
