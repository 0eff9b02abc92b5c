"""TRY_CAST: a cast that gives null if a value does not fit the type.

pyarrow has no function for TRY_CAST. In an Expression, TRY_CAST is a call of ``try_cast`` with two arguments: the
value, and a null of the type. pyarrow builds, compares and pickles this call, but cannot evaluate it. So binding takes
these calls out of the Expression (``taken_out``). The evaluation computes the calls first and adds their results as
columns for the Expression.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.predicate.arrow_expression import TRIED, expression_of_form, metadata_pairs, serialized_form

__all__ = ["TriedCast", "expression_of_tokens", "taken_out", "tried_cast", "values_that_fit"]

_POSSIBLE = (
    (pa.types.is_integer, "^-?[0-9a-fA-FxX]+$"),
    (pa.types.is_floating, "^[+-]?([0-9.][0-9.eE+-]*|(?i:inf|nan).*)$"),
    (pa.types.is_boolean, "^(?i:true|false|0|1)$"),
    (pa.types.is_temporal, "^[0-9][0-9TZ:. +-]*$"),
)
"""Patterns that match all texts that pyarrow may accept for a type. A text that cannot be cast takes 25 us, because
it must be found among the other texts, and an error is created. Matching a pattern rejects many such texts at once, and
is much faster."""


@dataclass(frozen=True, eq=False)
class TriedCast:
    """A column ``name`` with the values of ``value``, converted to another type. The column is null where a value does
    not fit that type."""

    name: str
    value: pc.Expression
    kind: pa.DataType


def tried_cast(value: pc.Expression, kind: pa.DataType) -> pc.Expression:
    """The Expression of TRY_CAST; see the docstring of the module."""
    return pc.Expression._call(TRIED, [value, pc.scalar(pa.scalar(None, kind))])


def taken_out(expression: pc.Expression, names: Collection[str]) -> tuple[pc.Expression, tuple[TriedCast, ...]]:
    """The Expression with columns in place of TRY_CAST, and these columns in the order in which they can be computed.
    ``names`` are the names of the other columns."""
    reader = pa.ipc.open_file(serialized_form(expression))
    batch = reader.get_batch(0)
    start, end = (b"call", TRIED.encode()), (b"end", TRIED.encode())
    open_calls: list[list[tuple[bytes, bytes]]] = [[]]
    found: list[TriedCast] = []
    for token in metadata_pairs(reader.schema):
        if token == start:
            open_calls.append([])
        elif token == end:
            *value, (_, literal) = open_calls.pop()
            kind = batch.schema.field(int(literal)).type
            name = f"TRY_CAST {len(found)} AS {kind}"
            while name in names:
                name += "_"
            found.append(TriedCast(name, expression_of_tokens(value, batch), kind))
            open_calls[-1].append((b"field_ref", name.encode()))
        else:
            open_calls[-1].append(token)
    return expression_of_tokens(open_calls[0], batch), tuple(found)


def expression_of_tokens(tokens: list[tuple[bytes, bytes]], batch: pa.RecordBatch) -> pc.Expression:
    """Restores an Expression from its nodes. The literals of the nodes are in ``batch`` (see ``arrow_expression``)."""
    batch = batch.replace_schema_metadata(pa.KeyValueMetadata(tokens))
    form = pa.BufferOutputStream()
    with pa.ipc.new_file(form, batch.schema) as file:
        file.write_batch(batch)
    return expression_of_form(form.getvalue())


def values_that_fit(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts values to another type. A value that does not fit becomes null. Raises pyarrow's error if no value of
    the original type can be converted."""
    text = values.type
    if pa.types.is_string(text) or pa.types.is_large_string(text):
        pattern = next((pattern for has, pattern in _POSSIBLE if has(kind)), None)
        if pattern is not None:
            possible = pc.match_substring_regex(values, pattern)
            values = pc.if_else(possible, values, pa.scalar(None, text))
    parts = _parts_that_fit(values, kind)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _parts_that_fit(values: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Casts an array. If the whole array cannot be cast, each half is cast separately, down to single values."""
    try:
        return [values.cast(kind)]
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [pa.nulls(1, kind)]
    half = len(values) // 2
    return _parts_that_fit(values[:half], kind) + _parts_that_fit(values[half:], kind)
