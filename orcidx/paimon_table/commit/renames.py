"""Handles writers that check whether a snapshot exists, and then rename their own file to the snapshot's name. Such a
rename replaces a snapshot that was created between the check and the rename. Paimon's Java writes in this way on a
local disk (``RenamingSnapshotCommit``, ``FileIO.tryToWriteAtomic``)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from orcidx.errors import CommitConflict, CommitUncertain
from orcidx.paimon_table.commit.candidate import Candidate, Change
from orcidx.paimon_table.commit.table_state import TableState

__all__ = ["PATIENCE_SECONDS", "Overwritten", "await_renames"]

PATIENCE_SECONDS = 20.0
"""Seconds to wait for the rename of another writer that may have checked before our snapshot existed. With Java on a
busy machine the rename took milliseconds. If a writer was killed, its file stays, and each commit waits this long."""


def await_renames(folder: str, numbers: Sequence[int], deadline: float) -> None:
    """Waits until no writer on this disk can replace any of the existing snapshots with these ``numbers``.

    A writer that renames creates ``.snapshot-N.<uuid>.tmp``, checks whether snapshot N exists, and renames the file
    without checking again. A writer that creates its file after snapshot N exists finds the snapshot in its check. So
    only a temporary file that exists now can belong to a writer that has already checked, but has not renamed yet. Each
    of these files is renamed or deleted in the end. ``deadline``: the time at which the wait ends, in the clock of
    ``time.monotonic``.
    """
    of_these = "|".join(map(str, numbers))
    # The pattern does not match the temporary files of orcidx, because the uuid in their names has no dashes. orcidx
    # never replaces a snapshot, so there is no need to wait until these files are renamed.
    temporary = re.compile(rf"\.snapshot-({of_these})\.\w+-.*\.tmp")
    pause = 0.001
    with suppress(OSError):  # if the disk fails, reading the snapshot back raises the error later
        while any(map(temporary.fullmatch, os.listdir(folder))) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


@dataclass(frozen=True)
class Overwritten:
    """A snapshot of this commit that existed until another writer's rename replaced it. Its files are kept, because a
    reader may have read the snapshot and may still use the files."""

    candidate: Candidate
    change: Change
    other_user: str | None

    @property
    def number(self) -> int:
        """The number of the snapshot."""
        return int(self.candidate.document["id"])

    def is_built_upon(self, state: TableState) -> bool:
        """Whether a later snapshot was built on this snapshot. If so, the table has the change."""
        manifests = {f"manifest/{info['_FILE_NAME']}" for info in state.infos}
        if not manifests.isdisjoint(self.candidate.written):
            return True
        added = {record["_FILE"]["_FILE_NAME"] for record in self.change.added}
        if any(file.entry.name in added for file in state.live.values()):
            return True
        index = (state.document or {}).get("indexManifest")
        return self.change.index_records is not None and index == self.candidate.document.get("indexManifest")

    def conflict(self) -> CommitConflict:
        """The error that is raised if the commit is not tried again."""
        return CommitConflict(
            f"snapshot {self.number} was created and then overwritten by another writer, which does not create its "
            "snapshots exclusively; this change is lost, and no snapshot names its files",
            other_user=self.other_user,
            snapshot_id=self.number,
            left_behind=tuple(self.candidate.written),
        )

    def uncertain(self, state: TableState) -> CommitUncertain:
        """The error that is raised if the table has the change."""
        return CommitUncertain(
            f"snapshot {self.number} was overwritten by {self.other_user} after snapshot {state.snapshot_id} or an "
            "earlier one had been built on it: the table has this change, but not the change of the other writer; do "
            "not run this change again",
            snapshot_id=self.number,
        )

    def note(self) -> str:
        """The note in the result of the change."""
        return (
            f"snapshot {self.number} was overwritten by {self.other_user}, and the change was made again; no snapshot "
            f"names these files any more: {', '.join(self.candidate.written)}"
        )
