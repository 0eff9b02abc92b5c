"""orcidx on Spark. Reads ORC files and Paimon tables as DataFrames with all of orcidx's pruning, and builds indexes of
directories.

The names of this package are imported when they are first used. pyspark is imported then, too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcidx.spark.jobs.build_index import build_file_index, refresh
    from orcidx.spark.jobs.explaining import explain
    from orcidx.spark.jobs.rewrite_directory import recover, rewrite
    from orcidx.spark.jobs.table_changes import append, delete, rewrite_file_index
    from orcidx.spark.jobs.totals import aggregate
    from orcidx.spark.jobs.upkeep import clean, describe, summarize
    from orcidx.spark.reading import read, why
    from orcidx.spark.registering import register
    from orcidx.spark.sessions.shipping import pack
    from orcidx.spark.sessions.spark_session import session
    from orcidx.spark.sql_queries import disable, enable, sql

__all__ = [
    "aggregate",
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
    "aggregate": "orcidx.spark.jobs.totals",
    "append": "orcidx.spark.jobs.table_changes",
    "delete": "orcidx.spark.jobs.table_changes",
    "rewrite_file_index": "orcidx.spark.jobs.table_changes",
    "build_file_index": "orcidx.spark.jobs.build_index",
    "clean": "orcidx.spark.jobs.upkeep",
    "describe": "orcidx.spark.jobs.upkeep",
    "disable": "orcidx.spark.sql_queries",
    "enable": "orcidx.spark.sql_queries",
    "explain": "orcidx.spark.jobs.explaining",
    "pack": "orcidx.spark.sessions.shipping",
    "read": "orcidx.spark.reading",
    "refresh": "orcidx.spark.jobs.build_index",
    "recover": "orcidx.spark.jobs.rewrite_directory",
    "rewrite": "orcidx.spark.jobs.rewrite_directory",
    "register": "orcidx.spark.registering",
    "session": "orcidx.spark.sessions.spark_session",
    "sql": "orcidx.spark.sql_queries",
    "summarize": "orcidx.spark.jobs.upkeep",
    "why": "orcidx.spark.reading",
}
"""Maps each public name to its module."""


# Type checkers do not see this function. If they saw it, they would accept misspelt names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'orcidx.spark' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
