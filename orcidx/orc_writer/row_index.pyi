from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def row_index_message(columns: Sequence[npt.NDArray[np.int64]], statistics: Sequence[bytes]) -> bytes: ...
