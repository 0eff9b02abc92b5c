"""``orcidx explain``: what a query would read, and why the rest is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from orcidx.cli.arguments import (
    as_json,
    columns_option,
    fresh_option,
    list_files,
    parse_columns,
    scan_from,
    sources_argument,
    storage_option,
    where_option,
)
from orcidx.cli.output import print_json

__all__ = ["explain"]


@click.command()
@sources_argument
@as_json
@columns_option
@where_option
@storage_option
@fresh_option
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page that needs no other file.")
def explain(
    sources: tuple[str, ...],
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    fresh: Literal["listing", "catalog"],
    html: Path | None,
) -> None:
    """Which stripes and row groups of SOURCES (files, directories, globs, URLs, - for standard input) a query reads, by
    which evidence; reads no data."""
    explanation = scan_from(sources, storage_options, parse_columns(columns), where, fresh=fresh).explain()
    if where is not None:
        explanation = replace(explanation, where=where)  # as it was typed
    if html is not None:
        from orcidx.storage.sink import write_file

        write_file(html, explanation.to_html().encode(), made_of=list_files(sources, storage_options))
    if as_json:
        print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))
