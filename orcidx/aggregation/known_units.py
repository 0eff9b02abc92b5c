"""Classes for requesting totals of whole files, and for the totals that are already known. Known totals come from an
index directory, so their files are not opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from orcidx.aggregation.column_totals import ColumnTotals, Wanted
from orcidx.aggregation.value_forms import Comparable

__all__ = ["KnownColumn", "KnownUnit", "TotalledColumn"]


@dataclass(frozen=True)
class TotalledColumn:
    """A column whose totals are requested. It says in which type the column is read, and which totals are computed."""

    kind: pa.DataType
    wanted: Wanted


@dataclass(frozen=True)
class KnownColumn:
    """The totals of one column, for the files of a ``KnownUnit``. ``minimum`` and ``maximum`` are in the forms of
    ``value_forms``."""

    count: int
    total: int
    minimum: Comparable | None
    maximum: Comparable | None

    def add_to(self, totals: ColumnTotals) -> None:
        """Adds these totals to ``totals``."""
        totals.count += self.count
        totals.total += self.total
        if self.minimum is not None and self.maximum is not None:
            totals.take_bounds(self.minimum, self.maximum)


@dataclass(frozen=True)
class KnownUnit:
    """Some files of one partition. Every row of these files matches the predicate. ``example``: the position of one of
    these files in the list of the scan's files. ``rows``: the number of rows of all these files together. ``columns``:
    totals by column."""

    example: int
    rows: int
    columns: Mapping[str, KnownColumn]
