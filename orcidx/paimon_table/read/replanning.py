"""Plans a scan again where a compaction and the expiry of its snapshot have deleted files that it was going to read.

A scan of a table that was opened at its newest snapshot is not bound to that snapshot. If it has not given rows yet, it
is planned on the snapshot that is now the newest, and a note says so. A scan raises ``FileGone``, which says what
happened, if the caller named its snapshot, if it has given rows, or if its columns have changed.
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

__all__ = ["Newest", "Unpinned", "asked_again", "on_some_snapshot"]

MOST_PLANS = 4
"""The most plans of one pass. A table whose snapshots expire faster than this cannot be read."""


@dataclass(frozen=True)
class Newest:
    """Makes a plan on the snapshot that is now the newest."""

    plan: TablePlan
    schema: TableSchema
    snapshot_id: int | None


@dataclass(frozen=True)
class Unpinned:
    """For a scan that is not bound to a snapshot: its ``plan``, the snapshot of that plan, and a function that plans on
    the newest snapshot by condition, options and zone. It is valid only for that plan: a task of Spark has a part of a
    plan."""

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


def asked_again(scan: S, ask: Callable[[S], T]) -> T:
    """Calls a function with the scan, and with one of the newest snapshot where files of the scan are gone."""
    for _ in range(MOST_PLANS - 1):
        try:
            return ask(scan)
        except FileGone as gone:
            scan = _on_newest(scan, gone)
    return ask(scan)


def on_some_snapshot(
    scan: S, batches_of: Callable[[S], Iterator[pa.RecordBatch]], notes: list[Note]
) -> Generator[pa.RecordBatch, None, None]:
    """One pass over the scan. If its files are gone before a row was given, the pass is over the newest snapshot.
    ``notes`` become those of the scan that was read."""
    for left in reversed(range(MOST_PLANS)):
        given = False
        try:
            for batch in batches_of(scan):
                given = True
                yield batch
            return
        except FileGone as gone:
            if given and scan.unpinned is not None:
                text = f"{gone.message}. Rows of the snapshot were already given, so another one cannot be read now"
                raise FileGone(text, file=gone.file) from gone
            if not left:
                raise
            scan = _on_newest(scan, gone)
        notes[:] = scan.notes


def _on_newest(scan: S, gone: FileGone) -> S:
    """The scan on the newest snapshot. Raises ``gone`` where the scan is bound to its snapshot, or does not fit the
    newest one."""
    known = scan.unpinned
    if known is None or known.plan is not scan.plan:
        raise gone
    try:
        found = known.newest(scan.where, scan.options, scan.jvm_zone)
    except (InvalidQuery, Unsupported) as error:
        raise gone from error
    if found.snapshot_id == known.snapshot_id:
        text = f"is missing, although the newest snapshot {found.snapshot_id} names it: a cleaning has deleted too much"
        raise FileGone(text, file=gone.file) from gone
    text = f"planned again on snapshot {found.snapshot_id}: files of snapshot {known.snapshot_id} are gone"
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
