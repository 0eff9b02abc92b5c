"""Explanations as text for a terminal, and as HTML with the pruning map. The map has a row for each stripe, and a cell
for each row group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape

from orcidx.explain.model import ExplainedScan, FileExplanation, RowGroupExplanation, StripeExplanation
from orcidx.explain.overlap import ColumnDepth
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason, last_evaluated
from orcidx.spellings import counted, share_text, size_text

__all__ = [
    "STYLE",
    "details_html",
    "explanation_html",
    "explanation_text",
    "html_page",
    "list_html",
    "merged_notes",
    "overlap_lines",
    "pruning_map_svg",
    "reading",
    "rounded",
    "stages",
]

# For each kind of evidence, its letter in the text map and its colour in the drawn map. The keys of this dictionary are
# parts of the kinds' names.
_LOOKS = {
    "constant": ("c", "#7f8c8d"),
    "file statistics": ("f", "#274c77"),
    "index": ("p", "#7b2d8b"),
    "stripe statistics": ("s", "#3a7ca5"),
    "row-group statistics": ("g", "#81c3d7"),
    "bloom filter": ("b", "#e0a458"),
    "dictionary": ("d", "#c8553d"),
    "selection": ("x", "#c9cdd2"),
    "predicate": ("n", "#9aa0a6"),
}
_OTHER = ("o", "#a06cd5")
_KEPT, _PARTLY = ("█", "#2e8b57"), ("▓", "#8fce9f")
_MAP_WIDTH = 100
_MAP_LINES = 10
"""The number of characters of a line, and the number of lines, of a map in a text."""
_SHOWN_LINES = 12
_SHOWN_STRETCHES = 5
"""The maximum number of lines of a list, and the maximum number of ranges of numbers, in a text. The text says how many
lines are left out."""
_NUMBER = re.compile(r"\d[\d,]*")


def _look(group: RowGroupExplanation) -> tuple[str, str]:
    """The letter and the colour of a row group."""
    if group.kept_rows == group.rows and group.rows:
        return _KEPT
    if group.kept:
        return _PARTLY
    return _look_of(last_evaluated(group.reasons).source if group.reasons else "selection")


@lru_cache(maxsize=64)
def _look_of(source: str) -> tuple[str, str]:
    return next((look for name, look in _LOOKS.items() if name in source), _OTHER)


def stages(explanation: ExplainedScan) -> list[tuple[str, str, str, str]]:
    """The funnel as (name, before, after, share). If not all files are counted, the share also says which files."""
    lines = []
    for stage in explanation.funnel:
        show = size_text if stage.name == "bytes" else "{:,}".format
        share = share_text(stage.after, stage.before)
        if stage.of != "all files":
            share = f"{share} of the {stage.of}".strip()
        lines.append((stage.name, show(stage.before), show(stage.after), share))
    return lines


def reading(explanation: ExplainedScan) -> str:
    """Returns one line about all bytes that the scan requests from storage, and about the files that are not opened. If
    only parts of a file are planned, the number is not exact (see ``planner.read_bytes``), and the line says so."""
    whole, several = sum(file.read_bytes >= file.size > 0 for file in explanation.files), len(explanation.files) > 1
    files = f" ({counted(whole, 'file')} read completely)" if whole else ""
    planned = any(file.kept and file.read_bytes < file.size for file in explanation.files) or (whole and several)
    size = f"{'about ' if planned else ''}{size_text(explanation.read_bytes)}"
    more, unopened = _may_be_less(explanation), explanation.unopened
    if unopened:
        stored = size_text(sum(file.size for file in unopened))
        more += f"; {counted(len(unopened), 'file')} of {stored} {'was' if len(unopened) == 1 else 'were'} not opened"
    return f"the scan reads {size}, with tails, footers and indexes{files}{more}"


def _may_be_less(explanation: ExplainedScan) -> str:
    """Returns the reasons why a scan may read less than is planned. There are none if all kept rows are proved: then
    the scan reads all planned bytes."""
    files = [file for file in explanation.files if 0 < file.read_bytes < file.size]
    stripes = [stripe for file in files for stripe in file.stripes if stripe.kept]
    if explanation.where is None or all(stripe.proved_rows == stripe.kept_rows for stripe in stripes):
        return ""
    less = "; it may be less, because columns outside the condition are read only where rows match, and strings that "
    less += "the condition compares with literals only where their lengths allow a match"
    if any(0 < stripe.proved_rows < stripe.kept_rows for stripe in stripes):
        less += ", and columns that only the condition uses are read only where rows are not proved"
    return less


_GroupResult = tuple[tuple[str, str], tuple[tuple[str, str], ...], bool]
"""What happened to a row group, and by which evidence: the letter and colour, the (source, leaf) of the reasons, and
whether rows are proved. Row groups with equal results are shown in one line."""


def _group_results(stripe: StripeExplanation) -> list[_GroupResult]:
    """Returns the result of each row group. A result says whether the row group is kept, by which evidence it was
    skipped, and whether some of its rows surely match. There may be tens of thousands of row groups, so the results are
    computed only once. The letter and colour are computed once for all row groups with the same reasons."""
    looks: dict[tuple[tuple[str, str], ...], tuple[str, str]] = {}
    results = []
    for group in stripe.row_groups:
        asked = tuple([(reason.source, reason.leaf) for reason in group.reasons])
        if group.kept_rows:
            look = _KEPT if group.kept_rows == group.rows else _PARTLY
        elif asked in looks:
            look = looks[asked]
        else:
            look = looks[asked] = _look(group)
        results.append((look, asked, group.proved_rows > 0))
    return results


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    """Returns a text such as "row groups 0, 4–7, 9 (6)": the first ranges of neighbours, and the total number."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in runs[:_SHOWN_STRETCHES])
    more = ", …" if len(runs) > _SHOWN_STRETCHES else ""
    count = f" ({len(numbers):,} in all)" if len(runs) > 1 else ""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {shown}{more}{count}"


def _result_line(groups: Sequence[RowGroupExplanation]) -> str:
    """Returns one line that says why some row groups are skipped or kept. All these row groups have the same result
    (see ``_group_results``)."""
    first, last = groups[0], groups[-1]
    if not first.kept:
        return "skipped: " + _why(first.reasons, last.reasons) if first.reasons else "skipped"
    rows, kept = sum(group.rows for group in groups), sum(group.kept_rows for group in groups)
    part = "" if kept == rows else f" {kept:,} of {rows:,} rows"
    proved = first.proofs and all(group.proved_rows == group.kept_rows for group in groups)
    why = _why(first.proofs, last.proofs) if proved else _why(first.reasons, last.reasons)
    return f"kept{part}{', proved' if proved else ''}" + (f": {why}" if why else "")


def _why(first: Sequence[Reason], last: Sequence[Reason]) -> str:
    """The reasons of several row groups as text. The reasons differ at most in a detail, such as a bound. If the
    details differ, the details of the first and of the last row group are shown."""
    both = zip(first, last) if len(first) == len(last) else zip(first, first)
    return "; ".join(
        str(one if one.detail == other.detail else replace(one, detail=f"{one.detail} … {other.detail}"))
        for one, other in both
    )


def merged_notes(notes: Iterable[Note]) -> list[str]:
    """Returns one line for each note, with the number of stripes to which it applies. If notes differ only in a number,
    such as the bytes of filters, the first note is shown."""
    alike: dict[tuple[str, ...], list[Note]] = {}
    for note in notes:
        shape = note.text if note.stripe is None else _NUMBER.sub("#", note.text)
        alike.setdefault((note.kind, note.source, shape, note.column or ""), []).append(note)
    lines = []
    for found in alike.values():
        first, count = found[0], sum(note.stripe is not None for note in found)
        differ = "; the number is for the first stripe" if any(note.text != first.text for note in found) else ""
        where = f" ({count} stripes{differ})" if count > 1 else ""
        of = f" of {first.column}" if first.column else ""
        lines.append(f"{first.kind}: {first.source}{of}: {first.text}{where}")
    return lines


# ---------------------------------------------------------------------- text


def explanation_text(explanation: ExplainedScan) -> str:
    """Returns the explanation as text: first the funnel, then each file with its stripes. For each stripe, the text has
    a map of the row groups, and the reasons why they were skipped or kept."""
    lines = [f"where {explanation.where}" if explanation.where else "no condition"]
    lines += [f"  {name:<10} {before:>14} → {after:>12}  {share}" for name, before, after, share in stages(explanation)]
    lines.append(f"  {reading(explanation)}")
    used = set()
    for files in folded(explanation.files):
        if len(files) > 1:
            lines += ["", _folded_line(files), f"  {_skipped_line(files)}"]
            continue
        results = [_group_results(stripe) for stripe in files[0].stripes]
        lines += ["", *_file_lines(files[0], results)]
        used |= {look for of_stripe in results for look, _, _ in of_stripe}
    names = {look: name for name, look in _LOOKS.items()} | {
        _KEPT: "kept", _PARTLY: "partly kept", _OTHER: "other evidence",
    }  # fmt: skip
    legend = [f"{look[0]} {name}" for look, name in names.items() if look in used]
    if legend:
        lines += ["", "  ".join(legend)]
    if explanation.overlap:
        lines += ["", "overlap depth of row groups", *(f"  {line}" for line in overlap_lines(explanation.overlap))]
    if notes := merged_notes(explanation.notes):
        lines += ["", "notes", *(f"  {line}" for line in notes)]
    return "\n".join(lines)


def rounded(number: float) -> str:
    """The mean of some counts, rounded."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"


def overlap_lines(depths: Sequence[ColumnDepth]) -> list[str]:
    """Returns a line for each column, ordered by how much sorting by the column would save."""
    shown = sorted(depths, key=lambda depth: -depth.average)
    width = max((len(depth.column) for depth in shown[:_SHOWN_LINES]), default=0)
    lines = [
        f"{depth.column:<{width}}  {rounded(depth.average)} of {depth.row_groups:,}, at most {depth.greatest:,}"
        + (f"; {depth.unread:,} more were not examined" if depth.unread else "")
        for depth in shown[:_SHOWN_LINES]
    ]
    return [*lines, f"… and {len(shown) - _SHOWN_LINES} more columns"] if len(shown) > _SHOWN_LINES else lines


def folded(files: Sequence[FileExplanation]) -> list[Sequence[FileExplanation]]:
    """Groups neighbouring files that are completely ruled out by the same evidence. Every other file forms its own
    group."""
    found: list[list[FileExplanation]] = []
    before = None
    for file in files:
        kind = None if file.kept else tuple((reason.source, reason.leaf) for reason in file.reasons)
        if kind and kind == before:
            found[-1].append(file)
        else:
            found.append([file])
        before = kind
    return list(found)


def _folded_line(files: Sequence[FileExplanation]) -> str:
    """The line above files that are shown together."""
    rows = counted(sum(file.rows for file in files), "row")
    return f"{len(files):,} files, {files[0].file} … {files[-1].file}: {rows} → 0"


def _skipped_line(files: Sequence[FileExplanation]) -> str:
    return f"all skipped: {_why(files[0].reasons, files[-1].reasons)}"


def _file_lines(file: FileExplanation, results: Sequence[list[_GroupResult]]) -> list[str]:
    lines = [f"{file.file}: {counted(file.rows, 'row')} → {file.kept_rows:,}"]
    if not file.kept and file.reasons:
        return [*lines, *(f"  skipped: {reason}" for reason in file.reasons)]
    alike = _alike(zip(file.stripes, results))
    for stripes in alike[:_SHOWN_LINES]:
        lines += _stripe_lines(stripes)
    if len(alike) > _SHOWN_LINES:
        lines.append(f"  … and {sum(map(len, alike[_SHOWN_LINES:])):,} more stripes")
    return lines


_Stripe = tuple[StripeExplanation, list[_GroupResult]]


def _alike(stripes: Iterable[_Stripe]) -> list[list[_Stripe]]:
    """Groups neighbouring stripes if all their row groups have the same result (see ``_group_results``)."""
    found: list[list[_Stripe]] = []
    before = None
    for stripe, results in stripes:
        kinds = set(results)
        if found and len(kinds) == 1 and kinds == before:
            found[-1].append((stripe, results))
        else:
            found.append([(stripe, results)])
        before = kinds
    return found


def _stripe_lines(alike: Sequence[_Stripe]) -> list[str]:
    stripes = [stripe for stripe, _ in alike]
    rows, kept = sum(stripe.rows for stripe in stripes), sum(stripe.kept_rows for stripe in stripes)
    size = size_text(sum(stripe.kept_bytes for stripe in stripes))
    numbers = _numbers("stripe", [stripe.stripe for stripe in stripes])
    lines = [f"  {numbers}: {counted(rows, 'row')} → {kept:,}, {size}"]
    most = _MAP_WIDTH * _MAP_LINES
    shown = " ".join("".join([result[0][0] for result in results[:most]]) for _, results in alike[:most])[:most]
    lines += [f"    {shown[i : i + _MAP_WIDTH]}" for i in range(0, len(shown), _MAP_WIDTH)]
    if len(stripes) > 1:
        groups = [group for stripe in stripes for group in stripe.row_groups]
        return [*lines, f"    all {_result_line(groups)}"]
    of_first = _row_group_lines(*alike[0])
    lines += [f"    {line}" for line in of_first[:_SHOWN_LINES]]
    if len(of_first) > _SHOWN_LINES:
        lines.append(f"    … and {len(of_first) - _SHOWN_LINES} more lines like these")
    return lines


def _row_group_lines(stripe: StripeExplanation, results: Sequence[_GroupResult]) -> list[str]:
    """Returns the row groups of a stripe, with one line for all row groups that have the same result (see
    ``_group_results``)."""
    alike: dict[_GroupResult, list[RowGroupExplanation]] = {}
    for group, result in zip(stripe.row_groups, results):
        alike.setdefault(result, []).append(group)
    return [
        f"{_numbers('row group', [group.row_group for group in groups])} {_result_line(groups)}"
        for groups in alike.values()
    ]


# ---------------------------------------------------------------------- HTML

STYLE = """
.orcidx { font: 14px/1.45 system-ui, sans-serif; color: #1d2330; max-width: 72rem; }
.orcidx h2 { font-size: 1rem; margin: 1.4em 0 .4em; overflow-wrap: anywhere; }
.orcidx code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
.orcidx table { border-collapse: collapse; margin: .6em 0; }
.orcidx td, .orcidx th { padding: .15em .9em .15em 0; text-align: left; vertical-align: top; font-weight: normal; }
.orcidx td.n { text-align: right; font-variant-numeric: tabular-nums; }
.orcidx .bar { background: #e4e7eb; width: 14rem; height: .8em; display: inline-block; }
.orcidx .bar span { background: #2e8b57; height: 100%; display: block; }
.orcidx .key { display: inline-block; width: .9em; height: .9em; margin: 0 .35em 0 1em; vertical-align: -1px; }
.orcidx summary { cursor: pointer; }
.orcidx ul { margin: .3em 0; padding-left: 1.4em; }
@media (prefers-color-scheme: dark) { body .orcidx { color: #dde3ea; } .orcidx .bar { background: #39424e; } }
"""
_CELL_PIXELS, _GAP_PIXELS, _LINE_PIXELS, _LABEL_PIXELS = 11, 2, 16, 64
"""Pixels of a cell, of the gap between two cells, of a line, and of its label in a picture."""
_CELLS_IN_LINE = 80
"""The number of row groups in one line of the picture of a stripe."""
_DETAILED_STRIPES = 200
"""The maximum number of stripes that a page shows one by one."""


def explanation_html(explanation: ExplainedScan) -> str:
    """Returns the explanation as an HTML fragment for a notebook."""
    where = f"<code>{escape(explanation.where)}</code>" if explanation.where else "no condition"
    parts = [f"<style>{STYLE}</style><div class='orcidx'><p>where {where}</p>", _funnel_html(explanation)]
    parts.append(f"<p>{escape(reading(explanation))}</p>")
    parts += [_file_html(files[0]) if len(files) == 1 else _folded_html(files) for files in folded(explanation.files)]
    parts.append(_legend_html(explanation))
    if explanation.overlap:
        parts.append("<h2>Overlap depth of row groups</h2>" + list_html(overlap_lines(explanation.overlap)))
    if notes := merged_notes(explanation.notes):
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{escape(line)}</li>" for line in notes) + "</ul>")
    return "".join(parts) + "</div>"


def html_page(title: str, body: str) -> str:
    """A self-contained page."""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><body>{body}</body></html>"
    )


def _funnel_html(explanation: ExplainedScan) -> str:
    rows = []
    for stage, (name, before, after, share) in zip(explanation.funnel, stages(explanation)):
        width = 100 * stage.after / stage.before if stage.before else 0
        rows.append(
            f"<tr><th>{name}</th><td class='n'>{before}</td><td>→</td><td class='n'>{after}</td>"
            f"<td><span class='bar'><span style='width:{width:.4g}%'></span></span></td><td class='n'>{share}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def _folded_html(files: Sequence[FileExplanation]) -> str:
    return f"<p><b>{escape(_folded_line(files))}</b></p>" + list_html([_skipped_line(files)])


def _file_html(file: FileExplanation) -> str:
    head = f"<h2>{escape(file.file)}</h2><p>{counted(file.rows, 'row')} → {file.kept_rows:,}</p>"
    if not file.kept and file.reasons:
        return head + list_html(f"skipped: {reason}" for reason in file.reasons)
    details = "".join(_stripe_html(stripe) for stripe in file.stripes)
    return f"{head}{pruning_map_svg(file)}{details}"


def _stripes_html(alike: Sequence[_Stripe]) -> str:
    """Returns the HTML of one stripe, or of several stripes that are shown together. It is a section that the reader of
    the page can unfold."""
    if len(alike) == 1:
        return _stripe_html(alike[0][0])
    summary, stripes = _stripe_lines(alike)[0], [stripe for stripe, _ in alike]
    why = _result_line([group for stripe in stripes for group in stripe.row_groups])
    return f"<details><summary>{escape(summary.strip())}</summary>{list_html([f'all {why}'])}</details>"


def _stripe_html(stripe: StripeExplanation) -> str:
    summary = f"stripe {stripe.stripe}: {stripe.rows:,} rows → {stripe.kept_rows:,}, {size_text(stripe.kept_bytes)}"
    return (
        f"<details><summary>{summary}</summary>{list_html(_row_group_lines(stripe, _group_results(stripe)))}</details>"
    )


def details_html(explanation: ExplainedScan) -> str:
    """Returns the HTML of every stripe, with the reasons why its row groups are skipped or kept. The reader of the page
    can unfold each stripe. If there are very many stripes, only the first stripes are shown."""
    parts = []
    left = _DETAILED_STRIPES
    for files in folded(explanation.files):
        file = files[0]
        if left <= 0:
            parts.append("<p class=hint>Further stripes are not shown here; to_dict() and --json contain them.</p>")
            break
        if len(files) > 1:
            parts.append(_folded_html(files))
            left -= 1
            continue
        head = f"<p><b>{escape(file.file)}</b>: {counted(file.rows, 'row')} → {file.kept_rows:,}</p>"
        if not file.kept and file.reasons:
            parts.append(head + list_html(f"skipped: {reason}" for reason in file.reasons))
            left -= 1
            continue
        stripes = "".join(map(_stripes_html, _alike((one, _group_results(one)) for one in file.stripes[:left])))
        parts.append(f"{head}<div class=stripes>{stripes}</div>")
        left -= len(file.stripes)
    return "".join(parts)


def list_html(lines: Iterable[str]) -> str:
    """A bulleted list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _legend_html(explanation: ExplainedScan) -> str:
    used = {_look(group) for file in explanation.files for stripe in file.stripes for group in stripe.row_groups}
    names = {_KEPT: "kept", _PARTLY: "partly kept"} | {look: f"skipped by {name}" for name, look in _LOOKS.items()}
    names[_OTHER] = "skipped by other evidence"
    keys = (
        f"<span class='key' style='background:{look[1]}'></span>{escape(name)}"
        for look, name in names.items()
        if look in used
    )
    return f"<p>{''.join(keys)}</p>"


def pruning_map_svg(file: FileExplanation) -> str:
    """The pruning map of a file. It has a row for each stripe, and a cell for each row group, coloured by the evidence
    that skipped the row group. Hovering over a cell shows the reason. Long stripes continue in the next line."""
    cells, y = [], 0
    for stripe in file.stripes:
        cells.append(
            f"<text x='0' y='{y + _CELL_PIXELS}' font-size='11' fill='currentColor'>stripe {stripe.stripe}</text>"
        )
        for i, group in enumerate(stripe.row_groups):
            if i and i % _CELLS_IN_LINE == 0:
                y += _CELL_PIXELS + _GAP_PIXELS
            x = _LABEL_PIXELS + i % _CELLS_IN_LINE * (_CELL_PIXELS + _GAP_PIXELS)
            title = escape(f"row group {group.row_group}: {_result_line([group])}")
            cells.append(
                f"<rect x='{x}' y='{y}' width='{_CELL_PIXELS}' height='{_CELL_PIXELS}' fill='{_look(group)[1]}'>"
                f"<title>{title}</title></rect>"
            )
        y += _LINE_PIXELS
    widest = max((min(len(stripe.row_groups), _CELLS_IN_LINE) for stripe in file.stripes), default=0)
    width = _LABEL_PIXELS + widest * (_CELL_PIXELS + _GAP_PIXELS)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{y}' viewBox='0 0 {width} {y}' "
        f"role='img' aria-label='pruning map'>{''.join(cells)}</svg>"
    )
