"""Gives the notes on the rows of a Paimon table as warnings before the rows are read, because a DataFrame has no
notes."""

from __future__ import annotations

import warnings

from orcidx.index_directory.lookup import unused_notes
from orcidx.paimon_table.read.scan import TableScan
from orcidx.scanner.scan import Scan

__all__ = ["catalog_notes", "warned_of"]


def warned_of(rows: Scan | TableScan) -> tuple[str, ...]:
    """Gives each note of a table's scan as a warning, and returns the notes."""
    notes = rows.notes if isinstance(rows, TableScan) else ()
    texts = tuple(dict.fromkeys(note.text for note in notes))
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return texts


def catalog_notes(rows: Scan | TableScan) -> list[str]:
    """Returns the text of the note that the indexes of a directory are not used. The list is empty if there is no such
    note."""
    return [note.text for note in unused_notes(rows.request)] if isinstance(rows, Scan) else []
