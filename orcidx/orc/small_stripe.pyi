from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from orcidx.orc.compression import Codec
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType

MOST_ROWS: int

class HeldStream:
    length: int
    def __init__(self, data: memoryview, offset: int, length: int) -> None: ...
    def fetch(self, offset: int) -> memoryview: ...

class Recipe: ...

def recipe_of(columns: Iterable[OrcType], types: Iterable[pa.DataType], *, checked: bool) -> Recipe | None: ...
def read_stripe(
    recipe: Recipe,
    data: memoryview,
    first: int,
    footer: StripeFooter,
    rows: int,
    codec: Codec | None,
    block_size: int,
    *,
    most: int,
    held: int,
    shifted: bool,
) -> tuple[list[pa.Array[Any]], int, int] | None: ...
