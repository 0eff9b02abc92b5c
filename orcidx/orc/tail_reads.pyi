from typing import Any

from orcidx.orc.native_codec import NativeCodec
from orcidx.orc.small_file import FoundFile
from orcidx.threads.work import WorkItem

class TailPattern:
    like: Any
    def __init__(
        self,
        like: Any,
        *,
        columns: int,
        postscript: bytes,
        footer: bytes,
        codec: NativeCodec | None,
        block_size: int,
        most_fields: int,
        most_bytes: int,
        most_size: int,
    ) -> None: ...

class TailReads(WorkItem):
    left: int
    def __init__(self, paths: list[str], pattern: TailPattern | None, *, most: int, last: int) -> None: ...
    def take(self, path: str) -> FoundFile | None: ...
