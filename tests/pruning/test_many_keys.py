"""``is_in`` with many keys: all keys are tested together against bounds, filters and dictionaries."""

from __future__ import annotations

import decimal
import io
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx import col
from orcidx.orc import evidence
from orcidx.planner import bloom_choice
from orcidx.pruning import bounds

KINDS = [pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(20, 2), pa.date32()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_keys_are_probed_at_once_as_one_by_one(kind: pa.DataType) -> None:
    """All keys are sorted and tested against the bounds together, and all hashes are tested against each filter
    together. The kept rows are the same as if a few keys were tested at a time."""
    numbers = np.random.default_rng(7).permutation(np.arange(0, 4000, 4))
    values = _as_kind(numbers, kind)
    out = io.BytesIO()
    table = pa.table({"x": values, "y": values.take(pa.array(np.argsort(numbers)))})
    orcidx.write_table(table, out, row_index_stride=50, bloom_filter_columns=["x"], compression="none")
    rng = np.random.default_rng(8)
    with orcidx.open(out.getvalue()) as file:
        for name in ("x", "y"):
            for picked in (np.arange(1, 4000, 4), np.array([0, 3996, *range(1, 200, 4)]), rng.integers(-50, 5000, 40)):
                keys = _as_kind(picked, kind).to_pylist()
                together = _kept(file, col(name).is_in(keys))
                few = len(keys)
                with mock.patch.object(evidence, "FEW_LITERALS", few), mock.patch.object(bounds, "FEW_LITERALS", few):
                    in_turn = _kept(file, col(name).is_in(keys))
                assert together.tolist() == in_turn.tolist(), (name, keys[:3])
                assert file.scan(where=col(name).is_in(keys)).count_rows() == np.isin(numbers, picked).sum()


def _as_kind(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([decimal.Decimal(int(number)).scaleb(-1) for number in numbers], kind)
    if kind in (pa.string(), pa.binary()):
        return pa.array([f"{number:06}" for number in numbers.tolist()], pa.string()).cast(kind)
    return pa.array(numbers.astype(np.int32 if kind == pa.date32() else np.int64)).cast(kind)


def _kept(file: orcidx.OrcFile, where: Any) -> np.ndarray:
    kept = np.zeros(20, np.bool_)
    with mock.patch.object(bloom_choice, "BLOOM_SHARE", float("inf")):
        for stripe in file.scan([], where).stripes():
            kept |= stripe.decision.kept  # if the whole stripe was ruled out, this array has a single value
    return kept
