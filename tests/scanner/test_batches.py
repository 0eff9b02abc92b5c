"""Joining and cutting batches."""

import asyncio
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bad.hostile import DIRECT, Stripe, orc
from hypothesis import given
from hypothesis import strategies as st
from orc_messages import type_message

import orcidx
from orcidx.errors import CorruptFile
from orcidx.scanner import row_width
from orcidx.scanner.batches import join_batches
from orcidx.scanner.column_cursor import ColumnCursor
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.survivors import Survivors


def batch(start: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(range(start, start + rows), pa.int64())})


@given(st.lists(st.integers(0, 30)), st.integers(1, 12))
def test_rows_keep_their_order_and_batches_their_bound(sizes, batch_size):
    start, pieces = 0, []
    for size in sizes:
        pieces.append(batch(start, size))
        start += size
    joined = list(join_batches(pieces, batch_size=batch_size, batch_bytes=1 << 20))
    assert [value for one in joined for value in one.column(0).to_pylist()] == list(range(start))
    assert all(0 < one.num_rows <= batch_size for one in joined)


def test_remainders_are_joined():
    joined = list(join_batches([batch(0, 3), batch(3, 3), batch(6, 3)], batch_size=100, batch_bytes=1 << 20))
    assert [one.num_rows for one in joined] == [9]


def test_a_batch_that_is_at_least_half_full_is_not_copied():
    half = batch(0, 50)
    (joined,) = join_batches([half], batch_size=100, batch_bytes=1 << 20)
    assert joined.column(0).buffers()[1].address == half.column(0).buffers()[1].address


def test_a_batch_that_is_half_full_by_bytes_is_not_copied():
    pieces = [batch(0, 1), batch(1, 40), batch(41, 40), batch(81, 1)]
    joined = list(join_batches(pieces, batch_size=1000, batch_bytes=600))
    assert [one.num_rows for one in joined] == [41, 40, 1]
    assert joined[1].column(0).buffers()[1].address == pieces[2].column(0).buffers()[1].address


@pytest.mark.parametrize("batch_bytes", [1, 24, 100])
def test_bytes_bound_what_is_collected(batch_bytes):
    joined = list(join_batches([batch(i, 1) for i in range(20)], batch_size=1000, batch_bytes=batch_bytes))
    assert sum(one.num_rows for one in joined) == 20
    assert all(one.nbytes <= batch_bytes + 8 for one in joined)


def test_the_first_batches_go_out_early():
    """Each batch is twice as large as the previous one, until batches have the full size."""
    pieces = [pa.record_batch({"n": [i]}) for i in range(100)]
    joined = list(join_batches(iter(pieces), batch_size=16, batch_bytes=1 << 20, first=1))
    assert [batch.num_rows for batch in joined] == [1, 2, 4, 8, 16, 16, 16, 16, 16, 5]
    assert [value for batch in joined for value in batch.column("n").to_pylist()] == list(range(100))


@pytest.mark.parametrize("rows", [0, 7, 10**12])
def test_rows_of_no_columns_are_a_number(rows: int, tmp_path: Path) -> None:
    """A file of a hundred bytes can claim any number of rows without columns. The time to read these rows must not
    depend on their number."""
    raw = orc([type_message("struct")], [Stripe(rows, (), [DIRECT])] if rows else [])
    assert orcidx.read_table(raw).num_rows == rows
    scan = orcidx.scan(raw)
    assert (scan.to_table().num_rows, scan.count_rows()) == (rows, rows)
    assert scan.limit(5).to_table().num_rows == scan.head().num_rows == min(rows, 5)
    path = tmp_path / "rows.orc"
    path.write_bytes(raw)
    assert orcidx.dataset(path).to_table().num_rows == rows
    for batch in scan:
        assert batch.num_rows == min(rows, scan.options.batch_size)
        break


def test_a_table_without_columns_has_the_rows_that_match() -> None:
    out = io.BytesIO()
    orcidx.write_table(pa.table({"a": range(1000)}), out, row_index_stride=100)
    scan = orcidx.scan(out.getvalue(), columns=[])
    for one, rows in ((scan, 1000), (scan.filter("a >= 250"), 750), (scan.filter("a >= 250").limit(3), 3)):
        table = one.to_table()
        assert (table.num_rows, table.num_columns, table.schema) == (rows, 0, one.schema)
        assert sum(batch.num_rows for batch in one) == rows


def spans_of(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[list[int], list[pa.RecordBatch]]:
    """The numbers of rows that are read at once, and the batches."""
    with monkeypatch.context() as patch:
        spans = count_spans(patch)
        batches = list(orcidx.scan(path, **options))
    return spans, batches


def count_spans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list to which each read of a column appends its number of rows."""
    spans = []
    read = ColumnCursor.read

    def counted(cursor: ColumnCursor, start: int, rows: int, *arguments: Any) -> pa.Array:
        spans.append(rows)
        return read(cursor, start, rows, *arguments)

    monkeypatch.setattr(ColumnCursor, "read", counted)
    return spans


def test_several_batches_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": pa.array(range(400_000), pa.int64())})
    path = tmp_path / "a.orc"
    orcidx.write_table(table, path)
    spans, others = spans_of(path, monkeypatch, batch_size=10_000, use_threads=False)
    assert spans == [10_000, 20_000, 40_000, *[60_000] * 5, 30_000]
    spans, batches = spans_of(path, monkeypatch, batch_size=10_000)
    assert others == batches
    assert spans == [10_000, 20_000, 40_000, 80_000, 160_000, 90_000]
    assert [one.num_rows for one in batches] == [10_000] * 40
    assert pa.Table.from_batches(batches).equals(table)
    spans, others = spans_of(path, monkeypatch, batch_size=10_000, ahead_bytes=6 * 8 * 30_000)
    assert spans == [10_000, 20_000, *[30_000] * 12, 10_000]
    assert others == batches
    spans, others = spans_of(path, monkeypatch, batch_size=10_000, ahead_bytes=0)
    assert spans == [10_000] * 40
    assert others == batches
    monkeypatch.setattr(row_width, "ENABLED", False)
    spans, others = spans_of(path, monkeypatch, batch_size=10_000)
    assert spans == [10_000] * 40
    assert others == batches


@pytest.mark.parametrize("use_threads", [False, True])
def test_several_batches_are_read_at_once_with_a_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_threads: bool
) -> None:
    """Once most row groups have matching rows, 262,144 rows are read at once. Batches do not depend on threads."""
    rows = range(600_000)
    table = pa.table({"x": pa.array(rows, pa.int64()), "y": [1.5] * 600_000, "z": [row % 3 for row in rows]})
    path = tmp_path / "a.orc"
    orcidx.write_table(table, path)
    for where in ("z <> 1", "x <> 7"):
        spans, batches = spans_of(path, monkeypatch, batch_size=10_000, where=where, use_threads=use_threads)
        assert sorted(set(spans))[-1] == 260_000
        assert max(one.num_rows for one in batches) == 10_000
        assert len(batches) < 70
        assert pa.Table.from_batches(batches).equals(orcidx.read_table(path, where=where).combine_chunks())
        _, others = spans_of(path, monkeypatch, batch_size=10_000, where=where, use_threads=not use_threads)
        assert others == batches


@pytest.mark.parametrize("where", [None, "x <> 7"])
def test_a_table_with_texts_begins_with_65_536_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    """A caller of ``to_table`` takes all rows, so the first rows need not be early. If the rows are so wide that the
    first read has too many bytes, its halves are read."""
    table = pa.table({"x": pa.array(range(200_000), pa.int64()), "text": ["some words"] * 199_999 + ["x"]})
    path = tmp_path / "a.orc"
    orcidx.write_table(table, path)
    expected = table if where is None else table.filter(pc.field("x") != 7)
    for batch_bytes, sizes in ((1 << 26, {65_536, 134_464}), (1 << 18, {65_536, 32_768, 8_192})):
        for use_threads in (False, True):
            with monkeypatch.context() as patch:
                spans = count_spans(patch)
                found = orcidx.read_table(path, where=where, use_threads=use_threads, batch_bytes=batch_bytes)
            assert spans[0] == 65_536
            assert sizes <= set(spans)
            assert len(spans) < 60
            assert found.equals(expected)


@pytest.mark.parametrize("store", ["local", "remote"])
def test_a_read_does_not_reach_over_row_groups_without_matching_rows(tmp_path: Path, store: str) -> None:
    """One of ten row groups has matching rows, and they are scattered. The columns that are not in the condition are
    fetched and decompressed only for these row groups, for every size of a batch."""
    fsspec = pytest.importorskip("fsspec")
    path = str(tmp_path / "a.orc")
    rows = np.arange(400_000)
    matches = (rows // 2000 % 10 == 5) & (rows % 7 == 0)
    rng = np.random.default_rng(7)
    texts = pa.array(rng.integers(0, 1 << 60, len(rows))).cast(pa.string())
    table = pa.table({"x": np.where(matches, 1, rows % 5 * 2), "y": rng.random(len(rows)), "s": texts})
    orcidx.write_table(table, path, row_index_stride=2000, compression_block_size=1 << 12)
    if store == "remote":
        fsspec.filesystem("memory").pipe("/reach/a.orc", Path(path).read_bytes())
        path = "memory://reach/a.orc"
    expected = table.filter(matches).select(["y", "s"])
    whole = orcidx.scan(path).to_batches()
    assert sum(batch.num_rows for batch in whole) == len(rows)
    work = set()
    for options in ({"batch_size": 500}, {"batch_size": 30_000}, {"batch_size": 1 << 20}, {"use_threads": False}):
        scan = orcidx.scan(path, columns=["y", "s"], where="x = 1", merge_gap=0, **options)
        batches = scan.to_batches()
        assert pa.Table.from_batches(list(batches)).equals(expected)
        counted = batches.metrics.to_dict()
        work.add(counted["bytes_decompressed"])
        if store == "remote":
            assert counted["bytes_read"] < 0.4 * whole.metrics.to_dict()["bytes_read"]
    assert len(work) == 1, work
    assert max(work) < 0.3 * whole.metrics.to_dict()["bytes_decompressed"]


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_span_within_row_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = np.array([0, *np.cumsum(rng.integers(1, 60, 12))])
    for _ in range(50):
        start, stop = sorted(rng.choice(bounds[-1] + 1, 2, replace=False).tolist())
        touched = rng.random(12) < 0.5
        mask = np.repeat(touched, np.diff(bounds))[start:stop] & (rng.random(stop - start) < rng.choice([0.3, 0.7, 1]))
        if not mask.any():
            continue
        numbers = np.flatnonzero(mask) + start
        kept = None if mask.all() else KeptRows(mask)
        found = Survivors(start, stop, kept, [pa.array(numbers), None], len(numbers))
        groups = touched | (rng.random(12) < 0.2)
        parts = found.within(groups, bounds)
        assert np.concatenate([part.arrays[0] for part in parts]).tolist() == numbers.tolist()
        assert all(part.arrays[1] is None for part in parts)
        if len(parts) == 1 and parts[0] is found:
            continue
        for part in parts:
            inside = np.ones(part.stop - part.start, np.bool_) if part.kept is None else part.kept.mask
            assert (np.flatnonzero(inside) + part.start).tolist() == part.arrays[0].to_pylist()
            assert part.rows == len(part.arrays[0]) > 0
            first, last = np.searchsorted(bounds, (part.start, part.stop - 1), "right") - 1
            assert groups[first : last + 1].all()


def test_a_selection_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"x": pa.array(range(100_000), pa.int64())}), path)
    with orcidx.open(path) as file:
        batches = list(file.scan(batch_size=10_000, selection=range(5, 90_000)))
    assert max(one.num_rows for one in batches) == 10_000
    assert pa.Table.from_batches(batches)["x"].to_pylist() == list(range(5, 90_000))


def test_a_batch_is_not_larger_than_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"x": pa.array(range(100_000), pa.int64())}), path)
    spans, batches = spans_of(path, monkeypatch, batch_size=10_000, batch_bytes=80_000)
    assert max(spans) == 7500
    assert max(one.nbytes for one in batches) <= 80_000
    spans, _ = spans_of(path, monkeypatch, batch_size=10_000, batch_bytes=320_000)
    assert max(spans) == 30_000


def count_into(found: list[int], batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        found.append(batch.num_rows)


def test_an_error_is_raised_though_each_batch_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches cannot be read at once, but each of them can be read alone. The error is raised after their
    rows."""
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"x": pa.array(range(100_000), pa.int64())}), path)
    read = ColumnCursor.read

    def failing(cursor: ColumnCursor, start: int, rows: int, *arguments: Any) -> pa.Array:
        if rows == 40_000:
            raise CorruptFile("made up")
        return read(cursor, start, rows, *arguments)

    monkeypatch.setattr(ColumnCursor, "read", failing)
    found: list[int] = []
    with pytest.raises(CorruptFile, match="made up"):
        count_into(found, orcidx.scan(path, batch_size=10_000))
    assert found == [10_000] * 7


def test_batches_before_damage_are_returned(tmp_path: Path) -> None:
    """Row 70,000 is damaged. The batches before it are returned, although they are read together with it."""
    path = tmp_path / "a.orc"
    numbers = [(row * 7919) % 100_003 + (1 << 30) for row in range(100_000)]
    orcidx.write_table(pa.table({"x": [str(one) for one in numbers]}), path, compression="uncompressed")
    stored = bytearray(path.read_bytes())
    text = str(numbers[70_000]).encode()
    assert stored.count(text) == 1
    stored[stored.index(text)] = 0xFF
    path.write_bytes(stored)
    returned = []
    for use_threads in (False, True):
        found: list[int] = []
        with pytest.raises(CorruptFile, match="UTF-8"):
            count_into(found, orcidx.scan(path, batch_size=10_000, use_threads=use_threads))
        assert 60_000 < sum(found) <= 70_000
        returned.append(found)
    assert returned[0] == returned[1]


@pytest.mark.parametrize("way", ["batches", "async", "stripe", "limit"])
def test_rows_that_wait_to_be_joined_are_returned_before_an_error(tmp_path: Path, way: str) -> None:
    """The last of several short stripes is damaged. The rows of the other stripes fill no batch."""
    path = tmp_path / "a.orc"
    table = pa.table({"x": [f"row {row:05}" for row in range(40_000)]})
    orcidx.write_table(table, path, compression="uncompressed", stripe_size=100_000)
    *before, last = [sum(batch.num_rows for batch in stripe) for stripe in orcidx.scan(path).stripes()]
    assert before
    assert last > 1
    stored = bytearray(path.read_bytes())
    assert stored.count(b"row 39998") == 1
    stored[stored.index(b"row 39998")] = 0xFF
    path.write_bytes(stored)
    scan = orcidx.scan(path, batch_size=1 << 20, use_threads=False)
    if way == "limit":
        scan = scan.limit(39_999)
    found: list[int] = []

    async def collect() -> None:
        async for batch in scan:
            found.append(batch.num_rows)

    def read() -> None:
        if way == "async":
            asyncio.run(collect())
        elif way == "stripe":
            for stripe in scan.stripes():
                count_into(found, stripe)
        else:
            count_into(found, scan)

    with pytest.raises(CorruptFile, match="UTF-8"):
        read()
    if way == "stripe":
        assert found == before
    else:
        assert found == [sum(before)]


@pytest.mark.parametrize("use_threads", [False, True])
def test_matching_rows_that_wait_are_returned_before_an_error(tmp_path: Path, use_threads: bool) -> None:
    """Few rows match, so they wait until they fill a batch. The column of the condition is damaged near its end."""
    path = tmp_path / "a.orc"
    rows = 300_000
    texts = ["match" if row in (10, 20_000, 150_000) else f"{'az'[row % 2]} {row:06}" for row in range(rows)]
    table = pa.table({"id": range(rows), "x": texts})
    orcidx.write_table(table, path, compression="uncompressed", dictionary_key_size_threshold=0)
    stored = bytearray(path.read_bytes())
    assert stored.count(b"a 299990") == 1
    stored[stored.index(b"a 299990")] = 0xFF
    path.write_bytes(stored)
    found: list[int] = []
    with pytest.raises(CorruptFile, match="UTF-8"):
        count_into(found, orcidx.scan(path, columns=["id"], where="x LIKE 'match%'", use_threads=use_threads))
    assert sum(found) == 3
