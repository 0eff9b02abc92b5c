"""The nodes of a predicate. They are frozen, hashable and picklable. There is no node for NOT.

NOT is pushed down to the leaves when it is applied (De Morgan), and sets the flag ``negated`` of a leaf. An operator is
never reversed, because ``NOT x < 5`` and ``x >= 5`` differ where ``x`` is NaN.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate.exact_time import ExactTime

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = [
    "DAY_NANOS",
    "EQUALITIES",
    "MIRRORED",
    "NANOS",
    "And",
    "Bound",
    "BoundLeaf",
    "Constant",
    "Domain",
    "External",
    "Leaf",
    "Node",
    "Op",
    "Or",
    "PolarsExpression",
    "Predicate",
    "Where",
    "all_of",
    "any_of",
    "canonical_literal",
    "object_array",
    "show_literal",
]

NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds per unit of time in Arrow."""
DAY_NANOS = 86_400 * NANOS["s"]


class Op(Enum):
    """The operator of a leaf. ``!=`` is a negated ``EQ``, and NOT ``x > 5`` is a negated ``GT``."""

    EQ = "=="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "is_in"
    BETWEEN = "between"
    IS_NULL = "is_null"
    IS_NAN = "is_nan"
    EQ_NULL_SAFE = "eq_null_safe"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    LIKE = "like"

    def __repr__(self) -> str:
        return f"Op.{self.name}"


EQUALITIES = (Op.EQ, Op.EQ_NULL_SAFE, Op.IN)
"""The operators that test whether a value equals a literal."""
MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""The operator after the sides of a comparison are swapped. Other operators stay the same."""


class Domain(Enum):
    """The physical domain of the values that a bound leaf compares. The domain fixes the Python type of the
    literals."""

    BOOL = "bool"
    INT = "int"
    DECIMAL = "decimal"
    FLOAT = "float"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    NULL = "null"
    NESTED = "nested"


class Node:
    """The base of all nodes. It defines ``&``, ``|``, ``~``, equality, hash, and a ``repr`` that is the code to build
    the node."""

    def __and__(self, other: Node) -> Any:
        if not isinstance(other, Node):
            return NotImplemented
        return _joined(And, (self, other), neutral=True)

    def __or__(self, other: Node) -> Any:
        if not isinstance(other, Node):
            return NotImplemented
        return _joined(Or, (self, other), neutral=False)

    def __invert__(self) -> Any:
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a predicate has no truth value: combine predicates with & | ~ (not 'and', 'or', 'not'), put comparisons "
            "in parentheses, and write between(low, high) for a chained comparison"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Node):
    """A predicate that reads no column: True, False, or None for SQL's NULL. NULL selects no row, and the negation of
    NULL selects no row either."""

    value: bool | None

    def __invert__(self) -> Constant:
        return self if self.value is None else Constant(not self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.value is other.value

    def __hash__(self) -> int:
        return hash(("Constant", self.value))

    def __repr__(self) -> str:
        return f"Constant({self.value})"


@dataclass(frozen=True, eq=False, repr=False)
class Leaf(Node):
    """One condition on one column.

    The result for a row is TRUE, FALSE or NULL. It is NULL if the column is NULL (except for ``IS_NULL`` and
    ``EQ_NULL_SAFE``), or if the result depends on a literal that is NULL. ``negated`` swaps TRUE and FALSE, and NULL
    stays NULL.

    ``literals`` are Python values as the caller gave them. A comparison and the string operators have one literal,
    ``BETWEEN`` has two (both ends included), ``IN`` has any number, and ``IS_NULL`` and ``IS_NAN`` have none. ``LIKE``
    has two: the pattern, and the escape character ("" for none).
    """

    path: tuple[str, ...]
    op: Op
    literals: tuple[Any, ...] = ()
    negated: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple(map(canonical_literal, self.literals)))
        wanted = _LITERAL_COUNTS.get(self.op)
        if wanted is not None and len(self.literals) != wanted:
            raise InvalidQuery(f"{self.op.value} takes {wanted} literal(s), not {len(self.literals)}")

    def __invert__(self) -> Leaf:
        return replace(self, negated=not self.negated)

    def of_null(self) -> Constant:
        """The result of the leaf if the column is null in every row."""
        if self.op is Op.IS_NULL or (self.op is Op.EQ_NULL_SAFE and self.literals[0] is None):
            return Constant(not self.negated)
        return Constant(self.negated if self.op is Op.EQ_NULL_SAFE else None)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        # 1, 1.0 and True are equal in Python, but they are different literals. All NaN values are the same literal.
        return (
            type(self),
            self.path,
            self.op,
            self.negated,
            tuple((type(x), "nan" if x != x else x) for x in self.literals),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("path", "op", "literals", "negated")}

    @property
    def column(self) -> str:
        """The column's path joined by dots, for messages."""
        return ".".join(self.path)

    def __repr__(self) -> str:
        column = f"col({', '.join(map(repr, self.path))})"
        shown = ", ".join(map(show_literal, self.literals))
        if self.op is Op.EQ:
            return f"{column} {'!=' if self.negated else '=='} {shown}"
        if self.op in (Op.LT, Op.LE, Op.GT, Op.GE):
            text = f"{column} {self.op.value} {shown}"
            return f"~({text})" if self.negated else text
        if self.op is Op.IN:
            shown = f"[{shown}]"
        elif self.op is Op.LIKE:
            escape = self.literals[1]
            shown = show_literal(self.literals[0]) + ("" if escape == "\\" else f", escape={escape!r}")
        if self.op is Op.IS_NULL and self.negated:
            return f"{column}.is_not_null()"
        return f"{'~' if self.negated else ''}{column}.{self.op.value}({shown})"


_LITERAL_COUNTS = {
    **dict.fromkeys((Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ_NULL_SAFE), 1),
    **dict.fromkeys((Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS), 1),
    Op.BETWEEN: 2,
    Op.LIKE: 2,
    Op.IS_NULL: 0,
    Op.IS_NAN: 0,
}


@dataclass(frozen=True)
class BoundLeaf(Node):
    """A leaf bound to a column, with its literals in the column's physical domain.

    After binding, no literal is None or NaN. ``EQ_NULL_SAFE`` has a literal that is not null. A condition that can
    never be true has become ``Constant(False)``. Statistics and indexes therefore get plain values only.

    ============ =============================================================
    domain       literals
    ============ =============================================================
    INT          ``int``, any size
    DECIMAL      finite ``decimal.Decimal``, any number of digits
    FLOAT        ``float`` (float32 columns compare as float64), never NaN
    STRING       UTF-8 ``bytes``, compared as unsigned bytes; CHAR values and literals have no trailing spaces
    BINARY       ``bytes``
    BOOL         ``bool``
    DATE         ``int`` days since 1970-01-01, proleptic calendar
    TIMESTAMP    ``int`` nanoseconds since 1970-01-01 (wall clock without a zone, UTC with one), any size
    TIME         ``int`` nanoseconds since midnight
    ============ =============================================================

    The bound operator may differ from ``leaf.op``: for an integer column, ``x > 1.5`` becomes ``GE 2``. ``leaf`` is the
    leaf that the caller wrote, for messages. A bound ``LIKE`` has one literal: the pattern with backslash as the escape
    character.
    """

    leaf: Leaf
    path: tuple[str, ...]
    type: pa.DataType
    domain: Domain
    op: Op
    negated: bool
    literals: tuple[Any, ...]
    nan: str = "ieee"
    char_length: int | None = None

    @cached_property
    def sorted_literals(self) -> npt.NDArray[Any]:
        """The literals in ascending order. The array has the type int64 or float64 if the literals fit, and otherwise
        objects."""
        if self.domain in (Domain.DECIMAL, Domain.STRING, Domain.BINARY):
            return object_array(sorted(self.literals))
        if self.domain is Domain.FLOAT:
            return np.sort(np.array(self.literals, np.float64))
        if all(-(1 << 63) <= value < 1 << 63 for value in self.literals):
            return np.sort(np.array(self.literals, np.int64))
        return object_array(sorted(self.literals))

    def __invert__(self) -> BoundLeaf:
        raise InvalidQuery("a bound leaf cannot be negated; negate the predicate before binding it")

    def __hash__(self) -> int:
        return hash((self.path, self.op, self.negated, self.literals))

    @property
    def column(self) -> str:
        """The column's path joined by dots, for messages."""
        return ".".join(self.path)


@dataclass(frozen=True, eq=False, repr=False)
class External(Node):
    """A pyarrow Expression that keeps pyarrow's own meaning, and the predicates that are used to prune for this
    Expression.

    ``may`` is TRUE wherever ``expression`` is true, and ``may_not`` is TRUE wherever it is false. Both may also be TRUE
    elsewhere. ``is_exact`` says that ``may`` and ``may_not`` are TRUE nowhere else, if orcidx and pyarrow compare the
    column types in the same way. Binding checks this condition. ``columns`` are the paths that the expression reads, or
    None if they are not known. ``comparisons`` are the comparisons from which the expression was made, if the
    expression follows the option ``nan``. If ``comparisons`` is None, the expression has pyarrow's meaning with either
    value of the option. ``nested`` is for two kinds of columns: names with dots that mean fields of structs, and
    columns whose type in the evaluation differs from their type in the file. Binding finds these columns. For each of
    them, ``nested`` has the first name, the path and the type. The path is empty if the file's structs do not have the
    field. ``tries`` says whether the expression contains TRY_CAST. Binding takes these casts out of the expression.
    ``tried`` has the casts that were taken out, as columns of the expression. ``pair`` is set if the expression only
    compares two columns (``column_pairs``).
    """

    expression: Any
    may: Any
    may_not: Any
    is_exact: bool = False
    columns: tuple[tuple[str, ...], ...] | None = None
    comparisons: Any = None
    nested: tuple[tuple[str, tuple[str, ...], Any], ...] = ()
    tries: bool = False
    tried: tuple[Any, ...] = ()
    pair: Any = None

    def __invert__(self) -> External:
        comparisons = None if self.comparisons is None else ~self.comparisons
        opposite = ~self.expression
        return External(opposite, self.may_not, self.may, self.is_exact, self.columns, comparisons, tries=self.tries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, External) or self._nan_rule != other._nan_rule:
            return False
        return bool(self.expression.equals(other.expression))

    @property
    def _nan_rule(self) -> bool | None:
        return None if self.comparisons is None else self.comparisons.nan_is_largest

    def __hash__(self) -> int:
        return hash(str(self.expression))

    def __repr__(self) -> str:
        return f"External({self.expression})"


class _Many(Node):
    """The base of And and Or."""

    children: tuple[Any, ...]
    _symbol = ""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.children == other.children

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.children))

    def __repr__(self) -> str:
        shown = (f"({child!r})" if _needs_parentheses(child) else repr(child) for child in self.children)
        return f" {self._symbol} ".join(shown)


@dataclass(frozen=True, eq=False, repr=False)
class And(_Many):
    """TRUE where every child is TRUE. An And is built by ``&`` or ``all_of``. Both of them flatten nested ANDs."""

    children: tuple[Any, ...]
    _symbol = "&"

    def __invert__(self) -> Any:
        return any_of(*(~child for child in self.children))


@dataclass(frozen=True, eq=False, repr=False)
class Or(_Many):
    """TRUE where any child is TRUE. An Or is built by ``|`` or ``any_of``. Both of them flatten nested ORs."""

    children: tuple[Any, ...]
    _symbol = "|"

    def __invert__(self) -> Any:
        return all_of(*(~child for child in self.children))


Predicate = Leaf | And | Or | Constant | External
"""A predicate on columns by their names."""
Bound = BoundLeaf | And | Or | Constant | External
"""A predicate that is bound to the columns of a schema."""

P = TypeVar("P", Predicate, Bound)


class PolarsExpression(Protocol):
    """A Polars expression. Only the modules for Polars use methods that are not in this protocol."""

    @property
    def meta(self) -> Any:
        """Polars' description of the expression."""


Where: TypeAlias = "str | Predicate | pc.Expression | PolarsExpression | Sequence[Any]"
"""The forms that ``where=`` accepts: SQL text, a predicate built with ``col``, expressions of pyarrow and Polars, a DNF
list."""


def _needs_parentheses(node: Node) -> bool:
    if isinstance(node, Leaf):
        return node.op in (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)
    return isinstance(node, _Many)


def all_of(*nodes: P) -> P:
    """Joins nodes by AND. Nested ANDs are flattened. The constant True is dropped, and False makes the result False.
    Without nodes the result is True."""
    joined: P = _joined(And, nodes, neutral=True)
    return joined


def any_of(*nodes: P) -> P:
    """Joins nodes by OR. Nested ORs are flattened. The constant False is dropped, and True makes the result True.
    Without nodes the result is False."""
    joined: P = _joined(Or, nodes, neutral=False)
    return joined


def _joined(kind: type[And] | type[Or], nodes: tuple[Any, ...], *, neutral: bool) -> Any:
    children: list[Any] = []
    for node in nodes:
        if isinstance(node, Constant) and node.value is not None:
            if node.value is not neutral:
                return node
        elif type(node) is kind:
            children.extend(node.children)
        else:
            children.append(node)
    if not children:
        return Constant(neutral)
    return children[0] if len(children) == 1 else kind(tuple(children))


def canonical_literal(value: Any) -> Any:
    """A literal as a hashable Python value. NumPy and Arrow scalars keep their precision."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime) and value != value:  # pandas' NaT
        return None
    if isinstance(value, decimal.Decimal) and value.is_nan():
        return math.nan  # a signalling NaN would raise an error at the first comparison
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, pa.Scalar):
        return _of_scalar(value)
    if isinstance(value, Node) or type(value).__name__ == "Column":
        raise InvalidQuery(f"{value!r} is not a literal: one side of the comparison must be a single value")
    try:
        hash(value)
    except TypeError as error:
        raise InvalidQuery(f"{value!r} ({type(value).__name__}) is not a literal") from error
    return value


def _of_scalar(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, (pa.DictionaryScalar, pa.ExtensionScalar)):
        return _of_scalar(value.value)
    if isinstance(value, pa.TimestampScalar):  # as_py() would need pandas for nanoseconds
        return ExactTime(value.value * NANOS[value.type.unit], value.type.tz)
    if isinstance(value, (pa.Time32Scalar, pa.Time64Scalar)):
        return ExactTime(value.value * NANOS[value.type.unit], of_day=True)
    try:
        return value.as_py()
    except OverflowError:  # a date outside Python's years 1 to 9999
        if not pa.types.is_date(value.type):
            raise
        return ExactTime(value.value * (DAY_NANOS if pa.types.is_date32(value.type) else NANOS["ms"]))


def show_literal(value: object) -> str:
    """Code that builds the literal, as short as possible."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, np.datetime64):
        return f"np.datetime64({str(value)!r}, {np.datetime_data(value.dtype)[0]!r})"
    return repr(value)


def object_array(values: Sequence[Any]) -> npt.NDArray[Any]:
    """An array of Python objects. NumPy itself would turn them into numbers, or remove zero bytes at their ends."""
    found = np.empty(len(values), object)
    found[:] = values
    return found
