"""The bloom filter's hashes, compared with published values and plain Python, and the bounds checks of its kernels."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcidx import paimon
from orcidx.paimon import bloom
from orcidx.paimon.bloom_filter import filter_size

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxh64(data: bytes) -> int:
    """Computes XXH64 with seed 0, step by step as in its specification."""

    def rotated(x: int, n: int) -> int:
        return (x << n | x >> 64 - n) & MASK

    def step(lane: int, word: int) -> int:
        return rotated((lane + word * P2) & MASK, 31) * P1 & MASK

    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while len(data) - at >= 32:
            lanes = [step(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotated(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ step(0, lane)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (rotated(h ^ step(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if len(data) - at >= 4:
        h = (rotated(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def wang(value: int) -> int:
    def signed(x: int) -> int:
        return (x + (1 << 63) & MASK) - (1 << 63)

    k = signed(~value + (value << 21))
    k = signed(k ^ k >> 24)
    k = signed(k + (k << 3) + (k << 8))
    k = signed(k ^ k >> 14)
    k = signed(k + (k << 2) + (k << 4))
    k = signed(k ^ k >> 28)
    return (k + (k << 31)) & MASK


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert bloom.hash_bytes(data) == expected == xxh64(data)


@given(st.binary(max_size=140))
def test_bytes(data: bytes) -> None:
    assert bloom.hash_bytes(data) == xxh64(data)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers(value: int) -> None:
    assert bloom.hash_integer(value) == wang(value)


def positions(value_hash: int, k: int, bits: int) -> set[int]:
    low, high = value_hash & 0xFFFFFFFF, value_hash >> 32
    found = set()
    for i in range(1, k + 1):
        combined = (low + i * high) & 0xFFFFFFFF
        found.add((~combined & 0xFFFFFFFF if combined >> 31 else combined) % bits)
    return found


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(1, 40), st.integers(1, 30))
def test_the_bits_of_values(values: list[bytes], size: int, k: int) -> None:
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)])
    bits = bytearray(size)
    bloom.add_bytes(bits, k, offsets, data)
    wanted = set().union(*(positions(xxh64(value), k, 8 * size) for value in values))
    assert {8 * i + b for i, byte in enumerate(bits) for b in range(8) if byte >> b & 1} == wanted
    assert all(bloom.may_hold(bits, k, bloom.hash_bytes(value)) for value in values)


def test_many_values_go_through_the_kernel_in_blocks() -> None:
    values = np.random.default_rng(1).integers(-(1 << 63), 1 << 63, 5_000)
    bits = bytearray(1000)
    bloom.add_integers(bits, 2, values)
    wanted = set().union(*(positions(wang(int(value)), 2, 8000) for value in values))
    assert {8 * i + b for i, byte in enumerate(bits) for b in range(8) if byte >> b & 1} == wanted


@pytest.mark.parametrize("offsets", [[0, 5], [0, 3, 2, 4], [-1, 2], [0, 1 << 40]])
def test_offsets_outside_of_the_data(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        bloom.add_bytes(bytearray(8), 1, np.array(offsets), np.zeros(4, np.uint8))


def test_sizes() -> None:
    assert filter_size(1_000_000, 0.1)[1] == 3
    assert filter_size(1_000_000, 0.1)[0] // 8 + 4 == 599_071
    bits, functions = filter_size(1, 5e-324)
    assert bits < 1_600
    assert functions <= 1_100
    built = paimon.build_index("bloom-filter", pa.array([1]), "BIGINT", {"items": 1, "fpp": 5e-324})
    assert built.evaluate("eq", [1]).kind == "remain"
    assert built.evaluate("eq", [2]).kind == "skip"


def test_false_positives_are_as_rare_as_asked() -> None:
    values = pa.array([f"value-{i}" for i in range(20_000)])
    index = paimon.build_index("bloom-filter", values, "STRING", {"items": 20_000, "fpp": 0.01})
    wrong = sum(index.evaluate("eq", [f"absent-{i}"]).kind == "remain" for i in range(5_000))
    assert wrong < 100
    assert index.evaluate("in", ["absent-1", "value-1"]).kind == "remain"


@pytest.mark.parametrize("data_type", ["INT", "BIGINT"])
def test_integers_beyond_64_bits_are_in_no_filter(data_type: str) -> None:
    index = paimon.build_index("bloom-filter", pa.array([1, 2]), data_type)
    for beyond in (1 << 63, 1 << 70, -(1 << 63) - 1, -(1 << 80)):
        assert index.evaluate("eq", [beyond]).kind == "skip"
        assert index.evaluate("in", [beyond, 2]).kind == "remain"
