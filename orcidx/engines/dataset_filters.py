"""The filters of a dataset. A filter is an expression of pyarrow, or it becomes a predicate for the scan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate import Constant, External, Leaf, Predicate, Where, all_of, parse, resolve_column
from orcidx.predicate.adapters import from_expression
from orcidx.predicate.external import Relaxation
from orcidx.predicate.fold import Part, rewritten

__all__ = ["both_filters", "both_predicates", "has_all", "is_exact", "parted", "pruning_part"]


def parted(filter: Where | None) -> tuple[pc.Expression | None, Predicate | None]:
    """Returns a pair: the filter as an expression of pyarrow and None, or None and the filter as a predicate. An
    expression is evaluated with values in the types of the schema. A predicate is evaluated by the scan."""
    if filter is None or isinstance(filter, pc.Expression):
        return filter, None
    return None, parse(filter)


def both_predicates(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """Joins two predicates by AND. None stands for no predicate."""
    if one is None or other is None:
        return other if one is None else one
    return all_of(one, other)


def both_filters(kept: pc.Expression | None, filter: pc.Expression | None) -> pc.Expression | None:
    """Joins two expressions of pyarrow by AND. None stands for no expression."""
    if kept is None or filter is None:
        return filter if kept is None else kept
    return kept & filter


def pruning_part(filter: pc.Expression, schema: pa.Schema, *, without: str | None = None) -> Predicate:
    """Converts the filter to a predicate, for columns with the types of this schema. The predicate is true for every
    row for which the filter is true in pyarrow.

    pyarrow compares times after they are rounded down to the schema's unit. The predicate compares the stored times. So
    if the filter uses a column with timestamps in a unit other than nanoseconds, the predicate is used only for pruning
    and does not replace the filter. The same holds if the filter uses the column that ``without`` names, because this
    column has no index.
    """
    node = from_expression(filter)
    if is_exact(filter, schema, without=without):
        return node
    return External(pc.scalar(True), _relaxed(node.may, schema, without), Constant(True), False, ())


def is_exact(filter: pc.Expression, schema: pa.Schema, *, without: str | None = None) -> bool:
    """Whether ``pruning_part`` is equivalent to the filter."""
    paths = from_expression(filter).columns
    return paths is not None and not any(
        path[0] == without or _is_coarse(resolve_column(path, schema)[1]) for path in paths
    )


def has_all(schema: pa.Schema, paths: Collection[Sequence[str]] | None) -> bool:
    """Whether a schema has all columns of an expression. The result is also True if the expression's columns are not
    known (``paths`` is None)."""
    try:
        return all(path[0] in schema.names and resolve_column(path, schema) for path in paths or ())
    except InvalidQuery:
        return False


def _is_coarse(kind: pa.DataType) -> bool:
    """Whether the type is a timestamp with a unit other than nanoseconds, or contains such a timestamp."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit != "ns")
    return any(_is_coarse(kind.field(place).type) for place in range(kind.num_fields))


def _relaxed(node: Predicate, schema: pa.Schema, without: str | None) -> Any:
    def relaxed(part: Part) -> Part:
        if isinstance(part, Leaf):
            if part.path[0] == without:
                return Constant(True)
            kind = resolve_column(part.path, schema)[1]
            if _is_coarse(kind):
                return Relaxation().relax(part, kind, False)
        return part

    return rewritten(node, relaxed)
