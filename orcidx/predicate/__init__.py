"""Predicates: the meaning of ``where``, and how predicates are built.

``where`` may be a predicate built from ``col``, SQL text, a ``pyarrow.compute.Expression`` or a list in disjunctive
normal form. ``parse`` makes a predicate of each of these forms.

The meaning of ``where``:

* SQL's three-valued logic applies: a row is returned if the predicate is TRUE for it. A comparison is NULL if the
  column or the literal is NULL, and the negation of NULL is NULL. ``eq_null_safe`` (SQL ``<=>``) and ``is_null`` are
  never NULL.
* The option ``nan`` says how NaN compares. With ``"ieee"`` every comparison with NaN is FALSE (so ``!=`` is TRUE), as
  in pyarrow.compute. With ``"largest"`` NaN equals NaN and is above every other number, as in Spark, Polars and DuckDB.
  In a Polars expression NaN always compares as with ``"largest"``, even if the expression is combined with a condition
  of another form. The option still applies to that other condition.
* -0.0 equals 0.0. float32 columns compare as float64.
* Integers and decimals compare exactly with any literal, and are not converted to double: ``x == 1.5`` is never TRUE
  for an integer column. A decimal literal for a float column is rounded to the nearest double, as SQL engines do.
* Strings compare as unsigned UTF-8 bytes. For CHAR(n), trailing spaces of the column and of the literal are ignored.
* A date literal for a timestamp column means midnight. Times with a zone cannot be compared with times without a zone.
  Date and timestamp columns accept ISO 8601 text.
* Values are compared in the file's own precision, before any conversion of units.
* A literal that cannot have the column's type raises ``InvalidQuery`` when the predicate is bound. A literal that is
  only outside the column's range is compared exactly.
* pyarrow evaluates comparisons of columns with columns (``id = parent``) and of computed values (``id = id + 0``,
  ``lower(city) = 'oslo'``). pyarrow uses its own rules (see ``computed``).
* A pyarrow Expression keeps pyarrow's meaning. For example, pyarrow's ``~is_in`` keeps nulls. SQL's NOT IN drops nulls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.binding import (
    NAN_KEY,
    NO_VALUE,
    NULL_KEY,
    BoundKeys,
    BoundPredicate,
    bind,
    bind_keys,
    keep_bindable,
)
from orcidx.predicate.column_paths import resolve_asked, resolve_column
from orcidx.predicate.computed import Values, computed
from orcidx.predicate.evaluation import matching_values
from orcidx.predicate.json_form import predicate_from_json, predicate_to_json
from orcidx.predicate.like import like_prefix
from orcidx.predicate.nodes import (
    And,
    Bound,
    BoundLeaf,
    Constant,
    Domain,
    External,
    Leaf,
    Node,
    Op,
    Or,
    Predicate,
    Where,
    all_of,
    any_of,
)
from orcidx.predicate.weight import weight_of
from orcidx.spellings import COLUMN, missing_attribute

__all__ = [
    "NAN_KEY",
    "NO_VALUE",
    "NULL_KEY",
    "And",
    "Bound",
    "BoundKeys",
    "BoundLeaf",
    "BoundPredicate",
    "Column",
    "Constant",
    "Domain",
    "External",
    "Leaf",
    "Op",
    "Or",
    "Predicate",
    "Where",
    "all_of",
    "any_of",
    "bind",
    "bind_keys",
    "col",
    "keep_bindable",
    "like_prefix",
    "matching_values",
    "parse",
    "predicate_from_json",
    "predicate_to_json",
    "resolve_asked",
    "resolve_column",
    "weight_of",
]


class Column(Values):
    """A column in a predicate under construction, made by ``col``. Comparing the column builds a predicate.

    A column can also be compared with other columns, and with values that are computed from columns by ``+ - * /``,
    ``abs()`` or ``function("lower")``. pyarrow evaluates such comparisons.

    Examples
    --------
    >>> from orcidx import col
    >>> col("name").like("A%") & ~col("id").is_in([1, 2])
    col('name').like('A%') & ~col('id').is_in([1, 2])
    """

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __eq__(self, other: object) -> Leaf | External:  # type: ignore[override]
        return self._compared(Op.EQ, other)

    def __ne__(self, other: object) -> Leaf | External:  # type: ignore[override]
        return ~self._compared(Op.EQ, other)

    def _compared(self, op: Op, other: Any) -> Leaf | External:
        return computed(op, self, other) if isinstance(other, Values) else Leaf(self._path, op, (other,))

    def _expression(self) -> pc.Expression:
        return pc.field(*self._path)

    def __lt__(self, other: Any) -> Leaf | External:
        return self._compared(Op.LT, other)

    def __le__(self, other: Any) -> Leaf | External:
        return self._compared(Op.LE, other)

    def __gt__(self, other: Any) -> Leaf | External:
        return self._compared(Op.GT, other)

    def __ge__(self, other: Any) -> Leaf | External:
        return self._compared(Op.GE, other)

    def __hash__(self) -> int:
        return hash(self._path)

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value; for a boolean column write {self!r} == True")

    def __getitem__(self, name: str) -> Column:
        """A field of a struct: ``col("user")["name"]``."""
        if not isinstance(name, str):
            raise InvalidQuery(f"{self!r}[{name!r}]: the name of a field of a struct must be a string")
        return col(*self._path, name)

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report misspelt names

        def __getattr__(self, name: str) -> Any:
            if name in self.__slots__:  # a column that is being copied has no attributes yet
                raise AttributeError(name)
            raise missing_attribute(repr(self), name, COLUMN)

    def __repr__(self) -> str:
        return f"col({', '.join(map(repr, self._path))})"

    def is_in(self, values: Iterable[Any]) -> Leaf:
        """SQL IN: whether the column equals one of the values. The result is NULL where the column is NULL. If one of
        the values is None, the result is also NULL where no value matches.

        Parameters
        ----------
        values : iterable
            Values of the column's type.

        Returns
        -------
        Predicate

        Raises
        ------
        InvalidQuery
            A text or bytes object is given in place of several values.
        """
        if isinstance(values, (str, bytes)):
            raise InvalidQuery(f"is_in needs a list of values, not the text {values!r}")
        return Leaf(self._path, Op.IN, tuple(values))

    isin = is_in
    """``is_in`` under the name that pyarrow, pandas and Spark use."""

    def between(self, low: object, high: object) -> Leaf:
        """Whether ``low <= column <= high``. Both ends are included.

        Parameters
        ----------
        low, high : object
            Values of the column's type.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.BETWEEN, (low, high))

    def is_null(self) -> Leaf:
        """Whether the column is NULL. A field is also NULL where a struct around it is NULL.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.IS_NULL)

    def is_not_null(self) -> Leaf:
        """Whether the column is not NULL.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.IS_NULL, negated=True)

    def is_nan(self) -> Leaf:
        """Whether a number is NaN. The result is NULL where the column is NULL.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.IS_NAN)

    def eq_null_safe(self, value: object) -> Leaf:
        """SQL ``<=>``: NULL equals only NULL, and the result is never NULL.

        Parameters
        ----------
        value : object
            A value of the column's type, or None.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.EQ_NULL_SAFE, (value,))

    def starts_with(self, text: str | bytes) -> Leaf:
        """Whether the value starts with a text.

        Parameters
        ----------
        text : str or bytes
            The text; bytes for a binary column.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.STARTS_WITH, (text,))

    def ends_with(self, text: str | bytes) -> Leaf:
        """Whether the value ends with a text.

        Parameters
        ----------
        text : str or bytes
            The text; bytes for a binary column.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.ENDS_WITH, (text,))

    def contains(self, text: str | bytes) -> Leaf:
        """Whether the value contains a text.

        Parameters
        ----------
        text : str or bytes
            The text; bytes for a binary column.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.CONTAINS, (text,))

    def like(self, pattern: str | bytes, *, escape: str = "\\") -> Leaf:
        """SQL LIKE: whether the value matches a pattern.

        Parameters
        ----------
        pattern : str or bytes
            ``%`` stands for any run of characters, ``_`` for one character.
        escape : str
            The character after the escape character is taken literally. With an empty text there is no escape
            character.

        Returns
        -------
        Predicate
        """
        return Leaf(self._path, Op.LIKE, (pattern, escape))


def col(*path: str) -> Column:
    """A column by name, to compare with values.

    Parameters
    ----------
    *path : str
        A name. A struct's field is ``col("a", "b")``, or ``col("a.b")`` when no column has exactly that name.

    Returns
    -------
    Column

    Examples
    --------
    >>> import orcidx
    >>> orcidx.col("price") > 5
    col('price') > 5
    """
    for name in path or ("",):
        if not isinstance(name, str) or not name:
            raise InvalidQuery(f"the name of a column must be one or more non-empty strings, not {path!r}")
    return Column(path)


def parse(where: Where) -> Predicate:
    """Makes a predicate from any form of ``where``: a predicate, SQL text, a pyarrow Expression or a DNF list.

    Raises ``InvalidQuery`` for anything else, and for text or lists that do not parse.
    """
    if isinstance(where, (Leaf, And, Or, Constant, External)):
        return where
    if isinstance(where, Column):
        raise InvalidQuery(f"{where!r} alone is not a predicate; for a boolean column write {where!r} == True")
    if isinstance(where, Node):
        raise InvalidQuery(f"{where!r} is already bound to a schema; give the unbound predicate")
    from orcidx.predicate.adapters import predicate_of  # the text parsers are imported only when they are needed

    predicate: Predicate = predicate_of(where)
    return predicate
