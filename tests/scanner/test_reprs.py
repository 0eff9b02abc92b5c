"""The text that a notebook or prompt shows for files, scans, tables and statistics is short. Special characters in
their contents are escaped."""

from __future__ import annotations

import pyarrow as pa
import pytest
from goldens import FIXTURES
from paimon_empty import empty_table

import orcidx
from orcidx import col, paimon
from orcidx.cli import main


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


def test_one_is_no_plural(path, capsys):
    """Texts must use the singular for one stripe or one file, because most files have one stripe."""
    with orcidx.open(path) as file:
        assert "10 rows in 1 stripe, " in repr(file)
    assert repr(orcidx.dataset(path)) == "<OrcDataset of 1 file>"
    assert repr(orcidx.dataset(path).scanner()) == "<OrcScanner of 1 file>"
    assert repr(orcidx.dataset([path] * 2)) == "<OrcDataset of 2 files>"
    with pytest.raises(SystemExit) as exit:
        main(["check", str(path)])
    assert not exit.value.code
    assert "ok; 10 rows in 1 stripe and 1 row group\n" in capsys.readouterr().out


def test_reprs_of_tables_have_no_bytes_of_indexes(tmp_path):
    """The repr of a file does not show the bytes of its embedded index. The repr of a plan or scan does not show all
    files."""
    folder = empty_table(tmp_path / "t", file_index__in_manifest_threshold="1 mb")
    for start in (0, 4000):
        rows = pa.table({"id": range(start, start + 4000), "city": [f"city {i}" for i in range(4000)]})
        paimon.open_table(folder).append(rows)
    changed = paimon.open_table(folder).rewrite_file_index(spec={"bitmap": {"city": {}}})
    table = paimon.open_table(folder)
    scan = table.scan(where=col("id").is_in(range(5000)))
    assert len(table.files()[0].embedded_index) > 10_000
    shown = [repr(one) for one in (table.files()[0], scan.plan.tasks[0], scan.plan, scan, changed)]
    assert max(map(len, shown)) < 700, shown
    assert "4,000 rows" in shown[0]
    assert "a file index" in shown[0]
    assert "2 done" in shown[4]


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
