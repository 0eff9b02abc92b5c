from typing import Any

from orcidx.orc.int_rle import IntRle
from orcidx.orc.window import Window

Buffer = Any

def read_decimals(
    values: Window,
    scales: IntRle,
    out: Buffer,
    count: int,
    *,
    scale: int,
    precision: int,
    rounding: str,
    streaming: bool = False,
) -> None: ...
def read_short_decimals(values: IntRle, out: Buffer, count: int, *, scale: int, precision: int) -> None: ...
def read_narrow_decimals(
    values: Window, scales: IntRle, out: Buffer, count: int, *, scale: int, precision: int, rounding: str
) -> None: ...
def read_narrow_short_decimals(values: IntRle, out: Buffer, count: int, *, scale: int, precision: int) -> None: ...
def widen_decimals(values: Buffer, out: Buffer) -> None: ...
def skip_varints(window: Window, count: int) -> None: ...
