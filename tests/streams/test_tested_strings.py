"""Strings that are tested for equality while they are decoded. The results are compared with Python's ``in``, for all
kinds of lengths, chunks and pieces, with reads of any size and after seeks backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from streams import encoders
from streams.framing import PieceSource, chop

from orcidx.errors import CorruptFile
from orcidx.orc.int_rle import IntRle
from orcidx.orc.streams import PositionIterator
from orcidx.orc.tested_strings import LONGEST_LITERAL, MOST_LITERALS, strings_among
from orcidx.orc.window import Window

SHAPES = {
    "empty": [0],
    "one byte": [1],
    "words": [2, 4, 8],
    "three bytes": [3],
    "between words": [5, 6, 7, 12, 16, 17, 31],
    "thirteen bytes": [13],
    "mixed": [0, 1, 2, 3, 9],
    "long": [5, 300, 70_000],
}


def encoded(lengths: Sequence[int]) -> bytes:
    """Encodes lengths. Equal lengths become a run of a repeated value."""
    data, at = b"", 0
    while at < len(lengths):
        same = 1
        while same < min(512, len(lengths) - at) and lengths[at + same] == lengths[at]:
            same += 1
        if same < 3:
            data += encoders.direct(list(lengths[at : at + same]), signed=False).data
        else:
            data += encoders.fixed_delta(lengths[at], 0, same, signed=False).data
        at += same
    return data


def lengths_of(data: bytes, piece: int | None = None) -> IntRle:
    return IntRle(Window(PieceSource(data, piece), None, 0, name="LENGTH"), version=2, signed=False)


def texts(rng: np.random.Generator, rows: int, lengths: Sequence[int]) -> list[bytes]:
    """Returns strings of few letters, whose lengths form runs or are scattered."""
    sizes = rng.choice(lengths, rows)
    if rng.random() < 0.5:
        sizes = np.repeat(sizes, 700)[:rows]
    letters = rng.integers(97, 99, int(sizes.sum()), np.uint8).tobytes()
    ends = np.cumsum(sizes)
    return [letters[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


@pytest.mark.parametrize("framing", ["NONE", "MIXED", "ZLIB"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_equals_a_literal_is_what_python_finds(rng: np.random.Generator, shape: str, framing: str) -> None:
    for rows in (1, 7, 2100, 5000) if shape != "long" else (1, 60):
        strings = texts(rng, rows, SHAPES[shape])
        chosen = [strings[int(number)] for number in rng.integers(0, rows, int(rng.integers(0, 4)))]
        literals = (*{one for one in [*chosen, b"ab"[: int(rng.integers(0, 3))]] if len(one) <= LONGEST_LITERAL},)
        expected = [literals.index(one) + 1 if one in literals else 0 for one in strings]
        stored = chop(b"".join(strings), int(rng.choice([1000, 4096])), framing, piece=int(rng.choice([1, 64, 9999])))
        window = stored.window()
        lengths = lengths_of(encoded(list(map(len, strings))), int(rng.choice([1, 50])))
        for _ in range(2):
            unread = done = 0
            while done < rows:
                out = np.full(min(int(rng.choice([1, 3, 500, 9000])), rows - done), 7, np.uint8)
                unread = strings_among(lengths, window, out, literals, unread=unread)
                assert out.tolist() == expected[done : done + len(out)]
                done += len(out)
            lengths.seek(PositionIterator.start())
            window.seek(0)


def test_strings_of_other_lengths_are_not_read() -> None:
    strings = [b"abc"] * 3000 + [b"abcd"] * 3000
    stored = chop(b"".join(strings), 1000, "ZLIB")
    window = stored.window()
    lengths = lengths_of(encoded([*map(len, strings)]))
    out = np.zeros(6000, np.uint8)
    assert strings_among(lengths, window, out, (b"ab", b"abcde"), unread=0) == 21_000
    assert window.chunks_decompressed == 0
    assert not out.any()


def test_streams_that_end_too_early_and_negative_lengths() -> None:
    out = np.zeros(10, np.uint8)
    for wanted in ((b"abc",), (b"abc", b"ab")):
        window = Window(PieceSource(b"abc" * 9), None, 0, name="DATA")
        with pytest.raises(CorruptFile, match="ends before"):
            strings_among(lengths_of(encoded([3] * 10)), window, out, wanted, unread=0)
        with pytest.raises(CorruptFile, match="ends before"):
            strings_among(lengths_of(encoded([3] * 9)), window, out, wanted, unread=0)
        negative = encoders.direct([(1 << 64) - 1] * 10, signed=False, width=64).data
        with pytest.raises(CorruptFile, match="negative"):
            strings_among(lengths_of(negative), window, out, wanted, unread=0)
        huge = encoders.direct([(1 << 62) - 1] * 10, signed=False, width=64).data
        with pytest.raises(CorruptFile, match=r"add up|ends before"):
            strings_among(lengths_of(huge), window, out, wanted, unread=0)


def test_literals_that_do_not_fit() -> None:
    lengths, window = lengths_of(encoded([3])), Window(PieceSource(b"abc"), None, 0, name="DATA")
    out = np.zeros(1, np.uint8)
    for literals, unread in (((b"a",) * (MOST_LITERALS + 1), 0), ((b"a",), -1)):
        with pytest.raises(ValueError, match="literals"):
            strings_among(lengths, window, out, literals, unread=unread)
    for wrong in ("a", b"a" * (LONGEST_LITERAL + 1)):
        with pytest.raises(ValueError, match="at most"):
            strings_among(lengths, window, out, (wrong,), unread=0)  # type: ignore[arg-type]
    assert strings_among(lengths, window, out, (), unread=0) == 3
    assert not out.any()
