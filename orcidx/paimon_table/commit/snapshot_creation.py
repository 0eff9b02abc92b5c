"""The atomic step of a commit: ``snapshot-N`` is created exclusively and read back to check that it is ours.

If an error occurs before the create, the attempt's files are deleted. If it occurs *in* the create, nothing is deleted
until the storage shows which writer's snapshot exists.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orcidx.errors import CommitConflict, CommitUncertain, CorruptFile, OrcidxError, Unsupported
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon_table.commit.candidate import Candidate, Change
from orcidx.paimon_table.commit.commit_options import LARGEST_IDENTIFIER, CommitOptions
from orcidx.paimon_table.commit.orphans import discard, take_back, taking_back
from orcidx.paimon_table.commit.renames import PATIENCE, Overwritten, await_renames
from orcidx.paimon_table.commit.table_state import TableState
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.storage.folder import Folder

__all__ = ["Attempt", "ChangeName", "SnapshotCreation", "document_of"]

T = TypeVar("T", CommitConflict, CommitUncertain)

_CREATES = 3
"""How often the same snapshot is created again if it is missing after an error."""


@dataclass
class Attempt:
    """One try: the current state of the table, and what was written for the try so far. ``written``: paths in the table
    of files that are useless if the attempt fails."""

    state: TableState
    folder: Folder
    number: int
    written: list[str] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file that is used only by this attempt."""
        self.written.append(path)
        self.folder.put(path, data)


@dataclass(frozen=True)
class ChangeName:
    """The name by which a change is found in the table's history."""

    user: str
    identifier: int

    @classmethod
    def of(cls, options: CommitOptions) -> ChangeName:
        """The name from the options, which must have a user."""
        return cls(options.commit_user or "", LARGEST_IDENTIFIER if options.identifier is None else options.identifier)

    def signed(self, error: T) -> T:
        """The error with the name added to it."""
        error.commit_user, error.identifier = self.user, self.identifier
        return error


def document_of(files: TableFiles, number: int) -> dict[str, Any] | None:
    """A snapshot's JSON; None if there is no such snapshot."""
    try:
        return files.parsed(f"snapshot/snapshot-{number}", lambda data: parse_json_object(data, "snapshot"))
    except FileNotFoundError:
        return None


class SnapshotCreation:
    """Creates the snapshots of one change. ``overwritten``: snapshots that were replaced by another writer's rename."""

    def __init__(self, files: TableFiles, folder: Folder, options: CommitOptions, name: ChangeName) -> None:
        self.files = files
        self.folder = folder
        self.options = options
        self.name = name
        self.overwritten: list[Overwritten] = []
        self.in_doubt = False
        """Whether a snapshot was being created when an error occurred. Its files may then be in use."""

    def create(self, attempt: Attempt, change: Change, candidate: Candidate) -> None:
        """Makes the candidate the newest snapshot. If another snapshot was first, deletes the attempt's files and
        raises ``CommitConflict``."""
        name, number = f"snapshot/snapshot-{candidate.document['id']}", candidate.document["id"]
        failure: Exception | None = None
        deadline = time.monotonic() + PATIENCE
        if self._renamed_onto:
            self._check_settled(attempt, deadline)
        self.in_doubt = True
        for _ in range(_CREATES):
            try:
                won = self._create_once(name, candidate.data)
            except Unsupported as error:
                self.in_doubt = False
                take_back(self.folder, attempt.written, error)
                raise
            except (OrcidxError, OSError) as error:
                won, failure = False, error
            if self._renamed_onto:
                await_renames(self.files.source("snapshot").location, [number], deadline)
            there = self._read_back(candidate, failure)
            if there is None and not won:
                continue  # missing after an error: creates it again with the same bytes and number
            if there is not None and there.get("uuid") == candidate.document["uuid"]:
                self._check_base(attempt, candidate)
                return
            if won:
                raise self._overwritten(change, candidate, there)
            conflict = CommitConflict(
                f"snapshot {number} was committed by {(there or {}).get('commitUser')} meanwhile; run the change again",
                other_user=(there or {}).get("commitUser"),
            )
            self.in_doubt = False
            take_back(self.folder, attempt.written, conflict)
            raise conflict
        if failure is not None and self.files.root.kind == "path":  # if it is missing here, it was not created
            self.in_doubt = False
            take_back(self.folder, attempt.written, failure)
            raise failure
        raise self.name.signed(_unknown(candidate, failure)) from failure

    @property
    def _renamed_onto(self) -> bool:
        """Whether Paimon renames snapshots to their names on this storage. On other storages it needs a lock, or writes
        directly to the final name."""
        return self.files.root.kind == "path"

    def _check_settled(self, attempt: Attempt, deadline: float) -> None:
        """Waits until no writer can rename its own snapshot over the candidate's base or to the candidate's name. Then,
        unless the base still exists, deletes the attempt's files and raises ``CommitConflict``."""
        number = attempt.state.snapshot_id
        await_renames(self.files.source("snapshot").location, [number, number + 1], deadline)
        base = attempt.state.document
        with taking_back(self.folder, attempt.written):
            if base is not None and document_of(self.files, number) != base:
                raise CommitConflict(
                    f"snapshot {number} has changed since the change was planned on it; run the change again"
                )

    def _create_once(self, name: str, data: bytes) -> bool:
        vouched = self.options.single_writer or self.options.lock is not None
        with self.options.lock or nullcontext():
            return self.folder.create(name, data, single_writer=vouched)

    def _read_back(self, candidate: Candidate, failure: Exception | None) -> dict[str, Any] | None:
        """The snapshot with this number, created by any writer."""
        try:
            data = self.folder.read(f"snapshot/snapshot-{candidate.document['id']}")
            return None if data is None else parse_json_object(data, "snapshot")
        except (OSError, CorruptFile) as error:
            raise self.name.signed(_unknown(candidate, failure or error)) from error

    def check_stays(self, change: Change, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` if a writer that checks and then renames has replaced our snapshot after it was
        read back. Such a writer checked before ours existed and was slow (1 of 1,000 rounds with Java)."""
        try:
            there = document_of(self.files, candidate.document["id"])
        except (OrcidxError, OSError):
            return  # the snapshot existed, so a failure of this extra check is ignored
        if there is not None and there.get("uuid") != candidate.document["uuid"]:
            raise self._overwritten(change, candidate, there)

    def _check_base(self, attempt: Attempt, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` if the snapshot below ours is not the one on which ours was built.

        A rollback deletes snapshots from the newest down, but not one that is created meanwhile. Such a snapshot is
        then above a gap. Paimon's later commits collide with it and are lost. As long as the hint points readers below
        the gap, no reader has seen the snapshot. It is then deleted again, and the change is tried on the snapshot that
        the rollback left.
        """
        base, number = attempt.state.document, candidate.document["id"]
        if base is None:
            return
        try:
            below = document_of(self.files, number - 1)
            lowest = number - 1 if below is not None else self.files.nearest_below(number)
            unseen = below is None and lowest == self.files.hint("LATEST")
        except (OrcidxError, OSError):
            return  # ours exists, and the one below cannot be read
        if below == base or lowest is None:  # the snapshots below have expired
            return
        said = f"the table was rolled back to snapshot {lowest} or below while snapshot {number} was committed"
        if unseen and not discard(self.folder, [f"snapshot/snapshot-{number}"]):
            self.in_doubt = False
            conflict = CommitConflict(f"{said}; it was taken back, and the change can be run again")
            take_back(self.folder, attempt.written, conflict)
            raise conflict
        what = f"roll the table back to {lowest}" if below is not None else f"delete snapshot/snapshot-{number}"
        raise CommitConflict(
            f"{said}, and that snapshot was built on what was rolled back: {what}, and run the change again",
            other_user=None if below is None else below.get("commitUser"),
            snapshot_id=number,
            left_behind=tuple(candidate.written),
        )

    def _overwritten(self, change: Change, candidate: Candidate, there: dict[str, Any] | None) -> CommitConflict:
        self.overwritten.append(Overwritten(candidate, change, (there or {}).get("commitUser")))
        return self.overwritten[-1].conflict()

    def hint(self, number: int) -> None:
        """Writes LATEST, a hint for readers. They also look for later snapshots, so a failure to write it does no
        harm."""
        try:
            self.folder.put("snapshot/LATEST", str(number).encode())
        except (OrcidxError, OSError):
            return


def _unknown(candidate: Candidate, failure: Exception | None) -> CommitUncertain:
    number = candidate.document["id"]
    return CommitUncertain(
        f"the storage failed while snapshot {number} was created ({failure}), and whether it took effect is not "
        f"known: look whether snapshot/snapshot-{number} has the uuid {candidate.document['uuid']}. Nothing was "
        "deleted. A second call with the same commit_user and identifier does not commit it twice",
        snapshot_id=number,
        left_behind=tuple(candidate.written),
    )
