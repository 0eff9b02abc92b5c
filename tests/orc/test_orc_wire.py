"""The protobuf reader checks every field against the end of its message."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import orc_messages as pb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcidx import CorruptFile
from orcidx.orc.spans import compare_spans, order_spans, parse_decimals, spans_with_byte
from orcidx.orc.wire import (
    Message,
    TypedPart,
    read_index_entries,
    read_statistics,
    split_messages,
    split_nested_messages,
)

FIELDS = st.lists(
    st.one_of(
        st.tuples(st.just(0), st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1)),
        st.tuples(st.just(2), st.integers(1, 2**29 - 1), st.binary(max_size=20)),
        st.tuples(st.just(1), st.integers(1, 2**29 - 1), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(5), st.integers(1, 2**29 - 1), st.binary(min_size=4, max_size=4)),
    ),
    max_size=12,
)


@given(FIELDS)
def test_reads_every_field_and_the_last_of_each_wins(fields: list[tuple[int, int, int | bytes]]) -> None:
    message = Message(pb.encode(fields), "test")
    for number in {number for _, number, _ in fields}:
        texts = [value for wire, other, value in fields if other == number and wire == 2]
        numbers = [value for wire, other, value in fields if other == number and wire == 0]
        assert message.has(number)
        assert message.blobs(number) == texts
        assert message.blob(number, b"none") == (texts or [b"none"])[-1]
        assert message.uint(number, 77) == (numbers or [77])[-1]


@given(FIELDS, st.data())
def test_every_truncation_is_read_or_refused(fields: list[tuple[int, int, int | bytes]], data: st.DataObject) -> None:
    raw = pb.encode(fields)
    cut = data.draw(st.integers(0, len(raw)))
    whole = [pb.encode(fields[:i]) for i in range(len(fields) + 1)]
    if raw[:cut] in whole:
        Message(raw[:cut], "test")
    else:
        with pytest.raises(CorruptFile, match="test is truncated"):
            Message(raw[:cut], "test")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0b",  # group
        b"\x0c",
        b"\x0e",
        b"\x0f",  # wire type 7
        b"\x00\x01",  # field number 0
        b"\x08" + b"\x80" * 10 + b"\x01",  # a varint of eleven bytes
        b"\x12" + b"\xff" * 9 + b"\x01",  # the length 2**64 - 1
        b"\x12\x05abc",
        b"\x80\x80\x80\x80\x80\x01\x00",  # a key of more than 32 bits
    ],
)
def test_refuses_what_is_no_field(raw: bytes) -> None:
    for read in (
        lambda: Message(raw, "test"),
        lambda: split_messages(raw, 1, "test"),
        lambda: read_index_entries(pb.blob(1, raw)),
        lambda: split_nested_messages(pb.blob(1, raw), 1, 1, "test"),
        lambda: read_statistics(raw, [0], [len(raw)], TypedPart.INTEGER),
        lambda: read_statistics(pb.blob(2, raw), [0], [len(raw) + 2], TypedPart.INTEGER),
    ):
        with pytest.raises(CorruptFile):
            read()


def test_over_long_varints_are_legal() -> None:
    assert Message(b"\x08\x80\x80\x00", "test").uint(1) == 0


def test_packed_and_unpacked_scalars_mix() -> None:
    raw = pb.uint(4, 7) + pb.packed(4, [1, 300]) + pb.uint(4, 2**64 - 1)
    assert Message(raw, "test").uints(4) == [7, 1, 300, 2**64 - 1]
    with pytest.raises(CorruptFile):
        Message(pb.blob(4, b"\x80"), "test").uints(4)


def test_unexpected_wire_types_are_unknown_fields() -> None:
    message = Message(pb.blob(1, "x") + pb.uint(2, 5), "test")
    assert (message.uint(1, 9), message.blob(2), message.double(1)) == (9, b"", None)


@given(st.lists(st.tuples(st.lists(st.integers(0, 2**63 - 1), max_size=5), st.booleans(), st.booleans()), max_size=8))
def test_row_index_in_columns(entries: list[tuple[list[int], bool, bool]]) -> None:
    raw = b""
    for positions, is_packed, with_statistics in entries:
        body = pb.packed(1, positions) if is_packed else b"".join(pb.uint(1, value) for value in positions)
        raw += pb.blob(1, pb.uint(9, 1) + body + (pb.blob(2, pb.statistics(3, True)) if with_statistics else b""))
    bounds, values, starts, stops = read_index_entries(raw)
    assert [values[a:b].tolist() for a, b in pairwise(bounds)] == [positions for positions, _, _ in entries]
    counts = read_statistics(raw, starts, stops, TypedPart.NOTHING)["count"]
    assert counts.tolist() == [3 if with_statistics else -1 for _, _, with_statistics in entries]


def test_positions_must_fit() -> None:
    with pytest.raises(CorruptFile, match="below 2"):
        read_index_entries(pb.blob(1, pb.packed(1, [2**63])))


def test_nested_messages() -> None:
    raw = pb.blob(1, pb.blob(1, "a") + pb.blob(1, "")) + pb.blob(1, "") + pb.blob(1, pb.blob(1, "xyz"))
    bounds, starts, stops = split_nested_messages(raw, 1, 1, "Metadata")
    assert bounds.tolist() == [0, 2, 2, 3]
    assert [raw[a:b] for a, b in zip(starts, stops)] == [b"a", b"", b"xyz"]


INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.none() | INT64, st.none() | INT64, st.none() | INT64), min_size=1, max_size=6))
def test_integer_statistics(units: list[tuple[int | None, int | None, int | None]]) -> None:
    raws = []
    for unit in units:
        typed = b"".join(pb.sint(number, value) for number, value in enumerate(unit, 1) if value is not None)
        raws.append(pb.statistics(5, None, pb.blob(2, typed)))
    stops = np.cumsum([len(raw) for raw in raws])
    arrays = read_statistics(b"".join(raws), stops - [len(raw) for raw in raws], stops, TypedPart.INTEGER)
    for i, unit in enumerate(units):
        for number, value in enumerate(unit, 1):
            assert bool(arrays["fields"][i] >> number & 1) == (value is not None)
            assert value is None or arrays["integers"][number - 1, i] == value


def one(raw: bytes, part: TypedPart) -> dict[str, np.ndarray]:
    return read_statistics(raw, [0], [len(raw)], part)


def test_typed_parts() -> None:
    arrays = one(pb.blob(3, pb.double(1, -0.5) + pb.double(2, 9.0)), TypedPart.DOUBLE)
    assert (arrays["doubles"][:2, 0].tolist(), arrays["fields"].tolist()) == ([-0.5, 9.0], [7])
    raw = pb.blob(4, pb.blob(1, "ab") + pb.sint(3, 12) + pb.blob(5, "zz"))
    arrays = one(raw, TypedPart.STRING)
    assert arrays["fields"].tolist() == [0b101011]
    assert [raw[a:b] for a, b in arrays["spans"][[0, 4], 0]] == [b"ab", b"zz"]
    assert arrays["integers"][2, 0] == 12
    for bucket in (pb.packed(1, [3, 4]), pb.uint(1, 3) + pb.uint(1, 4)):
        assert one(pb.blob(5, bucket), TypedPart.BUCKET)["integers"][0, 0] == 3
    arrays = one(pb.blob(9, pb.sint(3, -1) + pb.uint(5, -7)), TypedPart.TIMESTAMP)
    assert arrays["integers"][[2, 4], 0].tolist() == [-1, -7]
    assert one(pb.blob(12, pb.uint(2, 2**63)), TypedPart.COLLECTION)["integers"][1, 0] == -1


def test_typed_parts_of_other_types_and_wire_types_are_unknown() -> None:
    raw = pb.blob(3, pb.double(1, 1.0)) + pb.blob(2, pb.blob(1, "x") + pb.double(2, 0.0) + pb.uint(77, 1))
    arrays = one(raw, TypedPart.INTEGER)
    assert arrays["fields"].tolist() == [1]
    assert one(pb.uint(1, 2**63) + pb.uint(10, 2), TypedPart.NOTHING)["count"].tolist() == [-1]


def test_repeated_typed_part_merges() -> None:
    raw = pb.blob(2, pb.sint(1, 1) + pb.sint(2, 5)) + pb.blob(2, pb.sint(1, 2))
    assert one(raw, TypedPart.INTEGER)["integers"][:2, 0].tolist() == [2, 5]


def test_extents_outside_the_buffer_are_the_callers_bug() -> None:
    for starts, stops in (([0], [9]), ([-1], [0]), ([3], [2])):
        with pytest.raises(ValueError, match="outside"):
            read_statistics(b"abc", starts, stops, TypedPart.NOTHING)


@given(st.lists(st.binary(max_size=6), max_size=8), st.binary(max_size=6))
def test_spans_compare_as_bytes(texts: list[bytes], literal: bytes) -> None:
    raw = b"".join(texts)
    stops = np.cumsum([len(text) for text in texts], dtype=np.int64)
    spans = np.stack([stops - [len(text) for text in texts], stops], axis=1) if texts else np.empty((0, 2), np.int64)
    assert compare_spans(raw, spans, literal).tolist() == [(text > literal) - (text < literal) for text in texts]
    flipped = order_spans(raw, spans, raw, spans[::-1])
    assert flipped.tolist() == [(a > b) - (a < b) for a, b in zip(texts, texts[::-1])]
    assert spans_with_byte(raw, spans, 5, 9).tolist() == [any(5 <= byte <= 9 for byte in text) for text in texts]


@given(st.integers(-(10**20), 10**20), st.integers(0, 6), st.integers(0, 6))
def test_decimal_texts(unscaled: int, digits: int, scale: int) -> None:
    from orcidx.orc.decimal_text import plain_text

    text = plain_text(unscaled, digits).encode()
    span = np.array([[0, len(text)]], np.int64)
    for upwards in (False, True):
        values, known, exact = parse_decimals(text, span, scale, upwards)
        shift = digits - scale
        floor, rest = divmod(unscaled, 10**shift) if shift > 0 else (unscaled * 10**-shift, 0)
        if known[0]:
            assert (values[0], exact[0]) == (floor + (upwards and rest != 0), rest == 0)
        else:
            assert abs(floor) >= 10**17


@pytest.mark.parametrize("text", [b"", b"-", b".", b"1e5", b"+1", b"1.2.3", b" 1", b"--1", b"9" * 19])
def test_other_decimal_texts_are_left_to_others(text: bytes) -> None:
    assert not parse_decimals(text, np.array([[0, len(text)]], np.int64), 2, False)[1][0]
