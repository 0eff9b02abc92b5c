"""The archive of orcidx: its content, and an executor that can import orcidx only from the archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx.errors import Unsupported
from orcidx.spark import pack
from orcidx.spark.sessions.spark_session import java_problem

JOB = """
import sys
sys.path[0] = sys.argv[1]  # orcidx for the driver only
import pyspark
from pyspark.sql import SparkSession
from orcidx.spark import read

archive, data, master = sys.argv[2:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.archives", archive + "#orcidx_env")
    .config("spark.executorEnv.PYTHONPATH", "orcidx_env")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m")
    .getOrCreate()
)

def where_from(batches):
    import orcidx, pyarrow
    list(batches)
    yield pyarrow.RecordBatch.from_pydict({"file": [orcidx.__file__]})

homes = {row.file for row in spark.range(2).mapInArrow(where_from, "file string").collect()}
print("orcidx from", homes)
assert all("orcidx_env" in home for home in homes), homes
assert sorted(row.i for row in read(spark, data, where="i > 7", engine="orcidx").collect()) == [8, 9]
print("ok")
spark.stop()
"""


def test_the_archive_has_orcidx_and_what_it_requires(tmp_path: Path) -> None:
    with tarfile.open(pack(tmp_path / "orcidx.tar.gz")) as archive:
        names = archive.getnames()
    tops = {name.partition("/")[0] for name in names}
    assert {"orcidx", "pyroaring", "fsspec", "sqlglot", "click"} <= {name.partition(".")[0] for name in tops}
    assert not tops & {"numpy", "pyarrow", "pandas", "pyspark"}
    assert any(name.startswith("orcidx/orc/wire.") and name.endswith((".so", ".pyd")) for name in names)
    assert not [name for name in names if name.endswith((".c", ".pyx", ".pyc")) or ".." in name]
    with pytest.raises(Unsupported, match="not installed"):
        pack(tmp_path / "more.tar.gz", also=("no-such-package",))


@pytest.mark.slow
@pytest.mark.java
def test_executors_have_orcidx_from_the_archive(tmp_path: Path) -> None:
    """The cluster has one executor, in a process of its own. The executor's working directory has the unpacked
    archive."""
    if problem := java_problem():
        pytest.skip(problem)
    import pyspark

    archive = pack(tmp_path / "orcidx.tar.gz")
    (tmp_path / "data").mkdir()
    orc.write_table(pa.table({"i": range(10)}), tmp_path / "data" / "a.orc")
    environment: dict[str, Any] = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_LOCAL_DIRS": str(tmp_path / "local"), "SPARK_WORKER_DIR": str(tmp_path / "worker")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
    script = tmp_path / "job.py"
    script.write_text(JOB)
    source = str(Path(orcidx.__file__).parent.parent)
    command = [sys.executable, str(script), source, str(archive), str(tmp_path / "data"), "local-cluster[1,1,1024]"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240
    )
    assert done.stdout.endswith("ok\n"), done.stdout + done.stderr
