"""Rewrites whose process is killed (SIGKILL) in the swap, before each change to a file.

orcidx returns each row once, and warns if other readers would see some rows twice. For Spark's own reader, no row is
missing. After the lease has ended, ``recover`` and the next rewrite complete the swap. Then all readers see each row
once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark import swap_kills
from spark_frames import collected

import orcidx
from orcidx import InvalidQuery, StorageError, col
from orcidx import spark as orcidx_spark

FILES, ROWS = 4, 100
EVERYTHING = list(range(FILES * ROWS))
HERE = Path(__file__).parent


def written(directory: Path) -> Path:
    """Writes two files in each of two partitions."""
    for number in range(FILES):
        folder = directory / f"k={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        orcidx.write_table(pa.table({"id": EVERYTHING[number::FILES]}), folder / f"{number}.orc")
    return directory


def data_files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.orc") if path.name[0] not in "._")


def by_orcidx(directory: Path) -> tuple[list[int], bool]:
    """Returns the rows of orcidx's scan, and whether the scan warned. Checks that a condition and a count return the
    same rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        found = sorted(orcidx.scan(directory).to_table()["id"].to_pylist())
        assert orcidx.scan(directory).count_rows() == len(found)
        assert orcidx.scan(directory, where=col("id") == 7).to_table().num_rows == found.count(7)
        assert orcidx.aggregate(directory, {"s": "sum(id)"})["s"][0].as_py() == sum(found)
    return found, any("has not finished replacing its files" in str(one.message) for one in caught)


def by_spark(spark: Any, directory: Path) -> list[int]:
    """Returns the rows that Spark's own reader finds. It does not know about swaps."""
    return sorted(row.id for row in spark.read.orc(str(directory)).select("id").collect())


def check_killed(spark: Any, directory: Path, *, kept: bool) -> bool:
    """Checks what each reader sees in the directory of a killed swap. Returns whether readers other than orcidx see
    rows twice."""
    found, warned = by_orcidx(directory)
    assert found == EVERYTHING
    if spark is None:
        return warned
    others = by_spark(spark, directory)
    assert sorted(set(others)) == EVERYTHING, "no row is missing"
    twice = len(others) > len(EVERYTHING)
    assert warned == (twice and not kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert sorted(row.id for row in orcidx_spark.read(spark, str(directory)).collect()) == EVERYTHING
    if twice and not kept:
        with pytest.raises(InvalidQuery, match=r"orcidx\.spark\.recover"):
            orcidx_spark.read(spark, str(directory), engine="spark")
    before = {name: os.stat(directory / name).st_mtime_ns for name in data_files(directory)}
    leases = [one for one in directory.rglob("*.lease") if json.loads(one.read_text())["until"]]
    if leases and not _is_done(directory):
        for lease in leases:  # renewed, because a lease may have ended on a busy machine
            lease.write_text(json.dumps({"until": time.time() + 60}))
        for call in (orcidx_spark.rewrite, orcidx_spark.recover):
            with pytest.raises(StorageError, match="its lease ends"):
                call(spark, str(directory))
    assert before == {name: os.stat(directory / name).st_mtime_ns for name in data_files(directory)}, "it only reads"
    return twice


def _is_done(directory: Path) -> bool:
    return all(
        json.loads(path.read_text())["state"] == "done" for path in (directory / "_orcidx_rewrite").glob("*.json")
    )


def check_ended(spark: Any, directory: Path) -> None:
    """Checks that every reader sees each row once, and that no file of the swap remains."""
    assert by_orcidx(directory) == (EVERYTHING, False)
    assert spark is None or by_spark(spark, directory) == EVERYTHING
    assert orcidx_spark.recover(None, str(directory)) == ()
    left = [path.name for path in directory.rglob("*") if path.name.startswith((".rewritten", "_orcidx_swap"))]
    assert left == []
    assert not list(directory.rglob("*.swap"))


@pytest.mark.parametrize("kept", [0, pytest.param(3600, marks=pytest.mark.slow)])
def test_each_change_of_a_swap(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    directory, scratch = written(tmp_path / "data"), tmp_path / "killed"
    words = [sys.executable, str(HERE / "swap_kills.py"), str(directory), str(scratch), str(kept)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    killed: dict[str, str | None] = json.loads(done.stdout)
    kinds = Counter(before.partition(" ")[0] for before in killed.values() if before)
    assert kinds["os.rename"] >= 10
    assert kinds["os.remove"] >= (2 if kept else 12)
    seen: Counter[bool] = Counter()
    shapes: set[tuple[str, ...]] = set()
    for name, before in killed.items():
        copy = scratch / name
        files = tuple(data_files(copy))
        new = before is not None and files not in shapes  # Spark is slow, so it reads each set of files once
        shapes.add(files)
        seen[check_killed(spark if new else None, copy, kept=bool(kept))] += 1
        swap_kills.expire_leases(copy)
        if kept:
            (sentence,) = orcidx_spark.recover(None, str(copy)) or ("",)
            assert "kept" in sentence or "undone before it replaced files" in sentence
            assert by_orcidx(copy) == (EVERYTHING, False)
            with monkeypatch.context() as later:
                now = time.time()
                later.setattr("orcidx.spark.jobs.swaps.time.time", lambda now=now: now + kept + 1)
                orcidx_spark.recover(None, str(copy))
        elif new:
            done = collected(orcidx_spark.rewrite(spark, str(copy), sort_by="id", progress=False))
            assert set(done["status"].to_pylist()) <= {"fresh", "rewritten"}
        else:
            orcidx_spark.recover(None, str(copy))
        check_ended(spark if new else None, copy)
    assert len(shapes) == (3 if kept else 7)
    assert seen[False] >= 4
    assert kept or seen[True] >= 4


WHOLE = """
import sys
import time
import orcidx.spark
from orcidx.spark.jobs.swaps import Swaps
from pyspark.sql import SparkSession
sys.path.insert(0, {here!r})
import swap_kills
commit = Swaps.commit
def killed(self, *given):
    swap_kills.kill_before({number}, {directory!r}, 2)
    return commit(self, *given)
Swaps.commit = killed
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
orcidx.spark.rewrite(session, {directory!r}, sort_by="id", progress=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [7, 8, 9, 11, 13, 16])
def test_a_driver_that_is_killed(spark: Any, tmp_path: Path, number: int) -> None:
    """The process that called ``rewrite`` is killed before its change ``number``. This is a change of the swap's
    manifest, of a new file, of an old file, or of the file that marks the swap."""
    directory = written(tmp_path / "data")
    script = WHOLE.format(here=str(HERE), number=number, directory=str(directory))
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    check_killed(spark, directory, kept=False)
    swap_kills.expire_leases(directory)
    assert len(orcidx_spark.recover(spark, str(directory))) == 1
    check_ended(spark, directory)
