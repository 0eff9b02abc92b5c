"""What one should know of the rows of a Paimon table before they are read, given as warnings: a DataFrame has no other
place for it."""

from __future__ import annotations

import warnings

from orcidx.paimon_table.read.scan import TableScan
from orcidx.scanner.scan import Scan

__all__ = ["warned_of"]


def warned_of(rows: Scan | TableScan) -> tuple[str, ...]:
    """Warns of each note of a table's scan, and returns them."""
    notes = rows.notes if isinstance(rows, TableScan) else ()
    texts = tuple(dict.fromkeys(note.text for note in notes))
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return texts
