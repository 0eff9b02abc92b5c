"""What a task learns of the session that runs its query: Spark hands a session's settings to the tasks of a query.

The planning of a Python data source learns none of them: it runs in a process of its own, and the format was registered
when the session may have had others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.paimon_table.read.scan import TableScan
from orcidx.predicate import Predicate
from orcidx.scanner.scan import Scan
from orcidx.spark.types.hive_columns import partition_constants
from orcidx.spark.types.local_times import on_session_clock

__all__ = ["CASE", "INFERENCE", "ZONE", "OfSession"]

ZONE = "spark.sql.session.timeZone"
CASE = "spark.sql.caseSensitive"
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_QUERY = "spark.sql.execution.id"


@dataclass(frozen=True)
class OfSession:
    """What of a read waits for the session that runs it.

    ``where``: the predicate in which times are still on no clock, None where no clock matters; ``schema``: by which it
    is bound; ``partitions``: key and type by the name of the columns of directories that are times; ``default_zone``:
    of a session that sets none, the JVM's; ``planned``: settings by which the read was planned, and their values.
    """

    where: Predicate | None
    schema: pa.Schema
    case_sensitive: bool
    partitions: Mapping[str, tuple[str, Any]]
    default_zone: str
    planned: Mapping[str, str]

    def settle(self, rows: Scan | TableScan) -> Scan | TableScan:
        """The rows as the session means them. Raises ``InvalidQuery`` where it plans by other rules by now, and where
        a clock matters that Spark does not tell."""
        property_of = _properties()
        for name, value in self.planned.items():
            now = None if property_of is None else property_of(name)
            if now is not None and now.lower() != value:
                raise InvalidQuery(
                    f"{name} is {now} now, and was {value} when orcidx was registered or the DataFrame made: "
                    "make it again, one of the format after orcidx.spark.register(spark)"
                )
        if property_of is not None and (now := property_of(CASE)) is not None:
            rows = _by_case(rows, now.lower() == "true")
        if self.where is None and not self.partitions:
            return rows
        if property_of is None:
            raise InvalidQuery(
                "Spark does not tell the session's time zone here (as in DataFrame.rdd): give the times in where= "
                "a zone, such as '2025-01-31 12:00:00+01:00', or run the query as one of the DataFrame"
            )
        return self.on_clock(rows, property_of(ZONE) or self.default_zone)

    def on_clock(self, rows: Scan | TableScan, zone: str) -> Scan | TableScan:
        """The rows with all times on the clock of a zone."""
        if self.where is not None:
            where = on_session_clock(self.where, self.schema, zone, case_sensitive=self.case_sensitive)
            rows = (
                replace(rows, request=replace(rows.request, where=where))
                if isinstance(rows, Scan)
                else (replace(rows, where=where))
            )
        if self.partitions and isinstance(rows, Scan):
            times = partition_constants([job.source for job in rows.jobs], self.partitions, zone)
            jobs = [replace(job, constants={**job.constants, **one}) for job, one in zip(rows.jobs, times)]
            rows = replace(rows, jobs=tuple(jobs))
        return rows


def _by_case(rows: Scan | TableScan, case_sensitive: bool) -> Scan | TableScan:
    """The rows of files whose columns are found by a rule of letters, which Spark takes at the action."""
    if not isinstance(rows, Scan) or rows.request.options.case_sensitive == case_sensitive:
        return rows
    options = rows.request.options.override(case_sensitive=case_sensitive)
    return replace(rows, request=replace(rows.request, options=options))


def _properties() -> Callable[[str], str | None] | None:
    """Where a task finds settings of its session; None outside of a query of Spark SQL."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty(_QUERY) is None:
        return None
    return context.getLocalProperty  # type: ignore[no-any-return]
