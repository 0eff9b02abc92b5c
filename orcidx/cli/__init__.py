"""The ``orcidx`` command. It has one module for each group of commands, and imports the module when a command runs.

Exit codes: 0 success; 1 a negative result (for example, a check found a problem); 2 wrong arguments; 3 a damaged or
unsupported file; 4 a storage error.
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
    "schema": ("orcidx.cli.inspect", "schema", "Show the columns of files with ORC and Arrow types."),
    "meta": ("orcidx.cli.inspect", "meta", "Show size, rows, writer, codec and stripes of files."),
    "stats": ("orcidx.cli.inspect", "stats", "Show the statistics of the columns of files."),
    "sizes": ("orcidx.cli.layout", "sizes", "Show the bytes of files by column, stream and kind."),
    "streams": ("orcidx.cli.layout", "streams", "Show positions and encodings of the streams of files."),
    "check": ("orcidx.cli.check", "check", "Decode files completely and compare the indexes."),
    "validate": ("orcidx.cli.check", "validate", "Read and compare every index of a directory."),
    "cat": ("orcidx.cli.rows", "cat", "Print all rows of files."),
    "head": ("orcidx.cli.rows", "head", "Print the first rows of files."),
    "count": ("orcidx.cli.rows", "count", "Print the total number of rows of files."),
    "scan": ("orcidx.cli.rows", "scan", "Print matching rows, and what was read to find them."),
    "aggregate": ("orcidx.cli.aggregate", "aggregate", "Compute count, sum, min, max, avg and quantile_disc."),
    "explain": ("orcidx.cli.explain", "explain", "Show which stripes and row groups a query reads, and why."),
    "may-contain": ("orcidx.cli.may_contain", "may_contain", "Show which keys a column of a file may contain."),
    "rewrite": ("orcidx.cli.rewrite", "rewrite", "Rewrite files: sort, cluster, merge, add bloom filters."),
    "merge": ("orcidx.cli.rewrite", "merge", "Merge several files into one by copying stripes."),
    "convert": ("orcidx.cli.rewrite", "convert", "Convert between ORC, Parquet, CSV and JSON lines."),
    "report": ("orcidx.cli.report", "report", "Write one self-contained HTML page about files."),
    "index": ("orcidx.cli.index", "index", "Show, build and check indexes of files and directories."),
    "dv": ("orcidx.cli.deletion_vectors", "dv", "Show and apply Paimon deletion vectors."),
    "table": ("orcidx.cli.table_changes", "table", "Inspect, read and change Apache Paimon tables."),
    "completion": ("orcidx.cli.check", "completion", "Print the script for command completion in a shell."),
    "demo": ("orcidx.cli.demo_command", "demo", "Explain queries of a file that comes with orcidx."),
}
"""For each command: the module, the name in the module, and the line in ``orcidx --help``, which must fit in 80
columns."""


class _LazyGroup(click.Group):
    """Imports commands by name, so ``orcidx meta`` does not import modules that only ``orcidx scan`` needs."""

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
        except OSError as error:  # click itself would exit with code 1 if the pipe was closed
            if error.errno == errno.EPIPE:
                raise _PipeClosed from None
            raise


class _PipeClosed(Exception):
    """Raised if the reader of the output has closed the pipe, as ``head`` does. This is not an error of the command."""


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="orcidx")
@click.option("--debug", is_flag=True, help="Show Python tracebacks instead of one line.")
def _orcidx(debug: bool) -> None:
    """Read, write, inspect and explain ORC files. Work with Apache Paimon indexes, deletion vectors and tables."""


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
    """Raises an interrupt a second time if it arrived inside a callback of the interpreter, for example during an
    import. Python ignores an exception in such a callback, so the first interrupt was lost."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        before(unraisable)
        return
    # Python would ignore an exception raised in this function, so another thread raises it.
    _thread.start_new_thread(_interrupt_soon, ())


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
        # The process that reads the pipe has closed it, so the rest of the buffer cannot be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OrcidxError, OSError) as error:
        if debug:
            traceback.print_exception(error)
        else:
            click.echo(f"orcidx: {_in_flags(str(error))}{_hole_beside(error)}", err=True)
            for note in getattr(error, "__notes__", ()):
                click.echo(note, err=True)
        if isinstance(error, InvalidQuery):
            return 2
        return 4 if isinstance(error, OSError) else 3
    except RuntimeError as error:
        # Python 3.11 raises this error if an interrupt comes while a class is made, for example during an import.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return 130
        raise


def _in_flags(message: str) -> str:
    """Replaces Python's keywords in the message of an error by the options of the command line."""
    return re.sub(r"\b(overwrite|merge|everything)=True\b", r"--\1", message)


def _hole_beside(error: Exception) -> str:
    """The text to add to an error about a local file, if the file has a range of zeros. An incomplete copy can leave
    such a range. The text is empty if there is no such range."""
    from orcidx.errors import CorruptFile, StorageError

    name = error.file if isinstance(error, CorruptFile) and error.stripe is not None else None
    if name is None or not os.path.isfile(name):
        return ""
    from orcidx.inspection.holes import describe_hole, find_hole
    from orcidx.storage import open_reader

    try:
        with closing(open_reader(name)) as storage:
            hole = find_hole(storage)
    except (OSError, StorageError):  # then only the original error is reported
        return ""
    return "" if hole is None else f"; {describe_hole(hole)}"
