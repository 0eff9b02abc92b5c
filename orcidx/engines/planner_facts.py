"""The facts about a scan that the planner of an engine uses to choose the order of joins: the number of rows, and the
ranges of columns. All facts come from metadata, no row is read.

Engines use the facts not only for estimates. Polars answers ``count(*)`` from the number of rows, and skips a scan if
the range of a column rules out the condition. So a number of rows is given only if it is exact, and a range only if it
contains every value that a read returns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from orcidx.aggregation.functions import Aggregate
from orcidx.aggregation.value_forms import Comparable
from orcidx.engines.pruning_gain import is_local
from orcidx.errors import OrcidxError
from orcidx.orc.statistics import file_statistics
from orcidx.scanner.aggregate_pass import COUNT_ALONE, asked_of_indexes
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.unit_totals import AggregatePlan, Origins, UnitTotals

__all__ = ["ColumnRange", "TableFacts", "file_versions", "row_count", "table_facts"]

REMOTE_TAILS = 8
"""The maximum number of files in a store whose rows are counted. Each file takes one or two requests."""

COUNTED_FILES = 1000
"""The maximum number of files whose rows are counted for each query, unless a catalog has their numbers of rows. Each
file takes about 0.04 ms."""

RANGED_FILES = 32
"""The maximum number of files whose statistics give ranges. Each file takes 0.1 ms, and 0.03 ms for each column."""


@dataclass(frozen=True)
class ColumnRange:
    """The minimum and the maximum of one column, in the forms of ``value_forms``, and its number of nulls. Minimum and
    maximum are None if the column has only nulls."""

    minimum: Comparable | None
    maximum: Comparable | None
    nulls: int

    def __or__(self, other: ColumnRange) -> ColumnRange:
        """The range of the rows of both."""
        nulls = self.nulls + other.nulls
        if self.minimum is None or self.maximum is None:
            return replace(other, nulls=nulls)
        if other.minimum is None or other.maximum is None:
            return replace(self, nulls=nulls)
        low = other.minimum if other.minimum < self.minimum else self.minimum
        return ColumnRange(low, other.maximum if self.maximum < other.maximum else self.maximum, nulls)


@dataclass(frozen=True)
class TableFacts:
    """The facts about a scan. ``rows``: the exact number of rows. None if it is not known. ``ranges``: the ranges of
    some columns."""

    rows: int | None
    ranges: Mapping[str, ColumnRange]


def row_count(scan: Scan) -> int | None:
    """The exact number of rows. The result is None if the metadata does not give this number, or if too many files in a
    store would have to be read."""
    if scan.request.where is not None or not (is_local(scan) or len(scan.jobs) <= REMOTE_TAILS):
        return None
    return scan.count_rows()


def file_versions(scan: Scan) -> tuple[Hashable, ...] | None:
    """The versions of the files of a scan. While they are the same, ``table_facts`` returns the same facts. The result
    is None if the version of a file is not known, for example because the file was changed a moment ago. It is also
    None for scans without ranges, because this function opens each file."""
    if len(scan.jobs) > RANGED_FILES or scan.request.where is not None or not is_local(scan):
        return None
    found = []
    for job in scan.jobs:
        try:
            storage = job.source.open(expected=job.fingerprint)
        except (OrcidxError, OSError):  # the read of the file raises the error
            return None
        try:
            found.append(storage.identity)
        finally:
            storage.close()
        if found[-1] is None:
            return None
    return tuple(found)


def table_facts(scan: Scan, names: Sequence[str]) -> TableFacts:
    """The number of rows, and the ranges of those columns of ``names`` that have integers, dates or decimals.

    For files in a store and for a scan with a condition, there are no facts. For files in a store, they would take a
    request for each file of each query. The rows of more than ``COUNTED_FILES`` files are counted only with a catalog,
    and only ``RANGED_FILES`` files are searched for ranges. A range is left out if the statistics of a file do not
    prove its minimum and maximum. A column of row numbers has no range."""
    if scan.request.where is not None or not is_local(scan):
        return TableFacts(None, {})
    if len(scan.jobs) > RANGED_FILES:
        return TableFacts(scan.count_rows() if _few_to_count(scan) else None, {})
    kinds = {name: scan.schema.field(name).type for name in names if name != scan.request.row_numbers}
    kinds = {name: kind for name, kind in kinds.items() if _has_range(kind)}
    request = replace(scan.resolved, columns=tuple((name,) for name in kinds), row_numbers=None)
    rows = 0
    ranges: dict[str, ColumnRange] | None = None
    with FileQueue(scan.jobs, request, ScanMetrics(), open_all=True, tails_alone=True) as files:
        for file in files:
            rows += file.scan.rows.count
            found = _ranges_of(file.scan, kinds)
            kinds = {name: kinds[name] for name in found}
            ranges = found if ranges is None else {name: ranges[name] | one for name, one in found.items()}
    return TableFacts(rows, ranges or {})


def _ranges_of(scan: FileScan, kinds: Mapping[str, pa.DataType]) -> dict[str, ColumnRange]:
    """The ranges of one file, for the columns whose minimum and maximum its statistics prove."""
    if not kinds:
        return {}
    ends = [Aggregate(f"{function} {name}", function, name) for name in kinds for function in _ENDS]
    plan = AggregatePlan(tuple(ends), (), {name: (name,) for name in kinds}, kinds)
    totals, tail = plan.totals(), scan.reader.tail
    units = UnitTotals(plan, scan, totals, Origins(), {})
    if units.take_whole("file statistics", tail.footer.rows, partial(file_statistics, tail)):
        group = totals.group(())
        return {
            name: ColumnRange(column.minimum, column.maximum, group.rows - column.count)
            for name, column in group.columns.items()
        }
    if len(kinds) == 1:
        return {}
    return {name: one for each in kinds for name, one in _ranges_of(scan, {each: kinds[each]}).items()}


_ENDS: tuple[Literal["min", "max"], ...] = ("min", "max")


def _few_to_count(scan: Scan) -> bool:
    jobs = scan.jobs
    if len(jobs) > COUNTED_FILES:
        jobs = asked_of_indexes(scan.indexes, jobs, scan.resolved.counting, COUNT_ALONE, ScanMetrics()).jobs
    return len(jobs) <= COUNTED_FILES


def _has_range(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_decimal(kind))
