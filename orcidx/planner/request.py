"""The request of a scan: ``ScanRequest`` for all files, and ``FileJob`` for one file. Both are frozen and can be
pickled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.aggregation.known_units import KnownUnit, TotalledColumn
from orcidx.errors import InvalidQuery, located
from orcidx.frozen import with_fields
from orcidx.options import ReadOptions
from orcidx.orc.reader import OrcReader
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.planner.schema_mapping import choose_fields
from orcidx.predicate import Constant, External, Leaf, Predicate, resolve_column
from orcidx.predicate.fold import Part, parts, rewritten
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.storage import Fingerprint, ReadMetrics, Source
from orcidx.storage.kept_tails import KeptTail

__all__ = [
    "FileIndexes",
    "FileJob",
    "KnownTotals",
    "ScanRequest",
    "as_selection",
    "as_spelled",
    "deleted_rows",
    "listing_notes",
    "listing_time",
    "tests_file_path",
    "wanted_rows",
]

BATCHES_A_TURN = 64
"""If the caller takes all rows, this many batches of rows from small files are returned in one turn
(``fetching.drive.Turn``). The caller needs all of these batches anyway."""

TABLE_BATCHES = 4
"""For a table, a stripe of few rows may take the bytes of this many batches at once, because the table keeps all
rows anyway. Reading the columns twice, half of the rows each time, would take 1.5 times as long."""


@dataclass(frozen=True)
class ScanRequest:
    """The request of a scan for all files; see ``OrcFile.scan``. ``limit`` is the maximum number of rows to read.
    ``wanted_as`` says what the caller does with the rows. "batches": it takes batches and may stop early. "all
    batches": it takes all batches, so that the first one need not be early. "table": all rows go into one table, whose
    chunks need not be small. ``tests_each`` says that the predicate is evaluated for each returned row, even if
    statistics or indexes prove that the row matches. ``rereads`` says whether tails, footers and indexes are read even
    if they are in memory. With None, only an explanation does this, because it counts what a new process reads."""

    columns: tuple[str | tuple[str, ...], ...] | None = None
    where: Predicate | None = None
    schema: pa.Schema | None = None
    match: Literal["name", "position", "field_id"] = "name"
    row_numbers: str | None = None
    file_path: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    limit: int | None = None
    wanted_as: Literal["batches", "all batches", "table"] = "batches"
    tests_each: bool = False
    rereads: bool | None = None

    @property
    def bytes_at_once(self) -> int:
        """The maximum number of bytes that are decoded in one call, for a stripe of few rows."""
        return self.options.batch_bytes * (TABLE_BATCHES if self.wanted_as == "table" else 1)

    @property
    def together(self) -> int:
        """How many batches of rows from small files are returned in one turn."""
        return BATCHES_A_TURN if self.wanted_as != "batches" and self.limit is None else 1

    def as_table(self, rows: int) -> ScanRequest:
        """The same request for one table. If the batch size is smaller than ``rows``, it becomes ``rows``."""
        return with_fields(self, options=self._options_with(rows), wanted_as="table")

    def in_large_batches(self, rows: int) -> ScanRequest:
        """The same request for a caller that takes all batches, in batches of up to ``rows`` rows."""
        return replace(self, options=self._options_with(rows), wanted_as="all batches")

    @property
    def counting(self) -> ScanRequest:
        """The same request without columns, for counting rows. The column of file names is kept if the condition may
        use it."""
        name = None if self.where is None else self.file_path
        return replace(self, columns=(), row_numbers=None, file_path=name)

    def _options_with(self, rows: int) -> ReadOptions:
        return self.options if self.options.batch_size >= rows else self.options.override(batch_size=rows)

    def with_row_numbers(self, schema: pa.Schema) -> pa.Schema:
        """Returns the schema with the column of row numbers, if the column was requested."""
        if self.row_numbers is not None:
            schema = schema.append(pa.field(self.row_numbers, pa.int64(), nullable=False))
        repeated = [name for name in (self.row_numbers, self.file_path) if name and schema.names.count(name) > 1]
        if repeated:
            raise InvalidQuery(f"there is already a column {repeated[0]!r}; give the added column another name")
        return schema

    @property
    def predicate_schema(self) -> pa.Schema:
        """The wanted schema, followed by the other columns that the predicate may use."""
        assert self.schema is not None
        return self.schema if self.file_path is None else self.schema.append(pa.field(self.file_path, pa.string()))

    @property
    def wanted_schema(self) -> pa.Schema | None:
        """The schema of the batches, if it does not depend on a file."""
        if self.schema is None:
            return None
        chosen = choose_fields(self.schema, self.columns, case_sensitive=self.options.case_sensitive)
        fields = [one for _, one in chosen]
        if self.file_path is not None:
            fields.append(pa.field(self.file_path, pa.string()))
        return self.with_row_numbers(pa.schema(fields, metadata=self.schema.metadata))


def as_spelled(request: ScanRequest) -> ScanRequest:
    """Returns the same request, with the columns of the condition spelled as in the schema, for a catalog.

    The names of two columns of a file may differ only in case, and the catalog may have only one of the two columns. So
    the names in the condition are then compared exactly with the names in the catalog. Unknown and ambiguous names are
    kept, and the scan reports them. If the schema is not known, the request is returned as it is."""
    if request.where is None or request.schema is None or request.options.case_sensitive:
        return request
    where = rewritten(request.where, partial(_spelled, schema=request.predicate_schema))
    return replace(request, where=where, options=request.options.override(case_sensitive=True))


def _spelled(part: Part, schema: pa.Schema) -> Part:
    if not isinstance(part, Leaf):
        return part
    try:
        return replace(part, path=resolve_column(part.path, schema, case_sensitive=False)[0])
    except InvalidQuery:
        return part


def tests_file_path(request: ScanRequest) -> bool:
    """Whether the condition of a request may use the column of file names."""
    if request.file_path is None:
        return False
    used = (
        part.columns if isinstance(part, External) else (part.path,)
        for part in parts(request.where)
        if not isinstance(part, Constant)
    )
    return any(paths is None or any(path[0] == request.file_path for path in paths) for paths in used)


@dataclass(frozen=True)
class FileJob:
    """One file of a scan, and the information about this file that is available before it is opened.

    ``stripes`` has the numbers of the only stripes to read. ``row_range`` is (start, stop) in rows of the file.
    ``selection`` has the only rows to read (see ``as_selection``). ``deleted`` has rows that are never returned.
    ``file_index`` is a Paimon file index of the file, or the bytes or the path of such an index. ``constants`` has
    columns with one value in this file, such as Hive partitions. ``fingerprint`` is the version of the file for which
    the other fields are valid. If the file has another version, an error is raised. ``tail`` has the file's last bytes,
    if they are also stored elsewhere. ``opened`` is the file's reader while the file is open in this process. It is
    None in a copy in another process.
    """

    source: Source
    stripes: tuple[int, ...] | None = None
    row_range: tuple[int, int] | None = None
    selection: Any = None
    deleted: Any = None
    file_index: Any = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None
    tail: KeptTail | None = field(default=None, compare=False)
    opened: Callable[[], OrcReader | None] | None = field(default=None, repr=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the file are requested, without considering a predicate."""
        if self.stripes is not None or self.row_range is not None:
            return False
        return self.selection is None and self.deleted is None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": None}


class FileIndexes(Protocol):
    """The indexes of the files of a scan. The indexes are read when the scan is iterated. The object can be pickled."""

    @property
    def as_of(self) -> float | None:
        """The time when the files were listed, in seconds since 1970. It is None if the files were listed for this
        scan."""
        ...

    def plan(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        *,
        totalled: Collection[str] = (),
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> tuple[Sequence[FileJob], tuple[Note, ...]]:
        """Returns the jobs of the files that may contain a matching row, in order, and notes on indexes that were stale
        or damaged. A job has its file index if the index has a column of the predicate or of ``totalled``.
        ``count`` is called with the counts of what was read from catalogs."""
        ...

    def totals(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        columns: Mapping[str, TotalledColumn],
        *,
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> KnownTotals:
        """Like ``plan``, but also returns totals of the given columns. The totals of a file may be known without
        opening it if all of its rows match."""
        ...


def listing_time(as_of: float) -> str:
    """Returns the time of a listing as text, in UTC with whole seconds."""
    return datetime.fromtimestamp(int(as_of), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def listing_notes(indexes: FileIndexes | None) -> tuple[Note, ...]:
    """Returns the note that an explanation shows if the files were listed earlier."""
    if indexes is None or indexes.as_of is None:
        return ()
    text = (
        f"fresh='catalog': files were listed at {listing_time(indexes.as_of)}; files that were added later are not read"
    )
    return (Note("listing", "off", text),)


@dataclass(frozen=True)
class KnownTotals:
    """The totals that are known before any file is opened, and the jobs of the files whose totals are not known (see
    ``FileIndexes.plan``). ``as_of`` is the time when the files were listed, in seconds since 1970. It is None if the
    files were listed for this scan."""

    jobs: Sequence[FileJob]
    units: tuple[KnownUnit, ...] = ()
    notes: tuple[Note, ...] = ()
    as_of: float | None = None


def as_selection(rows: Any, length: int) -> RowSelection:
    """Makes a selection over ``length`` rows from a selection, a bool mask, a bitmap or row numbers.

    Raises ``InvalidQuery`` if the given value does not fit.
    """
    if isinstance(rows, RowSelection):
        if rows.length != length:
            raise InvalidQuery(f"the selection is for {rows.length} rows, but the file has {length} rows")
        return rows
    if hasattr(rows, "range_cardinality"):
        return RowSelection.from_bitmap(rows, length)
    array = rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else np.asarray(rows)
    if array.dtype == bool:
        if len(array) != length:
            raise InvalidQuery(f"the mask has {len(array)} values, but the file has {length} rows")
        return RowSelection.from_mask(array)
    return RowSelection.from_positions(array, length)


def deleted_rows(deleted: Any, rows: int, name: str) -> RowSelection:
    """Returns the rows of a deletion vector, bitmap, selection or list of row numbers.

    A position after the last row is an error. It shows that the deletion vector belongs to another file.
    """
    if isinstance(deleted, DeletionVector):
        with located(file=name):
            return deleted.deleted_rows(rows)
    if isinstance(deleted, RowSelection):
        found = deleted
    elif hasattr(deleted, "range_cardinality"):
        found = RowSelection.from_bitmap(deleted, max(rows, int(deleted.max()) + 1 if len(deleted) else 0))
    else:
        found = RowSelection.from_positions(deleted, rows)
    if found.length != rows:
        raise InvalidQuery(f"the deletion vector has positions beyond the {rows} rows of {name}")
    return found


def wanted_rows(job: FileJob, request: ScanRequest, stripe_bounds: npt.NDArray[np.int64], name: str) -> RowSelection:
    """Returns the rows of a file that the caller wants, before any predicate is evaluated. They are the rows of the
    job's selection, range and stripes, without deleted rows. ``stripe_bounds`` has the first row of each stripe and, at
    the end, the number of rows of the file. Without a predicate the limit is applied too, so later rows are not
    fetched."""
    rows = int(stripe_bounds[-1])
    wanted = RowSelection.all(rows)
    if job.selection is not None:
        with located(file=name):
            wanted = wanted & as_selection(job.selection, rows)
    if job.row_range is not None:
        start, stop = job.row_range
        wanted = wanted & RowSelection.from_runs([(min(max(start, 0), rows), min(max(stop, start, 0), rows))], rows)
    if job.stripes is not None:
        mask = np.zeros(len(stripe_bounds) - 1, bool)
        unknown = [one for one in job.stripes if not 0 <= one < len(mask)]
        if unknown:
            raise InvalidQuery(f"there is no stripe {unknown[0]}; the file has {len(mask)} stripes", file=name)
        mask[list(job.stripes)] = True
        wanted = wanted & RowSelection.from_groups(mask, stripe_bounds)
    if job.deleted is not None:
        wanted = wanted - deleted_rows(job.deleted, rows, name)
    if request.limit is not None and request.where is None:
        wanted = wanted.limit(request.limit)
    return wanted
