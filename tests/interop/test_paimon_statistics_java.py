"""Statistics of appended files have the same bytes as those that Paimon's Java makes for the same rows."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from paimon_invariants import files_of
from paimon_java_values import TYPES, random_rows

from orcidx import write_table
from orcidx.paimon import open_table
from orcidx.paimon.data_types import parse_type
from orcidx.paimon_table.metadata.binary_row import BinaryRow

MODES = {
    "fields.code.stats-mode": "truncate(3)",
    "fields.text.stats-mode": "truncate(16)",
    "fields.day.stats-mode": "none",
    "fields.big.stats-mode": "counts",
    "fields.wide.stats-mode": "full",
}


def values_of(record: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    stats = record["_FILE"]["_VALUE_STATS"]
    kept = record["_FILE"].get("_VALUE_STATS_COLS") or columns
    kinds = [parse_type(TYPES[name]) for name in kept]
    bounds = [BinaryRow(stats[name]).values(kinds) for name in ("_MIN_VALUES", "_MAX_VALUES")]
    return dict(zip(kept, zip(*bounds, stats["_NULL_COUNTS"])))


def has_both_zeros(column: pa.ChunkedArray) -> bool:
    """Whether a column has -0.0 and 0.0. Java takes the first of the two as the bound. orcidx takes -0.0 as the minimum
    and 0.0 as the maximum, because in Paimon -0.0 is smaller than 0.0."""
    return {math.copysign(1, value) for value in column.to_pylist() if value == 0} == {1.0, -1.0}


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_statistics_of_random_rows(paimon_java: Any, rng: np.random.Generator, form: str) -> None:
    """Compares the statistics of files with random rows. ``ORCIDX_FILES=300`` sets the number of files, for a long run
    by hand."""
    columns = [name for name in TYPES if form == "orc" or name != "nanos"]
    types = {name: TYPES[name] for name in columns}
    options = {"bucket": "-1", "file.format": form, **MODES}
    folders = {who: paimon_java.create(f"random_{form}_{who}", types, options=options) for who in ("java", "ours")}
    for number in range(int(os.environ.get("ORCIDX_FILES", "8"))):
        rows = random_rows(rng, int(rng.integers(1, 12)), columns)
        carried = rows.set_column(columns.index("clock"), "clock", rows["clock"].cast(pa.int32()))
        paimon_java.write(f"random_{form}_java", carried, carrier=write_table)
        open_table(folders["ours"]).append(rows)
        (theirs,), (mine,) = (files_of(folder).delta for folder in folders.values())
        assert values_of(mine, columns) == values_of(theirs, columns), (number, rows.to_pydict())
        if not any(has_both_zeros(rows[name]) for name in ("real", "score")):
            assert mine["_FILE"]["_VALUE_STATS"] == theirs["_FILE"]["_VALUE_STATS"]
        assert mine["_FILE"].get("_VALUE_STATS_COLS") == theirs["_FILE"].get("_VALUE_STATS_COLS")
