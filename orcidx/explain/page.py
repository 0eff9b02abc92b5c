"""Makes a self-contained HTML page about a query. The page has a light and a dark mode, and fits a telephone as well as
a wide screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from orcidx.explain.model import ExplainedScan
from orcidx.explain.pictures import pruning_map, rows_ruled_out
from orcidx.explain.render import details_html, list_html, merged_notes, overlap_lines, reading, stages
from orcidx.spellings import size_text

__all__ = ["PagePart", "explanation_page", "explanation_parts", "facts_table", "page", "subtitle_of", "title_of"]

PAGE_STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1a2130;--dim:#5d6778;--line:#e1e5eb;--green:#1f8a5b;
--c-c:#8a94a3;--c-f:#22477a;--c-p:#7b3fa0;--c-s:#3d7cb5;--c-g:#8fbbdc;--c-b:#e0a03c;--c-d:#cc5b42;--c-x:#d5d9df;
--c-n:#a9b0ba;--c-o:#b58ad6;--t-data:#4a86bf;--t-index:#74828f;--t-bloom:#b9771a;--t-nulls:#4d8a6a;--t-footers:#81789a}
@media(prefers-color-scheme:dark){:root{--bg:#12161d;--card:#1b212b;--ink:#e3e8f0;--dim:#97a3b5;--line:#2d3643;
--green:#3fbf83;--c-c:#737e8e;--c-f:#5c8fd0;--c-p:#a974cf;--c-s:#4b8bc4;--c-g:#35597a;--c-b:#c98d2f;--c-d:#d16a52;
--c-x:#3a434f;--c-n:#5a6472;--c-o:#8763a6;--t-data:#3b73a8;--t-index:#59677a;--t-bloom:#b07c28;--t-nulls:#4d8a6a;
--t-footers:#6d6680}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1480px;margin:0 auto;padding:clamp(14px,2.4vw,40px);display:grid;gap:clamp(12px,1.4vw,22px);
grid-template-columns:repeat(12,minmax(0,1fr))}
header{grid-column:1/-1}h1{font-size:clamp(20px,2.2vw,30px);margin:0;overflow-wrap:anywhere;line-height:1.25}
header p{margin:.35em 0 0;color:var(--dim);overflow-wrap:anywhere}code{font:.92em ui-monospace,monospace;
overflow-wrap:anywhere}section{grid-column:1/-1;background:var(--card);border:1px solid var(--line);
border-radius:12px;padding:clamp(14px,1.5vw,24px);min-width:0}h2{font-size:16px;margin:0 0 .7em}
.half{grid-column:span 12}@media(min-width:1000px){.half{grid-column:span 6}}
.lead{display:flex;flex-wrap:wrap;gap:8px 34px}.lead div{min-width:110px}.lead b{display:block;
font-size:clamp(22px,2.4vw,34px);line-height:1.15;font-variant-numeric:tabular-nums}.lead span{color:var(--dim)}
.stage{display:grid;grid-template-columns:84px minmax(0,1fr) 46%;gap:4px 12px;align-items:center;margin:5px 0}
.stage .track{background:var(--line);border-radius:5px;height:14px;overflow:hidden}.stage .track i{display:block;
height:100%;background:var(--green);border-radius:5px;min-width:2px}.stage span{font-variant-numeric:tabular-nums;
color:var(--dim);font-size:13px;text-align:right}
.map-row{display:grid;grid-template-columns:minmax(0,1fr);gap:2px;margin:0 0 7px}.row-name{color:var(--dim);
font-size:12px}@media(min-width:700px){.map-row{grid-template-columns:150px minmax(0,1fr)}.map-row:not(:has(.row-name)){
grid-template-columns:minmax(0,1fr)}}.cells{display:grid;grid-template-columns:repeat(auto-fill,13px);gap:2px}
.cells i{display:block;width:13px;height:13px;border-radius:3px;background:var(--own)}.cells i.part{
background:linear-gradient(to top,var(--green) var(--share),var(--own) 0)}.c-k{--own:var(--green)}
.cells i.part.c-k{--own:color-mix(in srgb,var(--green) 28%,var(--card))}
.c-c{--own:var(--c-c)}.c-f{--own:var(--c-f)}.c-p{--own:var(--c-p)}.c-s{--own:var(--c-s)}.c-g{--own:var(--c-g)}
.c-b{--own:var(--c-b)}.c-d{--own:var(--c-d)}.c-x{--own:var(--c-x)}.c-n{--own:var(--c-n)}.c-o{--own:var(--c-o)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:6px 20px;padding:0;margin:12px 0 0;font-size:13px}
.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:7px;vertical-align:-1px;
background:var(--own)}.hint{color:var(--dim);font-size:13px;margin:.6em 0 0}
.treemap{position:relative;width:100%;aspect-ratio:100/42;min-height:260px;border-radius:8px;overflow:hidden}
.tile{position:absolute;overflow:hidden;border:1px solid var(--card);container-type:size}.tile i{position:absolute;
top:0;bottom:0}.tile span{position:absolute;left:7px;top:4px;right:4px;color:#fff;font-size:13px;line-height:1.3;
overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-shadow:0 1px 2px #0009}.tile small{display:block;
opacity:.9;overflow:hidden;text-overflow:ellipsis}@container(max-width:44px){span{display:none}}
@container(max-height:22px){span{display:none}}@container(max-height:42px){small{display:none!important}}
.t-data{--own:var(--t-data)}.t-index{--own:var(--t-index)}.t-bloom{--own:var(--t-bloom)}
.t-nulls{--own:var(--t-nulls)}.t-footers{--own:var(--t-footers)}.tile i{background:var(--own)}
.bands{display:grid;gap:10px 26px;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr))}
.band svg{display:block;width:100%;height:64px;background:var(--bg);border-radius:5px;fill:var(--c-s)}
.band-name{font-size:13px;font-weight:600;overflow-wrap:anywhere}.band-order{font-size:12px;color:var(--dim)}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}td,th{padding:5px 14px 5px 0;
text-align:left;border-bottom:1px solid var(--line);font-weight:400;vertical-align:top}th{color:var(--dim)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}ul.words{margin:0;
padding-left:1.2em}ul.words li{margin:.35em 0}
details{margin-top:10px;break-inside:avoid}.stripes{columns:330px;column-gap:26px}
.stripes details{margin:0;padding-top:10px}summary{cursor:pointer;color:var(--dim)}
footer{grid-column:1/-1;color:var(--dim);font-size:13px}
"""


@dataclass(frozen=True)
class PagePart:
    """A section of a page. ``html`` is put into the page unchanged, so it must contain only escaped texts."""

    title: str
    html: str
    half: bool = False


def page(title: str, subtitle: str, parts: Iterable[PagePart]) -> str:
    """A self-contained page. Empty parts are left out."""
    sections = "".join(
        f"<section{' class=half' if part.half else ''}><h2>{escape(part.title)}</h2>{part.html}</section>"
        for part in parts
        if part.html
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{subtitle}</p></header>{sections}"
        "<footer>Made by orcidx. Hover over a cell to see which evidence ruled rows out.</footer></main></body></html>"
    )


def facts_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in which numbers are aligned to the right."""
    if not rows:
        return ""
    numbers = [isinstance(value, int) for value in rows[0]]
    names = "".join(f"<th{' class=n' * right}>{escape(name)}</th>" for name, right in zip(headers, numbers))
    head = f"<tr>{names}</tr>" if any(headers) else ""
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class=n>{value:,}</td>" if isinstance(value, int) else f"<td>{escape(str(value))}</td>"
            for value in row
        )
        + "</tr>"
        for row in rows
    )
    return f"<div class=table><table>{head}{body}</table></div>"


def explanation_parts(explanation: ExplainedScan) -> list[PagePart]:
    """Returns the funnel, the pruning map, the reasons and the notes of an explanation."""
    bars = []
    for stage, (name, before, after, share) in zip(explanation.funnel, stages(explanation)):
        width = 100 * stage.after / stage.before if stage.before else 0
        bar = f"<i style='width:{width:.3g}%'></i>" if stage.after else ""
        bars.append(
            f"<div class=stage>{name}<div class=track>{bar}</div>"
            f"<span>{after} of {before}{f' · {share}' if share else ''}</span></div>"
        )
    skipped = list(rows_ruled_out(explanation).items())
    nobody = "<p class=hint>Nothing was ruled out.</p>"
    overlap = overlap_lines(explanation.overlap)
    notes = "".join(f"<li>{escape(line)}</li>" for line in merged_notes(explanation.notes)[:30])
    return [
        PagePart(
            "What the query reads", "".join(bars) + f"<p class=hint>{escape(reading(explanation))}</p>", half=True
        ),
        PagePart("Evidence that ruled rows out", facts_table(("evidence", "rows"), skipped) or nobody, half=True),
        PagePart("Pruning map", pruning_map(explanation)),
        PagePart("Overlap depth of row groups", list_html(overlap) if overlap else ""),
        PagePart("Notes", f"<ul class=words>{notes}</ul>" if notes else ""),
        PagePart("Stripe by stripe", details_html(explanation)),
    ]


def explanation_page(explanation: ExplainedScan) -> str:
    """Returns the page of ``explain``: what is read, and why the rest is skipped."""
    title = title_of([file.file for file in explanation.files])
    return page(title, subtitle_of(explanation), explanation_parts(explanation))


def title_of(names: Sequence[str]) -> str:
    """Returns the name of the only file, or the number of files."""
    return names[0].rsplit("/", 1)[-1] if len(names) == 1 else f"{len(names):,} files"


def subtitle_of(explanation: ExplainedScan) -> str:
    """Returns the condition of a query, and how many bytes of its columns are planned."""
    where = f"where <code>{escape(explanation.where)}</code>" if explanation.where else "no condition"
    stages_by_name = {stage.name: stage for stage in explanation.funnel}
    read = stages_by_name["bytes"]
    of = "" if read.of == "all files" else f" of the {read.of}"
    return f"{where} · plans {size_text(read.after)} of {size_text(read.before)} of column data{of}"
