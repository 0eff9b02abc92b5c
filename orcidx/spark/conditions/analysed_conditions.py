"""Finds the parts of a condition that can skip files. It uses the expression that Spark has analysed, not its text.

Spark's analysis has resolved columns, casts, functions and variables. Rules of Spark then compute the constant parts. A
comparison of a column itself with a literal of the column's own type becomes a predicate. Anything else is unknown.
Each node has two predicates. One predicate is true for every row for which the node may be true. The other predicate is
true for every row for which the node may be false. NOT swaps the two predicates. An unknown part below OR makes the
whole OR unknown."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orcidx.orc.timezones import Zone, load_zone
from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import rewritten
from orcidx.spark.conditions.constant_folding import folded_plan
from orcidx.spark.conditions.floored_times import in_micros
from orcidx.spark.types.argument_types import JavaObject
from orcidx.spark.types.literal_values import (
    UNKNOWN_VALUE,
    Nodes,
    is_understood,
    literal_value,
    wall_clock,
    with_instants,
    with_values,
)
from orcidx.spark.types.spark_types import CHAR_TYPE, DEFAULT, NESTED_CHAR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = [
    "Condition",
    "Nodes",
    "analysed",
    "analysed_conjuncts",
    "condition_of_json",
    "part_of_json",
    "pushed_predicate",
]

_CURRENT_TIMES = frozenset(
    {"CurrentDate", "CurrentTimestamp", "Now", "LocalTimestamp", "CurrentTime", "CurrentBatchTimestamp"}
)
"""Functions whose value differs between the actions of a DataFrame. A file may be skipped only if it has no matching
row in every action."""
_NONDECREASING = _CURRENT_TIMES | {
    "Literal", "Cast", "DateAdd", "DateSub", "DateAddInterval", "DateAddYMInterval", "AddMonths", "TruncDate",
    "TruncTimestamp", "TimeAdd", "TimestampAddInterval", "TimestampAddYMInterval",
}  # fmt: skip
"""Functions whose value never decreases with time: the time itself, moved by a constant or truncated to a unit."""
_CLOCK_SLACK = dt.timedelta(days=1)
"""The time of a later action may be earlier than the present time, by less than this value. This happens because clocks
of machines differ, and because an hour repeats when summer time ends."""
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
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.EQ_NULL_SAFE: Op.EQ_NULL_SAFE}
_OF_FILES = frozenset({"InputFileName", "InputFileBlockStart", "InputFileBlockLength"})
"""Functions to which only Spark's own file reader gives a value."""
_QUERIES = frozenset({"Exists", "ListQuery", "OuterReference"})
_ANY = Constant(True)


@dataclass(frozen=True)
class Condition:
    """A condition that Spark has analysed.

    ``may``: a predicate that is true for every row for which the condition is true. ``columns``: the columns that the
    condition names. ``obstacle``: the reason why no file can be skipped by the condition, or None. ``untestable``: if
    only some parts of the condition can be used to skip files, the reason for each of the other parts."""

    may: Predicate
    columns: frozenset[str]
    obstacle: str | None = None
    untestable: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    """A column of the relation. ``is_char``: whether values are compared as if they were padded. ``zone``: the time
    zone that converts the column's times to instants."""

    path: tuple[str, ...]
    kind: str
    is_char: bool = False
    zone: Zone | None = None


@dataclass(frozen=True)
class _Struct:
    path: tuple[str, ...]
    fields: list[Any]


@dataclass(frozen=True)
class _Literal:
    value: Any
    kind: str


@dataclass(frozen=True)
class _Truth:
    """The two predicates of a node. ``true`` holds for every row for which the node may be true. ``false`` holds for
    every row for which the node may be false.

    ``exact``: whether the two predicates hold for no other rows.
    """

    true: Predicate = _ANY
    false: Predicate = _ANY
    exact: bool = False


_UNKNOWN = _Truth()


def analysed(filtered: DataFrame, columns: frozenset[str], *, collated: frozenset[str]) -> Condition:
    """The condition of a DataFrame that consists of one filter on a relation. ``columns`` are the columns of the
    relation. Only classic sessions are supported.

    ``collated``: text columns that are not compared by their bytes. This argument is needed because Catalyst's JSON
    does not show collations."""
    jvm = filtered.sparkSession._jvm
    plan = filtered._jdf.queryExecution().analyzed()
    # For example, for a condition with _metadata, Spark adds columns below the filter and a further node above it.
    if plan.getClass().getSimpleName() != "Filter":
        return Condition(_ANY, columns, "it uses more than columns of the files")
    condition = plan.condition()
    before = _nodes(condition, columns, collated)
    parts, named = analysed_conjuncts(before), _named_by(before, columns)
    reasons = _untestable_reasons(condition, parts, columns)
    untestable = tuple(dict.fromkeys(one for one in reasons if one is not None))
    if None not in reasons:
        return Condition(_ANY, named, untestable[0])
    condition = folded_plan(plan, condition, jvm).condition()
    nodes = with_instants(_nodes(condition, columns, collated), condition)
    if not untestable and not any(map(_uses_current_time, parts)):
        return Condition(rewritten(condition_of_json(nodes, load_zone("UTC")), in_micros), named)
    folded = analysed_conjuncts(nodes)
    if len(folded) != len(parts):
        return Condition(_ANY, named, (*untestable, "its value depends on the time of each action")[0])
    may = _testable_predicate(parts, folded, reasons, load_zone("UTC"))
    return Condition(rewritten(may, in_micros), named, untestable=untestable)


def pushed_predicate(
    filtered: DataFrame, columns: frozenset[str], clock_zone: str, *, collated: frozenset[str], once: bool
) -> tuple[Predicate, bool, frozenset[str], bool]:
    """Returns four values. The first is a predicate that is true for every row for which the condition is true, as in
    ``analysed``. This predicate may have fields of structs. The second says whether the predicate is true only for
    these rows. The third has the columns that the condition names. The fourth says whether the condition uses the file
    that Spark's reader is reading. ``once``: whether the condition is used in a single action, so that functions of the
    current time are constants."""
    jvm = filtered.sparkSession._jvm
    plan = filtered._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Filter":
        return _ANY, False, columns, False
    condition = plan.condition()
    before = _nodes(condition, columns, collated)
    parts, named = analysed_conjuncts(before), _named_by(before, columns)
    of_files = any(_name(node) in _OF_FILES for node in before)
    reasons = _untestable_reasons(condition, parts, columns)
    if None not in reasons:
        return _ANY, False, named, of_files
    condition = folded_plan(plan, condition, jvm).condition()
    nodes = with_values(_nodes(condition, columns, collated), condition)
    clock = load_zone(clock_zone)
    if not any(reasons) and (once or not _uses_current_time(before)):
        truth = _truth(nodes, clock, whole=True)
        return truth.true, truth.exact, named, of_files
    folded = analysed_conjuncts(nodes)
    if len(folded) != len(parts):
        return _ANY, False, named, of_files
    return _testable_predicate(parts, folded, reasons, clock), False, named, of_files


def _testable_predicate(
    before: Sequence[Nodes], folded: Sequence[Nodes], reasons: Sequence[str | None], clock: Zone
) -> Predicate:
    """A predicate that is true for every row for which the condition may be true. It is made from the parts of the
    condition that orcidx can evaluate."""
    return all_of(
        *(part_of_json(one, now, clock) for one, now, reason in zip(before, folded, reasons) if reason is None)
    )


def _named_by(nodes: Nodes, columns: frozenset[str]) -> frozenset[str]:
    """The columns that a condition names. If the condition has a subquery, whose columns are not in the JSON, the
    result has all columns."""
    is_told = not any("Subquery" in _name(one) or _name(one) in _QUERIES for one in nodes)
    return _columns_of(nodes) if is_told else columns


def _untestable_reasons(condition: JavaObject, parts: Sequence[Nodes], columns: frozenset[str]) -> list[str | None]:
    """The reason why each conjunct cannot skip files, or None for a conjunct that can. A conjunct that is not
    deterministic skips nothing. The other conjuncts can skip files whether they stand before or after it, because Spark
    also pushes them down in both cases."""
    steady = (
        [True] * len(parts) if condition.deterministic() else [bool(one.deterministic()) for one in _and(condition)]
    )
    obstacles = [_obstacle(one, columns) for one in parts]
    return [found if sure else "it is not deterministic" for found, sure in zip(obstacles, steady)]


def _and(condition: JavaObject) -> list[JavaObject]:
    """Returns the JVM's expressions of the conjuncts. They have the same order as the result of
    ``analysed_conjuncts``."""
    waiting, found = [condition], []
    while waiting:
        one = waiting.pop()
        if one.getClass().getSimpleName() == "And":
            waiting += [one.right(), one.left()]
        else:
            found.append(one)
    return found


def _nodes(condition: JavaObject, columns: frozenset[str], collated: frozenset[str]) -> Nodes:
    """The nodes of an expression. Columns are spelled as in the relation, because Spark keeps the spelling of the text.
    The JSON does not show the escape character of a LIKE. If a LIKE of the expression has another escape character than
    the backslash, all nodes of LIKE get an unknown escape character."""
    nodes: Nodes = json.loads(condition.toJSON())
    spelled = {one.lower(): one for one in columns}
    for node in nodes:
        if node["class"].endswith(".AttributeReference") and node["name"] not in columns:
            node["name"] = spelled.get(node["name"].lower(), node["name"])
    _with_collations(nodes, collated)
    likes = [node for node in nodes if _name(node) == "Like"]
    if likes and " ESCAPE '" in condition.toString():
        for node in likes:
            node["escapeChar"] = ""
    return nodes


def _with_collations(nodes: Nodes, collated: frozenset[str]) -> Nodes:
    for node in nodes:
        if collated and node.get("name") in collated:
            node["dataType"] = "collated string"
    return nodes


def analysed_conjuncts(nodes: Nodes) -> list[Nodes]:
    """The conjuncts of a condition, each with its nodes in preorder."""
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
    """The end of the expression that begins at this node."""
    wanted = 1
    while wanted:
        wanted += nodes[at]["num-children"] - 1
        at += 1
    return at


def _inlined(nodes: Nodes) -> Nodes:
    """Replaces references to a column's name by the column. Since 4.0, Spark names the column of a BETWEEN once and
    then refers to this name. The JSON does not show which name a reference means. So references are not replaced if
    the expression has several names, or one name inside another."""
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
    """A predicate that is true for every row for which a conjunct may be true, in any action from now on.

    ``folded``: the conjunct with the current time as a constant. If a conjunct requires that a column is at or after a
    time that only increases, then the column is also at or after the present value of this time. Nothing is known about
    other functions of the time.
    """
    may = condition_of_json(folded, clock)
    if not _uses_current_time(before):
        return may
    name = _name(before[0])
    if name in ("GreaterThan", "GreaterThanOrEqual"):
        column, grows = before[1], before[2:]
    elif name in ("LessThan", "LessThanOrEqual"):
        column, grows = before[-1], before[1:-1]
    else:
        return _ANY
    if _name(column) != "AttributeReference" or not all(_name(one) in _NONDECREASING for one in grows):
        return _ANY
    if not isinstance(may, Leaf) or may.op not in (Op.GT, Op.GE):
        return _ANY
    (value,) = may.literals
    if isinstance(value, ExactTime):
        return replace(
            may, literals=(replace(value, nanos=value.nanos - _CLOCK_SLACK // dt.timedelta(microseconds=1) * 1000),)
        )
    return replace(may, literals=(value - _CLOCK_SLACK,)) if isinstance(value, dt.date) else _ANY


def _uses_current_time(nodes: Nodes) -> bool:
    return any(_name(one) in _CURRENT_TIMES for one in nodes)


def _name(node: Mapping[str, Any]) -> str:
    whole: str = node["class"]
    return whole.rpartition(".")[2]


def _columns_of(nodes: Nodes) -> frozenset[str]:
    return frozenset(one["name"] for one in nodes if one["class"].endswith(".AttributeReference"))


def _obstacle(nodes: Nodes, columns: frozenset[str]) -> str | None:
    """The reason why a condition cannot skip files, although Spark accepts the condition."""
    for node in nodes:
        name = _name(node)
        if "UDF" in name or "Subquery" in name or name in _QUERIES:
            return f"it has {'an' if name[0] in 'AEIOU' else 'a'} {name}"
        if name == "AttributeReference" and node["name"] not in columns:
            return f"it uses {node['name']}, which is not a column of the files"
    return None


def condition_of_json(nodes: Nodes, clock: Zone) -> Predicate:
    """A predicate that is true for every row for which an expression may be true. The expression is given in Catalyst's
    JSON (its nodes in preorder)."""
    return _truth(nodes, clock).true


def _truth(nodes: Nodes, clock: Zone, *, whole: bool = False) -> _Truth:
    """Evaluates nodes in preorder. ``whole``: whether orcidx itself reads the rows. If so, fields of structs, CHAR and
    times of any age can also be evaluated."""
    stack: list[Any] = []
    for node in reversed(_inlined(nodes)):
        children = [stack.pop() for _ in range(node["num-children"])]
        stack.append(_node(node, children, clock, whole=whole))
    return _as_truth(stack.pop())


def _node(node: Mapping[str, Any], children: list[Any], clock: Zone, *, whole: bool) -> Any:
    name = _name(node)
    if name == "AttributeReference":
        return _attribute(node, whole=whole)
    if name == "Cast" and isinstance(children[0], _Column):
        return _recast(children[0], node, whole=whole)
    if name == "GetStructField" and isinstance(children[0], _Struct):
        field = children[0].fields[node["ordinal"]]
        return _placed((*children[0].path, field["name"]), field["type"], whole=whole)
    if name == "Literal":
        value = literal_value(node, clock)
        return _UNKNOWN if value is UNKNOWN_VALUE else _Literal(value, node["dataType"])
    if name in ("And", "Or"):
        left, right = (_as_truth(one) for one in children)
        exact = left.exact and right.exact
        if name == "And":
            return _Truth(all_of(left.true, right.true), any_of(left.false, right.false), exact)
        return _Truth(any_of(left.true, right.true), all_of(left.false, right.false), exact)
    if name == "Not":
        truth = _as_truth(children[0])
        return _Truth(truth.false, truth.true, truth.exact)
    leaf = _leaf(name, node, children)
    if leaf is None:
        return _UNKNOWN
    if leaf.op is Op.IS_NAN:  # Spark's isnan(NULL) is false, but orcidx's is NULL
        return _Truth(leaf, any_of(~leaf, Leaf(leaf.path, Op.IS_NULL)), True)
    # Spark converts a long IN list to a Java set. In a Java set, -0.0 and 0.0 are different.
    zero = leaf.op is Op.IN and any(isinstance(one, float) and one == 0 for one in leaf.literals)
    return _Truth(leaf, ~leaf, not zero)


def _attribute(node: Mapping[str, Any], *, whole: bool) -> Any:
    metadata = node.get("metadata") or {}
    stored = metadata.get(CHAR_TYPE, "")
    if NESTED_CHAR in metadata or DEFAULT in metadata or (stored and not (whole and node["dataType"] == "string")):
        return _UNKNOWN
    found = _placed((node["name"],), node["dataType"], whole=whole)
    return replace(found, is_char=True) if stored.startswith("char(") else found


def _recast(column: _Column, node: Mapping[str, Any], *, whole: bool) -> Any:
    """Returns the column that a cast converts, if the cast is to the column's own type (as in a list with a null), or
    from a local time to an instant. For any other cast the result is unknown."""
    if node.get("dataType") == column.kind and not column.is_char:
        return column
    if whole and (column.kind, node.get("dataType")) == ("timestamp_ntz", "timestamp"):
        return replace(column, kind="timestamp", zone=load_zone(node["timeZoneId"]))
    return _UNKNOWN


def _placed(path: tuple[str, ...], kind: Any, *, whole: bool) -> Any:
    """Returns the column or field of a struct at this path. The result is unknown if predicates cannot use it."""
    if isinstance(kind, str):
        return _Column(path, kind)
    is_struct = whole and isinstance(kind, dict) and kind.get("type") == "struct" and "__COLLATIONS" not in str(kind)
    return _Struct(path, kind["fields"]) if is_struct else _UNKNOWN


def _as_truth(value: object) -> _Truth:
    if isinstance(value, _Truth):
        return value
    if isinstance(value, _Column) and value.kind == "boolean":
        leaf = Leaf(value.path, Op.EQ, (True,))
        return _Truth(leaf, ~leaf, True)
    if isinstance(value, _Literal) and value.kind in ("boolean", "void"):
        return _Truth(Constant(value.value is True), Constant(value.value is False), True)
    return _UNKNOWN


def _leaf(name: str, node: Mapping[str, Any], children: list[Any]) -> Any:
    """The predicate of a node that tests a column itself. The result is None for any other node."""
    column, *rest = children or [None]
    op = _COMPARISONS.get(name)
    if op is not None and isinstance(column, _Literal) and len(rest) == 1 and op in _MIRRORED:
        column, rest, op = rest[0], [column], _MIRRORED[op]
    if not isinstance(column, _Column):
        return None
    path = column.path
    if name in ("IsNull", "IsNotNull"):
        return Leaf(path, Op.IS_NULL, (), name == "IsNotNull")
    if name == "IsNaN":
        return Leaf(path, Op.IS_NAN)
    if not rest or not all(isinstance(one, _Literal) and one.kind == column.kind for one in rest):
        return None
    values = [one.value for one in rest]
    if column.zone is not None:
        walls = [None if one is None else wall_clock(one, column.zone) for one in values]
        if walls.count(None) > values.count(None):
            return None
        values = walls
    if not is_understood(column.kind) or (column.is_char and name not in ("EqualTo", "EqualNullSafe", "In")):
        return None
    if name == "In":
        return Leaf(path, Op.IN, tuple(values))
    if name == "EqualNullSafe" and values[0] is None:
        return Leaf(path, Op.IS_NULL)
    if any(value is None for value in values):
        return None
    if name == "Like":
        return _like(path, values[0], node.get("escapeChar"))
    return Leaf(path, op, (values[0],)) if op is not None else None


def _like(path: tuple[str, ...], pattern: str, escape: str | None) -> Leaf | None:
    """The predicate of a LIKE. ``escape`` is the escape character: None means the backslash, and an empty text means an
    unknown character. Returns None for an unknown character. Also returns None if the escape character stands before a
    character that must not be escaped, because Spark raises an error for such a pattern."""
    escape = "\\" if escape is None else escape
    if len(escape) != 1:
        return None
    if escape not in pattern:
        return Leaf(path, Op.LIKE, (pattern, ""))
    mark = re.escape(escape)
    is_sound = re.fullmatch(rf"(?:[^{mark}]|{mark}[_%{mark}])*", pattern, re.DOTALL)
    return Leaf(path, Op.LIKE, (pattern, escape)) if is_sound else None
