"""Results of dictionary entries that are looked up while their indexes are decoded. They are compared with NumPy, with
reads of any size and after seeks backwards."""

from __future__ import annotations

import numpy as np
import pytest
from streams import encoders
from streams.framing import PieceSource

from orcidx.errors import CorruptFile
from orcidx.orc import buffers
from orcidx.orc.int_rle import IntRle
from orcidx.orc.streams import PositionIterator
from orcidx.orc.window import Window


def encoded(values: list[int]) -> bytes:
    data = b""
    for at in range(0, len(values), 300):
        data += encoders.direct(values[at : at + 300], signed=False).data
    return data


def indexes_of(data: bytes, piece: int | None = None) -> IntRle:
    return IntRle(Window(PieceSource(data, piece), None, 0, name="DATA"), version=2, signed=False)


@pytest.mark.parametrize("entries", [1, 2, 7, 255, 5000])
@pytest.mark.parametrize("marked", ["none", "all", "one", "range", "scattered", "ends"])
def test_any_reads(rng: np.random.Generator, entries: int, marked: str) -> None:
    rows = 12_000
    values = rng.integers(0, entries, rows)
    marks = {
        "none": np.zeros(entries, np.uint8),
        "all": np.ones(entries, np.uint8),
        "one": (np.arange(entries) == entries // 2).astype(np.uint8),
        "range": ((np.arange(entries) > entries // 4) & (np.arange(entries) < entries // 2)).astype(np.uint8),
        "scattered": rng.integers(0, 2, entries).astype(np.uint8),
        "ends": np.isin(np.arange(entries), (0, entries - 1)).astype(np.uint8),
    }[marked]
    data, expected = encoded(values.tolist()), marks[values]
    for piece in (None, 1, 777):
        indexes = indexes_of(data, piece)
        for sizes in (np.bincount(rng.integers(0, 40, rows)).tolist(), [rows], [1, 4095, 1, 4096, rows - 8193]):
            indexes.seek(PositionIterator.start())
            out, at = np.full(rows, 9, np.uint8), 0
            for size in sizes:
                buffers.read_marks(indexes, marks, memoryview(out)[at : at + size])
                at += size
            assert at == rows
            assert np.array_equal(out, expected)


def test_an_index_without_an_entry() -> None:
    for bad in (3, 200, 1 << 31, 1 << 40):
        values = [0, 1, 2] * 500 + [bad] + [1] * 10
        for marks in (np.ones(3, np.uint8), np.array([1, 0, 1], np.uint8)):
            with pytest.raises(CorruptFile, match="is outside a dictionary of 3 entries"):
                buffers.read_marks(indexes_of(encoded(values)), marks, np.empty(len(values), np.uint8))
    with pytest.raises(CorruptFile, match="is outside a dictionary of 0 entries"):
        buffers.read_marks(indexes_of(encoded([0])), np.empty(0, np.uint8), np.empty(1, np.uint8))
    buffers.read_marks(indexes_of(b""), np.ones(3, np.uint8), np.empty(0, np.uint8))


def test_a_truncated_stream() -> None:
    data = encoded([0, 1, 2] * 500)
    with pytest.raises(CorruptFile):
        buffers.read_marks(indexes_of(data[:-9]), np.ones(3, np.uint8), np.empty(1500, np.uint8))
