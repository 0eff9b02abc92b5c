"""Indexes that are built batch by batch have the same bytes as indexes of whole columns. They use little memory while
they are built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.paimon import bitmap, bsi, range_bitmap
from orcidx.paimon.data_types import parse_type
from orcidx.paimon.key_arrays import Encoded, key_column
from orcidx.paimon.registry import _Collector, open_builder

BUILD = {"bitmap": bitmap.build, "range-bitmap": range_bitmap.build, "bsi": bsi.build}


def values_of(rng: np.random.Generator, rows: int, distinct: int, nulls: float, text: bool) -> pa.Array:
    numbers = rng.integers(0, distinct, rows) * 7 - distinct
    mask = rng.random(rows) < nulls
    if not text:
        return pa.array(numbers, pa.int64(), mask=mask)
    return pa.array([None if null else f"value {n}" for n, null in zip(numbers.tolist(), mask)], pa.string())


@pytest.mark.parametrize(
    ("kind", "text"),
    [("bitmap", True), ("bitmap", False), ("range-bitmap", True), ("range-bitmap", False), ("bsi", False)],
)
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_batches_give_the_bytes_of_the_whole_column(
    rng: np.random.Generator, kind: str, text: bool, nulls: float
) -> None:
    """Batches have few or many distinct values, only nulls, or no rows, in different orders."""
    data_type = parse_type("STRING" if text else "BIGINT")
    none = pa.nulls(50, pa.string() if text else pa.int64())
    shapes = [(1000, 3), (300, 5000), (0, 1), (2000, 400), (1, 1), (3000, 256)]
    batches = [values_of(rng, rows, distinct, nulls, text) for rows, distinct in shapes] + [none]
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 2, 1, 0, 3, 4], [1, 6], [0, 6, 3], [6], [2], []):
        builder = open_builder(kind, data_type)
        for number in order:
            builder.add(key_column(batches[number], data_type))
        whole = pa.chunked_array([batches[number] for number in order], none.type).combine_chunks()
        expected: Any = BUILD[kind](key_column(whole, data_type))
        assert builder.finish().to_bytes() == expected.to_bytes(), order
        assert builder.finish().to_bytes() == expected.to_bytes(), order


@pytest.mark.parametrize(("distinct", "width"), [(50, 1), (3000, 2)])
@pytest.mark.parametrize("text", [True, False])
def test_a_row_of_few_values_holds_a_byte_or_two(
    rng: np.random.Generator, distinct: int, width: int, text: bool
) -> None:
    data_type = parse_type("STRING" if text else "BIGINT")
    builder = open_builder("bitmap", data_type)
    assert isinstance(builder, _Collector)
    for _ in range(10):
        builder.add(key_column(values_of(rng, 20_000, distinct, 0.0, text), data_type))
    held = [part.values for part in builder._parts]
    assert all(isinstance(one, Encoded) for one in held)
    assert sum(one.codes.nbytes for one in held) == width * 200_000
    assert sum(one.dictionary.nbytes for one in held) < 10 * distinct * 24


def test_rows_of_many_values_are_held_as_they_are(rng: np.random.Generator) -> None:
    builder = open_builder("range-bitmap", parse_type("BIGINT"))
    assert isinstance(builder, _Collector)
    values = pa.array(rng.permutation(1000))
    builder.add(key_column(values, parse_type("BIGINT")))
    assert isinstance(builder._parts[0].values, np.ndarray)
