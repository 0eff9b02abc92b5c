"""Reads pyarrow Expressions through their pickled form.

An Expression pickles as an Arrow IPC file with one batch. The columns of the batch are the typed literals and the
options of functions. The metadata of the schema is the ordered list of nodes (``call`` f, ``field_ref`` name,
``nested_field_ref`` n, ``literal`` column, ``options`` column, ``end`` f). Python's view of the metadata drops repeated
keys, so the metadata is read through the C data interface. A form that is not supported is not used for pruning.
pyarrow still evaluates the expression itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.nodes import MIRRORED, Constant, External, Leaf, Op, all_of, any_of, canonical_literal

__all__ = ["TRIED", "computed_table", "expression_of_form", "from_expression", "metadata_pairs", "serialized_form"]

TRIED = "try_cast"
"""The function name that stands for TRY_CAST in an Expression. pyarrow has no such function; see ``tried_casts``."""

_COMPARISONS = {
    "equal": (Op.EQ, False),
    "not_equal": (Op.EQ, True),
    "less": (Op.LT, False),
    "less_equal": (Op.LE, False),
    "greater": (Op.GT, False),
    "greater_equal": (Op.GE, False),
}
_TEXT = {"starts_with": Op.STARTS_WITH, "ends_with": Op.ENDS_WITH, "match_substring": Op.CONTAINS}
_MATCH, _SKIP, _EMIT_NULL, _INCONCLUSIVE = range(4)


def from_expression(expression: pc.Expression) -> External:
    """Makes an ``External`` node from a pyarrow Expression. The node keeps pyarrow's meaning, and has predicates that
    are used to prune.

    Raises ``InvalidQuery`` for an expression with the number of a field, because the columns of a scan and the columns
    that are evaluated have different numbers.
    """
    try:
        root = _read(expression)
    except (pa.ArrowException, InvalidQuery, LookupError, ValueError) as error:
        if "FieldPath(" in str(expression):
            raise InvalidQuery(
                f"the pyarrow Expression {expression} has the number of a field; give its name, as in pc.field('price')"
            ) from error
        return External(expression, Constant(True), Constant(True))  # the serialised form is from an unknown version
    may, exact = _translate(root, negated=False)
    may_not, not_exact = _translate(root, negated=True)
    columns = tuple(dict.fromkeys(node.path for node in _walk(root) if isinstance(node, _Field)))
    tries = any(isinstance(node, _Call) and node.function == TRIED for node in _walk(root))
    return External(expression, may, may_not, exact and not_exact, columns, tries=tries)


# ---------------------------------------------------------------------- reading the form


@dataclass(frozen=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class _Literal:
    value: Any


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] | None


class _ArrowSchema(ctypes.Structure):
    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def metadata_pairs(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """The metadata of the schema in order, with repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _ArrowSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if not address:
        return []
    position = address

    def number() -> int:
        nonlocal position
        position += 4
        return ctypes.c_int32.from_address(position - 4).value

    def text() -> bytes:
        nonlocal position
        length = number()
        position += length
        return ctypes.string_at(position - length, length)

    return [(text(), text()) for _ in range(number())]


_DEEPEST_NESTING = 100
"""The deepest nesting of calls in a pickled form that comes from another process. Arrow reads nested calls recursively,
and the stack is limited."""


def serialized_form(expression: pc.Expression) -> pa.Buffer:
    """The pickled form of an Expression. Raises ``pa.ArrowException`` if the Expression cannot be serialised."""
    return expression.__reduce__()[1][0]


def expression_of_form(form: bytes) -> pc.Expression:
    """Restores an Expression from its pickled form. The form comes from another process, for example as part of a
    split.

    Arrow checks neither the buffers, nor the column indexes, nor the nesting. So this function checks them first.
    Raises ``InvalidQuery`` or ``pa.ArrowException`` for a form that cannot be restored.
    """
    reader = pa.ipc.open_file(form)
    if reader.num_record_batches != 1:
        raise InvalidQuery(f"the pickled pyarrow Expression has {reader.num_record_batches} record batches; expected 1")
    batch = reader.get_batch(0)
    batch.validate(full=True)
    level = 0
    for key, value in metadata_pairs(reader.schema):
        if key in (b"literal", b"options", b"nested_field_ref"):
            most = _DEEPEST_NESTING if key == b"nested_field_ref" else batch.num_columns - 1
            if not value.isdigit() or len(value) > 9 or int(value) > most:
                raise InvalidQuery(
                    f"the pyarrow Expression has {key.decode()} {value!r:.40}; expected a number from 0 to {most}"
                )
        level += (key == b"call") - (key == b"end")
        if not 0 <= level <= _DEEPEST_NESTING:
            raise InvalidQuery(
                f"a call in the pyarrow Expression has no end, or the calls are nested deeper than {_DEEPEST_NESTING} "
                "levels"
            )
    restore = pc.scalar(True).__reduce__()[0]
    return restore(pa.py_buffer(form))


def computed_table(expressions: list[pc.Expression], table: pa.Table) -> pa.Table:
    """The values of the Expressions for each row of the table, one column for each Expression. Without columns the
    table would have no rows, so it must have at least one column."""
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    names = [str(place) for place in range(len(expressions))]
    project = acero.Declaration("project", acero.ProjectNodeOptions(expressions, names))
    return acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)


def _read(expression: pc.Expression) -> Any:
    reader = pa.ipc.open_file(serialized_form(expression))
    batch = reader.get_batch(0)
    tokens = iter([(key.decode(), value.decode()) for key, value in metadata_pairs(reader.schema)])
    return _node(next(tokens), tokens, batch)


def _node(token: tuple[str, str], tokens: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> Any:
    key, value = token
    if key == "field_ref":
        return _Field((value,))
    if key == "nested_field_ref":
        return _Field(tuple(next(tokens)[1] for _ in range(int(value))))
    if key == "literal":
        return _Literal(canonical_literal(batch.column(int(value))[0]))
    if key != "call":
        raise InvalidQuery(f"a pyarrow Expression has an unknown node {key!r}")
    arguments: list[Any] = []
    options = None
    for inner in tokens:
        if inner[0] == "end":
            return _Call(value, tuple(arguments), options)
        if inner[0] == "options":
            options = _options(batch.column(int(inner[1])))
        else:
            arguments.append(_node(inner, tokens, batch))
    raise InvalidQuery("a pyarrow Expression ends inside a call")


def _options(column: pa.StructArray) -> dict[str, Any]:
    values = {field.name: column.field(i)[0] for i, field in enumerate(column.type)}
    if isinstance(values.get("value_set"), pa.ListScalar):
        values["value_set"] = [canonical_literal(item) for item in values["value_set"].values]
    return {name: value.as_py() if isinstance(value, pa.Scalar) else value for name, value in values.items()}


def _walk(node: Any) -> Iterator[Any]:
    yield node
    if isinstance(node, _Call):
        for argument in node.arguments:
            yield from _walk(argument)


# ---------------------------------------------------------------------- translating

_Translation = tuple[Any, bool]
_UNKNOWN: _Translation = (Constant(True), False)


def _translate(node: Any, *, negated: bool) -> _Translation:
    """Returns a predicate that is TRUE wherever the node is true. With ``negated``, it is TRUE wherever the node is
    false. Also returns whether the predicate is TRUE nowhere else."""
    if isinstance(node, _Field):
        return Leaf(node.path, Op.EQ, (not negated,)), True
    if isinstance(node, _Literal):
        known = node.value is None or isinstance(node.value, bool)
        return (Constant(node.value is (not negated)), True) if known else _UNKNOWN
    if node.function in _COMPARISONS:
        return _comparison(node, negated)
    translator = _FUNCTIONS.get(node.function)
    return _UNKNOWN if translator is None else translator(node, negated)


def _comparison(node: _Call, negated: bool) -> _Translation:
    op, unequal = _COMPARISONS[node.function]
    left, right = node.arguments
    if isinstance(left, _Literal):
        left, right, op = right, left, MIRRORED.get(op, op)
    if not isinstance(left, _Field) or not isinstance(right, _Literal):
        return _UNKNOWN
    return Leaf(left.path, op, (right.value,), unequal is not negated), True


def _invert(node: _Call, negated: bool) -> _Translation:
    return _translate(node.arguments[0], negated=not negated)


def _join(node: _Call, negated: bool, *, both: bool, kleene: bool) -> _Translation:
    parts = [_translate(argument, negated=negated) for argument in node.arguments]
    exact = all(part[1] for part in parts)
    if both is not negated:
        # The result is TRUE only if both sides are TRUE. This is the same for the plain functions (and_, or_) and the
        # Kleene functions.
        return all_of(*(part[0] for part in parts)), exact
    # The plain functions return null if one side is null. So one TRUE side is not enough, and the translation is exact
    # only for the Kleene functions.
    return any_of(*(part[0] for part in parts)), exact and kleene


def _null(node: _Call, negated: bool) -> _Translation:
    if not isinstance(node.arguments[0], _Field):
        return _UNKNOWN
    leaf = Leaf(node.arguments[0].path, Op.IS_NULL, (), negated)
    if not (node.options or {}).get("nan_is_null"):
        return leaf, True
    nan = Leaf(leaf.path, Op.IS_NAN, (), negated)
    return (all_of(leaf, nan) if negated else any_of(leaf, nan)), True


def _valid(node: _Call, negated: bool) -> _Translation:
    if not isinstance(node.arguments[0], _Field):
        return _UNKNOWN
    return Leaf(node.arguments[0].path, Op.IS_NULL, (), not negated), True


def _is_nan(node: _Call, negated: bool) -> _Translation:
    if not isinstance(node.arguments[0], _Field):
        return _UNKNOWN
    return Leaf(node.arguments[0].path, Op.IS_NAN, (), negated), True


def _is_in(node: _Call, negated: bool) -> _Translation:
    """pyarrow's ``is_in`` returns false, not null, for a null row. If the list contains a null, a null row matches by
    default."""
    options = node.options or {}
    behaviour = options.get("null_matching_behavior", _MATCH)
    if not isinstance(node.arguments[0], _Field) or "value_set" not in options or behaviour not in range(4):
        return _UNKNOWN
    path = node.arguments[0].path
    values = [value for value in options["value_set"] if value is not None]
    holds_null = len(values) < len(options["value_set"])
    if behaviour in (_EMIT_NULL, _INCONCLUSIVE):
        literals = (*values, None) if holds_null and behaviour == _INCONCLUSIVE else tuple(values)
        return Leaf(path, Op.IN, literals, negated), True
    leaf = Leaf(path, Op.IN, tuple(values), negated)
    null = Leaf(path, Op.IS_NULL, (), negated)
    if holds_null and behaviour == _MATCH:
        return (all_of(leaf, null) if negated else any_of(leaf, null)), True
    return (any_of(leaf, ~null) if negated else leaf), True


def _text(node: _Call, negated: bool) -> _Translation:
    options = node.options or {}
    if not isinstance(node.arguments[0], _Field) or options.get("ignore_case") is not False:
        return _UNKNOWN
    path, pattern = node.arguments[0].path, options["pattern"]
    if node.function == "match_like":
        # A pattern is translated only if it means the same in every dialect of LIKE.
        return _UNKNOWN if "\\" in pattern else (Leaf(path, Op.LIKE, (pattern, "\\"), negated), True)
    return Leaf(path, _TEXT[node.function], (pattern,), negated), True


def _if_else(node: _Call, negated: bool) -> _Translation:
    """The result is TRUE if the condition is true and the first branch is TRUE. It is also TRUE if the condition is
    false and the second branch is TRUE. It is null if the condition is null."""
    condition, first, second = node.arguments
    holds, fails = _translate(condition, negated=False), _translate(condition, negated=True)
    then, other = _translate(first, negated=negated), _translate(second, negated=negated)
    exact = holds[1] and fails[1] and then[1] and other[1]
    return any_of(all_of(holds[0], then[0]), all_of(fails[0], other[0])), exact


_FUNCTIONS: dict[str, Callable[[_Call, bool], _Translation]] = {
    "invert": _invert,
    "and_kleene": lambda node, negated: _join(node, negated, both=True, kleene=True),
    "or_kleene": lambda node, negated: _join(node, negated, both=False, kleene=True),
    "and": lambda node, negated: _join(node, negated, both=True, kleene=False),
    "or": lambda node, negated: _join(node, negated, both=False, kleene=False),
    "is_null": _null,
    "is_valid": _valid,
    "is_nan": _is_nan,
    "is_in": _is_in,
    "starts_with": _text,
    "ends_with": _text,
    "match_substring": _text,
    "match_like": _text,
    "if_else": _if_else,
}
