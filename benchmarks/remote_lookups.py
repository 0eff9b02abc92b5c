"""Measures lookups over HTTP with 30 ms of latency: python -m benchmarks.remote_lookups FILE...

The files have TPC-H lineitem as ``benchmarks.lineitem`` writes it, with stripes of any size. The rows are clustered by
l_orderkey. The columns l_partkey and l_comment have bloom filters. The benchmark prints the requests, bytes and time of
each lookup. ``--merge-gap`` sets the largest gap between two byte ranges that one request fetches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import forget_metadata

LATENCY = 0.03
FEW = ("l_orderkey", "l_partkey", "l_shipdate")
Question = tuple[str, Any, list[str] | None]


def questions(path: Path) -> Iterator[Question]:
    """Yields name, predicate and columns of each lookup. The keys are from the middle of the second stripe."""
    with orcidx.open(str(path)) as file:
        at = file.stripes[0].rows + file.stripes[1].rows // 2 + 777
        row = file.read(["l_orderkey", "l_partkey", "l_comment"], row_range=(at, at + 1)).to_pylist()[0]
        key = row["l_orderkey"]
        absent = next(f"m{n}" for n in range(1000) if not file.scan([], col("l_comment") == f"m{n}").count_rows())
    yield "`l_orderkey` =, all columns", col("l_orderkey") == key, None
    yield "`l_orderkey` =, 3 columns", col("l_orderkey") == key, list(FEW)
    yield "`l_orderkey` between, 40,000 rows, all columns", col("l_orderkey").between(key, key + 40_000), None
    yield "`l_comment` =, all columns", col("l_comment") == row["l_comment"], None
    yield "`l_comment` =, 3 columns", col("l_comment") == row["l_comment"], list(FEW)
    yield "`l_comment` = an absent one", col("l_comment") == absent, None


def ask(server: Any, question: Question, options: dict[str, Any], rounds: int) -> str:
    """Runs a lookup. Returns a line of the table."""
    name, where, columns = question
    times = []
    for _ in range(rounds):
        forget_metadata()
        server.log.clear()
        began = time.perf_counter()
        batches = orcidx.scan(f"{server.url}/a.orc", columns, where, **options).to_batches()
        rows = sum(batch.num_rows for batch in batches)
        times.append((time.perf_counter() - began) * 1e3)
    requests, size = len(server.gets), sum(one.sent for one in server.gets)
    scan = orcidx.scan(f"{server.url}/a.orc", columns, where, **options)
    left = sum(bool(stripe.decision.rows_after) for stripe in scan.stripes())
    alive = batches.metrics.stripes - batches.metrics.stripes_skipped
    took = statistics.median(times)
    return f"| {name} | {rows} | {alive} | {left} | {requests} | {size / 1e6:.1f} | {took:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--merge-gap", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from range_server import RangeServer

    options = {} if chosen.merge_gap is None else {"merge_gap": chosen.merge_gap}
    for path in chosen.files:
        head = "| lookup | rows | stripes alive | left | requests | MB | ms |"
        lines = [f"\n{path.name}\n", head, "|---|" + "--:|" * 6]
        asked = list(questions(path))
        with RangeServer({"a.orc": path.read_bytes()}, latency=LATENCY) as server:
            lines += [ask(server, question, options, chosen.rounds) for question in asked]
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
