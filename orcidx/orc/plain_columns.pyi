from typing import Any

import pyarrow as pa

from orcidx.threads.work import WorkItem

PLAIN_ROWS: int

class Allowance:
    arrays: int
    held: int
    def __init__(self, arrays: int, *, held: int) -> None: ...

class PlainColumns(WorkItem):
    def result(self) -> tuple[list[pa.Array[Any]], int, int] | None: ...
