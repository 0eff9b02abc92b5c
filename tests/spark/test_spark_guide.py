"""The cells of docs/spark.md, one after another, in a session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from goldens import FIXTURES
from test_docs import PAGES
from test_docs import WITH_SPARK as GUIDE


@pytest.mark.java
def test_the_guide_runs_cell_by_cell(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FIXTURES / "paimon/tables/db.db/append_dv32", tmp_path / "warehouse/db.db/orders")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = PAGES[GUIDE]
    assert len(cells) >= 10
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"{GUIDE.name}, cell {number}", "exec"), names)
