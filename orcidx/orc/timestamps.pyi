from typing import Any

from orcidx.errors import ValueOutOfRange
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask

Buffer = Any

def beyond_32_bits() -> ValueOutOfRange: ...
def read_days(days: IntRle, out: Buffer, count: int, first: int, *, streaming: bool = False) -> bool: ...
def read_kept_days(days: IntRle, out: Buffer, mask: Mask, first: int) -> bool: ...
def decode(seconds: Buffer, nanos: Buffer, count: int, start: int) -> int: ...
def to_wall_clock(
    seconds: Buffer,
    count: int,
    *,
    transitions: Buffer,
    offsets: Buffer,
    hints: Buffer,
    hints_from: int,
    hint_seconds: int,
    repeats_from: int,
) -> None: ...
def combine(seconds: Buffer, nanos: Buffer, count: int, per_second: int, out: Buffer) -> int: ...
def combine_exactly(seconds: Buffer, nanos: Buffer, count: int, out: Buffer) -> None: ...
