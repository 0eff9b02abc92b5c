"""Finds the columns that get bloom filters. The caller of a writer or a rewrite gives their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from orcidx.errors import InvalidQuery
from orcidx.orc.kinds import TypeKind

__all__ = ["FILTERED", "bloom_columns"]

FILTERED = frozenset(TypeKind) - {
    TypeKind.BOOLEAN,
    TypeKind.STRUCT,
    TypeKind.LIST,
    TypeKind.MAP,
    TypeKind.UNION,
    TypeKind.GEOMETRY,
    TypeKind.GEOGRAPHY,
}


class _Node(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> TypeKind: ...
    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def dotted(self) -> str: ...


N = TypeVar("N", bound=_Node)


def bloom_columns(nodes: Sequence[N], wanted: Sequence[str | int], *, option: str) -> list[N]:
    """The columns that an option names. The option has dotted names (for all columns with that name), "*" (for all
    columns that can have a filter), or ORC column ids. ``nodes``: all columns by id. Each column is returned once. The
    columns are in the order of their ids.

    Raises ``InvalidQuery`` for unknown names and ids, and for columns whose type has no filters."""
    found: dict[int, N] = {}
    for name in wanted:
        if name == "*":
            found.update((node.id, node) for node in nodes if node.kind in FILTERED)
            continue
        if isinstance(name, int):
            if not 0 < name < len(nodes):
                raise InvalidQuery(
                    f"{option}: there is no column id {name}; column ids go from 1 to {len(nodes) - 1} (0 is the row "
                    "itself)"
                )
            matches = [nodes[name]]
        else:
            matches = [node for node in nodes if node.path and node.dotted == name]
        if not matches:
            tops = ", ".join(node.dotted for node in nodes if len(node.path) == 1)
            raise InvalidQuery(f"{option}: there is no column {name!r}; the columns are {tops:.500}")
        for node in matches:
            if node.kind not in FILTERED:
                raise InvalidQuery(
                    f"{option}: {name!r} is a {node.kind.name.lower()}, which cannot have a bloom filter"
                )
            found[node.id] = node
    return [found[id] for id in sorted(found)]
