"""Timestamps are read as instants of a zone. Statistics and bloom filters have local times, and must not rule out
matching rows."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx import col

ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "GMT+05:30"]
TRANSITIONS = (1603587600, 1585443600, 1604217600, 1583661600)


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes sorted local times around the transitions of several zones, in many stripes, with bloom filters."""
    walls = np.concatenate([np.arange(at - 6 * 3600, at + 6 * 3600, 5) for at in sorted(TRANSITIONS)])
    old = np.arange(-2_300_000_000, -2_000_000_000, 100_003)
    data = pa.table({"at": pa.array(np.concatenate([old, walls]), pa.timestamp("s")).cast(pa.timestamp("ns"))})
    path = tmp_path_factory.mktemp("clocks") / "clocks.orc"
    orc.write_table(data, path, stripe_size=4096, row_index_stride=1000, bloom_filter_columns=[0], compression="zstd")
    return path


@pytest.mark.parametrize("zone", ZONES)
def test_no_row_is_lost_and_most_are_skipped(clocks: Path, zone: str, rng: np.random.Generator) -> None:
    with orcidx.open(clocks) as file:
        every = file.read(wall_clock_zone=zone)
        assert every.schema.field("at").type == pa.timestamp("ns", "UTC")
        seconds = every["at"].cast(pa.int64()).to_numpy() // 10**9
        for value in [*rng.choice(seconds, 40).tolist(), *(at + 1800 for at in TRANSITIONS)]:
            literal = datetime.datetime.fromtimestamp(value, datetime.UTC)
            for where, expected in (
                (col("at") == literal, seconds == value),
                (col("at") < literal, seconds < value),
                (col("at") >= literal, seconds >= value),
            ):
                assert file.scan(where=where, wall_clock_zone=zone).count_rows() == expected.sum(), where
        batches = file.scan(where=col("at") == literal, wall_clock_zone=zone).to_batches()
        assert sum(batch.num_rows for batch in batches) == (seconds == value).sum()
        assert batches.metrics.rows_considered < file.num_rows / 4


def test_naive_literals_are_refused(clocks: Path) -> None:
    with pytest.raises(orcidx.InvalidQuery, match="zone"):
        orcidx.scan(clocks, where="at > '2020-01-01'", wall_clock_zone="UTC").to_table()
