"""The atomic step of a commit. It creates ``snapshot-N`` exclusively. Then it reads the file back, because
another writer may have created this file.

If an error occurs before the creation, the attempt's files are deleted. If an error occurs *during* the creation,
nothing is deleted until it is known which writer's snapshot exists.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orcidx.errors import CommitConflict, CommitUncertain, CorruptFile, OrcidxError, Unsupported
from orcidx.paimon_table.commit.candidate import Candidate, Change
from orcidx.paimon_table.commit.commit_options import LARGEST_IDENTIFIER, CommitOptions
from orcidx.paimon_table.commit.orphans import discard, take_back, taking_back
from orcidx.paimon_table.commit.renames import PATIENCE_SECONDS, Overwritten, await_renames
from orcidx.paimon_table.commit.table_state import TableState
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.snapshot import parse_document
from orcidx.storage.folder import Folder

__all__ = ["Attempt", "ChangeName", "SnapshotCreation", "document_of"]

T = TypeVar("T", CommitConflict, CommitUncertain)

_MOST_CREATES = 3
"""How many times the creation of a snapshot is tried if the snapshot is missing after an error."""


@dataclass
class Attempt:
    """One try of a commit: the state of the table, and the files that were written for this try so far. ``written``:
    the files that are deleted if the try fails, as paths within the table."""

    state: TableState
    folder: Folder
    written: list[str] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file that only this attempt uses."""
        self.written.append(path)
        self.folder.put(path, data)


@dataclass(frozen=True)
class ChangeName:
    """The user and the identifier by which a change is found in the table's history."""

    user: str
    identifier: int

    @classmethod
    def of(cls, options: CommitOptions) -> ChangeName:
        """Takes the user and the identifier from the options. The options must have a user."""
        return cls(options.commit_user or "", LARGEST_IDENTIFIER if options.identifier is None else options.identifier)

    def signed(self, error: T) -> T:
        """Adds the user and the identifier to an error, and returns the error."""
        error.commit_user, error.identifier = self.user, self.identifier
        return error


def document_of(files: TableFiles, number: int) -> dict[str, Any] | None:
    """A snapshot's JSON. The result is None if there is no such snapshot."""
    try:
        return files.parsed(f"snapshot/snapshot-{number}", parse_document)
    except FileNotFoundError:
        return None


class SnapshotCreation:
    """Creates the snapshots of one change. ``overwritten``: snapshots that another writer's rename has replaced."""

    def __init__(self, files: TableFiles, folder: Folder, options: CommitOptions, name: ChangeName) -> None:
        self.files = files
        self.folder = folder
        self.options = options
        self.name = name
        self.overwritten: list[Overwritten] = []
        self.in_doubt = False
        """Whether an error occurred during the creation of a snapshot. The snapshot's files may then be in use."""

    def create(self, attempt: Attempt, change: Change, candidate: Candidate) -> None:
        """Makes the candidate the newest snapshot. If another writer has already created a snapshot with the same
        number, deletes the attempt's files and raises ``CommitConflict``."""
        name, number = f"snapshot/snapshot-{candidate.document['id']}", candidate.document["id"]
        failure: Exception | None = None
        deadline = time.monotonic() + PATIENCE_SECONDS
        if self._renamed_onto:
            self._check_settled(attempt, deadline)
        self.in_doubt = True
        for _ in range(_MOST_CREATES):
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
                continue  # the snapshot is missing after an error, so it is created again with the same bytes
            if there is not None and there.get("uuid") == candidate.document["uuid"]:
                self._check_base(attempt, candidate)
                return
            if won:
                raise self._overwritten(change, candidate, there)
            conflict = CommitConflict(
                f"snapshot {number} was committed by {(there or {}).get('commitUser')} in the meantime; run the "
                "change again",
                other_user=(there or {}).get("commitUser"),
            )
            self.in_doubt = False
            take_back(self.folder, attempt.written, conflict)
            raise conflict
        if (
            failure is not None and self.files.root.kind == "path"
        ):  # on a local disk, a missing file proves that the snapshot was not created
            self.in_doubt = False
            take_back(self.folder, attempt.written, failure)
            raise failure
        raise self.name.signed(_unknown(candidate, failure)) from failure

    @property
    def _renamed_onto(self) -> bool:
        """Whether Paimon creates snapshots on this storage by renaming a file. On other storage, Paimon needs a lock,
        or writes directly to the final name."""
        return self.files.root.kind == "path"

    def _check_settled(self, attempt: Attempt, deadline: float) -> None:
        """Waits until no writer can rename its own file to the name of the candidate or of the candidate's base. If the
        base has been replaced or deleted, deletes the attempt's files and raises ``CommitConflict``."""
        number = attempt.state.snapshot_id
        await_renames(self.files.source("snapshot").location, [number, number + 1], deadline)
        base = attempt.state.document
        with taking_back(self.folder, attempt.written):
            if base is not None and document_of(self.files, number) != base:
                raise CommitConflict(
                    f"snapshot {number} is no longer the one for which the change was planned; run the change again"
                )

    def _create_once(self, name: str, data: bytes) -> bool:
        vouched = self.options.single_writer or self.options.lock is not None
        with self.options.lock or nullcontext():
            return self.folder.create(name, data, single_writer=vouched)

    def _read_back(self, candidate: Candidate, failure: Exception | None) -> dict[str, Any] | None:
        """Reads the snapshot with the candidate's number. Any writer may have created this snapshot."""
        try:
            data = self.folder.read(f"snapshot/snapshot-{candidate.document['id']}")
            return None if data is None else parse_document(data)
        except (OSError, CorruptFile) as error:
            raise self.name.signed(_unknown(candidate, failure or error)) from error

    def check_stays(self, change: Change, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` if another writer's rename has replaced the created snapshot after it was read
        back. This happens if the other writer checked for the snapshot before the snapshot existed, and renamed its
        file late. In tests with Java's writer, this happened in 1 of 1,000 rounds."""
        try:
            there = document_of(self.files, candidate.document["id"])
        except (OrcidxError, OSError):
            return  # our snapshot was read back before, so a failure of this second check is ignored
        if there is not None and there.get("uuid") != candidate.document["uuid"]:
            raise self._overwritten(change, candidate, there)

    def _check_base(self, attempt: Attempt, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` if the created snapshot was not built on the snapshot that is now below it.

        A rollback deletes snapshots from the newest down. It does not delete a snapshot that is created during the
        rollback. That snapshot is then above a gap in the numbers. Paimon's later commits would collide with it and be
        lost. As long as the hint points below the gap, no reader has seen the snapshot. In this case the created
        snapshot is deleted again, and the change is tried again on the snapshot that is the newest after the
        rollback."""
        base, number = attempt.state.document, candidate.document["id"]
        if base is None:
            return
        try:
            below = document_of(self.files, number - 1)
            lowest = number - 1 if below is not None else self.files.nearest_below(number)
            unseen = below is None and lowest == self.files.hint()
        except (OrcidxError, OSError):
            return  # our snapshot exists, but the snapshot below it cannot be read
        if below == base or lowest is None:  # unchanged, or all snapshots below have expired
            return
        said = f"the table was rolled back to snapshot {lowest} or below while snapshot {number} was committed"
        if unseen and not discard(self.folder, [f"snapshot/snapshot-{number}"]):
            self.in_doubt = False
            conflict = CommitConflict(f"{said}; snapshot {number} was deleted again, and the change can be run again")
            take_back(self.folder, attempt.written, conflict)
            raise conflict
        what = (
            f"roll the table back to snapshot {lowest}" if below is not None else f"delete snapshot/snapshot-{number}"
        )
        raise CommitConflict(
            f"{said}. Snapshot {number} is based on snapshots that were deleted by the rollback; {what}, and run the "
            "change again",
            other_user=None if below is None else below.get("commitUser"),
            snapshot_id=number,
            left_behind=tuple(candidate.written),
        )

    def _overwritten(self, change: Change, candidate: Candidate, there: dict[str, Any] | None) -> CommitConflict:
        self.overwritten.append(Overwritten(candidate, change, (there or {}).get("commitUser")))
        return self.overwritten[-1].conflict()

    def hint(self, number: int) -> None:
        """Writes LATEST, which is a hint for readers. A failure does no harm, because readers also search for later
        snapshots."""
        try:
            self.folder.put("snapshot/LATEST", str(number).encode())
        except (OrcidxError, OSError):
            return


def _unknown(candidate: Candidate, failure: Exception | None) -> CommitUncertain:
    number = candidate.document["id"]
    return CommitUncertain(
        f"the storage failed while snapshot {number} was created ({failure}), so it is not known whether the snapshot "
        f"exists: check whether snapshot/snapshot-{number} has the uuid {candidate.document['uuid']}. Nothing was "
        "deleted. A second call with the same commit_user and identifier does not commit the change twice",
        snapshot_id=number,
        left_behind=tuple(candidate.written),
    )
