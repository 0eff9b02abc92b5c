"""Writing: columns of each form and the lineitem table, by codec; nanoseconds a row follow from ROWS."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa

import orcidx
from benchmarks.compare_writers import columns, lineitem

ROWS = 200_000


class Write:
    params = (
        ["int64 random", "int64 0..999", "double", "string comment", "timestamp us", "decimal(12,2)", "lineitem"],
        ["uncompressed", "zstd"],
    )
    param_names = ("table", "codec")

    def setup(self, name: str, codec: str) -> None:
        rng = np.random.default_rng(1)
        pa.set_cpu_count(1)
        self.table = lineitem(rng, ROWS) if name == "lineitem" else pa.table({"c": columns(rng, ROWS)[name]})

    def time_write(self, name: str, codec: str) -> None:
        orcidx.write_table(self.table, io.BytesIO(), compression=codec, use_threads=False)

    def track_bytes(self, name: str, codec: str) -> int:
        return int(orcidx.write_table(self.table, io.BytesIO(), compression=codec, use_threads=False).bytes)
