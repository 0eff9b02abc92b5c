"""The encoders of runs and chunks. An independent reference decoder reads their output, from every position."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.reference import decode, first_run

from orcidx.orc.compression import open_codec, read_framed
from orcidx.orc.wire import read_index_entries
from orcidx.orc_writer.byte_runs import Bits, ByteRuns
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.codecs import compression_kind, open_compressor
from orcidx.orc_writer.int_runs import IntRuns
from orcidx.orc_writer.messages import row_index_message
from orcidx.orc_writer.positions import WrittenPositions

LEAST, GREATEST = -(2**63), 2**63 - 1


def encode(values, signed=True):
    runs = IntRuns(OutStream(None, 0), signed=signed)
    runs.write(np.array(values, np.int64))
    runs.end()
    return bytes(runs.stream.finish())


def positions_of(table):
    """Returns the numbers of each position, as a reader reads them from the row index."""
    bounds, numbers, _, _ = read_index_entries(row_index_message(table, [b""] * table.groups), 1 << 20)
    return [numbers[a:b].tolist() for a, b in pairwise(bounds)]


def check(values, signed=True):
    data = encode(values, signed)
    found, clean = decode("v2", data, signed)
    assert clean
    assert found == list(map(int, values))
    return data


def forms(data, signed=True):
    found = set()
    while data:
        found.add(data[0] >> 6)
        data = data[first_run("v2", data, signed) :]
    return found


def shapes(rng, n):
    yield rng.integers(LEAST, GREATEST, n)
    yield rng.integers(0, 1000, n)
    yield rng.integers(-5, 5, n)
    yield np.arange(n) * 7 - 3
    yield np.cumsum(rng.integers(0, 20, n))
    yield -np.cumsum(rng.integers(0, 3, n)) + 2**40
    yield np.sort(rng.integers(0, 40, n))
    yield np.where(rng.random(n) < 0.02, rng.integers(0, 2**40, n), rng.integers(0, 200, n))
    yield np.where(rng.random(n) < 0.02, rng.integers(-(2**54), 2**54, n), rng.integers(-200, 200, n))
    yield np.repeat(rng.integers(-(2**60), 2**60, n), 7)[:n]
    yield np.repeat(rng.integers(0, 9, n), rng.integers(1, 60, n))[:n]
    yield rng.choice([LEAST, GREATEST, 0, -1, 1], n)
    yield np.full(n, LEAST)
    yield rng.choice([LEAST, LEAST + 1], n)
    yield np.concatenate([np.zeros(n // 2, np.int64), rng.integers(0, 2**33, n - n // 2)])
    for width in range(1, 63):
        yield rng.integers(0, 2**width, n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 10, 11, 31, 32, 33, 511, 512, 513, 1500])
def test_integers_come_back(rng, n):
    for values in shapes(rng, n):
        check(values.astype(np.int64))
        if values.min() >= 0:
            check(values.astype(np.int64), signed=False)


@given(st.lists(st.one_of(st.integers(LEAST, GREATEST), st.integers(-3, 3)), max_size=600))
@settings(max_examples=200)
def test_any_integers_come_back(values):
    check(values)


def test_every_form_is_chosen_where_it_pays(rng):
    assert forms(check([5] * 7)) == {0}
    assert forms(check(rng.integers(0, 1000, 512))) == {1}
    assert forms(check(np.where(np.arange(512) % 60 == 9, 2**30, rng.integers(0, 9, 512)))) == {2}
    assert forms(check(np.arange(512) * 3)) == {3}
    assert len(check(rng.integers(0, 1000, 512), signed=False)) == 2 + 512 * 10 // 8


def test_shapes_longer_than_a_run_come_back(rng):
    for values in shapes(rng, 700):
        check(values.astype(np.int64))


def test_portable_code_writes_the_same_bytes(tmp_path):
    code = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1])\n"
        "from streams.test_write_runs import encode, shapes\n"
        "import hashlib; rng = np.random.default_rng(3)\n"
        "print(hashlib.sha256(b''.join(encode(v.astype(np.int64)) for v in shapes(rng, 1300))).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-P", "-c", code, str(Path(__file__).resolve().parent.parent)],
            env={**os.environ, "ORCIDX_SIMD": simd},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for simd in ("none", "")
    }
    assert len(digests) == 1


@given(st.lists(st.one_of(st.integers(0, 255), st.just(7)), max_size=700))
@settings(max_examples=200)
def test_bytes_come_back(values):
    runs = ByteRuns(OutStream(None, 0))
    runs.write(bytes(values))
    runs.end()
    assert decode("bytes", bytes(runs.stream.finish())) == (values, True)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 3), st.integers(0, 9)), max_size=40), st.randoms())
@settings(max_examples=200)
def test_bits_come_back_and_every_place_is_found(pieces, random):
    bits, expected = Bits(OutStream(None, 0)), []
    for n, kind, offset in pieces:
        values = [(1, 0, random.randint(0, 1), 1)[kind] for _ in range(n)]
        bitmap = np.packbits(np.array([0] * offset + values, np.uint8), bitorder="little")
        bits.write(bitmap if bitmap.size else np.zeros(1, np.uint8), offset, n)
        expected += values
    wanted = sorted(random.randint(0, len(expected)) for _ in range(5))
    table = WrittenPositions(len(wanted))
    bits.encode(table, np.array(wanted, np.int64))
    data = bytes(bits.stream.finish())
    for bit, (start, before, within) in zip(wanted, positions_of(table), strict=True):
        if bit == len(expected):
            assert start < max(1, len(data)), "Java cannot seek to the end of a stream of which it has read no byte"
            continue
        found, clean = decode("bytes", data[start:])
        assert clean
        flat = np.unpackbits(np.array(found[before:], np.uint8))[within:]
        assert list(flat[: len(expected) - bit]) == expected[bit:]


@pytest.mark.parametrize("codec", ["zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("block", [1024, 4096])
def test_chunks_come_back_and_every_place_is_found(rng, codec, block):
    compressor = open_compressor(compression_kind(codec))
    for size in (0, 1, block - 1, block, block + 1, 2 * block, 5 * block + 17):
        for data in (rng.bytes(size), b"ab" * (size // 2)):
            stream = OutStream(compressor, block)
            places, at = [], 0
            while at < len(data):
                places.append(at)
                step = int(rng.integers(1, 3000))
                stream.write(data[at : at + step])
                at += step
            places.append(len(data))
            found = bytes(stream.finish())
            assert read_framed(found, open_codec(compression_kind(codec)), block, name="DATA") == data
            table = WrittenPositions(len(places))
            stream.add_positions(table, np.array(places, np.int64))
            for place, (chunk, within) in zip(places, positions_of(table), strict=True):
                rest = read_framed(found[chunk:], open_codec(compression_kind(codec)), block, name="DATA")
                assert rest[within:] == data[place:]
                if data:
                    assert chunk < len(found), "no position is the end of a stream (trino#20164)"
