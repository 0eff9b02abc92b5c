"""``RowWidth``: the number of bytes that the rows of a stripe take. This number determines how many rows are read at
once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.scanner.column_group import ColumnGroup
from orcidx.scanner.kept_columns import array_bytes
from orcidx.scanner.span_plan import FIRST_ROWS, SpanPlan

__all__ = ["RowWidth"]


ENABLED = True
"""Whether several batches are read at once. Some tests set it to False. The rows are then the same. If all rows are
returned, the batches are the same, too."""

SPAN_ROWS = 1 << 18
SPAN_ROWS_ALONE = 1 << 16
"""Several batches are read at once if together they have at most ``SPAN_ROWS`` rows. Each read makes some calls of
Python for each column, so fewer reads are faster. 524,288 rows at once are no faster. If all rows are returned without
threads, the limit is ``SPAN_ROWS_ALONE``, because larger arrays do not fit into the level 2 cache (decision 0060). In
other scans the limit must not depend on threads, because batches end where a read ends."""

READS_IN_MEMORY = 6
"""Several batches are read at once only if ``ahead_bytes`` has memory for this many such reads. A span that is decoded
ahead reserves twice its bytes, so threads can decode three of these spans ahead. With 4 instead of 6, the scan of one
stripe of 509 MiB takes 93 MiB of memory instead of 61 (decision 0060)."""


@dataclass
class RowWidth:
    """Determines how many rows to read at once, from the size of a row. If all types have a fixed size, the size of a
    row follows from the types. Otherwise the size is an average over the rows that were read so far. The average is
    computed for each column group."""

    options: ReadOptions
    whole: bool = False
    """Whether all rows of the stripe are returned."""
    share: float = 0.75
    """The share of ``batch_bytes`` for which a read is planned. It is below 1 because rows differ in size, and a read
    that is too large must be repeated."""
    first_rows: int = FIRST_ROWS
    """How many rows are read at once as long as their size is not known."""
    seen: dict[ColumnGroup, tuple[int, float]] = field(default_factory=dict)
    known: bool = False

    def learn(self, sizes: Mapping[ColumnGroup, float | None]) -> None:
        """Takes the number of bytes of a row of each column group, if all types of every group have a fixed size. The
        number is None for a group with other types."""
        if None not in sizes.values():
            self.known = True
            self.seen = {group: (1, size) for group, size in sizes.items() if size is not None and group.columns}

    def next_rows(self) -> int:
        """The number of rows that are read at once. They fit into a batch, or are the rows of several whole batches."""
        options, most = self.options, self.options.batch_size
        if not self.seen:
            return min(self.first_rows, most)
        size = 0.0
        for rows, seen in self.seen.values():  # a generator would cost a call for each group
            size += seen / rows
        size = max(size, 1e-9)  # rows without bytes
        fitting = options.batch_bytes * self.share / size
        if fitting < most or not ENABLED:
            return max(1, min(most, int(fitting)))
        fitting = min(fitting, options.ahead_bytes / READS_IN_MEMORY / size)
        alone = self.whole and not options.use_threads
        return most * max(1, int(min(fitting, SPAN_ROWS_ALONE if alone else SPAN_ROWS)) // most)

    def row_bytes(self, group: ColumnGroup) -> float | None:
        """The average number of bytes of a row so far."""
        rows, size = self.seen.get(group, (0, 0))
        return size / rows if rows else None

    def fits(self, group: ColumnGroup, rows: int) -> bool:
        """Whether this many rows are expected to fit into ``batch_bytes``. One row always fits."""
        size = self.row_bytes(group)
        return rows <= 1 or size is None or rows * size <= self.options.batch_bytes * (1 + self.share) / 2

    def saw(self, group: ColumnGroup, arrays: Sequence[pa.Array], rows: int) -> None:
        if not self.known:
            self.saw_bytes(group, sum(map(array_bytes, arrays)), rows)

    def saw_bytes(self, group: ColumnGroup, size: int, rows: int) -> None:
        """Records that ``rows`` rows of a group took ``size`` bytes."""
        if not self.known:
            before, seen = self.seen.get(group, (0, 0))
            self.seen[group] = before + rows, seen + size

    def was_too_large(self, spans: SpanPlan) -> None:
        """Plans smaller reads, because the rows of a read were larger than expected."""
        spans.drop()
        if self.seen:
            self.share = max(0.25, self.share * 0.75)
