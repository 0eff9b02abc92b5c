"""Applies rules of Spark's optimizer to a condition, so that its constants are computed."""

from __future__ import annotations

from functools import lru_cache

from orcidx.spark.sessions.spark_errors import raised_as_invalid_query
from orcidx.spark.types.argument_types import JavaObject

__all__ = ["folded_plan"]

_RULES = ("ReplaceExpressions", "ConstantFolding", "UnwrapCastInBinaryComparison")
"""Rules of Spark's optimizer. After these rules, a comparison has a bare column on one side and a literal on the other
side."""


@lru_cache(maxsize=1)
def _rules(jvm: JavaObject) -> list[JavaObject]:
    """The rules ``_RULES`` as objects of the JVM. They are kept as long as the JVM runs."""
    names = (f"org.apache.spark.sql.catalyst.optimizer.{name}$" for name in _RULES)
    return [jvm.java.lang.Class.forName(name).getField("MODULE$").get(None) for name in names]


def folded_plan(plan: JavaObject, condition: JavaObject, jvm: JavaObject) -> JavaObject:
    """Applies ``_RULES`` to a plan. The rules compute constants, so a cast in ANSI SQL can fail here as in every
    query."""
    with raised_as_invalid_query(condition, "compute"):
        for rule in _rules(jvm):
            plan = rule.apply(plan)
    return plan
