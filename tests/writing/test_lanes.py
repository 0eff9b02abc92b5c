"""Several threads encode row groups of one column, and compress their chunks, at the same time. The bytes of the file
are the same as with one thread."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from writing.random_tables import random_options, random_table
from writing.written_tables import written

import orcidx
from orcidx import ValueOutOfRange
from orcidx.orc_writer import column_encoding
from orcidx.orc_writer.column_tree import Piece
from orcidx.orc_writer.lanes import Lanes, split_rows


@pytest.fixture
def joins(monkeypatch):
    """Uses three threads for slices of any size and columns of any type. Returns a list of the numbers of rows that
    were encoded by lanes (threads of one column)."""
    monkeypatch.setattr(Lanes, "pays", True)
    monkeypatch.setattr(column_encoding, "SMALLEST_TASK_BYTES", 0)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    found = []
    encode = Lanes.encode

    def spy(self, array, shares, write):
        found.append(sum(piece.stop - piece.start for share in shares for piece in share))
        return encode(self, array, shares, write)

    monkeypatch.setattr(Lanes, "encode", spy)
    return found


@pytest.mark.parametrize("number", range(12))
def test_bytes_are_those_of_one_thread(joins, number):
    rng = np.random.default_rng([7, number])
    table = random_table(rng, int(rng.integers(1000, 2500)), 2)
    options = {**random_options(rng, table), "row_index_stride": int(rng.choice([30, 100]))}
    options["stripe_size"] = (1 << 14) if number % 4 == 3 else (64 << 20)
    one = written(table, **{**options, "use_threads": False})
    assert not joins
    assert written(table, **{**options, "use_threads": True}) == one
    assert joins or number % 4 == 3


@pytest.mark.parametrize("threshold", ["auto", 0, 0.3, 1])
def test_dictionaries_join_as_they_would_have_grown(joins, rng, threshold):
    """Several threads build the dictionary of a column. The file is the same as with one thread if the dictionary is
    kept, if it is dropped in the middle of a slice, and if it is dropped at the end of a stripe."""
    few = [f"text {i % 7}" for i in range(3000)]
    texts = [*few, *(f"another text {i}" for i in rng.permutation(4000)), *few]
    table = pa.table({"s": texts, "b": [text.encode() for text in texts]})
    options = {"dictionary_key_size_threshold": threshold, "row_index_stride": 100, "compression_block_size": 1024}
    assert written(table, **options) == written(table, **options, use_threads=False)
    assert sum(joins) > 18_000


@pytest.mark.parametrize("codec", ["zstd", "snappy", "zlib"])
def test_chunks_that_do_not_shrink(joins, rng, codec):
    """The writer tries to compress the first of sixteen chunks before it compresses the others. The data changes from
    noise to small numbers and back, so these tries have different results."""
    noise = rng.integers(-(2**62), 2**62, 40_000)
    table = pa.table({"n": np.concatenate([noise, np.arange(40_000) % 77, noise]).astype(np.float64)})
    options = {"compression": codec, "compression_block_size": 4096, "row_index_stride": 1000}
    file = written(table, **options)
    assert file == written(table, **options, use_threads=False)
    assert orcidx.open(file).read().equals(table)
    assert len(file) < 0.8 * table.nbytes


def test_shares_of_a_slice():
    pieces = [Piece(0, 3, True), *(Piece(3 + 10 * i, 13 + 10 * i, True) for i in range(7)), Piece(73, 75, False)]
    split = split_rows(pieces, first_alone=True, shares=3)
    assert (split.head, split.tail) == (pieces[:1], pieces[-1:])
    assert [len(share) for share in split.shares] == [2, 2, 3]
    assert [piece for share in split.shares for piece in share] == pieces[1:-1]
    assert split_rows(pieces[:1], first_alone=True, shares=3).shares == []
    assert split_rows(pieces[-1:], first_alone=False, shares=3).tail == pieces[-1:]


@pytest.mark.parametrize("row", [3, 150, 999, 1999])
def test_errors_of_lanes_name_the_first_bad_row(joins, row):
    values = np.arange(2000) * 1000
    values[row] = values[1999] = -1500 + 1000  # a time in the last second before 1970
    array = pa.array(values, pa.int64()).cast(pa.timestamp("ms"))
    table = pa.table({"l": pa.ListArray.from_arrays(pa.array(np.arange(2001, dtype=np.int32)), array)})
    with pytest.raises(ValueOutOfRange, match=f"row {row}:") as caught:
        orcidx.write_table(table, io.BytesIO(), row_index_stride=100)
    assert caught.value.column == "l.item"
    assert joins or row < 100
