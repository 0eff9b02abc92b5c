"""Maps one file's schema to the wanted schema. Each wanted column is a column of the file, a constant or null.

Columns are matched by name, by position or by field id. Fields of structs are always matched by name. A column that the
file does not have is null. A type is widened if no value can be lost. Any other difference is an error that names the
column and both types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from orcidx.errors import InvalidQuery, ValueOutOfRange, located
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.projection import project
from orcidx.orc.types import UNNAMED, OrcType, arrow_schema, arrow_type
from orcidx.predicate import resolve_asked
from orcidx.predicate.nodes import NANOS

__all__ = [
    "FieldSource",
    "choose_fields",
    "clear_columns",
    "column_path",
    "computed_type",
    "map_columns",
    "widen",
    "with_child",
]

ColumnPaths = Sequence[str | Sequence[str]]

FIELD_ID_KEYS = ("iceberg.id", "paimon.id")
"""The type attributes that contain a column's field id."""


@dataclass(frozen=True)
class FieldSource:
    """The source of a wanted column. If ``column`` is not None, the source is this column of the file. Otherwise it is
    the constant ``value``. ``options`` has the options for decoding the column, if they differ from the scan's
    options."""

    field: pa.Field
    column: OrcType | None = None
    value: Any = None
    options: ReadOptions | None = None

    @property
    def scalar(self) -> pa.Scalar:
        """The constant in the type of ``field``."""
        return _as_scalar(self.value, self.field)


def map_columns(
    root: OrcType,
    columns: ColumnPaths | None,
    *,
    options: ReadOptions,
    wanted: pa.Schema | None = None,
    match: Literal["name", "position", "field_id"] = "name",
    constants: Mapping[str, Any] | None = None,
    dictionaries: frozenset[int] = frozenset(),
) -> tuple[FieldSource, ...]:
    """Maps a file to the wanted schema, restricted to ``columns``. If ``wanted`` is None, the file's own schema is
    used. Returns the source of each column, in the order of the output.

    ``constants`` has scalars by name, for columns with one value in the whole file. A constant replaces a column of the
    file with the same name. Raises ``InvalidQuery`` for a column that does not exist, and for a type that cannot be
    widened to the wanted type.
    """
    constants = constants or {}
    if wanted is None:
        return tuple(_own(root, columns, options, constants, dictionaries))
    chosen = choose_fields(wanted, columns, case_sensitive=options.case_sensitive)
    names = [field.name for _, field in chosen if field.name not in constants]
    places = _children_by_key(root, match, names, wanted.names, options)
    sources = []
    for position, field in chosen:
        if field.name in constants:
            sources.append(FieldSource(field, None, _as_scalar(constants[field.name], field)))
        else:
            child = places.get(_key(wanted.field(position), position, match))
            sources.append(_source(field, wanted.field(position).type, child, options, dictionaries))
    return tuple(sources)


# ---------------------------------------------------------------------- the file's own schema


def _own(
    root: OrcType,
    columns: ColumnPaths | None,
    options: ReadOptions,
    constants: Mapping[str, Any],
    dictionaries: frozenset[int],
) -> list[FieldSource]:
    fixed = {
        _letters(name, options): FieldSource(pa.field(name, value.type), None, value)
        for name, value in ((name, _scalar(value)) for name, value in constants.items())
    }
    named = None if columns is None else [path for path in columns if _letters(path, options) not in fixed]
    tree = project(root, named, case_sensitive=options.case_sensitive).root
    schema = arrow_schema(tree, options, dictionaries=dictionaries)
    children = tree.children if _is_rows(tree) else (tree,)
    sources = {child.id: FieldSource(field, child) for field, child in zip(schema, children, strict=True)}
    if columns is None:
        own = [fixed.pop(_letters(source.field.name, options), source) for source in sources.values()]
        return [*own, *fixed.values()]
    if not fixed:
        return list(sources.values())  # ``project`` has put the fields into the requested order
    placed: list[FieldSource] = []
    left = dict(fixed)
    for path in columns:
        name = _letters(path, options)
        if name in left:
            placed.append(left.pop(name))
        elif name not in fixed:
            part = project(root, [path], case_sensitive=options.case_sensitive).root
            asked = part.children if _is_rows(part) else (part,)
            if _is_rows(part) and not fixed.keys().isdisjoint(_letters(one, options) for one in part.names):
                whole = _own(root, None, options, constants, dictionaries)
                # This call raises the error that the column has no such field, because the constant replaces the whole
                # column.
                resolve_asked(column_path(path), pa.schema([one.field for one in whole]), case_sensitive=True)
            placed += [sources.pop(child.id) for child in asked if child.id in sources]
    return placed


def _letters(path: Any, options: ReadOptions) -> Any:
    """Returns the form of a name that is compared with other names. A path of one name is the same as the name. If the
    options ignore case, this form is in lower case. A path to a field in a struct is returned unchanged, because it
    never equals a name."""
    if not isinstance(path, str):
        if len(path) != 1:
            return tuple(path)
        path = path[0]
    return path if options.case_sensitive else path.casefold()


def _is_rows(tree: OrcType) -> bool:
    return tree.path == () and tree.kind is TypeKind.STRUCT


def _scalar(value: Any) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


def _as_scalar(value: Any, field: pa.Field) -> pa.Scalar:
    try:
        if not isinstance(value, pa.Scalar):
            return pa.scalar(value, field.type)
        return value if value.type == field.type else value.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidQuery(f"{value} cannot be converted to {field.type}: {error}", column=field.name) from None


# ---------------------------------------------------------------------- the wanted schema


def choose_fields(
    wanted: pa.Schema, columns: ColumnPaths | None, *, case_sensitive: bool = True
) -> list[tuple[int, pa.Field]]:
    """Returns a pair (position in ``wanted``, field) for each of ``columns``. Structs have only the requested fields.
    At every level, fields are in the order in which they are first named. Raises ``InvalidQuery`` for an unknown
    column. The message has the nearest name."""
    if columns is None:
        return list(enumerate(wanted))
    asked: dict[str, Any] = {}
    for given in columns:
        path = column_path(given)
        names = resolve_asked(path, wanted, case_sensitive=case_sensitive)[0]
        at = asked
        for name in names[:-1]:
            below = at.setdefault(name, {})
            if below is None:  # the whole struct is already requested
                break
            at = below
        else:
            at[names[-1]] = None
    return [(wanted.get_field_index(name), _part(wanted.field(name), below)) for name, below in asked.items()]


def column_path(given: object) -> tuple[str, ...]:
    """Converts one item of ``columns`` to a path. Raises ``InvalidQuery`` unless it is a name or a path of names."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, (list, tuple)) and given and all(isinstance(part, str) for part in given):
        return tuple(given)
    kind = type(given).__name__
    raise InvalidQuery(
        f'columns contains {given!r:.100}, of type {kind}; give names, or paths into structs such as ("address", '
        '"city")'
    )


def _part(field: pa.Field, asked: dict[str, Any] | None) -> pa.Field:
    if asked is None:
        return field
    kind = field.type
    return field.with_type(pa.struct([_part(kind.field(name), below) for name, below in asked.items()]))


def _children_by_key(
    root: OrcType, match: str, chosen: Sequence[str], wanted: Sequence[str], options: ReadOptions
) -> dict[Any, OrcType]:
    """The columns of the file by name, position or field id. ``wanted`` has the names of all wanted columns, and
    ``chosen`` has those that are needed. If columns are matched by name, only the chosen columns are returned."""
    children, names = (root.children, root.names) if _is_rows(root) else ((root,), (UNNAMED,))
    if match == "position":
        return dict(enumerate(children))
    if match == "field_id":
        return {key: child for child in children if (key := field_id_of(child)) is not None}
    if match != "name":
        raise InvalidQuery(f"match={match!r} is not supported; use 'name', 'position' or 'field_id'")
    return {name: children[place] for name, place in _places(names, chosen, wanted, options).items()}


def _places(names: Sequence[str], chosen: Iterable[str], wanted: Iterable[str], options: ReadOptions) -> dict[str, int]:
    """Finds for each chosen name the matching name of the file. ``names`` has the names of the file. Returns the index
    of the matching name in ``names``. Chosen names without a match are left out.

    If a name of the file is also a wanted name, it matches only this wanted name, even if the options ignore case.
    Raises ``InvalidQuery`` if a chosen name still matches several names of the file.
    """
    own: dict[str, int] = {}
    for place, name in enumerate(names):
        own.setdefault(name, place)
    if options.case_sensitive:
        return {name: own[name] for name in chosen if name in own}
    found = {}
    for name, same in _matches(own, chosen, wanted).items():
        if len(same) > 1:
            raise InvalidQuery(
                f"the column name {name!r} is ambiguous, because the file has {' and '.join(map(repr, same))}; give "
                "case_sensitive=True, or name each of these columns in the wanted schema",
                column=name,
            )
        if same:
            found[name] = own[same[0]]
    return found


def _matches(names: Iterable[str], chosen: Iterable[str], wanted: Iterable[str]) -> dict[str, list[str]]:
    """Returns for each chosen name all matching names of the file, without regard to case."""
    spelled = set(wanted)
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.casefold(), []).append(name)
    return {
        name: [one for one in folded.get(name.casefold(), ()) if one == name or one not in spelled] for name in chosen
    }


def clear_columns(root: OrcType, wanted: pa.Schema, options: ReadOptions) -> list[tuple[str]] | None:
    """The wanted columns that match at most one column of the file by name. None means all wanted columns."""
    if options.case_sensitive or not _is_rows(root):
        return None
    names = dict.fromkeys(root.names)
    clear = [(name,) for name, same in _matches(names, wanted.names, wanted.names).items() if len(same) < 2]
    return None if len(clear) == len(set(wanted.names)) else clear


def field_id_of(column: OrcType) -> int | None:
    """Returns the field id that a table format stored as a type attribute. The result is None if there is no such
    attribute."""
    for key in FIELD_ID_KEYS:
        text = column.attribute(key)
        if text is not None and text.isascii() and text.lstrip("-").isdigit():
            return int(text)
    return None


def _key(field: pa.Field, position: int, match: str) -> Any:
    if match == "position":
        return position
    if match == "field_id":
        metadata = field.metadata or {}
        raw = metadata.get(b"PARQUET:field_id", metadata.get(b"field_id"))
        if raw is None or not raw.lstrip(b"-").isdigit():
            raise InvalidQuery(
                "the wanted schema has no field id for this column; set PARQUET:field_id in the metadata of the field",
                column=field.name,
            )
        return int(raw)
    return field.name


def _source(
    field: pa.Field, whole: pa.DataType, child: OrcType | None, options: ReadOptions, dictionaries: frozenset[int]
) -> FieldSource:
    """The source of a wanted column. ``whole`` is its type in the wanted schema, with all fields of structs."""
    if child is None:
        if not field.nullable:
            raise InvalidQuery(
                "the column must not be null, but the file lacks it; declare it as nullable, or leave it out",
                column=field.name,
            )
        return FieldSource(field)
    child = _narrowed(child, field.type, whole, options)
    decoding = _decoding(field.type, options)
    have = arrow_type(child, decoding, dictionaries=dictionaries)
    if not _widens(have, field.type):
        raise InvalidQuery(
            f"the column has the type {have} in the file, and {have} cannot be widened to {field.type} without losing "
            "values; read the column with its own type and cast the result",
            column=field.name,
        )
    return FieldSource(field, child, options=None if decoding is options else decoding)


def _narrowed(child: OrcType, want: pa.DataType, whole: pa.DataType, options: ReadOptions) -> OrcType:
    """The column with only the wanted fields below it. Names are spelled as in the wanted schema. ``whole`` is the
    wanted type with the fields that are not needed."""
    types = pa.types
    if child.kind is TypeKind.STRUCT and types.is_struct(want):
        fields = {want.field(i).name: want.field(i).type for i in range(want.num_fields)}
        others = {whole.field(i).name: whole.field(i).type for i in range(whole.num_fields)}
        places = _places(child.names, fields, others, options)
        kept = [
            (name, _narrowed(child.children[place], fields[name], others[name], options))
            for name, place in places.items()
        ]
        kept = kept or list(zip(child.names, child.children))[:1]  # one field is needed to read the nulls of the struct
        return replace(child, children=tuple(node for _, node in kept), names=tuple(name for name, _ in kept))
    if child.kind is TypeKind.LIST and (types.is_list(want) or types.is_large_list(want)):
        return replace(child, children=(_narrowed(child.children[0], want.value_type, whole.value_type, options),))
    if child.kind is TypeKind.MAP and types.is_map(want):
        kinds = zip(child.children, (want.key_type, want.item_type), (whole.key_type, whole.item_type))
        return replace(child, children=tuple(_narrowed(node, kind, of, options) for node, kind, of in kinds))
    return child


def _decoding(want: pa.DataType, options: ReadOptions) -> ReadOptions:
    """Returns the options, with the wanted timestamp unit if there is one."""
    units = set(_units(want))
    if len(units) == 1 and units != {options.timestamp_unit}:
        return options.override(timestamp_unit=units.pop())
    return options


def _units(kind: pa.DataType) -> list[Any]:
    if pa.types.is_timestamp(kind):
        return [kind.unit]
    return [unit for i in range(kind.num_fields) for unit in _units(kind.field(i).type)]


# ---------------------------------------------------------------------- widening

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_EXACT_BITS = {32: 16, 64: 32}
"""The keys are widths of float types in bits. Each value is the width of the widest integer type whose values the float
type can all represent exactly."""


def _widens(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether every value of type ``have`` is also a value of type ``want``."""
    types = pa.types
    if have == want or types.is_null(have):
        return True
    if types.is_dictionary(have):
        return _widens(have.value_type, want)
    if types.is_dictionary(want):
        return _is_text(have) and _is_text(want.value_type)
    if types.is_signed_integer(have):
        if types.is_signed_integer(want):
            return bool(want.bit_width >= have.bit_width)
        if types.is_floating(want):
            return bool(have.bit_width <= _EXACT_BITS.get(want.bit_width, 0))
        if types.is_decimal(want):
            return bool(want.precision - want.scale >= _INTEGER_DIGITS[have.bit_width])
        return False
    if types.is_float32(have):
        return bool(types.is_float64(want))
    if types.is_decimal(have) and types.is_decimal(want):
        return bool(want.scale >= have.scale and want.precision - want.scale >= have.precision - have.scale)
    if _is_text(have):
        return _is_text(want)
    if types.is_binary(have):
        return bool(types.is_large_binary(want) or types.is_binary_view(want))
    if types.is_timestamp(have) and types.is_timestamp(want):
        return NANOS[have.unit] >= NANOS[want.unit] and (have.tz is None) == (want.tz is None)
    return _nested_widens(have, want)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _nested_widens(have: pa.DataType, want: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(have):
        return bool(types.is_list(want) or types.is_large_list(want)) and _widens(have.value_type, want.value_type)
    if types.is_map(have) and types.is_map(want):
        return _widens(have.key_type, want.key_type) and _widens(have.item_type, want.item_type)
    if types.is_struct(have) and types.is_struct(want):
        names = {have.field(i).name: have.field(i).type for i in range(have.num_fields)}
        return all(
            _widens(names[field.name], field.type) if field.name in names else field.nullable
            for field in (want.field(i) for i in range(want.num_fields))
        )
    return False


def computed_type(have: pa.DataType, want: pa.DataType) -> pa.DataType:
    """The type in which pyarrow evaluates computed conditions on a column. ``have`` is the type of the column in the
    file, and ``want`` is the wanted type. Timestamps keep the unit of ``have``. Texts and binary values keep the type
    ``have``, but string views become strings."""
    types = pa.types
    if types.is_dictionary(want):
        return computed_type(want.value_type if have == want else have, want.value_type)
    if types.is_string_view(have):
        return pa.string()
    if types.is_struct(have) and types.is_struct(want) and want.num_fields:
        own = {have.field(i).name: have.field(i).type for i in range(have.num_fields)}
        fields = [want.field(i) for i in range(want.num_fields)]
        return pa.struct([one.with_type(computed_type(own.get(one.name, one.type), one.type)) for one in fields])
    if types.is_map(have) and types.is_map(want):
        return pa.map_(computed_type(have.key_type, want.key_type), computed_type(have.item_type, want.item_type))
    if types.is_list(have) and (types.is_list(want) or types.is_large_list(want)):
        return pa.list_(computed_type(have.value_type, want.value_type))
    if types.is_timestamp(have) and types.is_timestamp(want):
        return pa.timestamp(have.unit, want.tz)
    # If only the number of digits grows, the smaller type is kept. With the larger type, the result of a computation
    # may need more digits than a decimal can have.
    if types.is_decimal(want) and types.is_integer(have) and want.scale == 0:
        return pa.int64()
    if types.is_decimal(want) and types.is_decimal(have) and want.scale == have.scale:
        return have
    return want if types.is_primitive(want) or types.is_decimal(want) else have


def wanted_columns(
    fields: Sequence[FieldSource], decoded: Iterable[pa.Array], constant: Callable[[FieldSource], pa.Array]
) -> list[pa.Array]:
    """The wanted columns: widened columns of a file, and constant and missing columns. ``constant``: makes the column
    of a source that is not a column of the file. Columns of ``decoded`` after those of ``fields`` are kept."""
    left = iter(decoded)
    arrays = []
    for source in fields:
        if source.column is None:
            arrays.append(constant(source))
        else:
            with located(column=source.field.name):
                arrays.append(widen(next(left), source.field.type))
    arrays.extend(left)
    return arrays


def widen(array: pa.Array, want: pa.DataType) -> pa.Array:
    """The array, widened to the wanted type. Missing struct fields become nulls.

    Raises ``ValueOutOfRange`` for a value that does not fit the wanted type.
    """
    if array.type == want:
        return array
    if pa.types.is_struct(want) and pa.types.is_struct(array.type):
        return _widen_struct(array, want)
    if pa.types.is_map(want) and pa.types.is_map(array.type):
        keys, items = widen(array.keys, want.key_type), widen(array.items, want.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[want.key_field, want.item_field])
        return with_child(array, want, entries)
    if pa.types.is_list(want) and pa.types.is_list(array.type):
        return with_child(array, want, widen(array.values, want.value_type))
    if pa.types.is_large_list(want) and pa.types.is_list(array.type):
        same = pa.list_(want.value_field)
        return widen(array, same).cast(want)
    if pa.types.is_union(want) and array.type.mode == want.mode == "sparse":
        children = [widen(array.field(i), want.field(i).type) for i in range(want.num_fields)]
        names = [want.field(i).name for i in range(want.num_fields)]
        return pa.UnionArray.from_sparse(array.type_codes, children, names, want.type_codes)
    if pa.types.is_dictionary(want) and not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    try:
        return array.cast(want)
    except pa.ArrowInvalid as error:
        raise ValueOutOfRange(f"a value of type {array.type} does not fit {want}: {error}") from None


def with_child(array: pa.Array, want: pa.DataType, child: pa.Array) -> pa.Array:
    """Returns a list or map that has the offsets and nulls of ``array``, and another child."""
    return pa.Array.from_buffers(want, len(array), array.buffers()[:2], array.null_count, array.offset, [child])


def _widen_struct(array: pa.StructArray, want: pa.StructType) -> pa.Array:
    places = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    fields = [want.field(i) for i in range(want.num_fields)]
    children = [
        widen(array.field(places[field.name]), field.type) if field.name in places else pa.nulls(len(array), field.type)
        for field in fields
    ]
    mask = array.is_null() if array.null_count else None
    if not children:
        return pa.array([{}] * len(array), want, mask=None if mask is None else mask.to_numpy(zero_copy_only=False))
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
