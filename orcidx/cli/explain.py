"""``orcidx explain`` shows what a query would read, and why the rest is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from orcidx.cli.arguments import (
    fresh_option,
    html_option,
    list_files,
    parse_columns,
    query_options,
    scan_from,
    sources_argument,
)
from orcidx.cli.output import print_explanation

__all__ = ["explain"]


@click.command()
@sources_argument
@query_options
@fresh_option
@html_option
def explain(
    sources: tuple[str, ...],
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    fresh: Literal["listing", "catalog"],
    html: Path | None,
) -> None:
    """Show which stripes and row groups of SOURCES (files, directories, globs, URLs, - for standard input) a query
    reads, and why the rest is skipped. This command reads only metadata and indexes."""
    explanation = scan_from(sources, storage_options, parse_columns(columns), where, fresh=fresh).explain()
    if where is not None:
        explanation = replace(explanation, where=where)  # shows the condition as the user typed it
    read = list_files(sources, storage_options) if html is not None else ()
    print_explanation(explanation, html, made_of=read, as_json=as_json)
