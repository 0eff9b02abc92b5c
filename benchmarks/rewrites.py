"""Measures the cost and the benefit of rewriting:  python -m benchmarks.rewrites --scale 1

The file is TPC-H lineitem with shuffled rows, in one ORC file that pyarrow wrote. First the benchmark sorts the rows by
a column and adds bloom filters. It compares lookups and sizes before and after. Then it measures the processor time of
recompressing and of adding filters. It compares this time with the time of decoding and encoding all rows, which gives
the same result, with and without verification. The time of all threads is counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

import orcidx
from benchmarks import lineitem
from benchmarks.columns import DATA
from orcidx import col
from orcidx.orc.metadata_cache import forget_metadata

SORTED_BY = "l_shipdate"
BLOOMS = ("l_orderkey", "l_partkey")


def shuffled(scale: float) -> Path:
    """Returns a file with the rows of the table in random order. It is written if it does not exist."""
    target = DATA / f"lineitem-sf{scale:g}.shuffled.zlib.orc"
    if not target.is_file():
        table = lineitem.generated(lineitem.parquet(scale)).combine_chunks()
        order = np.random.default_rng(1).permutation(table.num_rows)
        fresh = target.with_suffix(".fresh")
        options = {"compression": "zlib", "dictionary_key_size_threshold": 0.8}
        with pyarrow.orc.ORCWriter(str(fresh), **options) as writer:
            for at in range(0, len(order), 1 << 20):
                writer.write(table.take(pa.array(order[at : at + (1 << 20)])))
        fresh.replace(target)
    return target


def busy(call: Callable[[], Any], rounds: int) -> float:
    """Returns the least processor time of all threads, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)


def lookups(path: Path, name: str, values: Sequence[Any]) -> tuple[float, float, int]:
    """Returns the median milliseconds of processor time, the median of the bytes read, and the number of rows found."""
    took, read, rows = [], [], 0
    for value in values:
        forget_metadata()
        began = time.process_time()
        with orcidx.open(str(path)) as file, file.scan(where=col(name) == value).to_batches() as batches:
            rows += sum(batch.num_rows for batch in batches)
            metrics = batches.metrics
        took.append((time.process_time() - began) * 1e3)
        read.append(metrics.bytes_read)
    return statistics.median(took), statistics.median(read), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    before = shuffled(given.scale)
    after = DATA / "rewritten.orc"
    done = orcidx.rewrite(before, after, sort_by=SORTED_BY, bloom_filters=BLOOMS, compression="zstd", overwrite=True)
    print(done)
    with orcidx.open(str(before)) as file:
        names = [SORTED_BY, *BLOOMS]
        rows = file.read(names, row_range=(0, 1000))
    for name in names:
        values = rows[name].to_pylist()[::200]
        (ms, size, found), (ms2, size2, found2) = (lookups(path, name, values) for path in (before, after))
        assert found == found2
        print(f"{name:12} {ms:9.1f} ms, {size:12,.0f} bytes  →  {ms2:7.1f} ms, {size2:12,.0f} bytes  ({found} rows)")
    ways: dict[str, dict[str, Any]] = {
        "recompressing (zlib → zstd)": {"compression": "zstd"},
        f"adding filters ({', '.join(BLOOMS)})": {"bloom_filters": BLOOMS},
    }
    for verify in (False, True):
        for name, options in ways.items():
            target = DATA / "rewritten.way.orc"
            common = {"verify": verify, "overwrite": True, **options}
            cheap = busy(lambda: orcidx.rewrite(before, target, **common), given.rounds)  # noqa: B023
            # if a stripe size is given, the rows are encoded again
            dear = busy(lambda: orcidx.rewrite(before, target, stripe_size=64 << 20, **common), given.rounds)  # noqa: B023
            target.unlink()
            told = "verified" if verify else "not verified"
            print(f"{name}, {told}: {cheap:.2f} s, decoded and encoded {dear:.2f} s: {dear / cheap:.1f}x")
    after.unlink()


if __name__ == "__main__":
    main()
