from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orcidx.orc_writer.chunks import OutStream

class IntRuns:
    stream: OutStream
    def __init__(self, stream: OutStream, *, signed: bool) -> None: ...
    def write(self, values: npt.NDArray[np.int64] | Sequence[int]) -> None: ...
    def end(self) -> None: ...
