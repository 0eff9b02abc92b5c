from collections.abc import Callable

from orcidx.orc.native_codec import NativeCodec

class ChunksAhead:
    def __init__(
        self,
        codec: NativeCodec,
        *,
        block_size: int,
        stream_length: int,
        most: int,
        whole: bool,
        ask: Callable[[ChunksAhead], None],
    ) -> None: ...
    def help(self, most: int) -> bool: ...
    def go_on(self) -> None: ...
    def close(self) -> None: ...
    @property
    def held_bytes(self) -> int: ...
