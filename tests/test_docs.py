"""Examples of the documentation marked ``<!-- runnable -->`` run, those of a page one after another, Python first."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from orcidx.cli import main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(r"<!-- runnable -->\n+```python\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"<!-- runnable -->\n+```sh\n(.*?)```", re.DOTALL)
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {page: EXAMPLE.findall(page.read_text()) for page in FILES}
WITH_SPARK = (ROOT / "docs/tutorials/spark.md", ROOT / "docs/guides/spark-lookups.md")
"""They need Java: ``spark/test_spark_guide.py`` runs them."""
COMMANDS = {page: "".join(SHELL.findall(page.read_text())).splitlines() for page in FILES}
RUNNABLE = [page for page, examples in PAGES.items() if examples and page not in WITH_SPARK]


@pytest.fixture
def example_files(tmp_path, monkeypatch):
    """The files that the examples name."""
    from orcidx import paimon

    events = pa.table({"id": range(100), "city": ["Oslo", "Rom"] * 50, "price": [float(i * 3) for i in range(100)]})
    for name in ("events.orc", "data-1.orc"):
        orc.write_table(events, tmp_path / name)
    orc.write_table(pa.table({"id": pa.array([3001], pa.int32()), "s": ["new"]}), tmp_path / "new-rows.orc")
    (tmp_path / "data-1.orc.index").write_bytes(paimon.build_file_index(events, {"bitmap": {"city": {}}}).to_bytes())
    paimon.write_deletion_vectors(tmp_path / "index-0", {"data-1.orc": paimon.DeletionVector([1, 5])})
    table = ROOT / "tests/fixtures/paimon/tables/db.db/append_dv32"
    shutil.copytree(table, tmp_path / "warehouse/db.db/orders")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_examples_run(page, example_files):
    names: dict[str, object] = {}
    for example in PAGES[page]:
        exec(compile(example, str(page), "exec"), names)
    for command in COMMANDS[page]:
        program, *words = shlex.split(command)
        assert program == "orcidx"
        with pytest.raises(SystemExit) as exit:
            main(words)
        assert not exit.value.code, command


def test_pages_with_examples_are_found():
    assert len(COMMANDS[ROOT / "docs/guides/paimon-tables.md"]) == 3
    assert all(page in RUNNABLE for page, commands in COMMANDS.items() if commands)
    assert {"first-file", "paimon-file-index", "paimon-deletion-vectors"} <= {page.stem for page in RUNNABLE}
