"""Runs every job in separate executors, with tasks that die and tasks that run twice (``cluster_jobs``).

.ci/hadoop runs this test, because executors take long to start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from orcidx.spark.sessions.spark_session import java_problem

ROOT = Path(__file__).parents[2]


def run_cluster_jobs(place: str, scratch: Path, settings: Mapping[str, str] | None = None) -> None:
    """Runs the jobs in a process of their own. ``place`` is a directory or URL, and ``settings`` are settings of the
    session."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    given = json.dumps({"spark.local.dir": str(scratch / "local"), **(settings or {})})
    script = str(Path(__file__).with_name("cluster_jobs.py"))
    done = subprocess.run(
        [sys.executable, script, place, given],
        cwd=scratch,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    assert b"all jobs ran" in done.stdout


@pytest.mark.hadoop
@pytest.mark.java
@pytest.mark.timeout(1200)
def test_every_job_on_a_local_cluster(tmp_path: Path) -> None:
    if problem := java_problem():
        pytest.skip(problem)
    run_cluster_jobs(str(tmp_path), tmp_path)
