"""The number of requests of a scan of a remote file, as the server counts them, and the requests that caches and open
files save."""

import asyncio

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from range_server import RangeServer

import orcidx
from orcidx import CorruptFile, col
from orcidx.fetching.drive import Fetch
from orcidx.fetching.prefetched_range import PrefetchedRange, served

ROWS = 120_000


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of about 14 MB, with several stripes, many columns and bloom filters. ``key`` is spread over all
    stripes."""
    path = tmp_path_factory.mktemp("requests") / "a.orc"
    rng = np.random.default_rng(3)
    columns = {"id": np.arange(ROWS), "key": rng.permutation(ROWS) * 2}
    columns |= {f"wide{i}": rng.random(ROWS) for i in range(14)}
    options = {"stripe_size": 3 << 20, "row_index_stride": 2000, "batch_size": 2000, "compression": "zstd"}
    pyarrow.orc.write_table(pa.table(columns), path, bloom_filter_columns=[2], **options)
    return path.read_bytes(), columns


@pytest.fixture
def server(stored):
    with RangeServer({"a.orc": stored[0]}, latency=0.03) as server:
        yield server


def test_a_selective_scan_makes_few_requests(server, stored):
    stripes = len(orcidx.open(stored[0]).stripes)
    assert stripes >= 4
    for where, surviving in [
        (col("id") == 70_003, 1),
        (col("id").is_in([5, 119_999]), 2),
        (col("key") == int(stored[1]["key"][50_000]), 1),
        (col("key") < 20, stripes),
    ]:
        for attempt in ("fresh", "cached"):
            server.log.clear()
            batches = orcidx.scan(f"{server.url}/a.orc", where=where).to_batches()
            rows = sum(batch.num_rows for batch in batches)
            expected = pa.table(stored[1]).filter(_expression(where))
            assert rows == expected.num_rows
            assert batches.metrics.requests == len(server.gets), (where, attempt)
            ranges = [one.range for one in server.gets]
            assert len(ranges) == len(set(ranges)), (where, attempt)
            alive = batches.metrics.stripes - batches.metrics.stripes_skipped
            assert len(server.gets) <= 2 + 4 * max(alive, surviving), (where, attempt, server.gets)


def _expression(where):
    import pyarrow.compute as pc

    field = pc.field(where.path[0])
    if where.op.name == "IN":
        return field.isin(list(where.literals))
    return field == where.literals[0] if where.op.name == "EQ" else field < where.literals[0]


def test_an_open_file_and_cached_metadata_cost_no_request(server):
    with orcidx.open(f"{server.url}/a.orc") as f:
        assert len(server.gets) == 1
        scan = f.scan(["id"], where="id = 70003")
        assert scan.to_table().num_rows == 1
        first = len(server.gets)
        server.log.clear()
        assert scan.to_table().num_rows == 1
        assert len(server.gets) < first
        assert len(server.gets) == 1  # the data


def test_the_next_stripe_is_fetched_while_this_one_decodes(server):
    scan = orcidx.scan(f"{server.url}/a.orc", ["id", "key"])

    async def collect():
        return sum([batch.num_rows async for batch in scan])

    assert asyncio.run(collect()) == ROWS
    server.log.clear()
    batches = scan.to_batches()
    next(batches)
    stripes = batches.metrics.stripes
    assert len(server.gets) < 2 + 4 * stripes
    assert sum(batch.num_rows for batch in batches) < ROWS


def test_damage_of_a_later_footer_comes_at_its_turn(stored):
    data = bytearray(stored[0])
    with orcidx.open(bytes(data)) as f:
        last = f.stripes[-1]
        rows = ROWS - last.rows
        start = last.offset + last.index_length + last.data_length
    data[start : start + 40] = b"\xff" * 40
    with RangeServer({"a.orc": bytes(data)}) as server:
        seen = []
        scan = orcidx.scan(f"{server.url}/a.orc", ["id"], where="key >= 0", batch_size=1000)
        with pytest.raises(CorruptFile):
            seen.extend(batch.num_rows for batch in scan)
        assert sum(seen) >= rows - 1000


def test_prefetched_ranges_answer_what_is_inside():
    def steps():
        first = yield Fetch(((10, 2), (15, 1)), "index")
        second = yield Fetch(((10, 2), (30, 1)), "index")
        return [bytes(one) for one in first], second

    run = served(steps(), PrefetchedRange(10, memoryview(b"abcdefghij")))
    assert next(run) == Fetch(((10, 2), (30, 1)), "index")
    with pytest.raises(StopIteration) as stopped:
        run.send("asked")
    assert stopped.value.value == ([b"ab", b"f"], "asked")
