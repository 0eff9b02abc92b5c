"""Plain SQL with indexes. With ``enable``, every scan of ORC files in a session's queries skips files that cannot
match.

Spark parses, plans and reads. While Spark plans a query, orcidx returns which scans read directories that may have an
index. When such a scan lists its files, Spark passes to orcidx the filters that it tests on each row of the scan.
orcidx then returns the files that are proven to have no row for which these filters are true.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from orcidx.errors import InvalidQuery, OrcidxError, Unsupported
from orcidx.index_directory.lookup import store_above
from orcidx.index_directory.store import IndexStore
from orcidx.orc.timezones import load_zone
from orcidx.predicate import Constant, Predicate, all_of
from orcidx.spark.choosing.choice import Choice
from orcidx.spark.choosing.engine_rules import NO_FILE_SKIPPED, NOT_LISTED
from orcidx.spark.choosing.kept_answers import KeptAnswer, KeptAnswers, digest_of
from orcidx.spark.choosing.remaining_files import sizes_of
from orcidx.spark.conditions.analysed_conditions import Nodes, condition_of_json
from orcidx.spark.conditions.listed_files import SparkFiles, listing_of, local_name
from orcidx.spark.conditions.survivors import Int64s, PartitionColumns, SurvivingFiles, find_survivors, joined
from orcidx.spark.jobs.swap_marks import swap_under_way
from orcidx.spark.query.read_query import SPARK_OPTIONS
from orcidx.spark.sessions.hadoop_files import SessionFiles
from orcidx.spark.sessions.served import PART, items_of, parts_of
from orcidx.spark.sessions.session_rule import add_rule, check_session, has_rule, remove_rule
from orcidx.spark.types.literal_values import with_cast_instants
from orcidx.storage import Source, describe_source
from orcidx.storage.hadoop_store import hadoop_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["disable", "enable", "last_scans", "sql"]

_REMEMBERED_SCANS = 100
"""How many scans ``why`` shows. A single query has fewer scans."""
WITHOUT_SECONDS = 10.0
"""If a remote directory has no index, orcidx does not look for an index again for this many seconds. Looking for an
index takes a request for each directory above, and each scan would wait for these requests."""
_EXAMINED_ROOTS = 20
"""The maximum number of directories of a relation that are examined for an index while a query is planned. A relation
with more directories is examined when its scan lists its files."""
_LAST: deque[Choice] = deque(maxlen=_REMEMBERED_SCANS)
"""The choices of the scans of this process's sessions, the newest last."""
_KEPT: WeakKeyDictionary[SparkSession, KeptAnswers] = WeakKeyDictionary()
"""The results of earlier scans of each session. The results are kept even while the session is not enabled."""
_HARMLESS = {
    "path", "paths", "basepath", "compression", "serialization.format", "mergeschema", "ignorecorruptfiles",
    "ignoremissingfiles", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "orc.compress",
    "__hive_compatible_bucketed_table_insertion__",
}  # fmt: skip
"""Options of a relation that choose files or concern writing. Any other option might change the values of a column."""
UNFINISHED = (
    "a rewrite of the directory has not finished replacing its files, or keeps old files (keep_old), so Spark may "
    "return rows twice; orcidx.spark.recover ends the rewrite, and orcidx.spark.read returns each row once"
)


def enable(spark: SparkSession) -> None:
    """Makes every query of a session skip the ORC files that have no matching row, by their indexes.

    ``enable`` applies to SQL texts, views, catalog tables, ``orc.`path``` and DataFrames. Each scan of ORC files below
    a directory that ``build_file_index`` has indexed is restricted when Spark lists its files. The rows and the plans
    are the same as without ``enable``. ``EXPLAIN`` shows ``OrcidxFileIndex`` as the location of such a scan, and
    ``why()`` shows what the last scans skipped. A file is skipped only if its size and time in Spark's listing are the
    same as when the file was indexed. After any error all files are read. While a ``rewrite`` has not finished
    replacing files in a directory, Spark may return rows twice, and ``why()`` says so. A session made by ``newSession``
    must be enabled separately.

    Parameters
    ----------
    spark
        A classic session. Enabling it again changes nothing.

    Raises
    ------
    Unsupported
        The session is of Spark Connect, whose optimizer runs on the server, or this Spark does not accept the rule.

    Examples
    --------
    >>> orcidx.spark.enable(spark)  # doctest: +SKIP
    >>> spark.sql("SELECT sum(price) FROM orders WHERE customer = 'c-17'").show()  # doctest: +SKIP
    >>> orcidx.spark.why()[-1].files_left  # doctest: +SKIP
    """
    check_session(spark)
    if not has_rule(spark):
        add_rule(spark, _answers(spark))


def disable(spark: SparkSession) -> None:
    """Undoes ``enable`` for queries that are planned from now on. Does nothing if the session is not enabled.

    Parameters
    ----------
    spark
        A classic session.

    Raises
    ------
    Unsupported
        The session is of Spark Connect.
    """
    check_session(spark)
    remove_rule(spark)


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Returns the DataFrame of one query. The query skips files as in an enabled session, but the session does not have
    to be enabled.

    If another DataFrame is derived from the returned one, for example by ``where``, its query is planned again. This
    query skips files only in an enabled session.

    Parameters
    ----------
    spark
        A classic session.
    text
        The query, as for ``spark.sql``.

    Returns
    -------
    DataFrame
        A DataFrame with the same rows as ``spark.sql(text)``.

    Raises
    ------
    Unsupported
        The session is of Spark Connect.
    """
    check_session(spark)
    if not isinstance(text, str):
        raise InvalidQuery(f"text must be an SQL query, but is {text!r:.80}")
    if has_rule(spark):
        return spark.sql(text)
    add_rule(spark, _answers(spark))
    try:
        frame = spark.sql(text)
        # This makes the plan while the rule is active. Later actions of the frame use the same plan.
        frame._jdf.queryExecution().optimizedPlan()
    finally:
        remove_rule(spark)
    return frame


def last_scans() -> tuple[Choice, ...]:
    """The choices of the last scans in enabled sessions, the newest last. A choice says what the scan skipped."""
    return tuple(_LAST)


@dataclass(frozen=True)
class _Scan:
    """A scan for which Spark is about to list files. The attributes are its directories or files, partition columns,
    columns of collated text, options, and filters (as the nodes of Catalyst's JSON). There are also facts about the
    session: the JVM's time zone, whether types of partitions are inferred, and how many tasks run at a time."""

    roots: tuple[str, ...]
    partitions: frozenset[str]
    collated: frozenset[str]
    options: frozenset[str]
    clock_zone: str
    infers_partitions: bool
    slots: int
    asked: tuple[str, ...]
    """The parts of the text that describes the scan. The last part has the filters."""

    @classmethod
    def of(cls, question: str) -> _Scan:
        asked = parts_of(question, 6)
        roots, partitions, collated, options, session, _ = asked
        zone, infers, slots = items_of(session)
        return cls(
            tuple(items_of(roots)),
            frozenset(items_of(partitions)) - {""},
            frozenset(items_of(collated)) - {""},
            frozenset(one.lower() for one in items_of(options)) - {""},
            zone,
            infers.lower() == "true",
            max(1, int(slots)),
            tuple(asked),
        )

    @cached_property
    def filters(self) -> tuple[Nodes, ...]:
        found = json.loads(self.asked[-1])
        for node in (node for nodes in found for node in nodes):
            if node.get("name") in self.collated and node["class"].endswith(".AttributeReference"):
                node["dataType"] = "collated string"
        return tuple(map(with_cast_instants, found))

    @property
    def types(self) -> dict[str, str]:
        """Spark's types of the columns that the filters name."""
        nodes = (node for nodes in self.filters for node in nodes if node["class"].endswith(".AttributeReference"))
        return {node["name"]: node["dataType"] for node in nodes if isinstance(node["dataType"], str)}

    @property
    def shown(self) -> str:
        more = f" and {len(self.roots) - 1:,} more" if len(self.roots) > 1 else ""
        return local_name(self.roots[0]) + more


class _Answers:
    """Finds the files that one session's scans can skip. Spark may call it from several threads."""

    def __init__(self, spark: SparkSession, kept: KeptAnswers) -> None:
        self._spark = spark
        self._kept = kept
        self._without: dict[tuple[str, str], float] = {}

    def indexed(self, relations: str) -> str:
        numbers: list[str] = []
        known: dict[str, bool] = {}
        for number, roots in enumerate(relations.split(PART)):
            if roots not in known:
                known[roots] = self._may_be_indexed(items_of(roots))
            if known[roots]:
                numbers.append(str(number))
        return ",".join(numbers)

    def skipped_files(self, question: str, listing: Callable[[], str]) -> str:
        scan = _Scan.of(question)
        try:
            answer = self._answer(scan, listing)
        except (OrcidxError, OSError, ImportError) as error:
            answer = _all_read(scan, NOT_LISTED.format(error))
        if answer.choice is not None:
            _LAST.append(answer.choice)
        return answer.skipped

    def _may_be_indexed(self, names: Sequence[str]) -> bool:
        """Whether there may be an index for a scan of the given directories. No request is sent to remote stores,
        because a request takes longer than the later step that it might save."""
        try:
            roots = self._roots(names)
            if isinstance(roots[0], Source):
                return any(self._may_have_store(one) for one in roots)
            few = roots[:_EXAMINED_ROOTS]
            return (
                len(few) < len(roots) or swap_under_way(few, None) or any(store_above(one) is not None for one in few)
            )
        except (OrcidxError, OSError, ImportError):
            return True  # the error occurs again in the scan, and why() shows the error

    def _answer(self, scan: _Scan, listing: Callable[[], str]) -> KeptAnswer:
        roots = self._roots(scan.roots)
        above = next((store for one in roots if (store := self._store_above(one)) is not None), None)
        if (above is not None or not isinstance(roots[0], Source)) and swap_under_way(roots, None):
            return _all_read(scan, UNFINISHED)
        if above is None:
            return KeptAnswer("", None)
        if unknown := sorted(scan.options - _HARMLESS):
            return _all_read(scan, f"the option {unknown[0]} may change the values that Spark reads from the files")
        alone = digest_of(scan.asked)
        if (answer := self._kept.of(alone, above)) is not None:
            return answer
        listed = listing()
        key = digest_of(scan.asked, listed)
        if (answer := self._kept.of(key, above)) is not None:
            return answer
        where = all_of(*(condition_of_json(one, load_zone("UTC")) for one in scan.filters))
        if where == Constant(True):
            answer = _all_read(scan, "no part of the condition can be evaluated by an index")
            self._kept.keep(alone, answer, ())
            return answer
        given = [one if isinstance(one, Source) else describe_source(one) for one in roots]
        files = SparkFiles(listing_of(listed), given)
        stores = files.stores()
        found = _found(scan, where, files, stores)
        answer = _answer_of(scan, files, found)
        if not found.failed:
            self._kept.keep(key, answer, [store for store, _ in stores])
        return answer

    def _roots(self, names: Sequence[str]) -> list[Source] | list[str]:
        """Converts the names of directories to local paths, or to sources that use the session's file systems."""
        local = [local_name(one) for one in names]
        if all(one.startswith("/") for one in local):
            return local
        if any(one.startswith("/") for one in local):
            raise Unsupported("the directories of the scan are in several file systems, but only one is supported")
        files = SessionFiles(self._spark)
        return [hadoop_source(one, files) for one in names]

    def _store_above(self, root: Source | str) -> IndexStore | None:
        """The indexes of a directory of the scan. If a remote directory has no index, this result is kept for
        ``WITHOUT_SECONDS`` seconds."""
        if not isinstance(root, Source):
            return store_above(root)
        if not self._may_have_store(root):
            return None
        found = store_above(root)
        if found is None:
            self._without[root.filesystem.name, root.location] = time.monotonic() + WITHOUT_SECONDS
        return found

    def _may_have_store(self, root: Source) -> bool:
        """Whether a directory may have an index. The result is False for ``WITHOUT_SECONDS`` after no index was found
        in a remote directory."""
        return time.monotonic() >= self._without.get((root.filesystem.name, root.location), 0.0)


def _answers(spark: SparkSession) -> _Answers:
    return _Answers(spark, _KEPT.setdefault(spark, KeptAnswers()))


def _found(
    scan: _Scan, where: Predicate, files: SparkFiles, stores: Sequence[tuple[IndexStore, Int64s]]
) -> SurvivingFiles:
    """Finds the files that the indexes in ``stores`` exclude. Each store has the indexes of one directory, and excludes
    only files of this directory."""
    options = SPARK_OPTIONS.override(wall_clock_zone=scan.clock_zone, case_sensitive=True)
    partitions = PartitionColumns(scan.partitions, scan.infers_partitions, by_directory=False)
    find = partial(find_survivors, types=scan.types, options=options, slots=scan.slots, partitions=partitions)
    return joined((find(store, files, places, where) for store, places in stores), len(files))


def _answer_of(scan: _Scan, files: SparkFiles, found: SurvivingFiles) -> KeptAnswer:
    """Returns the positions, in Spark's listing, of the files to skip. Also returns the choice that ``why`` shows."""
    kept = ~found.ruled_out
    if kept.all():
        return KeptAnswer("", Choice("spark", f"{scan.shown}: {NO_FILE_SKIPPED}", notes=found.notes))
    choice = Choice(
        "spark",
        f"{scan.shown}: files without matching rows are not listed",
        **vars(sizes_of(files.sizes, kept)),
        # The counts for each kind of evidence are given only if they add up to the number of skipped files. Files in
        # partitions that Spark itself skips are not counted.
        by=found.by if sum(found.by.values()) == int((~kept).sum()) else {},
        notes=found.notes,
    )
    return KeptAnswer(",".join(map(str, np.flatnonzero(~kept).tolist())), choice)


def _all_read(scan: _Scan, reason: str) -> KeptAnswer:
    return KeptAnswer("", Choice("spark", f"{scan.shown}: all files are read, because {reason}"))
