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
def skip_varints(window: Window, count: int) -> None: ...
