"""Some statistics are not exact values. They are only bounds, or they are wrong, missing, or too large for the type.

In each case the rows are decoded. A naive reader would return the statistics as the result.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from bad.protobuf_edit import BYTES, FIXED64, Field, Message
from pruning.test_peer_bugs import edit_statistics, write

import orcidx
from orcidx.orc import stored_totals
from orcidx.orc.statistics import unit_statistics

ASKED = {"s": "sum(v)", "lo": "min(v)", "hi": "max(v)", "c": "count(v)"}
INTEGERS, DOUBLES, TEXTS, DECIMALS = 2, 3, 4, 6
"""Field numbers in ColumnStatistics. In each of these messages, 1 is the minimum, 2 the maximum and 3 the sum."""


def aggregated(data: Any, asked: dict[str, str], **more: Any) -> tuple[dict[str, Any], dict[str, int]]:
    found = orcidx.aggregate(data, asked, **more)
    return found.to_pylist()[0], json.loads(found.schema.metadata[b"orcidx"])["rows"]


def believed() -> Any:
    """Replaces ``stored_totals`` by a naive version, which takes every recorded number for an exact value."""

    def naive(raw: Any, facts: Any, options: Any, **_: Any) -> stored_totals.StoredTotals:
        told = [unit_statistics(raw, unit, hybrid=False) for unit in range(len(raw))]
        sums = [scaled(one.sum, raw.node.scale) for one in told]
        lows, highs = ([getattr(one, name) for one in told] for name in ("minimum", "maximum"))
        texts = [[one.encode() if isinstance(one, str) else one for one in side] for side in (lows, highs)]
        values = (stored_totals.Proved.of(side) for side in (sums, *texts))
        return stored_totals.StoredTotals(raw.rows, raw.arrays["count"], *values)

    return mock.patch("orcidx.scanner.unit_totals.stored_totals", naive)


def scaled(value: Any, scale: int) -> int | None:
    return None if value is None else int(value.scaleb(scale)) if isinstance(value, Decimal) else value


def typed(kind: int, change: Callable[[Message], None]) -> Callable[[Message], None]:
    """Returns a function that applies ``change`` to the type-specific part of a ColumnStatistics message."""

    def edit(statistics: Message) -> None:
        for item in statistics.all(kind):
            assert isinstance(item.value, bytes)
            inner = Message.parse(item.value)
            change(inner)
            item.value = inner.to_bytes()

    return edit


def sint(number: int, value: int) -> Callable[[Message], None]:
    return typed(INTEGERS, lambda inner: inner.set(number, value << 1 ^ value >> 63 if value >= 0 else -value * 2 - 1))


def text(kind: int, number: int, value: str) -> Callable[[Message], None]:
    def change(inner: Message) -> None:
        inner.fields = [item for item in inner.fields if item.number != number]
        inner.fields.append(Field(number, BYTES, value.encode()))

    return typed(kind, change)


def lost(kind: int, number: int) -> Callable[[Message], None]:
    def change(inner: Message) -> None:
        inner.fields = [item for item in inner.fields if item.number != number]

    return typed(kind, change)


NUMBERS = pa.table({"v": pa.array([*range(1, 300), None], pa.int16())})
RIGHT = {"s": Decimal(sum(range(1, 300))), "lo": 1, "hi": 299, "c": 299}


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param(sint(3, 299 * 299 + 1), "s", id="a sum above count times maximum"),
        pytest.param(sint(3, 298), "s", id="a sum below count times minimum"),
        pytest.param(sint(2, 70_000), "hi", id="a maximum beyond the type"),
        pytest.param(sint(1, -70_000), "lo", id="a minimum beyond the type"),
        pytest.param(sint(1, 400), "lo", id="a minimum above the maximum"),
        pytest.param(lambda statistics: statistics.set(1, 301), "c", id="more values than rows"),
    ],
)
def test_integers_that_are_wrong(change: Any, asked: str) -> None:
    data = edit_statistics(write(NUMBERS), 1, change)
    found, rows = aggregated(data, {asked: ASKED[asked]})
    assert found[asked] == RIGHT[asked]
    assert rows == {"decoded": 300}
    with believed():
        try:
            found, rows = aggregated(data, {asked: ASKED[asked]})
        except pa.ArrowInvalid as error:  # the wrong bound is outside the range of the column's type
            assert "too large" in str(error)  # noqa: PT017
            return
    assert "decoded" not in rows
    assert found[asked] != RIGHT[asked]


def test_a_sum_that_may_have_overflowed() -> None:
    """The partial sums of the values overflow 64 bits. A writer may then leave the sum out, or let it wrap around."""
    table = pa.table({"v": [1 << 62] * 3 + [-(1 << 62)] * 2})
    data = edit_statistics(write(table), 1, sint(3, 0))
    assert aggregated(data, {"s": "sum(v)"}) == ({"s": Decimal(1 << 62)}, {"decoded": 5})
    with believed():
        assert aggregated(data, {"s": "sum(v)"})[0] == {"s": Decimal(0)}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_integers_that_are_lost(number: int) -> None:
    """If the minimum, the maximum or the sum of integers is missing, the rows are decoded. A missing sum proves neither
    that the sum is zero nor that it overflowed."""
    data = edit_statistics(write(NUMBERS), 1, lost(INTEGERS, number))
    assert aggregated(data, ASKED) == (RIGHT, {"decoded": 300})


MONEY = pa.table({"v": pa.array([Decimal("1.25"), Decimal("-3.50"), Decimal("7.00")], pa.decimal128(10, 2))})


@pytest.mark.parametrize(
    ("change", "asked", "right"),
    [
        pytest.param(text(DECIMALS, 3, "22.00"), "s", Decimal("4.75"), id="a sum above"),
        pytest.param(text(DECIMALS, 3, "4.755"), "s", Decimal("4.75"), id="a sum of finer digits"),
        pytest.param(text(DECIMALS, 1, "-3.505"), "lo", Decimal("-3.50"), id="a minimum of finer digits"),
        pytest.param(lost(DECIMALS, 3), "s", Decimal("4.75"), id="no sum"),
    ],
)
def test_decimals(change: Any, asked: str, right: Decimal) -> None:
    data = edit_statistics(write(MONEY), 1, change)
    assert aggregated(data, {asked: ASKED[asked]}) == ({asked: right}, {"decoded": 3})


def test_sums_of_decimals_of_java_are_decoded_though_they_are_plausible() -> None:
    """Java's writer adds the value of a repeating vector only once, so its sum is wrong. But the sum still lies between
    count * minimum and count * maximum. The test writes the file with orcidx, and puts Java's sum and Java's writer
    number into it."""
    values = [Decimal("1.25")] * 1024 + [Decimal("0.00"), Decimal("2000.00")]
    table = pa.table({"v": pa.array(values, pa.decimal128(18, 2))})
    changed = edit_statistics(write(table), 1, text(DECIMALS, 3, "2001.25"))
    found, rows = aggregated(changed, {"s": "sum(v)"})
    assert (found["s"], rows) == (Decimal("2001.25"), {"file statistics": 1026}), "the sum of another writer is used"
    java = by_java(changed)
    assert aggregated(java, {"s": "sum(v)"}) == ({"s": Decimal("3280.00")}, {"decoded": 1026})
    assert aggregated(java, {"lo": "min(v)", "c": "count(v)"})[1] == {"file statistics": 1026}


def by_java(data: bytes) -> bytes:
    """Returns the file ``data``, changed so that its footer names ORC Java as the writer."""
    from bad.orc_parts import OrcParts

    parts = OrcParts.parse(data)
    parts.footer.set(9, 0)
    parts.postscript.set(6, 9)
    return parts.to_bytes()


def double(number: int, value: float) -> Callable[[Message], None]:
    def change(inner: Message) -> None:
        inner.fields = [item for item in inner.fields if item.number != number]
        inner.fields.append(Field(number, FIXED64, struct.pack("<d", value)))

    return typed(DOUBLES, change)


@pytest.mark.parametrize("change", [double(1, -0.0), double(3, -0.0), double(3, 1.0), lost(DOUBLES, 3)])
def test_sums_of_floats_and_the_sign_of_zero(change: Any) -> None:
    data = edit_statistics(write(pa.table({"v": [0.0, 0.5, 0.5]})), 1, change)
    found, rows = aggregated(data, {"s": "sum(v)", "lo": "min(v)"})
    assert (found, rows) == ({"s": 1.0, "lo": 0.0}, {"decoded": 3})
    assert str(found["lo"]) == "0.0"
    assert str(aggregated(data, {"lo": "min(v)"})[0]["lo"]) == "0.0"


def test_a_minimum_beside_nan_is_decoded() -> None:
    """Java's minimum ignores all values before a NaN. If the sum is missing, the column may contain a NaN, so the rows
    are decoded."""
    table = pa.table({"v": [3.0, float("nan"), 5.0]})
    data = edit_statistics(write(table), 1, double(1, 5.0))
    assert aggregated(data, {"lo": "min(v)"}) == ({"lo": 3.0}, {"decoded": 3})
    data = edit_statistics(write(pa.table({"v": [3.0, 5.0]})), 1, lost(DOUBLES, 3))
    assert aggregated(data, {"lo": "min(v)"}) == ({"lo": 3.0}, {"decoded": 2})


def test_texts_that_are_cut() -> None:
    """A cut text is only a lower or upper bound, not the minimum or maximum."""
    table = pa.table({"v": ["apple", "pear"]})
    asked = {"lo": "min(v)", "hi": "max(v)"}
    right = {"lo": "apple", "hi": "pear"}
    assert aggregated(write(table), asked) == (right, {"file statistics": 2})
    for whole, cut, value in ((1, 4, "a"), (2, 5, "pf")):
        data = edit_statistics(edit_statistics(write(table), 1, lost(TEXTS, whole)), 1, text(TEXTS, cut, value))
        assert aggregated(data, asked) == (right, {"decoded": 2})


def test_counts_of_fields_of_nulls_and_of_lists() -> None:
    """The count of a struct field must not include the null structs. The values inside of a list are not rows, so a
    query cannot ask for their totals."""
    table = pa.table({"s": [{"v": 1}, None, {"v": None}], "l": [[1, 2], [], None]})
    found, rows = aggregated(write(table), {"f": "count(s.v)", "s": "count(s)", "x": "sum(s.v)"})
    assert (found, rows) == ({"f": 1, "s": 2, "x": Decimal(1)}, {"file statistics": 3})
    found, _ = aggregated(write(table), {"l": "count(l)"})
    assert found == {"l": 2}


# ---------------------------------------------------------------------- columns read as another type than stored


def test_columns_of_another_type_in_the_wanted_schema() -> None:
    """Statistics of integers give totals only if the wanted type is another integer."""
    data = write(pa.table({"v": pa.array([9, 10], pa.int32())}))
    wider = pa.schema([("v", pa.int64())])
    found, rows = aggregated(data, {"lo": "min(v)", "s": "sum(v)"}, schema=wider)
    assert (found, rows) == ({"lo": 9, "s": Decimal(19)}, {"file statistics": 2})
    floats = pa.schema([("v", pa.float64())])
    assert aggregated(data, {"lo": "min(v)"}, schema=floats) == ({"lo": 9.0}, {"decoded": 2})


def test_calendars_zones_and_text_that_is_replaced() -> None:
    days = by_java(write(pa.table({"v": pa.array([-200_000, 1], pa.date32())})))
    moments = write(pa.table({"t": pa.array([0, 1], pa.timestamp("ns"))}))
    texts = write(pa.table({"v": ["a", "b"]}))
    assert aggregated(moments, {"x": "min(t)"}, timezone="Europe/Berlin")[1] == {"decoded": 2}
    assert aggregated(texts, {"x": "min(v)"}, utf8="replace")[1] == {"decoded": 2}
    with orcidx.open(days) as file:
        hybrid = file.tail.facts.hybrid_calendar
    assert aggregated(days, {"x": "min(v)"})[1] == ({"decoded": 2} if hybrid else {"file statistics": 2})


# ---------------------------------------------------------------------- directories of Hive


def test_files_of_hive_acid_tables_are_refused(tmp_path: Path) -> None:
    table = pa.table({"v": [1, 2]})
    path = tmp_path / "delta_0000001_0000001_0000" / "000000_0"
    path.parent.mkdir()
    orcidx.write_table(table, path)
    with pytest.raises(orcidx.Unsupported, match="Hive ACID"):
        orcidx.aggregate(tmp_path, {"n": "count(*)"})
    assert aggregated(path, {"n": "count(*)"})[0] == {"n": 2}, "a file that is named is read as it is"
    orcidx.write_table(table, tmp_path / "a.orc", metadata={"hive.acid.version": "2"})
    with pytest.raises(orcidx.Unsupported, match="Hive ACID"):
        orcidx.aggregate(tmp_path / "a.orc", {"n": "count(*)"})


def test_directories_with_like_names_are_not_hives(tmp_path: Path) -> None:
    (tmp_path / "delta_force").mkdir()
    (tmp_path / "base_1x").mkdir()
    for name in ("delta_force", "base_1x"):
        orcidx.write_table(pa.table({"v": np.arange(3)}), tmp_path / name / "a.orc")
    assert aggregated(tmp_path, {"n": "count(*)"})[0] == {"n": 6}
