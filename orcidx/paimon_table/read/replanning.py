"""Plans a scan again if a compaction and the expiry of the scan's snapshot have deleted files that the scan needs.

A scan of a table that was opened at its newest snapshot is not bound to that snapshot. If files are gone and the scan
has not returned rows yet, it is planned again on the snapshot that is now the newest. A note reports this. ``FileGone``
is raised with an explanation in three cases: the caller chose the snapshot, rows have been returned, or the columns
have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from orcidx.errors import FileGone, InvalidQuery, Unsupported
from orcidx.options import ReadOptions
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.plan import TablePlan
from orcidx.predicate import Predicate
from orcidx.pruning.findings import Note

__all__ = ["Newest", "Unpinned", "on_some_snapshot", "retried_on_newest"]

MOST_PLANS = 4
"""How many times a scan can be planned while it is read. If files of the last plan are gone, too, ``FileGone`` is
raised."""


@dataclass(frozen=True)
class Newest:
    """A plan on the snapshot that is now the newest."""

    plan: TablePlan
    schema: TableSchema
    snapshot_id: int | None


@dataclass(frozen=True)
class Unpinned:
    """The data for planning a scan again. Only a scan that is not bound to a snapshot has them. ``plan``: the scan's
    plan. ``snapshot_id``: the snapshot of this plan. ``newest``: a function that makes a plan on the newest snapshot
    from a condition, options and a zone. The data are not used for a scan with another plan. For example, a task of
    Spark has only a part of the plan."""

    plan: TablePlan = field(repr=False)
    snapshot_id: int | None
    newest: Callable[[Predicate | None, ReadOptions, str | None], Newest] = field(repr=False)


class _Scan(Protocol):
    @property
    def plan(self) -> TablePlan: ...
    @property
    def where(self) -> Predicate | None: ...
    @property
    def options(self) -> ReadOptions: ...
    @property
    def jvm_zone(self) -> str | None: ...
    @property
    def unpinned(self) -> Unpinned | None: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    @property
    def schema(self) -> pa.Schema: ...


S = TypeVar("S", bound=_Scan)
T = TypeVar("T")


def retried_on_newest(scan: S, ask: Callable[[S], T]) -> T:
    """Calls a function with the scan. If files of the scan are gone, calls the function again with a scan of the newest
    snapshot."""
    for _ in range(MOST_PLANS - 1):
        try:
            return ask(scan)
        except FileGone as gone:
            scan = _on_newest(scan, gone)
    return ask(scan)


def on_some_snapshot(
    scan: S, batches_of: Callable[[S], Iterator[pa.RecordBatch]], notes: list[Note]
) -> Generator[pa.RecordBatch, None, None]:
    """Reads the batches of the scan. If a file is gone before a row was returned, the newest snapshot is read instead.
    The contents of ``notes`` are replaced by the notes of the scan that is read."""
    for left in reversed(range(MOST_PLANS)):
        given = False
        try:
            for batch in batches_of(scan):
                given = True
                yield batch
            return
        except FileGone as gone:
            if given and scan.unpinned is not None:
                text = f"{gone.message}. Rows of the snapshot were already returned, so no other snapshot can be read"
                raise FileGone(text, file=gone.file) from gone
            if not left:
                raise
            scan = _on_newest(scan, gone)
        notes[:] = scan.notes


def _on_newest(scan: S, gone: FileGone) -> S:
    """The scan on the newest snapshot. Raises the error ``gone`` if the scan is bound to its snapshot, or if the newest
    snapshot has another schema."""
    known = scan.unpinned
    if known is None or known.plan is not scan.plan:
        raise gone
    try:
        found = known.newest(scan.where, scan.options, scan.jvm_zone)
    except (InvalidQuery, Unsupported) as error:
        raise gone from error
    if found.snapshot_id == known.snapshot_id:
        text = f"the file is missing, although the newest snapshot {found.snapshot_id} refers to it"
        raise FileGone(text, file=gone.file) from gone
    text = f"planned again on snapshot {found.snapshot_id}, because files of snapshot {known.snapshot_id} are gone"
    plan = replace(found.plan, notes=(*found.plan.notes, Note("snapshot", "gone", text)))
    changes: dict[str, Any] = {"unpinned": replace(known, plan=plan, snapshot_id=found.snapshot_id)}
    again: Any = replace(scan, plan=plan, table_schema=found.schema, **changes)  # type: ignore[type-var]
    try:
        alike = again.schema.equals(scan.schema)
    except KeyError:  # a column was dropped or renamed
        alike = False
    if not alike:
        raise gone
    made: S = again
    return made
