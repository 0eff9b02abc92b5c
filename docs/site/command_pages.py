"""Makes the page with all commands from the commands themselves, so that the page is never out of date."""

from __future__ import annotations

from collections.abc import Iterator

import click

from orcidx.cli import _orcidx

__all__ = ["commands", "page"]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yields every command with its full name. A group comes before its commands."""
    yield from _below("orcidx", _orcidx)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for word in command.list_commands(context):
            child = command.get_command(context, word)
            if child is not None and not child.hidden:
                yield from _below(f"{name} {word}", child)


def page() -> str:
    """Returns the page as Markdown."""
    parts = [
        "# Every command\n\nThis page is generated from `--help`. [The command line](cli.md) has the exit codes and "
        "the structure of the JSON output.\n"
    ]
    for name, command in commands():
        context = click.Context(command, info_name=name)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        parts.append(f"## {name}\n\n```text\n{usage}\n```\n\n{_text(command.help or '')}\n")
        rows = [row for option in command.get_params(context) if (row := _row(option, context))]
        if rows:
            parts.append("| option | means |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _text(help_text: str) -> str:
    """Returns the help text as Markdown. As in click, a paragraph after ``\\b`` keeps its line ends."""
    done = []
    for paragraph in help_text.replace("\f", "").split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            done.append("```text\n" + "\n".join(lines[1:]) + "\n```")
        else:
            done.append(" ".join(line.strip() for line in lines).replace("<", "&lt;").replace("*", "\\*"))
    return "\n\n".join(done)


def _row(parameter: click.Parameter, context: click.Context) -> str | None:
    record = parameter.get_help_record(context)
    if record is None:  # an argument has no help text; the usage line names it
        return None
    names, text = (" ".join(part.split()).replace("|", "\\|") for part in record)
    return f"| `{names}` | {text.replace('<', '&lt;').replace('*', chr(92) + '*')} |"
