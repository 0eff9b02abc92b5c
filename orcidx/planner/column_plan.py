"""``ColumnPlan`` says which columns a scan decodes. ``StripeRows`` has the rows of a stripe, without the rows that
indexes rule out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import STRING_KINDS, OrcType, decimal_digits, row_bytes
from orcidx.pruning.selection import RowSelection

__all__ = ["ColumnPlan", "StripeRows", "as_wanted", "shared_column"]

NARROW_DIGITS = 18
"""The most decimal digits that always fit into 64 bits."""


@dataclass(frozen=True)
class ColumnPlan:
    """The columns that a scan decodes. The plan is the same for all stripes of a file, and for most files with the same
    schema. It does not depend on the values that a predicate compares with.

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

    @cached_property
    def rest(self) -> tuple[int, ...]:
        """Output columns that are not among the predicate's columns."""
        return tuple([index for index, shared in enumerate(self.shared) if shared is None])

    @cached_property
    def rest_columns(self) -> tuple[OrcType, ...]:
        """The columns of ``rest``."""
        return tuple([self.output[index] for index in self.rest])

    @cached_property
    def rest_options(self) -> tuple[ReadOptions, ...]:
        """The options of each column of ``rest``."""
        return tuple([self.output_options[index] for index in self.rest])

    @cached_property
    def without_predicate(self) -> ColumnPlan:
        """The plan for rows that certainly match. It reads only the output columns."""
        shared = (None,) * len(self.output)
        return replace(self, predicate=(), predicate_options=(), predicate_names=(), exact_times=(), shared=shared)

    @cached_property
    def decoded(self) -> int:
        """The number of columns that are decoded, including all columns below them. A column that is both in ``output``
        and in ``predicate`` counts twice."""
        return sum([len(column.ids) for column in (*self.output, *self.predicate)])

    @cached_property
    def widths(self) -> tuple[float | None, float | None]:
        """The number of bytes of a row of the predicate's columns in Arrow, and of a row of the columns of ``rest``.
        None if the types do not determine this number."""
        return _width_of(self.predicate), _width_of(self.rest_columns)

    @cached_property
    def returned(self) -> tuple[bool, ...]:
        """For each column of the predicate, whether an output column is made from it."""
        wanted = set(self.shared)
        return tuple([index in wanted for index in range(len(self.predicate))])

    @cached_property
    def texts(self) -> frozenset[int]:
        """The ids of the predicate's columns that are strings."""
        return frozenset([column.id for column in self.predicate if column.kind in STRING_KINDS])

    @cached_property
    def have_lengths(self) -> bool:
        """Whether a column of the predicate is a string or a binary."""
        return any(column.kind in STRING_KINDS or column.kind is TypeKind.BINARY for column in self.predicate)

    @cached_property
    def decimals(self) -> frozenset[int]:
        """The ids of the predicate's columns that are decimals of at most ``NARROW_DIGITS`` digits."""
        return frozenset(
            [
                column.id
                for column, chosen in zip(self.predicate, self.predicate_options, strict=True)
                if column.kind is TypeKind.DECIMAL and decimal_digits(column, chosen)[0] <= NARROW_DIGITS
            ]
        )


def _width_of(columns: Sequence[OrcType]) -> float | None:
    total = 0.0
    for column in columns:
        size = row_bytes(column)
        if size is None:
            return None
        total += size
    return total


@dataclass(frozen=True)
class StripeRows:
    """The rows of a stripe that may match, and the rows that certainly match."""

    first_row: int
    bounds: npt.NDArray[np.int64]
    may: RowSelection
    must: RowSelection

    @cached_property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Whether each row group has rows that may match."""
        return self.may.any_in(self.bounds)

    @cached_property
    def are_proved(self) -> bool:
        """Whether all rows that may match certainly match."""
        return self.may.issubset(self.must)


def as_wanted(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """The wanted field with ``kind``, the type to which the file's column is decoded. The metadata of the wanted field
    is kept at every level."""
    return pa.field(field.name, field.type if field.type == kind else kind, metadata=field.metadata)


_UNIT_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT, TypeKind.DATE})


def shared_column(
    column: OrcType,
    options: ReadOptions,
    predicate: Sequence[OrcType],
    exact: tuple[bool, ...],
    exact_options: ReadOptions,
) -> int | None:
    """The index of the predicate column that decodes to exactly this output. The result is None if there is no such
    column."""
    for index, other in enumerate(predicate):
        if other != column or exact[index]:
            continue
        if exact_options == options or not any(node.kind in _UNIT_KINDS for node in column.walk()):
            return index
    return None
