"""Makes files that several suites share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc


def many_row_groups(folder: Path) -> Path:
    """A file of 10,000 row groups of 100 rows. Its columns are a clustered key, a scattered key and a word, all with
    bloom filters."""
    path = folder / "many-row-groups.orc"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        rows = 1_000_000
        scattered = np.random.default_rng(3).permutation(rows)
        columns = {"clustered": np.arange(rows), "scattered": scattered, "word": [f"w{i % 5000}" for i in range(rows)]}
        pa.orc.write_table(
            pa.table(columns),
            path.with_suffix(".fresh"),
            compression="zstd",
            row_index_stride=100,
            bloom_filter_columns=[0, 1, 2],
        )
        path.with_suffix(".fresh").replace(path)
    return path
