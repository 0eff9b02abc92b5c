"""The fast parser of footers gives the same results as the general reader of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orc_messages as pb
from hypothesis import example, given
from hypothesis import strategies as st

from orcidx import CorruptFile, Unsupported
from orcidx.orc.footers import integer_extremes, split_footer, split_postscript
from orcidx.orc.wire import Message, TypedPart, read_statistics, split_messages

NUMBER = st.integers(0, 2**64 - 1) | st.integers(0, 300)
MESSAGE = st.lists(
    st.one_of(
        st.tuples(st.just(0), st.integers(1, 13), NUMBER),
        st.tuples(st.just(2), st.integers(1, 13), st.binary(max_size=20)),
        st.tuples(st.just(5), st.integers(1, 13), st.binary(min_size=4, max_size=4)),
    ),
    max_size=12,
).map(pb.encode)


def outcome(read: Callable[[bytes], Any], raw: bytes) -> Any:
    """Returns what was read, or the class and text of the error."""
    try:
        return read(raw)
    except (CorruptFile, Unsupported) as error:
        return type(error), error.message


def plain_postscript(raw: bytes) -> tuple[Any, ...]:
    message = Message(raw, "PostScript")
    ends = message.uint(5), message.uint(6), message.uint(7)
    return message.uint(1), message.uint(2), message.uint(3, 77), tuple(message.uints(4)), *ends


@given(MESSAGE, st.integers(0, 8))
@example(pb.packed(4, [0, 12]) + pb.uint(4, 3), 0)
def test_postscripts(raw: bytes, cut: int) -> None:
    raw = raw[: max(0, len(raw) - cut)]
    found, expected = outcome(lambda data: split_postscript(data, 77), raw), outcome(plain_postscript, raw)
    if isinstance(expected[0], type):  # with two defects, either of them may be reported
        assert found[0] is expected[0]
    else:
        assert found == expected


@given(st.lists(MESSAGE | st.binary(max_size=12).map(lambda blob: pb.blob(4, blob)), max_size=4).map(b"".join))
def test_footers(raw: bytes) -> None:
    message = Message(raw, "Footer")
    parts = outcome(lambda data: split_footer(data, 1000), raw)
    if isinstance(parts, tuple):
        assert "StripeInformation" in parts[1]
        return
    assert parts.items == message.blobs(5)
    assert (parts.types, parts.type_bytes) == (len(message.blobs(4)), b"".join(pb.blob(4, x) for x in message.blobs(4)))
    assert (parts.stride, parts.writer, parts.calendar) == (message.uint(8), message.uint(9), message.uint(11))
    assert (parts.encryption or b"", parts.software or b"") == (message.blob(10), message.blob(12))
    assert len(parts.stripes) == len(message.blobs(3))


STATISTICS = st.builds(
    lambda count, inner, rest: (b"" if count is None else pb.uint(1, count)) + pb.blob(2, inner) + rest,
    st.none() | NUMBER,
    MESSAGE,
    MESSAGE | st.binary(max_size=3),
)


@given(st.lists(STATISTICS | MESSAGE, max_size=3), st.integers(0, 3))
@example([pb.uint(1, 5) + pb.blob(2, pb.sint(1, -7) + pb.sint(2, 9))], 0)
def test_extremes_are_those_of_the_arrays(columns: list[bytes], column: int) -> None:
    raw = pb.uint(8, 10_000) + b"".join(pb.blob(7, one) for one in columns)
    found = integer_extremes(raw, column)
    if column >= len(columns):
        assert found is None
        return
    starts, stops = split_messages(raw, 7, "Footer", 100)
    try:
        arrays = read_statistics(raw, starts[column : column + 1], stops[column : column + 1], TypedPart.INTEGER)
    except CorruptFile:
        assert found is None
        return
    if found is None:
        assert arrays["count"][0] < 0 or int(arrays["fields"][0]) & 0b111 != 0b111
    else:
        assert found == (arrays["count"][0], arrays["integers"][0, 0], arrays["integers"][1, 0])
