"""Runs of a sequence, such as row numbers, continue across row groups, which makes the file smaller. Readers can read
such a column, and can seek in it, as in any other column."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from writing.four_readers import check_seeks, check_whole, group_starts
from writing.plain_rows import arrow_rows
from writing.reference_file import ReferenceFile
from writing.written_tables import written

from orcidx.orc_writer import column_encoding
from orcidx.orc_writer.lanes import Lanes

GREATEST = 2**63 - 1


def steps(first: int, step: int, count: int) -> np.ndarray:
    return np.array([(first + i * step + 2**63) % 2**64 - 2**63 for i in range(count)], np.int64)


COLUMNS = {
    "rows": np.arange(1700),
    "exactly runs": np.arange(1536),
    "down": steps(5, -3, 1100),
    "one row more than runs": steps(-7, 10**12, 1025),
    "long steps": steps(-(2**62), 2**54, 700),
    "up to the greatest": steps(GREATEST - 1299, 1, 1300),
    "around the end": steps(GREATEST - 599, 1, 1300),
    "around the end in two": steps(GREATEST // 2, GREATEST // 2, 300),
    "equal": np.full(1300, 7),
    "broken at a row group": np.concatenate([np.arange(600), np.arange(601, 1300)]),
    "broken at the end": np.append(np.arange(1300), 0),
    "broken at the beginning": np.append(9, np.arange(1300)),
    "a stretch of a row group": np.concatenate([np.arange(300), np.full(212, 299), np.arange(300, 1300)]),
    "another step": np.concatenate([np.arange(600), 600 + 2 * np.arange(700)]),
    "two values": np.array([3, 5]),
}


@pytest.fixture(autouse=True)
def lanes(monkeypatch):
    monkeypatch.setattr(column_encoding, "SMALLEST_TASK_BYTES", 0)
    monkeypatch.setattr(Lanes, "pays", True)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)


def check(table: pa.Table, **options: object) -> bytes:
    data = written(table, **options)
    assert data == written(table, **options, use_threads=False)
    ReferenceFile(data).check()
    expected = arrow_rows(table)
    check_whole(data, expected)
    starts = group_starts(data)
    check_seeks(data, expected, starts[:: max(1, len(starts) // 5)])
    return data


@pytest.mark.parametrize("stride", [1, 100, 513])
@pytest.mark.parametrize("name", COLUMNS)
def test_sequences_come_back(name, stride):
    values = COLUMNS[name] if stride > 1 else COLUMNS[name][:20]
    check(pa.table({"c": values}), row_index_stride=stride, compression_block_size=1024)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_of_every_width(codec):
    numbers = np.arange(-650, 650)
    kinds = {"short": pa.int16(), "int": pa.int32(), "long": pa.int64()}
    table = {name: pa.array(numbers).cast(kind) for name, kind in kinds.items()}
    table["date"] = table["int"].cast(pa.date32())
    check(pa.table(table), row_index_stride=100, compression=codec)


def test_with_nulls_and_below_others():
    rows = np.arange(1300)
    late = pa.array(rows, mask=rows > 1250)
    halves = pa.array([[2 * i, 2 * i + 1] if i < 1000 else None if i % 2 else [] for i in range(1300)])
    inside = pa.StructArray.from_arrays([pa.array(rows)], ["x"], mask=pa.array(rows % 50 == 7))
    check(pa.table({"late": late, "lists": halves, "in": inside}), row_index_stride=100, compression="uncompressed")


def test_stripes_begin_anew():
    table = pa.table({"c": np.arange(2000), "noise": np.random.default_rng(0).integers(0, 2**60, 2000)})
    data = check(table, row_index_stride=150, stripe_size=4 << 10)
    assert orc.ORCFile(io.BytesIO(data)).nstripes > 1


@pytest.mark.parametrize(("codec", "level"), [("zstd", 1), ("uncompressed", None), ("snappy", None)])
def test_a_sequence_is_as_small_as_pyarrows(codec, level):
    """A column of row numbers takes at most 1.02 times the bytes of pyarrow's file. If runs ended with row groups, it
    would take 1.4 times the bytes."""
    table = pa.table({"c": np.arange(300_000)})
    theirs = io.BytesIO()
    orc.write_table(table, theirs, compression=codec)
    assert len(written(table, compression=codec, compression_level=level)) <= 1.02 * len(theirs.getvalue())
