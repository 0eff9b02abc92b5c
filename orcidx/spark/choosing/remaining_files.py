"""The files of Spark's relation that remain after indexes are used, and their counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from orcidx.index_directory.store import IndexStore
from orcidx.spark.choosing.asked_relation import needed_columns
from orcidx.spark.choosing.connect_pruning import listing_of_client, listing_of_server
from orcidx.spark.choosing.engine_rules import Sizes
from orcidx.spark.conditions.analysed_conditions import Condition
from orcidx.spark.conditions.key_frames import Keys
from orcidx.spark.conditions.listed_files import ClientFiles, ListedFiles, Listing, SparkFiles
from orcidx.spark.conditions.relation import Relation
from orcidx.spark.conditions.survivors import (
    PartitionColumns,
    SurvivingFiles,
    find_survivors,
    joined,
    misplaced,
    with_old_times,
)
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.spark_session import SessionFacts, is_connect
from orcidx.spark.types.spark_types import width_of
from orcidx.storage import Source, describe_source, list_sources

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

__all__ = [
    "Stores",
    "as_listed",
    "counts_of",
    "counts_of_all",
    "indexed_files",
    "listing_for",
    "may_be_old",
    "partition_columns",
    "sizes_of",
    "survivors_of",
    "types_of",
]

Int64s = npt.NDArray[np.int64]
Stores: TypeAlias = Sequence[tuple[IndexStore, Int64s]]
"""Indexed directories, each with the numbers of its files among the listed files."""


def indexed_files(relation: Relation, query: Query) -> tuple[ListedFiles, list[tuple[IndexStore, Int64s]]]:
    """Returns the files, and the stores of the indexed directories that contain them. The files come from Spark's
    listing. If Spark does not give its listing, or if it lists several file systems, the files come from orcidx's
    listing."""
    paths = query.reached if isinstance(query.reached, (list, tuple)) else [query.reached]
    given = [one if isinstance(one, Source) else describe_source(one) for one in paths]
    alike = not is_connect(relation.spark) and len({(one.kind, id(one.filesystem)) for one in given}) == 1
    listing = relation.listing if alike and given[0].kind in ("path", "hadoop") else None
    if listing is None:
        client = ClientFiles(list_sources(query.reached))
        return client, client.stores()
    found = SparkFiles(listing, given)
    return found, found.stores()


def listing_for(relation: Relation, query: Query, files: ListedFiles, found: SurvivingFiles) -> Listing | None:
    """Returns Spark's listing, or None if Spark does not give it. If no file can be skipped and the query has no
    options of Spark's reader, the listing is only used for counts. In this case a listing that orcidx made is
    returned."""
    if isinstance(files, SparkFiles) or not (found.ruled_out.any() or query.reader_options):
        return as_listed(files)
    if is_connect(relation.spark):
        return listing_of_server(relation.spark, query.path, query.reader_options)
    return relation.listing


def as_listed(files: ListedFiles) -> Listing:
    """The examined files as a listing: Spark's own listing, or a listing made from the sources that orcidx listed."""
    return files.listing if isinstance(files, SparkFiles) else listing_of_client(files.sources)


def survivors_of(
    stores: Stores,
    files: ListedFiles,
    relation: Relation,
    asked: Condition,
    session: tuple[Query, SessionFacts],
) -> SurvivingFiles:
    query, facts = session
    types = {one.name: _type_name(one.dataType) for one in relation.frame.schema.fields}
    widths = {one.name: width_of(one.dataType.jsonValue()) for one in relation.frame.schema.fields}
    needed = needed_columns(relation, asked, query.columns)
    find = partial(
        find_survivors,
        types=types,
        options=query.scan_options.override(case_sensitive=True),
        slots=facts.slots,
        partitions=partition_columns(relation, query, files),
        share=sum(widths[name] for name in needed) / max(1, sum(widths.values())),
    )
    found = joined((find(store, files, places, asked.may) for store, places in stores), len(files))
    notes = [f"a part of the condition skips no file, because {reason}" for reason in asked.untestable]
    return replace(found, notes=(*notes, *found.notes))


def partition_columns(relation: Relation, query: Query, files: ListedFiles) -> PartitionColumns:
    """The partition columns of Spark's relation. Spark Connect does not give these columns. In this case the result has
    every key in the files' paths, whatever the option basePath is."""
    names = relation.partition_columns
    if names is None:
        sources = files.sources if isinstance(files, ClientFiles) else ()
        folders = {one for source in sources for one in str(source.location).split("/")[:-1]}
        names = frozenset(one.partition("=")[0] for one in folders if "=" in one)
    names |= misplaced(relation.frame.columns)
    return PartitionColumns(names, query.infer_partitions, by_directory=query.table is None)


def may_be_old(
    stores: Stores,
    files: ListedFiles,
    found: SurvivingFiles,
    fields: Sequence[StructField],
    session: tuple[Query, PartitionColumns],
) -> bool:
    """True if a remaining file may have dates or times that Spark and orcidx decode differently. The result comes from
    the files' statistics, which do not cover nested columns."""
    query, partitions = session
    types = {one.name: _type_name(one.dataType) for one in fields}
    texts = {one.name: one.dataType.simpleString() for one in fields}
    times = [name for name, kind in types.items() if kind in ("date", "timestamp")]
    if any(re.search(r"\b(date|timestamp)\b", text) for name, text in texts.items() if name not in times):
        return True
    left = ~found.ruled_out
    for store, positions in stores if times else ():
        options = query.scan_options.override(case_sensitive=True)
        old = with_old_times(store, files, positions, times, types=types, options=options, partitions=partitions)
        if (old & left).any():
            return True
        left[positions] = False
    # The statistics of a file without an index are not known, so it may have old times.
    return bool(times and left.any())


def _type_name(kind: DataType) -> str:
    found = kind.jsonValue()
    return found if isinstance(found, str) else ""


def types_of(fields: Sequence[StructField]) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, one.dataType.simpleString()) for one in fields)


def sizes_of(sizes: Int64s, kept: npt.NDArray[np.bool_]) -> Sizes:
    """The number and the bytes of the files in a listing, and of the files that are kept."""
    return Sizes(len(sizes), int(sizes.sum()), int(kept.sum()), int(sizes[kept].sum()))


def counts_of(
    listing: Listing, kept: npt.NDArray[np.bool_], found: SurvivingFiles, keys: Sequence[Keys]
) -> dict[str, Any]:
    notes = (*(one.note for one in keys), *found.notes)
    return {**vars(sizes_of(listing.sizes, kept)), "by": found.by, "notes": notes}


def counts_of_all(listing: Listing, found: SurvivingFiles, keys: Sequence[Keys]) -> dict[str, Any]:
    """The counts for a ``Choice`` in which all files are read, even files that could be skipped."""
    return counts_of(listing, np.ones(len(listing.names), np.bool_), replace(found, by={}), keys)
