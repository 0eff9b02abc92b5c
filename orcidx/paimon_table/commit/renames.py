"""Writers that look whether a snapshot is there and then rename theirs to it, over one that came in between: Paimon's
Java on a disk (``RenamingSnapshotCommit``, ``FileIO.tryToWriteAtomic``)."""

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
"""Seconds to wait for another writer's rename that may have looked before our snapshot was there. Beside Java on a busy
machine it was over in milliseconds; what a killed writer has left lies for ever, and is waited for by one commit."""


def await_renames(folder: str, numbers: Sequence[int], deadline: float) -> None:
    """Waits until no writer on this disk can put its snapshot over one of these ``numbers`` that is there now.

    Such a writer makes ``.snapshot-N.<uuid>.tmp``, looks, and renames without another look. Who makes that file after
    snapshot N finds it; so only those that lie there now can be in between, and each is renamed or deleted at the end.
    ``deadline``: when to stop, of ``time.monotonic``.
    """
    of_these = "|".join(map(str, numbers))
    temporary = re.compile(rf"\.snapshot-({of_these})\.\w+-.*\.tmp")  # ours has no dash: it replaces nothing
    pause = 0.001
    with suppress(OSError):  # reading back tells of a disk that fails
        while any(map(temporary.fullmatch, os.listdir(folder))) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


@dataclass(frozen=True)
class Overwritten:
    """A snapshot of ours that was there until another writer's rename replaced it. Its files stay: who saw it in that
    time may be at work with them."""

    candidate: Candidate
    change: Change
    other_user: str | None

    @property
    def number(self) -> int:
        """The snapshot's."""
        return int(self.candidate.document["id"])

    def carried(self, state: TableState) -> bool:
        """Whether a later snapshot was made of ours, so that the table has the change."""
        manifests = {f"manifest/{info['_FILE_NAME']}" for info in state.infos}
        if not manifests.isdisjoint(self.candidate.written):
            return True
        added = {record["_FILE"]["_FILE_NAME"] for record in self.change.added}
        if any(file.entry.name in added for file in state.live.values()):
            return True
        index = (state.document or {}).get("indexManifest")
        return self.change.index_records is not None and index == self.candidate.document.get("indexManifest")

    def conflict(self) -> CommitConflict:
        """What a caller is told when there is no further try."""
        return CommitConflict(
            f"snapshot {self.number} was created and then overwritten by another writer, which does not create its "
            "snapshots exclusively; this change is lost, and its files are orphans",
            other_user=self.other_user,
            snapshot_id=self.number,
            left_behind=tuple(self.candidate.written),
        )

    def uncertain(self, state: TableState) -> CommitUncertain:
        """What a caller is told of a change that is carried."""
        return CommitUncertain(
            f"snapshot {self.number} was overwritten by {self.other_user} when snapshot {state.snapshot_id} or one "
            "below it had been made of it: the table has this change, and not what the other one says; do not run it "
            "again",
            snapshot_id=self.number,
        )

    def note(self) -> str:
        """What the result of the change says in the end."""
        return (
            f"snapshot {self.number} was overwritten by {self.other_user}, and the change was made again; left behind, "
            f"named by no snapshot: {', '.join(self.candidate.written)}"
        )
