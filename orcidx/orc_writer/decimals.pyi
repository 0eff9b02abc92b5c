from collections.abc import Callable

from orcidx.orc_writer.bloom_filters import BloomBuilder
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.columns import BaseColumn

class DecimalColumn(BaseColumn):
    def __init__(
        self, open_stream: Callable[[], OutStream], precision: int, scale: int, *, bloom: BloomBuilder | None = None
    ) -> None: ...
