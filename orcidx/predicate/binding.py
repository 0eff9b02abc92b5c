"""Binds a predicate to a schema: finds columns, converts literals, and removes parts that can never be true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate.char_leaf import CharLeaf
from orcidx.predicate.column_pairs import column_pair
from orcidx.predicate.column_paths import Path, resolve_column, resolve_column_or_text
from orcidx.predicate.decimal_digits import all_with_enough_digits
from orcidx.predicate.dictionary_answers import DictionaryAnswers
from orcidx.predicate.evaluation import evaluate_predicate
from orcidx.predicate.external import Relaxation
from orcidx.predicate.fold import Part, leaves, rewritten
from orcidx.predicate.largest_nan_leaf import LargestNanLeaf
from orcidx.predicate.like import normalise_like
from orcidx.predicate.literals import NAN_POINT, Point, domain_of, point_of
from orcidx.predicate.nodes import (
    Bound,
    BoundLeaf,
    Constant,
    Domain,
    External,
    Leaf,
    Op,
    Predicate,
    all_of,
    any_of,
)
from orcidx.predicate.padded_leaf import PaddedLeaf
from orcidx.predicate.ranges import with_ranges
from orcidx.predicate.tried_casts import taken_out

__all__ = [
    "NAN_KEY",
    "NO_VALUE",
    "NULL_KEY",
    "BoundKeys",
    "BoundPredicate",
    "bind",
    "bind_keys",
    "keep_bindable",
]

NO_VALUE, NULL_KEY, NAN_KEY = -1, -2, -3
"""Negative places mark keys that are not literals. The three cases are: no value of the column equals the key, the key
is null, and the key is NaN."""
_STRING_OPS = (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE)


@dataclass(frozen=True)
class BoundPredicate:
    """A predicate with bound leaves. ``root`` is a tree of BoundLeaf, And, Or, Constant and External."""

    root: Bound
    columns: tuple[Path, ...]
    """Paths of the columns that the predicate reads. Each path occurs once, in the order of first use."""
    schema: pa.Schema

    def evaluate(
        self, batch: pa.RecordBatch | pa.StructArray, answers: DictionaryAnswers | None = None
    ) -> npt.NDArray[np.bool_]:
        """Returns for which rows the predicate is TRUE, as a boolean array with one value per row. ``answers`` caches
        results of this predicate for dictionaries, because a dictionary may occur in several batches.

        The batch must contain ``columns`` by name. A column may have another Arrow type of the same domain: another
        unit, a dictionary, a view, large offsets, or timestamps as decimal128(38, 0) of nanoseconds.
        """
        return evaluate_predicate(self._tested, batch, self.schema, answers)

    @cached_property
    def _tested(self) -> Bound:
        return self.root if isinstance(self.root, BoundLeaf) else with_ranges(self.root)

    def leaves(self) -> Iterator[BoundLeaf]:
        """Iterates over every leaf, from left to right."""
        return leaves(self.root)


def bind(
    predicate: Predicate,
    schema: pa.Schema,
    *,
    nan: Literal["ieee", "largest"] = "ieee",
    case_sensitive: bool = True,
    char_lengths: Mapping[Path, int] | None = None,
    computed: pa.Schema | None = None,
) -> BoundPredicate:
    """Binds a predicate to a schema.

    ``computed`` is a schema of the same columns. It has the types in which pyarrow evaluates conditions, if they differ
    from the types in ``schema``. If a struct has a field in ``computed`` but not in ``schema``, the field is null in
    every row.

    ``char_lengths`` has the length n of each CHAR(n) column. Trailing spaces of these columns are ignored. Raises
    ``InvalidQuery`` in three cases: a column is unknown or ambiguous, a literal cannot have the column's type, or the
    type does not support the operator. For an unknown column, the error names the nearest column.
    """
    if nan not in ("ieee", "largest"):
        raise InvalidQuery(f"nan={nan!r} is not supported; use 'ieee' or 'largest'")
    binder = _Binder(schema, nan, case_sensitive, char_lengths or {}, schema if computed is None else computed)
    root = binder.bind(predicate)
    return BoundPredicate(root, tuple(dict.fromkeys(binder.columns)), schema)


@dataclass(frozen=True, eq=False)
class BoundKeys:
    """Keys of a column. ``leaf`` is an IN on the column. Its literals are the distinct values of the keys, in order.
    ``leaf`` is None if no key has a value. ``places`` gives for each key the index of its value among the leaf's
    literals. For a key without a value, ``places`` has ``NO_VALUE``, ``NULL_KEY`` or ``NAN_KEY``."""

    path: Path
    type: pa.DataType
    leaf: BoundLeaf | None
    places: npt.NDArray[np.int64]


def bind_keys(
    path: Path,
    keys: Sequence[Any],
    schema: pa.Schema,
    *,
    nan: Literal["ieee", "largest"] = "ieee",
    case_sensitive: bool = True,
    char_lengths: Mapping[Path, int] | None = None,
) -> BoundKeys:
    """Converts keys as ``bind`` converts the literals of an IN, and raises the same errors. It also records which key
    became which literal.

    A key may be null or NaN. ``places`` has ``NULL_KEY`` for a null key and ``NAN_KEY`` for a NaN key. In an IN, by
    contrast, a null never matches, and NaN matches only with ``nan="largest"``.
    """
    leaf = Leaf(path, Op.IN, tuple(keys))
    path, kind = resolve_column(path, schema, case_sensitive=case_sensitive)
    column = _Column(leaf, path, kind, nan, (char_lengths or {}).get(path))
    replace(column, leaf=Leaf(path, Op.IN)).bind()  # raises an error for types that can only be tested for null
    places = np.full(len(leaf.literals), NO_VALUE, np.int64)
    values: dict[Any, list[int]] = {}
    for number, key in enumerate(leaf.literals):
        if key is None:
            places[number] = NULL_KEY
        elif column.domain is not Domain.NULL:
            point = column.convert(key)
            if point is NAN_POINT:
                places[number] = NAN_KEY if column.domain is Domain.FLOAT else NO_VALUE
            elif column.is_value(point):
                values.setdefault(point.below, []).append(number)
    literals = sorted(values)
    for place, literal in enumerate(literals):
        places[values[literal]] = place
    return BoundKeys(path, kind, column.make(Op.IN, *literals) if literals else None, places)


def keep_bindable(predicate: Predicate, schema: pa.Schema, *, case_sensitive: bool = True) -> Predicate:
    """Replaces every leaf that cannot be bound by the constant True. The result is for engines that evaluate the
    predicate again."""

    def kept(part: Leaf | Constant | External) -> Predicate:
        try:
            bind(part, schema, case_sensitive=case_sensitive)
        except InvalidQuery:
            return Constant(True)
        return part

    found: Predicate = rewritten(predicate, kept)
    return found


class _Binder:
    def __init__(
        self,
        schema: pa.Schema,
        nan: str,
        case_sensitive: bool,
        char_lengths: Mapping[Path, int],
        computed: pa.Schema,
    ) -> None:
        self.schema = schema
        self.computed = computed
        self.nan = nan
        self.case_sensitive = case_sensitive
        self.char_lengths = char_lengths
        self.columns: list[Path] = []
        self.relaxed: Relaxation | None = None

    def bind(self, node: Predicate) -> Bound:
        found: Bound = self._leaf(node) if isinstance(node, Leaf) else rewritten(node, self._part)
        return found

    def _part(self, node: Part) -> Bound:
        if isinstance(node, Leaf):
            return self._leaf(node)
        if isinstance(node, Constant):
            return Constant(node.value is True)
        if isinstance(node, External):
            return self._external(node)
        raise InvalidQuery(f"{node!r} is not a predicate; parse() makes one from SQL text, an Expression or a DNF list")

    def _leaf(self, leaf: Leaf) -> Bound:
        if self.relaxed is not None:
            return self._relaxed_leaf(leaf, self.relaxed)
        path, kind = resolve_column(leaf.path, self.schema, case_sensitive=self.case_sensitive)
        self.columns.append(path)
        if (char_length := self.char_lengths.get(path)) is None and isinstance(leaf, CharLeaf):
            char_length = leaf.length
        if isinstance(leaf, PaddedLeaf) and char_length is not None and leaf.keeps_all_of_char:
            return Constant(True)
        nan = "largest" if isinstance(leaf, LargestNanLeaf) else self.nan
        return _Column(leaf, path, kind, nan, char_length).bind()

    def _relaxed_leaf(self, leaf: Leaf, relaxed: Relaxation) -> Bound:
        """Binds a leaf of the predicate with which rows are ruled out before pyarrow evaluates an Expression."""
        path, wanted = resolve_column(leaf.path, self.computed)
        if self._stored(path) != path:
            return Constant(leaf.of_null().value is True)
        path, kind = resolve_column(path, self.schema)
        char_length = self.char_lengths.get(path)
        column = _Column(leaf, path, kind, self.nan, char_length)
        try:
            # pyarrow compares numbers of the type ``wanted``. These numbers are equal to the numbers in the file,
            # because types are only widened.
            wider = relaxed.relax(leaf, wanted, char_length is not None)
            return wider if isinstance(wider, Constant) else replace(column, leaf=wider).bind()
        # orcidx cannot compare the column with this literal. pyarrow compares them by its own rules, or raises an error
        # when it evaluates the comparison. So no row is excluded here.
        except InvalidQuery:
            relaxed.changed = True
            return Constant(True)

    def _stored(self, path: Path) -> Path:
        """The path of a column of ``computed``, up to the first field that ``schema`` does not have."""
        kind: pa.DataType = None
        for depth, name in enumerate(path):
            if isinstance(kind, pa.BaseExtensionType):
                kind = kind.storage_type
            at = self.schema if kind is None else kind
            index = at.get_field_index(name)
            if index < 0:
                return path[:depth]
            kind = at.field(index).type
        return path

    def _external(self, node: External) -> Bound:
        nested = []
        if node.columns is None:
            self.columns.extend((name,) for name in self.schema.names)
            names = self.schema.names if self.computed is not self.schema else []
        else:
            self.columns.extend(self._stored(resolve_column_or_text(path, self.computed)) for path in node.columns)
            names = [path[0] for path in node.columns]
        for name in dict.fromkeys(names):
            index = self.computed.get_field_index(name)
            if index < 0:
                path, kind = resolve_column((name,), self.computed)
                nested.append((name, path if self._stored(path) == path else (), kind))
            elif self.computed is not self.schema:
                nested.append((name, (name,), self.computed.field(index).type))
        # pyarrow compares NaN by IEEE 754 rules, whatever the option ``nan`` is.
        largest, made = None, node.comparisons
        if made is not None and (self.nan == "largest" or made.nan_is_largest):
            fields = [pa.field(name, kind) for name, _, kind in nested if self.computed.get_field_index(name) < 0]
            largest = made.largest(pa.schema([*self.computed, *fields]), tries=node.tries)
        rule = "ieee" if largest is None else "largest"
        inner = _Binder(self.schema, rule, True, self.char_lengths, self.computed)
        inner.relaxed = Relaxation()
        may = inner.bind(node.may)
        if largest is None and node.is_exact and not inner.relaxed.changed:
            return may
        expression = node.expression if largest is None else largest
        names = [path[0] for path in node.columns or ()]
        expression, tried = taken_out(expression, names) if node.tries else (expression, ())
        if node.columns is not None:
            kinds = {field.name: field.type for field in self.computed} | {name: kind for name, _, kind in nested}
            types = [(name, kinds[name]) for name in dict.fromkeys(names)]
            expression, tried = all_with_enough_digits(expression, tried, pa.schema(types))
        pair = column_pair(made, node.columns) if largest is None and not tried else None
        found = External(expression, may, Constant(True), False, node.columns, nested=tuple(nested), tried=tried)
        return found if pair is None else replace(found, pair=pair)


@dataclass(frozen=True)
class _Column:
    """Binds one leaf to its column."""

    leaf: Leaf
    path: Path
    type: pa.DataType
    nan: str
    char_length: int | None

    @cached_property
    def domain(self) -> Domain:
        return domain_of(self.type)

    # --- results

    def make(self, op: Op, *literals: Any, flip: bool = False) -> BoundLeaf:
        negated = self.leaf.negated is not flip
        char = self.char_length if self.domain is Domain.STRING else None
        return BoundLeaf(self.leaf, self.path, self.type, self.domain, op, negated, literals, self.nan, char)

    def always(self, answer: bool) -> Bound:
        """The bound form of a leaf that has the result ``answer`` for every value. The negation of the leaf is applied
        afterwards."""
        if answer is self.leaf.negated:
            return Constant(False)
        return BoundLeaf(self.leaf, self.path, self.type, self.domain, Op.IS_NULL, True, (), self.nan)

    def join(self, kind: Op, *parts: Bound) -> Bound:
        """Joins parts. The negation is already applied to each part. Without negation, ``BETWEEN`` joins them by AND
        and ``IN`` by OR. With negation, ``BETWEEN`` joins them by OR and ``IN`` by AND."""
        return all_of(*parts) if (kind is Op.BETWEEN) is not self.leaf.negated else any_of(*parts)

    # --- operators

    def bind(self) -> Bound:
        leaf, op = self.leaf, self.leaf.op
        # A row of a union is null if its child's value is null, but Arrow reports no nulls for a union.
        if pa.types.is_union(self.type):
            raise InvalidQuery(f"{self._name} is a union, which conditions cannot test", column=self._name)
        if op is Op.EQ_NULL_SAFE and leaf.literals[0] is None:
            op = Op.IS_NULL
        if op is Op.IS_NULL:
            return Constant(not leaf.negated) if self.domain is Domain.NULL else self.make(Op.IS_NULL)
        if self.domain is Domain.NULL:
            return Constant(op is Op.EQ_NULL_SAFE and leaf.negated)
        if self.domain is Domain.NESTED:
            raise InvalidQuery(
                f"{self._name} has the type {self.type}, for which only is_null is supported", column=self._name
            )
        if op is Op.IS_NAN:
            return self._is_nan()
        if op in _STRING_OPS:
            return self._string(op)
        if op is Op.IN:
            return self._in()
        if op is Op.BETWEEN:
            return self._between()
        if leaf.literals[0] is None:
            return Constant(False)
        point = self.convert(leaf.literals[0])
        if op is Op.EQ_NULL_SAFE:
            return self._null_safe(point)
        return self._largest_nan(op) if point is NAN_POINT else self._compare(op, point)

    @property
    def _name(self) -> str:
        return ".".join(self.path)

    def convert(self, value: Any) -> Point:
        point = point_of(value, self.type, self.domain, column=self._name)
        if self.char_length is not None and self.domain is Domain.STRING:
            trimmed = point.below.rstrip(b" ")
            return Point(trimmed, trimmed)
        return point

    def _is_nan(self) -> Bound:
        if self.domain is Domain.FLOAT:
            return self.make(Op.IS_NAN)
        if self.domain in (Domain.INT, Domain.DECIMAL):
            return self.always(False)
        raise InvalidQuery(
            f"{self._name} has the type {self.type}, which has no NaN; leave out is_nan", column=self._name
        )

    def _compare(self, op: Op, point: Point) -> Bound:
        if op is Op.EQ:
            return self.make(op, point.below) if self.is_value(point) else self.always(False)
        if op in (Op.LT, Op.LE):
            if self.is_value(point):
                return self.make(op, point.below)
            return self._edge(Op.LE, point.below)
        if self.is_value(point):
            return self.make(op, point.above)
        return self._edge(Op.GE, point.above)

    def is_value(self, point: Point) -> bool:
        """Whether a value of the column can equal the literal."""
        return point.exact or (self.domain is Domain.FLOAT and point.below == point.above)

    def _edge(self, op: Op, value: Any) -> Bound:
        """Makes a comparison by ``LE`` or ``GE``. In a domain without infinities, ``value`` may still be an infinity,
        which is beyond all values of the domain."""
        if self.domain is not Domain.FLOAT and isinstance(value, float):
            return self.always((value > 0) is (op is Op.LE))
        return self.make(op, value)

    def _largest_nan(self, op: Op) -> Bound:
        """A comparison with NaN. By IEEE 754 it is FALSE. With nan="largest", NaN equals NaN and is above everything
        else."""
        if self.nan == "ieee":
            return self.always(False)
        if self.domain is not Domain.FLOAT:
            return self.always(op in (Op.LT, Op.LE))
        if op in (Op.EQ, Op.GE):
            return self.make(Op.IS_NAN)
        if op is Op.LT:
            return self.make(Op.IS_NAN, flip=True)
        return self.always(op is Op.LE)

    def _null_safe(self, point: Point) -> Bound:
        if point is NAN_POINT and self.nan == "largest" and self.domain is Domain.FLOAT:
            is_nan = self.make(Op.IS_NAN)
            return any_of(is_nan, replace(is_nan, op=Op.IS_NULL, negated=False)) if self.leaf.negated else is_nan
        if point is not NAN_POINT and self.is_value(point):
            return self.make(Op.EQ_NULL_SAFE, point.below)
        return Constant(self.leaf.negated)

    def _in(self) -> Bound:
        literals = self.leaf.literals
        if None in literals and self.leaf.negated:
            return Constant(False)
        points = [self.convert(value) for value in literals if value is not None]
        values = tuple(
            dict.fromkeys(point.below for point in points if point is not NAN_POINT and self.is_value(point))
        )
        parts = []
        if values:
            parts.append(self.make(Op.IN, *values) if len(values) > 1 else self.make(Op.EQ, *values))
        if NAN_POINT in points and self.nan == "largest" and self.domain is Domain.FLOAT:
            parts.append(self.make(Op.IS_NAN))
        return self.join(Op.IN, *parts) if parts else self.always(False)

    def _between(self) -> Bound:
        low, high = self.leaf.literals
        if low is None or high is None:
            # SQL defines BETWEEN as x >= low AND x <= high. A comparison with NULL is NULL, so BETWEEN with a NULL end
            # is never TRUE. But its negation may be TRUE.
            parts = [Leaf(self.leaf.path, op, (value,)) for op, value in ((Op.GE, low), (Op.LE, high))]
            halves = [replace(self, leaf=~part if self.leaf.negated else part).bind() for part in parts]
            return self.join(Op.BETWEEN, *halves)
        first, last = self.convert(low), self.convert(high)
        if first is NAN_POINT or last is NAN_POINT:
            if self.nan == "ieee":
                return self.always(False)
            return self.join(
                Op.BETWEEN,
                *(
                    self._largest_nan(op) if point is NAN_POINT else self._compare(op, point)
                    for op, point in ((Op.GE, first), (Op.LE, last))
                ),
            )
        return self._range(first.above, last.below)

    def _range(self, low: Any, high: Any) -> Bound:
        if self.domain is not Domain.FLOAT and (isinstance(low, float) or isinstance(high, float)):
            return self.join(Op.BETWEEN, self._edge(Op.GE, low), self._edge(Op.LE, high))
        if low > high:
            return self.always(False)
        return self.make(Op.EQ, low) if low == high else self.make(Op.BETWEEN, low, high)

    def _string(self, op: Op) -> Bound:
        if self.domain not in (Domain.STRING, Domain.BINARY):
            raise InvalidQuery(
                f"{self._name} has the type {self.type}, but {op.value} needs a text or binary column",
                column=self._name,
            )
        if None in self.leaf.literals:
            return Constant(False)
        pattern = point_of(self.leaf.literals[0], self.type, self.domain, column=self._name).below
        if op is Op.LIKE:
            op, pattern = normalise_like(pattern, self.leaf.literals[1], column=self._name)
            if op is Op.EQ and self.char_length is not None and pattern.endswith(b" "):
                # CHAR values are compared without trailing spaces, so none equals a pattern that ends in a space.
                return self.always(False)
        return self.make(op, pattern)
