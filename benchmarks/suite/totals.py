"""How fast are totals from statistics, from indexes and by decoding?"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import orcidx
from orcidx import paimon

ROWS = 2_000_000
WHERE = f"t between {ROWS // 8} and {ROWS // 8 * 7}"


class Totals:
    def setup_cache(self) -> tuple[str, bytes]:
        rng = np.random.default_rng(5)
        table = pa.table({"t": np.arange(ROWS), "v": rng.integers(-1000, 1000, ROWS), "g": rng.integers(0, 10, ROWS)})
        path = str(Path(tempfile.mkdtemp(), "totals.orc"))
        orcidx.write_table(table, path)
        return path, paimon.build_file_index(path, {"bitmap": {"g": {}}, "bsi": {"v": {}}})

    def time_sum_of_a_range(self, made: tuple[str, bytes]) -> None:
        orcidx.aggregate(made[0], {"s": "sum(v)"}, WHERE)

    def time_sum_of_a_range_by_scanning(self, made: tuple[str, bytes]) -> None:
        orcidx.read_table(made[0], ["v"], WHERE)

    def time_groups_by_indexes(self, made: tuple[str, bytes]) -> None:
        orcidx.open(made[0]).scan(file_index=made[1]).aggregate({"n": "count(*)", "s": "sum(v)"}, "g")

    def time_groups_by_decoding(self, made: tuple[str, bytes]) -> None:
        orcidx.aggregate(made[0], {"n": "count(*)", "s": "sum(v)"}, by="g")
