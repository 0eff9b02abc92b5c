"""How fast are Paimon's file indexes built, and how fast are values looked up in them?"""

import numpy as np
import pyarrow as pa

from orcidx import paimon

ROWS = 1_000_000
KINDS = {
    "bloom-filter": {"items": ROWS, "fpp": 0.1},
    "bitmap": {},
    "bsi": {},
    "range-bitmap": {},
}


def values(kind: str) -> pa.Array:
    distinct = 1000 if kind == "bitmap" else ROWS
    return pa.array(np.random.default_rng(5).integers(0, distinct, ROWS))


class FileIndex:
    params = (list(KINDS),)
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        self.values = values(kind)
        self.body = paimon.build_index(kind, self.values, "BIGINT", KINDS[kind]).to_bytes()
        self.hundred = list(range(100))

    def time_build(self, kind: str) -> None:
        paimon.build_index(kind, self.values, "BIGINT", KINDS[kind]).to_bytes()

    def time_equal(self, kind: str) -> None:
        paimon.read_index(kind, self.body, "BIGINT").evaluate("eq", [77])

    def time_in_100(self, kind: str) -> None:
        paimon.read_index(kind, self.body, "BIGINT").evaluate("in", self.hundred)

    def time_range(self, kind: str) -> None:
        paimon.read_index(kind, self.body, "BIGINT").evaluate("between", [100, 500])

    def track_size(self, kind: str) -> int:
        return len(self.body)

    track_size.unit = "bytes"  # type: ignore[attr-defined]


class Top:
    def setup(self) -> None:
        self.body = paimon.build_index("range-bitmap", values("range-bitmap"), "BIGINT").to_bytes()

    def time_top_10(self) -> None:
        paimon.read_index("range-bitmap", self.body, "BIGINT").top_k(10, descending=True, nulls_first=False)
