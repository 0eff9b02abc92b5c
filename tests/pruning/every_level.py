"""Evaluates predicates with each kind of evidence alone (statistics, bloom filters, dictionaries), and with no
evidence. The rows must be the same.

The statistics of a file often decide before its row-group statistics, filters or dictionaries are used, which hides
their faults. So this module turns off all other evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

import orcidx
from orcidx.orc.evidence import BloomEvidence, DictionaryEvidence, StatisticsEvidence
from orcidx.planner import bloom_choice, dictionary_choice, stripe_pruning
from orcidx.predicate import Leaf, Op

LEVELS = ("file statistics", "stripe statistics", "row-group statistics", "bloom filter", "dictionary")


@contextmanager
def only(level: str) -> Iterator[None]:
    """Uses only the evidence of one level, even if this evidence is larger than the data."""
    with ExitStack() as stack:
        for module, share in ((bloom_choice, "BLOOM_SHARE"), (dictionary_choice, "DICTIONARY_SHARE")):
            stack.enter_context(mock.patch.object(module, share, float("inf")))
        stack.enter_context(mock.patch.object(stripe_pruning, "file_test", return_value=None))
        for kind in (StatisticsEvidence, BloomEvidence, DictionaryEvidence):
            stack.enter_context(mock.patch.object(kind, "test", _muted(kind.test, level)))
        yield


def _muted(test: Any, level: str) -> Any:
    return lambda self, leaf, alive: test(self, leaf, alive) if self.name == level else None


_ANSWERS = {"bloom filter": (Op.EQ, Op.IN, Op.EQ_NULL_SAFE)}
"""The operators that a level can answer, if it cannot answer all of them."""


def questions(path: tuple[str, ...], literals: Iterable[Any]) -> Iterator[Leaf]:
    """Yields comparisons with each literal. All other comparisons can be made from these, by NOT, AND and OR."""
    yield from (Leaf(path, Op.IS_NULL, (), negated) for negated in (False, True))
    for literal in literals:
        yield from (Leaf(path, op, (literal,), False) for op in (Op.EQ, Op.LT, Op.GT))
        yield Leaf(path, Op.EQ, (literal,), True)
        if isinstance(literal, str) and literal:
            yield Leaf(path, Op.STARTS_WITH, (literal[: max(1, len(literal) - 1)],), False)


def differences(source: Any, path: tuple[str, ...], literals: Iterable[Any], **options: Any) -> tuple[int, list[str]]:
    """Returns two results: how many predicates have matching rows, and the errors of indexes. An index fails if it
    excludes a matching row, or claims that a row matches that does not match."""
    found, wrong = 0, []
    with orcidx.open(source) as file:
        asked = []
        for where in questions(path, literals):
            plain = file.scan([], where, row_numbers=True, row_index=False, bloom_filters=False, **options)
            truth = np.zeros(file.num_rows, np.bool_)
            truth[plain.to_table().column(0).to_numpy()] = True
            found += bool(truth.any())
            asked.append((file.scan([], where, **options), truth))
        for level in LEVELS:
            with only(level):
                for scan, truth in asked:
                    if scan.request.where.op not in _ANSWERS.get(level, Op):
                        continue
                    may, must = decided(scan, len(truth))
                    if (truth & ~may).any() or (must & ~truth).any():
                        told = (
                            f"loses {int((truth & ~may).sum())}, invents {int((must & ~truth).sum())} of {truth.sum()}"
                        )
                        wrong.append(f"{level}: {scan.request.where!r}: {told}")
    return found, wrong


def decided(scan: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns which rows may match and which rows certainly match, according to the indexes."""
    may, must = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    for stripe in scan.stripes():
        part = stripe.decision.rows
        span = slice(part.first_row, part.first_row + part.may.length)
        may[span], must[span] = part.may.mask(), part.must.mask()
    return may, must
