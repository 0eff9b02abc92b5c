"""``CharLeaf``: conditions on columns that are CHAR in the schema of a table, but may have another type in a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orcidx.predicate.nodes import Leaf

__all__ = ["CharLeaf"]


@dataclass(frozen=True, eq=False, repr=False)
class CharLeaf(Leaf):
    """A leaf on a column of type CHAR(``length``). Trailing spaces are ignored, also in a file that stores the column
    as a string."""

    length: int = 0

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return (*super()._key, self.length)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "length": self.length}
