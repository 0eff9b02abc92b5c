"""``Scan``: the rows of one or many ORC files.

A ``Scan`` only describes what to read. It has no open file, may be iterated any number of times, and can be pickled.
Each iteration opens the files in order, prunes their stripes by all indexes, and reads the remaining rows. See
``file_scan`` and ``stripe_reader``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from orcidx.errors import FileGone, InvalidQuery
from orcidx.explain.explanation import Explanation
from orcidx.fetching.drive import arun_in_turn, off_loop, run_in_turn, run_value
from orcidx.options import ReadOptions
from orcidx.planner.index_evidence import StoredIndex
from orcidx.planner.request import FileIndexes, FileJob, ScanRequest
from orcidx.scanner.aggregate_pass import (
    COUNT_ALONE,
    aggregate_file,
    aggregate_files,
    asked_of_indexes,
    plan_aggregation,
)
from orcidx.scanner.arrow_stream import ArrowStream, Batches, limited
from orcidx.scanner.batches import join_batches, join_off_loop
from orcidx.scanner.explaining import explain_files, gone_file
from orcidx.scanner.file_queue import FileQueue, OpenFile, check_condition, jobs_left, open_job
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.narrowing import RequestNarrowing
from orcidx.scanner.row_count import count_jobs
from orcidx.scanner.row_limit import RowsLeft, open_in_turn
from orcidx.scanner.scan_text import scan_html, scan_text
from orcidx.scanner.schema_reads import SCHEMA_READS, count_schema_reads, schema_reads
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.split import (
    count_from_json,
    job_from_json,
    job_to_json,
    plan_parts,
    refuse_outside,
    request_from_json,
    request_to_json,
)
from orcidx.scanner.stripe_scan import StripeScan
from orcidx.scanner.stripe_turns import StripeTurns
from orcidx.scanner.top_rows import SortKey
from orcidx.scanner.top_scan import TopPass, resolved_order, without_views
from orcidx.storage import Source

__all__ = ["Batches", "Scan", "Split"]

T = TypeVar("T")

SPLIT_BYTES = 128 << 20
"""The default number of bytes of a split. It is equal to Spark's default (spark.sql.files.maxPartitionBytes)."""

TABLE_ROWS = 1 << 20
"""The number of rows that are decoded at once for a table or for a count. The chunks of a table need not be small. With
half as many rows, reading takes up to 20 % longer. With twice as many rows, strings and lists are slow, because Arrow's
pool is too small to reuse their buffers."""

LARGE_CHUNK_BYTES = 1 << 15
"""A batch of at least this many rows becomes a chunk of a table and is not joined with other batches. With a condition,
joining batches would copy all rows."""


@dataclass(frozen=True, repr=False)
class Scan(RequestNarrowing, ArrowStream):
    """Rows of files, as record batches. ``OrcFile.scan`` and ``orcidx.scan`` make scans.

    Iterating yields ``pyarrow.RecordBatch``es of at most ``options.batch_size`` rows. Small batches are joined across
    row groups and stripes. An iterator may be used by one thread only. The scan may be used by several threads.

    Examples
    --------
    >>> import io, orcidx, pyarrow as pa
    >>> sink = io.BytesIO()
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), sink)
    >>> scan = orcidx.scan(sink.getvalue()).filter(orcidx.col("id") >= 2)
    >>> scan.count_rows()
    2
    >>> scan.limit(1).to_table().to_pylist()
    [{'id': 2}]
    """

    jobs: Sequence[FileJob]
    request: ScanRequest
    row_limit: int | None = None
    indexes: FileIndexes | None = None
    top: tuple[SortKey, ...] = ()

    @property
    def options(self) -> ReadOptions:
        """The options of the scan."""
        return self.request.options

    def __repr__(self) -> str:
        return scan_text(self.jobs, self.request, self.top, self.row_limit)

    def _repr_html_(self) -> str:
        """Describes the scan without opening a file."""
        return scan_html(self.jobs, self.request, self.top, self.row_limit)

    # ------------------------------------------------------------------ schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches. Reads the tail of the first file, unless a schema was given."""
        return self._known("_known_schema", self._find_schema)

    @property
    def resolved(self) -> ScanRequest:
        """The request for every file. If no schema was given and there are several files, all files are read with the
        schema of the first file."""
        if self.request.schema is not None or len(self.jobs) < 2:
            return self.request
        return self._known("_known_request", self._resolve)

    @property
    def _limited(self) -> ScanRequest:
        """The request for every file. It has the limit of the scan, if there is one."""
        return self.resolved if self.row_limit is None else replace(self.resolved, limit=self.row_limit)

    @property
    def _order(self) -> tuple[SortKey, ...]:
        return resolved_order(self.top, self.jobs, self.resolved, schema_reads(self))

    def _known(self, name: str, find: Callable[[], T]) -> T:
        if name not in self.__dict__:
            object.__setattr__(self, name, find())
        found: T = self.__dict__[name]
        return found

    def _resolve(self) -> ScanRequest:
        whole = replace(self.request, columns=None, row_numbers=None, file_path=None)
        with open_job(self.jobs[0], whole, schema_reads(self)) as file:
            return replace(self.request, schema=file.scan.columns.schema)

    def _find_schema(self) -> pa.Schema:
        if (schema := self.resolved.wanted_schema) is not None:
            return schema
        if not self.jobs:
            raise InvalidQuery("a scan of no files has no schema; give schema=")
        with open_job(self.jobs[0], self.request, schema_reads(self)) as file:
            return file.scan.columns.schema

    def learn_schema(self, find: Callable[[], pa.Schema]) -> None:
        """Takes the schema from an open file of the scan, so that no file must be opened again to find the schema.

        Parameters
        ----------
        find : callable
            A function without parameters that returns the ``pyarrow.Schema``. It is called if the schema is not known
            yet.
        """
        self._known("_known_schema", find)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_known_schema", SCHEMA_READS)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ------------------------------------------------------------------ batches

    def _turns(self, files: FileQueue, request: ScanRequest, *, early: bool = False) -> StripeTurns:
        return StripeTurns(files, request, learn_schema=self.learn_schema, early=early)

    def _queue(self, request: ScanRequest, metrics: ScanMetrics, *, tails_alone: bool = False) -> FileQueue:
        return FileQueue(
            jobs_left(self.indexes, self.jobs, request, metrics), request, metrics, tails_alone=tails_alone
        )

    def to_batches(self) -> Batches:
        """An iterator over the batches. It has the method ``close()``. Its ``metrics`` count only the work of this
        iterator.

        Returns
        -------
        Batches
        """
        metrics = ScanMetrics()
        return Batches(self._batches(self._limited, metrics), metrics)

    def to_early_batches(self) -> Batches:
        """Like ``to_batches``, for an engine that may stop early. The first batches are smaller, so that they are
        returned sooner.

        Returns
        -------
        Batches
        """
        metrics = ScanMetrics()
        return Batches(self._batches(self._limited, metrics, first=1), metrics)

    def _batches(
        self, request: ScanRequest, metrics: ScanMetrics, *, first: int | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields the batches. ``request``: the request of this scan, with the options of this iteration."""
        if SCHEMA_READS in self.__dict__:
            count_schema_reads(self, metrics)
        if self.row_limit == 0:
            return
        options = request.options
        if self.top:
            left = jobs_left(self.indexes, self.jobs, self.resolved, metrics)
            asked = without_views(self.resolved)
            rows = TopPass(left, asked, self._order, self.row_limit or 0, metrics).rows(self.schema)
            count_schema_reads(self, metrics)
            pieces = rows.to_batches(max_chunksize=options.batch_size)
            yield from join_batches(pieces, batch_size=options.batch_size, batch_bytes=options.batch_bytes)
            return
        large = LARGE_CHUNK_BYTES if request.wanted_as != "batches" else None
        size, most = options.batch_size, options.batch_bytes
        join = partial(join_batches, batch_size=size, batch_bytes=most, first=first, large=large)
        small = None
        if len(self.jobs) == 1 and self.indexes is None:  # one small file needs no ``FileQueue`` and no ``StripeTurns``
            small = SmallFiles(request, metrics, tails_alone=False, is_only=True)
            found = small.take(self.jobs[0])
            if found is not None:
                metrics.files += 1
                self.learn_schema(found.schema)
                rows = found.batches if self.row_limit is None else list(limited(iter(found.batches), self.row_limit))
                yield from join(rows) if len(rows) > 1 else rows
                return
            small.give_up()
        with (
            FileQueue(jobs_left(self.indexes, self.jobs, request, metrics), request, metrics, small=small) as files,
            closing(run_in_turn(self._turns(files, request, early=first is not None), stage=metrics.stage)) as results,
        ):
            yield from join(results if self.row_limit is None else limited(results, self.row_limit))

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """An asynchronous iterator over the batches. Byte ranges are fetched asynchronously, and decoding runs in
        another thread."""
        left, size, most = self.row_limit, self.options.batch_size, self.options.batch_bytes
        if left == 0:
            return
        if self.top:
            for batch in await off_loop(lambda: list(self.to_batches())):
                yield batch
            return
        metrics = ScanMetrics()
        files = await off_loop(lambda: self._queue(self._limited, metrics))  # may open a file and use indexes
        try:
            async with (
                aclosing(arun_in_turn(self._turns(files, self._limited), stage=metrics.stage)) as results,
                aclosing(join_off_loop(results, left, batch_size=size, batch_bytes=most)) as batches,
            ):
                async for batch in batches:
                    yield batch
                    metrics.rows_returned += batch.num_rows
        finally:
            await off_loop(files.close)  # waits for files that are being opened

    def stripes(self) -> Iterator[StripeScan]:
        """The stripes one after the other. Each stripe has its ``decision``. Iterating over a stripe gives its batches,
        which are never joined with batches of other stripes.

        Some stripes have no wanted row, or no row that may match. These stripes are included without batches, so that
        the caller can see every decision. If a file is ruled out by its partition, its stripes are not included. If
        there is a limit, no stripes are included after the stripe, or the file, in which the limit is reached. Rows are
        counted in the order in which they are read. Iterate over a stripe before you request a stripe of the next file.
        That request closes the file of the earlier stripes.

        Yields
        ------
        StripeScan

        Raises
        ------
        InvalidQuery
            The scan has ``top``. The rows of such a scan come from stripes in any order. The error is raised at the
            first stripe.
        """
        if self.top:
            raise InvalidQuery("stripes() does not support top=, as the rows may come from any stripe; leave out top=")
        left = None if self.row_limit is None else RowsLeft(self.row_limit)
        with closing(self._files_of_stripes()) as files:
            for file in files:
                for number in range(len(file.scan.reader.stripes)):
                    if left is not None and left.rows == 0 and self.row_limit:
                        return
                    decision = run_value(file.scan.decide(number), file.storage)
                    yield StripeScan(file, decision, left)

    def _files_of_stripes(self) -> Generator[OpenFile, None, None]:
        if self.row_limit is not None and self.request.where is None:
            yield from open_in_turn(self.jobs, self.resolved, self.row_limit, to_the_end=False)
        else:
            with self._queue(self._limited, ScanMetrics()) as files:
                yield from files

    def to_table(self) -> pa.Table:
        """All rows as one table.

        Returns
        -------
        pyarrow.Table
        """
        request = self._limited.as_table(TABLE_ROWS)
        return self._as_table(self._batches(request, ScanMetrics()))

    def count_rows(self) -> int:
        """The number of rows. If metadata and indexes prove this number, nothing else is read.

        Returns
        -------
        int
        """
        request = self.resolved.counting
        usual = request.options.batch_size >= ReadOptions.batch_size
        if request.where is not None and self.row_limit is None and usual:
            request = request.as_table(TABLE_ROWS)  # a smaller batch size of the caller is kept
        metrics = ScanMetrics()
        known = asked_of_indexes(self.indexes, self.jobs, request, COUNT_ALONE, metrics)
        check_condition(self.jobs, known.jobs, request, metrics)
        total = sum(unit.rows for unit in known.units)
        return count_jobs(known.jobs, request, metrics, self.row_limit, known=total)

    def aggregate(self, aggregates: Mapping[str, str], by: str | Sequence[str] | None = None) -> pa.Table:
        """Computes totals of the rows. Totals are taken from statistics if statistics prove them.

        Parameters
        ----------
        aggregates : dict of str to str
            For each column of the result the aggregate, such as ``"sum(price)"``. See ``orcidx.aggregate``.
        by : str or sequence of str, optional
            Columns to group by.

        Returns
        -------
        pyarrow.Table
            One row for each group, sorted by the key of the group. Without ``by`` there is one row.

        Raises
        ------
        InvalidQuery
            The scan has a limit, a function or column is unknown, or the function does not accept the column's type.
        ValueOutOfRange
            A sum has more than 38 digits.
        """
        if self.row_limit is not None:
            raise InvalidQuery("a scan with a limit cannot be aggregated; leave out limit= and top=")
        text = self.options.override(strings="string")
        request = replace(self.request, columns=None, row_numbers=None, options=text)
        if len(self.jobs) == 1 and request.schema is None:
            return aggregate_file(self.jobs, request, self.indexes, aggregates, by)
        every, metrics = replace(self, request=request), ScanMetrics()
        plan = plan_aggregation(every.schema, aggregates, by, case_sensitive=text.case_sensitive)
        known = asked_of_indexes(self.indexes, self.jobs, every.resolved, plan, metrics)
        count_schema_reads(every, metrics)
        return aggregate_files(self.jobs, known, every.resolved, plan, metrics=metrics)

    def splits(self, target_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Cuts the scan into tasks. The tasks, read in order, return the same rows as the scan.

        Files and stripes are not included if statistics rule them out.

        Parameters
        ----------
        target_bytes : int
            The approximate size of a task, in stored bytes of the columns that it reads.

        Returns
        -------
        list of Split

        Raises
        ------
        InvalidQuery
            The scan has a limit. A limit counts the rows of all tasks together.
        """
        if self.row_limit is not None:
            raise InvalidQuery("a scan with a limit cannot be split into independent tasks; leave out limit= and top=")
        request = self.resolved
        with self._queue(request, ScanMetrics()) as files:
            parts = list(plan_parts(files, target_bytes))
        return [Split(part.job, request, part.rows, part.estimated_bytes) for part in parts]

    def explain(self) -> Explanation:
        """Explains what the scan will read, and why it can skip the other data. Only metadata and indexes are read.

        Returns
        -------
        Explanation
        """
        where = None if self.request.where is None else repr(self.request.where)
        scan, gone = self, []
        while True:
            try:
                order = scan._order if scan.top else ()
                files, depths = explain_files(
                    scan.jobs, scan.resolved, scan.request, limit=scan.row_limit, indexes=scan.indexes, order=order
                )
                columns = tuple(scan.schema.names)
                # These reads are not counted a second time: the explanation already counts the tail of each file.
                count_schema_reads(scan, ScanMetrics())
                break
            except FileGone as error:  # the first file, which determines the columns, is gone: try the next file
                gone.append(gone_file(error))
                scan = replace(self, jobs=tuple(self.jobs)[len(gone) :])
                if not scan.jobs:
                    return Explanation(where, (), tuple(gone))
        return Explanation(where, columns, (*gone, *files), depths)


@dataclass(frozen=True)
class Split:
    """A task of a scan. It reads some stripes of one file, or a part of a large stripe. Any machine that can access the
    storage can run the task.

    ``Scan.splits`` makes splits. They can be pickled, and converted to JSON and back. ``rows``: the number of rows of
    the split, before any predicate. ``estimated_bytes``: the number of stored bytes of the columns that the task reads.

    Examples
    --------
    >>> import orcidx, os, pyarrow as pa, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "ids.orc")
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), path)
    >>> (split,) = orcidx.scan(path).splits()
    >>> orcidx.Split.from_json(split.to_json(), within=folder.name).scan().count_rows()
    3
    >>> folder.cleanup()
    """

    job: FileJob
    request: ScanRequest
    rows: int
    estimated_bytes: int

    @property
    def source(self) -> Source:
        """The file."""
        return self.job.source

    def scan(self, *, storage_options: Mapping[str, Any] | None = None) -> Scan:
        """A scan of the rows of the split.

        Iterating the scan raises ``StorageError`` if the file has changed since the split was made.

        Parameters
        ----------
        storage_options : mapping, optional
            As in ``orcidx.open``. The JSON of a split does not contain these options.

        Returns
        -------
        Scan
        """
        job = self.job
        if storage_options:
            job = replace(job, source=Source.from_dict(job.source.to_dict(), storage_options=storage_options))
            if isinstance(index := job.file_index, StoredIndex) and isinstance(index.data, Source):
                place = Source.from_dict(index.data.to_dict(), storage_options=storage_options)
                job = replace(job, file_index=replace(index, data=place))
        return Scan((job,), self.request)

    def to_json(self) -> str:
        """The split as JSON, without secrets.

        Returns
        -------
        str

        Raises
        ------
        InvalidQuery
            The source has no path or URL that other machines can use.
        """
        request = request_to_json(self.request)
        sizes = {"rows": self.rows, "estimated_bytes": self.estimated_bytes}
        return json.dumps({"orcidx_split": 1, **sizes, "job": job_to_json(self.job), "request": request})

    @staticmethod
    def from_json(text: str | bytes, *, within: str | None = None) -> Split:
        """Makes a split from the JSON of ``to_json``.

        A split names the file that it reads, and the file is read with this process's credentials. If the split comes
        from an untrusted source, give ``within``.

        Parameters
        ----------
        text : str or bytes
            The JSON.
        within : str, optional
            The directory or URL prefix that must contain the file and its index.

        Returns
        -------
        Split

        Raises
        ------
        InvalidQuery
            The text is not the JSON of a split, or the split names a file outside ``within``.
        """
        try:
            data = json.loads(text)
            version, rows, size = (data[name] for name in ("orcidx_split", "rows", "estimated_bytes"))
            job, request = data["job"], data["request"]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise InvalidQuery(f"the text is not the JSON of a split: {error}") from error
        if type(version) is not int or version != 1:
            raise InvalidQuery(
                f"the split has version {version!r:.50}, but this version of orcidx reads only version 1"
            )
        found = job_from_json(job)
        if within is not None:
            refuse_outside(found, within)
        sizes = count_from_json(rows, "rows"), count_from_json(size, "estimated_bytes")
        return Split(found, request_from_json(request), *sizes)
