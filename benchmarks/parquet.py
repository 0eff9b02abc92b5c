"""Compares ORC with Parquet, for the same table and the readers of each format:  python -m benchmarks.parquet

The table is TPC-H lineitem, compressed with ZSTD. The benchmark compares the sizes of the files, and reads all rows,
one column and one key, with one thread. It measures the processor time of this process, so it can run on a busy
machine. All readers run in turns, and the best time of each counts. The values that the readers return are compared.
Every writer has its defaults, except for the codec and the bloom filter.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

import orcidx
from benchmarks import lineitem
from benchmarks.columns import DATA

KEY, FILTERED = "l_orderkey", "l_partkey"
Read = Callable[[Path], Any]


def files(scale: float) -> dict[str, Path]:
    """Returns the files by their writers. The ORC files have a bloom filter of ``FILTERED``. pyarrow writes no bloom
    filter into a Parquet file."""
    table = lineitem.generated(lineitem.parquet(scale), use_threads=False).combine_chunks()
    made = {
        "ORC of orcidx": (DATA / f"beside-sf{scale:g}.orcidx.orc", _write_orcidx),
        "ORC of pyarrow": (DATA / f"beside-sf{scale:g}.pyarrow.orc", _write_pyarrow),
        "Parquet of pyarrow": (DATA / f"beside-sf{scale:g}.pyarrow.parquet", _write_parquet),
    }
    for path, write in made.values():
        if not path.is_file():
            fresh = path.with_suffix(".fresh")
            write(table, fresh)
            fresh.replace(path)
    return {name: path for name, (path, _) in made.items()}


def _write_orcidx(table: pa.Table, path: Path) -> None:
    orcidx.write_table(table, path, compression="zstd", bloom_filter_columns=[FILTERED])


def _write_pyarrow(table: pa.Table, path: Path) -> None:
    blooms = [table.column_names.index(FILTERED) + 1]
    pa.orc.write_table(table, path, compression="zstd", dictionary_key_size_threshold=0.8, bloom_filter_columns=blooms)


def _write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd", write_page_index=True)


def orcidx_read(path: Path, columns: list[str] | None = None, where: tuple[str, int] | None = None) -> pa.Table:
    predicate = None if where is None else orcidx.col(where[0]) == where[1]
    with orcidx.open(str(path)) as file:
        return file.read(columns=columns, where=predicate, use_threads=False)


def pyarrow_orc_read(path: Path, columns: list[str] | None = None, where: tuple[str, int] | None = None) -> pa.Table:
    table = pa.orc.ORCFile(path).read(columns=columns)  # pyarrow.orc cannot skip rows
    return table if where is None else table.filter(pa.compute.field(where[0]) == where[1])


def parquet_read(path: Path, columns: list[str] | None = None, where: tuple[str, int] | None = None) -> pa.Table:
    filters = None if where is None else [(where[0], "=", where[1])]
    return pq.read_table(path, columns=columns, filters=filters, use_threads=False)


def polars_read(path: Path, columns: list[str] | None = None, where: tuple[str, int] | None = None) -> pl.DataFrame:
    frame = pl.scan_parquet(path)
    frame = frame if where is None else frame.filter(pl.col(where[0]) == where[1])
    return (frame if columns is None else frame.select(columns)).collect()


READERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "orcidx, ORC": ("ORC of orcidx", orcidx_read),
    "orcidx, ORC of pyarrow": ("ORC of pyarrow", orcidx_read),
    "pyarrow.orc, ORC": ("ORC of pyarrow", pyarrow_orc_read),
    "pyarrow.parquet": ("Parquet of pyarrow", parquet_read),
    "Polars, Parquet": ("Parquet of pyarrow", polars_read),
}


def questions(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Returns the arguments of each read. The keys are the names of the reads."""
    row = table.num_rows * 2 // 3
    return {
        "all rows": {},
        "one column of numbers": {"columns": ["l_extendedprice"]},
        "one column of text": {"columns": ["l_comment"]},
        "a key of a clustered column": {"where": (KEY, table[KEY][row].as_py())},
        "a key that lies anywhere": {"where": (FILTERED, table[FILTERED][row].as_py())},
    }


def measure(sides: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Returns the best processor time of each side, in milliseconds."""
    best = dict.fromkeys(sides, math.inf)
    for _ in range(repeat):
        for name, read in sides.items():
            began = time.process_time()
            kept = read()
            best[name] = min(best[name], 1000 * (time.process_time() - began))
            del kept
    return best


def check(asked: dict[str, Any], found: dict[str, Any]) -> None:
    """Raises ``SystemExit`` unless all sides return the same rows."""
    frames = {name: one if isinstance(one, pl.DataFrame) else pl.from_arrow(one) for name, one in found.items()}
    first = next(iter(frames.values()))
    for name, frame in frames.items():
        if not first.equals(frame):
            raise SystemExit(f"{name} returns other rows than {next(iter(frames))} for the read {asked}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale of lineitem (default 1)")
    parser.add_argument("--repeat", type=int, default=3, help="reads by each reader; the best counts (default 3)")
    given = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    made = files(given.scale)
    print(
        f"pyarrow {pa.__version__}, Polars {pl.__version__}, Python {platform.python_version()}, {platform.machine()}"
    )
    print("\n| file | MB |\n|---|---|")
    for name, path in made.items():
        print(f"| {name} | {path.stat().st_size / 1e6:.1f} |")
    table = orcidx_read(made["ORC of orcidx"], columns=[KEY, FILTERED])
    print(f"\n{table.num_rows:,} rows; milliseconds of processor time")
    print(f"\n| read | {' | '.join(READERS)} |\n|---|{'---|' * len(READERS)}")
    for name, asked in questions(table).items():
        sides = {side: partial(read, made[file], **asked) for side, (file, read) in READERS.items()}
        check(asked, {side: read() for side, read in sides.items()})
        best = measure(sides, given.repeat if name == "all rows" else 2 * given.repeat)
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in best.values())} |", flush=True)


if __name__ == "__main__":
    main()
