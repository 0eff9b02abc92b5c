"""Makes a predicate from SQL text, which sqlglot parses.

These conditions are supported: AND OR NOT, ``= == <> != < <= > >= <=>``, IS [NOT] DISTINCT FROM, [NOT] IN, BETWEEN,
LIKE (with ESCAPE), IS [NOT] NULL / TRUE / FALSE, isnan(x), starts_with, ends_with and contains, and a boolean column
alone. These literals are supported: numbers (decimals are exact, 1e3 is a double), 'text', X'hex', TRUE, FALSE, NULL,
DATE '..', TIME '..', TIMESTAMP '..'.

pyarrow evaluates comparisons of columns with columns, and comparisons with ``+ - * / ||``, CAST, TRY_CAST and the
functions of ``computed``.

Names may be quoted with " or `. A name with dots can be a field of a struct. ``a.b`` is the column of exactly that name
or, if there is no such column, the field b of a. ``col("a.b")`` has the same meaning. ``"a"."b"`` is always the field,
and ``"a.b"`` is one name.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import numpy as np
import sqlglot
from sqlglot import Dialect, exp, tokens
from sqlglot.errors import ParseError, TokenError

from orcidx.errors import InvalidQuery
from orcidx.predicate.computed import SCALAR_FUNCTIONS, Computed, computed
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.literals import parse_time
from orcidx.predicate.nodes import DAY_NANOS, MIRRORED, Constant, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.sql_values import as_computed, is_computed, value_of

__all__ = ["from_sql"]


class OrcidxWhere(Dialect):
    """Standard SQL, extended by names in backquotes, hexadecimal literals and ``<=>``."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar[dict[str, Any]] = {**tokens.Tokenizer.KEYWORDS, "<=>": tokens.TokenType.NULLSAFE_EQ}  # type: ignore[attr-defined]


_EPOCH = datetime.datetime(1970, 1, 1)


def from_sql(text: str, *, dots_reach: bool = False) -> Predicate:
    """Makes a predicate from an SQL condition. With ``dots_reach``, ``a.b`` is always a field and never a column named
    "a.b", as in Spark.

    Raises ``InvalidQuery`` for text that cannot be parsed or is not supported. The message points at that part of the
    text.
    """
    if not text.strip():
        raise InvalidQuery("the SQL text of 'where' is empty")
    try:
        tree = sqlglot.parse_one(text, dialect=OrcidxWhere)
        return _Translator(text, dots_reach).condition(tree)
    except ParseError as error:
        raise InvalidQuery(_message_at(text, error.errors[0] if error.errors else {}, str(error))) from None
    except TokenError as error:
        why = "is a quote not closed?" if text.count("'") % 2 or text.count('"') % 2 else "a word is not part of SQL"
        raise InvalidQuery(f"the SQL text cannot be parsed: {why}\n  {text}") from error
    except RecursionError:
        raise InvalidQuery("the SQL text is nested too deeply") from None


def _message_at(text: str, error: dict[str, Any], whole: str) -> str:
    line, column = error.get("line"), error.get("col")
    if not line or not column:
        return f"the SQL text cannot be parsed: {_in_words(whole)}\n  {text}"
    lines = text.splitlines()
    shown = lines[line - 1] if line <= len(lines) else text
    what = _in_words(error.get("description") or "it ends too early")
    return f"the SQL text cannot be parsed at column {column}: {what}\n  {shown}\n  {' ' * (column - 1)}^"


def _in_words(description: str) -> str:
    """The parser's message, without the names of the parser's classes."""
    if description.startswith("Required keyword"):
        return "something is missing here, such as a value or a column"
    if "Unexpected token" in description:
        return "this does not belong here"
    return re.sub(r"<(class )?[^>]*>", "this", description).replace("Expecting", "expecting")


def _terms(node: Any) -> list[Any]:
    """The terms of ``a OR b OR c ...``, or of terms that are joined by AND. The parser nests such a condition one level
    deeper for each term."""
    kind, terms = type(node), []
    while type(node) is kind:
        terms.append(node.expression)
        node = node.this
    return [node, *reversed(terms)]


def _null_if_tried(node: exp.Expr, error: InvalidQuery) -> None:
    """Handles a text that does not fit its type. In TRY_CAST the value is null. Elsewhere the error is raised."""
    if not isinstance(node, exp.TryCast):
        raise error


_TEXT_TEST_ARGUMENTS = frozenset(("this", "expression", "negate"))
_READ_ARGUMENTS: dict[Any, frozenset[str]] = {
    exp.Between: frozenset(("this", "low", "high", "negate")),
    exp.In: frozenset(("this", "expressions", "query", "unnest", "negate")),
    **{
        getattr(exp, name): _TEXT_TEST_ARGUMENTS
        for name in ("Like", "StartsWith", "EndsWith", "Contains")
        if hasattr(exp, name)
    },
}
"""The arguments of a node that are read. sqlglot's nodes can have more arguments. A node with another argument raises
an error, because ignoring the argument would change the meaning. BETWEEN SYMMETRIC, for example, would lose rows."""


_TIMES = frozenset(
    ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "TIMESTAMP_NS", "DATETIME")
)
"""Types whose constants are written as the name of the type and a text."""


def _moment(nanos: int, zoned: bool) -> object:
    """Returns a ``datetime`` if it can represent the time exactly. Otherwise the result is a ``numpy.datetime64`` or
    an ``ExactTime``."""
    exact = ExactTime(nanos, "UTC" if zoned else None)
    if nanos % 1_000:
        return exact if zoned or abs(nanos) >= 1 << 63 else np.datetime64(nanos, "ns")
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=nanos // 1_000)
    except OverflowError:  # the zone's offset moves the time out of the years 1 to 9999
        return exact
    return moment.replace(tzinfo=datetime.UTC) if zoned else moment


class _Translator:
    def __init__(self, text: str, dots_reach: bool) -> None:
        self.text = text
        self.dots_reach = dots_reach
        self.comparisons: dict[Any, tuple[Op, bool]] = {
            exp.EQ: (Op.EQ, False),
            exp.NEQ: (Op.EQ, True),
            exp.LT: (Op.LT, False),
            exp.LTE: (Op.LE, False),
            exp.GT: (Op.GT, False),
            exp.GTE: (Op.GE, False),
            exp.NullSafeEQ: (Op.EQ_NULL_SAFE, False),
            exp.NullSafeNEQ: (Op.EQ_NULL_SAFE, True),
        }
        self.special: dict[Any, Callable[[Any], Predicate]] = {
            exp.Paren: lambda node: self.condition(node.this),
            exp.Not: lambda node: ~self.condition(node.this),
            exp.And: lambda node: all_of(*map(self.condition, _terms(node))),
            exp.Or: lambda node: any_of(*map(self.condition, _terms(node))),
            exp.In: self.isin,
            exp.Between: self.between,
            exp.Is: self.being,
            exp.Like: lambda node: self.like(node, "\\"),
            exp.Escape: self.escape,
            exp.IsNan: lambda node: Leaf(self.column(node.this), Op.IS_NAN),
            exp.Boolean: lambda node: Constant(node.this),
            exp.Null: lambda node: Constant(None),
        }
        tests = ("StartsWith", Op.STARTS_WITH), ("EndsWith", Op.ENDS_WITH), ("Contains", Op.CONTAINS)
        for name, op in tests:
            if kind := getattr(exp, name, None):
                self.special[kind] = functools.partial(self.text_test, op)

    def refuse(self, node: exp.Expr, why: str = "is not supported in where") -> InvalidQuery:
        shown = node.sql(dialect=OrcidxWhere)
        at = self.text.casefold().find(shown.casefold())
        pointer = f"\n  {self.text}\n  {' ' * at}{'^' * len(shown)}" if at >= 0 else f" (in {self.text!r})"
        return InvalidQuery(f"{shown!r} {why}{pointer}")

    # --- conditions

    def condition(self, node: exp.Expr) -> Predicate:
        result: Predicate = self._condition(node)
        # Some versions of sqlglot wrap "NOT LIKE" in a Not node. Other versions set a flag in the node itself.
        return ~result if node.args.get("negate") else result

    def _condition(self, node: exp.Expr) -> Predicate:
        kind = type(node)
        if kind in self.comparisons:
            return self.comparison(node)
        if strange := [
            key for key, value in node.args.items() if value and key not in _READ_ARGUMENTS.get(kind, node.args)
        ]:
            raise self.refuse(node, f"has a part that is not supported in where ({strange[0]})")
        if kind in self.special:
            return self.special[kind](node)
        if kind in (exp.Column, exp.Dot):
            return Leaf(self.column(node), Op.EQ, (True,))
        raise self.refuse(node)

    def comparison(self, node: exp.Expr) -> Predicate:
        op, negated = self.comparisons[type(node)]
        left, right = node.this, node.expression
        if is_computed(left) or is_computed(right) or (self.is_column(left) and self.is_column(right)):
            if op is Op.EQ_NULL_SAFE:
                why = (
                    "compares null-safely (<=>) with a column or a computed value, which is not supported; compare "
                    "with a constant, and write a text in single quotes"
                )
                raise self.refuse(node, why)
            found = computed(op, self.value(left), self.value(right))
            if not found.columns:
                raise self.refuse(node, "compares no column: one side must be a column")
            return ~found if negated else found
        if not self.is_column(left):
            if not self.is_column(right):
                if isinstance(left, (exp.Func, exp.Mod)):
                    raise self.refuse(
                        left, f"is an unknown function; the functions are coalesce, {', '.join(SCALAR_FUNCTIONS)}"
                    )
                raise self.refuse(node, "compares no column: a column must stand by itself on one side")
            left, right, op = right, left, MIRRORED.get(op, op)
        return Leaf(self.column(left), op, (self.literal(right),), negated)

    def value(self, node: exp.Expr) -> Any:
        return value_of(node, column=self.column, literal=self.literal, refuse=self.refuse)

    def between(self, node: exp.Expr) -> Predicate:
        ends = node.args["low"], node.args["high"]
        if any(is_computed(part) or self.is_column(part) for part in ends) or is_computed(node.this):
            value, low, high = (self.value(part) for part in (node.this, *ends))
            return as_computed(value).between(low, high)
        return self.leaf(node, Op.BETWEEN, ends)

    def leaf(self, node: exp.Expr, op: Op, literals: tuple[Any, ...]) -> Leaf:
        return Leaf(self.column(node.this), op, tuple(self.literal(value) for value in literals))

    def text_test(self, op: Op, node: exp.Expr) -> Leaf:
        return self.leaf(node, op, (node.expression,))

    def isin(self, node: exp.Expr) -> Predicate:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self.refuse(node)
        if is_computed(node.this):
            values: Computed = self.value(node.this)
            return values.is_in([self.value(one) for one in node.expressions])
        return self.leaf(node, Op.IN, tuple(node.expressions))

    def being(self, node: exp.Expr) -> Predicate:
        what = node.expression
        if is_computed(node.this) and isinstance(what, exp.Null):
            value: Computed = self.value(node.this)
            return value.is_null()
        path = self.column(node.this)
        if isinstance(what, exp.Null):
            return Leaf(path, Op.IS_NULL)
        if isinstance(what, exp.Boolean):
            return Leaf(path, Op.EQ_NULL_SAFE, (what.this,))  # IS TRUE is never NULL
        if self.is_column(what) and self.column(what)[-1].casefold() == "nan":
            return Leaf(path, Op.IS_NAN)
        raise self.refuse(node)

    def like(self, node: exp.Expr, escape: str) -> Leaf:
        return Leaf(self.column(node.this), Op.LIKE, (self.literal(node.expression), escape))

    def escape(self, node: exp.Expr) -> Any:
        if not isinstance(node.this, exp.Like):
            raise self.refuse(node)
        leaf = self.like(node.this, self.literal(node.expression))
        return ~leaf if node.this.args.get("negate") else leaf

    # --- columns and literals

    def is_column(self, node: exp.Expr) -> bool:
        return isinstance(node, (exp.Column, exp.Dot)) or (isinstance(node, exp.Paren) and self.is_column(node.this))

    def column(self, node: exp.Expr) -> tuple[str, ...]:
        """The path of a column. Unquoted names that are joined by dots are kept as one name. Binding splits this name
        if necessary."""
        path: list[str] = []
        quoted = True
        for part in self.identifiers(node):
            if quoted or part.quoted or self.dots_reach:
                path.append(part.name)
            else:
                path[-1] += f".{part.name}"
            quoted = bool(part.quoted)
        return tuple(path)

    def identifiers(self, node: exp.Expr) -> list[Any]:
        if isinstance(node, exp.Paren):
            return self.identifiers(node.this)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            return list(node.parts)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return [*self.identifiers(node.this), node.expression]
        raise self.refuse(node, "is not a column")

    def literal(self, node: exp.Expr) -> Any:
        if isinstance(node, exp.Paren):
            return self.literal(node.this)
        if isinstance(node, exp.Literal):
            return node.this if node.is_string else self.number(node)
        if isinstance(node, exp.Neg):
            value = self.literal(node.this)
            if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
                return -value if not isinstance(value, Decimal) else value.copy_negate()
        if isinstance(node, exp.Boolean):
            return node.this
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.HexString):
            return self.hex(node)
        if isinstance(node, (exp.Cast, exp.Date)) and isinstance(node.this, exp.Literal) and node.this.is_string:
            return self.typed(node)
        if isinstance(node, exp.Cast) and not self.is_column(node.this):
            raise self.refuse(node, "casts a constant; write the value itself, such as 5 or 'text'")
        if self.is_column(node):
            text = ".".join(self.column(node))
            raise self.refuse(node, f"is a column where a constant is needed; write a text in single quotes: '{text}'")
        raise self.refuse(node, "is not a literal")

    def number(self, node: exp.Expr) -> Any:
        text = node.this
        try:
            if "e" in text.lower():
                return float(text)
            return int(text) if text.isdigit() else Decimal(text)
        except (ValueError, InvalidOperation):
            raise self.refuse(node, "is not a number") from None

    def hex(self, node: exp.Expr) -> bytes:
        try:
            return bytes.fromhex(node.this)
        except ValueError:
            raise self.refuse(node, "is not an even number of hexadecimal digits") from None

    def typed(self, node: Any) -> Any:
        """The value of DATE '..', TIME '..' or TIMESTAMP '..'. In TRY_CAST, a text that is not such a value gives
        null."""
        kinds = exp.DataType.Type
        kind = kinds.DATE if isinstance(node, exp.Date) else node.to.this
        if kind.name not in _TIMES:
            raise self.refuse(node, "casts a constant; write the value itself, such as 5 or 'text'")
        if isinstance(node, exp.Cast) and node.to.expressions:
            raise self.refuse(node, "has a precision, which is not supported in where; leave it out")
        instant = parse_time(f"1970-01-01 {node.this.this.strip()}" if kind == kinds.TIME else node.this.this)
        if instant is None:
            return _null_if_tried(node, self.refuse(node, "is not a date or time in ISO 8601 form"))
        nanos, zoned = instant
        if kind == kinds.DATE:
            if zoned or nanos % DAY_NANOS:
                return _null_if_tried(node, self.refuse(node, "is not a date"))
            return (_EPOCH + datetime.timedelta(microseconds=nanos // 1_000)).date()
        if kind == kinds.TIME:
            if zoned:
                return _null_if_tried(node, self.refuse(node, "is a time of day, which has no zone"))
            return ExactTime(nanos, of_day=True)
        if kind.name in ("TIMESTAMPTZ", "TIMESTAMPLTZ") and not zoned:
            return _null_if_tried(node, self.refuse(node, "names no zone: write an offset such as +00:00 or Z"))
        return _moment(nanos, zoned)
