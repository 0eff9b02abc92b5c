"""``orcidx.spark.rewrite`` sorts a directory and merges small files. The directory is complete at any time, even after
a kill."""

from __future__ import annotations

import datetime
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from spark_frames import collected

import orcidx
from orcidx import CorruptFile, InvalidQuery, StorageError, col
from orcidx import spark as orcidx_spark
from orcidx.index_directory.describe import describe_indexes
from orcidx.spark.jobs import swaps
from orcidx.storage.unfinished_swaps import SWAP_FOLDER

FILES, ROWS = 4, 2000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = rng.permutation(2 * FILES * ROWS)
    for number in range(2 * FILES):
        folder = tmp_path / "data" / f"k={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        part = pa.array(ids[number * ROWS : (number + 1) * ROWS])
        data = pa.table({"id": part, "city": [f"c{i % 7}" for i in range(ROWS)]})
        orc.write_table(data, folder / f"{number}.orc", compression="zlib")
    return tmp_path / "data"


def rows(directory: Path) -> list[int]:
    return sorted(orcidx.scan(directory).to_table()["id"].to_pylist())


def files(directory: Path) -> list[str]:
    found = (path.relative_to(directory) for path in directory.rglob("*.orc"))
    return sorted(str(path) for path in found if not str(path).startswith("_orcidx"))


def statuses(frame: Any) -> Counter[str]:
    return Counter(collected(frame)["status"].to_pylist())


def test_a_directory_is_merged_and_sorted_once(spark, directory):
    orcidx_spark.build_file_index(spark, str(directory), {"bitmap": {"city": {}}})
    planned = orcidx_spark.rewrite(spark, str(directory), sort_by="id", dry_run=True)
    assert statuses(planned) == {"planned": 2}
    assert len(files(directory)) == 2 * FILES
    done = collected(orcidx_spark.rewrite(spark, str(directory), sort_by="id", bloom_filters=["city"]))
    assert done["status"].to_pylist() == ["rewritten"] * 2
    assert sum(done["rows"].to_pylist()) == 2 * FILES * ROWS
    assert files(directory) == sorted(done["path"].to_pylist())
    assert [str(Path(name).parent) for name in files(directory)] == ["k=0", "k=1"]
    assert rows(directory) == list(range(2 * FILES * ROWS))
    for name in files(directory):
        file = orcidx.open(directory / name)
        ids = file.read()["id"].to_pylist()
        assert ids == sorted(ids)
        assert file.scan(where=col("city") == "c6x").explain().funnel[3].after == 0
    assert spark.read.orc(str(directory)).count() == 2 * FILES * ROWS
    described = describe_indexes(str(directory))
    assert "2 fresh" in str(described)
    again = collected(orcidx_spark.rewrite(spark, str(directory), sort_by="id", bloom_filters=["city"]))
    assert again["status"].to_pylist() == ["fresh"] * 2
    assert files(directory) == sorted(done["path"].to_pylist())


def plain_sql_is_spark_s(spark: Any, path: str) -> None:
    """For an unfinished swap, plain SQL in an enabled session returns the same rows as Spark alone, including
    duplicates. ``why`` gives the reason."""
    query = f"SELECT count(*) FROM orc.`{path}` WHERE id >= 10"
    plain = spark.sql(query).first()[0]
    orcidx_spark.enable(spark)
    try:
        assert spark.sql(query).first()[0] == plain > 2 * FILES * ROWS - 10
        assert "has not finished replacing its files" in orcidx_spark.why()[-1].reason
    finally:
        orcidx_spark.disable(spark)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("step", ["between", pytest.param("before", marks=SLOW), pytest.param("after", marks=SLOW)])
def test_a_killed_swap_is_carried_on(spark, directory, monkeypatch, step):
    """The swap is killed before the first new file gets its final name, before the old files are deleted, or at the
    end."""
    right = swaps._rename
    calls = 0

    def die(staged: Any, final: Any) -> None:
        nonlocal calls
        calls += 1
        if step == "between":
            right(staged, final)
        if step != "after" or calls == 2:
            raise KeyboardInterrupt
        right(staged, final)

    with monkeypatch.context() as patched:
        patched.setattr(swaps, "_rename", die)
        with pytest.raises(KeyboardInterrupt):
            orcidx_spark.rewrite(spark, str(directory), sort_by="id")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert rows(directory) == list(range(2 * FILES * ROWS)), "each row is read once"
        path = str(directory)
        assert orcidx_spark.read(spark, path).count() == 2 * FILES * ROWS
        assert orcidx_spark.read(spark, f"{path}/k=0").count() == FILES * ROWS
    if step == "between":
        assert spark.read.orc(path).count() > 2 * FILES * ROWS
        with pytest.raises(InvalidQuery, match=r"orcidx\.spark\.recover"):
            orcidx_spark.read(spark, path, engine="spark")
        plain_sql_is_spark_s(spark, path)
        before = {name: os.stat(directory / name).st_mtime_ns for name in files(directory)}
        (lost,) = (path for path in (directory / SWAP_FOLDER).glob("*.json"))
        lease = lost.with_suffix(".lease")
        lease.write_text(json.dumps({"until": time.time() + 30}))
        for call in (orcidx_spark.rewrite, orcidx_spark.recover):
            with pytest.raises(StorageError, match="its lease ends"):
                call(spark, path)
        assert before == {name: os.stat(directory / name).st_mtime_ns for name in files(directory)}
        lease.write_text(json.dumps({"until": time.time() - 1}))
        assert [words.partition(": ")[2] for words in orcidx_spark.recover(None, path)] == [
            "the rewrite was completed; 2 files replace 8"
        ]
        assert orcidx_spark.recover(None, path) == ()
        assert not list(directory.rglob("_orcidx_swap*"))
        assert spark.read.orc(path).count() == 2 * FILES * ROWS
    done = orcidx_spark.rewrite(spark, str(directory), sort_by="id")
    assert statuses(done) == {"fresh": 2}
    assert rows(directory) == list(range(2 * FILES * ROWS))
    assert len(files(directory)) == 2


def test_old_files_are_kept_for_queries_that_run(spark, directory, monkeypatch):
    path = str(directory)
    orcidx_spark.build_file_index(spark, path, {"bitmap": {"city": {}}})
    old = files(directory)
    running = orcidx.scan(directory).to_batches()
    listed = spark.read.orc(path)  # lists the files now; ``count`` reads them later
    first = next(running).num_rows
    written_anew = directory / old[0]
    done = orcidx_spark.rewrite(spark, path, sort_by="id", keep_old=3600)
    assert statuses(done) == {"rewritten": 2}
    assert set(old) < set(files(directory))
    assert first + sum(batch.num_rows for batch in running) == listed.count() == 2 * FILES * ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # no warning, because old files are kept on purpose
        assert rows(directory) == list(range(2 * FILES * ROWS))
        assert orcidx_spark.read(spark, path).count() == 2 * FILES * ROWS
    (told,) = orcidx_spark.describe(None, path).rewrites
    assert "keeps the files that it replaced until 2" in told
    assert "other readers see rows of old and new files" in str(orcidx_spark.describe(None, path))
    with pytest.raises(StorageError, match=r"8 replaced files are kept .* for 3\d{3} s more"):
        orcidx_spark.rewrite(spark, path, sort_by="id")
    (sentence,) = orcidx_spark.recover(None, path)
    assert "8 replaced files are kept" in sentence
    assert set(old) < set(files(directory))
    orc.write_table(pa.table({"id": [2 * FILES * ROWS], "city": ["new"]}), written_anew)  # a new file with an old name
    now = time.time()
    monkeypatch.setattr(swaps.time, "time", lambda: now + 3601)
    with pytest.warns(RuntimeWarning, match=r"7 files are left out.*orcidx\.spark\.recover"):
        assert len(rows(directory)) == 2 * FILES * ROWS + 1
    (sentence,) = orcidx_spark.recover(None, path)
    assert "the rewrite was completed; 2 files replace 8" in sentence
    assert set(old) & set(files(directory)) == {old[0]}
    assert rows(directory) == list(range(2 * FILES * ROWS + 1))
    assert orcidx_spark.describe(None, path).rewrites == ()
    assert statuses(orcidx_spark.rewrite(spark, path, sort_by="id", dry_run=True)) == {"fresh": 2, "planned": 1}


def test_a_call_that_is_killed_before_the_swap_leaves_the_old_files(spark, directory, monkeypatch):
    before = files(directory)

    def die(self: Any, *given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(swaps.Swaps, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            orcidx_spark.rewrite(spark, str(directory), sort_by="id")
    visible = [name for name in files(directory) if not Path(name).name.startswith(".")]
    assert visible == before
    assert statuses(orcidx_spark.rewrite(spark, str(directory), sort_by="id")) == {"rewritten": 2}
    assert rows(directory) == list(range(2 * FILES * ROWS))
    assert not list(directory.rglob(".rewritten*"))


def test_a_damaged_file_stops_the_job(spark, directory):
    bad = directory / files(directory)[0]
    bad.write_bytes(bad.read_bytes()[:-30])
    before = files(directory)
    with pytest.raises(CorruptFile, match=bad.name):
        orcidx_spark.rewrite(spark, str(directory), sort_by="id")
    assert files(directory) == before


def test_files_that_change_meanwhile_stay(spark, directory, monkeypatch):
    right = swaps.Swaps.commit
    changed = directory / "k=0" / "0.orc"

    def commit(self: Any, *given: Any) -> Any:
        orc.write_table(pa.table({"id": [-1], "city": ["new"]}), changed)
        return right(self, *given)

    monkeypatch.setattr(swaps.Swaps, "commit", commit)
    done = collected(orcidx_spark.rewrite(spark, str(directory), sort_by="id"))
    assert sorted(done["status"].to_pylist()) == ["changed", "rewritten"]
    assert -1 in rows(directory)
    assert len(files(directory)) == FILES + 1


@pytest.mark.slow
def test_only_merging_leaves_single_files(spark, directory):
    os.remove(directory / "k=1" / "1.orc")
    for number in (3, 5):
        os.remove(directory / "k=1" / f"{number}.orc")
    done = collected(orcidx_spark.rewrite(spark, str(directory)))
    assert sorted(zip(done["status"].to_pylist(), done["way"].to_pylist())) == [("fresh", None), ("rewritten", "copy")]
    assert (directory / "k=1" / "7.orc").exists()


def test_wrong_calls(spark, directory):
    for wrong in (-1, float("nan"), 1e12, datetime.timedelta(days=-1)):
        with pytest.raises(InvalidQuery, match="keep_old"):
            orcidx_spark.rewrite(spark, str(directory), keep_old=wrong)
    with pytest.raises(InvalidQuery, match="give only one of them"):
        orcidx_spark.rewrite(spark, str(directory), sort_by="id", cluster_by=["id"])
    with pytest.raises(InvalidQuery, match="is a file"):
        orcidx_spark.rewrite(spark, str(directory / files(directory)[0]), sort_by="id")
    with pytest.raises(InvalidQuery, match="no column 'idd'"):
        orcidx_spark.rewrite(spark, str(directory), sort_by="idd")
    assert len(files(directory)) == 2 * FILES


@pytest.mark.slow
def test_in_an_object_store(spark, monkeypatch):
    """Files that tasks write after the driver listed the directory are found. If the swap is killed, no row is missing,
    and the next call completes the swap."""
    s3_server = pytest.importorskip("s3_server")
    with s3_server.s3_bucket("rewrites") as (options, _):
        root = "s3://rewrites/data"
        ids = np.random.default_rng(1).permutation(4000)
        for number in range(4):
            part = pa.table({"id": ids[number * 1000 : number * 1000 + 1000]})
            orcidx.write_table(part, f"{root}/k={number % 2}/{number}.orc", storage_options=options)

        def rewrite() -> Any:
            return orcidx_spark.rewrite(spark, root, sort_by="id", storage_options=options)

        def found() -> list[int]:
            return orcidx.scan(root, storage_options=options).to_table()["id"].to_pylist()

        def names() -> list[str]:
            every = s3fs.S3FileSystem(**options, use_listings_cache=False).find("rewrites/data")
            return [name for name in every if name.endswith(".orc")]

        s3fs = pytest.importorskip("s3fs")
        right = swaps._rename

        def die(staged: Any, final: Any) -> None:
            right(staged, final)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(swaps, "_rename", die)
            with pytest.raises(KeyboardInterrupt):
                rewrite()
        with pytest.warns(RuntimeWarning, match="2 files are left out"):
            assert sorted(found()) == list(range(4000)), "each row once"
        with pytest.warns(RuntimeWarning, match="2 files are left out"):
            assert orcidx_spark.read(spark, root, storage_options=options).count() == 4000
        assert statuses(rewrite()) == {"fresh": 2}
        assert sorted(found()) == list(range(4000))
        assert len(names()) == 2
        for name in names():
            held = orcidx.open(f"s3://{name}", storage_options=options).read()["id"].to_pylist()
            assert held == sorted(held)
