"""Explanations for the eye: text for a terminal, and HTML with the pruning map (rows = stripes, cells = row groups)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from orcidx.explanation import Explanation, FileExplanation, RowGroupExplanation, StripeExplanation
from orcidx.pruning import Note

__all__ = ["STYLE", "explanation_html", "explanation_text", "html_page", "list_html", "pruning_map_svg", "size_text"]

# Evidence by a part of its name: letter of the text map, colour of the drawn one.
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
_LINES = 12
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _look(group: RowGroupExplanation) -> tuple[str, str]:
    """Letter and colour of a row group."""
    if group.kept_rows == group.rows and group.rows:
        return _KEPT
    if group.kept:
        return _PARTLY
    source = group.reasons[-1].source if group.reasons else "selection"
    return next((look for name, look in _LOOKS.items() if name in source), _OTHER)


def size_text(count: int) -> str:
    """A number of bytes for people."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _stages(explanation: Explanation) -> list[tuple[str, str, str, str]]:
    """(name, before, after, share) of the funnel."""
    lines = []
    for stage in explanation.funnel:
        show = size_text if stage.name == "bytes" else "{:,}".format
        share = f"{100 * stage.after / stage.before:.3g} %" if stage.before else ""
        lines.append((stage.name, show(stage.before), show(stage.after), share))
    return lines


def _stretches(groups: Sequence[RowGroupExplanation]) -> list[tuple[RowGroupExplanation, RowGroupExplanation]]:
    """First and last of neighbouring row groups with the same fate by the same evidence, to be told in one line."""
    stretches: list[tuple[RowGroupExplanation, RowGroupExplanation]] = []
    for group in groups:
        if stretches and _fate(stretches[-1][1]) == _fate(group):
            stretches[-1] = stretches[-1][0], group
        else:
            stretches.append((group, group))
    return stretches


def _fate(group: RowGroupExplanation) -> tuple[object, ...]:
    return _look(group), tuple((reason.source, reason.leaf) for reason in group.reasons), bool(group.proved_rows)


def _told(group: RowGroupExplanation) -> str:
    """Why, in one line."""
    if not group.kept:
        return "skipped: " + "; ".join(map(str, group.reasons)) if group.reasons else "skipped"
    part = "" if group.kept_rows == group.rows else f" {group.kept_rows:,} of {group.rows:,} rows"
    proved = ", proved" if group.proved_rows == group.kept_rows and group.proofs else ""
    why = group.proofs if proved else group.reasons
    return f"kept{part}{proved}" + (": " + "; ".join(map(str, why)) if why else "")


def _merged_notes(notes: Iterable[Note]) -> list[str]:
    """One line for each fact, with the stripes that it holds for counted."""
    stripes: Counter[tuple[str, str, str, str | None]] = Counter()
    for note in notes:
        stripes[note.kind, note.source, note.text, note.column] += note.stripe is not None
    lines = []
    for (kind, source, text, column), count in stripes.items():
        where = f" ({count} stripes)" if count > 1 else ""
        of = f" of {column}" if column else ""
        lines.append(f"{kind}: {source}{of}: {text}{where}")
    return lines


# ---------------------------------------------------------------------- text


def explanation_text(explanation: Explanation) -> str:
    """The funnel, then each file with its stripes: a map of the row groups, and why they were skipped or kept."""
    lines = [f"where {explanation.where}" if explanation.where else "no predicate"]
    lines += [
        f"  {name:<10} {before:>14} → {after:>12}  {share}" for name, before, after, share in _stages(explanation)
    ]
    used = set()
    for file in explanation.files:
        lines += ["", *_file_lines(file)]
        used |= {_look(group) for stripe in file.stripes for group in stripe.row_groups}
    names = {look: name for name, look in _LOOKS.items()} | {
        _KEPT: "kept", _PARTLY: "partly kept", _OTHER: "other evidence",
    }  # fmt: skip
    legend = [f"{look[0]} {name}" for look, name in names.items() if look in used]
    if legend:
        lines += ["", "  ".join(legend)]
    if notes := _merged_notes(explanation.notes):
        lines += ["", "notes", *(f"  {line}" for line in notes)]
    return "\n".join(lines)


def _file_lines(file: FileExplanation) -> list[str]:
    lines = [f"{file.file}: {file.rows:,} rows → {file.kept_rows:,}"]
    if not file.kept and file.reasons:
        return [*lines, *(f"  skipped: {reason}" for reason in file.reasons)]
    for stripe in file.stripes:
        lines += _stripe_lines(stripe)
    return lines


def _stripe_lines(stripe: StripeExplanation) -> list[str]:
    letters = "".join(_look(group)[0] for group in stripe.row_groups)
    lines = [f"  stripe {stripe.stripe}: {stripe.rows:,} rows → {stripe.kept_rows:,}, {size_text(stripe.kept_bytes)}"]
    lines += [f"    {letters[i : i + _MAP_WIDTH]}" for i in range(0, len(letters), _MAP_WIDTH)]
    stretches = _stretches(stripe.row_groups)
    for first, last in stretches[:_LINES]:
        lines.append(f"    {_numbers(first, last)} {_told(first)}")
    if len(stretches) > _LINES:
        lines.append(f"    … and {len(stretches) - _LINES} more stretches of row groups")
    return lines


def _numbers(first: RowGroupExplanation, last: RowGroupExplanation) -> str:
    if first is last:
        return f"row group {first.row_group}"
    return f"row groups {first.row_group}–{last.row_group}"


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
_CELL, _GAP, _ROW, _LABEL = 11, 2, 16, 64
_CELLS = 80


def explanation_html(explanation: Explanation, *, page: bool = True) -> str:
    """The same as HTML that needs nothing else: a ``page``, or a fragment for a notebook."""
    where = f"<code>{escape(explanation.where)}</code>" if explanation.where else "no predicate"
    parts = [f"<style>{STYLE}</style><div class='orcidx'><p>where {where}</p>", _funnel_html(explanation)]
    parts += [_file_html(file) for file in explanation.files]
    parts.append(_legend_html(explanation))
    if notes := _merged_notes(explanation.notes):
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{escape(line)}</li>" for line in notes) + "</ul>")
    body = "".join(parts) + "</div>"
    return html_page("orcidx explain", body) if page else body


def html_page(title: str, body: str) -> str:
    """A page that needs no other file."""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><body>{body}</body></html>"
    )


def _funnel_html(explanation: Explanation) -> str:
    rows = []
    for stage, (name, before, after, share) in zip(explanation.funnel, _stages(explanation)):
        width = 100 * stage.after / stage.before if stage.before else 0
        rows.append(
            f"<tr><th>{name}</th><td class='n'>{before}</td><td>→</td><td class='n'>{after}</td>"
            f"<td><span class='bar'><span style='width:{width:.4g}%'></span></span></td><td class='n'>{share}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def _file_html(file: FileExplanation) -> str:
    head = f"<h2>{escape(file.file)}</h2><p>{file.rows:,} rows → {file.kept_rows:,}</p>"
    if not file.kept and file.reasons:
        return head + list_html(f"skipped: {reason}" for reason in file.reasons)
    details = "".join(_stripe_html(stripe) for stripe in file.stripes)
    return f"{head}{pruning_map_svg(file)}{details}"


def _stripe_html(stripe: StripeExplanation) -> str:
    told = [f"{_numbers(first, last)} {_told(first)}" for first, last in _stretches(stripe.row_groups)]
    summary = f"stripe {stripe.stripe}: {stripe.rows:,} rows → {stripe.kept_rows:,}, {size_text(stripe.kept_bytes)}"
    return f"<details><summary>{summary}</summary>{list_html(told)}</details>"


def list_html(lines: Iterable[str]) -> str:
    """A bulleted list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _legend_html(explanation: Explanation) -> str:
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
    """The pruning map of a file: a row for each stripe, a cell for each row group, coloured by what skipped it.

    Hovering over a cell tells why. Long stripes go on in the next line.
    """
    cells, y = [], 0
    for stripe in file.stripes:
        cells.append(f"<text x='0' y='{y + _CELL}' font-size='11' fill='currentColor'>stripe {stripe.stripe}</text>")
        for i, group in enumerate(stripe.row_groups):
            if i and i % _CELLS == 0:
                y += _CELL + _GAP
            x = _LABEL + i % _CELLS * (_CELL + _GAP)
            title = escape(f"row group {group.row_group}: {_told(group)}")
            cells.append(
                f"<rect x='{x}' y='{y}' width='{_CELL}' height='{_CELL}' fill='{_look(group)[1]}'>"
                f"<title>{title}</title></rect>"
            )
        y += _ROW
    widest = max((min(len(stripe.row_groups), _CELLS) for stripe in file.stripes), default=0)
    width = _LABEL + widest * (_CELL + _GAP)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{y}' viewBox='0 0 {width} {y}' "
        f"role='img' aria-label='pruning map'>{''.join(cells)}</svg>"
    )
