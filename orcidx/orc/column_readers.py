"""``open_column`` chooses the reader of a column by its type and encoding, and makes the readers of all columns below
it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orcidx.options import ReadOptions
from orcidx.orc.columns.base import BatchTooLarge, Claims, ColumnReader, Limits, Present, StripeStreams
from orcidx.orc.columns.nested import Lists, Maps, Structs, Unions
from orcidx.orc.columns.numbers import Booleans, Bytes, Decimals, Floats, Integers
from orcidx.orc.columns.text import DictionaryStrings, DirectStrings
from orcidx.orc.columns.times import Dates, Timestamps
from orcidx.orc.metadata import FileFacts, TypeKind
from orcidx.orc.streams import is_dictionary
from orcidx.orc.types import TIMESTAMP_KINDS, OrcType

__all__ = ["BatchTooLarge", "Claims", "ColumnReader", "Limits", "Present", "StripeStreams", "open_column"]

_LEAVES: dict[TypeKind, Callable[..., ColumnReader]] = {
    TypeKind.BOOLEAN: Booleans,
    TypeKind.BYTE: Bytes,
    TypeKind.SHORT: Integers,
    TypeKind.INT: Integers,
    TypeKind.LONG: Integers,
    TypeKind.FLOAT: Floats,
    TypeKind.DOUBLE: Floats,
    TypeKind.DECIMAL: Decimals,
    TypeKind.DATE: Dates,
    TypeKind.TIMESTAMP: Timestamps,
    TypeKind.TIMESTAMP_INSTANT: Timestamps,
    TypeKind.STRING: DirectStrings,
    TypeKind.CHAR: DirectStrings,
    TypeKind.VARCHAR: DirectStrings,
    TypeKind.BINARY: DirectStrings,
    TypeKind.GEOMETRY: DirectStrings,
    TypeKind.GEOGRAPHY: DirectStrings,
}

_BRANCHES: dict[TypeKind, Callable[..., ColumnReader]] = {
    TypeKind.STRUCT: Structs,
    TypeKind.LIST: Lists,
    TypeKind.MAP: Maps,
    TypeKind.UNION: Unions,
}


def open_column(
    node: OrcType, streams: StripeStreams, options: ReadOptions, *, file: FileFacts, exact_times: bool = False
) -> ColumnReader:
    """Makes the reader of a column, with readers for all columns below it.

    ``exact_times``: timestamps are read as decimal128(38, 0) of nanoseconds, for predicates over years that do not fit
    into 64 bits. Raises ``CorruptFile`` for an encoding that is not allowed for the type.
    """
    if node.kind in _BRANCHES:
        below = partial(open_column, streams=streams, options=options, file=file, exact_times=exact_times)
        return _BRANCHES[node.kind](node, streams, options, file, below)
    if exact_times and node.kind in TIMESTAMP_KINDS:
        return Timestamps(node, streams, options, file, exact=True)
    if is_dictionary(streams.encoding(node.id).kind) and node.kind in _LEAVES:
        return DictionaryStrings(node, streams, options, file)
    return _LEAVES[node.kind](node, streams, options, file)
