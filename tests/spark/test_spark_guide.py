"""The cells of docs/spark.md, one after another, in a session."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from goldens import FIXTURES
from test_docs import PAGES
from test_docs import WITH_SPARK as GUIDE

import orcidx.spark


def test_the_guide_is_python_and_names_what_there_is() -> None:
    """The small twin of the test below."""
    cells = PAGES[GUIDE]
    for number, cell in enumerate(cells, 1):
        compile(cell, f"{GUIDE.name}, cell {number}", "exec")
    named = set(re.findall(r"orcidx_spark\.(\w+)", GUIDE.read_text()))
    assert {"read", "register", "session", "pack"} <= named <= {*orcidx.spark.__all__}


@pytest.mark.slow
@pytest.mark.java
def test_the_guide_runs_cell_by_cell(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FIXTURES / "paimon/tables/db.db/append_dv32", tmp_path / "warehouse/db.db/orders")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = PAGES[GUIDE]
    assert len(cells) >= 10
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"{GUIDE.name}, cell {number}", "exec"), names)
