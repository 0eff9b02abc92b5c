"""Describes a scan in one line, and as HTML for notebooks. No file is opened."""

from __future__ import annotations

from collections.abc import Sequence

from orcidx.explain.facts import facts_html
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner.top_rows import SortKey
from orcidx.spellings import counted

__all__ = ["scan_html", "scan_text"]

_LONGEST_SHOWN = 150
"""The most characters of a value."""


def scan_text(jobs: Sequence[FileJob], request: ScanRequest, top: Sequence[SortKey], limit: int | None) -> str:
    """Describes a scan in one line. ``top`` and ``limit``: the sort keys and the limit of the scan."""
    names = [job.source.name for job in jobs]
    first = _short(names[0]) if names else ""
    of = first if len(names) < 2 else f"{len(names):,} files, {first} …"
    columns = "" if request.columns is None else f", columns {_short(list(request.columns))}"
    where = "" if request.where is None else f", where {_short(request.where)}"
    keys = f", top {_short([key.column for key in top])}" if top else ""
    return f"<Scan of {of}{columns}{where}{keys}{'' if limit is None else f', limit {limit}'}>"


def scan_html(jobs: Sequence[FileJob], request: ScanRequest, top: Sequence[SortKey], limit: int | None) -> str:
    """Describes a scan as HTML. See ``scan_text``."""
    columns = request.columns
    names = ["all"] if columns is None else [one if isinstance(one, str) else ".".join(one) for one in columns]
    facts = {
        "columns": _short(", ".join(names)),
        "where": None if request.where is None else _short(request.where),
        "top": _short(", ".join(key.column for key in top)) if top else None,
        "limit": limit,
    }
    rows = [(job.source.name, job.source.size) for job in jobs]
    return facts_html(f"Scan of {counted(len(rows), 'file')}", facts, ("file", "bytes"), rows)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN // 2]} … {text[-_LONGEST_SHOWN // 2 :]}"
