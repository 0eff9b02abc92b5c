"""The settings of the session that runs a query. Spark passes these settings to the tasks of the query.

A Python data source plans without these settings. The planning runs in a separate process, and the session's settings
may have changed since the format was registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.paimon_table.read.scan import TableScan
from orcidx.predicate import Predicate
from orcidx.scanner.scan import Scan
from orcidx.spark.conditions.floored_times import in_micros_of_columns
from orcidx.spark.sessions.orc_settings import CASE, ZONE
from orcidx.spark.types.hive_columns import partition_constants
from orcidx.spark.types.local_times import on_session_clock

__all__ = ["OfSession"]

_QUERY = "spark.sql.execution.id"


@dataclass(frozen=True)
class OfSession:
    """The parts of a read that depend on the session that runs it.

    ``where``: the predicate, whose times have no time zone yet, or None if no zone matters. ``schema``: the schema that
    binds the predicate. ``partitions``: a dictionary for the partition columns that have times. It maps the name of
    each column to the column's key and type. ``default_zone``: the JVM's zone, for a session without a zone.
    ``planned``: the settings with which the read was planned, and their values."""

    where: Predicate | None
    schema: pa.Schema
    case_sensitive: bool
    partitions: Mapping[str, tuple[str, Any]]
    default_zone: str
    planned: Mapping[str, str]

    def settle(self, rows: Scan | TableScan) -> Scan | TableScan:
        """Applies the session's settings to the rows. Raises ``InvalidQuery`` if the settings have changed since the
        read was planned, or if a time zone is needed and Spark does not give it."""
        property_of = _properties()
        for name, value in self.planned.items():
            now = None if property_of is None else property_of(name)
            if now is not None and now.lower() != value:
                raise InvalidQuery(
                    f"{name} is {now} now, but was {value} when orcidx was registered or the DataFrame was created. "
                    'Create the DataFrame again; if it reads format("orcidx"), call orcidx.spark.register(spark) first'
                )
        if property_of is not None and (now := property_of(CASE)) is not None:
            rows = _by_case(rows, now.lower() == "true")
        if self.where is None and not self.partitions:
            return rows
        if property_of is None:
            raise InvalidQuery(
                "Spark does not give the session's time zone here (for example in DataFrame.rdd): write the times in "
                "where= with a zone, such as '2025-01-31 12:00:00+01:00', or run the query on the DataFrame itself"
            )
        return self.on_clock(rows, property_of(ZONE) or self.default_zone)

    def on_clock(self, rows: Scan | TableScan, zone: str) -> Scan | TableScan:
        """Returns the rows, with the times of the predicate and of the partition columns in this time zone."""
        if self.where is not None:
            where = on_session_clock(self.where, self.schema, zone, case_sensitive=self.case_sensitive)
            unit = "us" if isinstance(rows, Scan) else "ns"
            where = in_micros_of_columns(where, self.schema, unit, case_sensitive=self.case_sensitive)
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
    """Returns a scan of the same rows. It finds the columns of files by the case rule that the session has when the
    query runs."""
    if not isinstance(rows, Scan) or rows.request.options.case_sensitive == case_sensitive:
        return rows
    options = rows.request.options.override(case_sensitive=case_sensitive)
    return replace(rows, request=replace(rows.request, options=options))


def _properties() -> Callable[[str], str | None] | None:
    """A function that looks up a setting of the session in a task. The result is None outside of a query of Spark
    SQL."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty(_QUERY) is None:
        return None
    return context.getLocalProperty  # type: ignore[no-any-return]
