"""Checks the numbers of a footer before they are used: the tree of types, and the positions of stripes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.footer_records import StripeInformation, TypeRecord
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata_limits import MetadataLimits

__all__ = ["check_extents", "check_types"]

DEEPEST_NESTING = 100
"""Types that are nested deeper are refused. Python allows a thousand nested calls. For each level, opening a column
takes four of them, and making its Arrow type takes two more. The callers need some calls, too."""

_CHILDREN = {TypeKind.LIST: 1, TypeKind.MAP: 2}
_NESTED = frozenset({TypeKind.STRUCT, TypeKind.UNION, *_CHILDREN})


def check_types(types: Sequence[TypeRecord], limits: MetadataLimits) -> None:
    """Checks that the types are one tree in pre-order: every id is the next id of a depth-first walk. In such a tree
    each type except the first has exactly one parent, and there are no cycles (ORC-317, ORC-581).

    Also checks that the names in all paths together do not take more bytes than the limits allow. A path has the name
    of a column and the names of all columns that contain the column. An Arrow type of nested structs repeats these
    names at each level.
    """
    if not types:
        raise CorruptFile("the footer lists no types")
    if _is_flat(types):
        limits.check_names(sum(map(len, types[0].field_names)))
        return
    expected = paths = 0
    waiting = [(0, 0, 0)]
    while waiting:
        column, depth, path = waiting.pop()
        if column >= len(types):
            raise CorruptFile(f"a type has a child with the id {column}, but the largest type id is {len(types) - 1}")
        if column != expected:
            raise CorruptFile(f"the type tree is not numbered in pre-order: found id {column} instead of {expected}")
        expected += 1
        if depth > DEEPEST_NESTING:
            raise Unsupported(f"types are nested deeper than {DEEPEST_NESTING} levels, which orcidx cannot read")
        record = types[column]
        if record.subtypes or record.kind in _NESTED:
            _check_children(record, column)
            lengths = [path + len(name) for name in record.field_names] or [path] * len(record.subtypes)
            paths += sum(lengths)
            waiting.extend(zip(reversed(record.subtypes), repeat(depth + 1), reversed(lengths)))
    limits.check_names(paths)
    if expected != len(types):
        raise CorruptFile(f"{len(types) - expected} of the {len(types)} types cannot be reached from the root type")


def _is_flat(types: Sequence[TypeRecord]) -> bool:
    """Whether the tree is one struct whose columns have no children. This check takes a tenth of the time of walking
    the tree."""
    root, count = types[0], len(types) - 1
    if root.kind is not TypeKind.STRUCT or root.subtypes != tuple(range(1, count + 1)):
        return False
    below = types[1:]
    # Equal types are one object, which is checked once (decision 0055).
    for record in dict(zip(map(id, below), below)).values():
        if record.subtypes or record.kind in _NESTED:
            return False
    return len(root.field_names) == count


def _check_children(record: TypeRecord, column: int) -> None:
    count = len(record.subtypes)
    if record.kind is TypeKind.STRUCT:
        if len(record.field_names) != count:
            raise CorruptFile(
                f"the struct with column id {column} has {count} fields, but {len(record.field_names)} field names"
            )
    elif record.kind is TypeKind.UNION:
        if count == 0:
            raise CorruptFile(f"the union with column id {column} has no variants")
    elif count != (children := _CHILDREN.get(record.kind, 0)):
        raise CorruptFile(
            f"the {record.kind.name.lower()} with column id {column} has {count} child types, but must have {children}"
        )


def check_extents(stripes: Sequence[StripeInformation], limit: int) -> None:
    """Checks that the stripes are before ``limit`` and do not overlap."""
    for number, (offset, index_length, data_length, footer_length, _) in enumerate(stripes):
        end = offset + index_length + data_length + footer_length
        if end > limit:
            raise CorruptFile(
                f"the stripe ends at offset {end}, but the footers begin at offset {limit}", stripe=number
            )
    if len(stripes) > 1 and (claimed := sum(stripe.end - stripe.offset for stripe in stripes)) > limit:
        raise CorruptFile(
            f"stripes overlap: together they have {claimed} bytes, but there are only {limit} bytes before the footers"
        )
