"""How ``where_in`` collects the keys of a DataFrame."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx
from orcidx.spark.conditions import key_frames
from orcidx.spark.conditions.key_frames import keys_of


def taken(spark: Any, group: str, small: Any) -> tuple[list[Any], int]:
    """Collects the keys of ``small``. Returns them, and the number of stages of the jobs that collected them."""
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup(group, "")
    relation = spark.createDataFrame([], small.schema).toDF("id")
    (keys,) = keys_of({"id": small}, relation, case_sensitive=True)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]
    return sorted(keys.values.to_pylist()), len(stages)


def test_keys_of_a_small_frame_are_taken_by_one_stage(spark: Any) -> None:
    local = spark.sql("SELECT * FROM VALUES (5L), (7L), (5L), (null) AS t(user)")
    cached = local.union(local).selectExpr("user + 0 AS user").cache()
    cached.count()

    def stages(group: str, small: Any) -> int:
        keys, found = taken(spark, group, small)
        assert keys == [5, 7]
        return found

    assert stages("local", local) <= 1
    assert stages("cached", cached) == 1
    assert stages("a range", spark.range(5, 8, 2, 3).where("id > 4")) == 1
    # For this frame, the number of rows is known only after the job.
    guessed = spark.range(100).selectExpr("explode(array(5L, 7L)) AS user")
    assert stages("exploded", guessed) > 1
    cached.unpersist()
    assert stages("a checkpoint", local.localCheckpoint()) == 1


def test_keys_of_files_and_of_python_lists_are_taken_without_a_shuffle(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are collected in one stage. Spark's ``distinct`` would need two stages, and a shuffle between them."""
    listed = spark.createDataFrame([("b",), ("a",), (None,), ("a",), ("ü",)], "name string")
    assert taken(spark, "a list", listed) == (["a", "b", "ü"], 1)
    numbers = spark.sparkContext.parallelize(range(4000), 3).map(lambda one: (one % 10,)).toDF("n bigint")
    assert taken(spark, "an RDD", numbers.where("n > 4")) == ([5, 6, 7, 8, 9], 1)
    assert taken(spark, "an empty one", numbers.where("n > 40")) == ([], 1)
    numbers.repartition(3).write.orc(str(tmp_path / "keys"))
    assert taken(spark, "files", spark.read.orc(str(tmp_path / "keys"))) == (list(range(10)), 1)
    monkeypatch.setattr(key_frames, "MOST_KEYS", 9)  # a task has more keys than it may return
    keys, stages = taken(spark, "an RDD of many", numbers)
    assert (keys, stages > 2) == (list(range(10)), True)
    monkeypatch.setattr(key_frames, "SMALL_BYTES", 1)
    assert taken(spark, "large files", spark.read.orc(str(tmp_path / "keys")))[1] > 1


def test_days_that_python_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's dates end at the year 9999. Keys with later dates must not raise ``OverflowError``."""
    days = pa.array([1, 2_932_897, None, 2_932_898], pa.int32()).cast(pa.date32())
    keys = key_frames.Keys("d", days.take(pa.array([0, 1])))
    source = io.BytesIO()
    orcidx.write_table(pa.table({"d": days, "id": range(4)}), source)
    with orcidx.open(source.getvalue()) as file:
        assert file.read(["id"], keys.pruning)["id"].to_pylist() == [0, 1]
        monkeypatch.setattr(key_frames, "MOST_KEYS", 1)
        assert file.read(["id"], keys.pruning)["id"].to_pylist() == [0, 1]
