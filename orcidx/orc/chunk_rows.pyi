from collections.abc import Callable

from orcidx.orc.window import Window

class ChunkRow:
    def help(self) -> None: ...

def share(window: Window, ask: Callable[[ChunkRow], None] | None) -> None: ...
