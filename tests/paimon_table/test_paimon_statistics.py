"""The statistics of appended columns are bounds for all kinds of values. Tests in ``tests/interop`` compare them with
Java's statistics."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcidx.paimon.data_types import DataField, parse_type
from orcidx.paimon_table.commit.candidate import partition_stats
from orcidx.paimon_table.data_files.column_statistics import ManifestStatistics, StatsMode, stored_stats
from orcidx.paimon_table.metadata.binary_row import BinaryRow, write_binary_row

TEXT = st.text(st.sampled_from("ab\x00\x7fé߿ࠀ☃\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=8)
EPOCH = datetime.datetime(1970, 1, 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(5, 2)": st.decimals(-999, 999, places=2),
    "DECIMAL(18, 0)": st.decimals(-(10**18) + 1, 10**18 - 1, places=0),
    "DECIMAL(38, 10)": st.decimals(-(10**27), 10**27, places=10),
    "STRING": TEXT,
    "VARCHAR(8)": TEXT,
    "CHAR(8)": TEXT,
    "BYTES": st.binary(max_size=8),
    "DATE": st.dates(),
    "TIME(0)": st.integers(0, 86_399),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(0)": st.integers(-(2**40), 2**40),
    "TIMESTAMP(3)": st.integers(-(2**53), 2**53),
    "TIMESTAMP(6)": st.integers(-(2**62), 2**62),
    "TIMESTAMP(9)": st.integers(-(2**63), 2**63 - 1),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.integers(-(2**62), 2**62),
}
MODES = st.sampled_from(["none", "counts", "truncate(1)", "truncate(3)", "truncate(16)", "full"])
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def stored(value: Any, sql: str) -> Any:
    """Converts a value to the form of ``BinaryRow``, without the code under test."""
    kind = parse_type(sql)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIME"):
        return value * NANOS[kind.arrow_type.unit]
    return Decimal(value) if kind.root == "DECIMAL" else value


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, str, list[list[Any]]]:
    sql = draw(st.sampled_from(sorted(VALUES)))
    batches = st.lists(st.lists(st.none() | VALUES[sql], max_size=6), max_size=4)
    return sql, draw(MODES), draw(batches)


@settings(max_examples=150)
@given(columns())
def test_statistics_are_bounds(column: tuple[str, str, list[list[Any]]]) -> None:
    sql, mode, batches = column
    kind = parse_type(sql)
    statistics = ManifestStatistics(kind, StatsMode.parse("mode", mode))
    for batch in batches:
        statistics.add(pa.array(batch, kind.arrow_type))
    record, names = stored_stats([DataField(0, "c", kind)], {"c": statistics}, dense=False)
    assert names is None
    (least,), (most,) = (BinaryRow(record[name]).values([kind]) for name in ("_MIN_VALUES", "_MAX_VALUES"))
    values = [value for batch in batches for value in batch]
    known = [stored(value, sql) for value in values if value is not None]
    assert record["_NULL_COUNTS"] == [None if mode == "none" else len(values) - len(known)]
    if mode in ("none", "counts") or not known or kind.root == "VARBINARY" or any(value != value for value in known):
        assert (least, most) == (None, None)
        return
    if mode == "full" or isinstance(known[0], bytes) is False:
        assert (least, most) == (min(known), max(known))
        if isinstance(least, float) and least == 0.0:
            assert math.copysign(1, least) == min(math.copysign(1, v) for v in known if v == 0.0)
        if isinstance(most, float) and most == 0.0:
            assert math.copysign(1, most) == max(math.copysign(1, v) for v in known if v == 0.0)
        return
    length = int(mode[9:-1])
    if least is None:  # no larger text of this length exists, because every character is the largest
        assert most is None
        assert set(max(known).decode()[:length]) == {"\U0010ffff"}
        return
    assert least <= min(known)
    assert max(known) <= most
    assert len(least.decode()) <= length
    assert len(most.decode()) <= length


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([1.0, math.nan], "1.0", "nan"),
        ([math.nan, 1.0], "1.0", "nan"),
        ([0.0, -0.0], "-0.0", "0.0"),
        ([None], "None", "None"),
    ],
)
def test_partition_statistics_order_floats_as_java_does(kind, values, least, greatest):
    types = [parse_type(kind)]
    found = partition_stats(types, [write_binary_row(types, [value]) for value in values])
    bounds = [BinaryRow(found[name]).values(types)[0] for name in ("_MIN_VALUES", "_MAX_VALUES")]
    assert [str(one) for one in bounds] == [least, greatest]
