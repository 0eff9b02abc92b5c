"""Finds the stripes and row groups of a file in which all rows, or no rows, are in a range of numbers. Only minima and
maxima are used.

The general code (``planner/stripe_pruning``) combines many kinds of evidence, and records why rows are skipped. This
module supports only conditions that compare numbers and dates with literals. It uses only statistics, which describe
whole stripes and row groups. An aggregation needs no reasons. So two masks are enough: one for the units that may
match, and one for the units in which all rows match. A unit is a stripe or a row group. This module makes a third of
the calls that the general code makes (decision 0152). Both modules use the same table of bounds (``pruning/bounds``),
under the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import located
from orcidx.fetching.drive import run_value
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.column_readers import ColumnReader, open_column
from orcidx.orc.evidence import compares_alike, proved_of_units
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.reader import OpenStripe, stripe_limits
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import RawStatistics, stripe_statistics
from orcidx.orc.types import OrcType, row_bytes
from orcidx.planner.data_fetches import LOCAL_PIECE_BYTES
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.predicate import BoundLeaf, BoundPredicate, Op
from orcidx.predicate.fold import fold, parts
from orcidx.pruning.row_forms import runs_of_mask
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.survivors import Survivors, as_batch, picked

__all__ = ["RangeUnits"]

Bools = npt.NDArray[np.bool_]
Masks = tuple[Bools, Bools]
"""For each unit: whether some row may match, and whether every row matches."""

FEW_GROUP_RUNS = 8
"""If the remaining row groups of a stripe form at most this many runs, each run is read separately."""

_RANGES = (Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN)
_KINDS = frozenset(
    {
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
        TypeKind.DECIMAL,
        TypeKind.DATE,
    }
)


@dataclass(frozen=True)
class RangeUnits:
    """Evaluates the condition of a scan on the stripes and row groups of one local file. ``places``: the column of each
    leaf of the condition, by the path of the leaf. The scan must not exclude rows in other ways, such as by a
    selection.

    If a method raises ``CorruptFile`` or ``Unsupported``, the caller uses the general code instead.
    """

    scan: FileScan
    where: BoundPredicate
    places: Mapping[tuple[str, ...], OrcType]

    @classmethod
    def of(cls, scan: FileScan) -> RangeUnits | None:
        """Returns the ``RangeUnits`` for a scan of a file. Returns None if evidence other than minima and maxima may
        exist. Also returns None if the scan excludes rows in other ways than by its condition."""
        if scan.request.where is None or not scan.rows.is_plain or scan.job.file_index is not None:
            return None
        if not (scan.options.row_index and scan.reader.storage.is_local) or scan.options.calendar != "proleptic":
            return None
        where, repeated = scan.columns.schema_plan.where, scan.reader.root.repeated_ids
        if where is None:
            return None
        places: dict[tuple[str, ...], OrcType] = {}
        for leaf in parts(where.root):
            if not isinstance(leaf, BoundLeaf):
                return None
            node = scan.columns.schema_plan.asked.places.get(leaf.path)
            if leaf.negated or leaf.op not in _RANGES or node is None or node.kind not in _KINDS:
                return None
            if node.id in repeated or not compares_alike(leaf, node, scan.options):
                return None
            places[leaf.path] = node
        return cls(scan, where, places)

    def stripes(self) -> Masks | None:
        """Returns the masks for the stripes. Returns None if the statistics of the stripes contradict each other."""
        tail = self.scan.reader.tail
        return self._masks(lambda node: stripe_statistics(tail, node))

    def groups(self, index: RowIndex) -> Masks | None:
        """Returns the masks for the row groups of a stripe, from the result of ``index``. Returns None if the
        statistics of the row groups contradict each other."""
        return self._masks(lambda node: index.columns[node.id].statistics)

    def index(self, stripe: int) -> RowIndex | None:
        """Returns the row index of all columns that are read. Returns None if one of these columns has no usable
        index."""
        scan = self.scan
        scan.reader.footer(stripe)
        nodes = scan.columns.schema_plan.asked.nodes
        indexes = StripeIndexes(scan.reader, stripe, nodes, nodes.keys())
        index: RowIndex | None = run_value(indexes.of_leaves(), scan.reader.storage)
        if index is None or index.untrusted or index.unseekable(nodes) is not None:
            return None
        return index

    def batches(self, stripe: int, index: RowIndex, groups: Bools) -> Iterator[pa.RecordBatch] | None:
        """Returns an iterator over the matching rows of the given row groups. Returns None if these row groups form too
        many runs, or if their rows are too large or of unknown size.

        All columns are read at once for each run of row groups. Usually only the row groups at the two ends of a range
        must be read. For so few rows, it does not save time to plan spans, to use several threads, or to decode some
        columns later, as ``stripe_reader`` does.
        """
        plan, reader = self.scan.columns.plan, self.scan.reader
        columns = [*plan.predicate, *plan.rest_columns]
        sizes = [row_bytes(column) for column in columns]
        runs = index.bounds[runs_of_mask(groups)].tolist()
        most = max(stop - start for start, stop in runs)
        if len(runs) > FEW_GROUP_RUNS or most > self.scan.options.batch_size or None in sizes:
            return None
        if most * sum(size or 0 for size in sizes) > self.scan.options.batch_bytes // 2:
            return None
        if (0, StreamKind.PRESENT) in reader.extents(stripe):  # rows of the root column may be null
            return None
        return self._read(stripe, index, columns, runs, groups)

    def _read(
        self, stripe: int, index: RowIndex, columns: Sequence[OrcType], runs: Sequence[Sequence[int]], groups: Bools
    ) -> Iterator[pa.RecordBatch]:
        scan, plan = self.scan, self.scan.columns.plan
        limits = stripe_limits(scan.reader.stripes[stripe], scan.options)
        opened = OpenStripe(scan.reader, stripe, index=index, read_ahead=LOCAL_PIECE_BYTES, limits=limits)
        options = [*plan.predicate_options, *(plan.output_options[place] for place in plan.rest)]
        exact = [*plan.exact_times, *(False for _ in plan.rest)]
        readers = []
        with located(file=scan.reader.name, stripe=stripe):
            for column, chosen, time in zip(columns, options, exact):
                readers.append(open_column(column, opened, chosen, file=scan.reader.facts, exact_times=time))
            opened.plan(columns, groups)
        asked = len(plan.predicate)
        unused = set(range(asked)).difference(plan.shared)
        for start, stop in runs:
            arrays = _read_run(readers, index, start, stop, file=scan.reader.name)
            asked_rows = pa.RecordBatch.from_arrays(arrays[:asked], names=plan.predicate_names)
            rows = KeptRows(self.where.evaluate(asked_rows))
            if rows.count:
                kept = [None if place in unused else array for place, array in enumerate(arrays)]
                if rows.count < stop - start:
                    kept = picked(kept, rows)
                found = Survivors(start, stop, rows, kept[:asked], rows.count)
                yield scan.columns.complete(as_batch(plan, found, kept[asked:], int(scan.reader.stripe_bounds[stripe])))

    def _masks(self, statistics: Callable[[OrcType], RawStatistics]) -> Masks | None:
        facts, options = self.scan.reader.facts, self.scan.options

        def part(leaf: object) -> Masks:
            assert isinstance(leaf, BoundLeaf)
            column = bound_statistics(statistics(self.places[leaf.path]), facts, options)
            return proved_of_units(leaf, column, options)

        may, must = fold(self.where.root, part, both=_all, either=_any)
        return None if np.count_nonzero(must & ~may) else (may, must)


def _read_run(readers: Sequence[ColumnReader], index: RowIndex, start: int, stop: int, *, file: str) -> list[pa.Array]:
    """Reads the rows of a run of row groups."""
    group = int(index.bounds.searchsorted(start, "right")) - 1
    with located(file=file, stripe=index.stripe, row_group=group):
        for reader in readers:
            reader.seek(index.positions(reader.node.ids, group))
        return [reader.read(stop - start) for reader in readers]


def _all(children: Iterator[Masks]) -> Masks:
    return reduce(lambda one, other: (one[0] & other[0], one[1] & other[1]), children)


def _any(children: Iterator[Masks]) -> Masks:
    return reduce(lambda one, other: (one[0] | other[0], one[1] | other[1]), children)
