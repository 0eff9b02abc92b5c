"""``ColumnPlan`` says which columns a scan decodes. ``StripeRows`` has the rows of a stripe, without the rows that
indexes rule out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc.types import OrcType
from orcidx.predicate import BoundPredicate
from orcidx.pruning.selection import RowSelection

__all__ = ["ColumnPlan", "StripeRows"]


@dataclass(frozen=True)
class ColumnPlan:
    """The columns that a scan decodes. The plan is the same for all stripes of a file, and for most files with the same
    schema.

    ``output`` has top-level columns in the order of ``schema``, and ``output_options`` has the options of each.
    ``predicate`` has the columns that the residual filter needs. ``predicate_options`` has the options of these
    columns, and ``predicate_names`` has their names in the filter. ``exact_times`` says for each column of
    ``predicate`` whether its timestamps are read as exact 128-bit nanoseconds. If output ``i`` has the same array as a
    column of ``predicate``, ``shared[i]`` is the index of that column. Otherwise ``shared[i]`` is None. ``row_number``
    is the index in ``schema`` of the column of row numbers, or None.
    """

    schema: pa.Schema
    output: tuple[OrcType, ...]
    output_options: tuple[ReadOptions, ...]
    predicate: tuple[OrcType, ...]
    predicate_options: tuple[ReadOptions, ...]
    predicate_names: tuple[str, ...]
    exact_times: tuple[bool, ...]
    shared: tuple[int | None, ...]
    row_number: int | None
    where: BoundPredicate | None

    @cached_property
    def rest(self) -> tuple[int, ...]:
        """Output columns that are not among the predicate's columns."""
        return tuple([index for index, shared in enumerate(self.shared) if shared is None])


@dataclass(frozen=True)
class StripeRows:
    """The rows of a stripe that may match, and the rows that certainly match."""

    first_row: int
    bounds: npt.NDArray[np.int64]
    may: RowSelection
    must: RowSelection
