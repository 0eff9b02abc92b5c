from collections.abc import Callable
from typing import Any

from orcidx.orc.int_rle import IntRle
from orcidx.orc.window import Window

Buffer = Any

def integers_within(values: IntRle, out: Buffer, width: int, low: int, high: int) -> None: ...
def days_within(
    days: IntRle, out: Buffer, low: int, high: int, first: int, move: Callable[[Buffer], None] | None
) -> None: ...
def decimals_within(
    values: Window, scales: IntRle, out: Buffer, low: int, high: int, *, scale: int, precision: int, rounding: str
) -> None: ...
def short_decimals_within(values: IntRle, out: Buffer, low: int, high: int, *, scale: int, precision: int) -> None: ...
