"""What a notebook and a prompt show of files, scans, tables and statistics: short, and safe against their contents."""

from __future__ import annotations

import pyarrow as pa
import pytest
from goldens import FIXTURES

import orcidx
from orcidx import col, paimon


@pytest.fixture
def path(tmp_path):
    orcidx.write_table(pa.table({"<b>id": range(10), "s": ["x" * 500] * 10}), tmp_path / "a.orc")
    return tmp_path / "a.orc"


def test_reprs_are_short(path):
    scan = orcidx.scan([path] * 500, where=col("<b>id").is_in(range(10_000)), columns=["<b>id"])
    with orcidx.open(path) as file:
        statistics = file.statistics("s")
        shown = [repr(file), repr(statistics), repr(scan)]
    assert max(map(len, shown)) < 600
    assert "rows" in shown[0]
    assert "count=10" in shown[1]
    assert "None" not in shown[1]
    assert "500 files" in shown[2]


def test_notebooks_show_tables(path):
    scan = orcidx.scan([path] * 500, where=col("<b>id") > 3)
    with orcidx.open(path) as file:
        shown = [file._repr_html_(), file.statistics("<b>id")._repr_html_(), scan._repr_html_()]
    table = paimon.open_table(FIXTURES / "paimon/tables/db.db/append_dv32")
    shown.append(table._repr_html_())
    for html in shown:
        assert "<table>" in html
        assert "<b>id" not in html
    assert "&lt;b&gt;id" in shown[0]
    assert "and 300 more" in shown[2]
    assert "snapshot" in shown[3]
