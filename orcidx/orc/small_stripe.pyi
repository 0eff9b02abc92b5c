from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from orcidx.orc.column_streams import StoredStripes
from orcidx.orc.compression import Codec
from orcidx.orc.kept_rows import Mask
from orcidx.orc.plain_columns import Allowance, PlainColumns
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType
from orcidx.storage.local_file import LocalFile

class Recipe:
    others: tuple[int, ...]
    @property
    def row_bytes(self) -> float | None: ...
    def is_for_a_file(self, footer: StripeFooter, rows: int, most: int) -> bool: ...
    def parts(self, count: int) -> list[Recipe]: ...

def recipe_of(
    columns: Iterable[OrcType], types: Iterable[pa.DataType], roundings: Iterable[str], *, checked: bool
) -> Recipe | None: ...
def begin_stripes(
    recipe: Recipe,
    stripes: StoredStripes,
    codec: Codec | None,
    block_size: int,
    *,
    allowance: Allowance,
    shifted: bool,
    decimal64: bool,
    piece: int = 0,
    mask: Mask | None = None,
) -> PlainColumns | None: ...
def read_stripes(
    recipe: Recipe,
    stripes: Sequence[tuple[tuple[int, bytes | memoryview] | LocalFile, StripeFooter, int]],
    codec: Codec | None,
    block_size: int,
    **options: Any,
) -> tuple[list[pa.Array[Any]], int, int] | None: ...
