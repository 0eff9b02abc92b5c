"""Writes the tables of TPC-H as ORC files with Spark. It also has the 22 queries, for views of any reader."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lineitem import generator
from orcidx import spark as orcidx_spark

__all__ = ["TABLES", "queries", "view_all", "write_tables"]

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
FILES = {"lineitem": 24, "orders": 12, "partsupp": 8}


def write_tables(spark: Any, folder: Path, scale: float) -> None:
    """Makes the tables with ``tpchgen-cli`` (extra ``bench``), and writes them with Spark. lineitem and orders get
    bloom filters."""
    made = folder / "parquet"
    subprocess.run(
        [generator(), "parquet", "-s", str(scale), f"--output-dir={made}", "--compression=ZSTD(1)"],
        check=True,
        capture_output=True,
    )
    for name in TABLES:
        frame = spark.read.parquet(str(made / f"{name}.parquet")).repartition(FILES.get(name, 1))
        frame.write.mode("overwrite").orc(str(folder / name))
    for name, column in (("lineitem", "l_partkey"), ("orders", "o_custkey")):
        spec = {"bloom-filter": {column: {"items": 200_000, "fpp": 0.01}}}
        orcidx_spark.build_file_index(spark, str(folder / name), spec, progress=False).count()


def queries() -> list[str]:
    """Returns the 22 queries in the order of TPC-H."""
    text = Path(__file__).with_name("tpch_queries.sql").read_text()
    statements = [part.partition("\n")[2].strip().rstrip(";") for part in text.split("\n-- ")[1:]]
    assert len(statements) == 22
    return statements


def view_all(folder: Path, reader: Callable[[str], Any]) -> None:
    """Makes a view of every table. ``reader`` reads the directory of a table."""
    for name in TABLES:
        reader(str(folder / name)).createOrReplaceTempView(name)
