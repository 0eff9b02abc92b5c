import numpy as np
import numpy.typing as npt

FIXED: int
BYTES: int
TIMESTAMP: int
DECIMAL: int

HashedColumn = tuple[
    int, npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint8] | None, npt.NDArray[np.int32] | None
]

def hash_rows(columns: list[HashedColumn], rows: int) -> npt.NDArray[np.int32]: ...
