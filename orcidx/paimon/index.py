"""``Index``: the interface of every index of a column."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from orcidx.errors import InvalidQuery
from orcidx.paimon.body import Body
from orcidx.paimon.data_types import DataType, as_data_type
from orcidx.paimon.keys import KeyType, key_type
from orcidx.paimon.questions import NullTest, Question, questions_of
from orcidx.predicate import BoundLeaf, Constant, Leaf, Op, bind
from orcidx.predicate.fold import Part, fold
from orcidx.pruning.evaluate import Verdict

__all__ = ["BodyIndex", "EmptyIndex", "Index", "as_bitmap"]

_COLUMN = "value"
_OPERATORS: dict[str, tuple[Op, bool]] = {
    "eq": (Op.EQ, False),
    "neq": (Op.EQ, True),
    "in": (Op.IN, False),
    "notin": (Op.IN, True),
    "lt": (Op.LT, False),
    "lte": (Op.LE, False),
    "gt": (Op.GT, False),
    "gte": (Op.GE, False),
    "between": (Op.BETWEEN, False),
    "notbetween": (Op.BETWEEN, True),
    "isnull": (Op.IS_NULL, False),
    "isnotnull": (Op.IS_NULL, True),
    "startswith": (Op.STARTS_WITH, False),
    "endswith": (Op.ENDS_WITH, False),
    "contains": (Op.CONTAINS, False),
    "like": (Op.LIKE, False),
    "isnan": (Op.IS_NAN, False),
}


class Index(ABC):
    """The index of one column of one data file. Two indexes are equal if their kind, column type and bytes are equal.

    ``kind`` is Paimon's name of the format. ``data_type`` is the column's type.
    """

    kind: str
    answered: frozenset[str] = frozenset()
    """Operators that ``evaluate`` supports, as in Paimon's own reader. For all other operators, ``evaluate`` returns
    ``"remain"``."""

    def __init__(self, data_type: DataType | str) -> None:
        self.data_type = as_data_type(data_type)
        self.key_type: KeyType = key_type(self.data_type)

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """The number of rows of the data file. None if the format does not store it."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The index as it is stored.

        Returns
        -------
        bytes
        """

    @abstractmethod
    def answer(self, question: Question) -> Verdict:
        """Returns the rows whose key satisfies the question. The module ``questions`` has the classes of questions.

        Parameters
        ----------
        question : Question
            A question in the form of the index's keys.

        Returns
        -------
        Verdict

        Raises
        ------
        CorruptFile
            The index is damaged.
        """

    @abstractmethod
    def check(self) -> None:
        """Reads everything. Raises ``CorruptFile`` for damage."""

    def evaluate(self, op: str, literals: Sequence[Any] = ()) -> Verdict:
        """The verdict of the index on ``column op literals``.

        -0.0 and 0.0 are equal. NaN equals NaN and is greater than every number. CHAR values are compared as they are
        stored.

        Parameters
        ----------
        op : str
            eq neq in notin lt lte gt gte between notbetween isnull isnotnull startswith endswith contains like isnan.
        literals : sequence
            Python values or pyarrow scalars of the column's type. For DATE and TIME, an int of days or of milliseconds
            of the day is also allowed. None is SQL's null: no row matches a comparison with it.

        Returns
        -------
        Verdict
            The rows for which the condition may be true. The verdict is "remain" for an operator that is not in
            ``answered``.

        Raises
        ------
        InvalidQuery
            The operator is unknown, or a literal does not fit the type.
        CorruptFile
            The index is damaged.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from orcidx.paimon import build_index
        >>> index = build_index("bitmap", pa.array(["a", "b", "a"]), "STRING")
        >>> index.evaluate("eq", ["a"]).rows
        BitMap([0, 2])
        """
        root = self._bound(op, literals)
        if op not in self.answered:
            return Verdict.remain()
        both, either = partial(reduce, operator.and_), partial(reduce, operator.or_)
        verdict: Verdict = fold(root, self._part, both=both, either=either)
        return verdict

    def test(self, leaf: BoundLeaf) -> Verdict:
        """Returns the most exact verdict that the index gives for a bound leaf.

        Parameters
        ----------
        leaf : BoundLeaf
            A comparison that is bound to the column's type.

        Returns
        -------
        Verdict

        Raises
        ------
        CorruptFile
            The index is damaged.
        """
        alternatives = questions_of(leaf, self.key_type)
        if alternatives is None:
            return Verdict.remain()
        verdict = Verdict.skip()
        for question in alternatives.questions:
            verdict |= self.answer(question)
        if alternatives.exact or verdict.rows is None or verdict.kind == "skip":
            return verdict
        return Verdict.of(verdict.rows)

    def top_k(
        self, k: int, *, descending: bool, nulls_first: bool, selection: object = None, strict: bool = True
    ) -> BitMap:
        """Finds the first ``k`` rows in the order of the column. Only a range-bitmap supports this method.

        Parameters
        ----------
        k : int
            The number of rows.
        descending : bool
            Whether the largest values are first.
        nulls_first : bool
            Whether nulls are before all values.
        selection : BitMap or RowSelection, optional
            Only these rows are considered.
        strict : bool
            If False, all rows with the same value as the last of the ``k`` rows are also returned.

        Returns
        -------
        pyroaring.BitMap

        Raises
        ------
        InvalidQuery
            The index is not a range-bitmap.
        CorruptFile
            The index is damaged.
        """
        raise InvalidQuery(f"a {self.kind} index cannot find the first rows of a sort order; use a range-bitmap index")

    def _bound(self, op: str, literals: Sequence[Any]) -> Any:
        if op not in _OPERATORS:
            raise InvalidQuery(f"unknown operator {op!r}; the operators are {', '.join(_OPERATORS)}")
        operator, negated = _OPERATORS[op]
        values = tuple(self._literal(value) for value in literals)
        if operator is Op.LIKE:
            values = (*values, "\\")
        schema = pa.schema([(_COLUMN, self.data_type.arrow_type)])
        return bind(Leaf((_COLUMN,), operator, values, negated), schema, nan="largest").root

    def _literal(self, value: Any) -> Any:
        if type(value) is int and self.data_type.root == "DATE":
            return pa.scalar(value, pa.date32())
        if type(value) is int and self.data_type.root == "TIME":
            return pa.scalar(value, pa.time32("ms"))
        return value

    def _part(self, node: Part) -> Verdict:
        if isinstance(node, BoundLeaf):
            return self.test(node)
        assert isinstance(node, Constant)
        return Verdict.remain() if node.value else self._nothing()

    def _nothing(self) -> Verdict:
        return Verdict.of(BitMap(), True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return self.kind == other.kind and self.data_type == other.data_type and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.kind, self.data_type))

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<{self.kind} index of {self.data_type}{rows}>"


class BodyIndex(Index):
    """An index whose bytes are a ``Body``. Parts of the body are read when they are needed."""

    def __init__(self, body: bytes | memoryview | Body, data_type: DataType | str) -> None:
        super().__init__(data_type)
        self._body = Body.of(body)

    def to_bytes(self) -> bytes:
        return bytes(self._body.all())


class EmptyIndex(Index):
    """An index without payload. Its column has no value, because the data file has no rows, or because the indexed key
    of a map occurs in no row.

    An EMPTY index excludes rows for a condition only if Paimon's reader would exclude the same rows.
    """

    _SKIPPING = frozenset({Op.EQ, Op.EQ_NULL_SAFE, Op.IN, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS})
    _COMPARING = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
    answered = frozenset({"eq", "in", "lt", "lte", "gt", "gte", "isnotnull", "startswith", "endswith", "contains"})

    def __init__(self, kind: str, data_type: DataType | str) -> None:
        super().__init__(data_type)
        self.kind = kind

    @property
    def rows(self) -> None:
        """None: the number of rows is not stored."""

    def to_bytes(self) -> bytes:
        return b""

    def check(self) -> None:
        """Does nothing: there is nothing to read."""

    def answer(self, question: Question) -> Verdict:
        no_value = question.negated if isinstance(question, NullTest) else not getattr(question, "negated", False)
        return Verdict.skip() if no_value else Verdict.remain()

    def test(self, leaf: BoundLeaf) -> Verdict:
        if leaf.op is Op.IS_NULL:
            skips = leaf.negated
        else:
            skips = leaf.op in self._COMPARING or (leaf.op in self._SKIPPING and not leaf.negated)
        return Verdict.skip() if skips else Verdict.remain()

    def _nothing(self) -> Verdict:
        return Verdict.skip()


def as_bitmap(selection: Any, rows: int) -> BitMap:
    """Converts a selection of rows (``BitMap``, ``RowSelection``, or None for all) to a bitmap of rows below
    ``rows``."""
    if selection is None:
        return BitMap(range(rows))
    bitmap = selection if isinstance(selection, BitMap) else selection.bitmap()
    if bitmap and bitmap.max() >= rows:
        return BitMap(bitmap & BitMap(range(rows)))
    return BitMap(bitmap)
