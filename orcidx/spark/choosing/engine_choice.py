"""Chooses the engine that reads: Spark's own reader without the skipped files, or orcidx in its own tasks.

Spark's reader decodes faster, but orcidx skips more. So Spark's relation is made first, and files that are proven to
have no matching row are removed from it. orcidx's own tasks read data for which Spark has no reader. These tasks also
look up keys with an index. They decode the other columns only for the rows that have the keys."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import numpy.typing as npt

from orcidx.errors import InvalidQuery, OrcidxError
from orcidx.index_directory.lookup import store_above
from orcidx.predicate import Constant, Leaf, Op
from orcidx.predicate.fold import conjuncts
from orcidx.spark.choosing.asked_relation import (
    as_column,
    check_asked_columns,
    condition_of_query,
    make_relation,
    needed_columns,
    with_condition,
    with_keys,
)
from orcidx.spark.choosing.choice import Choice, Chosen, Engine
from orcidx.spark.choosing.engine_rules import (
    MOST_LOOKUP_KEYS,
    NO_INDEX,
    ConditionFacts,
    EngineFacts,
    EngineVerdict,
    LookupFacts,
    RemainingFacts,
    decide,
    decided,
    lookup_refusal,
)
from orcidx.spark.choosing.remaining_files import (
    Stores,
    as_listed,
    counts_of,
    counts_of_all,
    indexed_files,
    listing_for,
    may_be_old,
    partition_columns,
    sizes_of,
    survivors_of,
    types_of,
)
from orcidx.spark.conditions.analysed_conditions import Condition
from orcidx.spark.conditions.key_frames import Keys, keys_of
from orcidx.spark.conditions.listed_files import ListedFiles, Listing
from orcidx.spark.conditions.relation import Relation
from orcidx.spark.conditions.survivors import SurvivingFiles
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.hadoop_files import access_notes, access_problem
from orcidx.spark.sessions.spark_session import SessionFacts, is_connect
from orcidx.spark.types.argument_types import KeyFrames
from orcidx.spark.types.spark_types import collated, with_defaults
from orcidx.storage import Source
from orcidx.storage.listing import is_pattern

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["choose", "engine_of", "is_column", "own_tasks_only"]

CONF = "spark.orcidx.engine"
_WARNED: set[str] = set()
"""Paths for which the warning about a missing index was already given."""


def is_column(where: object) -> bool:
    """Whether a condition is a Spark Column."""
    return hasattr(where, "cast") and hasattr(where, "alias")


def engine_of(spark: SparkSession, engine: str | None) -> Engine:
    """The engine that the caller chose, or else the session's ``spark.orcidx.engine``, or else "auto"."""
    asked = engine if engine is not None else spark.conf.get(CONF, "auto")
    if asked not in get_args(Engine):
        named = f"engine={asked!r}" if engine is not None else f"{CONF} is {asked!r}, which"
        raise InvalidQuery(f"{named} is not an engine: the engines are 'auto', 'spark' and 'orcidx'")
    return cast(Engine, asked)


def own_tasks_only(query: Query) -> str | None:
    """The reason why Spark's reader cannot carry out a query. The result is None if there is no such reason."""
    reasons = {
        "deletion_vector": "Spark's reader does not apply deletion vectors",
        "file_index": "Spark's reader does not use file indexes that are given by path",
        "top": "top= needs orcidx's tasks, which use statistics to find the first rows",
        "limit": "limit= needs orcidx's tasks, which read only as many files as the limit needs",
        "snapshot_id": "Paimon tables are read by orcidx",
        "jvm_zone": "Paimon tables are read by orcidx",
        "storage_options": "only orcidx's readers use storage_options=",
    }
    for name, reason in reasons.items():
        if getattr(query, name) is not None:
            return reason
    if query.format == "paimon":
        return reasons["snapshot_id"]
    if any(not isinstance(one, str) for one in query.columns or ()):
        return "only orcidx reads single fields of structs"
    return None


def choose(spark: SparkSession, session: SessionFacts, query: Query, engine: Engine, where_in: KeyFrames) -> Chosen:
    """Makes Spark's relation and chooses the engine. The caller still has to select the query's columns.

    Raises ``InvalidQuery`` if columns, keys or the condition do not fit the relation. Raises ``Unreadable`` if Spark
    cannot make a relation.
    """
    relation = make_relation(spark, query)
    check_asked_columns(query, relation.frame)
    condition = query.where
    if condition is not None and not isinstance(condition, str) and not is_column(condition):
        condition = as_column(relation, query)
    filtered = with_condition(relation.frame, condition)
    keys = keys_of(where_in, relation.frame, case_sensitive=query.case_sensitive)
    choosing = _Choosing(session, query, engine, relation, condition, filtered, keys)
    facts = EngineFacts(
        engine,
        ConditionFacts(condition is not None, bool(keys)),
        gate=session.gates.pruning,
        is_unplaced=is_connect(spark) and query.table is not None,
    )
    if verdict := decide(facts):
        return choosing.by_spark(verdict.reason)
    if engine != "orcidx" and _has_no_index(query.reached):
        return choosing.by_spark(NO_INDEX)
    asked = condition_of_query(relation, query, filtered)
    if verdict := decide(replace(facts, condition=replace(facts.condition, obstacle=asked.obstacle))):
        return choosing.by_spark(verdict.reason)
    return choosing.by_evidence(with_keys(asked, keys), facts)


@dataclass(frozen=True)
class _Choosing:
    """A query whose relation Spark has made. ``filtered``: the relation's rows for which the condition is true."""

    session: SessionFacts
    query: Query
    engine: Engine
    relation: Relation
    condition: Column | str | None
    filtered: DataFrame
    keys: tuple[Keys, ...]

    def by_spark(self, reason: str, frame: DataFrame | None = None, **counts: Any) -> Chosen:
        """Chooses Spark's reader. It reads ``frame``, or all files if ``frame`` is None."""
        if reason == NO_INDEX:
            _warn_once(self.query.path, self.engine)
        return Chosen(Choice("spark", reason, **counts), self.filtered if frame is None else frame, keys=self.keys)

    def by_evidence(self, asked: Condition, facts: EngineFacts) -> Chosen:
        """Finds indexes and evaluates the condition with them. If the known facts already decide the engine, indexes
        are not used."""
        examined = replace(facts.condition, is_testable=not asked.untestable, skips_nothing=asked.may == Constant(True))
        facts = replace(facts, condition=examined)
        if verdict := decide(facts):
            if verdict.engine == "spark":
                return self.by_spark(verdict.reason)
            needed = needed_columns(self.relation, asked, self.query.columns)
            choice = Choice("orcidx", verdict.reason, notes=access_notes(self.query.at))
            return Chosen(choice, None, asked.may, needed, self.condition, self.keys)
        try:
            files, stores = indexed_files(self.relation, self.query)
        except (OrcidxError, OSError, ImportError) as error:
            return self.by_spark(decided(replace(facts, listing_error=str(error))).reason)
        if not stores:
            return self.by_spark(NO_INDEX)
        return self._among_files(asked, files, stores, replace(facts, has_index=True))

    def _among_files(self, asked: Condition, files: ListedFiles, stores: Stores, facts: EngineFacts) -> Chosen:
        """The choice after the indexes of the files have been evaluated."""
        query, relation, keys = self.query, self.relation, self.keys
        found = survivors_of(stores, files, relation, asked, (query, self.session))
        examined = RemainingFacts(sizes_of(files.sizes, ~found.ruled_out), bool(query.reader_options))
        if verdict := decide(replace(facts, files=examined)):
            return self.by_spark(verdict.reason, **counts_of_all(as_listed(files), found, keys))
        listing = listing_for(relation, query, files, found)
        if listing is None:
            return self.by_spark(decided(replace(facts, files=replace(examined, is_listed=False))).reason)
        kept = found.kept_of(listing, files)
        sizes = sizes_of(listing.sizes, kept)
        are_alike = sizes.are_few and relation.named_files_are_alike
        facts = replace(facts, files=replace(examined, is_listed=True, kept=sizes, are_alike=are_alike))
        counts = counts_of(listing, kept, found, keys)

        def by_files() -> Chosen:
            frame, how = _restricted(relation, listing, kept, decided(facts))
            if frame is relation.frame:
                return self.by_spark(how, **counts_of_all(listing, found, keys))
            return self.by_spark(how, with_condition(frame, self.condition), **counts)

        lookup = self._lookup(asked, found)
        needed = needed_columns(relation, asked, query.columns)
        fields = [one for one in relation.frame.schema.fields if one.name in needed]
        if lookup_refusal(replace(facts, lookup=lookup)) is None:
            lookup = replace(lookup, access_problem=access_problem(query.at))
            note = lookup_refusal(replace(facts, lookup=lookup))
            counts["notes"] += access_notes(query.at) if note is None else (note,)
            if note is None:
                of_query = query, partition_columns(relation, query, files)
                lookup = replace(lookup, may_be_old=may_be_old(stores, files, found, fields, of_query))
        verdict = decided(replace(facts, lookup=lookup))
        if verdict.engine == "spark":
            return by_files()
        choice = Choice("orcidx", verdict.reason, **counts)
        return Chosen(choice, None, asked.may, needed, self.condition, keys, types_of(fields), by_files)

    def _lookup(self, asked: Condition, found: SurvivingFiles) -> LookupFacts:
        """Returns the facts that decide whether orcidx looks up keys, as far as they are known before more files are
        examined."""
        query = self.query
        apart = collated(query.schema) | with_defaults(query.schema)
        is_plain = not (query.reader_options or query.table or apart or self.session.gates.tasks)
        read = len(query.columns if query.columns is not None else self.relation.frame.columns)
        keyed = (
            leaf.path[0]
            for leaf in conjuncts(asked.may)
            if isinstance(leaf, Leaf) and not leaf.negated and leaf.op in (Op.EQ, Op.IN)
            if leaf.path[0] in found.keyed and len(leaf.literals) <= MOST_LOOKUP_KEYS
        )
        return LookupFacts(self.engine != "spark" and is_plain, next(keyed, None), read)


def _warn_once(path: str | Sequence[str], engine: Engine) -> None:
    """Warns once for each path without an index, because ``read`` is then no better than Spark's reader. There is no
    warning if the caller chose Spark's reader."""
    if engine == "auto" and (name := f"{path!r:.300}") not in _WARNED:
        _WARNED.add(name)
        warnings.warn(
            f"{NO_INDEX} {name}, so all of its files are read; orcidx.spark.build_file_index builds an index",
            RuntimeWarning,
            stacklevel=2,
        )


def _has_no_index(path: object) -> bool:
    """Whether it is known, without listing the files, that there is no index."""
    try:
        if isinstance(path, Source):
            return not is_pattern(str(path.location)) and store_above(path) is None
        return isinstance(path, str) and os.path.isdir(path) and store_above(path) is None
    except (OrcidxError, OSError):  # listing the files will report this error
        return False


def _restricted(
    relation: Relation, listing: Listing, kept: npt.NDArray[np.bool_], verdict: EngineVerdict
) -> tuple[DataFrame, str]:
    """Returns Spark's relation without the skipped files, and a sentence about how Spark leaves these files out."""
    if verdict.way == "all":
        return relation.frame, verdict.reason
    if verdict.way == "none":
        return relation.spark.createDataFrame([], relation.frame.schema).limit(0), verdict.reason
    names = [listing.names[number] for number in np.flatnonzero(kept).tolist()]
    dropped = [listing.names[number] for number in np.flatnonzero(~kept).tolist()]
    if verdict.way == "named":
        return relation.of_files(names, dropped), verdict.reason
    filtered = relation.by_names(names, dropped)
    if filtered is None:
        return relation.frame, "Spark cannot select the remaining files by their names, so all are read"
    return filtered, verdict.reason
