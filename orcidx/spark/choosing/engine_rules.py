"""The rules that choose the engine of a query: tables of reasons against an engine, and the function ``decide``, which
uses only facts that are passed to it.

``engine_choice`` finds out the facts in several steps, and begins with the facts that take the least time. After each
step it calls ``decide``, and then carries out the decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orcidx.spark.choosing.choice import Engine
from orcidx.spark.conditions.relation import MOST_NAMED

__all__ = [
    "NOT_LISTED",
    "NO_FILE_SKIPPED",
    "NO_INDEX",
    "ConditionFacts",
    "EngineFacts",
    "EngineVerdict",
    "LookupFacts",
    "Refusal",
    "RemainingFacts",
    "Sizes",
    "decide",
    "decided",
    "lookup_refusal",
    "refusal",
]

MOST_LOOKUP_KEYS = 32
"""The maximum number of keys for which rows are looked up. With more keys, most row groups contain at least one of the
keys."""
LATE_COLUMNS = 4
"""The minimum number of columns for a lookup of keys. A lookup decodes columns only for the rows with the keys. With
fewer columns this saves little."""
LEAST_LOOKUP_BYTES = 16 << 20
"""The minimum number of stored bytes of the remaining files for a lookup of keys. Below this size, starting a Python
worker costs more than decoding the files."""
RARE_SHARE = 0.5
"""The largest share of the bytes that the remaining files may have for a lookup of keys. With a larger share, most row
groups probably have a matching row."""
FILTER_SHARE = 0.5
"""The largest share of the bytes that may remain after a filter on file names. If more bytes remain, the filter is not
used, because Spark tests it on every row that is read."""
NO_INDEX = "there is no index of the directory"
NO_FILE_SKIPPED = "every file may have matching rows"
NOT_LISTED = "orcidx cannot list the files to look for indexes ({})"
_COSTS_MORE = "would cost more than it saves, so all are read"

Way = Literal["all", "none", "named", "filtered", "tasks"]
"""What is read. "all": Spark reads all files. "none": no file is read. "named": Spark reads the remaining files by
their names. "filtered": Spark reads them with a filter on file names. "tasks": orcidx's own tasks read."""


@dataclass(frozen=True)
class Sizes:
    """The number and the stored bytes of the files in a listing, and of the files that remain."""

    files: int
    bytes: int
    files_left: int
    bytes_left: int

    @property
    def excluded(self) -> int:
        """The number of files that are proven to have no matching row."""
        return self.files - self.files_left

    @property
    def are_few(self) -> bool:
        """Whether the remaining files are few enough to be given to Spark by name."""
        return self.files_left <= MOST_NAMED

    @property
    def saves_little(self) -> bool:
        """Whether a filter on names would save too little, because too many bytes remain."""
        return self.bytes_left > FILTER_SHARE * self.bytes


@dataclass(frozen=True)
class ConditionFacts:
    """The facts about the condition and the keys of a query.

    ``obstacle``: the reason why the condition can skip no file. ``is_testable``: whether orcidx can evaluate the whole
    condition and the keys, or None if this is not yet known. ``skips_nothing``: True if neither the condition nor the
    keys can skip a file."""

    is_given: bool
    has_keys: bool = False
    obstacle: str | None = None
    is_testable: bool | None = None
    skips_nothing: bool = False


@dataclass(frozen=True)
class RemainingFacts:
    """The facts about the files that remain after indexes are used.

    ``proven``: the counts of the files that were examined with indexes. ``is_listed``: whether Spark gives its listing
    of the files, or None if this is not known yet. ``kept``: the counts of Spark's own listing, or None if they are not
    known yet. ``has_reader_options``: whether the query has options of Spark's reader. With such options, files can be
    passed to Spark only by name. ``are_alike``: whether files that are passed by name have the same partition columns
    as in the relation."""

    proven: Sizes
    has_reader_options: bool = False
    is_listed: bool | None = None
    kept: Sizes | None = None
    are_alike: bool = False


@dataclass(frozen=True)
class LookupFacts:
    """The facts that decide whether orcidx's tasks look up the keys of a query.

    ``may_read``: whether orcidx's tasks may run the query. They may if the caller did not choose Spark's reader and the
    tasks return the same values as Spark. ``column``: a column that has a bloom filter, and that the condition compares
    with only a few keys. ``columns``: how many columns are read. ``access_problem``: why tasks cannot open the files.
    ``may_be_old``: whether a file may have dates or times that Spark decodes differently."""

    may_read: bool
    column: str | None
    columns: int
    access_problem: str | None = None
    may_be_old: bool = False


@dataclass(frozen=True)
class EngineFacts:
    """The known facts about a query. The facts that take the least time are found out first. A fact that is not known
    yet has its default value.

    ``gate``: a setting of the session that does not allow any file to be skipped. ``is_unplaced``: True if Spark does
    not give the location of the table. ``has_index``: whether there is an index, or None if orcidx has not looked for
    an index yet. ``listing_error``: the reason why the files cannot be listed."""

    engine: Engine
    condition: ConditionFacts
    gate: str | None = None
    is_unplaced: bool = False
    has_index: bool | None = None
    listing_error: str | None = None
    files: RemainingFacts | None = None
    lookup: LookupFacts | None = None


@dataclass(frozen=True)
class EngineVerdict:
    """The decision: which engine reads, for what reason, and in which way."""

    engine: Literal["spark", "orcidx"]
    reason: str
    way: Way = "all"


@dataclass(frozen=True)
class Refusal:
    """A possible reason for not skipping files. ``sentence`` gives the reason, if ``holds`` is true for the facts. The
    sentence can refer to facts as ``{f.gate}``."""

    holds: Callable[[EngineFacts], bool]
    sentence: str

    def of(self, facts: EngineFacts) -> str:
        """The sentence with these facts."""
        return self.sentence.format(f=facts)


def _wants_tasks(f: EngineFacts) -> bool:
    """Whether the caller chose orcidx, and orcidx's tasks can read the query."""
    return f.engine == "orcidx" and f.condition.is_testable is True


def _costs_too_much(f: EngineFacts) -> bool:
    """Whether the remaining files are too many to be given by name, and too large for a filter on their names."""
    if f.files is None or f.files.has_reader_options:
        return False
    proven = f.files.proven
    return proven.excluded > 0 and not proven.are_few and proven.saves_little


REFUSALS = (
    Refusal(lambda f: not (f.condition.is_given or f.condition.has_keys), "the query has no condition"),
    Refusal(lambda f: f.gate is not None and f.engine != "orcidx", "{f.gate}"),
    Refusal(lambda f: f.is_unplaced, "Spark Connect does not give the location of a table"),
    Refusal(lambda f: f.has_index is False, NO_INDEX),
    Refusal(
        lambda f: f.condition.obstacle is not None and not f.condition.has_keys,
        "no file can be skipped by the condition: {f.condition.obstacle}",
    ),
    # The caller chose orcidx, but orcidx's tasks cannot run this query.
    Refusal(lambda f: f.gate is not None and f.condition.is_testable is False, "{f.gate}"),
    Refusal(
        lambda f: f.condition.skips_nothing and not _wants_tasks(f),
        "no part of the condition can be evaluated by an index",
    ),
    Refusal(lambda f: f.listing_error is not None, NOT_LISTED.format("{f.listing_error}")),
    Refusal(
        _costs_too_much,
        "{f.files.proven.excluded:,} of {f.files.proven.files:,} files have no matching rows, but a filter on "
        f"names {_COSTS_MORE}",
    ),
    Refusal(
        lambda f: f.files is not None and f.files.is_listed is False, "Spark does not list the files of this relation"
    ),
)
"""The reasons why Spark reads all files. The first reason that holds is used."""

LOOKUP_REFUSALS: tuple[tuple[Callable[[EngineFacts, LookupFacts, Sizes], bool], str], ...] = (
    (lambda f, one, kept: f.condition.is_testable is not True, ""),
    (lambda f, one, kept: not one.may_read, ""),
    (lambda f, one, kept: not LEAST_LOOKUP_BYTES <= kept.bytes_left <= RARE_SHARE * kept.bytes, ""),
    (lambda f, one, kept: one.columns < LATE_COLUMNS, ""),
    (lambda f, one, kept: one.column is None, ""),
    (
        lambda f, one, kept: one.access_problem is not None,
        "a few keys of {one.column} could be looked up, but {one.access_problem}",
    ),
    (lambda f, one, kept: one.may_be_old, ""),
)
"""The reasons why orcidx does not look up keys, each with a note for the user. The note is empty if the user cannot
change the reason."""

WAYS: tuple[tuple[Callable[[RemainingFacts, Sizes], bool], Way, str], ...] = (
    (lambda files, kept: not kept.excluded, "all", NO_FILE_SKIPPED),
    (lambda files, kept: not kept.files_left, "none", "no file has matching rows"),
    (
        lambda files, kept: kept.are_few and files.are_alike,
        "named",
        "the remaining files are few, and Spark reads them by name",
    ),
    (lambda files, kept: kept.saves_little, "all", f"a filter on the names of files {_COSTS_MORE}"),
    (lambda files, kept: True, "filtered", "the remaining files are selected by a filter on their names"),
)
"""The ways in which Spark reads the remaining files. The first way whose test is true is used."""


def refusal(facts: EngineFacts) -> str | None:
    """The reason why Spark reads all files. The result is None if the known facts give no such reason."""
    return next((one.of(facts) for one in REFUSALS if one.holds(facts)), None)


def lookup_refusal(facts: EngineFacts) -> str | None:
    """The note that says why orcidx does not look up keys, or an empty text if there is nothing to note. The result is
    None if orcidx looks up the keys."""
    lookup, kept = facts.lookup, facts.files.kept if facts.files is not None else None
    if lookup is None or kept is None:
        return ""
    found = (note for holds, note in LOOKUP_REFUSALS if holds(facts, lookup, kept))
    return next((note.format(one=lookup) for note in found), None)


def decide(facts: EngineFacts) -> EngineVerdict | None:
    """The choice that follows from the facts. The result is None if more facts are needed."""
    if (reason := refusal(facts)) is not None:
        return EngineVerdict("spark", reason)
    if _wants_tasks(facts):
        return EngineVerdict("orcidx", "the caller chose it", "tasks")
    files = facts.files
    if files is None or files.kept is None:
        return None
    if facts.lookup is not None and lookup_refusal(facts) is None:
        column, columns = facts.lookup.column, facts.lookup.columns
        reason = f"a few keys of {column} are looked up, and {columns} columns are decoded only for their rows"
        return EngineVerdict("orcidx", reason, "tasks")
    return next(EngineVerdict("spark", why, way) for holds, way, why in WAYS if holds(files, files.kept))


def decided(facts: EngineFacts) -> EngineVerdict:
    """The choice that follows from the facts. The facts must be enough for a choice."""
    found = decide(facts)
    assert found is not None
    return found
