"""One test for every known bug by which another reader rules out matching rows.

``ENTRIES`` maps the bugs in the list of wrong results (notes/orc.md 5.1) to their tests. The other bugs come from issue
trackers.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from bad.orc_parts import OrcParts
from bad.protobuf_edit import BYTES, Message

import orcidx
from orcidx import col
from orcidx.planner import bloom_choice

pyorc = pytest.importorskip("pyorc")

GROUP = 100

ENTRIES = {
    1: "test_a_field_of_a_null_struct_is_null_in_a_file_of_java",
    2: "test_a_time_before_1970_in_a_file_of_pyorc_is_found",
    3: "test_a_time_before_1970_with_a_fraction_is_found",
    4: "test_days_before_the_reform_are_found_in_a_file_of_java",
    7: "test_a_char_is_found_though_its_bloom_filter_holds_other_bytes",
}
"""The test of each entry. Entries 5, 6 and 8 to 11 are about decoding (chunks without bytes, runs that end early,
lengths, tags, rows of ``struct<>``, unknown types, wide decimals), and not about pruning."""


def write(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pyarrow.orc.write_table(table, out, row_index_stride=GROUP, **{"compression": "uncompressed", **options})
    return out.getvalue()


def edit_statistics(data: bytes, column: int, change: Callable[[Message], None]) -> bytes:
    """Changes the statistics of a column in the file, in its stripes and in its row groups."""
    parts = OrcParts.parse(data)

    def edited(raw: int | bytes) -> bytes:
        assert isinstance(raw, bytes)
        message = Message.parse(raw)
        change(message)
        return message.to_bytes()

    mine = parts.footer.all(7)[column]
    mine.value = edited(mine.value)
    metadata = Message.parse(parts.metadata)
    for stripe in metadata.all(1):
        assert isinstance(stripe.value, bytes)
        inner = Message.parse(stripe.value)
        inner.all(1)[column].value = edited(inner.all(1)[column].value)
        stripe.value = inner.to_bytes()
    parts.metadata = metadata.to_bytes()
    for stripe in parts.stripes:
        for place, record in enumerate(stripe.footer.all(1)):
            assert isinstance(record.value, bytes)
            stream = Message.parse(record.value)
            if stream.int(1) == 6 and stream.int(2) == column:
                index = Message.parse(stripe.streams[place])
                for entry in index.all(1):
                    assert isinstance(entry.value, bytes)
                    positions = Message.parse(entry.value)
                    for item in positions.all(2):
                        item.value = edited(item.value)
                    entry.value = positions.to_bytes()
                stripe.streams[place] = index.to_bytes()
    return parts.to_bytes()


def found(data: bytes | Path, where: Any, **options: Any) -> list[int]:
    with orcidx.open(data) as file:
        numbers = file.read([], where, row_numbers=True, **options)["row_number"].to_pylist()
        assert file.scan(where=where, **options).count_rows() == len(numbers)
        return numbers


def kept_groups(data: bytes, where: Any) -> int:
    with orcidx.open(data) as file:
        return sum(int(stripe.decision.kept.sum()) for stripe in file.scan([], where).stripes())


def test_every_entry_about_pruning_has_its_test() -> None:
    assert all(callable(globals()[name]) for name in ENTRIES.values())


# ---------------------------------------------------------------------- nulls


def nested(rows: int = 300) -> pa.Table:
    inner = pa.array(range(rows), pa.int64())
    return pa.table({"x": pa.StructArray.from_arrays([inner], ["z"], mask=pa.array(np.arange(rows) % 3 == 0))})


def test_a_field_of_a_null_struct_is_null_though_its_statistics_know_no_null() -> None:
    """If a parent is null, ORC Java does not count the child as null, so Spark loses every row of ``x.z IS NULL``
    (entry 1)."""
    data = edit_statistics(write(nested()), 2, lambda statistics: statistics.set(10, 0))
    assert found(data, col("x", "z").is_null()) == list(range(0, 300, 3))
    assert found(data, ~col("x", "z").is_null()) == [row for row in range(300) if row % 3]
    assert found(data, col("x", "z").eq_null_safe(None)) == list(range(0, 300, 3))
    assert found(data, ~col("x", "z").eq_null_safe(7)) == [row for row in range(300) if row != 7]
    assert found(data, col("x", "z") >= 0) == [row for row in range(300) if row % 3]


@pytest.mark.java
def test_a_field_of_a_null_struct_is_null_in_a_file_of_java(spark: Any, tmp_path: Path) -> None:
    text = "if(id % 2 = 0, null, named_struct('z', id)) as x"
    spark.range(3000).coalesce(1).selectExpr(text).write.option("orc.row.index.stride", 1000).orc(str(tmp_path / "o"))
    (path,) = (tmp_path / "o").glob("*.orc")
    assert len(found(path, col("x", "z").is_null())) == 1500
    assert len(found(path, ~col("x", "z").is_null())) == 1500


def test_no_word_of_nulls_is_no_word_that_there_are_none() -> None:
    """Some writers do not write ``hasNull`` (ORC-1796, ORC-1813). Then the rows may contain nulls."""

    def forget(statistics: Message) -> None:
        statistics.fields = [item for item in statistics.fields if item.number != 10]

    table = pa.table({"a": pa.array([row if row % 4 else None for row in range(300)])})
    data = edit_statistics(write(table), 1, forget)
    assert found(data, col("a").is_null()) == list(range(0, 300, 4))
    assert len(found(data, ~(col("a") == 5))) == 224


def test_statistics_of_no_values_and_no_nulls_are_no_statistics() -> None:
    """Statistics with count 0 and ``hasNull`` false rule out no row, if there are rows (HIVE-20604)."""

    def empty(statistics: Message) -> None:
        statistics.fields = []
        statistics.set(1, 0)
        statistics.set(10, 0)

    table = pa.table({"a": pa.array(range(300)), "b": pa.array([None] * 300, pa.int64())})
    data = edit_statistics(edit_statistics(write(table), 1, empty), 2, empty)
    assert found(data, col("a") == 7) == [7]
    assert found(data, col("b").is_null() & (col("a") < 3)) == [0, 1, 2]


def test_statistics_without_bounds_rule_nothing_out() -> None:
    """Statistics without ``minimum`` and ``maximum`` rule out no row (ORC-1075)."""

    def unbounded(statistics: Message) -> None:
        statistics.fields = [item for item in statistics.fields if item.wire != BYTES]

    data = edit_statistics(write(pa.table({"a": pa.array(range(300))})), 1, unbounded)
    assert found(data, col("a") == 150) == [150]
    assert found(data, col("a") != 150) == [row for row in range(300) if row != 150]


# ---------------------------------------------------------------------- times and days

BEFORE_1970 = [-500_000_000, -1_500_000_000, -1_000_000_001, -1, -999_999, -86_400 * 10**9 - 250_000_000]


@pytest.mark.parametrize("nanos", BEFORE_1970)
def test_a_time_before_1970_with_a_fraction_is_found(nanos: int) -> None:
    """ORC C++ truncates bounds towards zero, so its reader finds no row of an equality. It also stores negative
    nanoseconds (entries 2 and 3)."""
    times = pa.array([nanos] * 150 + [10**18] * 150, pa.int64()).cast(pa.timestamp("ns"))
    for blooms in (None, [1]):
        data = write(pa.table({"t": times}), bloom_filter_columns=blooms)
        literal = np.datetime64(nanos, "ns")
        assert found(data, col("t") == literal) == list(range(150))
        assert found(data, col("t").is_in([literal, np.datetime64(5, "ns")])) == list(range(150))
        assert found(data, col("t") <= literal) == list(range(150))
        assert found(data, col("t") < literal) == []


def test_a_time_before_1970_in_a_file_of_pyorc_is_found() -> None:
    out = io.BytesIO()
    time = datetime.datetime(1969, 3, 4, 5, 6, 7, 500_000)
    with pyorc.Writer(out, "struct<t:timestamp>", row_index_stride=GROUP, bloom_filter_columns=["t"]) as writer:
        for row in range(300):
            writer.write((time if row < 150 else datetime.datetime(2020, 1, 1),))
    assert found(out.getvalue(), col("t") == time) == list(range(150))


@pytest.mark.java
def test_days_before_the_reform_are_found_in_a_file_of_java(spark: Any, tmp_path: Path) -> None:
    """Statistics and bloom filters have day numbers of the hybrid calendar. For days before the calendar reform,
    pyarrow's dates are wrong by ten or more days (entry 4)."""
    text = "if(id < 1500, date'1500-02-28', date'2020-01-01') as d"
    options = {"orc.row.index.stride": 1000, "orc.bloom.filter.columns": "d"}
    spark.range(3000).coalesce(1).selectExpr(text).write.options(**options).orc(str(tmp_path / "o"))
    (path,) = (tmp_path / "o").glob("*.orc")
    assert len(found(path, col("d") == datetime.date(1500, 2, 28))) == 1500
    assert len(found(path, col("d") <= datetime.date(1500, 2, 28))) == 1500
    assert found(path, col("d") < datetime.date(1500, 2, 28)) == []


# ---------------------------------------------------------------------- texts, blooms, trees


def test_a_char_is_found_though_its_bloom_filter_holds_other_bytes() -> None:
    """ORC C++ hashes the unpadded text, but with the padded length (entry 7)."""
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<c:char(8)>", row_index_stride=GROUP, bloom_filter_columns=["c"]) as writer:
        for row in range(300):
            writer.write((f"v{row % 150}",))
    for number in range(150):
        assert found(out.getvalue(), col("c") == f"v{number}") == [number, number + 150]


def test_bounds_cut_at_1024_bytes_lose_no_longer_value() -> None:
    """Java truncates the bounds of longer strings. Truncated bounds are not values of the column (auron issue 2042)."""
    table = pa.table({"s": ["x" * 1500 + str(row // GROUP) for row in range(300)]})

    def cut(statistics: Message) -> None:
        for item in statistics.all(4):
            inner = Message()
            inner.fields = [f for f in Message.parse(item.value).fields if f.number not in (1, 2)]
            for number, text in ((4, b"x" * 1024), (5, b"x" * 1023 + b"y")):
                inner.fields.append(type(item)(number, BYTES, text))
            item.value = inner.to_bytes()

    data = edit_statistics(write(table), 1, cut)
    assert found(data, col("s") == "x" * 1500 + "1") == list(range(100, 200))
    assert found(data, col("s") > "x" * 1024) == list(range(300))
    assert found(data, col("s") != "x" * 1024) == list(range(300))
    assert found(data, col("s") <= "x" * 1024) == []
    assert found(data, ~(col("s") < "x" * 1023 + "y")) == []


def test_not_is_no_complement_of_what_an_index_keeps() -> None:
    """A row group that may match a condition may also match its negation (auron issue 2005)."""
    table = pa.table({"a": pa.array(range(300)), "b": pa.array([None, 1, 2] * 100)})
    assert found(write(table), ~((col("a") > 50) & (col("a") < 260))) == [*range(51), *range(260, 300)]
    assert found(write(table), ~(col("b") == 1)) == list(range(2, 300, 3))
    assert found(write(table), ~col("a").is_in([0, 299])) == list(range(1, 299))


def test_a_part_that_no_index_answers_keeps_its_side_of_an_or() -> None:
    """If a part that no index can decide is dropped from an OR, rows are lost. It may be dropped from an AND (auron
    issue 2369)."""
    table = pa.table({"a": pa.array(range(300)), "s": [f"text {row}" for row in range(300)]})
    data = write(table)
    assert found(data, (col("a") == 7) | col("s").ends_with(" 250")) == [7, 250]
    assert found(data, (col("a") == 7) & col("s").ends_with(" 7")) == [7]
    assert kept_groups(data, (col("a") == 7) & col("s").ends_with(" 7")) == 1


def test_the_last_column_prunes_like_the_first() -> None:
    """Wrong column numbers must not stop pruning after the first column (ORC issue 1053)."""
    lists = pa.array([[row, row] for row in range(300)])
    table = pa.table({"l": lists, "m": pa.array(range(300, 0, -1)), "a": pa.array(range(300))})
    assert found(write(table), col("a") == 250) == [250]
    assert kept_groups(write(table), col("a") == 250) == 1


def test_a_fraction_never_equals_an_integer_and_big_ones_keep_their_digits() -> None:
    """Java casts 1.5 to 1, and compares integers above 2^53 as doubles."""
    table = pa.table({"a": pa.array([1] * 150 + [2**53 + 1] * 150)})
    assert found(write(table), col("a") == 1.5) == []
    assert found(write(table), col("a") == float(2**53)) == []
    assert found(write(table), col("a") > Decimal(2**53)) == list(range(150, 300))


@pytest.mark.parametrize("first", [float("nan"), 1.0])
def test_nan_hides_in_no_bounds(first: float) -> None:
    """The sum, minimum or maximum in the statistics is NaN, or the statistics ignore NaN."""
    values = [first, *[1.0] * 98, float("nan"), *[5.0] * 100]
    data = write(pa.table({"d": values}))
    assert found(data, col("d") == 5.0) == list(range(100, 200))
    assert found(data, col("d").is_nan()) == [row for row, value in enumerate(values) if value != value]
    nans = {row for row, value in enumerate(values) if value != value}
    assert found(data, col("d") > 4.0, nan="largest") == sorted(nans | set(range(100, 200)))


def test_zeros_of_both_signs_are_equal() -> None:
    """Java's Double.compare orders -0.0 below 0.0, in bounds and in bloom filters."""
    data = write(pa.table({"d": [-0.0] * 100 + [0.0] * 100 + [1.0] * 100}), bloom_filter_columns=[1])
    for zero in (0.0, -0.0):
        assert found(data, col("d") == zero) == list(range(200))
        assert found(data, col("d") < zero) == []
        assert found(data, col("d") >= zero) == list(range(300))


def test_a_bloom_filter_from_before_the_format_settled_denies_nothing(
    golden_orc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java reads a number of the old format as 10,000 hash functions, and finds no row of an equality."""
    # Without this setting, the filter is not used, because it is larger than the data.
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", float("inf"))
    with orcidx.open(golden_orc / "over1k_bloom.orc") as file:
        values = file.read(["_col1"])["_col1"].to_pylist()
        for value in (262, 472, values[0], values[-1]):
            rows = [row for row, one in enumerate(values) if one == value]
            assert rows
            assert found(golden_orc / "over1k_bloom.orc", col("_col1") == value) == rows
