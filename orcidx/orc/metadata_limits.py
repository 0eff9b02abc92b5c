"""Limits on the metadata that is read from a file. Without these limits, reading a small file could take seconds, and
gigabytes of memory.

Compression can make a message a thousand times smaller, and a message of two bytes may become an object of hundreds of
bytes. Each limit has a minimum that applies to every file. Above the minimum, the limit grows with the number of stored
bytes. So large files can be read without changing an option.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orcidx.errors import Unsupported

if TYPE_CHECKING:
    from orcidx.options import LimitOptions

__all__ = ["MetadataLimits"]

METADATA_EXPANSION = 16
"""The factor by which metadata may always grow when it is decompressed. In real files the factor is three to ten."""
ITEM_BYTES = 4
COLUMN_BYTES = 100
STRIPE_BYTES = 1 << 10
"""A file may have an item for each ``ITEM_BYTES`` of its size, a column for each ``COLUMN_BYTES``, and a stripe for
each ``STRIPE_BYTES``, even if the option allows fewer. Real writers use more bytes for each item, column and stripe."""


@dataclass(frozen=True, slots=True)
class MetadataLimits:
    """The limits. The fields have the names and the values of the options. ``for_file`` makes the limits larger for
    larger files."""

    metadata_bytes: int = 32 << 20
    metadata_items: int = 250_000
    metadata_columns: int = 10_000
    metadata_stripes: int = 10_000

    @classmethod
    def of(cls, options: LimitOptions) -> MetadataLimits:
        asked = options.metadata_bytes, options.metadata_items, options.metadata_columns, options.metadata_stripes
        return _USUAL if asked == _USUAL_KEY else cls(*asked)

    @property
    def key(self) -> tuple[int, int, int, int]:
        """The limits, as a cache key."""
        return self.metadata_bytes, self.metadata_items, self.metadata_columns, self.metadata_stripes

    def for_file(self, size: int) -> MetadataLimits:
        """The limits of a file of ``size`` bytes."""
        if (
            size <= ITEM_BYTES * self.metadata_items
            and size <= COLUMN_BYTES * self.metadata_columns
            and size <= STRIPE_BYTES * self.metadata_stripes
        ):
            return self
        return replace(
            self,
            metadata_items=max(self.metadata_items, size // ITEM_BYTES),
            metadata_columns=max(self.metadata_columns, size // COLUMN_BYTES),
            metadata_stripes=max(self.metadata_stripes, size // STRIPE_BYTES),
        )

    def bytes_of(self, stored: int) -> int:
        """The maximum number of bytes that ``stored`` bytes may have after decompression."""
        return max(self.metadata_bytes, METADATA_EXPANSION * stored)

    def check_bytes(self, stored: int, length: int) -> None:
        """Raises ``Unsupported`` if ``stored`` bytes have more bytes after decompression than the limits allow."""
        if length > (most := self.bytes_of(stored)):
            raise _too_many(f"the metadata has {length} bytes before compression", most, "metadata_bytes")

    def check_items(self, count: int, what: str) -> None:
        """Raises ``Unsupported`` if ``count`` is more than the option ``metadata_items`` allows. ``what``: the name of
        the counted items, for the message."""
        if count > self.metadata_items:
            raise _too_many(f"the stripe footers have {count} {what}", self.metadata_items, "metadata_items")

    def check_columns(self, count: int) -> None:
        """Raises ``Unsupported`` for more columns than the limits allow, before any column is read."""
        if count > self.metadata_columns:
            raise _too_many(f"the file has {count} columns", self.metadata_columns, "metadata_columns")

    def check_stripes(self, count: int) -> None:
        """Raises ``Unsupported`` for more stripes than the limits allow."""
        if count > self.metadata_stripes:
            raise _too_many(f"the file has {count} stripes", self.metadata_stripes, "metadata_stripes")

    def check_names(self, letters: int) -> None:
        """Raises ``Unsupported`` if the names of all columns together have more characters than the limits allow. The
        name of a column includes the names of the structs that contain it."""
        if letters > self.metadata_bytes:
            raise _too_many(
                f"the names of all columns have {letters} characters together", self.metadata_bytes, "metadata_bytes"
            )


_USUAL = MetadataLimits()
_USUAL_KEY = _USUAL.key


def _too_many(what: str, most: int, option: str) -> Unsupported:
    return Unsupported(
        f"{what}, more than the limit of {most} for a file of this size; raise the option {option} to read it"
    )
