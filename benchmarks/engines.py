"""Runs the 22 queries of TPC-H in DuckDB and Polars, with orcidx and with the engine's own Parquet reader:
python -m benchmarks.engines

All sources have the same tables. ORC files are written by ``orcidx.write_table`` and Parquet files by pyarrow, both
with ZSTD. In each round, each query runs on all sources in turn. The least time of the rounds counts, and the answers
are compared by value. A ratio is the time with Parquet divided by the time with the source. With a ratio of 0.5, the
query takes twice as long as with Parquet. Sources:

``parquet``  the engine's own reader
``orcidx``   ``orcidx.register_duckdb`` in DuckDB, ``orcidx.scan_polars`` in Polars
``memory``   the tables as Arrow in memory, so that decoding takes no time
``floor``    only for Polars: the tables in memory, passed frame by frame as ``orcidx`` does. It shows the cost of
             passing frames

``--profile`` shows three parts of the time of ``orcidx``. "ours" is the time of its scans, which run once more without
an engine. "engine" is the time of ``memory``. "hand-over" is the rest. ``--cpu`` measures the processor time of all
threads, for a busy machine. With ``--cpu``, a reader that leaves a core idle seems faster than it is.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import orcidx
from benchmarks import lineitem
from benchmarks.columns import DATA
from benchmarks.tpch import TABLES, queries
from orcidx.engines.polars.lazy_scan import FRAME_ROWS
from orcidx.engines.polars.planned_table import lazy_frame
from orcidx.scanner.scan import Scan

if TYPE_CHECKING:
    import polars as pl

SOURCES = ("parquet", "orcidx", "memory", "floor")
Run = Callable[[str], pa.Table]


def files(scale: float) -> Path:
    """Returns the folder of the tables, ``NAME.orc`` and ``NAME.parquet``. It is made if it does not exist."""
    folder = DATA / f"engines-sf{scale:g}"
    if (folder / "done").is_file():
        return folder
    made = folder / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    command = [lineitem.generator(), "parquet", "-s", f"{scale:g}", f"--output-dir={made}", "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name in TABLES:
        table = lineitem.generated(made / f"{name}.parquet")
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        orcidx.write_table(table, folder / f"{name}.orc", compression="zstd")
    shutil.rmtree(made)
    (folder / "done").touch()
    return folder


def duckdb_runs(folder: Path, sources: list[str], threads: int) -> dict[str, Run]:
    import duckdb

    def opened(source: str) -> Run:
        connection = duckdb.connect()
        connection.execute(f"SET threads = {threads}; SET TimeZone = 'UTC'")
        for name in TABLES:
            if source == "parquet":
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder / name}.parquet')")
            elif source == "orcidx":
                orcidx.register_duckdb(connection, name, folder / f"{name}.orc")
            else:
                connection.register(name, pq.read_table(folder / f"{name}.parquet"))
        return lambda query: connection.sql(query).to_arrow_table()

    return {source: opened(source) for source in sources}


class _Held:
    """The frames of a table in memory, with the facts that a file gives to Polars' planner."""

    def __init__(self, table: pl.DataFrame, scan: Scan) -> None:
        self.table = table
        self.scan = scan

    def frames(
        self, columns: list[str], pre_slice: tuple[int, int] | None, filters: Sequence[pl.Expr]
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        wanted = self.table.select(columns) if columns else pl.DataFrame(height=self.table.height)
        yield from (wanted if pre_slice is None else wanted.slice(*pre_slice)).iter_slices(FRAME_ROWS)


def handed_over(table: pl.DataFrame, scan: Scan) -> pl.LazyFrame:
    """Returns a frame that reads a table in memory through the interface that ``orcidx.scan_polars`` uses."""
    lazy = lazy_frame(_Held(table, scan), table.schema)
    assert lazy is not None
    return lazy


def polars_runs(folder: Path, sources: list[str], threads: int) -> dict[str, Run]:
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars as pl

    def frame(source: str, name: str) -> pl.LazyFrame:
        if source == "parquet":
            return pl.scan_parquet(folder / f"{name}.parquet")
        if source == "orcidx":
            return orcidx.scan_polars(folder / f"{name}.orc")
        if source == "floor":
            return handed_over(
                pl.read_parquet(folder / f"{name}.parquet").rechunk(), orcidx.scan(folder / f"{name}.orc")
            )
        return pl.read_parquet(folder / f"{name}.parquet").lazy()

    def opened(source: str) -> Run:
        context = pl.SQLContext({name: frame(source, name) for name in TABLES})
        return lambda query: context.execute(query).collect().to_arrow()

    return {source: opened(source) for source in sources}


ENGINES = {"duckdb": duckdb_runs, "polars": polars_runs}


# --- comparing answers ------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Returns a value to compare. Floats are rounded, because sums of floats depend on the order of the batches."""
    if isinstance(value, (float, Decimal)):
        return float(f"{value:.9g}")
    return value.date() if isinstance(value, dt.datetime) and value.time() == dt.time(0) else value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = zip(*([plain(value) for value in column.to_pylist()] for column in table.columns))
    return sorted(rows, key=repr)


def same_answers(answers: dict[str, list[tuple[Any, ...]]]) -> bool:
    first, *others = answers.values()
    return all(other == first for other in others)


# --- measuring scans alone --------------------------------------------------------------------------------------------


@contextmanager
def recorded() -> Iterator[list[Scan]]:
    """Collects the scans that run in the ``with`` block."""
    scans: list[Scan] = []
    before = {name: getattr(Scan, name) for name in ("to_batches", "to_early_batches")}

    def recording(name: str) -> Callable[[Scan], Any]:
        def run(self: Scan) -> Any:
            scans.append(self)
            return before[name](self)

        return run

    for name in before:
        setattr(Scan, name, recording(name))
    try:
        yield scans
    finally:
        for name, method in before.items():
            setattr(Scan, name, method)


def read_all(scans: list[Scan]) -> None:
    for scan in scans:
        with scan.to_batches() as batches:
            for _ in batches:
                pass


def measured(clock: Callable[[], float], call: Callable[[], Any]) -> float:
    begin = clock()
    call()
    return clock() - begin


# --- the command ------------------------------------------------------------------------------------------------------


def run_query(runs: dict[str, Run], query: str, rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Returns the least milliseconds of each source. Raises ``SystemExit`` if the answers differ."""
    answers = {source: rows_of(run(query)) for source, run in runs.items()}
    if not same_answers(answers):
        raise SystemExit(
            "the sources return different rows; the first three rows of each source: "
            f"{ ({source: rows[:3] for source, rows in answers.items()}) }\nThe query: {query}"
        )
    best = dict.fromkeys(runs, math.inf)
    for turn in range(rounds):
        order = list(runs) if turn % 2 == 0 else list(reversed(runs))
        for source in order:
            best[source] = min(best[source], measured(clock, lambda run=runs[source]: run(query)) * 1e3)
    return best


def profiled(run: Run, query: str, rounds: int, clock: Callable[[], float]) -> float:
    """Returns the least milliseconds that the scans of a query take without the engine."""
    with recorded() as scans:
        run(query)
    return min(measured(clock, lambda: read_all(scans)) for _ in range(rounds)) * 1e3


def compare(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    clock = time.process_time if arguments.cpu else time.perf_counter
    sources = [source for source in SOURCES[:3] if source != "memory" or arguments.memory or arguments.profile]
    sources += ["floor"] if arguments.floor and name == "polars" else []
    runs = ENGINES[name](folder, sources, arguments.threads)
    texts = queries()
    results: dict[str, dict[str, float]] = {}
    print(f"{name}\nquery {' '.join(f'{source:>9}' for source in sources)}   ratios", flush=True)
    for number in arguments.queries or range(1, len(texts) + 1):
        query = texts[number - 1]
        best = run_query(runs, query, arguments.rounds, clock)
        line = f"{number:5} {' '.join(f'{best[source]:9.1f}' for source in sources)}   "
        line += " ".join(f"{best['parquet'] / best[source]:5.2f}" for source in sources[1:])
        if arguments.profile:
            best["ours"] = profiled(runs["orcidx"], query, arguments.rounds, clock)
            rest = best["orcidx"] - best["ours"] - best["memory"]
            line += f"   ours {best['ours']:.1f}, engine {best['memory']:.1f}, hand-over {rest:.1f}"
        results[str(number)] = best
        print(line, flush=True)
    for source in sources[1:]:
        ratios = [best["parquet"] / best[source] for best in results.values()]
        total = sum(best[source] for best in results.values())
        print(
            f"{source}: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.2f}, most {max(ratios):.2f}, "
            f"in all {total:.0f} ms"
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="an engine (default: both)")
    parser.add_argument("--queries", type=int, nargs="+", metavar="N", help="numbers of queries (default: all 22)")
    parser.add_argument("--memory", action="store_true", help="also measure Arrow tables in memory")
    parser.add_argument("--floor", action="store_true", help="Polars: also measure frames that take no time to decode")
    parser.add_argument("--profile", action="store_true", help="show how the time is divided")
    parser.add_argument("--cpu", action="store_true", help="measure processor time, for a busy machine")
    parser.add_argument("--json", type=Path, help="write the milliseconds to this file")
    arguments = parser.parse_args()
    pa.set_cpu_count(arguments.threads)
    folder = files(arguments.scale)
    engines = arguments.engine or list(ENGINES)
    print(
        f"TPC-H, scale {arguments.scale:g}, {arguments.threads} threads, best of {arguments.rounds}, "
        f"{'processor' if arguments.cpu else 'wall-clock'} time, {platform.machine()}"
    )
    results = {name: compare(name, arguments, folder) for name in engines}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
