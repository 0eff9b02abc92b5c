"""Finds columns by their names: paths in the tree of types, and the part of the tree that a scan reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from orcidx.errors import InvalidQuery
from orcidx.orc.metadata import TypeKind
from orcidx.orc.types import UNNAMED, OrcType, Path
from orcidx.spellings import added_column_hint, nearest

__all__ = ["Projection", "find_columns", "project"]


@dataclass(frozen=True)
class Projection:
    """``root``: the tree of the requested columns, with the fields in the requested order. ``ids``: the column ids of
    this tree."""

    root: OrcType

    @property
    def ids(self) -> frozenset[int]:
        return self.root.ids


@dataclass
class _Wanted:
    """The requested part of one node: the whole node, or some children by index, in the requested order."""

    whole: bool = False
    children: dict[int, _Wanted] | None = None

    def child(self, index: int) -> _Wanted:
        if self.children is None:
            self.children = {}
        return self.children.setdefault(index, _Wanted())


def find_columns(root: OrcType, path: str | Sequence[str]) -> list[OrcType]:
    """All columns that a path names. A path is dotted text or a sequence of names. Names may repeat in a file.

    Raises ``InvalidQuery`` with the most similar name if there is no such column.
    """
    return [_below(root, route) for route in _routes(root, path, case_sensitive=True)]


def _below(node: OrcType, route: Sequence[int]) -> OrcType:
    for place in route:
        node = node.children[place]
    return node


def _routes(root: OrcType, path: str | Sequence[str], *, case_sensitive: bool) -> list[list[int]]:
    """The columns that a path matches. Each column is given by the indexes of the children on the way from the root to
    the column."""
    for exact in (True,) if case_sensitive else (True, False):
        if routes := _match(root, path if isinstance(path, str) else tuple(path), exact):
            return routes
    text = path if isinstance(path, str) else ".".join(path)
    known = [node.dotted for node in root.walk() if node.path]
    near = nearest(text, known)
    hint = f"; did you mean {near!r}?" if near else added_column_hint(text)
    if text in known:  # the caller gave the path of a field as a single name
        hint = f"; {text!r} is a field of a struct: give a tuple with one name for each level, or only the text"
    raise InvalidQuery(f"there is no column {text!r}{hint}")


def _match(node: OrcType, path: str | Path, exact: bool) -> list[list[int]]:
    """The columns below ``node`` that match ``path``. Each column is given by indexes of children, as in ``_routes``.
    If a path can be split in several ways, the longest first name is used."""
    if node.kind is TypeKind.UNION:
        return []
    if node.kind is not TypeKind.STRUCT and not node.path and path in (UNNAMED, (UNNAMED,)):
        return [[]]
    found: dict[int, list[list[int]]] = {}
    for place, rest in _children_named(node, path, exact):
        below = _match(node.child(place), rest, exact) if rest else [[]]
        found.setdefault(len(node.names[place]), []).extend([place, *route] for route in below)
    spelled = [length for length, routes in found.items() if routes]
    return found[max(spelled)] if spelled else []


def _children_named(node: OrcType, path: str | Path, exact: bool) -> Iterator[tuple[int, str | Path]]:
    """Finds the children whose name can be the first name of the path. Yields the index of each such child, and
    the rest of the path."""
    if exact:
        for name, rest in _first_names(path):
            for place in node.places.get(name, ()):
                yield place, rest
        return
    for place, name in enumerate(node.names):
        left = _rest_after(name, path)
        if left is not None:
            yield place, left


def _first_names(path: str | Path) -> Iterator[tuple[str, str | Path]]:
    """Yields each text that can be the first name of a path, with the rest of the path. A name may contain dots."""
    if isinstance(path, tuple):
        if path:
            yield path[0], path[1:]
        return
    for at, letter in enumerate(path):
        if letter == "." and at + 1 < len(path):
            yield path[:at], path[at + 1 :]
    yield path, ""


def _rest_after(name: str, path: str | Path) -> str | Path | None:
    """The rest of the path after ``name``. Names are compared without regard to case. None if the path does not begin
    with ``name``."""
    if isinstance(path, tuple):
        return path[1:] if path and _same(path[0], name) else None
    if _same(path, name):
        return ""
    head, dot, rest = path[: len(name)], path[len(name) : len(name) + 1], path[len(name) + 1 :]
    return rest if dot == "." and rest and _same(head, name) else None


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def project(root: OrcType, columns: Sequence[str | Sequence[str]] | None, *, case_sensitive: bool = True) -> Projection:
    """The part of the tree that ``columns`` requests. None requests all columns. An empty list requests no columns.

    At every level, fields are in the order in which they are first requested. A struct that is requested completely
    keeps its own order. If several columns of the file have a requested name, all of them are returned. A column that
    is requested twice is returned once. A map always keeps its keys. If the root is not a struct, requesting no column
    gives an empty struct. Raises ``InvalidQuery`` for an unknown path.
    """
    if columns is None:
        return Projection(root)
    wanted = _Wanted()
    for path in columns:
        for route in _routes(root, path, case_sensitive=case_sensitive):
            at = wanted
            for place in route:
                at = at.child(place)
            at.whole = True
    if root.kind is not TypeKind.STRUCT and not wanted.whole and wanted.children is None:
        return Projection(replace(root, kind=TypeKind.STRUCT, children=(), names=()))
    return Projection(_prune(root, wanted))


def _prune(node: OrcType, wanted: _Wanted) -> OrcType:
    if wanted.whole:
        return node
    chosen = wanted.children or {}
    if node.kind is TypeKind.MAP:
        value = chosen.get(1, _Wanted(whole=True))
        return replace(node, children=(node.children[0], _prune(node.children[1], value)))
    return replace(
        node,
        children=tuple(_prune(node.child(index), below) for index, below in chosen.items()),
        names=tuple(node.names[index] for index in chosen),
    )
