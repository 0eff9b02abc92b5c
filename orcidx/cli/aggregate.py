"""``orcidx aggregate`` computes totals of the rows of files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

import click

from orcidx.cli.arguments import (
    as_json,
    fresh_option,
    parse_columns,
    scan_from,
    sources_argument,
    storage_option,
    where_option,
)
from orcidx.cli.rows import print_rows
from orcidx.errors import InvalidQuery

if TYPE_CHECKING:
    import pyarrow as pa
from orcidx.spellings import counted, size_text

__all__ = ["aggregate", "by_option", "explain_option", "parse_select", "print_totals", "select_option"]

select_option = click.option(
    "-s", "--select", required=True, metavar="TEXT", help='For example: "count(*), sum(price) as total".'
)
by_option = click.option(
    "--by", metavar="A,B.C", help="Group by these columns: names or dotted paths, separated by commas."
)
explain_option = click.option(
    "--explain", is_flag=True, help="Print on standard error for how many rows metadata, indexes or data were used."
)

_BETWEEN = re.compile(r""",(?=(?:[^"`]|"[^"]*"|`[^`]*`)*$)(?![^()]*\))""")
"""Matches a comma outside of quotes and parentheses."""
_NAMED = re.compile(r'(.*\S)(?:\s+as|(?<=\)))\s+("[^"]+"|`[^`]+`|\w+)', re.IGNORECASE | re.DOTALL)
"""Matches a call and its name. SQL allows AS to be left out before the name."""


def parse_select(text: str) -> dict[str, str]:
    """Parses ``count(*), sum(price) as total, avg(price) mean`` into calls by name. A call without a name is named by
    its own text."""
    found: dict[str, str] = {}
    for part in (part.strip() for part in _BETWEEN.split(text)):
        named = _NAMED.fullmatch(part)
        name, call = (named[2].strip('"`'), named[1]) if named else (part, part)
        if name in found:
            raise InvalidQuery(f"two results have the name {name!r}; give one of them another name with AS")
        found[name] = call
    return found


@click.command()
@sources_argument
@select_option
@by_option
@as_json
@where_option
@storage_option
@fresh_option
@explain_option
def aggregate(
    sources: tuple[str, ...],
    select: str,
    by: str | None,
    as_json: bool,
    where: str | None,
    storage_options: tuple[str, ...],
    *,
    fresh: Literal["listing", "catalog"],
    explain: bool,
) -> None:
    """Compute totals of the rows of SOURCES. Rows are not read if statistics prove the result.

    The totals are count, sum, min, max, avg, and quantile_disc(price, 0.5).
    """
    scan = scan_from(sources, storage_options, None, where, timestamp_unit="us", fresh=fresh)
    print_totals(scan.aggregate(parse_select(select), parse_columns(by)), as_json=as_json, explain=explain)


def print_totals(result: pa.Table, *, as_json: bool, explain: bool) -> None:
    """Prints the rows. If ``explain`` is set, also prints on standard error for how many rows the totals come from the
    catalog, from metadata, from indexes or from the data, and how much was read."""
    print_rows(result.column_names, iter(result.to_batches()), as_json=as_json, table=True)
    if explain:
        facts = json.loads(result.schema.metadata[b"orcidx"])
        rows = ", ".join(f"{count:,} from {origin}" for origin, count in facts["rows"].items())
        read = f"{size_text(facts['bytes_read'])} in {counted(facts['requests'], 'request')}"
        click.echo(f"rows: {rows or 'none'}; read {read}", err=True)
        for note in facts.get("notes", ()):
            click.echo(f"note: {note}", err=True)
