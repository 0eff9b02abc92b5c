"""Cuts a read into parts, and packs the parts for tasks. Data that metadata excludes is in no part."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.paimon_table.read.plan import FileTask
from orcidx.paimon_table.read.scan import TableScan
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner.file_queue import FileQueue, OpenFile
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.split import FilePart, plan_parts
from orcidx.spark.query.read_task import broken_files_passed, gone_files_named
from orcidx.spark.sessions.case_rule import unpruned_by_letters
from orcidx.storage import Source

__all__ = ["TaskPart", "check_way", "enough", "pack_sizes", "split_orc", "split_paimon"]


@dataclass(frozen=True)
class TaskPart:
    """A part: the smallest unit that a task reads. It is some stripes of an ORC file, or one data file of a Paimon
    table. ``size``: stored bytes. ``rows``: the number of rows that the part certainly returns, or None if this number
    is not known."""

    what: FileJob | FileTask
    size: int
    rows: int | None = None

    @property
    def source(self) -> Source:
        """The file of the part."""
        return self.what.source if isinstance(self.what, FileJob) else self.what.file.source


def split_orc(rows: Scan, target_bytes: int) -> list[TaskPart]:
    """The parts of a scan, without the files and stripes that its predicate excludes. Opens every file.

    Raises ``StorageError`` with the name of a file that was deleted after the listing.
    """
    request = rows.resolved
    with gone_files_named(), broken_files_passed(), FileQueue(rows.jobs, request, ScanMetrics()) as files:
        found = list(plan_parts(unpruned_by_letters(_checked(files, request), request), target_bytes))
    return [
        TaskPart(one.job, one.estimated_bytes, None if request.where is not None else _sure_rows(one)) for one in found
    ]


def check_way(file: OpenFile, request: ScanRequest) -> None:
    """Raises ``Unsupported`` if Spark finds the columns of a file in another way than the request does.

    Spark decides this for each file: if all names of a file begin with ``_col``, it finds the columns by position, and
    otherwise by name (``OrcUtils.requestedColumnIds``). But a request finds the columns of all files in the same
    way."""
    names = list(file.scan.reader.root.names)
    if request.schema is None or not names:
        return
    by_position = all(name.startswith("_col") for name in names)
    way, wanted = "position" if by_position else "name", request.schema.names
    if way != request.match and names[: len(wanted)] != wanted[: len(names)]:
        raise Unsupported(
            f"Spark finds the columns of this file by {way}, because {'all' if by_position else 'not all'} of their "
            f"names begin with _col, but orcidx's tasks find the columns of all files by {request.match}: leave out "
            "limit=, top= and engine=, so that Spark reads these files",
            file=file.scan.reader.name,
        )


def _checked(files: Iterable[OpenFile], request: ScanRequest) -> Iterator[OpenFile]:
    for file in files:
        check_way(file, request)
        yield file


def _sure_rows(part: FilePart) -> int | None:
    job = part.job
    selected = job.selection is not None or job.deleted is not None or job.row_range is not None
    return None if selected else part.rows


def split_paimon(rows: TableScan) -> list[TaskPart]:
    """One part for each data file that the table's metadata does not exclude."""
    sure = rows.where is None and not rows.top
    return [
        TaskPart(one, one.file.size, one.file.rows if sure and one.file.deletion is None else None)
        for one in rows.plan.tasks
    ]


def enough(parts: Sequence[TaskPart], limit: int) -> list[TaskPart]:
    """The first parts that together certainly have ``limit`` rows. Later parts are left out."""
    chosen: list[TaskPart] = []
    for part in parts:
        if limit <= 0:
            break
        chosen.append(part)
        limit -= part.rows or 0
    return chosen


def pack_sizes(sizes: Sequence[int], target: int) -> list[int]:
    """The bin of each part, numbered from 0. The largest parts are packed first. Each part goes into the bin with the
    fewest bytes. (This is LPT, the rule of the longest processing time first.)

    The number of bins is the total number of bytes divided by the target. There are never more bins than parts.
    """
    if target < 1:
        raise InvalidQuery(f"target_bytes must be at least 1, but is {target}")
    count = min(len(sizes), max(1, -(-sum(sizes) // target)))
    loads = [(0, number) for number in range(count)]
    bins = [0] * len(sizes)
    for task in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        load, number = loads[0]
        bins[task] = number
        heapq.heapreplace(loads, (load + max(1, sizes[task]), number))
    return bins
