from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from orcidx.orc_writer.bloom_filters import BloomBuilder
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.columns import BaseColumn

Open = Callable[[], OutStream]

class IntegerColumn(BaseColumn):
    def __init__(self, open_stream: Open, width: int, *, bloom: BloomBuilder | None = None) -> None: ...

class FloatColumn(BaseColumn):
    def __init__(self, open_stream: Open, width: int, *, bloom: BloomBuilder | None = None) -> None: ...

class BooleanColumn(BaseColumn):
    def __init__(self, open_stream: Open) -> None: ...

class ByteColumn(BaseColumn):
    def __init__(self, open_stream: Open, *, bloom: BloomBuilder | None = None) -> None: ...

class LengthColumn(BaseColumn):
    def __init__(self, open_stream: Open) -> None: ...
    def write_lengths(self, lengths: npt.NDArray[np.int64]) -> None: ...

class TagColumn(BaseColumn):
    def __init__(self, open_stream: Open) -> None: ...
    def write_tags(self, tags: npt.NDArray[np.uint8]) -> None: ...
