"""Builds all indexes of a data file. The batches of the file are read only once."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.paimon.container import split_map_key
from orcidx.paimon.data_types import TEXTS, DataType, as_data_type, parse_type
from orcidx.paimon.file_index import FileIndex, file_index_of
from orcidx.paimon.file_index_options import FileIndexOptions
from orcidx.paimon.index import Index
from orcidx.paimon.key_arrays import key_column, map_values
from orcidx.paimon.registry import Builder, open_builder
from orcidx.storage import OneSource
from orcidx.storage.given_rows import stream_of

__all__ = ["FileIndexBuilder", "Spec", "build_from_arrow", "columns_of", "plain_spec", "type_of_arrow"]

Spec = Mapping[str, Mapping[str, Mapping[str, Any] | None]]
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_BY_ARROW = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary(): "BYTES",
    pa.large_binary(): "BYTES",
    pa.binary_view(): "BYTES",
}


def plain_spec(spec: object) -> dict[str, dict[str, dict[str, Any]]]:
    """Converts a spec or the options of a table to plain dictionaries. Raises ``InvalidQuery`` if ``spec`` has another
    form."""
    given = spec.spec if isinstance(spec, FileIndexOptions) else spec
    wanted = 'spec must map kinds of indexes to columns with their options: {"bloom-filter": {"id": {}}}'
    if not isinstance(given, Mapping):
        raise InvalidQuery(f"{wanted}; but it is {spec!r:.200}")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for kind, columns in given.items():
        if not isinstance(kind, str) or not isinstance(columns, Mapping):
            raise InvalidQuery(f"{wanted}; but the value for {kind!r:.50} is {columns!r:.200}")
        for column, options in columns.items():
            if not isinstance(column, str) or not (options is None or isinstance(options, Mapping)):
                raise InvalidQuery(f"{wanted}; but the value for {kind!r:.50} is {{{column!r:.100}: {options!r:.100}}}")
            found.setdefault(kind, {})[column] = dict(options or {})
    return found


def type_of_arrow(kind: pa.DataType) -> DataType:
    """The Paimon type for an Arrow column whose Paimon type was not given. Raises ``Unsupported`` if there is no such
    type."""
    if isinstance(kind, pa.DictionaryType):
        return type_of_arrow(kind.value_type)
    if kind in _BY_ARROW:
        return parse_type(_BY_ARROW[kind])
    if pa.types.is_timestamp(kind):
        return parse_type(f"TIMESTAMP{'_LTZ' if kind.tz else ''}({_PRECISIONS[kind.unit]})")
    if pa.types.is_time(kind):
        return parse_type(f"TIME({_PRECISIONS[kind.unit]})")
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return parse_type(f"DECIMAL({kind.precision}, {kind.scale})")
    if pa.types.is_map(kind):
        return DataType("MAP", children=(type_of_arrow(kind.key_type), type_of_arrow(kind.item_type)))
    raise Unsupported(
        f"columns of Arrow type {kind} cannot be indexed, because no Paimon type that an index supports "
        "corresponds to this type"
    )


class FileIndexBuilder:
    """Takes the record batches of a data file in order, and makes the indexes of the file.

    ``spec``, ``types`` and ``schema`` are as in ``build_file_index``. Bloom filters take constant memory. The other
    formats keep the keys of the indexed columns until ``finish``. If values repeat, these keys take one or two bytes
    per row."""

    def __init__(
        self, spec: Spec | FileIndexOptions, schema: pa.Schema, types: Mapping[str, str | DataType] | None = None
    ) -> None:
        self.rows = 0
        self.types: dict[str, DataType] = {}
        self._builders: dict[tuple[str, str], Builder] = {}
        self._by_column: dict[str, list[Builder]] = {}
        given = {name: as_data_type(one) for name, one in (types or {}).items()}
        for kind, columns in plain_spec(spec).items():
            for column, options in columns.items():
                data_type = self._type_of(column, schema, given)
                builder = open_builder(kind, data_type, options)
                self._builders[column, kind] = builder
                self._by_column.setdefault(column, []).append(builder)

    def _type_of(self, column: str, schema: pa.Schema, given: Mapping[str, DataType]) -> DataType:
        name, key = split_map_key(column, schema.names)
        if name not in schema.names:
            raise InvalidQuery(f"the data has no column {name!r}; it has {', '.join(schema.names)}", column=name)
        data_type = given[name] if name in given else type_of_arrow(schema.field(name).type)
        self.types[name] = data_type
        if key is None:
            return data_type
        if data_type.root != "MAP" or data_type.children[0].root not in TEXTS:
            raise InvalidQuery(
                f"{column!r} names a key of a map, but the column {name!r} has the type {data_type}, which is not a "
                "map with text keys",
                column=name,
            )
        return data_type.children[1]

    def type_of(self, column: str) -> DataType:
        """The type of an indexed column. For ``m[key]`` it is the type of the map's values."""
        name, key = split_map_key(column, self.types)
        return self.types[name] if key is None else self.types[name].children[1]

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows. The batch may have columns that are not indexed."""
        self.rows += batch.num_rows
        for column, builders in self._by_column.items():
            name, key = split_map_key(column, batch.schema.names)
            values = batch.column(name)
            data_type = self.types[name]
            if key is not None:
                values, data_type = map_values(values, key), data_type.children[1]
            keys = key_column(values, data_type)
            for builder in builders:
                builder.add(keys)

    def finish(self) -> FileIndex:
        """The indexes of all added rows. If the file has no rows, a map's key gets an EMPTY index, as in Paimon."""
        found: list[tuple[str, str, Index | None]] = []
        for (column, kind), builder in self._builders.items():
            empty = not self.rows and column not in self.types
            found.append((column, kind, None if empty else builder.finish()))
        return file_index_of(sorted(found, key=lambda index: index[0]), self.types)


def build_from_arrow(
    source: OneSource, spec: Spec | FileIndexOptions, *, types: Mapping[str, str | DataType] | None = None
) -> FileIndex | None:
    """Builds the file index of Arrow data. Returns None if ``source`` is not Arrow data. See ``build_file_index``."""
    arrow = _batches_of(source)
    if arrow is None:
        return None
    schema, batches = arrow
    builder = FileIndexBuilder(spec, schema, types)
    for batch in batches:
        builder.add(batch)
    return builder.finish()


def columns_of(spec: Spec | FileIndexOptions, names: Collection[str]) -> list[str]:
    """The columns of a data file that a spec needs. For a key of a map, the needed column is the map. ``names``: the
    columns of the file. A column can have a name that looks like a key of a map, such as ``a[b]``."""
    wanted = plain_spec(spec)
    return list(dict.fromkeys(split_map_key(column, names)[0] for of_kind in wanted.values() for column in of_kind))


def _batches_of(source: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Returns the schema and the batches of Arrow data. Returns None for any other value."""
    if isinstance(source, pa.RecordBatch):
        return source.schema, iter([source])
    if isinstance(source, pa.Table):
        return source.schema, iter(source.to_batches())
    if isinstance(source, pa.RecordBatchReader):
        return source.schema, iter(source)
    if hasattr(source, "__arrow_c_stream__"):
        reader = stream_of(source)
        return reader.schema, iter(reader)
    if not isinstance(source, (list, Iterator)):
        return None
    batches = iter(source)
    first = next(batches, None)
    if not isinstance(first, pa.RecordBatch):
        raise InvalidQuery(
            f"the first item is a {type(first).__name__}, not a record batch: give record batches, or a Table"
        )
    return first.schema, itertools.chain([first], batches)
