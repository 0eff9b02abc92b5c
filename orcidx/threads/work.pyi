from collections.abc import Callable
from typing import Any

class WorkItem:
    error: BaseException | None
    def run(self) -> None: ...

class Call(WorkItem):
    def __init__(self, call: Callable[[], Any]) -> None: ...
