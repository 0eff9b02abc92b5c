"""Makes TPC-H lineitem as an ORC file. tpchgen-cli generates the rows. Spark or pyarrow writes the file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from benchmarks.columns import DATA


def generator() -> str:
    """Returns the path of the program that generates the tables of TPC-H."""
    program = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise SystemExit("tpchgen-cli was not found; install it with: python -m pip install 'orcidx[bench]'")
    return program


def generated(path: Path, *, use_threads: bool = True) -> pa.Table:
    """Reads a generated Parquet file, without the string views that pyarrow's ORC writer does not support."""
    table = pyarrow.parquet.read_table(path, use_threads=use_threads)
    plain = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema]
    return table.cast(pa.schema(plain))


def parquet(scale: float) -> Path:
    """Returns the generated table as a Parquet file. It is generated if it does not exist."""
    target = DATA / f"lineitem-sf{scale:g}.parquet"
    if not target.is_file():
        folder = DATA / f"tpch-sf{scale:g}"
        options = ["-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={folder}", "--overwrite"]
        subprocess.run([generator(), "parquet", *options], check=True, stdout=subprocess.DEVNULL)
        (folder / "lineitem.parquet").replace(target)
        shutil.rmtree(folder)
    return target


CLUSTERED = ("l_orderkey", "l_linenumber")
BLOOMS = ("l_partkey", "l_comment")
"""Columns with bloom filters. Their values are scattered over the table. A value of l_partkey is in some thirty rows,
and a value of l_comment is in few rows."""


def orc(scale: float, codec: str, *, spark: bool, blooms: bool = False) -> Path:
    """Returns one ORC file of the table. Spark or pyarrow writes it. ``blooms`` adds filters of ``BLOOMS``."""
    writer = "spark" if spark else "pyarrow"
    target = DATA / f"lineitem-sf{scale:g}.{writer}.{codec}{'.blooms' if blooms else ''}.orc"
    if not target.is_file():
        if spark:
            _write_with_spark(scale, codec, target, {"orc.bloom.filter.columns": ",".join(BLOOMS)} if blooms else {})
        else:
            fresh = target.with_suffix(".fresh")
            kind = "uncompressed" if codec == "none" else codec
            table = generated(parquet(scale))
            numbers = [table.column_names.index(name) + 1 for name in BLOOMS] if blooms else None
            options = {"dictionary_key_size_threshold": 0.8, "bloom_filter_columns": numbers}
            pyarrow.orc.write_table(table, fresh, compression=kind, **options)
            fresh.replace(target)
    return target


def _write_with_spark(scale: float, codec: str, target: Path, options: dict[str, str]) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    folder = target.with_suffix(".spark")
    try:
        # Spark reads the parts of the table in any order, so the rows are sorted by their key again.
        frame = session.read.parquet(str(parquet(scale))).coalesce(1).sortWithinPartitions(*CLUSTERED)
        frame.write.mode("overwrite").options(compression=codec, **options).orc(str(folder))
        (part,) = folder.glob("part-*.orc")
        part.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def java() -> bool:
    return shutil.which("java") is not None
