"""pypaimon 2.1, in an environment of its own, reads tables that orcidx changed, and appends to them.

ORCIDX_PYPAIMON names the Python of that environment: python -m venv E && E/bin/pip install pypaimon==2.1.0
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from paimon_empty import empty_table
from paimon_invariants import check_table

from orcidx.paimon import open_table
from orcidx.predicate import col

PYTHON = os.environ.get("ORCIDX_PYPAIMON")
READ = """
import json, sys
from pypaimon import CatalogFactory
table = CatalogFactory.create({"warehouse": sys.argv[1]}).get_table("db.t")
if len(sys.argv) > 2:
    import pyarrow as pa
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.table({"id": pa.array([5000], pa.int64()), "city": ["new"]}))
    commit.commit(write.prepare_commit())
builder = table.new_read_builder()
found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
where = builder.new_predicate_builder().equal("city", "city 7")
chosen = table.new_read_builder().with_filter(where)
some = chosen.new_read().to_arrow(chosen.new_scan().plan().splits())
print(json.dumps([sorted(found["id"].to_pylist()), sorted(some["id"].to_pylist())]))
"""


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": [f"city {i % 40}" for i in numbers]})


@pytest.mark.pypaimon
@pytest.mark.skipif(PYTHON is None, reason="ORCIDX_PYPAIMON names no Python with pypaimon")
def test_pypaimon_reads_and_appends(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "db.db" / "t")

    def ask(*words: str) -> tuple[list[int], list[int]]:
        call = [str(PYTHON), "-c", READ, str(tmp_path), *words]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        every, some = json.loads(done.stdout.splitlines()[-1])
        return every, some

    open_table(folder).append(rows(0, 1000))
    open_table(folder).append(rows(1000, 500))
    open_table(folder).delete(col("id").between(100, 300))
    open_table(folder).rewrite_file_index(spec={"bitmap": {"city": {}}})
    expected = [i for i in range(1500) if not 100 <= i <= 300]
    assert ask() == (expected, [i for i in expected if i % 40 == 7])
    assert ask("append") == ([*expected, 5000], [i for i in expected if i % 40 == 7])
    assert open_table(folder).delete(col("id") >= 1400).rows == 101
    check_table(folder)
    assert ask()[0] == [i for i in expected if i < 1400]
