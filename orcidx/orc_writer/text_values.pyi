from collections.abc import Callable

from orcidx.orc_writer.bloom_filters import BloomBuilder
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.columns import BaseColumn
from orcidx.orc_writer.gathered_texts import Entries
from orcidx.orc_writer.source import ArraySource

class TextValues(BaseColumn):
    def __init__(
        self,
        open_stream: Callable[[], OutStream],
        *,
        threshold: float,
        checks_utf8: bool,
        bounds: bool,
        bloom: BloomBuilder | None = None,
        trims_for_bloom: bool = False,
        decides: bool = True,
    ) -> None: ...

class EntryValues(TextValues):
    def write_indexes(self, source: ArraySource, values: ArraySource, start: int, stop: int) -> int: ...
    def write_entries(self, source: ArraySource, entries: Entries, start: int, stop: int) -> int: ...
