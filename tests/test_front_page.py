"""A reader who has only README.md can carry out each of its steps.

``test_docs`` runs the Python blocks, and ``spark/test_spark_guide.py`` those about Spark. This module runs the commands
in their order, and checks the claims of the page.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

import orcidx
from orcidx.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
RECORDS = (ROOT / "benchmarks" / "RECORDS.md").read_text()
TEN_MINUTES = README[README.index("## In ten minutes") : README.index("## Beside others")]
COMMANDS = [
    line.split(" #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", TEN_MINUTES, re.DOTALL)
    for line in block.splitlines()
]


def test_the_commands_work_one_after_the_other(tmp_path, monkeypatch, capsys):
    events = {"id": range(100), "city": ["Oslo", "Rom"] * 50, "price": [float(i * 37 % 300) for i in range(100)]}
    orcidx.write_table(pa.table(events), tmp_path / "events.orc")
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 6
    for command in COMMANDS:
        name, *words = shlex.split(command)
        assert name == "orcidx"
        with pytest.raises(SystemExit) as done:
            main(words)
        assert not done.value.code, command
        assert capsys.readouterr().out
    assert "Pruning map" in (tmp_path / "page.html").read_text()
    again = orcidx.read_table("again.orc")
    assert again["price"].to_pylist() == sorted(events["price"])
    with orcidx.open("again.orc") as file:
        assert file.statistics_table("row_group").num_rows
        assert any(column.bloom_filters for column in orcidx_sizes(file))


def orcidx_sizes(file):
    from orcidx.inspection.sizes import file_sizes

    return file_sizes(file.reader).columns


def test_every_file_that_the_page_names_is_there():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 12
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


@pytest.mark.parametrize("figure", ["2.62", "| 17.8 | 14.1 | 82.6 | 1849 | 2026 |"])
def test_figures_are_those_of_the_records(figure):
    assert figure in RECORDS


def test_the_picture_is_one_file():
    picture = (ROOT / "docs" / "pruning-map.svg").read_text()
    assert picture.startswith("<svg ")
    assert "href" not in picture
    assert picture.count("<rect") > 600


def test_links_of_all_pages_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            place = (page.parent / target).resolve() if target else page
            if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
