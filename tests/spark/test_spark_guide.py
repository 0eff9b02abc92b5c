"""The cells of the pages about Spark, one after another, in a session."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from goldens import FIXTURES
from test_docs import PAGES, WITH_SPARK

import orcidx.spark


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.stem)
def test_a_page_is_python_and_names_what_there_is(page: Path) -> None:
    """The small twin of the test below."""
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
