from collections.abc import Callable

from typing_extensions import Buffer

class Compressor:
    name: str
    def __init__(
        self,
        *,
        name: str,
        level: int = 0,
        min_match: int = 0,
        window_log: int = 0,
        hash_log: int = 0,
        strategy: int = 0,
        through: Callable[[Buffer], Buffer] | None = None,
        functions: tuple[int, ...] | None = None,
        faster: Compressor | None = None,
        narrow: Compressor | None = None,
        for_numbers: Compressor | None = None,
        thorough: Compressor | None = None,
    ) -> None: ...
