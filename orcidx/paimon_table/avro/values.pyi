from typing import Any

from typing_extensions import Buffer

class ValueSizes:
    def __init__(self, schema: Any) -> None: ...
    def check(self, block: Buffer, records: int, most: int) -> int: ...
