from typing import Protocol

from typing_extensions import Buffer

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
