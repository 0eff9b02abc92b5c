"""Which rows of a file a caller selects, without the predicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

from orcidx import InvalidQuery, ReadOptions, RowSelection
from orcidx.planner.request import TABLE_BATCHES, FileJob, ScanRequest, as_selection, listing_time, wanted_rows
from orcidx.predicate import col

STRIPES = np.array([0, 4, 10])


def rows(limit: int | None = None, **job: Any) -> list[int]:
    found = wanted_rows(FileJob("f", **job), ScanRequest(limit=limit), STRIPES, "f")
    assert found.length == 10
    return found.positions().tolist()


@pytest.mark.parametrize(
    "given",
    [
        [1, 5],
        np.array([1, 5]),
        pa.array([1, 5]),
        BitMap([1, 5]),
        BitMap64([1, 5]),
        np.isin(np.arange(10), [1, 5]),
        pa.array([row in (1, 5) for row in range(10)]),
        RowSelection.from_positions(np.array([1, 5]), 10),
    ],
    ids=lambda given: type(given).__name__,
)
def test_selections_of_every_form(given: Any) -> None:
    assert as_selection(given, 10).positions().tolist() == [1, 5]
    assert rows(selection=given) == [1, 5]


@pytest.mark.parametrize("length", [9, 11])
def test_selections_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(InvalidQuery, match=f"the mask has {length} values, but the file has 10 rows"):
        as_selection(np.zeros(length, bool), 10)
    with pytest.raises(InvalidQuery, match=f"the selection is for {length} rows, but the file has 10"):
        as_selection(RowSelection.all(length), 10)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, 3, 3), (-5, 3, 3), (0, 0, 0), (-5, -2, 0), (0, 99, 10), (-1, 1, 1)],
)
def test_ranges_end_with_the_file(start: int, stop: int, expected: int) -> None:
    assert rows(row_range=(start, stop)) == list(range(expected))


def test_ranges_within_the_file() -> None:
    assert rows(row_range=(3, 5)) == [3, 4]
    assert rows(row_range=(5, 3)) == []
    assert rows(row_range=(99, 100)) == []


def test_all_that_is_asked_holds_at_once() -> None:
    assert rows(stripes=(1,)) == [4, 5, 6, 7, 8, 9]
    assert rows(stripes=(1,), row_range=(2, 7), selection=[1, 4, 5, 6, 9], deleted=[5]) == [4, 6]
    assert rows(stripes=(1,), limit=2) == [4, 5]
    asked = ScanRequest(limit=2, where=col("x") > 1)
    assert wanted_rows(FileJob("f"), asked, STRIPES, "f").count == 10, "which rows match is not known yet"
    with pytest.raises(InvalidQuery, match="no stripe 2; the file has 2"):
        rows(stripes=(0, 2))


def test_bytes_of_a_stripe_that_is_decoded_in_one_call() -> None:
    plain = ScanRequest(options=ReadOptions(batch_bytes=1000))
    assert plain.bytes_at_once == 1000
    assert plain.as_table(1).bytes_at_once == 1000 * TABLE_BATCHES


def test_the_time_of_a_listing() -> None:
    assert listing_time(0.9) == "1970-01-01T00:00:00Z"
    assert listing_time(1_764_115_199.999) == "2025-11-25T23:59:59Z"


def test_a_condition_may_ask_for_the_file_when_rows_are_counted() -> None:
    plain = ScanRequest(columns=("a",), row_numbers="n", file_path="p")
    assert (plain.counting.columns, plain.counting.row_numbers, plain.counting.file_path) == ((), None, None)
    asked = ScanRequest(columns=("a",), file_path="p", where=col("p") == "f")
    assert asked.counting.file_path == "p"
