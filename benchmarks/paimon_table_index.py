"""Measures the driver's part of indexing a Paimon table of many data files in one Spark job and one snapshot.

    python -m benchmarks.paimon_table_index [FILES] [--sidecars]

All files are links to one file of 100 rows, so they are made quickly. With ``--sidecars``, each index is stored in a
separate file. Without it, the indexes are stored in the manifest.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from orcidx import spark as orcidx_spark
from orcidx.paimon import open_table
from orcidx.paimon_table.commit import index_rewriting
from orcidx.paimon_table.commit.row_appending import commit_append, plan_append, write_rows
from orcidx.paimon_table.data_files.data_file_writing import DataFiles
from orcidx.spark.jobs import table_changes

SPEC = {"bitmap": {"city": {}}, "bloom-filter": {"id": {"items": 100}}}


def make_table(folder: Path, files: int, *, threshold: str) -> None:
    """Makes a table with this number of files, in one append."""
    options = {"bucket": "-1", "file.format": "orc", "file-index.in-manifest-threshold": threshold}
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "city", "type": "STRING"}]
    (folder / "schema").mkdir(parents=True)
    (folder / "schema" / "schema-0").write_text(json.dumps({"id": 0, "fields": fields, "options": options}))
    plan = plan_append(open_table(folder).view, {})
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "city": [f"city {i % 10}" for i in range(100)]})
    _, (one,) = write_rows(plan, rows, DataFiles(plan.committer.files.root, plan.schema, dense=plan.dense))
    names = [f"data-{number}-{one.name}" for number in range(files)]
    for name in names:
        os.link(folder / one.directory / one.name, folder / one.directory / name)
    (folder / one.directory / one.name).unlink()
    commit_append(plan, [replace(one, name=name) for name in names])


def timed(seconds: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function, so that the processor time of each call is added to ``seconds[name]``."""

    def call(*given: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*given, **named)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - start

    return call


def main() -> None:
    """Prints the figures."""
    from pyspark.sql import SparkSession

    files = int(next((word for word in sys.argv[1:] if word.isdigit()), "10000"))
    threshold = "0 b" if "--sidecars" in sys.argv else "1 mb"
    seconds: dict[str, float] = {}
    table_changes.plan_index_rewrite = timed(seconds, "plan", index_rewriting.plan_index_rewrite)
    table_changes.commit_rewrite = timed(seconds, "commit", index_rewriting.commit_rewrite)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "t"
        make_table(folder, files, threshold=threshold)
        for turn in ("first run", "second run"):
            seconds.clear()
            start = time.perf_counter()
            result = orcidx_spark.rewrite_file_index(spark, folder, spec=SPEC)
            whole = time.perf_counter() - start
            counts = {status: len(names) for status, names in result.files.items()}
            parts = ", ".join(f"{name} {spent:.1f} s" for name, spent in seconds.items())
            print(f"{turn}: snapshot {result.snapshot_id}, {counts}", flush=True)
            print(f"    {whole:.1f} s, of the driver's processor: {parts}", flush=True)
        print("snapshots:", sorted(path.name for path in (folder / "snapshot").glob("snapshot-*")))
    spark.stop()


if __name__ == "__main__":
    main()
