"""Columns that have one value in a whole file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.planner.constant_evidence import ConstantEvidence
from orcidx.planner.schema_mapping import FieldSource
from orcidx.predicate import bind, col
from orcidx.pruning.selection import RowSelection

P = pa.field("p", pa.int32())


@pytest.mark.parametrize(
    ("where", "value", "matches", "shown"),
    [
        (col("p") == 7, 7, True, "is 7 in the whole file"),
        (col("p") > 7, 7, False, "is 7 in the whole file"),
        (col("p") > 7, None, False, "is null in the whole file"),
        (col("p").is_null(), None, True, "is null in the whole file"),
    ],
)
def test_all_rows_or_none(where: Any, value: Any, matches: bool, shown: str) -> None:
    leaf: Any = bind(where, pa.schema([P])).root
    evidence = ConstantEvidence({("p",): FieldSource(P, None, value)}, 5)
    found = evidence.test(leaf, RowSelection.all(5))
    assert found is not None
    assert found.may == found.must == (RowSelection.all(5) if matches else RowSelection.none(5))
    assert found.describe(np.array([0, 4])) == [shown] * 2
    assert ConstantEvidence({}, 5).test(leaf, RowSelection.all(5)) is None
