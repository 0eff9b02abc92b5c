"""Reads the columns of small stripes for which compiled code needs column readers, such as lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.orc.column_readers import BatchTooLarge, open_column
from orcidx.orc.columns.base import Limits
from orcidx.orc.held_stripe import HeldStripe
from orcidx.orc.metadata import FileFacts
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.planner.schema_plan import AtOnce

__all__ = ["HeldBytes", "ReaderColumns", "in_places", "read_others"]

DecodedRows = tuple[list[pa.Array], int, int]
"""Arrays, and the number of chunks and bytes that were decompressed for them."""

HeldBytes = tuple[int, memoryview]
"""The bytes of all streams of a stripe, and their offset in the file: (offset, bytes)."""


def read_others(
    wanted: AtOnce, facts: FileFacts, stripes: Sequence[tuple[HeldBytes, StripeFooter, int]], limits: Limits
) -> DecodedRows | None:
    """Returns all rows of the columns that need readers. Returns None if an error occurs, or if the rows of a stripe
    have too many bytes for one batch. ``stripes``: as in ``read_stripes``."""
    found: list[list[pa.Array]] = []
    chunks = size = 0
    for source, footer, rows in stripes:
        stripe = HeldStripe(source, footer, rows, facts, limits=limits, dictionaries=wanted.dictionaries)
        try:
            arrays = [
                open_column(wanted.columns[place], stripe, wanted.options[place], file=facts).read(rows)
                for place in wanted.recipe.others
            ]
        # After one of these errors, the normal reader reads the stripe. It raises the error again, or reads fewer rows
        # at once.
        except (OrcidxError, BatchTooLarge):
            return None
        found.append(arrays)
        chunks += sum([one.chunks_decompressed for one in stripe.windows])
        size += sum([one.bytes_decompressed for one in stripe.windows])
    if len(found) == 1:
        return found[0], chunks, size
    return [pa.concat_arrays(list(arrays)) for arrays in zip(*found)], chunks, size


@dataclass(eq=False)
class ReaderColumns:
    """Columns that need readers. For the parameters see ``read_others``."""

    wanted: AtOnce
    facts: FileFacts
    stripes: Sequence[tuple[HeldBytes, StripeFooter, int]]
    limits: Limits
    _found: DecodedRows | None = None

    def run(self) -> None:
        """Decodes the columns."""
        self._found = read_others(self.wanted, self.facts, self.stripes, self.limits)

    def result(self) -> DecodedRows | None:
        """The result of ``read_others``."""
        return self._found


def in_places(arrays: Sequence[pa.Array], places: Sequence[int]) -> list[pa.Array]:
    """Moves the last ``len(places)`` arrays to the positions ``places`` in the result. The other arrays keep their
    order."""
    plain = iter(arrays[: len(arrays) - len(places)])
    last = dict(zip(places, arrays[len(arrays) - len(places) :]))
    return [last[place] if place in last else next(plain) for place in range(len(arrays))]
