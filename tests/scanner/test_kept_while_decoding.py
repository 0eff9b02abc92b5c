"""Columns that are filtered while they are decoded. The rows are the same as with pyarrow's filter, and the batches are
the same with one thread and with two. The tests also turn off this way of filtering, and the compiled loops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx.orc.columns import base
from orcidx.scanner import kept_arrays

ROUNDS = max(1, int(os.environ.get("ORCIDX_PREDICATES", "60")) // 20)


def column(kind: pa.DataType, rng: np.random.Generator, rows: int, nulls: float) -> pa.Array:
    numbers = rng.integers(-30_000, 30_000, rows)
    if kind == pa.string():
        length = int(rng.choice([1, 2, 3, 8, 12]))
        same = bool(rng.random() < 0.6)
        letters = np.array([chr(ord("a") + i) * (length if same else 1 + i % length) for i in range(26)])
        values = pa.array(letters[rng.integers(0, 26, rows)])
        if rng.random() < 0.3:  # not ASCII, and too many distinct texts for a dictionary
            values = pc.binary_join_element_wise(values, pa.array(numbers).cast(pa.string()), "é")
    elif pa.types.is_decimal(kind):
        values = pa.array(numbers).cast(pa.decimal128(38, 0)).cast(pa.decimal128(38, kind.scale)).cast(kind)
    elif kind == pa.date32():
        values = pa.array(numbers.astype(np.int32)).cast(kind)
    elif pa.types.is_list(kind):
        values = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), pa.array(numbers))
    elif pa.types.is_boolean(kind):
        values = pa.array(numbers > 0)
    elif pa.types.is_timestamp(kind):
        values = pa.array(numbers * 1_000_001 + 10**12).cast(kind)
    else:
        values = pa.array(numbers).cast(kind)
    return pc.if_else(pa.array(rng.random(rows) >= nulls), values, pa.scalar(None, kind)) if nulls else values


KINDS = (
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.decimal128(15, 2),
    pa.decimal128(25, 3),
    pa.timestamp("ns"),
    pa.string(),
    pa.bool_(),
    pa.list_(pa.int64()),
)


def table_of(rng: np.random.Generator) -> pa.Table:
    rows = int(rng.choice([3000, 40_000, 150_000]))
    asked = rng.integers(0, 1000, rows)
    if rng.random() < 0.3:
        asked.sort()
    names = {"asked": pa.array(asked)}
    for number in rng.permutation(len(KINDS))[:5].tolist():
        nulls = float(rng.choice([0.0, 0.0, 0.2]))
        names[f"c{number}"] = column(KINDS[number], rng, rows, nulls)
    return pa.table(names)


def batches(path: Path, where: Any, **options: Any) -> list[pa.RecordBatch]:
    with orcidx.open(path) as file:
        return list(file.scan(None, where, **options))


def test_random_conditions_keep_the_same_rows(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.orc"
    for _ in range(ROUNDS):
        table = table_of(rng)
        codec = str(rng.choice(["uncompressed", "zstd", "snappy"]))
        orcidx.write_table(table, path, compression=codec, stripe_size=int(rng.choice([1 << 20, 64 << 20])))
        for _ in range(4):
            first, last = sorted(rng.integers(0, 1000, 2).tolist())
            where: Any = (orcidx.col("asked") >= first) & (orcidx.col("asked") <= last)
            field = (pc.field("asked") >= first) & (pc.field("asked") <= last)
            if rng.random() < 0.5:
                share = int(rng.choice([0, 10, 20, 980, 999]))
                where, field = orcidx.col("asked") != share, pc.field("asked") != share
            options: dict[str, Any] = {}
            if rng.random() < 0.5:
                options["batch_size"] = int(rng.choice([1000, 20_000, 1 << 18]))
            if rng.random() < 0.3:
                options["batch_bytes"] = int(rng.choice([1 << 16, 1 << 20]))
            one = batches(path, where, use_threads=False, **options)
            two = batches(path, where, use_threads=True, **options)
            with monkeypatch.context() as patch:
                patch.setattr(base, "KEEPS", False)
                plain = batches(path, where, use_threads=bool(rng.random() < 0.5), **options)
                patch.setattr(kept_arrays, "ENABLED", False)
                slow = batches(path, where, use_threads=False, **options)
            expected = table.filter(field)
            found = pa.Table.from_batches(one, expected.schema)
            found.validate(full=True)
            assert found.equals(expected), (where, options)
            # The batches of ``plain`` and ``slow`` may end at other rows, because their buffers have space for one more
            # value, and batches are joined by the sizes of their buffers.
            for other in (plain, slow):
                assert pa.Table.from_batches(other, expected.schema).equals(expected), (where, options)
            assert [batch.num_rows for batch in two] == [batch.num_rows for batch in one], (where, options)
            assert all(map(pa.RecordBatch.equals, two, one)), (where, options)


def test_a_wrong_value_that_falls_is_told(tmp_path: Path) -> None:
    """A damaged value raises an error even if the condition drops the row of this value. A read of all rows raises the
    same error."""
    rows = 50_000
    numbers = pa.array(np.arange(rows) % 90).cast(pa.decimal128(38, 0)).cast(pa.decimal128(4, 0))
    path = tmp_path / "rows.orc"
    orcidx.write_table(pa.table({"asked": np.arange(rows) % 7, "number": numbers}), path, compression="uncompressed")
    stored = bytearray(path.read_bytes())
    # The values 40, 41 and 42 are stored as the bytes 80, 82 and 84. The new bytes are one varint, 693416, which has
    # too many digits for decimal(4, 0).
    at = stored.index(bytes([80, 82, 84]))
    stored[at : at + 3] = bytes([0xD0, 0xD2, 0x54])
    path.write_bytes(stored)
    for threads in (False, True):
        for where in (None, orcidx.col("asked") != 3, orcidx.col("asked") == 3):
            with orcidx.open(path) as file, pytest.raises(orcidx.CorruptFile) as caught:
                file.scan(["number"], where, use_threads=threads).to_table()
            assert caught.value.column == "number"


def test_what_falls_claims_memory_too(tmp_path: Path) -> None:
    """Rows that a condition drops are decoded too, so they also count towards the limit of a batch's bytes."""
    rows = 60_000
    table = pa.table({"asked": np.arange(rows) % 3, "x": np.arange(rows), "y": np.arange(rows) * 2.0})
    path = tmp_path / "rows.orc"
    orcidx.write_table(table, path)
    most = max(
        batch.num_rows for batch in batches(path, orcidx.col("asked") != 1, batch_bytes=1 << 16, batch_size=1 << 18)
    )
    assert most * 24 <= 1 << 16
