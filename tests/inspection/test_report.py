"""Tests the page of ``orcidx report``: its content, and whether it is legible for any number of row groups.

If Chromium is installed, a browser must show the page without an error at three widths, in light and in dark mode.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.cli import main
from orcidx.explain.model import RowGroupExplanation
from orcidx.explain.page import PAGE_STYLE
from orcidx.explain.pictures import MOST_CELLS, RangeBand, Tile, pruning_map, range_bands, treemap
from orcidx.explain.render import merged_notes
from orcidx.inspection.report import report_page
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason, last_evaluated
from orcidx.spellings import size_text
from orcidx.storage import list_sources

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (390, 1280, 1920)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(4)
    count = 20_000
    path = tmp_path_factory.mktemp("report") / "a.orc"
    table = pa.table(
        {
            "id": np.arange(count),
            "user": rng.integers(0, 10**6, count),
            "<city>": [f"city{i}" for i in rng.integers(0, 5_000, count)],
            "flag": rng.choice(["A", "N", "R"], count),
        }
    )
    orcidx.write_table(table, path, row_index_stride=200, stripe_size=60_000, bloom_filter_columns=["user"])
    return path


class Balanced(HTMLParser):
    """Fails unless every element that is opened is closed, in the right order."""

    VOID = ("meta", "br", "rect", "!doctype")

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def page_of(path, where=None, **named):
    page = report_page(orcidx.scan(path, where=where), list_sources(path), **named)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"(src|href)=|https?://|url\(", page), "it needs no other file"
    return page


def test_the_page_says_what_was_found(path):
    page = page_of(path, "user = 4242 or id between 3000 and 3100")
    for title in (
        "What the query reads",
        "Evidence that ruled rows out",
        "Pruning map",
        "Bytes by column",
        "How sorted",
    ):
        assert title in page
    for title in ("Each index alone", "Time"):
        assert title in page
    assert "a bloom filter" in page  # the filter ruled out row groups that the statistics of `user` could not rule out
    assert "&lt;city&gt;" in page
    assert "<city>" not in page
    assert page.count("class='band'") == 4
    assert "statistics only" in page


@pytest.mark.parametrize(
    ("where", "advice"),
    [
        (None, "Give a condition"),
        ("user > 3", "orcidx rewrite IN OUT --sort-by user"),
        ("`<city>` = 'city3'", "bloom_filter_columns="),
        ("id = -3", "but the scan reads "),  # the file is so small that it is read completely
        ("id + 0 = id", "no index can be used"),
    ],
)
def test_advice(path, where, advice):
    assert advice in page_of(path, where, run=False)


def test_no_bloom_filter_is_advised_for_a_column_of_few_values(path):
    assert "bloom_filter_columns=" not in page_of(path, "flag = 'R'", run=False)


def test_no_bloom_filter_is_advised_if_statistics_are_enough(path):
    """The rows are sorted by ``id``. Bloom filters would rule out no more row groups, but would be read."""
    page = page_of(path, "id = 7777", run=False)
    assert "bloom_filter_columns=" not in page
    page = page_of(path, "id = 7777 and user > 3 and `<city>` = 'city3' and flag >= 'A'", run=False)
    assert "bloom_filter_columns=[&#x27;id&#x27;]" not in page


def test_indexes_of_a_large_file_are_effective(tmp_path):
    path = tmp_path / "a.orc"
    table = pa.table({"id": np.random.default_rng(1).permutation(200_000)})
    orcidx.write_table(table, path, compression="uncompressed", stripe_size=100_000)
    assert "so the indexes are effective" in page_of(path, "id = -3", run=False)


def test_indexes_are_not_praised_if_all_bytes_are_read(tmp_path):
    """If the scan reads all bytes of the files, the page must not say that the indexes are effective. Earlier, the page
    said that the query reads 0 bytes, and also that the scan reads all files."""
    for number in range(3):
        table = pa.table({"id": np.arange(1000) * 3 + number})
        orcidx.write_table(table, tmp_path / f"{number}.orc", compression="uncompressed", bloom_filter_columns=["id"])
    forget_metadata()
    told = orcidx.scan(tmp_path, where="id = 4").explain()
    page = page_of(tmp_path, "id = 1000000", run=False)
    assert "the indexes are effective" not in page
    assert "but the scan reads " in page
    assert "plans 0 B of " in page
    assert "reads 0 B of" not in page
    page = page_of(tmp_path, "id = 4")
    read = size_text(told.read_bytes)
    assert f"the scan reads about {read}, " in page
    assert f"{read} in " in page[page.index("bytes read") :]


def test_alone_each_index_leaves_at_least_what_all_leave(path):
    page = page_of(path, "user = 4242 or id between 3000 and 3100")
    table = page[page.index("Each index alone") :]
    left = [int(text.replace(",", "")) for text in re.findall(r"<td class=n>([\d,]+)</td>", table)[:4]]
    assert left[0] == 20_000
    assert left[3] == min(left) < left[1]


def test_several_files_and_none_read(path, tmp_path):
    for name in ("a.orc", "b.orc"):
        shutil.copy(path, tmp_path / name)
    (tmp_path / "empty.orc").write_bytes(b"")
    page = page_of(tmp_path, "id < 0", run=False)
    assert "3 files" in page
    assert "kept" not in re.findall(r"<ul class='legend'>.*?</ul>", page)[0]


@pytest.mark.parametrize("count", [1, 1_000, 100_000])
def test_a_map_stays_legible(count):
    groups = tuple(
        RowGroupExplanation(i, i, 1, i % 7 == 0, 0, () if i % 7 == 0 else (Reason("bloom filter", "a == 1", "no"),))
        for i in range(count)
    )
    explanation = orcidx.Explanation(None, ("a",), (file_of(groups),))
    drawn = pruning_map(explanation)
    assert 0 < drawn.count("<i class='c-") <= MOST_CELLS + 20
    assert f"<b>{-(-count // 7):,}</b>" in drawn
    bands = range_bands([RangeBand("a", "ascending", [(i / count, (i + 1) / count) for i in range(count)])])
    assert bands.count("<rect") <= 250


def file_of(groups):
    from orcidx.explain.model import FileExplanation, StripeExplanation

    kept = sum(group.kept_rows for group in groups)
    stripe = StripeExplanation(0, 0, len(groups), kept, 10, 5, groups)
    return FileExplanation("a.orc", len(groups), (stripe,))


def test_under_or_the_finest_evidence_is_credited():
    reasons = (Reason("bloom filter", "a == 1", "no"), Reason("stripe statistics", "b == 1", "no"))
    drawn = pruning_map(orcidx.Explanation(None, ("a",), (file_of((RowGroupExplanation(0, 0, 9, 0, 0, reasons),)),)))
    assert "skipped by a bloom filter" in drawn
    assert "class='c-b'" in drawn


def test_who_decided_is_found_once_for_row_groups_alike(monkeypatch):
    asked = []
    for module in ("model", "render"):
        monkeypatch.setattr(
            f"orcidx.explain.{module}.last_evaluated", lambda all_: asked.append(1) or last_evaluated(all_)
        )
    reasons = [(Reason("bloom filter", "a == 1", f"{i}"), Reason("dictionary", "b == 1", f"{i}")) for i in range(500)]
    groups = tuple(RowGroupExplanation(i, i, 1, 0, 0, told) for i, told in enumerate(reasons))
    explanation = orcidx.Explanation(None, ("a",), (file_of(groups),))
    assert "row group" in str(explanation)
    assert explanation.skipped_by == {"dictionary": 500}
    assert len(asked) == 2  # one call for the text and one for the counts, not one for each row group


def test_tiles_fill_the_treemap():
    tiles = [Tile(f"c{i}", 1 + i * i, "", (("data", i * i), ("index", 1))) for i in range(200)]
    drawn = treemap(tiles)
    places = re.findall(r"class='tile' style='left:(.*?)%;top:(.*?)%;width:(.*?)%;height:(.*?)%'", drawn)
    assert "smaller columns" in drawn
    assert sum(float(width) * float(height) for _, _, width, height in places) == pytest.approx(10_000, rel=1e-3)
    assert all(float(left) + float(width) < 100.01 for left, _, width, _ in places)


def test_the_command(path, tmp_path, capsys):
    with pytest.raises(SystemExit) as done:
        main(["report", str(path), "--where", "id = 3 or (user = 7 and id < 9)", "-o", str(tmp_path / "page.html")])
    assert not done.value.code
    assert "page.html" in capsys.readouterr().out
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<code>id = 3 or (user = 7 and id &lt; 9)</code>" in text, "as it was typed"


def test_words_on_the_treemap_stand_out():
    """The words are white in light mode and in dark mode, so they need dark colours behind them."""
    colours = re.findall(r"--t-\w+:#(\w{6})", PAGE_STYLE)
    assert len(colours) == 10
    for colour in colours:
        shares = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
        luminance = sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear))
        assert 1.05 / (luminance + 0.05) >= 3, colour


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium here (Debian: chromium)")
def test_a_browser_shows_it(path, tmp_path):
    """At three widths, in light and dark mode, no text is cut off at the right, and there are no errors."""
    assert CHROMIUM is not None
    page = page_of(path, "user = 4242 or id between 3000 and 3100")
    inner = page.replace("&", "&amp;").replace('"', "&quot;")
    script = (
        "<script>addEventListener('load',()=>{let o=[];for(const f of document.querySelectorAll('iframe')){"
        "const d=f.contentDocument.documentElement,b=getComputedStyle(d.querySelector('body')).backgroundColor;"
        "o.push(f.width+':'+d.scrollWidth+':'+d.querySelectorAll('section').length+':'+b)}"
        "document.title=o.join('|')})</script>"
    )
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{inner}"></iframe>' for width in WIDTHS)
    Path(tmp_path, "frames.html").write_text(f"<!doctype html><title>-</title>{script}{frames}")
    seen = []
    for scheme in ("1", "0"):  # light, dark
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        command += [f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=5000", "--dump-dom"]
        found = subprocess.run(
            [*command, (tmp_path / "frames.html").as_uri()], capture_output=True, text=True, timeout=200
        )
        title = re.search(r"<title>(.*?)</title>", found.stdout).group(1)
        measured = [line.split(":") for line in title.split("|")]
        assert [int(width) for width, *_ in measured] == list(WIDTHS)
        for width, scrolled, sections, colour in measured:
            assert int(scrolled) <= int(width), f"at {width} pixels the page is {scrolled} wide"
            assert int(sections) >= 7
            seen.append(colour)
    assert len(set(seen)) == 2, "light and dark"


def test_a_hundred_thousand_row_groups_are_told_one_by_one(tmp_path):
    """The explanation counts each row group, even if a stripe has very many of them."""
    path = tmp_path / "many.orc"
    noise = np.random.default_rng(1).random((2, 250_000))
    orcidx.write_table(
        pa.table({"id": np.arange(250_000) * 7919, "a": noise[0], "b": noise[1]}), path, row_index_stride=10
    )
    explained = orcidx.scan(path, where="id < 791900").explain()
    groups = explained.funnel[2]
    assert (groups.name, groups.before, groups.after) == ("row groups", 25_000, 10)


def test_row_groups_that_are_not_told_one_by_one_are_counted(tmp_path, monkeypatch):
    """If a file has very many row groups, all row groups of a stripe may count as one. A note must then say so."""
    monkeypatch.setattr("orcidx.scanner.explaining._most_groups", lambda size: 60)
    path = tmp_path / "many.orc"
    with orcidx.OrcWriter(path, pa.schema({"id": pa.int64()}), row_index_stride=10) as writer:
        for stripe in range(4):
            writer.write(pa.table({"id": np.arange(500) + 500 * stripe}))
            writer.end_stripe()
    for where in (None, "id < 600", "id < 0"):
        explained = orcidx.scan(path, where=where).explain()
        assert explained.funnel[2].before == 53, "50 row groups of one stripe, and one for each other stripe"
        (note,) = explained.notes
        told = "150 row groups of 3 stripes are not shown one by one: each stripe counts as one row group"
        assert note.source == "row groups"
        shown = (str(explained), explained.to_html(), json.dumps(explained.to_dict()), page_of(path, where))
        assert [told in page for page in shown] == [True] * 4, where
    monkeypatch.undo()
    assert not orcidx.scan(path, where="id < 600").explain().notes


def test_numbers_of_pictures_read_well(tmp_path):
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"id": np.tile(np.arange(10), 2500)}), path, row_index_stride=10)
    page = page_of(path, "id = 3")
    assert "overlap depth 2,500 of 2,500" in page
    assert "id 2,500 of 2,500, at most 2,500" in re.sub(" +", " ", page)
    assert "<i class='t-data'></i>values" in page
    assert "--own:none" not in page  # this rule would remove the colours of the legend
    assert "<b>1</b><span>stripe</span>" in page


def test_the_headline_counts_all_files(tmp_path, monkeypatch):
    """The headline must count all files, although only the first files are opened for the report."""
    monkeypatch.setattr("orcidx.inspection.report.MOST_LOOKED_INTO", 3)
    for number in range(7):
        orcidx.write_table(pa.table({"id": range(10)}), tmp_path / f"{number}.orc")
    files = sorted(tmp_path.iterdir())
    page = report_page(orcidx.scan(tmp_path), list_sources(tmp_path))
    size = sum(file.stat().st_size for file in files)
    assert "<b>70</b><span>rows</span>" in page
    assert "<b>7</b><span>stripes</span>" in page
    assert f"<b>{size_text(size)}</b><span>stored</span>" in page
    assert "This shows the first 3 of 7 files." in page


def test_notes_that_differ_in_a_number_are_one_line():
    """Notes of 20 stripes that differ only in a number are merged into one line."""
    notes = [Note("bloom filter", "off", f"its {81_000 + i} bytes are too many", "user", i) for i in range(20)]
    (line,) = merged_notes(notes)
    assert (
        line
        == "off: bloom filter of user: its 81000 bytes are too many (20 stripes; the number is for the first stripe)"
    )
    same = [Note("bloom filter", "off", "its 5 bytes are too many", "user", i) for i in range(2)]
    assert merged_notes(same) == ["off: bloom filter of user: its 5 bytes are too many (2 stripes)"]


def test_one_row_group_is_in_no_order(tmp_path):
    """With a single row group, the page must not show how sorted the columns are. It must not have bars of width 0."""
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"id": np.arange(100)}), path)
    page = page_of(path, "id > 1000")
    assert "How sorted the columns are" not in page
    assert "width:0%" not in page
    assert "A cell is a row group." in page
