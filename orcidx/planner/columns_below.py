"""The columns below a column of a file: fields of structs, by the names that lead to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import OrcType
from orcidx.predicate.column_paths import Path

__all__ = ["field_below", "named_below"]


def field_below(column: OrcType, names: Sequence[str]) -> OrcType | None:
    """Returns the field below a column. The first name is a field of the column, and each later name is a field of the
    field before it. Returns the column itself if there are no names, and None if one of the fields does not exist."""
    for name in names:
        if column.kind is not TypeKind.STRUCT or name not in column.names:
            return None
        column = column.children[column.names.index(name)]
    return column


def named_below(column: OrcType) -> Iterator[tuple[Path, OrcType]]:
    """The column and all fields of its structs, with the names that lead to them."""
    yield (), column
    for name, child in zip(column.names, column.children):
        for path, node in named_below(child):
            yield (name, *path), node
