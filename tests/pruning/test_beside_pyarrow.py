"""A short run of ``beside_pyarrow``. Its command line starts long runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pruning import beside_pyarrow


def test_rows_are_those_that_pyarrow_keeps(rng: np.random.Generator, tmp_path: Path) -> None:
    beside_pyarrow.run(100, rng, tmp_path, most_rows=8000)
