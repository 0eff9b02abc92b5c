from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Buffer

T = TypeVar("T")

class FooterParts:
    stripes: list[tuple[int, int, int, int, int]]
    items: list[bytes]
    type_bytes: bytes
    types: int
    software: bytes | None
    encryption: bytes | None
    stride: int
    writer: int
    calendar: int

def split_footer(data: Buffer, most: int) -> FooterParts: ...
def integer_extremes(data: Buffer, column: int) -> tuple[int, int, int] | None: ...
def split_postscript(data: Buffer, block_size: int) -> tuple[int, int, int, tuple[int, ...], int, int, int]: ...
def count_types(data: Buffer) -> int: ...
def read_types(data: Buffer, most: int, make: Callable[[int, tuple[Any, ...]], T]) -> list[T]: ...
