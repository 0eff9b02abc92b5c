from typing import Any

from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask
from orcidx.orc.window import Window

Buffer = Any

def read_kept_decimals(
    values: Window, scales: IntRle, out: Buffer, mask: Mask, *, scale: int, precision: int, rounding: str
) -> None: ...
def read_kept_short_decimals(values: IntRle, out: Buffer, mask: Mask, *, scale: int, precision: int) -> None: ...
