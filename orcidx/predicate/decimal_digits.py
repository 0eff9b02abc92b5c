"""Expressions on decimals that pyarrow can evaluate.

pyarrow refuses arithmetic and comparisons of decimals in two cases. First, an operand is an integer constant.
pyarrow converts the constant to a decimal type that is large enough for its value. But the conversion fails unless this
type is large enough for every value of the integer type. Second, the type of a result would have more than 38
digits. In the first case, this module replaces the constants by decimals. In the second case, it also converts the
columns to decimals of up to 76 digits. Neither conversion changes a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.arrow_expression import computed_table, metadata_pairs, serialized_form
from orcidx.predicate.tried_casts import TriedCast, expression_of_tokens

__all__ = ["all_with_enough_digits", "not_evaluated", "with_enough_digits"]

_EXACT = frozenset(
    {
        "add", "add_checked", "subtract", "subtract_checked", "multiply", "multiply_checked", "coalesce",
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    }
)  # fmt: skip
"""Functions that give the same result for an integer and for a decimal of the same value, if another operand is a
decimal."""
_FIELDS = (b"field_ref", b"nested_field_ref")

Tokens = list[tuple[bytes, bytes]]


def all_with_enough_digits(
    expression: pc.Expression, tried: Sequence[TriedCast], schema: pa.Schema
) -> tuple[pc.Expression, tuple[TriedCast, ...]]:
    """Does the same as ``with_enough_digits``, for an Expression and the values of TRY_CAST that it uses."""
    changed = []
    for one in tried:
        changed.append(replace(one, value=with_enough_digits(one.value, schema)))
        schema = schema.append(pa.field(one.name, one.kind))
    return with_enough_digits(expression, schema), tuple(changed)


def with_enough_digits(expression: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """Returns an Expression that has the same values, and that pyarrow can evaluate for columns of the schema. If
    there is no such Expression, returns the given Expression."""
    if not any(map(_has_decimals, schema.types)):
        return expression
    reader = pa.ipc.open_file(serialized_form(expression))
    used = {value.decode() for key, value in metadata_pairs(reader.schema) if key == b"field_ref"}
    schema = pa.schema([field for field in schema if field.name in used])
    if _type(expression, schema) is not None:
        return expression
    for is_wide in (False, True):
        changed = _Changed(expression, schema, is_wide=is_wide).expression()
        if _type(changed, schema) is not None:
            return changed
    return expression


def not_evaluated(what: str, error: pa.ArrowException) -> InvalidQuery:
    """The error for an Expression that pyarrow cannot evaluate."""
    hint = ""
    if "recision" in str(error):
        hint = "; the decimals have too many digits: compute with doubles, as in CAST(price AS DOUBLE) * 2"
    return InvalidQuery(f"pyarrow cannot evaluate {what}: {error}{hint}")


def _has_decimals(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) or (
        pa.types.is_struct(kind) and any(_has_decimals(kind.field(i).type) for i in range(kind.num_fields))
    )


def _type(expression: pc.Expression, schema: pa.Schema) -> pa.DataType | None:
    """The type of the values of an Expression. The result is None if pyarrow cannot evaluate it. A row of nulls is
    evaluated, because pyarrow converts constants only if there are rows."""
    spare = max(schema.names, key=len, default="") + "_"
    table = pa.table({**{field.name: pa.nulls(1, field.type) for field in schema}, spare: pa.nulls(1)})
    try:
        return computed_table([expression], table).schema.types[0]
    except pa.ArrowException:
        return None


class _Changed:
    """Changes the constants, and with ``is_wide`` also the columns, of an Expression (see ``arrow_expression``)."""

    def __init__(self, expression: pc.Expression, schema: pa.Schema, *, is_wide: bool) -> None:
        reader = pa.ipc.open_file(serialized_form(expression))
        batch = reader.get_batch(0)
        self.schema = schema
        self.is_wide = is_wide
        self.tokens = metadata_pairs(reader.schema)
        self.columns: list[pa.Array] = list(batch.columns) or [pa.nulls(1)]

    def expression(self) -> pc.Expression:
        tokens = iter(self.tokens)
        return self._made(self._node(next(tokens), tokens))

    def _made(self, tokens: Tokens) -> pc.Expression:
        names = [str(place) for place in range(len(self.columns))]
        return expression_of_tokens(tokens, pa.RecordBatch.from_arrays(self.columns, names=names))

    def _node(self, token: tuple[bytes, bytes], tokens: Iterator[tuple[bytes, bytes]]) -> Tokens:
        key, value = token
        if key in _FIELDS:
            below = [next(tokens) for _ in range(int(value))] if key == b"nested_field_ref" else []
            return self._widened([token, *below])
        if key != b"call":
            return [token]
        arguments: list[Tokens] = []
        for inner in tokens:
            if inner[0] == b"end":
                break
            arguments.append(self._node(inner, tokens))
        if value.decode() in _EXACT and any(self._is_decimal(one) for one in arguments):
            arguments = [self._as_decimal(one) for one in arguments]
        return [token, *(part for one in arguments for part in one), (b"end", value)]

    def _is_decimal(self, tokens: Tokens) -> bool:
        if tokens[0][0] in (b"literal", b"options"):
            return False
        kind = _type(self._made(tokens), self.schema)
        return kind is not None and pa.types.is_decimal(kind)

    def _as_decimal(self, tokens: Tokens) -> Tokens:
        """A constant as a decimal, if it is an integer."""
        key, value = tokens[0]
        if key != b"literal" or not pa.types.is_integer(self.columns[int(value)].type):
            return tokens
        number = self.columns[int(value)][0].as_py()
        digits = 1 if number is None else len(str(abs(number)))
        constant = pa.array([None if number is None else Decimal(number)], pa.decimal128(digits, 0))
        return [(b"literal", self._place(constant))]

    def _widened(self, tokens: Tokens) -> Tokens:
        kind: Any = _type(self._made(tokens), self.schema) if self.is_wide else None
        if kind is None or not pa.types.is_decimal128(kind):
            return tokens
        cast = pa.ipc.open_file(serialized_form(pc.field("x").cast(pa.decimal256(kind.precision, kind.scale))))
        options = self._place(cast.get_batch(0).column(0))
        return [(b"call", b"cast"), *tokens, (b"options", options), (b"end", b"cast")]

    def _place(self, column: pa.Array) -> bytes:
        self.columns.append(column)
        return str(len(self.columns) - 1).encode()
