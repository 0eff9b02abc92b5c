"""``where_in``: how the keys of a DataFrame are taken."""

from __future__ import annotations

from typing import Any

from orcidx.spark.key_frames import keys_of


def test_keys_of_a_small_frame_are_taken_by_one_stage(spark: Any) -> None:
    local = spark.sql("SELECT * FROM VALUES (5L), (7L), (5L), (null) AS t(user)")
    cached = local.union(local).selectExpr("user + 0 AS user").cache()
    cached.count()
    tracker = spark.sparkContext.statusTracker()

    def stages(group: str, small: Any) -> int:
        spark.sparkContext.setJobGroup(group, "")
        (keys,) = keys_of({"id": small}, spark.range(1), case_sensitive=True)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        assert sorted(keys.values.to_pylist()) == [5, 7]
        return sum(len(tracker.getJobInfo(job).stageIds) for job in tracker.getJobIdsForGroup(group))

    assert stages("local", local) <= 1
    assert stages("cached", cached) == 1
    assert stages("a range", spark.range(5, 8, 2, 3).where("id > 4")) == 1
    guessed = spark.range(100).selectExpr("explode(array(5L, 7L)) AS user")  # how many rows, only the job tells
    assert stages("exploded", guessed) > 1
    cached.unpersist()
