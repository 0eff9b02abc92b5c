"""orcidx on Spark: read ORC files and Paimon tables with all of orcidx's pruning, as DataFrames.

Names load when they are first used; pyspark is imported by then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcidx.spark.reading import read
    from orcidx.spark.sessions import session

__all__ = ["read", "session"]

_HOMES = {
    "read": "orcidx.spark.reading",
    "session": "orcidx.spark.sessions",
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
