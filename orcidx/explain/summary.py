"""Results about many files, as text and as HTML: a headline, and sections of tables and lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from orcidx.explain.render import STYLE, html_page, list_html
from orcidx.storage.sink import write_file

__all__ = ["Section", "Summary"]


@dataclass(frozen=True)
class Section:
    """A table with numbers aligned to the right, or lines if there are no ``headers``."""

    title: str
    rows: Sequence[Sequence[Any]] = ()
    headers: Sequence[str] = ()


class Summary:
    """A result that can be shown. ``str()`` returns a text for a terminal, and ``to_html()`` returns a page, which
    Jupyter shows automatically."""

    @property
    def headline(self) -> str:
        """The result in one line."""
        raise NotImplementedError

    def sections(self) -> Iterable[Section]:
        """The sections in their order. Empty sections are left out."""
        raise NotImplementedError

    def to_html(self) -> str:
        """A self-contained page."""
        return html_page(self.headline, self._repr_html_())

    def save(self, path: str | Path) -> None:
        """Writes the page to a file."""
        write_file(path, self.to_html().encode())

    def _repr_html_(self) -> str:
        parts = [f"<style>{STYLE}</style><div class='orcidx'><p>{escape(self.headline)}</p>"]
        for section in self.sections():
            if section.rows:
                parts.append(f"<h2>{escape(section.title)}</h2>{_section_html(section)}")
        return "".join(parts) + "</div>"

    def __str__(self) -> str:
        lines = [self.headline]
        for section in self.sections():
            if section.rows:
                lines += ["", section.title, *(f"  {line}" for line in _section_lines(section))]
        return "\n".join(lines)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _section_lines(section: Section) -> list[str]:
    if not section.headers:
        return [str(row[0]) for row in section.rows]
    table = [section.headers, *([_shown(value) for value in row] for row in section.rows)]
    numeric = [all(isinstance(row[i], (int, type(None))) for row in section.rows) for i in range(len(section.headers))]
    widths = [max(len(row[i]) for row in table) for i in range(len(section.headers))]
    return [
        "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numeric))
        .rstrip()
        for row in table
    ]  # fmt: skip


def _section_html(section: Section) -> str:
    if not section.headers:
        return list_html(str(row[0]) for row in section.rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in section.headers)
    rows = (
        "".join(f"<td{' class=n' if isinstance(value, int) else ''}>{escape(_shown(value))}</td>" for value in row)
        for row in section.rows
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
