"""``OtherColumns``: reads the columns behind the filter, for the rows of a span that survived."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from orcidx.scanner.column_group import ColumnGroup
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.row_width import RowWidth
from orcidx.scanner.survivors import Survivors, picked

__all__ = ["OtherColumns"]


@dataclass
class OtherColumns:
    """``alone``: there are no columns of a predicate, so these are the ones that are decoded ahead, whole."""

    group: ColumnGroup
    width: RowWidth
    ahead: DecodeAhead | None
    alone: bool

    def begin(self, found: Survivors) -> None:
        """Makes threads begin with the rows, where that pays and there is memory for them."""
        size = self.width.row_bytes(self.group)
        if self.ahead is None or size is None or found.reach is None or self.alone or not self.group.cursors:
            return
        if self.ahead.has_room and self.width.fits(self.group, found.rows):
            self.ahead.begin(self.group.cursors, *found.reach, size)

    def read(self, found: Survivors) -> list[pa.Array]:
        """The columns of the rows. Raises ``BatchTooLarge`` where all rows of the span are too many."""
        if not self.group.columns:
            return []
        if found.kept is None:
            self.group.seek(found.start)
            return self._whole(found.stop - found.start)
        if found.reach is None:
            return self._runs(found.start, found.kept.runs())
        start, kept = found.reach
        self.group.seek(start)
        if self.ahead is not None and self.alone:
            return [array for array in picked(self._whole(len(kept)), kept, owned=True) if array is not None]
        arrays, size = self.group.read_kept(kept, self.ahead)
        self.width.saw_bytes(self.group, size, len(kept))
        return arrays

    def _whole(self, rows: int) -> list[pa.Array]:
        arrays = self.group.read(rows, self.ahead)
        self.width.saw(self.group, arrays, rows)
        return arrays

    def _runs(self, start: int, runs: list[list[int]]) -> list[pa.Array]:
        pieces: list[list[pa.Array]] = []
        for first, last in runs:
            self.group.seek(start + first)
            pieces.append(self.group.read(last - first, self.ahead))
        if len(pieces) == 1:
            return pieces[0]
        return [pa.concat_arrays(list(column)) for column in zip(*pieces)]
