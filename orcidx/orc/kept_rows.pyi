from typing import Any

Buffer = Any

class Mask:
    rows: int
    count: int
    def __init__(self, mask: Buffer) -> None: ...
