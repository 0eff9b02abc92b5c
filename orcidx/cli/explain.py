"""``orcidx explain``: what a query would read, and why the rest is skipped."""

from __future__ import annotations

from pathlib import Path

import click

from orcidx.cli.arguments import (
    as_json,
    columns_option,
    file_argument,
    open_from,
    parse_columns,
    storage_option,
    where_option,
)
from orcidx.cli.output import print_json

__all__ = ["explain"]


@click.command()
@file_argument
@as_json
@columns_option
@where_option
@storage_option
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page that needs no other file.")
def explain(
    file: str,
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    html: Path | None,
) -> None:
    """Which stripes and row groups of FILE a query reads, by which evidence; reads no data."""
    with open_from(file, storage_options) as f:
        explanation = f.scan(parse_columns(columns), where).explain()
    if html is not None:
        html.write_text(explanation.to_html(), encoding="utf-8")
    if as_json:
        print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))
