"""Facts about an object as HTML for a notebook: a line of text, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from orcidx.explain.render import STYLE

__all__ = ["facts_html"]

_SHOWN_LINES = 200
"""The maximum number of lines of a table on a page. The page gives the number of further lines."""


def facts_html(
    title: str, facts: Mapping[str, object], headers: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()
) -> str:
    """Returns an HTML fragment with the title, the facts, and a table of at most 200 rows. Facts that are None are left
    out."""
    shown = " · ".join(f"{escape(name)} {escape(str(value))}" for name, value in facts.items() if value is not None)
    lines = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in row) + "</tr>"
        for row in lines[:_SHOWN_LINES]
    )
    more = f"<p>… and {len(lines) - _SHOWN_LINES:,} more</p>" if len(lines) > _SHOWN_LINES else ""
    table = f"<table><tr>{head}</tr>{body}</table>{more}" if lines else ""
    return f"<style>{STYLE}</style><div class='orcidx'><p><b>{escape(title)}</b></p><p>{shown}</p>{table}</div>"
