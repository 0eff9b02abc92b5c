"""``Changed``: what a change of a table did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orcidx.spellings import counted, size_text

__all__ = ["Changed"]


@dataclass(frozen=True)
class Changed:
    """The result of ``Table.rewrite_file_index``, ``delete`` and ``append``.

    ``snapshot_id``: the snapshot that was made. None if there was nothing to do, or with ``dry_run``. ``kind``: APPEND,
    COMPACT or OVERWRITE. ``files``: names of data files by their outcome. The outcomes of a rewrite are ``done``,
    ``complete`` (the file had every index), ``gone`` (no longer in the table), ``changed`` (another writer changed the
    entry of the file), ``new`` (added during the rewrite) and ``skipped`` (not selected for the rewrite). A delete only
    has ``done``, and an append only has ``new``. ``rows``: the number of rows that were deleted or appended. For a
    rewrite, it is the number of rows in the files that got indexes. ``bytes``: the size of the indexes, deletion
    vectors or data files that were written. ``planned_on``: the snapshot on which the change was planned. ``repeated``:
    whether an earlier call with the same user and identifier had already made the snapshot. ``notes``: remarks on the
    outcome.
    """

    snapshot_id: int | None
    kind: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    attempts: int = 0
    commit_user: str | None = None
    identifier: int | None = None
    previous_snapshot_id: int | None = None
    planned_on: int | None = None
    rollback: str | None = None
    dry_run: bool = False
    repeated: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Changed: {self}>"

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values.

        Returns
        -------
        dict
        """
        plain = {**self.__dict__, "files": {status: list(names) for status, names in self.files.items()}}
        return {**plain, "notes": list(self.notes)}

    def __str__(self) -> str:
        counts = ", ".join(f"{len(names)} {status}" for status, names in self.files.items() if names) or "no files"
        if self.dry_run:
            return f"would commit {self.kind}: {counts}; {counted(self.rows, 'row')}"
        if self.snapshot_id is None:
            return f"nothing to commit: {counts}"
        return (
            f"snapshot {self.snapshot_id} ({self.kind}): {counts}; {counted(self.rows, 'row')}, {size_text(self.bytes)}"
        )
