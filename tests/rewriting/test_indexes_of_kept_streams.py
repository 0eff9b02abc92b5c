"""If ``orcidx.rewrite`` keeps streams, the new statistics and bloom filters describe the stored values. Options that
change the values that the caller reads, such as ``timestamp_unit``, do not change these indexes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx import ReadOptions, col
from orcidx.errors import ValueOutOfRange
from orcidx.planner import bloom_choice

ROWS = 2500
NANOS = [1_600_000_000_000_000_000 + i * 7_777_777_777 + i * 123_457 for i in range(ROWS)]
TIMES = pa.table({"x": pa.array(NANOS, pa.timestamp("ns"))})


@pytest.fixture(autouse=True)
def every_bloom_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes scans use bloom filters even if they are larger than the data."""
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", float("inf"))


def two_writers(folder: Path, data: pa.Table, *changed: tuple[str, str]) -> list[str]:
    """Writes the rows with orcidx and with pyarrow. A merge of such files computes all indexes again. ``changed`` has
    pairs of hexadecimal texts. In the footers, the second text of a pair replaces the first."""
    paths = [str(folder / "orcidx.orc"), str(folder / "pyarrow.orc")]
    orcidx.write_table(data, paths[0], compression="uncompressed", row_index_stride=1000)
    orc.write_table(data, paths[1], compression="uncompressed", row_index_stride=1000)
    for path in map(Path, paths):
        content = path.read_bytes()
        for old, new in changed:
            assert content.count(bytes.fromhex(old)) == 1
            content = content.replace(bytes.fromhex(old), bytes.fromhex(new))
        path.write_bytes(content)
    return paths


def check(path: str, **options: Any) -> None:
    """Checks that conditions find the same rows with indexes and without them."""
    file = orcidx.open(path)
    values = file.read(**options)["x"]
    for row in (0, 1, 999, 1777, 1999, len(values) - 1):
        value = values[row]
        for where in (col("x") == value, col("x") >= value, col("x") <= value):
            found, expected = (
                file.scan([], where, row_index=use, bloom_filters=use, **options).count_rows() for use in (True, False)
            )
            assert found == expected, where


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    "read",
    [
        {"timestamp_unit": "us"},
        {"timestamp_unit": "s"},
        {"timezone": "America/New_York"},
        {"wall_clock_zone": "Asia/Tokyo"},
    ],
    ids=str,
)
def test_timestamps(tmp_path: Path, read: Mapping[str, Any], compression: str | None, verify: bool) -> None:
    sources, target = two_writers(tmp_path, TIMES), str(tmp_path / "new.orc")
    made = orcidx.rewrite(
        sources, target, merge=True, bloom_filters=["x"], compression=compression, verify=verify,
        read=ReadOptions(**read),
    )  # fmt: skip
    assert made.way == ("recompress and index" if compression else "index")
    assert orcidx.read_table(target)["x"].to_pylist() == TIMES["x"].to_pylist() * 2
    check(target)
    check(target, **read)


@pytest.mark.parametrize("verify", [True, False])
def test_only_bloom_filters_are_added(tmp_path: Path, verify: bool) -> None:
    source, target = two_writers(tmp_path, TIMES)[0], str(tmp_path / "new.orc")
    read = ReadOptions(timestamp_unit="s")
    assert orcidx.rewrite(source, target, bloom_filters=["x"], verify=verify, read=read).way == "index"
    check(target)


def test_years_beyond_nanoseconds_are_encoded(tmp_path: Path) -> None:
    """New indexes of kept streams are computed from values in nanoseconds. The years in these files do not fit into
    nanoseconds, so the rewrite encodes the rows again, in the caller's unit."""
    data = pa.table({"x": pa.array([0, 250_000_000_000_000_000], pa.timestamp("us"))})
    sources, target = two_writers(tmp_path, data), str(tmp_path / "new.orc")
    with pytest.raises(ValueOutOfRange):
        orcidx.rewrite(sources, target, merge=True)
    made = orcidx.rewrite(sources, target, merge=True, read=ReadOptions(timestamp_unit="us"))
    assert made.way == "encode"
    assert "cannot be indexed" in made.files[0].reasons[0]
    assert orcidx.read_table(target, timestamp_unit="us")["x"].to_pylist() == data["x"].to_pylist() * 2


@pytest.mark.parametrize("order", [None, "x"])
def test_the_version_of_spark_in_a_file_of_another_writer(tmp_path: Path, order: str | None) -> None:
    """The metadata names a version of Spark, but another program wrote the file. Spark writes no digits below
    microseconds. Other programs can write such digits, and the new indexes must include them."""
    source, target = str(tmp_path / "a.orc"), str(tmp_path / "b.orc")
    orcidx.write_table(TIMES, source, row_index_stride=1000, metadata={"org.apache.spark.version": "3.5.0"})
    orcidx.rewrite(source, target, bloom_filters=["x"], sort_by=order)
    assert orcidx.read_table(target)["x"].to_pylist() == TIMES["x"].to_pylist()
    check(target)


@pytest.mark.parametrize("rounding", ["truncate", "half_up"])
def test_decimals_with_too_many_digits(tmp_path: Path, rounding: str) -> None:
    """The scale of the column's type is 2, but the stored values have three digits after the point."""
    numbers = [Decimal(i * 1000 + i % 1000).scaleb(-3) for i in range(ROWS)]
    data = pa.table({"x": pa.array(numbers, pa.decimal128(38, 3))})
    sources, target = two_writers(tmp_path, data, ("28263003", "28263002")), str(tmp_path / "new.orc")
    read = ReadOptions(decimal_rounding=rounding)
    made = orcidx.rewrite(sources, target, merge=True, bloom_filters=["x"], read=read)
    assert made.way == "encode"
    for option in ("error", "truncate", "half_up"):
        check(target, decimal_rounding=option)


@pytest.mark.parametrize("read", [{}, {"decimal_zero_precision": (38, 2)}], ids=str)
def test_decimals_without_precision(tmp_path: Path, read: Mapping[str, Any]) -> None:
    numbers = [Decimal(i * 10**8 + i * 997 + 89).scaleb(-8) for i in range(ROWS)]
    data = pa.table({"x": pa.array(numbers, pa.decimal128(38, 8)), "y": range(ROWS)})
    sources, target = two_writers(tmp_path, data, ("28263008", "28003000")), str(tmp_path / "new.orc")
    made = orcidx.rewrite(sources, target, merge=True, bloom_filters=["x", "y"], read=ReadOptions(**read))
    assert made.way == "index"
    assert any("'x' gets no bloom filter" in note for note in made.files[0].notes)
    assert orcidx.read_table(target, decimal_zero_precision=(38, 8))["x"].to_pylist() == numbers * 2
    for digits in ((38, 2), (38, 6), (38, 18)):
        check(target, decimal_zero_precision=digits)
    file = orcidx.open(target)
    assert file.statistics("x").minimum is None
    assert file.statistics("y").maximum == ROWS - 1


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    data = pa.table({"x": [f"k{i:04}-ABCDE" for i in range(ROWS)]})
    source, target = tmp_path / "a.orc", tmp_path / "b.orc"
    orcidx.write_table(data, source, compression="uncompressed", row_index_stride=1000, dictionary_key_size_threshold=0)
    source.write_bytes(source.read_bytes().replace(b"ABCDE", b"A\xffCDE"))
    read = ReadOptions(utf8="replace")
    assert orcidx.rewrite(source, target, bloom_filters=["x"], read=read).way == "encode"
    assert orcidx.read_table(target)["x"].to_pylist() == [f"k{i:04}-A\ufffdCDE" for i in range(ROWS)]
    check(str(target))
