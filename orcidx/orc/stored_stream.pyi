from typing import Protocol

from typing_extensions import Buffer

from orcidx.orc.chunks_ahead import ChunksAhead
from orcidx.orc.native_codec import NativeCodec

class StreamSource(Protocol):
    @property
    def length(self) -> int: ...
    def fetch(self, offset: int) -> Buffer: ...

class StoredStream:
    name: str
    length: int
    block_size: int
    chunks_decompressed: int
    bytes_decompressed: int
    native: NativeCodec | None
    ahead: ChunksAhead | None
