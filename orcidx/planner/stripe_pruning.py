"""Finds which rows of a file may match, from all evidence of the file and its stripes, before any data is read.

Evidence on the whole file is evaluated first, in this order: constants (partition columns, and columns that the file
does not have), file statistics, a Paimon file index, and stripe statistics. Then the evidence of each stripe is
evaluated: row-group statistics, bloom filters for the rows that are left, and dictionaries. If an index is damaged, not
trusted or absent, its rows are kept and a note is added.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.fetching.drive import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.dictionary import StreamBuffers
from orcidx.orc.integer_range import FileNumbers, FileTest, file_test
from orcidx.orc.metadata import FileFacts
from orcidx.orc.row_index import RowIndex
from orcidx.orc.types import OrcType
from orcidx.planner.bloom_choice import BloomChoice
from orcidx.planner.column_plan import StripeRows
from orcidx.planner.dictionary_choice import DictionaryChoice
from orcidx.planner.pruned_columns import PrunedColumns
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.planner.statistics_levels import StatisticsLevels
from orcidx.predicate import BoundLeaf, BoundPredicate
from orcidx.predicate.fold import fold, leaves
from orcidx.pruning.evaluate import Outcome, evaluate
from orcidx.pruning.findings import Evidence, Finding, Note
from orcidx.pruning.selection import RowSelection

__all__ = ["FilePruner", "StripeDecision", "numbers_test"]

Path = tuple[str, ...]


@dataclass(frozen=True)
class StripeDecision:
    """The decision on one stripe.

    ``rows`` has the rows that the evidence does not rule out. ``index`` is the row index of the stripe, if it can be
    used to seek. ``outcome`` is the result of the evidence, or None without a predicate. ``notes`` says which evidence
    had no result, and why.
    """

    stripe: int
    rows: StripeRows
    index: RowIndex | None
    outcome: Outcome | None = None
    notes: tuple[Note, ...] = ()

    @property
    def row_groups(self) -> int:
        return len(self.rows.bounds) - 1

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Whether each row group is read."""
        return self.rows.alive

    @property
    def rows_before(self) -> int:
        """The number of rows of the stripe."""
        return self.rows.may.length

    @property
    def rows_after(self) -> int:
        """The number of rows that may match."""
        return self.rows.may.count

    def reasons(self, row_group: int) -> tuple[str, ...]:
        """The reasons why a row group is skipped. The result is empty if the row group is not skipped."""
        start, stop = self.rows.bounds[row_group : row_group + 2].tolist()
        if self.outcome is None:
            return () if self.kept[row_group] else ("none of these rows was requested (selection)",)
        return tuple(str(reason) for reason in self.outcome.reasons(start, stop))


class _LazyEvidence:
    """Evidence that is created when it is first used. Often it is never created, because coarser evidence is enough."""

    def __init__(self, name: str, make: Callable[[], Evidence]) -> None:
        self.name = name
        self._make = make
        self._made: Evidence | None = None

    @property
    def notes(self) -> Iterable[Note]:
        return () if self._made is None else self._made.notes

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """See ``pruning.Evidence``."""
        if self._made is None:
            self._made = self._make()
        return self._made.test(leaf, alive)


def numbers_test(
    where: BoundPredicate,
    places: Mapping[Path, OrcType | None],
    root: OrcType,
    facts: FileFacts,
    options: ReadOptions,
) -> FileTest | None:
    """Returns a function for files of one schema. It says whether simple comparisons with minima and maxima of a file
    prove that no row matches. Returns None if they cannot prove it for any file. For ``places`` see ``FilePruner``."""

    def of_part(node: object) -> FileTest | None:
        if not isinstance(node, BoundLeaf):
            return None
        column = places.get(node.path)
        return None if column is None or column.id in root.repeated_ids else file_test(node, column, facts, options)

    return fold(where.root, of_part, both=_some_test, either=_every_test) if options.row_index else None


def _some_test(tests: Iterator[FileTest | None]) -> FileTest | None:
    known = [test for test in tests if test is not None]
    return partial(_is_one_true, known) if known else None


def _every_test(tests: Iterator[FileTest | None]) -> FileTest | None:
    found = list(tests)
    known = [test for test in found if test is not None]
    return partial(_are_all_true, known) if len(known) == len(found) else None


def _is_one_true(tests: Sequence[FileTest], file: FileNumbers) -> bool:
    return any(test(file) for test in tests)


def _are_all_true(tests: Sequence[FileTest], file: FileNumbers) -> bool:
    return all(test(file) for test in tests)


@dataclass
class FilePruner:
    """Prunes the stripes of one file.

    ``places`` has the file's column for each path of the predicate, or None for a constant or missing column.
    ``constant`` is the evidence of columns with one value in the whole file. ``beforehand`` has other evidence on the
    whole file that does not come from statistics, such as file indexes.
    """

    columns: PrunedColumns
    where: BoundPredicate | None
    wanted: RowSelection
    places: Mapping[Path, OrcType | None]
    constant: Evidence | None = None
    beforehand: Sequence[Evidence] = ()
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._statistics = StatisticsLevels(self.columns)
        self._blooms = BloomChoice(self.columns)
        self._dictionaries = DictionaryChoice(self.columns)

    @property
    def nodes(self) -> Mapping[int, OrcType]:
        """All columns that are read, and all columns below them, by column id."""
        return self.columns.nodes

    def take_fetched(self, stripe: int) -> StreamBuffers:
        """Removes and returns the streams that were fetched while the stripe was pruned."""
        return self._dictionaries.take(stripe)

    # ------------------------------------------------------------------ evidence on the whole file

    @cached_property
    def outcome(self) -> Outcome | None:
        """The rows that may match by the evidence on the whole file: constants, file indexes, and the statistics of the
        file and its stripes. The evidence is evaluated before any stripe is opened. None if there is no predicate."""
        if self.where is None:
            return None
        evidence = [] if self.constant is None else [self.constant]
        if self.columns.options.row_index:
            stripes = _LazyEvidence("stripe statistics", self._statistics.of_stripes)
            evidence += [self._statistics.of_file(), *self.beforehand, stripes]
        else:
            evidence += self.beforehand
        found = evaluate(self.where.root, evidence, self.wanted)
        return replace(found, notes=(*self.notes, *found.notes)) if self.notes else found

    def stripes(self) -> list[int]:
        """Numbers of the stripes that may contain rows to return."""
        tail, root = self.columns.reader.tail, self.columns.reader.root
        if self.where is not None:
            test = numbers_test(self.where, self.places, root, tail.facts, self.columns.options)
            if test is not None and test(tail):
                return []
        left = self.wanted if self.outcome is None else self.outcome.may
        if left.is_all:
            return [number for number, stripe in enumerate(self.columns.reader.stripes) if stripe.rows]
        alive = left.any_in(self.columns.reader.stripe_bounds)
        return [stripe for stripe, kept in enumerate(alive.tolist()) if kept]

    # ------------------------------------------------------------------ evidence on one stripe

    def decide(self, stripe: int) -> Generator[Fetch, Any, StripeDecision]:
        """Prunes one stripe. Its footer must be in memory, unless the file's own evidence rules the stripe out."""
        first, last = self.columns.reader.stripe_bounds[stripe : stripe + 2].tolist()
        outcome = None if self.outcome is None else self.outcome.slice(first, last)
        may = self.wanted.slice(first, last) if outcome is None else outcome.may
        bounds = np.array([0, last - first] if last > first else [0], np.int64)
        if outcome is None and may.is_all:  # no rows are left out, so no index is needed
            return StripeDecision(stripe, StripeRows(first, bounds, may, may), None)
        if outcome is not None and not (may.is_empty or outcome.proved) and self._statistics.zone_narrows_bounds:
            outcome = self._with_evidence(outcome, self._statistics.of_stripe(stripe, last - first))
            may = outcome.may
        nodes = self.columns.nodes
        asked = {node.id for node in self.columns.leaf_nodes.values()}
        indexes = StripeIndexes(self.columns.reader, stripe, nodes, asked)
        index = None
        if not may.is_empty and outcome is not None and not outcome.proved:
            index = yield from indexes.of_leaves()
        bounds = bounds if index is None else index.bounds
        if outcome is not None:
            outcome = yield from self._refine(stripe, outcome, index)
            may = outcome.may
        must = may if outcome is None else outcome.must
        if not may.is_empty and (not may.is_all or (outcome is not None and not outcome.proved)):
            index = yield from indexes.of_all()
            bounds = bounds if index is None else index.bounds
        rows = StripeRows(first, bounds, may, must)
        notes = () if outcome is None else outcome.notes
        if index is None and indexes.complete:
            notes += (
                Note(
                    "row index",
                    "absent",
                    "the stripe has no row index, so it is read completely or not at all",
                    stripe=stripe,
                ),
            )
        if index is None or not indexes.complete:
            return StripeDecision(stripe, rows, None, outcome, notes)
        unseekable = index.unseekable(nodes)
        if unseekable is not None:
            missing = nodes.keys() - index.columns.keys() - index.untrusted.keys()
            kind: Any = "absent" if missing else "damaged"
            notes += (Note("row index", kind, f"rows cannot be skipped: {unseekable}", stripe=stripe),)
        return StripeDecision(stripe, rows, None if unseekable else index, outcome, notes)

    def _refine(self, stripe: int, outcome: Outcome, index: RowIndex | None) -> Generator[Fetch, Any, Outcome]:
        """Evaluates the stripe's own evidence in order. The next kind of evidence is used only if some leaf is still
        undecided."""
        if index is not None and self.columns.options.row_index:
            outcome = self._with_evidence(outcome, self._statistics.of_groups(stripe, index))
        if outcome.proved:
            return outcome
        leaves = self._open_leaves(outcome)
        if self.columns.options.bloom_filters and index is not None:
            blooms = yield from self._blooms.fetch(stripe, leaves, outcome.may, index)
            if blooms is not None:
                outcome = self._with_evidence(outcome, blooms)
                leaves = self._open_leaves(outcome)
        if self.columns.options.row_index and not outcome.proved:
            dictionaries = yield from self._dictionaries.fetch(stripe, leaves)
            if dictionaries is not None:
                outcome = self._with_evidence(outcome, dictionaries)
        return outcome

    def _with_evidence(self, outcome: Outcome, evidence: Evidence) -> Outcome:
        refined = evaluate(outcome.root, [evidence], outcome.span, prior=outcome.states)
        notes = tuple(dict.fromkeys((*outcome.notes, *refined.notes)))
        return Outcome(refined.root, refined.span, refined.may, refined.must, refined.states, notes)

    def bloom_places(self, stripe: int) -> list[tuple[int, int]]:
        """The file ranges of the stripe's bloom filters. The scan may read them later, after the row-group statistics
        were evaluated."""
        return [] if self.where is None else self._blooms.places(stripe, self.where.leaves())

    def _open_leaves(self, outcome: Outcome) -> list[BoundLeaf]:
        """Leaves that are undecided for some remaining row."""
        assert self.where is not None
        found = []
        for leaf, state in zip(leaves(self.where.root), outcome.states, strict=True):
            may = outcome.may if state.may is outcome.may else state.may & outcome.may
            if not (may if state.must.is_empty else may - state.must).is_empty:
                found.append(leaf)
        return found
