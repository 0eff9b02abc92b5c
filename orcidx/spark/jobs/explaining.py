"""``explain`` shows what a query would read of a directory, according to indexes and metadata. For many files it runs a
Spark job."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery, OrcidxError, Unsupported
from orcidx.index_directory.catalog import FILE_FIELDS
from orcidx.index_directory.explain import EXAMINED, DirectoryExplanation, DirectoryQuestion, Pruned, assemble, examine
from orcidx.index_directory.file_pruning import FilePlan, KnownFiles, plan_known_files
from orcidx.index_directory.lookup import unused_notes
from orcidx.index_directory.store import IndexStore, listing_table, stale_notes
from orcidx.options import ReadOptions
from orcidx.planner.request import ScanRequest, as_spelled
from orcidx.scanner.file import open_file
from orcidx.scanner.scan import Scan
from orcidx.spark.conditions.text_conditions import as_in_spark
from orcidx.spark.jobs.build_index import is_table
from orcidx.spark.jobs.file_jobs import FileJobTask, run_over_files, weigh
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.hadoop_files import reached
from orcidx.spark.sessions.progress import Counters, Progress
from orcidx.spark.sessions.spark_session import facts_of
from orcidx.spark.types.argument_types import OnePath, Schema, SparkWhere
from orcidx.storage import Source, list_sources
from orcidx.storage.secrets import with_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["explain"]

PROBED_FILES = 20
"""The maximum number of files that are opened to find a readable one, at about a millisecond each."""
EXAMINED_FILES = 32
"""The maximum number of files that are examined on the driver."""
_INDEX = ("index", "embedded", "indexes", "tail")


def explain(
    spark: SparkSession,
    path: OnePath,
    where: SparkWhere | None,
    *,
    columns: Sequence[str | Sequence[str]] | None = None,
    schema: Schema | None = None,
    target_bytes: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DirectoryExplanation:
    """Explains what ``read`` with this ``where`` would read of a directory of ORC files, and why the rest would be
    skipped. The result also shows what each index would skip if it were the only index. This function reads only
    metadata and indexes.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    path
        The directory, as for ``build_file_index``.
    where, columns, schema
        As for ``read``.
    target_bytes
        Stored bytes of the files of each task.
    progress
        Show a progress bar on standard error. None: only if standard error is a terminal.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.

    Returns
    -------
    DirectoryExplanation
        ``str()`` returns a text, ``to_dict()`` returns data, ``to_html()`` and ``save(path)`` make a page.

    Raises
    ------
    InvalidQuery
        The condition or a column does not fit the files.
    FileNotFoundError, StorageError, CorruptFile
        The directory cannot be listed, or its catalog is damaged.

    Examples
    --------
    >>> orcidx.spark.explain(spark, "events", "user_id = 5")  # doctest: +SKIP
    """
    if where is None:
        raise InvalidQuery(
            "'where' is None, but without a condition nothing is skipped; call describe() to see which indexes exist"
        )
    facts = facts_of(spark)
    storage_options = with_secrets(storage_options)
    place = reached(spark, path, storage_options)
    sources = list_sources(place, storage_options=storage_options)
    store = IndexStore.open(place, storage_options=storage_options, create=True)
    if store is None or any(source.root is None for source in sources):
        raise InvalidQuery(f"{path!r:.80} is not a directory or URL; use orcidx.scan(...).explain() for other sources")
    if is_table(place, storage_options):
        raise Unsupported("this is a Paimon table; use paimon.open_table(path).scan(where=...).explain()")
    listing = listing_table(store.root, sources)
    query = Query(
        path=_readable_first(sources),
        columns=columns,
        where=as_in_spark(spark, where, facts.clock_zone),
        format="orc",
        schema=schema,
        **facts.of_query,
    )
    rows = begin_plan(query).rows
    assert isinstance(rows, Scan)
    request = rows.request
    pruned = _pruned(store, listing, request)
    files = _asked(pruned, _constants(sources, rows))
    question = _Examination(DirectoryQuestion(request, store.folder), Counters())
    task = FileJobTask(store.root, EXAMINED, question)
    if files.num_rows <= EXAMINED_FILES:
        found = pa.Table.from_batches(list(task(files.to_batches())), EXAMINED)
    else:
        sizes = files["weight"].to_pylist()
        with Progress(spark, "explaining", files=len(sizes), bytes=sum(sizes), shown=progress) as shown:
            task = replace(task, make=replace(question, counters=shown.counters))
            found = run_over_files(spark, files, weigh(sizes, facts.slots, target_bytes), task)
    return assemble(store.root.name, repr(request.where), pruned, found)


def _readable_first(sources: Sequence[Source]) -> list[Source]:
    """Returns the files, with the first readable file moved to the front, because the schema of the first file is used.
    The files that come after it in ``sources`` are not opened."""
    for number, source in enumerate(sources[:PROBED_FILES]):
        try:
            with open_file(source):
                return [source, *sources[:number], *sources[number + 1 :]]
        except (OrcidxError, OSError):  # the result for this file reports the error
            continue
    return list(sources)


@dataclass(frozen=True)
class _Examination:
    question: DirectoryQuestion
    counters: Counters

    def __call__(self, source: Source, row: Mapping[str, Any]) -> Mapping[str, Any]:
        found = examine(self.question, source, row)
        self.counters.add(bytes=row["weight"], failed=found["error"] is not None)
        return found


def _pruned(store: IndexStore, listing: pa.Table, request: ScanRequest) -> Pruned:
    """Excludes files by the catalog. If columns are found in files by position, no file is excluded."""
    match = store.match(listing)
    if request.match != "name":
        match = replace(match, entry=np.full_like(match.entry, -1), state=np.zeros_like(match.state))
    request = as_spelled(request)
    assert request.schema is not None
    # Timestamps depend on the session's time zone. A catalog does not contain this zone, so timestamps exclude no file
    # here.
    kinds = pa.schema([one for one in request.schema if not pa.types.is_timestamp(one.type)])
    known = store.known(listing, match, columns=None, schema=kinds)
    plain = replace(known, partitions=replace(known.partitions, values={}))
    options = request.options

    def plan(files: KnownFiles, options: ReadOptions) -> FilePlan:
        return plan_known_files(files, match.fresh, request.where, options, has_index=True, ask_indexes=False)

    whole = plan(known, options)
    whole = replace(whole, notes=(*unused_notes(request), *stale_notes(listing, match), *whole.notes))
    return Pruned(listing, whole, plan(known, options.override(row_index=False)), plan(plain, options))


def _constants(sources: Sequence[Source], rows: Scan) -> list[bytes | None]:
    """The pickled partition values of each listed file. The item of a file without partition columns is None."""
    pickled: dict[str, bytes | None] = {}
    last: tuple[Any, bytes | None] = ({}, None)
    for job in rows.jobs:
        if job.constants != last[0]:
            last = job.constants, pickle.dumps(dict(job.constants))
        pickled[job.source.name] = last[1]
    return [pickled.get(source.name) for source in sources]


def _asked(pruned: Pruned, constants: Sequence[bytes | None]) -> pa.Table:
    """The rows for the tasks. There is one row for each file that the catalog did not exclude. An excluded file also
    gets a row if it has an index."""
    known = pruned.plan.known
    kept = pruned.mask(pruned.plan)
    catalog = known.index_rows.of(np.arange(known.count))
    has_index = catalog["index_size"].combine_chunks().fill_null(0).to_numpy() > 0
    sizes = pruned.listing["size"].to_numpy()
    table = pruned.listing
    for name in _INDEX:
        table = table.append_column(FILE_FIELDS.field(name), catalog[name])
    table = table.append_column("kept", pa.array(kept))
    table = table.append_column("known_rows", known.catalog.files["rows"])
    table = table.append_column("constants", pa.array(constants, pa.binary()))
    table = table.append_column("weight", pa.array(np.where(kept, sizes // 64, 0)))
    return table.filter(pa.array((kept | has_index) & (sizes > 0)))
