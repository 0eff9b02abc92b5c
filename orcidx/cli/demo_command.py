"""``orcidx demo`` shows the main functions on a small real file that comes with the package."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from orcidx.cli.output import print_table
from orcidx.extras import installed, what_to_install
from orcidx.spellings import counted

__all__ = ["demo"]

SHOWN = ["l_orderkey", "l_partkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_shipmode"]


@click.command()
@click.option("--path", is_flag=True, help="Only print the path of the file, for use with other commands.")
def demo(path: bool) -> None:
    """Show rows, statistics and explained queries of a file that Spark wrote. The file comes with orcidx."""
    import orcidx
    from orcidx import col

    queries = (
        col("l_shipdate").between(datetime.date(1995, 3, 1), datetime.date(1995, 3, 3)),
        col("l_orderkey") == 3712,
        col("l_orderkey") == 1000,
    )
    file = Path(__file__).with_name("demo") / "lineitem.orc"
    if path:
        click.echo(file)
        return
    with orcidx.open(file) as f:
        click.echo(f"{file.name}: {f.num_rows:,} rows in {len(f.stripes)} stripes, {f.compression}, written by Spark\n")
        click.echo("The first rows:")
        rows = f.scan(SHOWN, limit=5).to_table()
        print_table(SHOWN, zip(*[column.to_pylist() for column in rows.columns], strict=True))
        click.echo("\nStatistics in the file:")
        statistics = [(name, f.statistics(name)) for name in SHOWN]
        print_table(
            ["column", "values", "nulls", "min", "max"],
            [(name, s.count, s.has_null, s.minimum, s.maximum) for name, s in statistics if s is not None],
        )
        for where in queries:
            scan = f.scan(SHOWN, where)
            click.echo(f"\n{scan.explain()}")
            with scan.to_batches() as batches:
                found = sum(batch.num_rows for batch in batches)
                read = batches.metrics
            click.echo(f"Found {counted(found, 'row')}; {read.work}.")
    if not installed("sqlglot"):
        click.echo(f"\n{what_to_install('sqlglot')}")
    click.echo('\nTry: orcidx explain "$(orcidx demo --path)" --where "l_shipdate < date \'1993-01-01\'"')
