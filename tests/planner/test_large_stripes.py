"""A scan of a remote file makes two requests for the file, and four for each stripe of any size. The number of bytes
that are read without need is limited."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest
from range_server import RangeServer

import orcidx
from orcidx import col
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import TAIL_REQUEST_BYTES
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.orc.reader import OrcReader
from orcidx.planner import fetch_policy
from orcidx.storage import open_reader

MIB = 1 << 20
ROWS = 300_000
CITIES = pa.array([f"city {number:03}" for number in range(0, 400, 2)])
OVER_READ = 4 * MIB
"""How many bytes reads of footers, indexes and small remainders may fetch beyond those that ``Bytes`` counts stripe by
stripe. The number does not depend on the size of stripes."""

Question = tuple[Any, pc.Expression, list[str] | None]


@dataclass(frozen=True)
class Stored:
    """A file with three special columns. ``id`` is clustered, ``key`` is spread over all stripes and has bloom filters,
    and ``city`` has a dictionary."""

    data: bytes
    table: pa.Table

    def questions(self) -> list[Question]:
        middle = self.table["id"][ROWS].as_py()
        key = self.table["key"][ROWS + 77].as_py()
        few = ["id", "n5", "key"]
        narrow = col("id").between(middle, middle + 60_000)
        ids = (pc.field("id") >= middle) & (pc.field("id") <= middle + 60_000)
        wide = col("id").between(middle - 500_000, middle + 90_000)
        wide_ids = (pc.field("id") >= middle - 500_000) & (pc.field("id") <= middle + 90_000)
        return [
            (col("id") == middle, pc.field("id") == middle, None),
            (col("id") == middle, pc.field("id") == middle, few),
            (col("id") == middle, pc.field("id") == middle, ["id"]),
            (col("key") == key, pc.field("key") == key, None),
            (col("key") == key, pc.field("key") == key, few),
            (col("key") == key + 1, pc.field("key") == key + 1, None),
            (narrow, ids, None),
            (wide, wide_ids, few),
            (narrow & (col("n9") < 1 << 58), ids & (pc.field("n9") < 1 << 58), None),
            (narrow & (col("n1") < 1 << 57) & (col("n12") < 1 << 61), _both(ids), few),
            (narrow & (col("city") == "city 101"), ids & (pc.field("city") == "city 101"), None),
            (narrow & (col("city") == "city 100"), ids & (pc.field("city") == "city 100"), None),
        ]


def _both(ids: pc.Expression) -> pc.Expression:
    return ids & (pc.field("n1") < 1 << 57) & (pc.field("n12") < 1 << 61)


def write(stripe_bytes: int) -> Stored:
    """Writes a file of 16 columns with ``2 * ROWS`` rows, about 66 MB."""
    random = np.random.default_rng(stripe_bytes)
    total = 2 * ROWS
    columns: dict[str, Any] = {"id": np.arange(total) * 3}
    columns |= {f"n{number}": random.integers(0, 1 << 62, total) for number in range(13)}
    columns["key"] = random.permutation(total) * 2
    columns["city"] = CITIES.take(pa.array(random.integers(0, len(CITIES), total)))
    table = pa.table(columns)
    out = io.BytesIO()
    chosen = {"bloom_filter_columns": [15], "bloom_filter_fpp": 0.0005, "dictionary_key_size_threshold": 0.5}
    pa.orc.write_table(table, out, compression="zstd", stripe_size=stripe_bytes, row_index_stride=5000, **chosen)
    return Stored(out.getvalue(), table)


class Bytes:
    """Computes how many bytes a scan may fetch at most. For a pruned stripe, the limit is its index and footer. For a
    stripe that is read, the limit is all of its data, and the columns of the predicate a second time."""

    def __init__(self, data: bytes) -> None:
        self._reader = OrcReader(open_reader(data))

    def most(self, pruned: int, left: list[int], asked: list[str]) -> int:
        names = self._reader.root.names
        ids = {self._reader.root.children[names.index(name)].id for name in asked}
        total = TAIL_REQUEST_BYTES + OVER_READ
        total += pruned * max(one.index_length + one.footer_length for one in self._reader.stripes)
        for stripe in left:
            total += self._reader.stripes[stripe].data_length
            for (column, kind), (_, length) in self._reader.extents(stripe).items():
                total += length if column in ids and kind <= StreamKind.SECONDARY else 0
        return total


def check(stored: Stored) -> None:
    room = Bytes(stored.data)
    with RangeServer({"a.orc": stored.data}, latency=0.03) as server:
        url = f"{server.url}/a.orc"
        for where, expression, columns in stored.questions():
            scan = orcidx.scan(url, columns, where)
            left = [one.decision.stripe for one in scan.stripes() if one.decision.rows.may.count]
            forget_metadata()
            server.log.clear()
            batches = scan.to_batches()
            found = pa.Table.from_batches(list(batches), scan.schema)
            wanted = stored.table.filter(expression)
            assert found.equals(wanted if columns is None else wanted.select(columns)), where
            alive = batches.metrics.stripes - batches.metrics.stripes_skipped
            ranges = [one.range for one in server.gets]
            assert len(ranges) == len(set(ranges)) == batches.metrics.requests
            asked = [name for name in stored.table.column_names if name in repr(where)]
            # A pruned stripe takes one request for index and footer, and possibly one for a dictionary.
            over_read = 2 if "city" in asked else 1
            assert len(ranges) <= 2 + 4 * len(left) + over_read * (alive - len(left)), (where, columns, ranges)
            sent = sum(one.sent for one in server.gets)
            assert sent <= room.most(alive, left, asked), (where, columns, sent)


@pytest.fixture(scope="module")
def large() -> Stored:
    """A file of two stripes of 36 and 28 MB."""
    found = write(36 * MIB)
    assert 34e6 < orcidx.open(found.data).stripes[0].data_length < 40e6
    return found


def test_four_requests_for_a_large_stripe(large: Stored) -> None:
    check(large)


@pytest.mark.slow
@pytest.mark.parametrize("stripe_bytes", [16 * MIB, 62 * MIB])
def test_four_requests_for_smaller_and_larger_stripes(stripe_bytes: int) -> None:
    check(write(stripe_bytes))


def test_four_requests_with_large_bloom_filters(large: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index sections are too large to be fetched whole. One request fetches the row indexes and bloom filters."""
    monkeypatch.setattr(fetch_policy, "LARGEST_INDEX_BYTES", 1 << 10)
    with RangeServer({"a.orc": large.data}) as server:
        for where, expression, columns in large.questions():
            forget_metadata()
            server.log.clear()
            batches = orcidx.scan(f"{server.url}/a.orc", columns, where).to_batches()
            assert sum(batch.num_rows for batch in batches) == large.table.filter(expression).num_rows
            requests = len(server.gets)
            alive = batches.metrics.stripes - batches.metrics.stripes_skipped
            scan = orcidx.scan(f"{server.url}/a.orc", columns, where)
            left = sum(one.decision.rows.may.count > 0 for one in scan.stripes())
            over_read = 3 if "city" in repr(where) else 2
            assert requests <= 1 + (left > 0) + 4 * left + over_read * (alive - left), (where, columns)


def test_awaited_scans_and_selections_take_no_more(large: Stored) -> None:
    where = large.questions()[0][0]
    with RangeServer({"a.orc": large.data}) as server:
        url = f"{server.url}/a.orc"

        async def awaited() -> int:
            return sum([batch.num_rows async for batch in orcidx.scan(url, where=where)])

        for read in (
            lambda: asyncio.run(awaited()),
            lambda: orcidx.scan(url, where=where).count_rows(),
            lambda: orcidx.scan(url, where=where).head(1).num_rows,
            lambda: orcidx.open(url).read(row_range=(ROWS, ROWS + 1)).num_rows,
            lambda: orcidx.open(url).read(["n3", "city"], selection=[ROWS]).num_rows,
        ):
            forget_metadata()
            server.log.clear()
            assert read() == 1
            assert 2 < len(server.gets) <= 6, [one.range for one in server.gets]


def test_a_chosen_merge_gap_trades_requests_for_bytes(large: Stored) -> None:
    where = large.questions()[0][0]
    requests, sizes = [], []
    with RangeServer({"a.orc": large.data}) as server:
        for gap in (None, MIB):
            forget_metadata()
            server.log.clear()
            assert orcidx.scan(f"{server.url}/a.orc", where=where, merge_gap=gap).to_table().num_rows == 1
            requests.append(len(server.gets))
            sizes.append(sum(one.sent for one in server.gets))
    assert requests[0] <= 6 < requests[1]
    assert sizes[1] < sizes[0] / 4


def test_sparse_survivors_of_many_row_groups_take_four_requests() -> None:
    """Every fourth row group is read. These row groups together have more rows than a batch. None of them causes a
    request of its own.
    """
    rows = 400_000
    random = np.random.default_rng(5)
    kept = (np.arange(rows) // 1000) % 4 == 0
    columns: dict[str, Any] = {"odd": np.where(kept, 5, np.where(np.arange(rows) % 2, 0, 10))}
    columns |= {f"n{number}": random.integers(0, 1 << 62, rows) for number in range(6)}
    out = io.BytesIO()
    pa.orc.write_table(pa.table(columns), out, stripe_size=1 << 40, row_index_stride=1000)
    with RangeServer({"a.orc": out.getvalue()}) as server:
        scan = orcidx.scan(f"{server.url}/a.orc", where=col("odd") == 5, batch_size=10_000)
        assert sum(batch.num_rows for batch in scan) == kept.sum()
        assert len(server.gets) <= 6, [one.range for one in server.gets]


def test_more_than_half_the_budget_comes_at_once(large: Stored) -> None:
    """The byte budget is 64 MiB, so half of it is too little for a stripe of 38 MB. The stripe may use more than half
    if the next stripe needs few bytes."""
    rows = orcidx.open(large.data).stripes[0].rows - 6000
    with RangeServer({"a.orc": large.data}) as server:
        scan = orcidx.scan(f"{server.url}/a.orc", where=col("id") < 3 * rows - 1000)
        assert scan.to_table().num_rows > 300_000
        assert sum(one.sent for one in server.gets) > 34 * MIB
        assert len(server.gets) <= 6, [one.range for one in server.gets]


def test_what_does_not_fit_the_budget_is_read_in_pieces(large: Stored) -> None:
    where, expression, columns = large.questions()[6]
    with RangeServer({"a.orc": large.data}) as server:
        scan = orcidx.scan(f"{server.url}/a.orc", columns, where, io_bytes=2 * MIB)
        assert scan.to_table().num_rows == large.table.filter(expression).num_rows
        assert max(one.sent for one in server.gets) <= 2 * MIB
        assert sum(one.sent for one in server.gets) < len(large.data) / 4, "no piece is fetched twice"
