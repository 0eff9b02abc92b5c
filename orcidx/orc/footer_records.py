"""The records that footers list: stripes, types and encodings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from orcidx.orc.kinds import EncodingKind, TypeKind

__all__ = ["ColumnEncoding", "StripeInformation", "TypeRecord"]


class StripeInformation(NamedTuple):
    """The position of a stripe in the file, and its number of rows. Lengths are in bytes. ``index_length`` and
    ``data_length`` may be wrong, although their sum is correct (ORC-514). So streams are located only by adding up the
    lengths in the stripe footer."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def footer_offset(self) -> int:
        return self.offset + self.index_length + self.data_length

    @property
    def end(self) -> int:
        return self.footer_offset + self.footer_length


class TypeRecord(NamedTuple):
    """The type of one column, as the footer lists it. The position in the footer's list of types is the column id."""

    kind: TypeKind
    subtypes: tuple[int, ...] = ()
    field_names: tuple[str, ...] = ()
    max_length: int = 0
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[str, str], ...] = ()
    crs: str | None = None
    edge_algorithm: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """The encoding of one column of a stripe. ``bloom_encoding``: 0 or absent means the original encoding, 1 means
    timestamps in UTC (ORC-135)."""

    kind: EncodingKind
    dictionary_size: int = 0
    bloom_encoding: int = 0
