"""Finds the column that a predicate names in a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.spellings import added_column_hint, nearest

__all__ = ["Path", "resolve_asked", "resolve_column", "resolve_column_or_text"]

Path = tuple[str, ...]
"""The names from a top-level column down to a field."""


def resolve_column(path: Sequence[str], schema: pa.Schema, *, case_sensitive: bool = True) -> tuple[Path, pa.DataType]:
    """Returns the real path and the Arrow type of a column.

    A name with dots means the field of exactly that name, or the nested field if there is no field of that name. Raises
    ``InvalidQuery`` for an ambiguous column and for an unknown column. The error names the nearest column.
    """
    if case_sensitive and len(path) == 1:
        places = schema.get_all_field_indices(path[0])
        if len(places) == 1:
            field = schema.field(places[0])
            return (field.name,), field.type
    found = _find(list(path), pa.struct(schema), case_sensitive)
    if found is None:
        raise _unknown(".".join(path), schema)
    return found


def resolve_asked(path: Sequence[str], schema: pa.Schema, *, case_sensitive: bool) -> tuple[Path, pa.DataType]:
    """Like ``resolve_column``, for a column that a scan returns. If ``case_sensitive`` is False and the names of
    several columns differ only in case, the column with exactly the given name is returned. In a condition, the given
    name is then ambiguous. An index may have only one of these columns, perhaps one with another spelling."""
    found = _find(list(path), pa.struct(schema), True)
    return resolve_column(path, schema, case_sensitive=case_sensitive) if found is None else found


def resolve_column_or_text(path: Sequence[str], schema: pa.Schema) -> Path:
    """Like ``resolve_column``, for an operand that the caller may have meant as a text. In SQL, double quotes are for
    names, so the error explains how to write a text."""
    try:
        return resolve_column(path, schema)[0]
    except InvalidQuery as error:
        text = ".".join(path).strip("\u201c\u201d\u2018\u2019\u00b4")
        hint = f"{error.message.rstrip('?')}; if it is meant as a text, write it in single quotes: '{text}'"
        raise InvalidQuery(hint, column=".".join(path)) from None


def _find(path: list[str], parent: pa.DataType, case_sensitive: bool) -> tuple[Path, pa.DataType] | None:
    if not path:
        return (), parent
    if isinstance(parent, pa.BaseExtensionType):
        parent = parent.storage_type
    if not pa.types.is_struct(parent):
        return None
    head, *rest = path
    for cut in [len(head), *(i for i in range(len(head) - 1, 0, -1) if head[i] == ".")]:
        index = _field_index(head[:cut], parent, case_sensitive)
        if index is None:
            continue
        field = parent.field(index)
        found = _find(([head[cut + 1 :]] if cut < len(head) else []) + rest, field.type, case_sensitive)
        if found is not None:
            return (field.name, *found[0]), found[1]
    return None


def _field_index(name: str, parent: pa.StructType, case_sensitive: bool) -> int | None:
    same: Callable[[str], bool] = (
        (lambda other: other == name) if case_sensitive else (lambda other: other.casefold() == name.casefold())
    )
    indexes = [i for i in range(parent.num_fields) if same(parent.field(i).name)]
    if len(indexes) > 1:
        raise InvalidQuery(
            f"the column name {name!r} is ambiguous, because {len(indexes)} fields have this name", column=name
        )
    return indexes[0] if indexes else None


def _unknown(name: str, schema: pa.Schema) -> InvalidQuery:
    known = dict(_names(pa.struct(schema), ""))
    for other, kind in known.items():
        if name.startswith(f"{other}.") and pa.types.is_nested(kind) and not pa.types.is_struct(kind):
            text = f"{name!r} is inside a list or a map ({other} is {kind}): predicates can only test fields of structs"
            return InvalidQuery(text, column=name)
    if near := nearest(name, known):
        return InvalidQuery(f"no column {name!r}; did you mean {near!r}?", column=name)
    listed = ", ".join(list(known)[:20]) + (", ..." if len(known) > 20 else "")
    return InvalidQuery(f"no column {name!r}; the columns are {listed}{added_column_hint(name)}", column=name)


def _names(kind: pa.StructType, prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    for i in range(kind.num_fields):
        field = kind.field(i)
        yield prefix + field.name, field.type
        if pa.types.is_struct(field.type):
            yield from _names(field.type, f"{prefix}{field.name}.")
