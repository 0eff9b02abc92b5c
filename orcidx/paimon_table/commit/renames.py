"""Handles writers that check whether a snapshot exists and then rename their own file to it. Their rename replaces a
snapshot that was created in between. Paimon's Java does this on a local disk (``RenamingSnapshotCommit``,
``FileIO.tryToWriteAtomic``)."""

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

__all__ = ["PATIENCE", "Overwritten", "await_renames"]

PATIENCE = 20.0
"""Seconds to wait for the rename of another writer that may have checked before our snapshot existed. With Java on a
busy machine this took milliseconds. A file of a killed writer is never removed, and each commit waits for it this
long."""


def await_renames(folder: str, numbers: Sequence[int], deadline: float) -> None:
    """Waits until no writer on this disk can replace a snapshot of one of these ``numbers`` that exists now.

    Such a writer creates ``.snapshot-N.<uuid>.tmp``, checks for snapshot N, and renames without checking again. If it
    creates its file after snapshot N exists, it finds the snapshot. So only temporary files that exist now can belong
    to a writer between check and rename, and each of them is renamed or deleted in the end. ``deadline``: when to stop,
    as ``time.monotonic``.
    """
    of_these = "|".join(map(str, numbers))
    # a temporary file of orcidx has no dash in its name, and replaces nothing
    temporary = re.compile(rf"\.snapshot-({of_these})\.\w+-.*\.tmp")
    pause = 0.001
    with suppress(OSError):  # reading the snapshot back reports a failing disk
        while any(map(temporary.fullmatch, os.listdir(folder))) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


@dataclass(frozen=True)
class Overwritten:
    """A snapshot of ours that existed until another writer's rename replaced it. Its files are kept, because a reader
    that saw it in that time may be using them."""

    candidate: Candidate
    change: Change
    other_user: str | None

    @property
    def number(self) -> int:
        """The number of the snapshot."""
        return int(self.candidate.document["id"])

    def carried(self, state: TableState) -> bool:
        """Whether a later snapshot was built on ours, so that the table has the change."""
        manifests = {f"manifest/{info['_FILE_NAME']}" for info in state.infos}
        if not manifests.isdisjoint(self.candidate.written):
            return True
        added = {record["_FILE"]["_FILE_NAME"] for record in self.change.added}
        if any(file.entry.name in added for file in state.live.values()):
            return True
        index = (state.document or {}).get("indexManifest")
        return self.change.index_records is not None and index == self.candidate.document.get("indexManifest")

    def conflict(self) -> CommitConflict:
        """The message to the caller if there is no further try."""
        return CommitConflict(
            f"snapshot {self.number} was created and then overwritten by another writer, which does not create its "
            "snapshots exclusively; this change is lost, and its files are orphans",
            other_user=self.other_user,
            snapshot_id=self.number,
            left_behind=tuple(self.candidate.written),
        )

    def uncertain(self, state: TableState) -> CommitUncertain:
        """The message to the caller if the table has the change."""
        return CommitUncertain(
            f"snapshot {self.number} was overwritten by {self.other_user} when snapshot {state.snapshot_id} or one "
            "below it had been built on it: the table has this change, and not the other writer's; do not run it "
            "again",
            snapshot_id=self.number,
        )

    def note(self) -> str:
        """The note in the result of the change."""
        return (
            f"snapshot {self.number} was overwritten by {self.other_user}, and the change was made again; left behind, "
            f"named by no snapshot: {', '.join(self.candidate.written)}"
        )
