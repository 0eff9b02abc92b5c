"""The ``orcidx`` command. One module per group of commands; each is imported when its command runs.

Exit codes: 0 done; 1 a negative answer (a check that found something); 2 a wrong call; 3 a damaged or unsupported file;
4 storage.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from contextlib import closing
from typing import Any

import click

__all__ = ["main"]

_COMMANDS = {
    "schema": ("orcidx.cli.inspect", "schema"),
    "meta": ("orcidx.cli.inspect", "meta"),
    "stats": ("orcidx.cli.inspect", "stats"),
    "sizes": ("orcidx.cli.layout", "sizes"),
    "streams": ("orcidx.cli.layout", "streams"),
    "check": ("orcidx.cli.check", "check"),
    "validate": ("orcidx.cli.check", "validate"),
    "cat": ("orcidx.cli.rows", "cat"),
    "head": ("orcidx.cli.rows", "head"),
    "count": ("orcidx.cli.rows", "count"),
    "scan": ("orcidx.cli.rows", "scan"),
    "aggregate": ("orcidx.cli.aggregate", "aggregate"),
    "explain": ("orcidx.cli.explain", "explain"),
    "may-contain": ("orcidx.cli.may_contain", "may_contain"),
    "rewrite": ("orcidx.cli.rewrite", "rewrite"),
    "merge": ("orcidx.cli.rewrite", "merge"),
    "convert": ("orcidx.cli.rewrite", "convert"),
    "report": ("orcidx.cli.report", "report"),
    "index": ("orcidx.cli.index", "index"),
    "dv": ("orcidx.cli.deletion_vectors", "dv"),
    "table": ("orcidx.cli.table_changes", "table"),
    "completion": ("orcidx.cli.check", "completion"),
    "demo": ("orcidx.cli.demo_command", "demo"),
}


class _LazyGroup(click.Group):
    """Commands are imported by name, so that ``orcidx meta`` does not pay for what ``orcidx scan`` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
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
    """Whoever read our output has gone, as ``head`` does: nothing is wrong."""


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="orcidx")
@click.option("--debug", is_flag=True, help="Show Python tracebacks instead of one line.")
def _orcidx(debug: bool) -> None:
    """Read, write, inspect and explain ORC files; Apache Paimon indexes, deletion vectors and tables."""


def main(args: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    words = sys.argv[1:] if args is None else args
    sys.exit(_run(args, debug="--debug" in words))


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
            click.echo(f"orcidx: {error}{_hole_beside(error)}", err=True)
        if isinstance(error, InvalidQuery):
            return 2
        return 4 if isinstance(error, OSError) else 3


def _hole_beside(error: Exception) -> str:
    """What a stretch of zeros adds to an error about a local file's bytes: damage is mostly a copy that broke off."""
    from orcidx.errors import CorruptFile, StorageError

    name = error.file if isinstance(error, CorruptFile) and error.stripe is not None else None
    if name is None or not os.path.isfile(name):
        return ""
    from orcidx.inspection.holes import describe_hole, find_hole
    from orcidx.storage import open_reader

    try:
        with closing(open_reader(name)) as storage:
            hole = find_hole(storage)
    except (OSError, StorageError):  # the error itself is told either way
        return ""
    return "" if hole is None else f"; {describe_hole(hole)}"
