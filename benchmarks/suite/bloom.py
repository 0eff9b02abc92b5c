"""How many values per second can be added to a bloom filter?"""

import numpy as np
import pyarrow as pa

from orcidx import paimon

ROWS = 2_000_000
NUMBERS = np.random.default_rng(7).integers(0, 2**62, ROWS)
VALUES = {
    "int64": (pa.array(NUMBERS), "BIGINT"),
    "string of 20 bytes": (pa.array(np.char.zfill(NUMBERS.astype("U20"), 20)), "STRING"),
}


class Bloom:
    params = (list(VALUES),)
    param_names = ("values",)

    def time_build(self, values: str) -> None:
        array, data_type = VALUES[values]
        paimon.build_index("bloom-filter", array, data_type, {"items": 1_000_000, "fpp": 0.1})
