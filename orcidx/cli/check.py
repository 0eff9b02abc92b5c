"""``orcidx check`` and ``validate`` find out whether files, and the indexes of a directory, are valid."""

from __future__ import annotations

import sys
from typing import Any

import click

from orcidx.cli.arguments import FilesDone, as_json, list_files, parse_storage_options, sources_argument, storage_option
from orcidx.cli.output import print_json
from orcidx.cli.progress import progress
from orcidx.errors import InvalidQuery
from orcidx.spellings import counted

__all__ = ["check", "validate"]

_SHOWN_PROBLEMS = 20
"""The number of problems of a file that are printed. --json prints all of them."""


@click.command()
@sources_argument
@as_json
@storage_option
@click.option(
    "--repair",
    metavar="OUT",
    help="Write the intact row groups of the one file to OUT. Every value of such a row group can be decoded, and no "
    "statistics contradict the values.",
)
def check(sources: tuple[str, ...], as_json: bool, storage_options: tuple[str, ...], repair: str | None) -> int:
    """Decode all of SOURCES (files, directories, globs, URLs, - for standard input), and compare statistics, positions,
    bloom filters and lengths with the data. Exit code 1: a problem was found. An empty or truncated file also counts as
    a problem."""
    from orcidx.inspection.check import check_file

    files = list_files(sources, storage_options)
    if repair is not None and len(files) != 1:
        raise InvalidQuery(f"--repair supports only one file, but {len(files)} files are given")
    wrong = 0
    done = FilesDone()
    for source in files:
        with done.file(), progress(source.name, None) as advance:
            found = check_file(source, on_stripe=lambda stripe, of: advance(1))
            wrong += not found.ok
            document = found.to_dict()
            if repair is not None:
                document["repaired"] = _repaired(found, source, repair, storage_options)
            _print_check(found, document, as_json=as_json, several=len(files) > 1)
    if not as_json and len(files) > 1:
        click.echo(f"{counted(len(files), 'file')}, {wrong:,} with problems")
    done.finish()
    return 1 if wrong else 0


def _repaired(found: Any, source: Any, out: str, storage_options: tuple[str, ...]) -> dict[str, Any] | None:
    from orcidx.inspection.repair import NO_TYPES, lacks_types, write_whole

    if lacks_types(found):
        click.echo(f"orcidx: {NO_TYPES}", err=True)
        return None
    written = write_whole(found, source, out, storage_options=parse_storage_options(storage_options))
    return {"file": out, "rows": written.rows, "bytes": written.bytes, "rows_lost": found.rows - written.rows}


def _print_check(found: Any, document: dict[str, Any], *, as_json: bool, several: bool) -> None:
    if as_json:
        print_json(document, on_one_line=several)
        return
    sizes = (found.rows, "row"), (found.stripes, "stripe"), (found.row_groups, "row group")
    rows, stripes, row_groups = (counted(number, noun) for number, noun in sizes)
    size = f"{rows} in {stripes} and {row_groups}"
    problems = len(found.problems)
    verdict = "ok" if found.ok else counted(problems, "problem")
    click.echo(f"{found.file}: {verdict}; {size}")
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        click.echo(f"  {problem}")
    if problems > _SHOWN_PROBLEMS:
        click.echo(f"  … and {problems - _SHOWN_PROBLEMS:,} more; use --json to list all")
    for stretch in found.unowned[:_SHOWN_PROBLEMS]:
        click.echo(f"  remark: {stretch}")
    if len(found.unowned) > _SHOWN_PROBLEMS:
        click.echo(f"  … and {len(found.unowned) - _SHOWN_PROBLEMS:,} more such ranges; use --json to list all")
    repaired = document.get("repaired")
    if repaired:
        click.echo(
            f"  {counted(repaired['rows'], 'row')} written to {repaired['file']}, {repaired['rows_lost']:,} lost"
        )


@click.command()
@click.argument("directory")
@as_json
@storage_option
def validate(directory: str, as_json: bool, storage_options: tuple[str, ...]) -> int:
    """Read every index of DIRECTORY completely, and compare the catalog with the files. Exit code 1: an index is
    damaged, or a file is new, changed, missing or could not be indexed."""
    from orcidx.index_directory.describe import describe_indexes

    options = parse_storage_options(storage_options)
    with progress("indexes", None):
        found = describe_indexes(directory, verify=True, storage_options=options)
    good = set(found.states) <= {"fresh"}
    if as_json:
        print_json({**found.to_dict(), "ok": good})
    else:
        click.echo(str(found))
    return 0 if good else 1


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL. Add it to the start file of the shell, for
    example: eval "$(orcidx completion bash)"."""
    from click.shell_completion import get_completion_class

    from orcidx.cli import _orcidx

    made = get_completion_class(shell)
    assert made is not None
    sys.stdout.write(made(_orcidx, {}, "orcidx", "_ORCIDX_COMPLETE").source() + "\n")
