import numpy as np
import numpy.typing as npt

class WrittenPositions:
    groups: int
    def __init__(self, groups: int) -> None: ...
    def append(self, numbers: npt.NDArray[np.int64]) -> None: ...
