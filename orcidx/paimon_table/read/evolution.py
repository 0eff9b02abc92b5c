"""Reads data files of an older schema. Translates the predicate to the file's columns, and the file's values to the
table's types.

Columns are found by field id, so renamed columns are found. A column that was added after the file was written is null
in each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.errors import ValueOutOfRange
from orcidx.orc.calendars import GREGORIAN_START
from orcidx.paimon.data_types import DataType
from orcidx.paimon_table.metadata.schema import FieldMapping, same_type
from orcidx.predicate import BoundLeaf, Constant, External, Leaf, Predicate, all_of, bind, resolve_column
from orcidx.predicate.char_leaf import CharLeaf
from orcidx.predicate.fold import Part, conjuncts, rewritten
from orcidx.predicate.nodes import NANOS
from orcidx.predicate.padded_leaf import PaddedLeaf

__all__ = ["FileWhere", "in_table_type", "null_mask", "own_offsets", "split_where"]


class FileWhere:
    """A predicate for one file, in two parts. ``pushed`` uses the file's names and types. ``rest`` uses the table's
    names and types, and is tested after conversion. None means that there is no such part."""

    def __init__(self, pushed: Any, rest: Any) -> None:
        self.pushed = None if isinstance(pushed, Constant) and pushed.value else pushed
        self.rest = None if isinstance(rest, Constant) and rest.value else rest


def split_where(
    where: Predicate,
    mapping: Sequence[FieldMapping],
    schema: pa.Schema,
    *,
    is_orc: bool,
    case_sensitive: bool,
    instants_moved: bool = False,
) -> FileWhere:
    """Splits a predicate over the table's ``schema`` into the part that has exactly the same meaning in the file, and
    the rest. ``is_orc``: whether the file is an ORC file. ORC files store times of day as numbers, and their
    footers may name the wrong calendar for days (see ``_is_same``). ``instants_moved``: whether the file's instants
    differ from the table's (see ``jvm_instants``)."""
    translator = _Translator(mapping, schema, is_orc, case_sensitive, instants_moved)
    pushed: list[Any] = []
    rest: list[Any] = []
    for part in conjuncts(where):
        asked = rewritten(part, translator.part)
        (rest if asked is None else pushed).append(part if asked is None else asked)
    return FileWhere(all_of(*pushed), all_of(*rest))


class _Translator:
    def __init__(
        self,
        mapping: Sequence[FieldMapping],
        schema: pa.Schema,
        is_orc: bool,
        case_sensitive: bool,
        instants_moved: bool,
    ) -> None:
        self.by_name = {entry.field.name: entry for entry in mapping}
        self.schema = schema
        self.is_orc = is_orc
        self.case_sensitive = case_sensitive
        self.instants_moved = instants_moved

    def part(self, node: Part) -> Part | None:
        """Translates a part of a predicate to the file's names and types. Returns None if the part would have another
        meaning in the file."""
        if isinstance(node, Leaf):
            return self._leaf(node)
        if isinstance(node, External):
            paths = node.columns or ()
            same = node.columns is not None and all(self._is_same(path) for path in paths)
            return node if same else None
        return node

    def _is_same(self, path: tuple[str, ...]) -> bool:
        found, _ = resolve_column(path, self.schema)
        entry = self.by_name[found[0]]
        kind = entry.field.type
        # Paimon's Java writes days of the proleptic calendar to ORC files, although the footers name the hybrid
        # calendar. So the days must be read without a conversion.
        return entry.is_same and not self._differs_in_file(kind) and not (self.is_orc and kind.contains("DATE"))

    def _has_old_day(self, leaf: Leaf) -> bool:
        """Whether the leaf compares with a day before 1582-10-15. To test a condition on an ORC file, orcidx's reader
        converts such days of the file to another calendar. The days of a table must not be converted, so the leaf
        cannot be tested on the file."""
        bound = bind(leaf, self.schema, case_sensitive=self.case_sensitive).root
        if isinstance(bound, BoundLeaf):
            return any(day is not None and day < GREGORIAN_START for day in bound.literals)
        return not isinstance(bound, Constant)

    def _differs_in_file(self, data_type: DataType) -> bool:
        return (self.is_orc and data_type.root == "TIME") or (self.instants_moved and data_type.has_instants)

    def _leaf(self, leaf: Leaf) -> Part | None:
        path, _ = resolve_column(leaf.path, self.schema, case_sensitive=self.case_sensitive)
        entry = self.by_name[path[0]]
        names, table, file = [], entry.field, entry.file_field
        for name in path[1:]:
            if file is None:
                break
            names.append(file.name)
            table = next(child for child in table.type.fields if child.name == name)
            file = next((child for child in file.type.fields if child.id == table.id), None)
        if file is None:
            return leaf.of_null()
        if self._differs_in_file(table.type) or not _compares_alike(file.type, table.type):
            return None
        if self.is_orc and table.type.root == "DATE" and self._has_old_day(leaf):
            return None
        path = (*names, file.name)
        if file.type.root != "CHAR":
            return replace(leaf, path=path)
        if isinstance(leaf, PaddedLeaf) and leaf.keeps_all_of_char:
            return Constant(True)
        # An ORC file may store the column as a string. So the leaf itself must say that the column is CHAR.
        return CharLeaf(path, leaf.op, leaf.literals, leaf.negated, file.type.length)


def _compares_alike(file: DataType, table: DataType) -> bool:
    """Whether a comparison with a literal has the same result before and after widening. The result may differ if only
    one of the types is CHAR, because only CHAR values are compared without trailing blanks."""
    return same_type(file, table) or (file.root == "CHAR") == (table.root == "CHAR")


# ---------------------------------------------------------------------- values


def in_table_type(array: pa.Array, file: DataType, table: DataType, target: pa.DataType) -> pa.Array:
    """Converts an array from the file's type to the table's type. ``target`` is the Arrow type of the result.

    Raises ``ValueOutOfRange`` for a value that ``target`` cannot hold.
    """
    # Fields inside a ROW are found by their ids, which the Arrow type does not have.
    if array.type == target and (not pa.types.is_nested(target) or same_type(file, table)):
        return array
    if file.root == "ROW" and pa.types.is_struct(target):
        return _convert_row(array, file, table, target)
    if file.root == "ARRAY" and pa.types.is_list(target) and pa.types.is_list(array.type):
        values = in_table_type(array.values, file.children[0], table.children[0], target.value_type)
        return pa.ListArray.from_arrays(own_offsets(array), values, type=target, mask=null_mask(array))
    if file.root in ("MAP", "MULTISET") and pa.types.is_map(target) and pa.types.is_map(array.type):
        counts = DataType("INT")
        keys = in_table_type(array.keys, file.children[0], table.children[0], target.key_type)
        kinds = (file.children[1], table.children[1]) if file.root == "MAP" else (counts, counts)
        items = in_table_type(array.items, *kinds, target.item_type)
        return pa.MapArray.from_arrays(own_offsets(array), keys, items, type=target, mask=null_mask(array))
    try:
        # Paimon stores no digits below the precision of a timestamp column. If another writer has stored such digits,
        # they are cut off (rounded down).
        return array.cast(target, safe=not pa.types.is_timestamp(target) or _is_coarser(array.type, target))
    except pa.ArrowInvalid as error:
        raise ValueOutOfRange(f"a value does not fit {table}: {error}") from None


def _is_coarser(have: pa.DataType, want: pa.DataType) -> bool:
    return pa.types.is_timestamp(have) and NANOS[have.unit] >= NANOS[want.unit]


def own_offsets(array: pa.Array) -> pa.Array:
    """A copy of the offsets in a new buffer. ``from_arrays`` needs such a copy if it gets a mask."""
    return pa.array(np.array(array.offsets.to_numpy()))


def null_mask(array: pa.Array) -> pa.Array | None:
    """The mask of the nulls for ``from_arrays``. The result is None if there are no nulls."""
    return array.is_null() if array.null_count else None


def _convert_row(array: pa.StructArray, file: DataType, table: DataType, target: pa.StructType) -> pa.Array:
    places = {field.id: i for i, field in enumerate(file.fields)}
    children = []
    for i, field in enumerate(table.fields):
        kind = target.field(i).type
        place = places.get(field.id)
        if place is None:
            children.append(pa.nulls(len(array), kind))
        else:
            children.append(in_table_type(array.field(place), file.fields[place].type, field.type, kind))
    fields = [target.field(i) for i in range(target.num_fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=null_mask(array))
