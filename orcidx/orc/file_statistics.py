"""Statistics of an open file at every level. Statistics of the file and its stripes come from the file's tail.
Statistics of row groups come from the stripes' row indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery
from orcidx.orc import statistics
from orcidx.orc.kinds import StreamKind
from orcidx.orc.projection import find_columns
from orcidx.orc.row_index import RowIndex, build_row_index
from orcidx.orc.statistics import ColumnStatistics, Level, RawStatistics, file_statistics, stripe_statistics
from orcidx.orc.types import OrcType

if TYPE_CHECKING:
    from orcidx.orc.reader import OrcReader

__all__ = ["column_statistics", "read_row_index", "statistics_table"]

LEVELS: tuple[Level, ...] = ("file", "stripe", "row_group")


def column_statistics(
    reader: OrcReader, column: str | Sequence[str] | int, stripe: int | None, row_group: int | None
) -> ColumnStatistics | None:
    """Statistics of one column for the file, a stripe, or a row group of a stripe. None if there are none.

    ``column``: a path, or a column id. Raises ``InvalidQuery`` for an unknown column, stripe or row group.
    """
    node = _column_of(reader, column)
    unit = 0
    if stripe is None:
        if row_group is not None:
            raise InvalidQuery(
                "row_group= is given without stripe=, but row groups are numbered within their stripe; give stripe=, "
                "too"
            )
        raw = file_statistics(reader.tail, node)
    elif not 0 <= stripe < len(reader.stripes):
        raise InvalidQuery(f"there is no stripe {stripe}; the file has {len(reader.stripes)} stripes, numbered from 0")
    elif row_group is None:
        raw, unit = stripe_statistics(reader.tail, node), stripe
    else:
        index = read_row_index(reader, stripe, [node])
        found = index.columns.get(node.id)
        if found is None:
            # Without a row index, the result is None. For a damaged row index an error is raised, because the caller
            # requests this index directly.
            if reason := index.untrusted.get(node.id):
                raise CorruptFile(reason, file=reader.name, stripe=stripe, column=node.dotted, stream="ROW_INDEX")
            return None
        if not 0 <= row_group < index.groups:
            raise InvalidQuery(
                f"there is no row group {row_group}; the stripe has {index.groups} row groups, numbered from 0"
            )
        raw, unit = found.statistics, row_group
    starts, stops = raw.extents
    if starts[unit] == stops[unit]:
        return None
    return statistics.unit_statistics(raw, unit, hybrid=reader.facts.hybrid_calendar)


def _column_of(reader: OrcReader, column: str | Sequence[str] | int) -> OrcType:
    """The column with this path or column id. Raises ``InvalidQuery`` if there is no such column, or more than one."""
    if isinstance(column, int):
        nodes = [node for node in reader.root.walk() if node.id == column]
        if not nodes:
            raise InvalidQuery(
                f"there is no column id {column}; the file has the ids from 0 to {len(reader.root.ids) - 1}"
            )
        return nodes[0]
    nodes = find_columns(reader.root, column)
    if len(nodes) > 1:
        ids = ", ".join(str(node.id) for node in nodes)
        raise InvalidQuery(
            f"there are several columns {nodes[0].dotted!r}; instead of the name, give one of the column ids {ids}"
        )
    return nodes[0]


def read_row_index(reader: OrcReader, stripe: int, nodes: Iterable[OrcType]) -> RowIndex:
    """Reads the row index of some columns of a stripe in one request."""
    nodes = list(nodes)
    footer = reader.footer(stripe)
    extents = reader.extents(stripe)
    ranges = {node.id: place for node in nodes if (place := extents.get((node.id, StreamKind.ROW_INDEX)))}
    buffers = dict(zip(ranges, reader.storage.read_ranges(list(ranges.values()))))
    return build_row_index(reader.tail, stripe, footer, nodes, buffers)


def statistics_table(reader: OrcReader, level: str) -> pa.Table:
    """Statistics of all columns as one table, with a row for each column and unit. See ``statistics.units_table``.

    If a stripe has no usable index, its row groups are left out. Raises ``InvalidQuery`` for an unknown level.
    """
    if level not in LEVELS:
        raise InvalidQuery(f"level={level!r} is not one of {', '.join(map(repr, LEVELS))}")
    return statistics.units_table(_units(reader, level), hybrid=reader.facts.hybrid_calendar)


def _units(reader: OrcReader, level: str) -> Iterator[RawStatistics]:
    nodes = list(reader.root.walk())
    if level == "file":
        yield from (file_statistics(reader.tail, node) for node in nodes)
    elif level == "stripe":
        yield from (stripe_statistics(reader.tail, node) for node in nodes)
    else:
        for stripe in range(len(reader.stripes)):
            index = read_row_index(reader, stripe, nodes)
            yield from (found.statistics for found in index.columns.values())
