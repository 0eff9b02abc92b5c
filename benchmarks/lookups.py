"""Compares selective reads with pyarrow.orc and pyorc in one run:  python -m benchmarks.lookups

The table is TPC-H lineitem with all 16 columns, in one ORC file that Spark wrote. The rows are clustered by l_orderkey.
The columns l_partkey and l_comment have bloom filters, and their values are scattered over the file. Each lookup opens
the file again, from the page cache. "first" is a lookup without cached metadata. "again" is a lookup with cached
metadata, like a second scan in a process. The answers are compared.
"""

from __future__ import annotations

import argparse
import decimal
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.orc
import pyorc

import orcidx
from benchmarks import lineitem
from benchmarks.columns import DATA
from benchmarks.suite_files import many_row_groups
from orcidx import col
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.evidence import StatisticsEvidence
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.orc.row_index import RowIndex
from orcidx.predicate import bind
from orcidx.pruning.evaluate import Outcome, evaluate
from orcidx.pruning.selection import RowSelection

LOOKUPS = {"l_orderkey": 50.0, "l_partkey": 10.0, "l_comment": 10.0}
"""For each column of the lookups: a lookup must be this many times as fast as reading and filtering with pyarrow."""
PRUNED_MS = 1.0
PROVED_SHARE = 0.10


@dataclass(frozen=True)
class Row:
    """One measurement with medians in milliseconds. ``holds`` says whether the goal is reached. It is None without a
    goal."""

    name: str
    times: dict[str, float]
    result: str
    holds: bool | None


def median_ms(calls: Sequence[Callable[[], Any]]) -> float:
    """Returns the median time of the calls. Each function is called once."""
    times = []
    for call in calls:
        began = time.perf_counter()
        found = call()
        times.append((time.perf_counter() - began) * 1e3)
        del found
    return statistics.median(times)


# ---------------------------------------------------------------------- lookups


def clocks(call: Callable[[], Any]) -> tuple[float, float]:
    """Returns the processor time of all threads and the elapsed time, in milliseconds."""
    began, busy = time.perf_counter(), time.process_time()
    found = call()
    took = (time.process_time() - busy) * 1e3, (time.perf_counter() - began) * 1e3
    del found
    return took


def by_orcidx(path: Path, name: str, key: Any, *, forget: bool) -> pa.Table:
    if forget:
        forget_metadata()
    with orcidx.open(str(path)) as file:
        return file.read(where=col(name) == key)


def by_pyarrow(path: Path, name: str, key: Any) -> pa.Table:
    return pa.orc.ORCFile(path).read().filter(pc.field(name) == pa.scalar(key))


def by_dataset(path: Path, name: str, key: Any) -> pa.Table:
    return pa.dataset.dataset(path, format="orc").to_table(filter=pc.field(name) == pa.scalar(key))


def by_pyorc(path: Path, name: str, key: Any) -> list[tuple[Any, ...]]:
    kind = pyorc.TypeKind.STRING if isinstance(key, str) else pyorc.TypeKind.LONG
    with path.open("rb") as file:
        reader = pyorc.Reader(file, predicate=pyorc.predicates.PredicateColumn(kind, name) == key)
        place = list(reader.schema.fields).index(name)
        return [row for row in reader if row[place] == key]


def choose_keys(path: Path, name: str, count: int) -> list[Any]:
    """Returns the keys of rows that are spread evenly over the file."""
    with orcidx.open(str(path)) as file:
        values = file.read([name])[name]
    return [values[int(place)].as_py() for place in np.linspace(0, len(values) - 1, count + 2)[1:-1]]


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def measure_lookup(path: Path, name: str, keys: Sequence[Any], peer_keys: Sequence[Any]) -> Row:
    for key in peer_keys[:3]:
        found = by_orcidx(path, name, key, forget=True)
        expected = by_pyarrow(path, name, key)
        assert found.num_rows
        assert found.equals(expected.cast(found.schema)), (name, key)
        assert as_tuples(found) == by_pyorc(path, name, key), (name, key)
    sides: dict[str, Callable[[Any], Any]] = {
        "orcidx, first": lambda key: by_orcidx(path, name, key, forget=True),
        "orcidx, again": lambda key: by_orcidx(path, name, key, forget=False),
        "pyorc": lambda key: by_pyorc(path, name, key),
        "pyarrow.dataset": lambda key: by_dataset(path, name, key),
        "pyarrow.orc": lambda key: by_pyarrow(path, name, key),
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    for key in keys:  # the readers take turns, so that other load on the machine affects all of them alike
        for side, look in sides.items():
            if key in peer_keys or side.startswith("orcidx"):
                found[side].append(clocks(lambda look=look, key=key: look(key))[1])
    times = {side: statistics.median(taken) for side, taken in found.items()}
    ratio = times["pyarrow.orc"] / times["orcidx, first"]
    best = min(times["pyorc"], times["pyarrow.dataset"], times["pyarrow.orc"]) / times["orcidx, first"]
    needed = LOOKUPS[name]
    text = f"{ratio:.0f}x pyarrow.orc (needed {needed:.0f}x), {best:.1f}x the best peer"
    return Row(f"lookup by {name}", times, text, ratio >= needed)


# ---------------------------------------------------------------------- pruning


def pruner(file: orcidx.OrcFile, index: RowIndex, where: orcidx.predicate.Predicate) -> Outcome:
    """Computes the rows that may match from decoded entries of row groups."""
    (column,) = (node for node in index.columns.values() if node.statistics.node.dotted == "clustered")
    bounds = bound_statistics(column.statistics, file.tail.facts, file.options)
    evidence = StatisticsEvidence("row-group statistics", {("clustered",): bounds}, index.bounds, file.options)
    root = bind(where, file.schema).root
    return evaluate(root, [evidence], RowSelection.all(int(index.bounds[-1])))


def measure_pruning() -> Row:
    """Measures how long orcidx takes to select the rows that may match, from 10,000 decoded row-group entries."""
    with orcidx.open(str(many_row_groups(DATA))) as file:
        index = read_row_index(file._reader, 0, file._reader.root.walk())
        questions = [col("clustered") == key for key in range(0, 1_000_000, 20_000)]
        assert index.groups == 10_000
        assert pruner(file, index, questions[1]).may.count == 100
        took = median_ms([lambda where=where: pruner(file, index, where) for where in questions])
    text = f"10,000 entries in {took:.2f} ms (needed below {PRUNED_MS:.0f} ms)"
    return Row("pruning row-group statistics", {"orcidx": took}, text, took < PRUNED_MS)


# ---------------------------------------------------------------------- predicates that keep all rows


def measure_keeping(path: Path, name: str, literal: Any, rounds: int, *, proved: bool) -> Row:
    """Compares the times of reading all rows with and without a predicate. The predicate is true for each row. The two
    reads run in turns.

    The processor time of one thread decides whether the goal is reached. The elapsed time of long reads varies by more
    than the difference.
    """
    where, condition = col(name) != literal, pc.field(name) != pa.scalar(literal)

    def read(where: Any) -> pa.Table:
        with orcidx.open(str(path)) as file:
            return file.read(where=where, use_threads=False)

    table = read(None)
    assert read(where).num_rows == table.num_rows
    with orcidx.open(str(path)) as file:
        decisions = [stripe.decision.rows for stripe in file.scan(where=where).stripes()]
    assert {rows.must.is_all for rows in decisions} == {proved}
    assert all(rows.may.is_all for rows in decisions)
    calls = {
        "without": lambda: read(None),
        "with": lambda: read(where),
        "pyarrow.compute": lambda: table.filter(condition),
    }
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in calls}
    for _ in range(rounds):
        for side, call in calls.items():
            found[side].append(clocks(call))
    busy = {side: statistics.median(one for one, _ in times) for side, times in found.items()}
    wall = {f"{side}, wall": statistics.median(one for _, one in times) for side, times in found.items()}
    more = busy["with"] - busy["without"]
    share = more / busy["without"]
    if proved:
        text = f"{share:+.1%} of a read without a predicate (needed below {PROVED_SHARE:.0%})"
        return Row(f"keeping all rows, proved ({name})", busy | wall, text, share < PROVED_SHARE)
    text = f"{more:+.0f} ms, {share:+.1%} (needed below pyarrow.compute's filter, {busy['pyarrow.compute']:.0f} ms)"
    return Row(f"keeping all rows, not proved ({name})", busy | wall, text, more < busy["pyarrow.compute"])


def absent_price(path: Path) -> Any:
    """Returns a price that no row has. It is between the minimum and the maximum of every row group."""
    with orcidx.open(str(path)) as file:
        prices = file.read(["l_extendedprice"])["l_extendedprice"]
    type_ = prices.type
    for cents in range(20_000_00, 60_000_00):
        price = pa.scalar(decimal.Decimal(cents) / 100, type_)
        if not pc.any(pc.equal(prices, price)).as_py():
            return price.as_py()
    raise SystemExit(
        "l_extendedprice contains every price from 20000.00 to 59999.99, but the benchmark needs one that is missing"
    )


# ---------------------------------------------------------------------- the command


def measure(path: Path, given: argparse.Namespace) -> Iterator[Row]:
    for name in LOOKUPS:
        keys = choose_keys(path, name, given.keys)
        step = max(1, len(keys) // given.peer_keys)
        yield measure_lookup(path, name, keys, keys[::step])
    yield measure_pruning()
    yield measure_keeping(path, "l_orderkey", -1, given.rounds, proved=True)
    yield measure_keeping(path, "l_comment", "m", given.rounds, proved=False)
    yield measure_keeping(path, "l_extendedprice", absent_price(path), given.rounds, proved=False)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="scale of lineitem: 1 has 6 million rows")
    parser.add_argument("--codec", default="zstd")
    parser.add_argument("--keys", type=int, default=50, help="keys of each lookup")
    parser.add_argument("--peer-keys", type=int, default=50, help="number of keys that pyarrow and pyorc look up")
    parser.add_argument("--rounds", type=int, default=5, help="reads of the whole table with and without a predicate")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    given = parser.parse_args(words)
    path = lineitem.orc(given.scale, given.codec, spark=lineitem.java(), blooms=True)
    print(
        f"{path.name}, {path.stat().st_size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    found = []
    for row in measure(path, given):
        times = ", ".join(f"{side} {took:.2f} ms" for side, took in row.times.items())
        print(f"{'ok  ' if row.holds else 'MISS'} {row.name}: {row.result}\n       {times}", flush=True)
        found.append(row)
    print(f"load {os.getloadavg()[0]:.1f}")
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
