"""Chooses which engine reads: Spark's own reader, without the files that indexes rule out, or orcidx in tasks of its
own.

Spark's reader decodes faster; orcidx leaves out more. So Spark's relation is made first, and files that are proven to
have no matching row are removed from it. orcidx reads what Spark has no reader for. It also reads lookups of keys by an
index, because it finds the rows of the keys without decoding the other columns of their row groups."""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from orcidx.errors import InvalidQuery, OrcidxError
from orcidx.index_directory.lookup import store_above
from orcidx.index_directory.store import IndexStore
from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, bind
from orcidx.predicate.fold import conjuncts
from orcidx.spark.choosing.connect_pruning import listing_of_client, listing_of_server, proven
from orcidx.spark.choosing.schema_differences import without_common_schema
from orcidx.spark.conditions.analysed_conditions import Condition, analysed
from orcidx.spark.conditions.key_frames import Keys, keys_of, pruning_by
from orcidx.spark.conditions.listed_files import ClientFiles, ListedFiles, Listing, SparkFiles
from orcidx.spark.conditions.relation import MOST_NAMED, Relation, relation_of
from orcidx.spark.conditions.survivors import PartitionColumns, Survivors, find_survivors, with_old_times
from orcidx.spark.conditions.text_conditions import filtered_by
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.hadoop_files import road_notes, road_problem
from orcidx.spark.sessions.spark_errors import sentence_of, spark_errors
from orcidx.spark.sessions.spark_session import SessionFacts, is_connect
from orcidx.spark.types.argument_types import KeyFrames
from orcidx.spark.types.spark_columns import column_of
from orcidx.spark.types.spark_types import arrow_schema_of, collated, width_of, with_defaults
from orcidx.spellings import size_text
from orcidx.storage import Source, describe_source, list_sources
from orcidx.storage.listing import is_pattern

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

__all__ = ["Choice", "Chosen", "Engine", "Unreadable", "choose", "engine_of", "is_column", "own_tasks_only"]

Engine = Literal["auto", "spark", "orcidx"]
Int64s = npt.NDArray[np.int64]
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


class Unreadable(Exception):
    """Spark makes no relation of a path; the text is Spark's message."""


@dataclass(frozen=True)
class Choice:
    """Which engine reads a DataFrame, why, and what was left out. ``str()`` is a sentence or two.

    ``files``, ``bytes``: listed; ``files_left``, ``bytes_left``: read; ``by``: how many files each kind of evidence
    ruled out. The numbers are None where they are known only when the engine runs."""

    engine: Literal["spark", "orcidx"]
    reason: str
    files: int | None = None
    files_left: int | None = None
    bytes: int | None = None
    bytes_left: int | None = None
    by: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = "Spark's reader" if self.engine == "spark" else "orcidx"
        text = f"{who} reads it: {self.reason}"
        if self.files is not None:
            sizes = f"{size_text(self.bytes_left or 0)} of {size_text(self.bytes or 0)}"
            text += f"; {self.files_left:,} of {self.files:,} files are read, which store {sizes}"
        if self.by:
            text += " (" + ", ".join(f"{count:,} ruled out by {name}" for name, count in self.by.items()) + ")"
        return "\n".join((text, *self.notes))


@dataclass(frozen=True)
class Chosen:
    """A choice with what is needed to carry it out. For Spark's reader that is ``frame``. For orcidx: ``where`` prunes,
    ``needed`` are the columns to read, and Spark then tests ``condition`` and ``keys``. ``instead``: the choice to take
    where orcidx does not read those columns as exactly the ``types`` that Spark reads."""

    choice: Choice
    frame: DataFrame | None = None
    where: Predicate | None = None
    needed: tuple[str, ...] | None = None
    condition: Column | str | None = None
    keys: tuple[Keys, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    instead: Callable[[], Chosen] | None = None


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
    relation = _relation(spark, query)
    _check_columns(query, relation.frame)
    condition = query.where
    if condition is not None and not isinstance(condition, str) and not is_column(condition):
        condition = _as_column(relation, query)
    filtered = _filtered(relation.frame, condition)
    keys = keys_of(where_in, relation.frame, case_sensitive=query.case_sensitive)

    def by_spark(reason: str, frame: DataFrame = filtered, **counts: Any) -> Chosen:
        return Chosen(Choice("spark", reason, **counts), frame, keys=keys)

    if condition is None and not keys:
        return by_spark("the query has no condition")
    if reason := _unprunable(spark, facts, query, engine):
        return by_spark(reason)
    if engine != "orcidx" and _has_no_index(query.reached):
        return by_spark(_warned_once(query.path, engine))
    asked = _asked(relation, query, filtered, facts)
    if asked.obstacle is not None and not keys:
        return by_spark(f"no file can be left out by a condition where {asked.obstacle}")
    asked = _with_keys(asked, keys)
    if engine == "orcidx" and not asked.unjudged:
        needed = _needed(relation, asked, query.columns)
        choice = Choice("orcidx", "it was asked to", notes=road_notes(query.at))
        return Chosen(choice, None, asked.may, needed, condition, keys)
    if facts.gates.pruning is not None:  # the caller asks for orcidx's tasks, but they cannot read this
        return by_spark(facts.gates.pruning)
    if asked.may == Constant(True):
        return by_spark("the condition has no part that an index could rule files out by")
    try:
        files, stores = _indexed(relation, query)
    except (OrcidxError, OSError, ImportError) as error:
        return by_spark(f"orcidx cannot list the files to look for indexes ({error})")
    if not stores:
        return by_spark(_warned_once(query.path, engine))
    found = _survivors(stores, files, relation, asked, (query, facts))
    if reason := _not_worth(files, found, query):
        return by_spark(reason, **_of_all(_as_listed(files), found, keys))
    if (listing := _listing(relation, query, files, found)) is None:
        return by_spark("Spark does not tell its files")
    kept = found.kept_of(listing, files)
    counts = _counts(listing, kept, found, keys)

    def by_files() -> Chosen:
        frame, how = _restricted(relation, listing, kept, counts)
        counted = _of_all(listing, found, keys) if frame is relation.frame else counts
        return by_spark(how, filtered if frame is relation.frame else _filtered(frame, condition), **counted)

    by_keys = not asked.unjudged and _may_look_up(query, facts, engine)
    looked_up = _looked_up(asked.may, found, relation, query, counts) if by_keys else None
    needed = _needed(relation, asked, query.columns)
    fields = [one for one in relation.frame.schema.fields if one.name in needed]
    if looked_up is None or _may_be_old(stores, files, found, fields, (query, _partitions(relation, query, files))):
        return by_files()
    choice, texts = Choice("orcidx", looked_up, **counts), _types_of(fields)
    return Chosen(choice, None, asked.may, needed, condition, keys, texts, by_files)


def _unprunable(spark: SparkSession, facts: SessionFacts, query: Query, engine: Engine) -> str | None:
    """Why no file may be left out in this session."""
    if facts.gates.pruning is not None and engine != "orcidx":
        return facts.gates.pruning
    if is_connect(spark) and query.table is not None:
        return "Spark Connect does not tell where a table lies"
    return None


def _listing(relation: Relation, query: Query, files: ListedFiles, found: Survivors) -> Listing | None:
    """Spark's listing; the client's where only counts are needed."""
    if isinstance(files, SparkFiles) or not (found.fallen.any() or query.reader_options):
        return _as_listed(files)
    if is_connect(relation.spark):
        return listing_of_server(relation.spark, query.path, query.reader_options)
    return relation.listing()


def _as_listed(files: ListedFiles) -> Listing:
    """The listing whose files were examined, Spark's or orcidx's."""
    return files.listing if isinstance(files, SparkFiles) else listing_of_client(files.sources)


def _asked(relation: Relation, query: Query, filtered: DataFrame, facts: SessionFacts) -> Condition:
    """The part of the condition that can rule out files, and the columns that the condition names."""
    columns = frozenset(relation.frame.columns)
    if query.where is None:
        return Condition(Constant(True), frozenset())
    schema = relation.frame.schema
    if not is_connect(relation.spark):
        return analysed(filtered, columns, facts.clock_zone, collated=collated(schema))
    may = proven(query, schema)
    if may == Constant(True):
        return Condition(
            may, columns, "Spark Connect does not tell how Spark reads it, and orcidx may read it differently"
        )
    return Condition(may, columns)


def _with_keys(asked: Condition, keys: tuple[Keys, ...]) -> Condition:
    """The condition and the keys together. If the condition cannot be judged, the keys still rule out files."""
    unjudged = asked.unjudged if asked.obstacle is None else (asked.obstacle,)
    columns = asked.columns | {one.column for one in keys}
    return Condition(all_of(asked.may, pruning_by(keys)), columns, unjudged=unjudged)


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


def _indexed(relation: Relation, query: Query) -> tuple[ListedFiles, list[tuple[IndexStore, Int64s]]]:
    """The files and the indexed directories among them. The files are Spark's listing, or orcidx's where Spark does not
    give its own or where it lists several file systems."""
    paths = query.reached if isinstance(query.reached, (list, tuple)) else [query.reached]
    given = [one if isinstance(one, Source) else describe_source(one) for one in paths]
    alike = not is_connect(relation.spark) and len({(one.kind, id(one.filesystem)) for one in given}) == 1
    listing = relation.listing() if alike and given[0].kind in ("path", "hadoop") else None
    if listing is None:
        client = ClientFiles(list_sources(query.reached))
        return client, client.stores()
    found = SparkFiles(listing, given)
    return found, found.stores()


def _may_look_up(query: Query, facts: SessionFacts, engine: Engine) -> bool:
    """Whether orcidx's own tasks may read the query, and would give the values that Spark's reader gives."""
    apart = collated(query.schema) | with_defaults(query.schema)
    is_plain = not (query.reader_options or query.table or apart or facts.gates.tasks)
    return engine != "spark" and is_plain


def _relation(spark: SparkSession, query: Query) -> Relation:
    try:
        found = relation_of(
            spark, query.path, query.schema, options=query.reader_options, table=query.table, at=query.at
        )
        if is_connect(spark):
            found.frame.schema  # noqa: B018  (there the files are looked at when it is asked)
    except spark_errors() as error:
        if query.reader_options.get("mergeSchema") == "true" and (text := without_common_schema(query)):
            raise InvalidQuery(text) from None
        raise Unreadable(sentence_of(error)) from error
    return found


def _as_column(relation: Relation, query: Query) -> Column:
    """The query's predicate as a condition of Spark. Raises ``Unreadable`` where Spark cannot express it."""
    schema = arrow_schema_of(relation.frame.schema.jsonValue())
    where = query.predicate(schema)
    assert where is not None
    bind(where, schema, nan=query.options.nan, case_sensitive=query.case_sensitive)
    column = column_of(where, schema, case_sensitive=query.case_sensitive)
    if column is None:
        raise Unreadable("Spark cannot express the predicate")
    return column


def _needed(relation: Relation, asked: Condition, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of the relation that are read: those of the result and those of the condition."""
    wanted = {one.casefold() for one in (*(columns or relation.frame.columns), *asked.columns)}
    return tuple(name for name in relation.frame.columns if name.casefold() in wanted)


def _survivors(
    stores: Sequence[tuple[IndexStore, Int64s]],
    files: ListedFiles,
    relation: Relation,
    asked: Condition,
    session: tuple[Query, SessionFacts],
) -> Survivors:
    query, facts = session
    types = {one.name: _type_name(one.dataType) for one in relation.frame.schema.fields}
    widths = {one.name: width_of(one.dataType.jsonValue()) for one in relation.frame.schema.fields}
    needed = _needed(relation, asked, query.columns)
    found = Survivors(np.zeros(len(files), np.bool_), {})
    for store, positions in stores:
        part = find_survivors(
            store,
            files,
            positions,
            asked.may,
            types=types,
            options=query.scan_options.override(case_sensitive=True),
            slots=facts.slots,
            partitions=_partitions(relation, query, files),
            share=sum(widths[name] for name in needed) / max(1, sum(widths.values())),
        )
        found = found.with_other(part)
    notes = [f"a part of the condition rules out nothing, for {reason}" for reason in asked.unjudged]
    return replace(found, notes=(*notes, *found.notes))


def _partitions(relation: Relation, query: Query, files: ListedFiles) -> PartitionColumns:
    """The partition columns of Spark's relation. Over Spark Connect, which does not tell them: every column that the
    files' paths may define, whatever the option basePath is."""
    names = relation.partition_columns
    if names is None:
        sources = files.sources if isinstance(files, ClientFiles) else ()
        folders = {one for source in sources for one in str(source.location).split("/")[:-1]}
        names = frozenset(one.partition("=")[0] for one in folders if "=" in one)
    return PartitionColumns(names, query.infer_partitions, by_directory=query.table is None)


def _may_be_old(
    stores: Sequence[tuple[IndexStore, Int64s]],
    files: ListedFiles,
    found: Survivors,
    fields: Sequence[StructField],
    session: tuple[Query, PartitionColumns],
) -> bool:
    """True if a remaining file may hold dates or times that Spark and orcidx decode differently. Judged by the files'
    statistics, which do not cover nested columns."""
    query, partitions = session
    types = {one.name: _type_name(one.dataType) for one in fields}
    texts = {one.name: one.dataType.simpleString() for one in fields}
    times = [name for name, kind in types.items() if kind in ("date", "timestamp")]
    if any(re.search(r"\b(date|timestamp)\b", text) for name, text in texts.items() if name not in times):
        return True
    left = ~found.fallen
    for store, positions in stores if times else ():
        options = query.scan_options.override(case_sensitive=True)
        old = with_old_times(store, files, positions, times, types=types, options=options, partitions=partitions)
        if (old & left).any():
            return True
        left[positions] = False
    return bool(times and left.any())  # nothing is known about files without an index


def _type_name(kind: DataType) -> str:
    found = kind.jsonValue()
    return found if isinstance(found, str) else ""


def _counts(listing: Listing, kept: npt.NDArray[np.bool_], found: Survivors, keys: Sequence[Keys]) -> dict[str, Any]:
    return {
        "files": len(listing.names),
        "files_left": int(kept.sum()),
        "bytes": int(listing.sizes.sum()),
        "bytes_left": int(listing.sizes[kept].sum()),
        "by": found.by,
        "notes": (*(one.note for one in keys), *found.notes),
    }


def _types_of(fields: Sequence[StructField]) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, one.dataType.simpleString()) for one in fields)


def _of_all(listing: Listing, found: Survivors, keys: Sequence[Keys]) -> dict[str, Any]:
    """The counts of a read of all files, including those that could be left out."""
    return _counts(listing, np.ones(len(listing.names), np.bool_), replace(found, by={}), keys)


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


# ---------------------------------------------------------------------- columns and conditions


def _check_columns(query: Query, frame: DataFrame) -> None:
    """Raises ``InvalidQuery`` with the nearest name for an unknown column."""
    if not query.columns:  # the schema comes from the JVM as a long text
        return
    names = frame.columns
    known = {query.folded(name) for name in names}
    for one in query.columns:
        if query.folded(one) not in known:
            raise InvalidQuery(f"no column {one!r}{_nearest(one, names)}", column=one)


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; the columns are {', '.join(names[:20])}"


def _filtered(frame: DataFrame, condition: Column | str | None) -> DataFrame:
    return frame if condition is None else filtered_by(frame, condition)
