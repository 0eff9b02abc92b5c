from collections.abc import Sequence
from enum import IntEnum
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Int64s = npt.NDArray[np.int64]

class TypedPart(IntEnum):
    NOTHING = 0
    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BUCKET = 5
    DECIMAL = 6
    DATE = 7
    BINARY = 8
    TIMESTAMP = 9
    COLLECTION = 12

class StatisticsArrays(TypedDict):
    count: Int64s
    has_null: npt.NDArray[np.int8]
    bytes_on_disk: Int64s
    fields: npt.NDArray[np.uint32]
    integers: Int64s
    doubles: npt.NDArray[np.float64]
    spans: Int64s

class Message:
    name: str
    def __init__(self, buffer: Buffer, name: str, most: int = ...) -> None: ...
    def has(self, number: int) -> bool: ...
    def uint(self, number: int, default: int = 0) -> int: ...
    def blob(self, number: int, default: bytes = b"") -> bytes: ...
    def double(self, number: int) -> float | None: ...
    def text(self, number: int, errors: str = "strict") -> str: ...
    def blobs(self, number: int) -> list[bytes]: ...
    def uints(self, number: int) -> list[int]: ...

def split_messages(buffer: Buffer, number: int, name: str, most: int = ...) -> tuple[Int64s, Int64s]: ...
def split_nested_messages(
    buffer: Buffer, outer: int, inner: int, name: str, most: int = ...
) -> tuple[Int64s, Int64s, Int64s]: ...
def read_index_entries(buffer: Buffer, most: int = ...) -> tuple[Int64s, Int64s, Int64s, Int64s]: ...
def read_statistics(
    buffer: Buffer, starts: Int64s | Sequence[int], stops: Int64s | Sequence[int], part: TypedPart
) -> StatisticsArrays: ...
