"""How fast are columns of several types and the table lineitem written, compared with pyarrow?"""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcidx
from benchmarks.compare_writers import PYARROW_LEVELS, columns, lineitem, peak_apart

ROWS = 200_000


class Write:
    params = (
        ["int64 random", "int64 0..999", "double", "string comment", "timestamp us", "decimal(12,2)", "lineitem"],
        ["uncompressed", "zstd"],
    )
    param_names = ("table", "codec")

    def setup(self, name: str, codec: str) -> None:
        rng = np.random.default_rng(1)
        self.table = lineitem(rng, ROWS) if name == "lineitem" else pa.table({"c": columns(rng, ROWS)[name]})

    def time_write(self, name: str, codec: str) -> None:
        level = PYARROW_LEVELS.get(codec)
        orcidx.write_table(self.table, io.BytesIO(), compression=codec, compression_level=level, use_threads=False)

    def time_write_pyarrow(self, name: str, codec: str) -> None:
        orc.write_table(self.table, io.BytesIO(), compression=codec, dictionary_key_size_threshold=0.8)

    def time_write_all_processors(self, name: str, codec: str) -> None:
        level = PYARROW_LEVELS.get(codec)
        orcidx.write_table(self.table, io.BytesIO(), compression=codec, compression_level=level, use_threads=True)

    def track_bytes(self, name: str, codec: str) -> int:
        return int(orcidx.write_table(self.table, io.BytesIO(), compression=codec, use_threads=False).bytes)


class WriteMemory:
    """The peak of memory while lineitem is written in a separate process."""

    params = (["pyarrow", "orcidx", "threads"],)
    param_names = ("writer",)
    unit = "MiB"

    def track_peak(self, writer: str) -> int:
        return peak_apart(writer, ROWS, "zstd")
