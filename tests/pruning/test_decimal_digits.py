"""Conditions that compute with decimals. The expected results are computed with Python's decimals."""

from __future__ import annotations

import decimal
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx.errors import InvalidQuery

TYPES = [(10, 2), (18, 6), (38, 2), (38, 18), (20, 0), (38, 38)]
CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "d + 1 > 2": lambda d, i: d + 1 > 2,
    "d * 2 = 4": lambda d, i: d * 2 == 4,
    "-d < 0": lambda d, i: -d < 0,
    "d + d > 2": lambda d, i: d + d > 2,
    "abs(d) >= 1": lambda d, i: abs(d) >= 1,
    "d + i > 2": lambda d, i: d + i > 2,
    "d * i + 3 < d": lambda d, i: d * i + 3 < d,
    "d - 1000000 < i": lambda d, i: d - 1000000 < i,
    "3 - d > -9223372036854775808": lambda d, i: 3 - d > -(2**63),
    "d + 1 BETWEEN 2 AND 5": lambda d, i: 2 <= d + 1 <= 5,
    "d + 1 IN (2, 3, -2)": lambda d, i: d + 1 in (2, 3, -2),
    "NOT (d + 1 > 2)": lambda d, i: not d + 1 > 2,
    "s.d + 1 <> 2": lambda d, i: d + 1 != 2,
    "TRY_CAST(d + 1 AS DOUBLE) > 2": lambda d, i: float(d + 1) > 2,
}


def rows_of(precision: int, scale: int) -> list[dict[str, Any]]:
    chosen = random.Random(precision * scale)
    most = 10**precision - 1
    values = [Decimal(chosen.randint(-most, most)).scaleb(-scale) for _ in range(9)]
    if precision > scale:
        values += [Decimal(small).scaleb(0) for small in (-3, 1, 2)]
    decimals = [*values, Decimal(0), None]
    return [{"d": d, "i": chosen.choice([-3, 0, 2, 5]), "s": {"d": d}} for d in decimals]


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize(("precision", "scale"), TYPES)
def test_conditions_that_compute_with_decimals(
    tmp_path: Path, precision: int, scale: int, nan: Literal["ieee", "largest"]
) -> None:
    """pyarrow's decimals accept neither integer constants nor results of more than 38 digits. orcidx accepts both."""
    kind = pa.decimal128(precision, scale)
    rows = rows_of(precision, scale)
    schema = pa.schema([("d", kind), ("i", pa.int64()), ("s", pa.struct([("d", kind)]))])
    orcidx.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "a.orc")
    with decimal.localcontext(prec=120):
        for where, test in CONDITIONS.items():
            found = orcidx.scan(tmp_path / "a.orc", where=where, nan=nan).to_table().to_pylist()
            assert found == [row for row in rows if row["d"] is not None and test(row["d"], row["i"])], where
    nulls = orcidx.scan(tmp_path / "a.orc", where="coalesce(d, 7) = 7", nan=nan).to_table()
    assert nulls["d"].to_pylist()[-1:] == [None]


@pytest.mark.parametrize("wanted", [(12, 4), (20, 2), (37, 18)])
def test_decimals_and_integers_that_become_decimals_of_another_scale(tmp_path: Path, wanted: tuple[int, int]) -> None:
    table = pa.table(
        {"d": pa.array([Decimal("1.25"), Decimal("-3.50"), None], pa.decimal128(10, 2)), "i": [1, 2, None]}
    )
    orcidx.write_table(table, tmp_path / "a.orc")
    schema = pa.schema([("d", pa.decimal128(*wanted)), ("i", pa.decimal128(38, 2))])
    for where, found in (
        ("d + 1 > 2", [1]),
        ("d * i < 0", [2]),
        ("i * 2 > d + 2", [2]),
        ("coalesce(d, 5) > 4", [None]),
    ):
        scan = orcidx.scan(tmp_path / "a.orc", where=where, schema=schema)
        assert scan.to_table()["i"].to_pylist() == found, where


def test_integers_keep_their_arithmetic(tmp_path: Path) -> None:
    """A constant becomes a decimal only if it is used with a decimal. pyarrow divides integers without a remainder."""
    orcidx.write_table(pa.table({"d": pa.array([Decimal("1.5")] * 3), "i": [2, 3, 4]}), tmp_path / "a.orc")
    half = pc.Expression._call("divide", [pc.field("i"), pc.scalar(2)])
    scan = orcidx.scan(tmp_path / "a.orc", where=(half == 1) & (pc.field("d") + 1 > 2))
    assert scan.to_table()["i"].to_pylist() == [2, 3]


def test_too_many_digits(tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"d": pa.array([Decimal(2)], pa.decimal128(38, 2))}), tmp_path / "a.orc")
    with pytest.raises(InvalidQuery, match="too many digits: compute with doubles, as in CAST"):
        orcidx.scan(tmp_path / "a.orc", where="d * d > 1").to_table()
    product = operator.mul(*[orcidx.col("d").cast(pa.float64())] * 2)
    assert orcidx.scan(tmp_path / "a.orc", where=product > 1).count_rows() == 1
