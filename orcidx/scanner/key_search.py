"""Finds out which of many keys a file may contain. Only metadata and indexes are read.

All keys are searched for together, from coarse to fine evidence. The file's statistics, its Paimon index and the
statistics of the stripes are searched first. Then each stripe is searched: its row groups, bloom filters and
dictionary. Each level is searched only for the keys that the previous levels did not rule out. A key that may be in one
stripe is not searched for in later stripes. So each index is read at most once for any number of keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, located
from orcidx.fetching.drive import Fetch, run_value
from orcidx.keywords import lists_options
from orcidx.options import OptionsByName, ReadOptions
from orcidx.orc.dictionary import fetch_dictionaries
from orcidx.orc.key_evidence import filters_of_keys, key_ranges
from orcidx.orc.kinds import TypeKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics_text import UnitText
from orcidx.orc.types import STRING_KINDS
from orcidx.planner.bloom_choice import BloomChoice
from orcidx.planner.dictionary_choice import LARGEST_DICTIONARY
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.planner.schema_mapping import column_path
from orcidx.predicate import NAN_KEY, NULL_KEY, BoundLeaf, Leaf, Op, matching_values
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.key_statistics import KeyStatistics
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage import RangeReader, Source

__all__ = ["AskedForKeys", "KeyAnswers", "search_keys"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
SearchSteps = Generator[Fetch, Any, None]

PAIRS_AT_ONCE = 1 << 22
"""The most comparisons of keys with row groups that are done at once. Each takes one byte."""

_FILE, _STRIPES, _GROUPS, _BLOOM, _DICTIONARY = range(5)
_TEXTS = {
    _STRIPES: "outside the minimum and maximum of each stripe (stripe statistics)",
    _GROUPS: "outside the minimum and maximum of each row group (row-group statistics)",
    _BLOOM: "no bloom filter of the remaining row groups contains it (bloom filter)",
    _DICTIONARY: "no dictionary of the remaining stripes contains it (dictionary)",
}
_DOUBTS = ("damaged", "stale")


@dataclass(frozen=True)
class KeyAnswers:
    """The result of a search for keys in a file. ``OrcFile.explain_keys`` returns this object.

    ``may_contain``: a bool for each key. It is False if no row has the key. ``reasons``: for each key, the evidence
    that rules the key out, or the place where the key may be. ``notes``: evidence that could not be used, such as a
    damaged index.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> answers = orcidx.open("ids.orc").explain_keys("id", [2, 9])
    >>> answers.may_contain.to_pylist()
    [True, False]
    >>> answers.reasons[1]
    'min 1, max 3, no null (file statistics)'
    """

    column: str
    may_contain: pa.BooleanArray
    reasons: tuple[str, ...]
    notes: tuple[Note, ...] = ()


class AskedForKeys(ABC):
    """Methods of an open file that search the file for keys."""

    source: Source
    options: ReadOptions

    @property
    @abstractmethod
    def reader(self) -> OrcReader:
        """The internal view of the file."""

    @abstractmethod
    def _open_storage(self) -> RangeReader:
        """Opens the file's storage. Raises ``InvalidQuery`` if the file was closed."""

    @lists_options(ReadOptions)
    def may_contain(
        self,
        column: str | Sequence[str],
        keys: Iterable[Any],
        *,
        file_index: object = None,
        options: ReadOptions | None = None,
        **option_overrides: Unpack[OptionsByName],
    ) -> pa.BooleanArray:
        """Returns which keys a column may contain, according to statistics, bloom filters, dictionaries and a Paimon
        index. Rows are not read.

        Each index is read at most once for any number of keys. A damaged index rules nothing out.

        Parameters
        ----------
        column : str or sequence of str
            A name, a dotted path or a sequence of names.
        keys : iterable
            Any number of values, which are converted like the literals of ``where``. The key None stands for nulls. The
            key NaN stands for NaN values. The option ``nan`` does not change this.
        file_index : paimon.FileIndex, bytes or path, optional
            A Paimon file index of this file.
        options : ReadOptions, optional
            Replaces the file's options.
        **option_overrides
            Options of ``ReadOptions`` by name.

        Returns
        -------
        pyarrow.BooleanArray
            One bool for each key. False: no row of the file has the key. True: a row may have the key.

        Raises
        ------
        InvalidQuery
            For a column that cannot be searched, and for a key that cannot have the type of the column.

        Examples
        --------
        >>> import io, orcidx, pyarrow
        >>> source = io.BytesIO()
        >>> _ = orcidx.write_table(pyarrow.table({"id": [1, 5, 9]}), source)
        >>> orcidx.open(source.getvalue()).may_contain("id", [5, 10]).to_pylist()
        [True, False]
        """
        return self.explain_keys(column, keys, file_index=file_index, options=options, **option_overrides).may_contain

    @lists_options(ReadOptions)
    def explain_keys(
        self,
        column: str | Sequence[str],
        keys: Iterable[Any],
        *,
        file_index: object = None,
        options: ReadOptions | None = None,
        **option_overrides: Unpack[OptionsByName],
    ) -> KeyAnswers:
        """Like ``may_contain(...)``, but also gives the reason for each key, and notes on evidence that could not be
        used.

        Parameters
        ----------
        column : str or sequence of str
            A name, a dotted path or a sequence of names.
        keys : iterable
            Any number of values, as in ``may_contain``.
        file_index : paimon.FileIndex, bytes or path, optional
            A Paimon file index of this file.
        options : ReadOptions, optional
            Replaces the file's options.
        **option_overrides
            Options of ``ReadOptions`` by name.

        Returns
        -------
        KeyAnswers

        Raises
        ------
        InvalidQuery
            For a column that cannot be searched, and for a key that cannot have the type of the column.
        """
        self._open_storage()
        job = FileJob(self.source, file_index=file_index)
        return search_keys(self.reader, job, column, keys, (options or self.options).override(**option_overrides))


def search_keys(
    reader: OrcReader, job: FileJob, column: str | Sequence[str], keys: Iterable[Any], options: ReadOptions
) -> KeyAnswers:
    """Searches an open file for keys of a column. See ``OrcFile.may_contain``."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidQuery(f"keys must be a list of keys, not {keys!r:.100}")
    path = column_path(column)
    with located(file=reader.name):
        nulls = _scan(reader, job, Leaf(path, Op.IS_NULL), options)
        bound = nulls.columns.schema_plan.bind_keys(path, tuple(keys))
        answers = _Answers(bound.places, f"no value of type {bound.type} equals it")
        notes: tuple[Note, ...] = ()
        if (bound.places == NULL_KEY).any():
            notes += answers.put(NULL_KEY, nulls)
        if (bound.places == NAN_KEY).any():
            notes += answers.put(NAN_KEY, _scan(reader, job, Leaf(path, Op.IS_NAN), options))
        if bound.leaf is not None:
            search = _Search(nulls, bound.leaf)
            run_value(search.run(), reader.storage)
            answers.put_found(search)
            notes += tuple(search.notes)
    return answers.finish(".".join(bound.path), tuple(dict.fromkeys(notes)))


def _scan(reader: OrcReader, job: FileJob, where: Leaf, options: ReadOptions) -> FileScan:
    return FileScan(reader, job, ScanRequest(columns=(), where=where, options=options), ScanMetrics())


class _Answers:
    """The results for the keys, by the positions of the keys."""

    def __init__(self, places: Int64s, text: str) -> None:
        self._places = places
        self._may = np.zeros(len(places), np.bool_)
        self._reasons = np.full(len(places), text, object)

    def put(self, place: int, scan: FileScan) -> tuple[Note, ...]:
        """Finds out whether a row may match the scan's predicate, and stores the result. This method is used for the
        keys null and NaN, which are not literals of a predicate."""
        these = self._places == place
        what = "is null" if place == NULL_KEY else "is NaN"
        outcome = scan.evidence.pruner.outcome
        assert outcome is not None
        told = outcome.reasons(0, scan.reader.tail.footer.rows)
        reason = "; ".join(map(str, told)) or f"no value {what}, according to the stripes' statistics and indexes"
        notes: tuple[Note, ...] = ()
        for stripe in scan.stripe_numbers():
            decision = run_value(scan.decide(stripe), scan.reader.storage)
            notes += decision.notes
            if not decision.rows.may.is_empty:
                self._may[these] = True
                reason = f"a row of stripe {stripe} may match ({what})"
                break
        self._reasons[these] = reason + _doubts(outcome.notes + notes) * bool(self._may[these].any())
        return outcome.notes + notes

    def put_found(self, search: _Search) -> None:
        """Stores the results of a search for the keys other than null and NaN."""
        these = self._places >= 0
        places = self._places[these]
        self._may[these] = search.found[places]
        used, numbers = np.unique(places, return_inverse=True)
        texts = np.empty(len(used), object)
        texts[:] = search.reasons(used)
        self._reasons[these] = texts[numbers]

    def finish(self, column: str, notes: tuple[Note, ...]) -> KeyAnswers:
        return KeyAnswers(column, pa.array(self._may, pa.bool_()), tuple(self._reasons.tolist()), notes)


def _doubts(notes: Iterable[Note]) -> str:
    """The last part of a reason. It names the evidence that was damaged, stale or not trusted."""
    texts = dict.fromkeys(f"{one.source} {one.kind}: {one.text}" for one in notes if one.kind in _DOUBTS)
    return f" ({'; '.join(texts)})" if texts else ""


class _Search:
    """The state of a search for the literals of one leaf. All arrays have an entry for each literal.

    ``found``: whether the literal may be in the file. ``_alive``: whether the literal was not ruled out for the whole
    file. ``_level``: the finest level that ruled out the literal in a stripe. ``_texts``: the reason why the literal
    was ruled out for the whole file, if none of the levels gave this reason.
    """

    def __init__(self, scan: FileScan, leaf: BoundLeaf) -> None:
        count = len(leaf.literals)
        self.found = np.zeros(count, np.bool_)
        self._scan = scan
        self._leaf = leaf
        self._statistics = KeyStatistics(scan, leaf)
        self._options = self._statistics.columns.options
        self._alive = np.ones(count, np.bool_)
        self._level = np.full(count, -1, np.int8)
        self._texts: dict[int, str] = {}
        self._places = np.full((count, 2), -1, np.int64)

    @property
    def notes(self) -> list[Note]:
        return self._statistics.notes

    def run(self) -> SearchSteps:
        """Searches the file's statistics and indexes, and then each stripe that may have one of the keys."""
        reader = self._scan.reader
        rows = reader.tail.footer.rows
        if not rows:
            self._rule_out(self._alive.copy(), "the file has no rows")
            return
        if self._options.row_index:
            self._ask_file(np.array([0, rows]))
        self._ask_indexes(rows)
        starts, stops = np.zeros(len(reader.stripes), np.int64), np.full(len(reader.stripes), len(self.found))
        if self._options.row_index:
            column = self._statistics.of_stripes()
            if column is not None:
                starts, stops = key_ranges(self._leaf, column, self._options)
            self._level[self._alive & ~_united(starts, stops, len(self.found))] = _STRIPES
        numbers = [number for number, stripe in enumerate(reader.stripes) if stripe.rows]
        numbers = [number for number in numbers if self._alive[starts[number] : stops[number]].any()]
        if reader.whole() is None:
            yield from self._scan.fetch_footers(numbers)
        for number in numbers:
            wanted = self._alive & ~self.found
            wanted[: starts[number]] = False
            wanted[stops[number] :] = False
            if wanted.any():
                yield from self._ask_stripe(number, wanted)

    def reasons(self, places: Int64s) -> list[str]:
        """For each literal in ``places``, the reason why the file may contain the literal or why the file cannot
        contain it."""
        texts = []
        for place in places.tolist():
            if self.found[place]:
                stripe, group = self._places[place].tolist()
                where = f"stripe {stripe}" + (f", row group {group}" if group >= 0 else "")
                doubts = _doubts(one for one in self.notes if one.stripe in (None, stripe))
                texts.append(f"{where} may contain it{doubts}")
            else:
                texts.append(self._texts.get(place) or _TEXTS[int(self._level[place])])
        return texts

    # ------------------------------------------------------------------ the file

    def _rule_out(self, these: Bools, text: str) -> None:
        self._texts |= dict.fromkeys(np.flatnonzero(these).tolist(), text)
        self._alive &= ~these

    def _ask_file(self, bounds: Int64s) -> None:
        column = self._statistics.of_file()
        if column is None:
            return
        starts, stops = key_ranges(self._leaf, column, self._options)
        text = UnitText(column, self._leaf, bounds)(np.zeros(1, np.int64))[0]
        self._rule_out(~_united(starts, stops, len(self.found)), f"{text} (file statistics)")

    def _ask_indexes(self, rows: int) -> None:
        """Searches the Paimon indexes for all keys together. If a row may have one of the keys, searches for each key
        separately."""
        every = RowSelection.all(rows)
        for index in self._scan.evidence.pruner.beforehand:
            left = np.flatnonzero(self._alive)
            if not len(left):
                break
            finding = index.test(replace(self._leaf, literals=self._literals(left)), every)
            if finding is not None and finding.may.is_empty:
                self._rule_out(self._alive.copy(), f"the index has no row with it ({index.name})")
            elif finding is not None:
                out = np.zeros(len(self.found), np.bool_)
                for place in left.tolist():
                    one = index.test(replace(self._leaf, op=Op.EQ, literals=(self._leaf.literals[place],)), every)
                    out[place] = one is not None and one.may.is_empty
                self._rule_out(out, f"the index has no row with it ({index.name})")
            self.notes.extend(index.notes)

    def _literals(self, places: Int64s) -> tuple[Any, ...]:
        return tuple(self._leaf.literals[place] for place in places.tolist())

    # ------------------------------------------------------------------ a stripe

    def _ask_stripe(self, stripe: int, wanted: Bools) -> SearchSteps:
        """Searches the statistics and indexes of a stripe for the wanted keys."""
        reader, node = self._scan.reader, self._statistics.node
        # The writer's time zone is known only now. This zone gives tighter bounds, so the stripe's statistics are used
        # a second time.
        if self._options.row_index and node.kind is TypeKind.TIMESTAMP:
            column = self._statistics.of_stripe(stripe)
            if column is not None:
                ranges = key_ranges(self._leaf, column, self._options)
                wanted = self._left(wanted, _united(*ranges, len(wanted)), _STRIPES)
        if not wanted.any():
            return
        indexes = StripeIndexes(reader, stripe, self._statistics.columns.nodes, {node.id})
        index = yield from indexes.of_leaves()
        starts, stops = np.zeros(1, np.int64), np.full(1, len(wanted))
        if index is not None:
            starts, stops = self._group_ranges(stripe, index)
            wanted = self._left(wanted, _united(starts, stops, len(wanted)), _GROUPS)
            if self._options.bloom_filters and wanted.any():
                wanted = yield from self._ask_filters(stripe, index, wanted, starts, stops)
        if self._options.row_index and wanted.any():
            wanted = yield from self._ask_dictionary(stripe, wanted)
        places = np.flatnonzero(wanted)
        self.found[places] = True
        self._places[places, 0] = stripe
        if len(starts) > 1:
            unplaced = places[self._places[places, 1] < 0]
            self._places[unplaced, 1] = [((starts <= place) & (place < stops)).argmax() for place in unplaced.tolist()]

    def _left(self, wanted: Bools, may: Bools, level: int) -> Bools:
        out = wanted & ~may
        self._level[out] = np.maximum(self._level[out], level)
        return wanted & may

    def _group_ranges(self, stripe: int, index: RowIndex) -> tuple[Int64s, Int64s]:
        column = self._statistics.of_groups(stripe, index) if self._options.row_index else None
        if column is not None:
            return key_ranges(self._leaf, column, self._options)
        groups = len(index.bounds) - 1
        return np.zeros(groups, np.int64), np.full(groups, len(self.found))

    def _ask_filters(
        self, stripe: int, index: RowIndex, wanted: Bools, starts: Int64s, stops: Int64s
    ) -> Generator[Fetch, Any, Bools]:
        reader = self._scan.reader
        choice = BloomChoice(self._statistics.columns, at_any_cost=True)
        every = RowSelection.all(reader.stripes[stripe].rows)
        evidence = yield from choice.fetch(stripe, [self._leaf], every, index)
        usable = None if evidence is None else evidence.filters_for(self._leaf)
        if evidence is not None:
            self.notes.extend(note for note in evidence.notes if note.kind != "absent")
        if usable is None:
            return wanted
        node, filters, believed = usable
        may = np.zeros(len(wanted), np.bool_)
        zone = self._statistics.columns.zone(stripe)
        places = np.flatnonzero(wanted)
        step = max(1, PAIRS_AT_ONCE // max(1, len(starts)))
        for first in range(0, len(places), step):
            part = places[first : first + step]
            held = filters_of_keys(filters, believed, self._leaf, part, node, reader.facts, self._options, zone=zone)
            held &= (starts[:, None] <= part) & (part < stops[:, None])
            may[part] = held.any(axis=0)
            self._places[part, 1] = np.where(may[part], held.argmax(axis=0), -1)
        return self._left(wanted, may, _BLOOM)

    def _ask_dictionary(self, stripe: int, wanted: Bools) -> Generator[Fetch, Any, Bools]:
        """Searches the dictionary of a text column for the wanted keys. Large dictionaries are not read."""
        node, columns = self._statistics.node, self._statistics.columns
        if node.kind not in STRING_KINDS or not 0 < columns.dictionary_bytes(stripe, node) <= LARGEST_DICTIONARY:
            return wanted
        try:
            options = self._options.override(strings="string")
            found = yield from fetch_dictionaries(self._scan.reader, stripe, (node,), options)
        except (CorruptFile, Unsupported) as error:
            self._statistics.note("dictionary", "damaged", error.message, stripe)
            return wanted
        entries = found.entries[0]
        if entries is None:
            return wanted
        matches = entries.filter(pa.array(matching_values(self._leaf, entries)))
        held = {entry.rstrip(b" ") if self._leaf.char_length is not None else entry
                for entry in matches.cast(pa.binary()).to_pylist()}  # fmt: skip
        return self._left(wanted, np.array([one in held for one in self._leaf.literals], np.bool_), _DICTIONARY)


def _united(starts: Int64s, stops: Int64s, count: int) -> Bools:
    """Returns a bool for each of ``count`` positions: whether one of the ranges contains the position. Range ``i`` is
    from ``starts[i]`` to ``stops[i] - 1``."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, stops, -1)
    return np.asarray(np.cumsum(edges[:-1]) > 0)
