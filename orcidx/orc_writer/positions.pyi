import numpy as np
import numpy.typing as npt

class PositionTable:
    groups: int
    def __init__(self, groups: int) -> None: ...
    def append(self, numbers: npt.NDArray[np.int64]) -> None: ...
