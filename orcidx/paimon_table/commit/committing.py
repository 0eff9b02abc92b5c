"""Commits a change. The next snapshot is created on top of the newest snapshot, completely or not at all.

First all files that the snapshot names are written and read back. Then the snapshot is created (``snapshot_creation``).
If another writer creates the next snapshot first, the commit is tried again on top of that snapshot.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orcidx.errors import CommitConflict, CommitUncertain, InvalidQuery, located
from orcidx.paimon_table.commit.candidate import Change, write_candidate
from orcidx.paimon_table.commit.candidate_check import check_candidate
from orcidx.paimon_table.commit.commit_options import CommitOptions
from orcidx.paimon_table.commit.orphans import name_left, taking_back
from orcidx.paimon_table.commit.renames import Overwritten
from orcidx.paimon_table.commit.snapshot_creation import Attempt, ChangeName, SnapshotCreation, document_of
from orcidx.paimon_table.commit.table_state import ManifestFile, TableState, read_state
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.option_values import parse_duration, parse_whole
from orcidx.paimon_table.read.table_paths import schema_file
from orcidx.storage.folder import Folder

__all__ = ["Committed", "Committer"]


@dataclass(frozen=True)
class Committed:
    """A committed snapshot. ``document``: its JSON. ``repeated``: whether an earlier call created the snapshot.
    ``overwritten``: earlier snapshots of this change that another writer's rename replaced. ``notes``: files of lost
    tries that could not be deleted."""

    document: dict[str, Any]
    attempts: int
    repeated: bool = False
    overwritten: tuple[Overwritten, ...] = ()
    notes: tuple[str, ...] = ()


class Committer:
    """Commits one change to one table under one user and identifier."""

    def __init__(self, files: TableFiles, options: CommitOptions) -> None:
        self.files = files
        self.cache: dict[str, ManifestFile] = {}
        self.state = read_state(files, self.cache, admitted=options.allow_options)
        self.folder = Folder(files.root, made_of=schema_file(files.root, self.state.schema))
        prefix = self.state.schema.options.get("commit.user-prefix", "orcidx")
        self.options = options.named(f"{prefix}-{uuid.uuid4()}")
        self.name = ChangeName.of(self.options)
        self.searched = 0
        self._notes: list[str] = []
        self._creation = SnapshotCreation(files, self.folder, self.options, self.name)

    @property
    def in_doubt(self) -> bool:
        """Whether the files of a snapshot of this change may be in use. There are two such cases. First, an error
        occurred during the creation of a snapshot, so the snapshot may exist. Second, another writer has replaced a
        snapshot of this change, and a third writer may have built on this snapshot before it was replaced."""
        return self._creation.in_doubt or bool(self._creation.overwritten)

    def read(self) -> TableState:
        """Reads the newest snapshot."""
        return read_state(self.files, self.cache, admitted=self.options.allow_options, known=self.state)

    # ------------------------------------------------------------------ exactly once

    def earlier(self, kind: str) -> Committed | None:
        """The snapshot that an earlier call with the same user and identifier made.

        Raises ``CommitUncertain`` if this snapshot may have expired. Raises ``InvalidQuery`` if a snapshot with this
        user and identifier has another commit kind.
        """
        if self.options.identifier is None:
            return None
        since = max(self.options.since or 0, self.searched)
        missing = None
        for number in range(self.state.snapshot_id, since, -1):
            document = document_of(self.files, number)
            if document is None:
                missing = number
                break
            if document.get("commitUser") != self.name.user or document.get("commitIdentifier") != self.name.identifier:
                continue
            if document.get("commitKind") != kind:
                raise InvalidQuery(
                    f"the user {self.name.user} has already used the identifier {self.name.identifier} for another "
                    f"change: snapshot {number} has the kind {document.get('commitKind')}, but this change has the "
                    f"kind {kind}; give another identifier"
                )
            return Committed(document, 0, repeated=True)
        if missing is not None:
            raise CommitUncertain(
                f"snapshots up to {missing} have expired, and one of them may have contained this change. Give since=, "
                "the number of the snapshot that was the newest one before the first call. Or check whether the table "
                "contains the change: if it does not, give a new identifier",
                commit_user=self.name.user,
                identifier=self.name.identifier,
                snapshot_id=missing,
            )
        self.searched = self.state.snapshot_id
        return None

    # ------------------------------------------------------------------ the loop

    def commit(self, kind: str, change: Callable[[Attempt], Change | None]) -> Committed | None:
        """Calls ``change`` with the newest snapshot, and commits the resulting change. ``kind`` is the commit kind.
        Returns None if there is nothing to change.

        ``change`` is called again in three cases: another writer has created the next snapshot first, another writer's
        rename has replaced the snapshot, or ``change`` itself has raised ``CommitConflict``. Raises ``CommitConflict``
        when no tries are left, and ``CommitUncertain`` if it is unknown whether the commit succeeded.
        """
        try:
            return self._commit(kind, change)
        except BaseException as error:
            for note in self._notes:
                error.add_note(note)
            # If it is unknown whether the commit succeeded, the table may use the files of the overwritten snapshots.
            # In this case the error does not name them as unused files.
            if not isinstance(error, CommitUncertain):
                name_left(error, [path for one in self._creation.overwritten for path in one.candidate.written])
            raise

    def _commit(self, kind: str, change: Callable[[Attempt], Change | None]) -> Committed | None:
        self.state = self.read()  # others may have committed or changed the schema since the change was planned
        retries, deadline = _limits(self.options, self.state.schema.options)
        number = 0
        while True:
            number += 1
            # ``earlier`` also finds a snapshot that another process has created since the last attempt, with the same
            # commit user and commit identifier.
            if found := self.earlier(kind):
                return found
            attempt = Attempt(self.state, self.folder)
            lost = len(self._creation.overwritten)
            try:
                document = self._try(attempt, change)
            except CommitConflict as conflict:
                final = conflict.snapshot_id is not None and len(self._creation.overwritten) == lost
                late = deadline is not None and time.monotonic() > deadline
                last = final or number > retries or late
                if not last:
                    self._wait(number)
                if self._creation.overwritten or not last:
                    self.state = self.read()
                    self._check_not_built_upon()
                if last:
                    self.name.signed(conflict)
                    raise
                self._notes += getattr(conflict, "__notes__", ())
                continue
            if document is None:
                return None
            overwritten = tuple(self._creation.overwritten)
            return Committed(document, number, overwritten=overwritten, notes=tuple(self._notes))

    def _check_not_built_upon(self) -> None:
        """Raises ``CommitUncertain`` if the snapshot of this change was replaced after another snapshot was built on
        it. Then the table has the change, and another try would make the change twice."""
        for one in self._creation.overwritten:
            if one.is_built_upon(self.state):
                raise self.name.signed(one.uncertain(self.state))

    def _wait(self, number: int) -> None:
        options = self.state.schema.options
        least = parse_duration("commit.min-retry-wait", options.get("commit.min-retry-wait", "10 ms"))
        most = parse_duration("commit.max-retry-wait", options.get("commit.max-retry-wait", "10 s"))
        time.sleep(min(most, least * 2 ** min(number - 1, 20)) * (1 + random.random() * 0.2))

    def _try(self, attempt: Attempt, change: Callable[[Attempt], Change | None]) -> dict[str, Any] | None:
        with taking_back(self.folder, attempt.written):
            made = change(attempt)
            if made is None:
                return None
            candidate = write_candidate(
                attempt.state, made, self.folder, attempt.written, user=self.name.user, identifier=self.name.identifier
            )
            with located(file=self.files.root.name):
                check_candidate(attempt.state, made, candidate)
        self._creation.create(attempt, made, candidate)
        self._creation.hint(candidate.document["id"])
        self._creation.check_stays(made, candidate)
        return candidate.document


def _limits(asked: CommitOptions, options: Mapping[str, str]) -> tuple[int, float | None]:
    """Returns how many times a commit is tried again, and the time (``time.monotonic``) after which no further try
    starts. The caller's values have priority over the table's options."""
    retries = asked.retries
    if retries is None:
        retries = parse_whole("commit.max-retries", options.get("commit.max-retries", "10"), least=0)
    timeout = asked.timeout
    if timeout is None and "commit.timeout" in options:
        timeout = parse_duration("commit.timeout", options["commit.timeout"])
    return retries, None if timeout is None else time.monotonic() + timeout
