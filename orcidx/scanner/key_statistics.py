"""``KeyStatistics``: the statistics of one column for the file, its stripes and its row groups. They are compared with
keys."""

from __future__ import annotations

from collections.abc import Callable

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.bounds import StatisticsColumn
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import file_statistics, stripe_statistics
from orcidx.orc.types import OrcType
from orcidx.planner.pruned_columns import PrunedColumns
from orcidx.predicate import BoundLeaf
from orcidx.pruning.findings import Note, NoteKind
from orcidx.scanner.file_scan import FileScan

__all__ = ["KeyStatistics"]


class KeyStatistics:
    """The statistics of the column of a leaf. Notes say which statistics are damaged or not trusted."""

    def __init__(self, scan: FileScan, leaf: BoundLeaf) -> None:
        pruner = scan.evidence.pruner
        self.notes: list[Note] = [*pruner.notes]
        self._tail = scan.reader.tail
        self._leaf = leaf
        self._node = pruner.places[leaf.path]
        asked = {} if self._node is None else {leaf.path: self._node}
        self.columns = PrunedColumns(scan.reader, pruner.nodes, asked, pruner.columns.options)

    @property
    def node(self) -> OrcType:
        assert self._node is not None  # the file has the column; otherwise binding would have raised an error
        return self._node

    def note(self, source: str, kind: NoteKind, text: str, stripe: int | None = None) -> None:
        self.notes.append(Note(source, kind, text, self._leaf.column, stripe))

    def of_file(self) -> StatisticsColumn | None:
        """The statistics of the file. The result is None if the statistics are damaged. The other methods also return
        None for damaged statistics."""
        return self._known(
            "file statistics", lambda: self.columns.bounded(self.node, file_statistics(self._tail, self.node))
        )

    def of_stripes(self) -> StatisticsColumn | None:
        """Returns the statistics of all stripes, without using the time zones of their writers."""
        return self._known(
            "stripe statistics", lambda: self.columns.bounded(self.node, stripe_statistics(self._tail, self.node))
        )

    def of_stripe(self, stripe: int) -> StatisticsColumn | None:
        """Returns the statistics of one stripe, in the time zone of its writer. The footer of the stripe must have been
        read."""

        def read() -> StatisticsColumn:
            raw = stripe_statistics(self._tail, self.node, stripes=[stripe])
            return self.columns.bounded(self.node, raw, self.columns.zone(stripe))

        return self._known("stripe statistics", read)

    def of_groups(self, stripe: int, index: RowIndex) -> StatisticsColumn | None:
        """The statistics of the row groups of a stripe."""
        node = self.node
        if node.id in index.columns:
            return self.columns.bounded(node, index.columns[node.id].statistics, self.columns.zone(stripe))
        if node.id in index.untrusted:
            self.note("row-group statistics", "damaged", index.untrusted[node.id], stripe)
        return None

    def _known(self, source: str, read: Callable[[], StatisticsColumn]) -> StatisticsColumn | None:
        try:
            column = read()
        except (CorruptFile, Unsupported) as error:
            self.note(source, "damaged", error.message)
            return None
        if column.distrusted:
            self.note(source, "distrusted", column.distrusted)
        return column
