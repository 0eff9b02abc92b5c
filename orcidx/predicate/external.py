"""pyarrow Expressions as part of a predicate. If orcidx gives the same result as pyarrow, orcidx evaluates an
Expression itself. Otherwise pyarrow evaluates it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, ValueOutOfRange
from orcidx.predicate.arrow_expression import computed_table
from orcidx.predicate.decimal_digits import not_evaluated
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.literals import domain_of, point_of
from orcidx.predicate.nodes import NANOS, Constant, Domain, External, Leaf, Op
from orcidx.predicate.tried_casts import values_that_fit

__all__ = ["Relaxation", "evaluate_expression"]

_EXACT_FLOAT = 1 << 24
"""Integers up to this number are exact in float32, so casts between number types do not change them."""


class Relaxation:
    """Makes a leaf TRUE wherever pyarrow's comparison is true. The leaf and pyarrow's comparison may differ, because
    pyarrow casts values in some cases in which orcidx compares them exactly.

    ``changed`` is set if a leaf has another meaning in pyarrow. In this case pyarrow must evaluate the condition.
    """

    def __init__(self) -> None:
        self.changed = False

    def relax(self, leaf: Leaf, kind: pa.DataType, is_char: bool) -> Leaf | Constant:
        """Returns the leaf itself if it has the same meaning in orcidx and in pyarrow. Otherwise returns a leaf that is
        TRUE wherever pyarrow's comparison is true, or the constant True."""
        domain = domain_of(kind)
        if leaf.op in (Op.IS_NULL, Op.IS_NAN) or self._same(leaf, kind, domain, is_char):
            return leaf
        self.changed = True
        if domain is Domain.DECIMAL:  # pyarrow converts a decimal to a double to compare it with a float
            return Constant(True) if any(isinstance(value, float) for value in leaf.literals) else leaf
        if domain is Domain.FLOAT:
            return self._float(leaf)
        if domain is Domain.STRING and is_char:  # pyarrow does not ignore trailing spaces
            equality = leaf.op in (Op.EQ, Op.IN) and not leaf.negated
            return leaf if equality else Constant(True)
        if domain is Domain.TIMESTAMP and kind.unit != "ns":
            return self._coarse_time(leaf, kind)
        if domain in (Domain.DATE, Domain.TIMESTAMP) and any(isinstance(value, str) for value in leaf.literals):
            return Constant(True)
        return leaf

    def _same(self, leaf: Leaf, kind: pa.DataType, domain: Domain, is_char: bool) -> bool:
        if domain is Domain.STRING:
            return not is_char and all(isinstance(value, (str, type(None))) for value in leaf.literals)
        if domain is Domain.TIMESTAMP:
            return bool(kind.unit == "ns") and _plain(leaf, (datetime.date, np.datetime64, ExactTime))
        if domain is Domain.FLOAT:
            return leaf.op is not Op.IN and all(
                value is None or isinstance(value, float) or (_is_int(value) and abs(value) <= _EXACT_FLOAT)
                for value in leaf.literals
            )
        if domain is Domain.DATE:
            return _plain(leaf, (datetime.date,)) and not any(
                isinstance(value, datetime.datetime) for value in leaf.literals
            )
        if domain in (Domain.INT, Domain.DECIMAL):
            return _plain(leaf, (int,) if domain is Domain.INT else (int, Decimal))
        return domain in (Domain.BOOL, Domain.BINARY, Domain.NULL)

    def _float(self, leaf: Leaf) -> Leaf | Constant:
        """Relaxes a leaf on a float column. pyarrow's ``is_in`` casts its values to the column's type. In ``is_in``,
        NaN equals NaN, but 0.0 and -0.0 are different."""
        known = all(
            value is None or (isinstance(value, (int, float)) and abs(value) <= _EXACT_FLOAT and value == int(value))
            for value in leaf.literals
            if value == value
        )
        without_nan = all(value == value for value in leaf.literals)
        return leaf if leaf.op is Op.IN and not leaf.negated and known and without_nan else Constant(True)

    def _coarse_time(self, leaf: Leaf, kind: pa.DataType) -> Leaf | Constant:
        """Relaxes a leaf on a column of timestamps. pyarrow floors each value to the column's unit. So pyarrow's value
        is up to one unit below the value that orcidx compares."""
        slack = NANOS[kind.unit] - 1
        upward = leaf.op in (Op.LT, Op.LE) if not leaf.negated else leaf.op in (Op.GT, Op.GE)
        if (leaf.op in (Op.GT, Op.GE) and not leaf.negated) or (leaf.op in (Op.LT, Op.LE) and leaf.negated):
            return leaf
        if None in leaf.literals or not (upward or (leaf.op is Op.EQ and not leaf.negated)):
            return Constant(True)
        zone = kind.tz
        point = point_of(leaf.literals[0], kind, Domain.TIMESTAMP, column=leaf.column)
        high = ExactTime(point.above + slack, zone)
        if leaf.op is Op.EQ:
            return Leaf(leaf.path, Op.BETWEEN, (ExactTime(point.below, zone), high))
        return replace(leaf, literals=(high,))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(leaf: Leaf, kinds: tuple[type, ...]) -> bool:
    return all(value is None or (isinstance(value, kinds) and not isinstance(value, bool)) for value in leaf.literals)


# ---------------------------------------------------------------------- evaluation by pyarrow


def evaluate_expression(
    node: External, batch: pa.RecordBatch | pa.StructArray, schema: pa.Schema
) -> npt.NDArray[np.bool_]:
    """Returns for each row whether the expression is true in pyarrow. Before the evaluation, the columns in
    ``node.nested`` are converted to the types given there. All other columns are converted to the types in ``schema``.

    Raises ``InvalidQuery`` with pyarrow's message if pyarrow rejects the expression.
    """
    if isinstance(batch, pa.StructArray):
        batch = pa.RecordBatch.from_struct_array(batch)
    rows = batch.num_rows
    names = list(dict.fromkeys(path[0] for path in node.columns)) if node.columns is not None else batch.schema.names
    fields = {name: (path, kind) for name, path, kind in node.nested}
    arrays = {}
    for name in names:
        path, kind = fields[name] if name in fields else ((name,), schema.field(name).type)
        if node.columns is not None:
            kind = _with_fields(kind, [one[1:] for one in node.columns if one[0] == name])
        arrays[name] = _as_declared(_column(batch, path), kind) if path else pa.nulls(rows, kind)
    for one in node.tried:
        values = _values(one.value, arrays, rows)
        try:
            arrays[one.name] = values_that_fit(values, one.kind)
        except pa.ArrowException as error:
            raise InvalidQuery(f"pyarrow cannot evaluate TRY_CAST of {one.value} to {one.kind}: {error}") from error
    if node.pair is not None:
        compared: npt.NDArray[np.bool_] | None = node.pair.truth(arrays[node.pair.left], arrays[node.pair.right])
        if compared is not None:
            return compared
    truth = _values(node.expression, arrays, rows)
    if not pa.types.is_boolean(truth.type):
        raise InvalidQuery(
            f"the pyarrow Expression {node.expression} has the type {truth.type}; a condition must be boolean"
        )
    found: npt.NDArray[np.bool_] = truth.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _values(expression: pc.Expression, arrays: dict[str, pa.Array], rows: int) -> pa.Array:
    """Computes the values of the expression with pyarrow. The columns have ``rows`` rows."""
    # A table without columns would have no rows. So a column of nulls is added.
    spare = max(arrays, key=len, default="") + "_"
    table = pa.table({**arrays, spare: pa.nulls(rows)})
    try:
        return computed_table([expression], table).column(0).combine_chunks()
    except pa.ArrowException as error:
        raise not_evaluated(str(expression), error) from error


def _column(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """A column, or a field of a struct. The field is null where a struct around it is null."""
    index = batch.schema.get_field_index(path[0])
    if index < 0:
        raise InvalidQuery(f"the batch has no column {path[0]!r}", column=path[0])
    array = batch.column(index)
    for name in path[1:]:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        array = pc.struct_field(array, [array.type.get_field_index(name)])
    return array


def _with_fields(kind: pa.DataType, paths: Sequence[Sequence[str]]) -> pa.DataType:
    """The type without the struct fields that are on none of the paths. These fields are not read."""
    if not pa.types.is_struct(kind) or not all(paths):
        return kind
    fields = []
    for field in (kind.field(i) for i in range(kind.num_fields)):
        below = [path[1:] for path in paths if path[0] == field.name]
        if below:
            fields.append(field.with_type(_with_fields(field.type, below)))
    return pa.struct(fields) if fields else kind


def _as_declared(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in the type that the caller of the scan sees. Times are floored to the unit of that type. If
    the column lacks a field of a struct, this field is null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        places = [array.type.get_field_index(field.name) for field in fields]
        children = [
            pa.nulls(len(array), field.type) if place < 0 else _as_declared(array.field(place), field.type)
            for place, field in zip(places, fields)
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_timestamp(kind):
        return _floored(array, kind)
    return array.cast(kind)


def _floored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    unit = NANOS[kind.unit]
    if pa.types.is_decimal(array.type):
        values = [None if value is None else int(value) // unit for value in array.to_pylist()]
        try:
            return pa.array(values, pa.int64()).cast(kind)
        except OverflowError:
            far = max((value for value in values if value is not None), key=abs) * unit // NANOS["s"]
            raise ValueOutOfRange(
                f"computed values and columns are compared as {kind}, but a timestamp {far} seconds from 1970 does not "
                "fit this type; compare the column with a constant"
            ) from None
    factor = unit // NANOS[array.type.unit]
    if factor <= 1:
        return array.cast(kind)
    values = array.cast(pa.int64())
    data = np.asarray(values.fill_null(0)) // factor
    return pa.array(data, mask=np.asarray(array.is_null())).cast(kind)
