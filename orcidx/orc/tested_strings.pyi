from typing import Any

from orcidx.orc.int_rle import IntRle
from orcidx.orc.window import Window

Buffer = Any

MOST_LITERALS: int
LONGEST_LITERAL: int

def strings_among(lengths: IntRle, data: Window, out: Buffer, literals: tuple[bytes, ...], *, unread: int) -> int: ...
