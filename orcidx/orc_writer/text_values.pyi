from collections.abc import Callable

from orcidx.orc_writer.bloom_filters import BloomBuilder
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.columns import Column
from orcidx.orc_writer.gathered_texts import Entries
from orcidx.orc_writer.source import Source

class TextValues(Column):
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
    def write_indexes(self, source: Source, values: Source, start: int, stop: int) -> int: ...
    def write_entries(self, source: Source, entries: Entries, start: int, stop: int) -> int: ...
