from typing import Any

class ArraySource:
    array: Any
    length: int
    def __init__(self, array: Any) -> None: ...

def longest_text(array: Any) -> int: ...
