"""orcidx on Spark: read ORC files and Paimon tables with all of orcidx's pruning, as DataFrames, and index directories.

Names load when they are first used; pyspark is imported by then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcidx.spark.build_index import build_file_index, refresh
    from orcidx.spark.explaining import explain
    from orcidx.spark.reading import read, why
    from orcidx.spark.registering import register
    from orcidx.spark.rewrite_directory import recover, rewrite
    from orcidx.spark.sessions import session
    from orcidx.spark.shipping import pack
    from orcidx.spark.sql_queries import disable, enable, sql
    from orcidx.spark.table_changes import append, delete, rewrite_file_index
    from orcidx.spark.upkeep import clean, describe, summarize

__all__ = [
    "append",
    "build_file_index",
    "clean",
    "delete",
    "describe",
    "disable",
    "enable",
    "explain",
    "pack",
    "read",
    "recover",
    "refresh",
    "register",
    "rewrite",
    "rewrite_file_index",
    "session",
    "sql",
    "summarize",
    "why",
]

_HOMES = {
    "append": "orcidx.spark.table_changes",
    "delete": "orcidx.spark.table_changes",
    "rewrite_file_index": "orcidx.spark.table_changes",
    "build_file_index": "orcidx.spark.build_index",
    "clean": "orcidx.spark.upkeep",
    "describe": "orcidx.spark.upkeep",
    "disable": "orcidx.spark.sql_queries",
    "enable": "orcidx.spark.sql_queries",
    "explain": "orcidx.spark.explaining",
    "pack": "orcidx.spark.shipping",
    "read": "orcidx.spark.reading",
    "refresh": "orcidx.spark.build_index",
    "recover": "orcidx.spark.rewrite_directory",
    "rewrite": "orcidx.spark.rewrite_directory",
    "register": "orcidx.spark.registering",
    "session": "orcidx.spark.sessions",
    "sql": "orcidx.spark.sql_queries",
    "summarize": "orcidx.spark.upkeep",
    "why": "orcidx.spark.reading",
}
"""Public name to its module."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'orcidx.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
