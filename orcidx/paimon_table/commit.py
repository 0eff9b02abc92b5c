"""The commit: one more snapshot, whole or not at all, made on top of the newest one.

Everything that the snapshot names is written and read back first; then ``snapshot-N`` is created exclusively, and read
back to see that it is ours. A race that is lost is run again on the new newest snapshot. Before the create an error
takes back what the attempt wrote; after an error *in* the create nothing is deleted until the storage says who won.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from orcidx.errors import CommitConflict, CommitUncertain, CorruptFile, InvalidQuery, OrcidxError, Unsupported, located
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon_table.candidate import Candidate, Change, write_candidate
from orcidx.paimon_table.candidate_check import check_candidate
from orcidx.paimon_table.commit_options import LARGEST_IDENTIFIER, CommitOptions
from orcidx.paimon_table.files import TableFiles
from orcidx.paimon_table.option_values import parse_duration, parse_whole
from orcidx.paimon_table.table_state import ManifestFile, TableState, read_state
from orcidx.storage.folder import Folder

__all__ = ["Attempt", "Committed", "Committer"]

_CREATES = 3
"""How often the same snapshot is created again where an error left it absent."""

_RENAME_PATIENCE = 20.0
"""Seconds to wait for another writer's rename that may have looked before our snapshot was there. Beside Java on a busy
machine it was over in milliseconds; what a killed writer has left lies for ever, and is waited for by one commit."""


@dataclass(frozen=True)
class Committed:
    """A snapshot that is there; ``document`` is its JSON. ``repeated``: an earlier call made it."""

    document: dict[str, Any]
    attempts: int
    repeated: bool = False


@dataclass
class Attempt:
    """One try: the table as it is now, and what was written for it so far. ``written``: paths in the table that nobody
    needs when the attempt fails."""

    state: TableState
    folder: Folder
    number: int
    written: list[str] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file that belongs to this attempt alone."""
        self.written.append(path)
        self.folder.put(path, data)


class Committer:
    """Commits one change to one table under one user and identifier."""

    def __init__(self, files: TableFiles, options: CommitOptions) -> None:
        self.files = files
        self.folder = Folder(files.root)
        self.given = options
        self.cache: dict[str, ManifestFile] = {}
        self.state = self.read()
        prefix = self.state.schema.options.get("commit.user-prefix", "orcidx")
        self.options = options.named(f"{prefix}-{uuid.uuid4()}")
        self.searched = 0
        self.in_doubt = False
        """Whether a snapshot was being created when an error came, so that its files may be in use."""

    @property
    def user(self) -> str:
        return self.options.commit_user or ""

    @property
    def identifier(self) -> int:
        return LARGEST_IDENTIFIER if self.options.identifier is None else self.options.identifier

    def read(self) -> TableState:
        """The newest snapshot."""
        return read_state(self.files, self.cache, admitted=self.given.allow_options)

    # ------------------------------------------------------------------ exactly once

    def earlier(self, kind: str) -> Committed | None:
        """The snapshot that an earlier call with the same user and identifier made.

        Raises ``CommitUncertain`` where expired snapshots may have held it, ``InvalidQuery`` for one of another kind.
        """
        if self.options.identifier is None:
            return None
        since = max(self.options.since or 0, self.searched)
        missing = None
        for number in range(self.state.snapshot_id, since, -1):
            document = self._document(number)
            if document is None:
                missing = number
                break
            if document.get("commitUser") != self.user or document.get("commitIdentifier") != self.identifier:
                continue
            if document.get("commitKind") != kind:
                raise InvalidQuery(
                    f"snapshot {number} was made by {self.user} with identifier {self.identifier}, and is "
                    f"{document.get('commitKind')}, not {kind}: another change has used them"
                )
            return Committed(document, 0, repeated=True)
        if missing is not None:
            raise CommitUncertain(
                f"snapshots up to {missing} have expired, and one of them may be this very change; give since= the "
                "newest snapshot before the first call, or look whether the rows are there and use a new identifier",
                commit_user=self.user,
                identifier=self.identifier,
                snapshot_id=missing,
            )
        self.searched = self.state.snapshot_id
        return None

    def _document(self, number: int) -> dict[str, Any] | None:
        try:
            return self.files.parsed(f"snapshot/snapshot-{number}", lambda data: parse_json_object(data, "snapshot"))
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------------ the loop

    def commit(self, kind: str, change: Callable[[Attempt], Change | None]) -> Committed | None:
        """Commits what ``change``, which is of ``kind``, makes of the newest snapshot; None where that is nothing.

        ``change`` is called again after each race that is lost, or where it raises ``CommitConflict`` itself. Raises
        ``CommitConflict`` when the tries are used up, ``CommitUncertain`` when nobody can tell.
        """
        self.state = self.read()  # others may have committed, or changed the schema, since the change was planned
        retries, deadline = _limits(self.options, self.state.schema.options)
        number = 0
        while True:
            number += 1
            if found := self.earlier(kind):  # also one that another process made with our name since the last try
                return found
            attempt = Attempt(self.state, self.folder, number)
            try:
                document = self._try(attempt, change)
            except CommitConflict as conflict:
                late = deadline is not None and time.monotonic() > deadline
                if conflict.snapshot_id is not None or number > retries or late:
                    self._signed(conflict)
                    raise
                self._wait(number)
                self.state = self.read()
                continue
            return None if document is None else Committed(document, number)

    def _wait(self, number: int) -> None:
        options = self.state.schema.options
        least = parse_duration("commit.min-retry-wait", options.get("commit.min-retry-wait", "10 ms"))
        most = parse_duration("commit.max-retry-wait", options.get("commit.max-retry-wait", "10 s"))
        time.sleep(min(most, least * 2 ** min(number - 1, 20)) * (1 + random.random() * 0.2))

    def _signed(self, error: Any) -> Any:
        error.commit_user, error.identifier = self.user, self.identifier
        return error

    def _try(self, attempt: Attempt, change: Callable[[Attempt], Change | None]) -> dict[str, Any] | None:
        with self._taking_back(attempt):
            made = change(attempt)
            if made is None:
                return None
            candidate = write_candidate(
                attempt.state, made, self.folder, attempt.written, user=self.user, identifier=self.identifier
            )
            with located(file=self.files.root.name):
                check_candidate(attempt.state, made, candidate)
        self._create(attempt, candidate)
        self._hint(candidate.document["id"])
        self._check_stays(candidate)
        return candidate.document

    @contextmanager
    def _taking_back(self, attempt: Attempt) -> Iterator[None]:
        """Deletes what a failed attempt wrote; what cannot be deleted is named in a note of the error."""
        try:
            yield
        except BaseException as error:
            self.take_back(attempt.written, error)
            raise

    def take_back(self, paths: list[str], error: BaseException) -> None:
        """Deletes files that no snapshot names; what stays is noted in the error."""
        if left := self.discard(paths):
            error.add_note(f"left behind, named by no snapshot: {', '.join(left)}")

    def discard(self, paths: list[str]) -> list[str]:
        """Deletes files that no snapshot names, and returns those that could not be."""
        left = []
        for path in paths:
            try:
                self.folder.delete(path)
            except (OrcidxError, OSError):
                left.append(path)
        return left

    # ------------------------------------------------------------------ the atomic step

    def _create(self, attempt: Attempt, candidate: Candidate) -> None:
        """Makes the candidate the newest snapshot; ``CommitConflict`` (taken back) where another one came first."""
        name, number = f"snapshot/snapshot-{candidate.document['id']}", candidate.document["id"]
        failure: Exception | None = None
        self.in_doubt = True
        for _ in range(_CREATES):
            try:
                won = self._create_once(name, candidate.data)
            except Unsupported as error:
                self.in_doubt = False
                self.take_back(attempt.written, error)
                raise
            except (OrcidxError, OSError) as error:
                won, failure = False, error
            if self.files.root.kind == "path":  # elsewhere Paimon needs a lock, or writes under the name itself
                _await_renames(self.files.source("snapshot").location, number)
            there = self._read_back(candidate, failure)
            if there is None and not won:
                continue  # absent after an error: the same bytes again, under the same number
            if there is not None and there.get("uuid") == candidate.document["uuid"]:
                self._check_base(attempt, candidate)
                return
            if won:
                raise _overwritten(candidate, there)
            conflict = CommitConflict(
                f"snapshot {number} was committed by {(there or {}).get('commitUser')} meanwhile; run the change again",
                other_user=(there or {}).get("commitUser"),
            )
            self.in_doubt = False
            self.take_back(attempt.written, conflict)
            raise conflict
        if failure is not None and self.files.root.kind == "path":  # absent here means that it did not happen
            self.in_doubt = False
            self.take_back(attempt.written, failure)
            raise failure
        raise self._unknown(candidate, failure) from failure

    def _create_once(self, name: str, data: bytes) -> bool:
        vouched = self.options.single_writer or self.options.lock is not None
        with self.options.lock or nullcontext():
            return self.folder.create(name, data, single_writer=vouched)

    def _read_back(self, candidate: Candidate, failure: Exception | None) -> dict[str, Any] | None:
        """The snapshot of that number, whoever made it."""
        try:
            data = self.folder.read(f"snapshot/snapshot-{candidate.document['id']}")
            return None if data is None else parse_json_object(data, "snapshot")
        except (OSError, CorruptFile) as error:
            raise self._unknown(candidate, failure or error) from error

    def _check_stays(self, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` where a writer that looks and then renames has put its snapshot over ours since it
        was read back: one such looked before ours was there, and was slow (1 of 1,000 rounds beside Java)."""
        try:
            there = self._document(candidate.document["id"])
        except (OrcidxError, OSError):
            return  # it was there, and a look more is no reason to fail
        if there is not None and there.get("uuid") != candidate.document["uuid"]:
            raise _overwritten(candidate, there)

    def _check_base(self, attempt: Attempt, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` where the snapshot below ours is not the one that ours was made of.

        A rollback deletes snapshots from the newest down, and not one that comes in meanwhile: that then stands above a
        gap, where Paimon's later commits run into it and are lost. As long as the hint leads readers below the gap
        nobody has seen it, and it is taken away again; the change is then tried on what the rollback left.
        """
        base, number = attempt.state.document, candidate.document["id"]
        if base is None:
            return
        try:
            below = self._document(number - 1)
            lowest = number - 1 if below is not None else self.files.nearest_below(number)
            unseen = below is None and lowest == self.files.hint("LATEST")
        except (OrcidxError, OSError):
            return  # ours is there, and nobody can tell of the one below
        if below == base or lowest is None:  # those below have expired
            return
        said = f"the table was rolled back to snapshot {lowest} or below while snapshot {number} was committed"
        if unseen and not self.discard([f"snapshot/snapshot-{number}"]):
            self.in_doubt = False
            conflict = CommitConflict(f"{said}; it was taken back, and the change can be run again")
            self.take_back(attempt.written, conflict)
            raise conflict
        what = f"roll the table back to {lowest}" if below is not None else f"delete snapshot/snapshot-{number}"
        raise CommitConflict(
            f"{said}, which is made of what was taken back: {what}, and run the change again",
            other_user=None if below is None else below.get("commitUser"),
            snapshot_id=number,
            left_behind=tuple(candidate.written),
        )

    def _unknown(self, candidate: Candidate, failure: Exception | None) -> CommitUncertain:
        number = candidate.document["id"]
        error = CommitUncertain(
            f"the storage failed while snapshot {number} was created ({failure}), and whether it took effect is not "
            f"known: look whether snapshot/snapshot-{number} has the uuid {candidate.document['uuid']}. Nothing was "
            "deleted. Called again with the same commit_user and identifier it is not committed twice",
            snapshot_id=number,
            left_behind=tuple(candidate.written),
        )
        signed: CommitUncertain = self._signed(error)
        return signed

    def _hint(self, number: int) -> None:
        """LATEST is a hint for readers, who look beyond it; a failure to write it changes nothing."""
        try:
            self.folder.put("snapshot/LATEST", str(number).encode())
        except (OrcidxError, OSError):
            return


def _await_renames(folder: str, number: int) -> None:
    """Waits until no writer on this disk can put its snapshot ``number`` over ours any more.

    Paimon's Java writes ``.snapshot-N.<uuid>.tmp``, looks whether ``snapshot-N`` is there, and renames without another
    look. Who writes its file after our create finds ours; so only those that lie there now can be in between, and each
    is renamed or deleted at the end (``RenamingSnapshotCommit``, ``FileIO.tryToWriteAtomic``).
    """
    temporary = re.compile(rf"\.snapshot-{number}\.\w+-.*\.tmp")  # ours has no dash: it replaces nothing
    deadline, pause = time.monotonic() + _RENAME_PATIENCE, 0.001
    with suppress(OSError):  # reading back tells of a disk that fails
        while any(map(temporary.fullmatch, os.listdir(folder))) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


def _overwritten(candidate: Candidate, there: dict[str, Any] | None) -> CommitConflict:
    number = candidate.document["id"]
    return CommitConflict(
        f"snapshot {number} was created and then overwritten by another writer, which does not create its snapshots "
        "exclusively; this change is lost, and its files are orphans",
        other_user=None if there is None else there.get("commitUser"),
        snapshot_id=number,
        left_behind=tuple(candidate.written),
    )


def _limits(asked: CommitOptions, options: Mapping[str, str]) -> tuple[int, float | None]:
    """How often a lost race is run again, and when no more: as the caller says, else the table's ``options``."""
    retries = asked.retries
    if retries is None:
        retries = parse_whole("commit.max-retries", options.get("commit.max-retries", "10"), least=0)
    timeout = asked.timeout
    if timeout is None and "commit.timeout" in options:
        timeout = parse_duration("commit.timeout", options["commit.timeout"])
    return retries, None if timeout is None else time.monotonic() + timeout
