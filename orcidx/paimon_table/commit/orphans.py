"""Handles files that were written for a change but are not named by any snapshot. These files are deleted, or reported
to the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orcidx.errors import CommitConflict, CommitUncertain, OrcidxError
from orcidx.storage.folder import Folder

__all__ = ["discard", "name_left", "take_back", "taking_back"]


def discard(folder: Folder, paths: Sequence[str]) -> list[str]:
    """Deletes files, and returns the files that could not be deleted."""
    left = []
    for path in paths:
        try:
            folder.delete(path)
        except (OrcidxError, OSError):
            left.append(path)
    return left


def take_back(folder: Folder, paths: Sequence[str], error: BaseException) -> None:
    """Deletes the files that were written before the error. If some files cannot be deleted, adds their
    names to the error as a note."""
    if left := discard(folder, paths):
        error.add_note(f"files that no snapshot names and that could not be deleted: {', '.join(left)}")


def name_left(error: BaseException, paths: Sequence[str]) -> None:
    """Adds the names of files that stay on the storage to an error. The files are not deleted, because a snapshot of
    the change existed, or may exist."""
    if isinstance(error, CommitConflict | CommitUncertain):
        error.left_behind = tuple(dict.fromkeys((*error.left_behind, *paths)))
    elif paths:
        error.add_note(f"files that were written for the change and were not deleted: {', '.join(paths)}")


@contextmanager
def taking_back(folder: Folder, written: Sequence[str]) -> Iterator[None]:
    """Deletes the files in ``written`` if the ``with`` block fails."""
    try:
        yield
    except BaseException as error:
        take_back(folder, written, error)
        raise
