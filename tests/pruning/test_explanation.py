"""Explanations: the numbers of the funnel, the reasons for every row group, and their form in text, HTML and JSON."""

from __future__ import annotations

import io
import json
import pickle
import re
from dataclasses import asdict
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.errors import CorruptFile
from orcidx.explain.explanation import Explanation
from orcidx.explain.model import FileExplanation, StripeExplanation, explain_row_groups
from orcidx.explain.render import explanation_html, explanation_text, pruning_map_svg
from orcidx.planner import bloom_choice
from orcidx.predicate import bind, col
from orcidx.pruning.evaluate import evaluate
from orcidx.pruning.findings import Finding, Note
from orcidx.pruning.reasons import Reason
from orcidx.pruning.selection import RowSelection

ROWS, STRIDE = 1000, 100
BOUNDS = np.arange(0, ROWS + 1, STRIDE)
SCHEMA = pa.schema([("price", pa.int64()), ("city", pa.string())])


def text_of(rows):
    return [f"max {row}" for row in rows]


def absent(rows):
    return ["the filter does not contain the value" for _ in rows]


class Fixed:
    """Evidence with a fixed result for every condition on one column: ``may`` has the rows that may match, and ``must``
    the rows that certainly match."""

    def __init__(self, name, column, may, must=(), describe=text_of, notes=()):
        self.name, self.column, self.describe, self.notes = name, column, describe, notes
        self.may, self.must = (RowSelection.from_runs(runs, ROWS) for runs in (may, must))

    def test(self, leaf, alive):
        return Finding(self.may, self.must, self.name, self.describe) if leaf.column == self.column else None


WHERE = (col("price") > 100) & (col("city") == "<Oslo & Rom>")
NOTE = Note("bloom filter", "distrusted", "written by ORC C++ 1.6.0 (ORC-1024)", "city", 0)


def stripe(number, evidence, *, span=None, where=WHERE):
    root = bind(where, SCHEMA).root
    outcome = evaluate(root, evidence, RowSelection.all(ROWS) if span is None else span)
    groups = explain_row_groups(BOUNDS, first_row=number * ROWS, may=outcome.may, must=outcome.must, outcome=outcome)
    share = outcome.may.count * 10
    return StripeExplanation(number, number * ROWS, ROWS, outcome.may.count, ROWS * 10, share, groups, outcome.notes)


@pytest.fixture
def explanation():
    statistics = Fixed("row-group statistics", "price", [(200, 450)])
    bloom = Fixed("bloom filter", "city", [(300, 1000)], describe=absent, notes=[NOTE])
    nothing = Fixed("stripe statistics", "price", [])
    proved = [Fixed("row-group statistics", name, [(0, 100)], [(0, 100)]) for name in ("price", "city")]
    first = stripe(0, [statistics, bloom], span=RowSelection.from_runs([(0, 900)], ROWS))
    stripes = (first, stripe(1, [nothing]), stripe(2, proved))
    skipped = FileExplanation("b.orc", 500, (), reasons=(Reason("file statistics", "col('price') > 100", "max 5"),))
    return Explanation(repr(WHERE), ("price", "city"), (FileExplanation("a.orc", 3 * ROWS, stripes), skipped))


def test_the_funnel(explanation):
    assert [(stage.name, stage.before, stage.after) for stage in explanation.funnel] == [
        ("files", 2, 1),
        ("stripes", 3, 2),
        ("row groups", 30, 3),
        ("rows", 3500, 250),
        ("bytes", 30000, 2500),
    ]
    assert explanation.skipped_by == {
        "row-group statistics": 1500,
        "stripe statistics": 1000,
        "bloom filter": 100,
        "selection": 100,
    }
    assert explanation.notes == (NOTE,)


def test_each_row_group_tells_why(explanation):
    first, second, third = explanation.files[0].stripes
    told = [[str(reason) for reason in group.reasons] for group in first.row_groups]
    assert told[0] == ["col('price') > 100: max 0 (row-group statistics)"]
    assert told[2] == ["col('city') == '<Oslo & Rom>': the filter does not contain the value (bloom filter)"]
    assert told[3] == []
    assert told[4] == ["col('price') > 100: max 450 (row-group statistics)"]
    assert told[9] == ["none of these rows was requested (selection)"]
    assert [group.kept_rows for group in first.row_groups] == [0, 0, 0, 100, 50, 0, 0, 0, 0, 0]
    assert {reason.source for group in second.row_groups for reason in group.reasons} == {"stripe statistics"}
    assert [group.proved_rows for group in third.row_groups] == [100] + [0] * 9
    assert [proof.source for proof in third.row_groups[0].proofs] == ["row-group statistics"] * 2
    assert third.row_groups[0].first_row == 2000


def test_a_stripe_tells_why_its_row_groups_are_skipped():
    data = io.BytesIO()
    orcidx.write_table(pa.table({"a": range(3000)}), data, row_index_stride=1000)
    with orcidx.open(data.getvalue()) as file:
        for asked, kept, why in (
            ({"row_range": (0, 1500)}, 1500, "none of these rows was requested (selection)"),
            ({"where": "a < 1500"}, 2000, "col('a') < 1500: min 2000, max 2999, no null (row-group statistics)"),
        ):
            (stripe,) = file.scan(**asked).stripes()
            decision = stripe.decision
            assert (decision.row_groups, decision.rows_before, decision.rows_after) == (3, 3000, kept)
            assert [decision.reasons(group) for group in range(3)] == [(), (), (why,)]


def test_a_stripe_without_a_row_index_says_so():
    data = io.BytesIO()
    orcidx.write_table(pa.table({"a": range(3000)}), data, row_index_stride=0)
    with orcidx.open(data.getvalue()) as file:
        notes = file.scan(where="a = 5").explain().notes
        assert [(note.source, note.kind) for note in notes] == [("row index", "absent")]
        assert file.scan(where="a >= 0").explain().notes == ()


def test_a_damaged_bloom_filter_keeps_the_rows_and_is_told(monkeypatch):
    def broken(*_given, **_options):
        raise CorruptFile("no such filter")

    monkeypatch.setattr(bloom_choice, "unframe", broken)
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", float("inf"))
    data = io.BytesIO()
    orcidx.write_table(pa.table({"a": [7 * n % 3001 for n in range(3000)]}), data, bloom_filter_columns=["a"])
    with orcidx.open(data.getvalue()) as file:
        explained = file.scan(where="a = 8").explain()
        assert [(note.source, note.kind, note.text) for note in explained.notes] == [
            ("bloom filter", "damaged", "no such filter")
        ]
        assert file.scan(where="a = 7").to_table().num_rows == 1


def test_the_row_index_is_not_read_where_coarser_statistics_prove_the_rest():
    data = io.BytesIO()
    orcidx.write_table(pa.table({"a": range(3000)}), data, row_index_stride=1000)
    with orcidx.open(data.getvalue()) as file:
        for where, is_read in (("a >= 0", False), ("a >= 5", True), ("a < 0", False)):
            assert [stripe.decision.index is not None for stripe in file.scan(where=where).stripes()] in ([], [is_read])
        (stripe,) = file.scan(where="a >= 0").stripes()
        assert stripe.decision.row_groups == 1


def test_text(explanation):
    text = str(explanation)
    assert text == explanation_text(explanation)
    assert "rows                3,500 →          250  7.14 %" in text
    assert "bytes            29.3 KiB →      2.4 KiB  8.33 %" in text
    assert "    ggb█▓ggggx" in text
    assert "    ssssssssss" in text
    said = "col('price') > 100: max 0 … max 800 (row-group statistics)"
    assert f"    row groups 0–1, 5–8 (6 in all) skipped: {said}" in text
    assert "    row group 4 kept 50 of 100 rows: col('price') > 100: max 450 (row-group statistics)" in text
    assert "    row group 0 kept, proved: " in text
    assert "b.orc: 500 rows → 0\n  skipped: col('price') > 100: max 5 (file statistics)" in text
    assert "distrusted: bloom filter of city: written by ORC C++ 1.6.0 (ORC-1024)" in text
    assert "b bloom filter" in text
    assert "d dictionary" not in text


class Balanced(HTMLParser):
    """Fails if a tag is not closed. Collects text and titles."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img")
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("page", [True, False])
def test_html_is_whole_and_needs_nothing_else(explanation, page):
    html = explanation.to_html() if page else explanation._repr_html_()
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "<Oslo" not in html
    words = " ".join(parser.words)
    assert "'<Oslo & Rom>'" in words
    assert "skipped: col('city') == '<Oslo & Rom>': the filter does not contain the value" in words
    if page:
        cells = re.findall(r"<i class='c-(\w)[^>]*title=", html)
        assert len(cells) == 31  # 30 row groups, and a file that was not opened
        assert {"k", "b", "f"} <= set(cells)
    else:
        assert html == explanation_html(explanation)
        assert html.count("<rect") == 30
        assert pruning_map_svg(explanation.files[0]) in html


def test_json_and_pickle(explanation):
    made = json.loads(json.dumps(explanation.to_dict()))
    assert made["funnel"][3] == {"name": "rows", "before": 3500, "after": 250, "of": "all files"}
    assert made["files"][0]["stripes"][0]["row_groups"][0]["reasons"] == [
        {"source": "row-group statistics", "leaf": "col('price') > 100", "detail": "max 0"}
    ]
    assert made["files"][0]["stripes"][0]["notes"][0]["kind"] == "distrusted"
    assert made["skipped_by"]["bloom filter"] == 100
    assert pickle.loads(pickle.dumps(explanation)) == explanation


def test_the_dict_has_every_field(explanation):
    made = explanation.to_dict()
    del made["funnel"], made["skipped_by"], made["read_bytes"], made["unopened"]
    for file in made["files"]:
        del file["kept_rows"]
    assert made == asdict(explanation)


def test_without_a_predicate():
    may = RowSelection.from_runs([(0, 150)], ROWS)
    groups = explain_row_groups(BOUNDS, first_row=0, may=may, must=may, outcome=None)
    assert [str(reason) for reason in groups[5].reasons] == ["none of these rows was requested (selection)"]
    assert groups[0].reasons == ()
    made = StripeExplanation(0, 0, ROWS, 150, 0, 0, groups)
    text = str(Explanation(None, (), (FileExplanation("a", ROWS, (made,)),)))
    assert text.startswith("no condition")
    assert "█▓xxxxxxxx" in text
    assert str(Explanation(None, (), ()))


def test_stripes_of_one_fate_are_told_together():
    stripes = []
    for number in range(20):
        may = RowSelection.none(ROWS) if 2 < number < 15 else RowSelection.all(ROWS)
        groups = explain_row_groups(BOUNDS, first_row=0, may=may, must=may, outcome=None)
        stripes.append(StripeExplanation(number, 0, ROWS, may.count, 0, 2048 * (number != 7), groups))
    text = str(Explanation(None, (), (FileExplanation("a", 20 * ROWS, tuple(stripes)),)))
    assert "  stripes 0–2: 3,000 rows → 3,000, 6.0 KiB\n    ██████████ ██████████ ██████████\n    all kept\n" in text
    assert "  stripes 3–14: 12,000 rows → 0" in text
    assert "    all skipped: none of these rows was requested (selection)" in text
    assert "stripe 7" not in text


def test_many_stretches_are_cut_and_long_stripes_wrap():
    bounds = np.arange(0, 301)
    may = RowSelection.from_mask(np.arange(300) % 2 == 0)
    groups = explain_row_groups(bounds, first_row=0, may=may, must=may, outcome=None)
    made = Explanation(None, (), (FileExplanation("a", 300, (StripeExplanation(0, 0, 300, 150, 0, 0, groups),)),))
    assert "    row groups 0, 2, 4, 6, 8, … (150 in all) kept\n" in str(made)
    assert "    row groups 1, 3, 5, 7, 9, … (150 in all) skipped: none of these rows was requested" in str(made)
    assert max(map(len, str(made).splitlines())) < 120
    assert pruning_map_svg(made.files[0]).count("<rect") == 300


@pytest.mark.parametrize("turned", [False, True])
def test_the_branches_of_an_or_credit_the_evidence_that_came_last(turned):
    """File statistics rule out one branch of the OR, but no row. So the bloom filter is named as the evidence that
    excludes the rows, in either order of the branches."""
    price, city = col("price") > 10**6, col("city") == "Oslo"
    evidence = [Fixed("file statistics", "price", []), Fixed("bloom filter", "city", [(0, 300)], describe=absent)]
    only = stripe(0, evidence, where=city | price if turned else price | city)
    explanation = Explanation("", ("price", "city"), (FileExplanation("f", ROWS, (only,)),))
    assert explanation.skipped_by == {"bloom filter": 700}
    assert "███bbbbbbb" in explanation_text(explanation)
