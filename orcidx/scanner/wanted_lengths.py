"""Strings of a predicate that are ruled out by their lengths.

If a row can only match if a string equals a literal, the string must have the length of the literal. The lengths of
strings are stored in a stream of their own, which is small. If no string of a read has such a length, its bytes are
neither decompressed nor read.

Some tests set ``ENABLED`` to False. The strings are then always read, and the matching rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orcidx.orc.columns.text import DirectStrings
from orcidx.predicate.binding import BoundPredicate
from orcidx.predicate.fold import Part, fold, is_read_by_pyarrow
from orcidx.predicate.literals import equal_bytes
from orcidx.predicate.nodes import Bound, BoundLeaf
from orcidx.scanner.column_group import ColumnGroup

__all__ = ["expect_lengths"]

ENABLED = True

MOST_LENGTHS = 8
"""The most different lengths that are looked for. Each of them is compared with the lengths of all rows."""


def expect_lengths(group: ColumnGroup, names: Sequence[str], where: BoundPredicate) -> None:
    """Tells the readers of ``group``, which are the readers of the predicate's columns, which lengths a string must
    have in a matching row. ``names``: the names of the columns in the predicate.

    This must only be called if the predicate is evaluated for all rows, because a read returns nulls in place of
    strings that do not match. A column that pyarrow may read for a part of the predicate is left out.
    """
    if not ENABLED:
        return
    is_left_out = is_read_by_pyarrow(where.root)
    for reader, name in zip(group.readers, names):
        if not isinstance(reader, DirectStrings) or reader.wanted is not None or is_left_out(name):
            continue
        if reader.keeps_bytes and reader.has_nulls_for_lengths:
            lengths = _lengths(where.root, name)
            if lengths is not None and len(lengths) <= MOST_LENGTHS:
                reader.wanted_lengths = tuple(lengths)


def _lengths(node: Bound, name: str) -> set[int] | None:
    """The lengths in bytes that the column's strings have in the rows for which a predicate is TRUE. The predicate is
    not TRUE if the column is null. The result is None if the predicate may be TRUE for a null or for any length."""

    def of_part(part: Part) -> set[int] | None:
        literals = equal_bytes(part) if isinstance(part, BoundLeaf) and part.path == (name,) else None
        return None if literals is None else set(map(len, literals))

    return fold(node, of_part, both=_common, either=_all)


def _common(found: Iterator[set[int] | None]) -> set[int] | None:
    known = [lengths for lengths in found if lengths is not None]
    return set.intersection(*known) if known else None


def _all(found: Iterator[set[int] | None]) -> set[int] | None:
    together: set[int] = set()
    for lengths in found:
        if lengths is None:
            return None
        together |= lengths
    return together
