"""The commit: one more snapshot, whole or not at all, made on top of the newest one.

Everything that the snapshot names is written and read back first; then ``snapshot-N`` is created exclusively, and read
back to see that it is ours. A race that is lost is run again on the new newest snapshot. Before the create an error
takes back what the attempt wrote; after an error *in* the create nothing is deleted until the storage says who won.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orcidx.errors import CommitConflict, CommitUncertain, CorruptFile, InvalidQuery, OrcidxError, Unsupported, located
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon_table.commit.candidate import Candidate, Change, write_candidate
from orcidx.paimon_table.commit.candidate_check import check_candidate
from orcidx.paimon_table.commit.commit_options import LARGEST_IDENTIFIER, CommitOptions
from orcidx.paimon_table.commit.orphans import discard, take_back, taking_back
from orcidx.paimon_table.commit.renames import PATIENCE, Overwritten, await_renames
from orcidx.paimon_table.commit.table_state import ManifestFile, TableState, read_state
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.option_values import parse_duration, parse_whole
from orcidx.paimon_table.read.table_paths import schema_file
from orcidx.storage.folder import Folder

__all__ = ["Attempt", "Committed", "Committer"]

T = TypeVar("T", CommitConflict, CommitUncertain)

_CREATES = 3
"""How often the same snapshot is created again where an error left it absent."""


@dataclass(frozen=True)
class Committed:
    """A snapshot that is there; ``document`` is its JSON. ``repeated``: an earlier call made it. ``overwritten``:
    snapshots of this change that another writer's rename replaced before."""

    document: dict[str, Any]
    attempts: int
    repeated: bool = False
    overwritten: tuple[Overwritten, ...] = ()


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
        self.given = options
        self.cache: dict[str, ManifestFile] = {}
        self.state = read_state(files, self.cache, admitted=options.allow_options)
        self.folder = Folder(files.root, made_of=schema_file(files.root, self.state.schema))
        prefix = self.state.schema.options.get("commit.user-prefix", "orcidx")
        self.options = options.named(f"{prefix}-{uuid.uuid4()}")
        self.searched = 0
        self.overwritten: list[Overwritten] = []
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
        return read_state(self.files, self.cache, admitted=self.given.allow_options, known=self.state)

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

        ``change`` is called again after each race that is lost, where another writer's rename took its snapshot away,
        or where it raises ``CommitConflict`` itself. Raises
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
            lost = len(self.overwritten)
            try:
                document = self._try(attempt, change)
            except CommitConflict as conflict:
                final = conflict.snapshot_id is not None and len(self.overwritten) == lost
                late = deadline is not None and time.monotonic() > deadline
                if final or number > retries or late:
                    self._signed(conflict)
                    raise
                self._wait(number)
                self.state = self.read()
                self._check_not_carried()
                continue
            return None if document is None else Committed(document, number, overwritten=tuple(self.overwritten))

    def _check_not_carried(self) -> None:
        """Raises ``CommitUncertain`` where the table has what a snapshot of ours changed that is not there any more:
        run again, the change would be there twice."""
        for one in self.overwritten:
            if one.carried(self.state):
                raise self._signed(one.uncertain(self.state))

    def _wait(self, number: int) -> None:
        options = self.state.schema.options
        least = parse_duration("commit.min-retry-wait", options.get("commit.min-retry-wait", "10 ms"))
        most = parse_duration("commit.max-retry-wait", options.get("commit.max-retry-wait", "10 s"))
        time.sleep(min(most, least * 2 ** min(number - 1, 20)) * (1 + random.random() * 0.2))

    def _signed(self, error: T) -> T:
        error.commit_user, error.identifier = self.user, self.identifier
        return error

    def _try(self, attempt: Attempt, change: Callable[[Attempt], Change | None]) -> dict[str, Any] | None:
        with taking_back(self.folder, attempt.written):
            made = change(attempt)
            if made is None:
                return None
            candidate = write_candidate(
                attempt.state, made, self.folder, attempt.written, user=self.user, identifier=self.identifier
            )
            with located(file=self.files.root.name):
                check_candidate(attempt.state, made, candidate)
        self._create(attempt, made, candidate)
        self._hint(candidate.document["id"])
        self._check_stays(made, candidate)
        return candidate.document

    # ------------------------------------------------------------------ the atomic step

    def _create(self, attempt: Attempt, change: Change, candidate: Candidate) -> None:
        """Makes the candidate the newest snapshot; ``CommitConflict`` (taken back) where another one came first."""
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
                continue  # absent after an error: the same bytes again, under the same number
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
        if failure is not None and self.files.root.kind == "path":  # absent here means that it did not happen
            self.in_doubt = False
            take_back(self.folder, attempt.written, failure)
            raise failure
        raise self._signed(_unknown(candidate, failure)) from failure

    @property
    def _renamed_onto(self) -> bool:
        """Whether Paimon renames snapshots into place; elsewhere it needs a lock, or writes under the name itself."""
        return self.files.root.kind == "path"

    def _check_settled(self, attempt: Attempt, deadline: float) -> None:
        """Raises ``CommitConflict`` (taken back) unless the snapshot that the candidate is made of is still there, when
        no writer can rename its own over that one, or to where the candidate goes, any more."""
        number = attempt.state.snapshot_id
        await_renames(self.files.source("snapshot").location, [number, number + 1], deadline)
        base = attempt.state.document
        with taking_back(self.folder, attempt.written):
            if base is not None and self._document(number) != base:
                raise CommitConflict(f"snapshot {number} is another one than the change was made of; run it again")

    def _overwritten(self, change: Change, candidate: Candidate, there: dict[str, Any] | None) -> CommitConflict:
        self.overwritten.append(Overwritten(candidate, change, (there or {}).get("commitUser")))
        return self.overwritten[-1].conflict()

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
            raise self._signed(_unknown(candidate, failure or error)) from error

    def _check_stays(self, change: Change, candidate: Candidate) -> None:
        """Raises ``CommitConflict`` where a writer that looks and then renames has put its snapshot over ours since it
        was read back: one such looked before ours was there, and was slow (1 of 1,000 rounds beside Java)."""
        try:
            there = self._document(candidate.document["id"])
        except (OrcidxError, OSError):
            return  # it was there, and a look more is no reason to fail
        if there is not None and there.get("uuid") != candidate.document["uuid"]:
            raise self._overwritten(change, candidate, there)

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
        if unseen and not discard(self.folder, [f"snapshot/snapshot-{number}"]):
            self.in_doubt = False
            conflict = CommitConflict(f"{said}; it was taken back, and the change can be run again")
            take_back(self.folder, attempt.written, conflict)
            raise conflict
        what = f"roll the table back to {lowest}" if below is not None else f"delete snapshot/snapshot-{number}"
        raise CommitConflict(
            f"{said}, which is made of what was taken back: {what}, and run the change again",
            other_user=None if below is None else below.get("commitUser"),
            snapshot_id=number,
            left_behind=tuple(candidate.written),
        )

    def _hint(self, number: int) -> None:
        """LATEST is a hint for readers, who look beyond it; a failure to write it changes nothing."""
        try:
            self.folder.put("snapshot/LATEST", str(number).encode())
        except (OrcidxError, OSError):
            return


def _unknown(candidate: Candidate, failure: Exception | None) -> CommitUncertain:
    number = candidate.document["id"]
    return CommitUncertain(
        f"the storage failed while snapshot {number} was created ({failure}), and whether it took effect is not "
        f"known: look whether snapshot/snapshot-{number} has the uuid {candidate.document['uuid']}. Nothing was "
        "deleted. Called again with the same commit_user and identifier it is not committed twice",
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
