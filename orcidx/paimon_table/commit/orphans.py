"""Handles files that were written for a change but are not named by any snapshot. These files are deleted, or reported
to the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orcidx.errors import OrcidxError
from orcidx.storage.folder import Folder

__all__ = ["discard", "take_back", "taking_back"]


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
    """Deletes the files that were written before the error. Adds the files that could not be deleted to the error."""
    if left := discard(folder, paths):
        error.add_note(f"files that no snapshot names and that could not be deleted: {', '.join(left)}")


@contextmanager
def taking_back(folder: Folder, written: Sequence[str]) -> Iterator[None]:
    """Deletes the files in ``written`` if the ``with`` block fails."""
    try:
        yield
    except BaseException as error:
        take_back(folder, written, error)
        raise
