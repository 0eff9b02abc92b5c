"""What of a condition of Spark's can rule out files: read from the expression as Spark has analysed it, not from text.

Spark's analysis has resolved columns, casts, functions and variables; the constant parts are folded by its own rules. A
comparison of a bare column with a literal of the column's own type becomes a predicate, anything else is unknown. For
each node two predicates are kept, one that holds wherever it may be true and one wherever it may be false, so that NOT
changes their places and what is unknown below OR makes the whole unknown.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from orcidx.orc.timezones import Zone, load_zone
from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.nodes import ExactTime
from orcidx.spark.argument_types import JavaObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = ["Condition", "Nodes", "analysed", "condition_of_json", "conjuncts", "part_of_json"]

_NOW = frozenset({"CurrentDate", "CurrentTimestamp", "Now", "LocalTimestamp", "CurrentTime", "CurrentBatchTimestamp"})
"""What has another value at every action: a file is left out once and for all only by what holds at each."""
_GROWS = _NOW | {
    "Literal", "Cast", "DateAdd", "DateSub", "DateAddInterval", "DateAddYMInterval", "AddMonths", "TruncDate",
    "TruncTimestamp", "TimeAdd", "TimestampAddInterval", "TimestampAddYMInterval",
}  # fmt: skip
"""What never falls as time goes on: the time itself, moved by a constant or cut to a unit."""
_SLACK = dt.timedelta(days=1)
"""Clocks of machines, and the hour that comes twice, may set a later action back by less."""
_RULES = ("ReplaceExpressions", "ConstantFolding", "UnwrapCastInBinaryComparison")
"""Spark's own rules that leave a bare column on one side of a comparison, and a literal on the other."""
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_INTEGERS = ("byte", "short", "integer", "long")
_EARLIEST = dt.date(1901, 1, 1)
"""Before it calendars and clocks of writers and readers may differ (docs/decisions/0014)."""
_LATEST = dt.date(2037, 1, 1)
_COMPARISONS = {
    "EqualTo": Op.EQ,
    "EqualNullSafe": Op.EQ_NULL_SAFE,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
    "StartsWith": Op.STARTS_WITH,
    "EndsWith": Op.ENDS_WITH,
    "Contains": Op.CONTAINS,
}
_TURNED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.EQ_NULL_SAFE: Op.EQ_NULL_SAFE}
_ANY = Constant(True)

Nodes = list[dict[str, Any]]
"""An expression in Catalyst's JSON: its nodes in preorder."""


@dataclass(frozen=True)
class Condition:
    """``may``: true of every row of which the condition is; ``columns``: that it names; ``obstacle``: why nothing may
    be left out by it, None where something may."""

    may: Predicate
    columns: frozenset[str]
    obstacle: str | None = None


@dataclass(frozen=True)
class _Column:
    name: str
    kind: str


@dataclass(frozen=True)
class _Literal:
    value: Any
    kind: str


@dataclass(frozen=True)
class _Truth:
    """Predicates that hold wherever a node may be true, and wherever it may be false."""

    true: Predicate = _ANY
    false: Predicate = _ANY


_UNKNOWN = _Truth()


def analysed(filtered: DataFrame, columns: frozenset[str], clock_zone: str, *, collated: frozenset[str]) -> Condition:
    """The condition of a DataFrame that was made by one filter, over a relation of ``columns``. Classic sessions only.

    ``clock_zone``: of the JVM, on whose clock Spark writes times down in its plans; ``collated``: columns of text that
    is not compared by its bytes, of which Catalyst's JSON does not tell.
    """
    jvm = filtered.sparkSession._jvm
    plan = filtered._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Filter":  # as for _metadata, whose columns are added below it
        return Condition(_ANY, columns, "Spark asks for more than columns of the files")
    condition = plan.condition()
    before = _with_collations(condition.toJSON(), collated)
    obstacle = None if condition.deterministic() else "it is not deterministic"
    if obstacle := obstacle or _obstacle(before, columns):
        return Condition(_ANY, _columns_of(before), obstacle)
    for rule in _rules(jvm):
        plan = rule.apply(plan)
    nodes = _with_collations(plan.condition().toJSON(), collated)
    parts = conjuncts(before)
    if not any(map(_asks_the_time, parts)):
        return Condition(condition_of_json(nodes, load_zone(clock_zone)), _columns_of(before))
    folded = conjuncts(nodes)
    if len(folded) != len(parts):
        return Condition(_ANY, _columns_of(before), "it asks for the time of each action")
    may = [part_of_json(one, now, load_zone(clock_zone)) for one, now in zip(parts, folded)]
    return Condition(all_of(*may), _columns_of(before))


def _with_collations(text: str, collated: frozenset[str]) -> Nodes:
    nodes: Nodes = json.loads(text)
    for node in nodes:
        if collated and node.get("name") in collated:
            node["dataType"] = "collated string"
    return nodes


@lru_cache(maxsize=1)
def _rules(jvm: JavaObject) -> list[JavaObject]:
    """Objects of the JVM, as long as it lives."""
    names = (f"org.apache.spark.sql.catalyst.optimizer.{name}$" for name in _RULES)
    return [jvm.java.lang.Class.forName(name).getField("MODULE$").get(None) for name in names]


def conjuncts(nodes: Nodes) -> list[Nodes]:
    """The parts of a condition that are all to be true, each with its nodes in preorder."""
    parts, at = [], 0
    while at < len(nodes):
        if _name(nodes[at]) == "And":
            at += 1
            continue
        end = _end(nodes, at)
        parts.append(nodes[at:end])
        at = end
    return parts


def _end(nodes: Nodes, at: int) -> int:
    """Where the expression that begins at a node ends."""
    wanted = 1
    while wanted:
        wanted += nodes[at]["num-children"] - 1
        at += 1
    return at


def _inlined(nodes: Nodes) -> Nodes:
    """The expression with a bare column in all its places, where Spark (since 4.0) names it once and refers to it: it
    does so of BETWEEN. References have no numbers in JSON, so one of several names, or inside another, stays."""
    found: Nodes = []
    at = 0
    while at < len(nodes):
        if _name(nodes[at]) != "With":
            found.append(nodes[at])
            at += 1
            continue
        end = _end(nodes, at)
        middle = _end(nodes, at + 1)
        body, named = nodes[at + 1 : middle], nodes[middle + 1 : end]
        if nodes[at]["num-children"] == 2 and len(named) == 1 and not any(_name(one) == "With" for one in body):
            found += [named[0] if _name(one) == "CommonExpressionRef" else one for one in body]
        else:
            found += nodes[at:end]
        at = end
    return found


def part_of_json(before: Nodes, folded: Nodes, clock: Zone) -> Predicate:
    """What holds wherever a conjunct may be true, at any action from now on.

    ``folded``: the same with the time of now. A column at or after a time that only grows is after today's; of
    anything else that asks the time nothing is known.
    """
    may = condition_of_json(folded, clock)
    if not _asks_the_time(before):
        return may
    name = _name(before[0])
    if name in ("GreaterThan", "GreaterThanOrEqual"):
        column, grows = before[1], before[2:]
    elif name in ("LessThan", "LessThanOrEqual"):
        column, grows = before[-1], before[1:-1]
    else:
        return _ANY
    if _name(column) != "AttributeReference" or not all(_name(one) in _GROWS for one in grows):
        return _ANY
    if not isinstance(may, Leaf) or may.op not in (Op.GT, Op.GE):
        return _ANY
    (value,) = may.literals
    if isinstance(value, ExactTime):
        return replace(
            may, literals=(replace(value, nanos=value.nanos - _SLACK // dt.timedelta(microseconds=1) * 1000),)
        )
    return replace(may, literals=(value - _SLACK,)) if isinstance(value, dt.date) else _ANY


def _asks_the_time(nodes: Nodes) -> bool:
    return any(_name(one) in _NOW for one in nodes)


def _name(node: Mapping[str, Any]) -> str:
    whole: str = node["class"]
    return whole.rpartition(".")[2]


def _columns_of(nodes: Nodes) -> frozenset[str]:
    return frozenset(one["name"] for one in nodes if one["class"].endswith(".AttributeReference"))


def _obstacle(nodes: Nodes, columns: frozenset[str]) -> str | None:
    """Why a condition is no ground to leave files out, though Spark takes it."""
    for node in nodes:
        name = _name(node)
        if "UDF" in name or "Subquery" in name or name in ("Exists", "ListQuery", "OuterReference"):
            return f"it has {'an' if name[0] in 'AEIOU' else 'a'} {name}"
        if name == "AttributeReference" and node["name"] not in columns:
            return f"it asks for {node['name']}, which is no column of the files"
    return None


def condition_of_json(nodes: Nodes, clock: Zone) -> Predicate:
    """What holds wherever an expression, in Catalyst's JSON (its nodes in preorder), may be true."""
    stack: list[Any] = []
    for node in reversed(_inlined(nodes)):
        children = [stack.pop() for _ in range(node["num-children"])]
        stack.append(_node(node, children, clock))
    return _as_truth(stack.pop()).true


def _node(node: Mapping[str, Any], children: list[Any], clock: Zone) -> Any:
    name = _name(node)
    if name == "AttributeReference":
        plain = isinstance(node["dataType"], str) and _CHAR_TYPE not in (node.get("metadata") or {})
        return _Column(node["name"], node["dataType"]) if plain else _UNKNOWN
    if name == "Literal":
        return _literal(node, clock)
    if name in ("And", "Or"):
        left, right = (_as_truth(one) for one in children)
        if name == "And":
            return _Truth(all_of(left.true, right.true), any_of(left.false, right.false))
        return _Truth(any_of(left.true, right.true), all_of(left.false, right.false))
    if name == "Not":
        truth = _as_truth(children[0])
        return _Truth(truth.false, truth.true)
    leaf = _leaf(name, node, children)
    if leaf is None:
        return _UNKNOWN
    if leaf.op is Op.IS_NAN:  # Spark's isnan(NULL) is false, where it is NULL here
        return _Truth(leaf, any_of(~leaf, Leaf(leaf.path, Op.IS_NULL)))
    return _Truth(leaf, ~leaf)


def _as_truth(value: object) -> _Truth:
    if isinstance(value, _Truth):
        return value
    if isinstance(value, _Column) and value.kind == "boolean":
        leaf = Leaf((value.name,), Op.EQ, (True,))
        return _Truth(leaf, ~leaf)
    if isinstance(value, _Literal) and value.kind in ("boolean", "void"):
        return _Truth(Constant(value.value is True), Constant(value.value is False))
    return _UNKNOWN


def _leaf(name: str, node: Mapping[str, Any], children: list[Any]) -> Any:
    """The question that a node asks of a bare column; None for anything else."""
    column, *rest = children or [None]
    op = _COMPARISONS.get(name)
    if op is not None and isinstance(column, _Literal) and len(rest) == 1 and op in _TURNED:
        column, rest, op = rest[0], [column], _TURNED[op]
    if not isinstance(column, _Column):
        return None
    path = (column.name,)
    if name in ("IsNull", "IsNotNull"):
        return Leaf(path, Op.IS_NULL, (), name == "IsNotNull")
    if name == "IsNaN":
        return Leaf(path, Op.IS_NAN)
    if not rest or not all(isinstance(one, _Literal) and one.kind == column.kind for one in rest):
        return None
    values = [one.value for one in rest]
    if any(value is None for value in values) or not _understood(column.kind):
        return None
    if name == "In":
        return Leaf(path, Op.IN, tuple(values))
    if name == "Like" and node.get("escapeChar") in ("\\", None) and "\\" not in values[0]:
        return Leaf(path, Op.LIKE, (values[0], ""))
    return Leaf(path, op, (values[0],)) if op is not None else None


# ---------------------------------------------------------------------- literals


def _literal(node: Mapping[str, Any], clock: Zone) -> Any:
    kind, text = node["dataType"], node["value"]
    if not isinstance(kind, str):
        return _UNKNOWN
    if text is None:
        return _Literal(None, kind)
    if kind == "timestamp":
        value: Any = _instant(text, clock)
    else:
        base = "decimal" if kind.startswith("decimal") else kind
        value = _READERS[base](text) if base in _READERS else None
    return _UNKNOWN if value is None else _Literal(value, kind)


def _date(text: str) -> dt.date | None:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return None
    return day if day >= _EARLIEST else None


def _instant(text: str, clock: Zone) -> ExactTime | None:
    """A time as ``java.sql.Timestamp`` shows it, where that names one moment."""
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{1,9})", text)
    day = None if match is None else _date(match[1])
    if match is None or day is None or not _EARLIEST < day < _LATEST:
        return None
    wall = (day - dt.date(1970, 1, 1)).days * 86400 + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    offsets = set(clock.offsets_near(wall))
    offsets = {one for one in offsets if int(clock.offsets_at(np.array([wall - one]))[0]) == one}
    if len(offsets) != 1:
        return None
    return ExactTime((wall - offsets.pop()) * 1_000_000_000 + int(match[5].ljust(9, "0")), "UTC")


_READERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: {"true": True, "false": False}.get(text),
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "string": str,
    "date": _date,
    "decimal": decimal.Decimal,
    "float": lambda text: float(np.float32(text)),
    "double": float,
}


def _understood(kind: str) -> bool:
    return kind in _READERS or kind == "timestamp" or kind.startswith("decimal(")
