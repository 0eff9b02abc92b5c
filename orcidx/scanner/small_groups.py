"""Decodes the rows of many small files together. A call decodes a column of all files of a group, and the condition is
tested once for the group. For files of a thousand rows, the calls and objects of each file would take longer than
decoding.

``SmallGroups`` collects files. After a group was started, threads decode its columns, and the caller reads the files of
the next group meanwhile. A file that cannot be decoded makes its whole group fail. The caller then reads these files
one by one, in the usual ways, so that the errors and the rows before an error are the same.

Some tests set ``ENABLED`` to False. All files are then decoded one by one, with the same results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.frozen import with_fields
from orcidx.orc.column_streams import StoredStripes
from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import open_codec
from orcidx.orc.kept_rows import Mask
from orcidx.orc.plain_columns import Allowance, PlainColumns
from orcidx.orc.reader import held_bytes
from orcidx.orc.small_file import SmallFile
from orcidx.orc.small_stripe import begin_stripes
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.planner.request import BATCHES_A_TURN, ScanRequest
from orcidx.planner.schema_mapping import FieldSource, wanted_columns
from orcidx.planner.schema_plan import AtOnce, SchemaPlan
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.reader_columns import HeldBytes, ReaderColumns, in_places
from orcidx.scanner.small_stripes import count_file
from orcidx.scanner.work_queue import WorkQueue
from orcidx.threads.work import Call, WorkItem

__all__ = [
    "ENABLED",
    "GROUP_ROWS",
    "LANES",
    "GroupReader",
    "SmallGroup",
    "SmallGroups",
    "WaitingFile",
    "WantedColumns",
    "WholeRows",
    "constant_column",
]

ENABLED = True

GROUP_ROWS = 1 << 16
"""The number of rows after which a group is decoded. Their arrays then stay in the processor's cache."""

GROUP_STORED_BYTES = 1 << 20
"""The number of stored bytes after which a group is decoded."""

EXPANSION = 8
"""The bytes of the arrays are assumed to be at most this many times the stored bytes. A group whose arrays would exceed
the limit of a batch under this assumption is decoded before it grows."""

LANES = 4
"""The most groups that are in work at the same time: the threads decode them, and the caller reads the files of
another. With 2, a thread often has nothing to do while the caller's Python code runs."""

T = TypeVar("T")


class WantedColumns(NamedTuple):
    """Columns that are decoded from files of a group. ``places``: the positions of these files in the group (None: all
    files). ``mask``: the rows of these files that are wanted (None: all rows). Some arrays then have only these rows,
    and the others have all rows of these files."""

    columns: AtOnce
    places: Sequence[int] | None = None
    mask: npt.NDArray[np.bool_] | None = None


class GroupReader(Protocol):
    """Makes a batch from the columns of a group."""

    @property
    def first(self) -> AtOnce | None:
        """The columns that are decoded first. None if no columns are needed for this."""

    def rows(
        self, arrays: list[pa.Array], files: Sequence[WaitingFile]
    ) -> Generator[WantedColumns, list[pa.Array], pa.RecordBatch]:
        """Returns the wanted rows of all files of a group. Yields the other columns that it needs, and is sent their
        arrays. ``arrays``: the columns that were decoded first."""


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Gives all rows."""

    plan: SchemaPlan
    first: AtOnce | None

    def rows(
        self, arrays: list[pa.Array], files: Sequence[WaitingFile]
    ) -> Generator[WantedColumns, list[pa.Array], pa.RecordBatch]:
        """See ``GroupReader.rows``."""
        yield from ()  # no other columns are needed
        for place in () if self.first is None else self.first.views:
            arrays[place] = arrays[place].cast(pa.string_view())
        if not self.plan.is_complete:
            rows = [one.rows for one in files]
            arrays = wanted_columns(self.plan.fields, arrays, partial(constant_column, files, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.plan.schema)


def constant_column(files: Sequence[WaitingFile], rows: Sequence[int], source: FieldSource) -> pa.Array:
    """A column that has one value in each file. ``rows``: the number of its rows for each file."""
    name = source.field.name
    pieces = []
    for file, count in zip(files, rows):
        if count:
            pieces.append(pa.repeat(with_fields(source, value=file.values.get(name)).scalar, count))
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, source.field.type)


class WaitingFile(NamedTuple):
    """A small file of one stripe, whose rows wait to be decoded together with those of other files. All its bytes are
    in memory. ``values``: the values of columns that have one value in the file, by name. ``rows``: the number of
    stored rows."""

    reader: GroupReader
    request: ScanRequest
    metrics: ScanMetrics
    file: SmallFile
    footer: StripeFooter
    values: Mapping[str, Any]
    rows: int

    def fits(self, other: WaitingFile) -> bool:
        """Whether the rows of both files may be decoded together."""
        return self.reader is other.reader and self.file.kind is other.file.kind


class Reading(NamedTuple):
    """Columns of a group that threads decode. ``works``: the work for each of them."""

    wanted: AtOnce
    columns: list[PlainColumns | ReaderColumns]
    works: list[WorkItem]


class GroupRows(NamedTuple):
    """The wanted rows of a group. ``batch``: None if a file cannot be decoded in this way. ``error``: another error,
    which is raised when the rows are taken."""

    batch: pa.RecordBatch | None = None
    error: Exception | None = None


@dataclass(eq=False)
class SmallGroup(Generic[T]):
    """Files that are decoded together. ``owners``: what the caller gave with each file. ``reading``: the columns that
    threads decode (None: no column is needed). ``steps``: makes the wanted rows of the decoded columns. ``found``:
    these rows. ``work``: what was decompressed for them."""

    owners: list[T] = field(default_factory=list)
    files: list[WaitingFile] = field(default_factory=list)
    rows: int = 0
    stored: int = 0
    is_full: bool = False
    """Whether the group should be decoded before more files are added."""
    reading: Reading | None = None
    steps: Generator[WantedColumns, list[pa.Array], pa.RecordBatch] | None = None
    found: GroupRows | None = None
    work: ScanMetrics = field(default_factory=ScanMetrics)

    def add(self, owner: T, file: WaitingFile) -> None:
        """Adds the next file. A group is full if it has half of a batch's rows, so that batches do not become too
        large, and the caller does not wait long for a batch."""
        self.owners.append(owner)
        self.files.append(file)
        self.rows += file.rows
        self.stored += file.file.size
        options = file.request.options
        self.is_full = (
            len(self.files) >= BATCHES_A_TURN
            or self.rows >= min(GROUP_ROWS, options.batch_size // 2)
            or self.stored >= min(GROUP_STORED_BYTES, options.batch_bytes // EXPANSION)
        )

    def columns(self, asked: WantedColumns, parts: int) -> list[PlainColumns | ReaderColumns] | None:
        """The objects that decode columns of the files. The columns are divided into at most ``parts`` parts. The
        columns that need readers come last. Returns None for an error."""
        wanted, places, mask = asked
        first = self.files[0]
        facts, request = first.file.kind.facts, first.request
        files = self.files if places is None else [self.files[place] for place in places]
        stripes: list[tuple[HeldBytes, StripeFooter, int]] = []
        for one in files:
            stripes.append(((0, one.file.data), one.footer, one.rows))
        largest = max([one.file.stripes[0] for one in files], key=attrgetter("data_length"))
        held = held_bytes(largest, request.options)
        begin = partial(
            begin_stripes,
            stripes=StoredStripes(stripes),
            codec=open_codec(facts.compression),
            block_size=facts.block_size,
            allowance=Allowance(request.bytes_at_once, held=held),
            shifted=facts.hybrid_calendar and wanted.options[0].calendar == "proleptic",
            decimal64=facts.decimal64,
            mask=None if mask is None else Mask(mask.view(np.uint8)),
        )
        columns: list[PlainColumns | ReaderColumns] = []
        for part in wanted.recipe.parts(parts):
            begun = begin(part)
            if begun is None:
                return None
            columns.append(begun)
        if wanted.recipe.others:
            columns.append(ReaderColumns(wanted, facts, stripes, Limits(request.options.batch_bytes, held_bytes=held)))
        return columns


class SmallGroups(Generic[T]):
    """Collects files in groups, and decodes the groups in order. ``use_threads``: whether threads decode. ``queue``:
    the work of the threads. The caller may add other work to it."""

    def __init__(self, *, use_threads: bool) -> None:
        self.current: SmallGroup[T] = SmallGroup()
        """The group to which files are added."""
        self.started: deque[SmallGroup[T]] = deque()
        """The groups that are being decoded."""
        self._parts = thread_count(use_threads=use_threads)
        self.queue = WorkQueue(self._parts)

    def has_room_for(self, file: WaitingFile) -> bool:
        """Whether a file can be added to the current group."""
        files = self.current.files
        return not files or (not self.current.is_full and files[0].fits(file))

    def start(self) -> bool:
        """Lets threads decode the current group. Later files are added to another group. Returns False if the group has
        no files."""
        group = self.current
        if not group.files:
            return False
        first = group.files[0].reader.first
        if first is not None:
            self._begin(group, WantedColumns(first))
        self.started.append(group)
        self.current = SmallGroup()
        return True

    def take(self) -> tuple[SmallGroup[T], pa.RecordBatch | None]:
        """The group that was started first, and its wanted rows. The rows are None if a file cannot be decoded in this
        way. The condition of the next group is tested before, so that threads can decode its other columns."""
        group = self.started.popleft()
        for one in (group, *list(self.started)[:1]):
            if one.steps is None and one.found is None:
                self._go_on(one)
        while group.found is None:
            self._go_on(group)
        batch, error = group.found
        if error is not None:
            raise error
        if batch is not None:
            metrics, work = group.files[0].metrics, group.work
            for file in group.files:
                count_file(metrics, file.file.stripes, file.file.kind.facts.row_index_stride, is_out=False)
            metrics.chunks_decompressed += work.chunks_decompressed
            metrics.bytes_decompressed += work.bytes_decompressed
        return group, batch

    def drop(self) -> list[T]:
        """Drops all files that were not taken, and returns their owners."""
        self.close()
        owners = [owner for group in (*self.started, self.current) for owner in group.owners]
        self.started.clear()
        self.current = SmallGroup()
        return owners

    def close(self) -> None:
        """Waits for the threads."""
        self.queue.close()

    def _go_on(self, group: SmallGroup[T]) -> None:
        """Waits for the columns that are decoded, and makes the wanted rows of them, or begins to decode others."""
        try:
            arrays = [] if group.reading is None else self._arrays(group.reading, group.work)
            if arrays is None:
                group.found = GroupRows()
            elif group.steps is None:
                group.steps = group.files[0].reader.rows(arrays, group.files)
                self._begin(group, next(group.steps))
            else:
                self._begin(group, group.steps.send(arrays))
        except StopIteration as end:
            group.found = GroupRows(end.value)
        except OrcidxError:  # the caller reads the files one by one, so that the error names its file
            group.found = GroupRows()
        except Exception as error:
            group.found = GroupRows(error=error)

    def _begin(self, group: SmallGroup[T], wanted: WantedColumns) -> None:
        columns = group.columns(wanted, self._parts)
        if columns is None:
            group.found = GroupRows()
            return
        works: list[WorkItem] = [one if isinstance(one, WorkItem) else Call(one.run) for one in columns]
        self.queue.add(works)
        group.reading = Reading(wanted.columns, columns, works)

    def _arrays(self, reading: Reading, work: ScanMetrics) -> list[pa.Array] | None:
        self.queue.finish(reading.works)
        for one in reading.works:
            if isinstance(one, Call) and one.error is not None:
                raise one.error
        arrays: list[pa.Array] = []
        for column in reading.columns:
            found = column.result()
            if found is None:
                return None
            arrays += found[0]
            work.chunks_decompressed += found[1]
            work.bytes_decompressed += found[2]
        others = reading.wanted.recipe.others
        return in_places(arrays, others) if others else arrays
