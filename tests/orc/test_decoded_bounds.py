"""Java decodes the bounds of strings as UTF-8 before it stores them. They still hold for the original bytes."""

from __future__ import annotations

import numpy as np
import pytest

from orcidx.orc.bound_values import BytesBounds
from orcidx.orc.bounds import _as_given

PIECES = (b"a", b"b", b"\x7f", b"\x80", b"\xc3\xa9", b"\xc3", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xef\xbf\xbc")
PIECES += (b"\xef\xbf\xbd", b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xff")
"""ASCII, characters on both sides of U+FFFD, and bytes that are not UTF-8."""


def decoded(text: bytes) -> bytes:
    """Returns a bound as Java stores it. U+FFFD replaces bytes that are not UTF-8."""
    return text.decode("utf-8", "replace").encode()


def bounds_of(text: bytes, exact: bool = True) -> BytesBounds:
    return BytesBounds(text, np.array([[0, len(text)]]), np.array([True]), np.array([exact]))


def random_groups(rng: np.random.Generator, groups: int) -> list[list[bytes]]:
    def text() -> bytes:
        return b"".join(PIECES[i] for i in rng.integers(0, len(PIECES), rng.integers(1, 4)))

    return [[text() for _ in range(rng.integers(1, 4))] for _ in range(groups)]


@pytest.mark.parametrize("merged", [False, True])
def test_no_value_lies_outside_of_a_bound_that_java_decoded(merged, rng):
    """The bounds of a row group are its smallest and largest value, decoded. Java before ORC-203 computed a stripe's
    bounds from bounds that were already decoded."""
    bounded = 0
    for _ in range(500):
        groups = random_groups(rng, int(rng.integers(1, 4)) if merged else 1)
        values = [value for group in groups for value in group]
        low = min(decoded(min(group)) for group in groups)
        high = max(decoded(max(group)) for group in groups)
        lower = _as_given(bounds_of(low), is_upper=False, merged=merged)
        upper = _as_given(bounds_of(high), is_upper=True, merged=merged)
        if lower.valid[0]:
            assert lower.value(0) <= min(values), (groups, low)
            assert not lower.exact[0] or lower.value(0) == min(values)
        if upper.valid[0]:
            assert upper.value(0) >= max(values), (groups, high)
            assert not upper.exact[0] or upper.value(0) == max(values)
        bounded += bool(lower.valid[0]) + bool(upper.valid[0])
    assert bounded > 200, "too few bounds are known for this test"


def test_no_value_lies_above_an_upper_bound_that_java_cut(rng):
    """Java keeps the first characters of an upper bound, and adds one to the code point of the last of them."""
    bounded = 0
    for _ in range(500):
        [values] = random_groups(rng, 1)
        text = decoded(max(values)).decode()
        if text[-1] in "\ud7ff\U0010ffff":  # the next code point is a surrogate, or does not exist
            continue
        high = (text[:-1] + chr(ord(text[-1]) + 1)).encode()
        upper = _as_given(bounds_of(high, exact=False), is_upper=True, merged=False)
        if upper.valid[0]:
            assert upper.value(0) >= max(values), (values, high)
            assert not upper.exact[0]
        bounded += bool(upper.valid[0])
    assert bounded > 200, "too few bounds are known for this test"


def test_bounds_of_many_units_stay_apart():
    texts = ["b\u00e9", "xy\ufffd", "\ufffdz", "a\ufffd", "c\ufffdd"]
    stops = np.cumsum([len(text.encode()) for text in texts])
    spans = np.stack([np.concatenate(([0], stops[:-1])), stops], axis=1)
    known = np.array([True, True, True, True, False])
    found = _as_given(BytesBounds("".join(texts).encode(), spans, known, known), is_upper=False, merged=False)
    assert [found.value(unit) for unit in range(5)] == ["b\u00e9".encode(), b"xy", None, b"a", None]
    assert found.exact.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("text", "is_upper", "known"),
    [
        ("ab\u00e9\ufffd", False, "ab"),
        ("ab\ufffd\u00e9", False, "ab"),
        ("a\U00010000\ufffd", True, "b"),
        ("a\ufffd\U00010000", True, "b"),
    ],
)
def test_a_merged_bound_is_known_up_to_the_first_place_that_may_be_anothers(text, is_upper, known):
    found = _as_given(bounds_of(text.encode()), is_upper=is_upper, merged=True)
    assert (found.value(0), bool(found.exact[0])) == (known.encode(), False)


@pytest.mark.parametrize(("text", "merged"), [("\u00e9b", True), ("abc\ufffc", False), ("abc\ufffc", True)])
def test_an_upper_bound_that_decoded_is_what_was_given(text, merged):
    found = _as_given(bounds_of(text.encode()), is_upper=True, merged=merged)
    assert (found.value(0), bool(found.exact[0])) == (text.encode(), True)
