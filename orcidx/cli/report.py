"""``orcidx report`` writes a page about files and a query of them."""

from __future__ import annotations

from pathlib import Path

import click

from orcidx.cli.arguments import (
    columns_option,
    list_files,
    parse_columns,
    parse_storage_options,
    sources_argument,
    storage_option,
    where_option,
)
from orcidx.cli.progress import progress
from orcidx.spellings import size_text

__all__ = ["report"]


@click.command()
@sources_argument
@columns_option
@where_option
@storage_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file for the page, for example page.html.",
)
@click.option("--no-run", is_flag=True, help="Do not run the query to measure its time.")
def report(
    sources: tuple[str, ...],
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    output: Path,
    no_run: bool,
) -> None:
    """Write one self-contained page about SOURCES (files, directories, globs, URLs, - for standard input). It shows
    what a query reads and why the rest is skipped, bytes by column and stream, how sorted each column is, what each
    index rules out alone, timings, and advice."""
    import orcidx
    from orcidx.inspection.report import report_page
    from orcidx.storage.sink import write_file

    files = list_files(sources, storage_options)
    options = parse_storage_options(storage_options)
    scan = orcidx.scan(files, parse_columns(columns), where, storage_options=options)
    with progress("files", len(files)) as advance:
        made = report_page(scan, files, typed=where, run=not no_run and where is not None, on_file=advance)
    write_file(output, made.encode(), made_of=files)
    click.echo(f"{output}: {size_text(len(made))}")
