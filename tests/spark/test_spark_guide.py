"""Runs the code blocks of the pages about Spark, one after another, in a session."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from goldens import FIXTURES
from test_docs import PAGES, ROOT, WITH_SPARK

import orcidx.spark


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.stem)
def test_a_page_is_python_and_names_what_there_is(page: Path) -> None:
    """This is a quick check without Spark. Each code block must compile, and the page may only name existing
    functions."""
    for number, cell in enumerate(PAGES[page], 1):
        compile(cell, f"{page.name}, cell {number}", "exec")
    named = set(re.findall(r"orcidx_spark\.(\w+)", page.read_text()))
    assert {"read", "session", "explain", "build_file_index"} <= named <= {*orcidx.spark.__all__}


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.stem)
def test_a_page_runs_cell_by_cell(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    shutil.copytree(FIXTURES / "paimon/tables/db.db/append_dv32", tmp_path / "warehouse/db.db/orders")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = PAGES[page]
    assert len(cells) >= 7
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"{page.name}, cell {number}", "exec"), names)


@pytest.mark.slow
@pytest.mark.java
def test_the_front_page_indexes_a_directory_and_measures_the_difference(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orcidx import spark as orcidx_spark

    events = "id", "pmod(id * 7919, 100003) AS user", "element_at(array('Oslo', 'Rom'), int(id % 2) + 1) AS city"
    spark.range(0, 20_000, 1, 4).selectExpr(*events).write.orc(str(tmp_path / "events"))
    monkeypatch.chdir(tmp_path)
    before = orcidx_spark.explain(spark, str(tmp_path / "events"), where="user = 4242")
    (cell,) = PAGES[ROOT / "README.md"]
    exec(compile(cell.replace('"events/"', repr(str(tmp_path / "events"))), "README.md", "exec"), {"spark": spark})
    after = orcidx_spark.explain(spark, str(tmp_path / "events"), where="user = 4242")
    assert sum(one.skipped_files for one in before.alone if one.name.startswith("bloom")) == 0
    assert sum(one.skipped_files for one in after.alone if one.name.startswith("bloom")) > 0
