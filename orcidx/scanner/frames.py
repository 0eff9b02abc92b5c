"""The rows of a scan as a data frame of pandas, Polars or DuckDB, which are imported when they are asked for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orcidx.extras import needed

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["duckdb_relation", "pandas_frame", "polars_frame"]


def _library(name: str) -> ModuleType:
    with needed(name):
        return importlib.import_module(name)


def pandas_frame(table: pa.Table, options: dict[str, Any]) -> pd.DataFrame:
    """A pandas DataFrame; ``options`` are those of ``pyarrow.Table.to_pandas``."""
    _library("pandas")
    return table.to_pandas(**options)


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """A Polars DataFrame, without a copy where Polars has the type."""
    frame: pl.DataFrame = _library("polars").from_arrow(table)
    return frame


def duckdb_relation(table: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """A DuckDB relation over the table, in ``connection`` or in DuckDB's own default one."""
    return (connection or _library("duckdb")).from_arrow(table)
