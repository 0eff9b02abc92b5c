"""The rows of a scan as a data frame of pandas, Polars or DuckDB. These libraries are imported when they are used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx.errors import Unsupported
from orcidx.extras import needed
from orcidx.orc.frame_metadata import as_given

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

__all__ = ["duckdb_relation", "pandas_frame", "polars_frame", "refuse_unions"]


def _library(name: str) -> ModuleType:
    with needed(name):
        return importlib.import_module(name)


def pandas_frame(table: pa.Table, options: dict[str, Any]) -> pd.DataFrame:
    """A pandas DataFrame. ``options``: the arguments of ``pyarrow.Table.to_pandas``."""
    _library("pandas")
    refuse_unions(table.schema, "pandas")
    if options.get("ignore_metadata") or not table.schema.metadata:
        return table.to_pandas(**options)
    try:
        return as_given(table).to_pandas(**options)
    except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError, pa.ArrowException):
        # The pandas metadata of the table may be damaged in any way, so the conversion is repeated without the
        # metadata. If the metadata is not the cause, the same error is raised again.
        return table.replace_schema_metadata(None).to_pandas(**options)


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """A Polars DataFrame. Columns are not copied if Polars has their type."""
    library = _library("polars")
    refuse_unions(table.schema, "Polars")
    frame: pl.DataFrame = library.from_arrow(table)
    return frame


def refuse_unions(schema: pa.Schema, library: str) -> None:
    """Raises ``Unsupported`` for a column with a union, because pandas and Polars have no type for unions. The message
    names the column."""
    for field in schema:
        if _has_union(field.type):
            raise Unsupported(
                f"{library} has no type for unions: leave the column out with columns=, or take Arrow tables",
                column=field.name,
            )


def _has_union(kind: Any) -> bool:
    if pa.types.is_union(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_union(kind.field(i).type) for i in range(kind.num_fields))


def duckdb_relation(table: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Returns a DuckDB relation over the table, in ``connection`` or in DuckDB's default connection."""
    return (connection or _library("duckdb")).from_arrow(table)
