"""Compares the bytes and requests of lookups in Spark's lineitem with the layout of the file, which ``orc_layout``
reads without code of orcidx."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pruning.orc_layout import BLOOM_UTF8, ROW_INDEX, OrcLayout
from range_server import RangeServer

import orcidx
from orcidx import col
from orcidx.orc.metadata import TAIL_REQUEST_BYTES
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.storage import RecordingReader, open_reader

pytestmark = pytest.mark.java

BLOOMS = ("l_partkey", "l_comment")
MIB = 1 << 20


def write_lineitem(spark: Any, folder: Path, scale: float, **options: str) -> Path:
    """Writes TPC-H's lineitem to one file. Rows are clustered by the key. Two columns whose values are scattered over
    the file have bloom filters."""
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip('tpchgen-cli is not installed: python -m pip install "tpchgen-cli>=2"')
    command = [program, "parquet", "-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    frame = spark.read.parquet(str(folder / "lineitem.parquet")).coalesce(1)
    chosen = {"compression": "zstd", "orc.bloom.filter.columns": ",".join(BLOOMS), **options}
    frame.sortWithinPartitions("l_orderkey", "l_linenumber").write.options(**chosen).orc(str(folder / "orc"))
    (path,) = (folder / "orc").glob("*.orc")
    return path


@pytest.fixture(scope="module")
def small(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 60,000 rows in at least four stripes. Chunks and row groups are also small, so that many of them can be
    skipped."""
    options = {"orc.row.index.stride": "1000", "orc.stripe.row.count": "15000", "orc.compress.size": "8192"}
    return write_lineitem(
        spark, tmp_path_factory.mktemp("small"), 0.01, **options, **{"orc.buffer.size.enforce": "true"}
    )


@pytest.fixture(scope="module")
def large(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 1.8 million rows in several stripes, with the writer's default chunks of 256 KiB and row groups of
    10,000 rows."""
    return write_lineitem(spark, tmp_path_factory.mktemp("large"), 0.3, **{"orc.stripe.size": str(16 * MIB)})


def questions(path: Path) -> list[tuple[str, Any]]:
    with orcidx.open(path) as file:
        keys = file.read(["l_orderkey", *BLOOMS])
    places = (0, len(keys) // 2, len(keys) - 1)
    return [(name, keys[name][place].as_py()) for name in keys.column_names for place in places]


def denied(path: Path) -> str:
    """Returns a text that all bloom filters rule out. No row has it as its comment, but it is between the smallest and
    the largest comment."""
    with orcidx.open(path) as file:
        for number in range(100):
            stripes = file.scan(where=col("l_comment") == f"m{number}").explain().files[0].stripes
            if not any(stripe.kept_rows for stripe in stripes):
                return f"m{number}"
    raise AssertionError("the bloom filters rule out none of the texts m0 to m99")


class Truth:
    """What a lookup of one key must read. The numbers are computed from the table itself and from the layout."""

    def __init__(self, path: Path, layout: OrcLayout, name: str, key: Any) -> None:
        self.layout = layout
        self.column = layout.column(name)
        with orcidx.open(path) as file:
            values = file.read([name])[name]
        starts = np.cumsum([0, *(stripe.rows for stripe in layout.stripes)]).tolist()
        self.rows = np.flatnonzero(pc.equal(values, key))
        self.alive, self.groups = [], []
        for start, stop in itertools.pairwise(starts):
            bounds = pc.min_max(values.slice(start, stop - start)).as_py()
            self.alive.append(bounds["min"] <= key <= bounds["max"])
            here = self.rows[(start <= self.rows) & (self.rows < stop)] - start
            self.groups.append(set((here // layout.stride).tolist()))

    def bytes(self, denied: Callable[[int], set[int]], *, bloom: bool) -> int:
        """Returns how many bytes the lookup must read. ``denied`` is a function that takes the number of a stripe,
        and returns the row groups that the indexes keep. If a bloom filter keeps a row group without a matching row,
        only the key column is read."""
        layout, columns = self.layout, list(range(1, len(self.layout.kinds)))
        total = 0
        for number, groups in enumerate(self.groups):
            if not self.alive[number]:
                continue
            wrong = denied(number) - groups
            total += layout.stripes[number].footer[1]
            total += layout.index_bytes(number, ROW_INDEX, columns if groups or wrong else [self.column])
            total += layout.index_bytes(number, BLOOM_UTF8, [self.column]) if bloom else 0
            total += layout.data_bytes(number, groups, [one for one in columns if one != self.column])
            total += layout.data_bytes(number, groups | wrong, [self.column])
        return total


def check_lookups(path: Path) -> None:
    layout = OrcLayout(path)
    assert len(layout.stripes) >= 3
    for name, key in [*questions(path), ("l_comment", denied(path))]:
        truth = Truth(path, layout, name, key)
        with orcidx.open(path) as file:
            stripes = file.scan(where=col(name) == key).explain().files[0].stripes
        kept = [{group.row_group for group in stripe.row_groups if group.kept} for stripe in stripes]
        assert all(groups <= found for groups, found in zip(truth.groups, kept, strict=True))
        forget_metadata()
        reader = RecordingReader(open_reader(path))
        with orcidx.open(reader) as file, file.scan(where=col(name) == key).to_batches() as batches:
            assert sum(batch.num_rows for batch in batches) == len(truth.rows)
        tails = [kind for kind, _ in reader.asked].count("tail")
        must = tails * max(TAIL_REQUEST_BYTES, layout.tail) + truth.bytes(kept.__getitem__, bloom=name in BLOOMS)
        assert batches.metrics.bytes_read <= 1.05 * must, (name, key, batches.metrics.bytes_read, must)
        if not len(truth.rows):
            assert not [one for one in reader.ranges if any(overlap(one, stripe.data) for stripe in layout.stripes)]


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def test_lookups_read_little_more_than_the_chunks_that_hold_the_rows(small: Path) -> None:
    check_lookups(small)


@pytest.mark.slow
def test_lookups_in_large_stripes_read_little_more_than_the_chunks_that_hold_the_rows(large: Path) -> None:
    check_lookups(large)


@dataclass(frozen=True)
class Work:
    """The requests and bytes of a scan. ``alive`` is the number of stripes that statistics do not rule out. ``left``
    has the numbers of the stripes that no index rules out."""

    requests: int
    bytes: int
    alive: int
    left: list[int]


def count_work(server: RangeServer, where: Any, columns: list[str] | None = None) -> Work:
    forget_metadata()
    server.log.clear()
    scan = orcidx.scan(f"{server.url}/a.orc", columns, where)
    batches = scan.to_batches()
    rows = pa.Table.from_batches(list(batches), scan.schema).num_rows
    gets = list(server.gets)
    assert batches.metrics.requests == len(gets)
    assert len(gets) == len({one.range for one in gets}), "a range was fetched twice"
    alive = batches.metrics.stripes - batches.metrics.stripes_skipped
    left = {stripe.decision.stripe: stripe.decision.rows.may.count for stripe in scan.stripes()}
    assert rows <= sum(left.values())
    return Work(len(gets), sum(one.sent for one in gets), alive, [stripe for stripe, rows in left.items() if rows])


def check_requests(path: Path) -> None:
    """Checks the requests and the bytes of lookups.

    A lookup makes at most two requests for the file, and four for each stripe that no index rules out. A stripe that
    only a bloom filter rules out takes one request, for its index.

    The bytes are at most the indexes of the stripes that statistics do not rule out, all data of the stripes that no
    index rules out, and the column of the condition a second time. Reads of footers and indexes may fetch 4 MiB in
    addition.
    """
    ruled_out = 0
    layout = OrcLayout(path)
    asked = [(name, col(name) == key) for name, key in questions(path)]
    key = asked[1][1].literals[0]
    asked += [
        ("l_comment", col("l_comment") == denied(path)),
        ("l_orderkey", col("l_orderkey").between(key, key + 5000)),
    ]
    index = max(stripe.data[0] - first for first, stripe in zip(starts(layout), layout.stripes, strict=True))
    with RangeServer({"a.orc": path.read_bytes()}, latency=0.03) as server:
        for name, where in asked:
            for columns in (None, ["l_orderkey", "l_partkey", "l_shipdate"]):
                work = count_work(server, where, columns)
                assert work.requests <= 2 + 4 * len(work.left) + work.alive - len(work.left), (where, work)
                most = TAIL_REQUEST_BYTES + 4 * MIB + work.alive * (index + 1000)
                for stripe in work.left:
                    streams = layout.stripes[stripe].streams
                    most += layout.stripes[stripe].data[1]
                    most += sum(size for (column, kind), (_, size) in streams.items() if column == layout.column(name))
                assert work.bytes <= most, (where, work)
                ruled_out += work.alive - len(work.left)
    assert ruled_out


def starts(layout: OrcLayout) -> list[int]:
    """Returns the offset at which each stripe begins."""
    return [min(offset for offset, _ in stripe.streams.values()) for stripe in layout.stripes]


def test_requests_are_two_and_four_for_each_stripe_that_survives(small: Path) -> None:
    check_requests(small)


@pytest.mark.slow
def test_requests_are_as_few_for_large_stripes(large: Path) -> None:
    check_requests(large)


@pytest.mark.slow
def test_requests_are_as_few_for_stripes_of_57_megabytes(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write_lineitem(spark, tmp_path_factory.mktemp("huge"), 0.5, **{"orc.stripe.size": str(100 * MIB)})
    assert max(stripe.data[1] for stripe in OrcLayout(path).stripes) > 50e6
    check_requests(path)
