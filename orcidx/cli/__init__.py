"""The ``orcidx`` command. One module per group of commands; each is imported when its command runs.

Exit codes: 0 done; 1 a negative answer (a check that found something); 2 a wrong call; 3 a damaged or unsupported file;
4 storage.
"""

from __future__ import annotations

import _thread
import errno
import importlib
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import click

__all__ = ["main"]

_COMMANDS = {
    "schema": ("orcidx.cli.inspect", "schema", "Columns of files, with their ORC and Arrow types."),
    "meta": ("orcidx.cli.inspect", "meta", "Size, rows, writer, codec and stripes of files."),
    "stats": ("orcidx.cli.inspect", "stats", "Statistics of the columns of files."),
    "sizes": ("orcidx.cli.layout", "sizes", "Bytes of files by column, stream and kind."),
    "streams": ("orcidx.cli.layout", "streams", "Streams of files: where they lie, and their encodings."),
    "check": ("orcidx.cli.check", "check", "Decode files whole, and compare them with their indexes."),
    "validate": ("orcidx.cli.check", "validate", "Read every index of a directory, and compare it."),
    "cat": ("orcidx.cli.rows", "cat", "All rows of files."),
    "head": ("orcidx.cli.rows", "head", "The first rows of files."),
    "count": ("orcidx.cli.rows", "count", "The number of rows of files together."),
    "scan": ("orcidx.cli.rows", "scan", "Rows that match, and what was read to find them."),
    "aggregate": ("orcidx.cli.aggregate", "aggregate", "Totals of rows: count, sum, min, max, avg, quantile_disc."),
    "explain": ("orcidx.cli.explain", "explain", "Which stripes and row groups a query reads, and why."),
    "may-contain": ("orcidx.cli.may_contain", "may_contain", "Which keys a column of a file may hold."),
    "rewrite": ("orcidx.cli.rewrite", "rewrite", "Write files anew: sorted, clustered, merged, with blooms."),
    "merge": ("orcidx.cli.rewrite", "merge", "Make one file of several, by copying stripes."),
    "convert": ("orcidx.cli.rewrite", "convert", "Convert between ORC, Parquet, CSV and JSON lines."),
    "report": ("orcidx.cli.report", "report", "Write one self-contained page about files."),
    "index": ("orcidx.cli.index", "index", "Show, build and check indexes of files and directories."),
    "dv": ("orcidx.cli.deletion_vectors", "dv", "Show and apply Paimon deletion vectors."),
    "table": ("orcidx.cli.table_changes", "table", "Inspect, read and change Apache Paimon tables."),
    "completion": ("orcidx.cli.check", "completion", "Print the script that completes commands in a shell."),
    "demo": ("orcidx.cli.demo_command", "demo", "Explained queries of a file that comes along."),
}
"""Command: (module, name in it, its line in ``orcidx --help``, which 80 columns do not cut)."""


class _LazyGroup(click.Group):
    """Commands are imported by name, so that ``orcidx meta`` does not pay for what ``orcidx scan`` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name, summary = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        command.short_help = summary
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except OSError as error:  # click would exit with 1 at once; without a pipe it is an error like another
            if error.errno == errno.EPIPE:
                raise _PipeClosed from None
            raise


class _PipeClosed(Exception):
    """The reader of the output has gone, as ``head`` does. That is no error."""


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="orcidx")
@click.option("--debug", is_flag=True, help="Show Python tracebacks instead of one line.")
def _orcidx(debug: bool) -> None:
    """Read, write, inspect and explain ORC files; Apache Paimon indexes, deletion vectors and tables."""


def main(args: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    words = sys.argv[1:] if args is None else args
    before = sys.unraisablehook
    sys.unraisablehook = partial(_interrupt_again, before)
    try:
        code = _run(args, debug="--debug" in words)
    finally:
        sys.unraisablehook = before
    sys.exit(code)


def _interrupt_again(before: Callable[[Any], object], unraisable: Any) -> None:
    """Raises an interrupt again that arrived inside a callback of the interpreter, such as an import, and was lost
    there."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        before(unraisable)
        return
    _thread.start_new_thread(_interrupt_soon, ())  # here it would be lost again


def _interrupt_soon() -> None:
    time.sleep(0.01)
    _thread.interrupt_main()


def _run(args: list[str] | None, *, debug: bool) -> int:
    from orcidx.errors import InvalidQuery, OrcidxError

    try:
        result: Any = _orcidx.main(args=args, prog_name="orcidx", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return 130
    except click.ClickException as wrong:
        wrong.show()
        return 2
    except _PipeClosed:
        # The reader of the pipe went away; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OrcidxError, OSError) as error:
        if debug:
            traceback.print_exception(error)
        else:
            click.echo(f"orcidx: {_in_flags(str(error))}{_hole_beside(error)}", err=True)
        if isinstance(error, InvalidQuery):
            return 2
        return 4 if isinstance(error, OSError) else 3


def _in_flags(message: str) -> str:
    """The message of an error, with the shell's options in place of Python's keywords."""
    return re.sub(r"\b(overwrite|merge|everything)=True\b", r"--\1", message)


def _hole_beside(error: Exception) -> str:
    """The text that an error about a local file gets if the file has a stretch of zeros, which a broken copy leaves."""
    from orcidx.errors import CorruptFile, StorageError

    name = error.file if isinstance(error, CorruptFile) and error.stripe is not None else None
    if name is None or not os.path.isfile(name):
        return ""
    from orcidx.inspection.holes import describe_hole, find_hole
    from orcidx.storage import open_reader

    try:
        with closing(open_reader(name)) as storage:
            hole = find_hole(storage)
    except (OSError, StorageError):  # the error is reported in either case
        return ""
    return "" if hole is None else f"; {describe_hole(hole)}"
