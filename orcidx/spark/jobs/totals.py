"""``aggregate``: totals of ORC files. Rows are not read where statistics prove the totals. For many files the function
runs a Spark job."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx.aggregation.groups import GroupTotals
from orcidx.errors import InvalidQuery, OrcidxError, Unsupported
from orcidx.index_directory.scan_files import DirectoryIndexes
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner.aggregate_pass import (
    AggregatePlan,
    Origins,
    add_files,
    aggregate_files,
    asked_of_indexes,
    plan_aggregation,
)
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.schema_reads import count_schema_reads
from orcidx.spark.conditions.text_conditions import TextCondition, as_in_spark
from orcidx.spark.jobs.build_index import is_table
from orcidx.spark.jobs.file_jobs import weigh
from orcidx.spark.query.parts import check_way
from orcidx.spark.query.placement import place
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.arrow_tables import table_of
from orcidx.spark.sessions.hadoop_files import reached, shipped
from orcidx.spark.sessions.spark_session import facts_of
from orcidx.storage import Source, list_sources
from orcidx.storage.kept_tails import share
from orcidx.storage.secrets import with_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orcidx.spark.types.argument_types import Given, OnePath, Schema

__all__ = ["aggregate"]

DRIVER_FILES = 32
"""The maximum number of files that are read on the driver, after catalogs and statistics have been used."""
_PART = pa.schema([("part", pa.binary())])


def aggregate(
    spark: SparkSession,
    path: OnePath,
    aggregates: Mapping[str, str],
    where: Given | None = None,
    by: str | Sequence[str] | None = None,
    *,
    schema: Schema | None = None,
    target_bytes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Computes totals of the rows of ORC files. Rows are not read where statistics prove the totals. The function runs
    on the driver, or as a Spark job if more than 32 files must be opened.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session. Its rules apply to SQL texts, to the case of names, and to time zones, as in ``orcidx.spark.read``.
    path : str or os.PathLike
        A directory, file, glob or URL.
    aggregates : dict of str to str
        As for ``orcidx.aggregate``.
    where : str, Predicate, pyarrow.compute.Expression or list of tuples, optional
        Only rows for which this condition is true. A text is Spark's SQL, and orcidx must be able to test all of it.
    by : str or sequence of str, optional
        Columns to group by.
    schema, storage_options
        As for ``orcidx.spark.read``.
    target_bytes : int, optional
        Stored bytes of the files of each task.

    Returns
    -------
    pyarrow.Table
        As from ``orcidx.aggregate``, with NaN as the largest value.

    Raises
    ------
    InvalidQuery
        As for ``orcidx.aggregate``. It is also raised if orcidx can test only a part of a text.
    Unsupported
        The path is a Paimon table. Use ``orcidx.paimon.open_table(path).aggregate``.
    """
    facts = facts_of(spark)
    storage_options = with_secrets(storage_options)
    found = reached(spark, path, storage_options)
    if is_table(found, storage_options):
        raise Unsupported("this is a Paimon table; use orcidx.paimon.open_table(path).aggregate")
    sources = list_sources(found, storage_options=storage_options)
    condition = as_in_spark(spark, where, facts.clock_zone, once=True)
    query = Query(path=sources, where=condition, format="orc", schema=schema, **facts.of_query)
    rows = begin_plan(query).rows
    assert isinstance(rows, Scan)
    if isinstance(condition, TextCondition) and not condition.last.exact:
        raise InvalidQuery(
            f"orcidx cannot convert all of {condition.text!r:.200} to predicates with the same meaning as in Spark: "
            "use only comparisons of columns with constants, or aggregate with Spark"
        )
    options = rows.options.override(strings="string")
    request = replace(rows.request, columns=None, row_numbers=None, options=options)
    every = replace(rows, request=request, indexes=_indexes(rows))
    metrics = ScanMetrics()
    plan = plan_aggregation(every.schema, aggregates, by, case_sensitive=options.case_sensitive)
    known = asked_of_indexes(every.indexes, every.jobs, every.resolved, plan, metrics)
    count_schema_reads(every, metrics)
    job = _Job(spark, facts.slots, target_bytes, sources)
    add = job.add if len(known.jobs) > DRIVER_FILES else partial(add_files, check=check_way)
    return aggregate_files(every.jobs, known, every.resolved, plan, metrics=metrics, add=add)


def _indexes(rows: Scan) -> DirectoryIndexes | None:
    """The catalog of the directory. The result is None if a partition column has timestamps. These timestamps depend on
    the session's time zone, and a catalog does not record this time zone."""
    kinds = [value.type for value in rows.jobs[0].constants.values()] if rows.jobs else []
    return None if any(map(pa.types.is_timestamp, kinds)) else DirectoryIndexes()


@dataclass(frozen=True)
class _Job:
    """Computes the totals of files in Spark tasks."""

    spark: SparkSession
    slots: int
    target_bytes: int | None
    sources: Sequence[Source]

    def add(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        plan: AggregatePlan,
        totals: GroupTotals,
        origins: Origins,
        *,
        metrics: ScanMetrics,
    ) -> None:
        """Adds the totals of the files in ``jobs`` in one Spark job. The arguments are the same as those of
        ``add_files``."""
        bins: dict[int, list[FileJob]] = {}
        sizes = [job.source.size or 0 for job in jobs]
        for number, job in zip(weigh(sizes, self.slots, self.target_bytes), jobs):
            bins.setdefault(number, []).append(job)
        asked = [pickle.dumps((tuple(chosen), request, plan)) for chosen in bins.values()]
        frame = place(self.spark, pa.table([pa.array(asked, pa.binary())], schema=_PART), range(len(asked)), len(asked))
        found = table_of(frame.mapInArrow(shipped(_total, self.sources), "part binary"), _PART)
        for part in found["part"]:
            answer = pickle.loads(part.as_buffer())
            if isinstance(answer, Exception):
                raise answer
            theirs, rows, notes, work = answer
            totals.merge(theirs)
            origins.rows.update(rows)
            origins.notes += notes
            metrics.requests += work[0]
            metrics.bytes_read += work[1]


def _total(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the totals of each pickled list of files, or an error."""
    for batch in batches:
        for part in batch.column(0):
            jobs, request, plan = pickle.loads(part.as_buffer())
            tails = share([job.tail for job in jobs])
            jobs = [replace(job, tail=tail) for job, tail in zip(jobs, tails)]
            totals, origins, metrics = plan.totals(), Origins(), ScanMetrics()
            try:
                add_files(jobs, request, plan, totals, origins, metrics=metrics, check=check_way)
            except (
                OrcidxError,
                OSError,
            ) as error:  # returned as a row, because Spark would report an exception with a traceback
                answer: Any = error
            else:
                answer = totals, Counter(origins.rows), origins.notes, (metrics.requests, metrics.bytes_read)
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(answer)], pa.binary())], schema=_PART)
