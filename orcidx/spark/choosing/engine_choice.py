"""Chooses which engine reads: Spark's own reader, without the files that indexes rule out, or orcidx in tasks of its
own.

Spark's reader decodes faster; orcidx leaves out more. So Spark's relation is made first, and files that are proven to
have no matching row are removed from it. orcidx reads what Spark has no reader for. It also reads lookups of keys by an
index, because it finds the rows of the keys without decoding the other columns of their row groups."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import numpy.typing as npt

from orcidx.errors import InvalidQuery, OrcidxError
from orcidx.index_directory.lookup import store_above
from orcidx.predicate import Constant, Leaf, Op, Predicate
from orcidx.predicate.fold import conjuncts
from orcidx.spark.choosing.asked_relation import (
    as_column,
    asked_of,
    check_columns,
    made_relation,
    needed_columns,
    with_condition,
    with_keys,
)
from orcidx.spark.choosing.choice import Choice, Chosen, Engine
from orcidx.spark.choosing.remaining_files import (
    as_listed,
    counts_of,
    counts_of_all,
    indexed_files,
    listing_for,
    may_be_old,
    partition_columns,
    survivors_of,
    types_of,
)
from orcidx.spark.conditions.key_frames import keys_of
from orcidx.spark.conditions.listed_files import ListedFiles, Listing
from orcidx.spark.conditions.relation import MOST_NAMED, Relation
from orcidx.spark.conditions.survivors import Survivors
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.hadoop_files import road_notes, road_problem
from orcidx.spark.sessions.spark_session import SessionFacts, is_connect
from orcidx.spark.types.argument_types import KeyFrames
from orcidx.spark.types.spark_types import collated, with_defaults
from orcidx.storage import Source
from orcidx.storage.listing import is_pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["choose", "engine_of", "is_column", "own_tasks_only"]

CONF = "spark.orcidx.engine"
MOST_KEYS = 32
"""At most this many keys are looked up row by row; with more keys most row groups have one of them."""
LATE_COLUMNS = 4
LEAST_BYTES = 16 << 20
"""Stored bytes of the files that are left, below which starting a Python worker costs more than decoding them."""
RARE_SHARE = 0.5
"""Share of the bytes. If the files of the keys have more, most row groups are taken to have a row of them."""
FILTER_SHARE = 0.5
"""Share of the bytes that a filter on file names must save, as Spark tests it on every row that is read."""
_WARNED: set[str] = set()
"""Paths for which the warning about a missing index was given."""
_DEARER = "would cost more than it saves, so all are read"


def is_column(where: object) -> bool:
    """Whether a condition is a Column of Spark."""
    return hasattr(where, "cast") and hasattr(where, "alias")


def engine_of(spark: SparkSession, engine: str | None) -> Engine:
    """The engine that the caller asks for, else the session's ``spark.orcidx.engine``, else "auto"."""
    asked = engine if engine is not None else spark.conf.get(CONF, "auto")
    if asked not in get_args(Engine):
        named = f"engine={asked!r}" if engine is not None else f"{CONF} is {asked!r}, which"
        raise InvalidQuery(f"{named} is no engine: it is 'auto', 'spark' or 'orcidx'")
    return cast(Engine, asked)


def own_tasks_only(query: Query) -> str | None:
    """The part of a query that Spark's reader cannot do; None where it can do all."""
    reasons = {
        "deletion_vector": "only orcidx applies deletion vectors",
        "file_index": "only orcidx reads file indexes given by path",
        "top": "orcidx finds the first rows in an order by its statistics",
        "limit": "orcidx reads only as many files as a limit needs",
        "snapshot_id": "Paimon tables are read by orcidx",
        "jvm_zone": "Paimon tables are read by orcidx",
        "storage_options": "storage_options= are for orcidx's readers",
    }
    for name, reason in reasons.items():
        if getattr(query, name) is not None:
            return reason
    if query.format == "paimon":
        return reasons["snapshot_id"]
    if any(not isinstance(one, str) for one in query.columns or ()):
        return "paths into structs are cut out by orcidx"
    return None


def choose(spark: SparkSession, facts: SessionFacts, query: Query, engine: Engine, where_in: KeyFrames) -> Chosen:
    """Makes Spark's relation and chooses its reader. The caller still has to select the query's columns.

    Raises ``InvalidQuery`` for columns, keys or a condition that the relation does not have, and ``Unreadable`` where
    there is no relation.
    """
    relation = made_relation(spark, query)
    check_columns(query, relation.frame)
    condition = query.where
    if condition is not None and not isinstance(condition, str) and not is_column(condition):
        condition = as_column(relation, query)
    filtered = with_condition(relation.frame, condition)
    keys = keys_of(where_in, relation.frame, case_sensitive=query.case_sensitive)

    def by_spark(reason: str, frame: DataFrame = filtered, **counts: Any) -> Chosen:
        return Chosen(Choice("spark", reason, **counts), frame, keys=keys)

    if condition is None and not keys:
        return by_spark("the query has no condition")
    if reason := _unprunable(spark, facts, query, engine):
        return by_spark(reason)
    if engine != "orcidx" and _has_no_index(query.reached):
        return by_spark(_warned_once(query.path, engine))
    asked = asked_of(relation, query, filtered, facts)
    if asked.obstacle is not None and not keys:
        return by_spark(f"no file can be left out by a condition where {asked.obstacle}")
    asked = with_keys(asked, keys)
    if engine == "orcidx" and not asked.unjudged:
        needed = needed_columns(relation, asked, query.columns)
        choice = Choice("orcidx", "it was asked to", notes=road_notes(query.at))
        return Chosen(choice, None, asked.may, needed, condition, keys)
    if facts.gates.pruning is not None:  # the caller asks for orcidx's tasks, but they cannot read this
        return by_spark(facts.gates.pruning)
    if asked.may == Constant(True):
        return by_spark("the condition has no part that an index could rule files out by")
    try:
        files, stores = indexed_files(relation, query)
    except (OrcidxError, OSError, ImportError) as error:
        return by_spark(f"orcidx cannot list the files to look for indexes ({error})")
    if not stores:
        return by_spark(_warned_once(query.path, engine))
    found = survivors_of(stores, files, relation, asked, (query, facts))
    if reason := _not_worth(files, found, query):
        return by_spark(reason, **counts_of_all(as_listed(files), found, keys))
    if (listing := listing_for(relation, query, files, found)) is None:
        return by_spark("Spark does not tell its files")
    kept = found.kept_of(listing, files)
    counts = counts_of(listing, kept, found, keys)

    def by_files() -> Chosen:
        frame, how = _restricted(relation, listing, kept, counts)
        counted = counts_of_all(listing, found, keys) if frame is relation.frame else counts
        return by_spark(how, filtered if frame is relation.frame else with_condition(frame, condition), **counted)

    by_keys = not asked.unjudged and _may_look_up(query, facts, engine)
    looked_up = _looked_up(asked.may, found, relation, query, counts) if by_keys else None
    needed = needed_columns(relation, asked, query.columns)
    fields = [one for one in relation.frame.schema.fields if one.name in needed]
    if looked_up is None or may_be_old(
        stores, files, found, fields, (query, partition_columns(relation, query, files))
    ):
        return by_files()
    choice, texts = Choice("orcidx", looked_up, **counts), types_of(fields)
    return Chosen(choice, None, asked.may, needed, condition, keys, texts, by_files)


def _unprunable(spark: SparkSession, facts: SessionFacts, query: Query, engine: Engine) -> str | None:
    """Why no file may be left out in this session."""
    if facts.gates.pruning is not None and engine != "orcidx":
        return facts.gates.pruning
    if is_connect(spark) and query.table is not None:
        return "Spark Connect does not tell where a table lies"
    return None


def _warned_once(path: str | Sequence[str], engine: Engine) -> str:
    """The reason "no index". Also warns once for each path, because ``read`` is no better than Spark's reader without
    an index. There is no warning where the caller asked for Spark's reader."""
    reason = "there is no index of the directory"
    if engine == "auto" and (name := f"{path!r:.300}") not in _WARNED:
        _WARNED.add(name)
        warnings.warn(
            f"{reason} {name}: all of its files are read; orcidx.spark.build_file_index makes one",
            RuntimeWarning,
            stacklevel=2,
        )
    return reason


def _has_no_index(path: object) -> bool:
    """Whether it is known, without listing the files, that there is no index."""
    try:
        if isinstance(path, Source):
            return not is_pattern(str(path.location)) and store_above(path) is None
        return isinstance(path, str) and os.path.isdir(path) and store_above(path) is None
    except (OrcidxError, OSError):  # where the files are listed, the listing gives the reason
        return False


def _may_look_up(query: Query, facts: SessionFacts, engine: Engine) -> bool:
    """Whether orcidx's own tasks may read the query, and would give the values that Spark's reader gives."""
    apart = collated(query.schema) | with_defaults(query.schema)
    is_plain = not (query.reader_options or query.table or apart or facts.gates.tasks)
    return engine != "spark" and is_plain


def _not_worth(files: ListedFiles, found: Survivors, query: Query) -> str | None:
    """Why nothing is left out although some files are proven to have no matching rows: they are too few."""
    left = ~found.fallen
    if left.all() or left.sum() <= MOST_NAMED or query.reader_options:
        return None
    if files.sizes[left].sum() <= FILTER_SHARE * files.sizes.sum():
        return None
    fell = f"{found.fallen.sum():,} of {len(left):,} files are proven to have no such rows"
    return f"{fell}, and a filter on names {_DEARER}"


def _looked_up(
    may: Predicate, found: Survivors, relation: Relation, query: Query, counts: dict[str, Any]
) -> str | None:
    """Why orcidx should decode the remaining files: the query looks up few keys of a column with a bloom filter, and
    other columns are decoded only for the rows of these keys. None where Spark should decode them. A note in
    ``counts``: how tasks open the files, or why they cannot."""
    read = len(query.columns if query.columns is not None else relation.frame.columns)
    if not LEAST_BYTES <= counts["bytes_left"] <= RARE_SHARE * counts["bytes"] or read < LATE_COLUMNS:
        return None
    for leaf in conjuncts(may):
        if not isinstance(leaf, Leaf) or leaf.negated or leaf.op not in (Op.EQ, Op.IN):
            continue
        if leaf.path[0] in found.keyed and len(leaf.literals) <= MOST_KEYS:
            if (problem := road_problem(query.at)) is not None:
                counts["notes"] += (f"few keys of {leaf.path[0]} could be looked up, but {problem}",)
                return None
            counts["notes"] += road_notes(query.at)
            return f"few keys of {leaf.path[0]} are looked up, and {read} columns are decoded only for their rows"
    return None


def _restricted(
    relation: Relation, listing: Listing, kept: npt.NDArray[np.bool_], counts: Mapping[str, Any]
) -> tuple[DataFrame, str]:
    """Spark's relation without the files that are ruled out, and the sentence about it."""
    left = np.flatnonzero(kept)
    if len(left) == len(listing.names):
        return relation.frame, "no file is proven to have no such rows"
    if not len(left):
        return relation.spark.createDataFrame([], relation.frame.schema).limit(0), "no file has such rows"
    names = [listing.names[number] for number in left.tolist()]
    dropped = [listing.names[number] for number in np.flatnonzero(~kept).tolist()]
    if len(names) <= MOST_NAMED and relation.named_files_are_alike:
        return relation.of_files(names, dropped), "the remaining files are few and are given by name"
    if counts["bytes_left"] > FILTER_SHARE * counts["bytes"]:
        return relation.frame, f"a filter on the names of files {_DEARER}"
    filtered = relation.by_names(names, dropped)
    if filtered is None:
        return relation.frame, "the names of the remaining files cannot be given to Spark, so all are read"
    return filtered, "the remaining files are selected by a filter on their names"
