"""What the text of a condition means to Spark, where orcidx's own SQL differs."""

from __future__ import annotations

from typing import Any

from orcidx.predicate import Leaf, Op, Predicate, any_of, parse
from orcidx.predicate.fold import Part, rewritten

__all__ = ["parse_text"]


def parse_text(where: Any) -> Predicate:
    """As ``parse``; a text has Spark's meaning: isnan(NULL) is false there, so that its negation holds for nulls."""
    found = parse(where)
    return rewritten(found, _of_spark) if isinstance(where, str) else found


def _of_spark(node: Part) -> Any:
    if isinstance(node, Leaf) and node.op is Op.IS_NAN and node.negated:
        return any_of(node, Leaf(node.path, Op.IS_NULL))
    return node
