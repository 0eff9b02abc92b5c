from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from orcidx.orc.compression import Codec
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType
from orcidx.storage.local_file import LocalFile

PLAIN_ROWS: int

class HeldStream:
    length: int
    def __init__(self, data: memoryview, offset: int, length: int) -> None: ...
    def fetch(self, offset: int) -> memoryview: ...

class FileStream:
    length: int
    def __init__(self, file: LocalFile, offset: int, length: int, step: int, room: memoryview) -> None: ...
    def fetch(self, offset: int) -> memoryview: ...
    def read_into(self, offset: int, parts: list[memoryview]) -> int: ...

class Allowance:
    arrays: int
    held: int
    def __init__(self, arrays: int, *, held: int) -> None: ...

class Recipe:
    others: tuple[int, ...]
    @property
    def row_bytes(self) -> float | None: ...
    def is_for_a_file(self, footer: StripeFooter, rows: int, most: int) -> bool: ...
    def parts(self, count: int) -> list[Recipe]: ...

def recipe_of(columns: Iterable[OrcType], types: Iterable[pa.DataType], *, checked: bool) -> Recipe | None: ...
def read_stripe(
    recipe: Recipe,
    source: tuple[int, memoryview] | LocalFile,
    footer: StripeFooter,
    rows: int,
    codec: Codec | None,
    block_size: int,
    *,
    allowance: Allowance,
    shifted: bool,
    piece: int = 0,
) -> tuple[list[pa.Array[Any]], int, int] | None: ...
