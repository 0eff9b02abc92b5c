"""What the text of a condition means to Spark, where orcidx's own SQL differs."""

from __future__ import annotations

from typing import Any

from orcidx.predicate import And, Leaf, Op, Or, Predicate, all_of, any_of, parse

__all__ = ["parse_text"]


def parse_text(where: Any) -> Predicate:
    """As ``parse``; a text has Spark's meaning: isnan(NULL) is false there, so that its negation holds for nulls."""
    found = parse(where)
    return _of_spark(found) if isinstance(where, str) else found


def _of_spark(node: Any) -> Any:
    if isinstance(node, And | Or):
        return (all_of if isinstance(node, And) else any_of)(*map(_of_spark, node.children))
    if isinstance(node, Leaf) and node.op is Op.IS_NAN and node.negated:
        return any_of(node, Leaf(node.path, Op.IS_NULL))
    return node
