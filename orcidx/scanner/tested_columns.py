"""Tests numbers and strings of a predicate while their column is decoded. No array is made for the column.

This is possible if a column is not returned, and if each part of the predicate that uses the column must be TRUE.
Integers, dates and decimals of 64 bits are tested for ranges. Strings that are stored without a dictionary are tested
for equality with a few literals. Such a column may also be returned, because each matching row has one of the literals.
Strings with a dictionary are tested by any condition on this column alone: each entry is tested once, and each row has
the result of its entry. A block of values is decoded, and tested while it is in the processor's cache. So the values
are neither written to memory nor read again (decision 0148).

Some tests set ``ENABLED`` to False. The predicate is then evaluated on arrays, with the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc.column_readers import ColumnReader
from orcidx.orc.columns.base import Fixed
from orcidx.orc.columns.text import DictionaryStrings, DirectStrings
from orcidx.orc.kinds import TypeKind
from orcidx.orc.tested_strings import LONGEST_LITERAL, MOST_LITERALS
from orcidx.predicate.binding import BoundPredicate
from orcidx.predicate.fold import conjuncts, is_read_by_pyarrow, leaves, parts
from orcidx.predicate.literals import equal_bytes, stored_range
from orcidx.predicate.nodes import BoundLeaf, Domain, Op, all_of
from orcidx.scanner.coded_strings import entries_of
from orcidx.scanner.column_group import ColumnGroup

__all__ = ["TestedColumns", "tested_columns"]

ENABLED = True

_DOMAINS = {
    TypeKind.INT: Domain.INT,
    TypeKind.LONG: Domain.INT,
    TypeKind.DATE: Domain.DATE,
    TypeKind.DECIMAL: Domain.DECIMAL,
}
_RANGES = (Op.EQ, Op.IN, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN)

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TestedColumns:
    """``places``: which of the predicate's columns are tested while they are decoded. ``rest``: the other parts of the
    predicate. None if there are no other parts. ``literals``: the literals of the columns of strings."""

    places: frozenset[int]
    rest: BoundPredicate | None
    literals: Mapping[int, pa.Array]

    def passed(self, arrays: Sequence[pa.Array]) -> Bools:
        """For each row, whether all tests are passed. ``arrays`` has the arrays of all columns of the predicate."""
        found: Bools | None = None
        for place in self.places:
            array = arrays[place]
            results = np.frombuffer(array.buffers()[1], np.uint8, len(array))
            one: Bools = results != 0 if place in self.literals else results.view(np.bool_)
            found = one if found is None else np.logical_and(found, one, out=found)
        assert found is not None
        return found

    def left(self, columns: Sequence[Any]) -> list[Any]:
        """Returns the items of ``columns``, without those of columns that are tested while they are decoded."""
        return [column for place, column in enumerate(columns) if place not in self.places]

    def spelled_out(self, arrays: Sequence[pa.Array | None], batch_bytes: int) -> list[pa.Array | None]:
        """Replaces the results of tests by strings, for columns that are returned. ``arrays`` has the rows that match,
        and None for a column that is not returned. For ``batch_bytes`` see ``coded_strings.spelled_out``."""
        return [
            array if array is None or place not in self.literals else _strings(array, self.literals[place], batch_bytes)
            for place, array in enumerate(arrays)
        ]


def _strings(numbers: pa.Array, literals: pa.Array, batch_bytes: int) -> pa.Array:
    codes = pa.array(np.frombuffer(numbers.buffers()[1], np.uint8, len(numbers), numbers.offset) - np.int32(1))
    return entries_of(pa.DictionaryArray.from_arrays(codes, literals), batch_bytes)


def tested_columns(
    group: ColumnGroup,
    names: Sequence[str],
    returned: Sequence[bool],
    where: BoundPredicate | None,
    *,
    tests_all: bool,
) -> TestedColumns | None:
    """Sets the tests of the readers of ``group``, which are the readers of the predicate's columns. Returns None if no
    column can be tested while it is decoded.

    ``names``: the names of the columns in the predicate. ``returned``: for each column, whether the scan returns it.
    ``tests_all``: whether the predicate is evaluated for all rows. Otherwise no returned column is tested, because rows
    that are not tested may have other values than the literals.
    """
    if not ENABLED or where is None:
        return None
    is_left_out = is_read_by_pyarrow(where.root)
    tests, others = _tests_of_columns(where)
    places: set[int] = set()
    literals: dict[int, pa.Array] = {}
    for place, name in enumerate(names):
        reader, mine = group.readers[place], tests.get(name)
        if mine is None or name in others or is_left_out(name):
            continue
        if returned[place] and not (tests_all and isinstance(reader, DirectStrings)):
            continue
        if isinstance(reader, DictionaryStrings):
            if not pa.types.is_dictionary(reader.arrow_type):
                continue
            one = BoundPredicate(all_of(*mine), ((name,),), where.schema)
            reader.entry_test = partial(_entries_that_pass, name, one)
        elif not _are_ranges(mine):
            continue
        elif isinstance(reader, DirectStrings):
            texts = _literals_of(reader, mine)
            if texts is None:
                continue
            reader.wanted, literals[place] = tuple(texts.cast(pa.binary()).to_pylist()), texts
        elif not _tests_range(reader, mine):
            continue
        places.add(place)
    if not places:
        return None
    done = {id(test) for place in places for test in tests[names[place]]}
    rest = [part for part in conjuncts(where.root) if id(part) not in done]
    tested = {(names[place],) for place in places}
    columns = tuple(path for path in where.columns if path not in tested)
    left = BoundPredicate(all_of(*rest), columns, where.schema) if rest else None
    return TestedColumns(frozenset(places), left, literals)


def _tests_of_columns(where: BoundPredicate) -> tuple[dict[str, list[Any]], set[str]]:
    """The parts of the predicate that must all be TRUE. For each column, those that use only this column, and are never
    TRUE for a null. Also returns the names of the columns in the other parts."""
    found: dict[str, list[Any]] = {}
    others: set[str] = set()
    for part in conjuncts(where.root):
        names = {leaf.path[0] for leaf in leaves(part)}
        if len(names) == 1 and all(map(_is_false_for_nulls, parts(part))):
            found.setdefault(names.pop(), []).append(part)
        else:
            others |= names
    return found, others


def _is_false_for_nulls(part: object) -> bool:
    """Whether a part is a test of a whole column that is never TRUE for a null."""
    return isinstance(part, BoundLeaf) and len(part.path) == 1 and part.op not in (Op.IS_NULL, Op.EQ_NULL_SAFE)


def _are_ranges(tests: Sequence[Any]) -> TypeGuard[Sequence[BoundLeaf]]:
    return all(isinstance(test, BoundLeaf) and test.op in _RANGES and not test.negated for test in tests)


def _entries_that_pass(name: str, test: BoundPredicate, entries: pa.Array) -> Bools:
    """For each entry of a dictionary, whether the test is TRUE."""
    return test.evaluate(pa.RecordBatch.from_arrays([entries], names=[name]))


def _tests_range(reader: ColumnReader, parts: Sequence[BoundLeaf]) -> bool:
    """Sets the test of a reader, for rows in which all ``parts`` are TRUE. Returns False if the reader cannot test
    them."""
    within = _range_of(reader, parts)
    if isinstance(reader, Fixed) and within is not None:
        reader.within = within
        return True
    return False


def _literals_of(reader: DirectStrings, parts: Sequence[BoundLeaf]) -> pa.Array | None:
    """The strings that equal a literal of each part, in the type of the column. The result is None if the reader cannot
    test the parts."""
    if not reader.keeps_bytes or reader.arrow_type not in (pa.string(), pa.binary()):
        return None
    found: list[set[bytes]] = []
    for part in parts:
        literals = equal_bytes(part)
        if literals is None:
            return None
        found.append(set(literals))
    common = set.intersection(*found)
    if len(common) > MOST_LITERALS or any(len(literal) > LONGEST_LITERAL for literal in common):
        return None
    return pa.array(list(common), pa.binary()).cast(reader.arrow_type)


def _range_of(reader: ColumnReader, ranges: Sequence[BoundLeaf]) -> tuple[int, int] | None:
    """The range of stored numbers that are in all ranges, as the smallest and the largest number. The smallest exceeds
    the largest if there is no such number. The result is None if a leaf is not a range of numbers that the reader can
    test."""
    domain = _DOMAINS.get(reader.node.kind)
    if not isinstance(reader, Fixed) or reader.width not in (4, 8) or any(leaf.domain is not domain for leaf in ranges):
        return None
    low, high = -(1 << (8 * reader.width - 1)), (1 << (8 * reader.width - 1)) - 1
    for leaf in ranges:
        points, least, most = stored_range(leaf, reader.arrow_type)
        if points is not None:
            if len(points) > 1:
                return None
            least, most = (points[0], points[0]) if points else (1, 0)
        low = low if least is None else max(low, least)
        high = high if most is None else min(high, most)
    return (low, high) if low <= high else (1, 0)
