"""The first step of every change of a table: reads the newest snapshot and checks whether orcidx may change the
table."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from orcidx.errors import Unsupported
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptions, CommitOptionsByName
from orcidx.paimon_table.commit.committing import Committed, Committer
from orcidx.paimon_table.commit.option_gates import Operation, check_options
from orcidx.paimon_table.commit.table_state import TableState
from orcidx.paimon_table.metadata.manifest import FileEntry
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.table_view import TableView

__all__ = ["begin", "changed", "check_instants", "check_own_file", "check_table"]

_BRANCH = re.compile(r"(?:^|/)branch/branch-[^/]+/?$")


def begin(table: TableView, operation: Operation, given: CommitOptionsByName) -> Committer:
    """Checks that the operation is allowed on the table, and returns a committer at the newest snapshot. ``given``:
    commit options by keyword."""
    files = table.files
    place = files.root.name
    if files.root.kind == "path":
        place = os.path.realpath(str(files.root.location))
    if _BRANCH.search(place.replace("\\", "/")):
        raise Unsupported(f"{files.root.name} is a branch, but orcidx can change only the main branch")
    committer = Committer(files, CommitOptions.of(given))
    if not table.is_latest and table.snapshot_id != committer.state.snapshot_id:
        raise Unsupported(
            f"the table was opened at snapshot {table.snapshot_id}, but only the newest snapshot, "
            f"{committer.state.snapshot_id}, can be changed; open the table without snapshot_id"
        )
    check_table(committer.state, operation, committer.options)
    return committer


def check_table(state: TableState, operation: Operation, options: CommitOptions) -> None:
    """Raises ``Unsupported`` if an option of the newest schema forbids the operation. Unknown keys of the schema raise
    the same error, because they may change what a commit has to do."""
    admitted = [*options.allow_options, *(["lock.enabled"] if options.lock is not None else [])]
    if unknown := [key for key in state.schema.unknown if key not in admitted]:
        raise Unsupported(
            f"schema {state.schema.id} has the key {unknown[0]!r}, which orcidx does not know; change the table with "
            f"the Paimon version that wrote this schema, or, if the key does not concern {operation}, pass "
            f"allow_options=[{unknown[0]!r}]"
        )
    check_options(state.schema.options, operation, admitted)


def check_own_file(entry: FileEntry) -> None:
    """Raises ``Unsupported`` for a data file outside the table."""
    if entry.external_path is not None:
        raise Unsupported(
            f"orcidx cannot change data file {entry.name}, because the file is outside the table; use "
            "Paimon in Spark or Flink to change this table"
        )


def check_instants(
    schema: TableSchema, columns: Sequence[str], data_format: str, options: CommitOptions, doing: str
) -> None:
    """Raises ``Unsupported`` if ORC files contain instants that depend on a JVM's zone. The error is not raised if the
    caller guarantees by ``options.jvm_zone`` that the zone is "UTC".

    ``schema``: the schema of the files. ``columns``: names in that schema."""
    if data_format != "orc" or options.jvm_zone == "UTC" or not schema.moves_instants:
        return
    zoned = [name for name in columns if name in schema.by_name and schema.by_name[name].type.has_instants]
    if zoned:
        raise Unsupported(
            f"{doing} is not supported, because Paimon's Java shifts TIMESTAMP WITH LOCAL TIME ZONE in ORC files by "
            'the zone of its JVM. If all JVMs that use the table run in UTC, pass jvm_zone="UTC". Otherwise create a '
            "new table in which orc.timestamp-ltz.legacy.type is false",
            column=zoned[0],
        )


def changed(committer: Committer, committed: Committed | None, kind: str, planned_on: int, **facts: Any) -> Changed:
    """The result of a change. ``committed`` is None if there was nothing to do."""
    named: dict[str, Any] = {"commit_user": committer.name.user, "identifier": committer.options.identifier}
    if committed is None:
        return Changed(None, kind, planned_on=planned_on, **named, **facts)
    number = committed.document["id"]
    notes = (*facts.pop("notes", ()), *committed.notes, *(one.note() for one in committed.overwritten))
    return Changed(
        number,
        kind,
        attempts=committed.attempts,
        previous_snapshot_id=number - 1 or None,
        planned_on=planned_on,
        rollback=_rollback(committer, number - 1),
        repeated=committed.repeated,
        notes=notes,
        **named,
        **facts,
    )


def _rollback(committer: Committer, number: int) -> str | None:
    """The Paimon procedure call that undoes the commit."""
    parts = committer.files.root.name.rstrip("/").replace("\\", "/").split("/")
    named = len(parts) > 1 and parts[-2].endswith(".db")
    name = f"{parts[-2].removesuffix('.db')}.{parts[-1]}" if named else "database.table"
    return f"CALL sys.rollback(table => '{name}', version => '{number}')" if number else None
