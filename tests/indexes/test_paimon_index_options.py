"""Some options change the values that a scan reads, or how it finds columns. With these options, a Paimon file index
must not lose rows."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

import orcidx
from orcidx import InvalidQuery, paimon
from orcidx.options import ReadOptions
from orcidx.planner.index_evidence import bind_to_index


def _indexed(path: Path, table: pa.Table, spec: dict[str, Any], **options: Any) -> tuple[str, paimon.FileIndex]:
    orcidx.write_table(table, path)
    return str(path), paimon.build_file_index(orcidx.open(path).scan().to_reader(), spec, **options)


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap", "bloom-filter"])
def test_zone_of_the_option(tmp_path: Path, kind: str) -> None:
    """The option ``timezone`` changes the timestamps that a scan returns. The index has only the stored timestamps, so
    it must not be used to rule out rows."""
    july = 1_593_561_600_000_000
    times = pa.array([july] * 5000 + [july + 1_000_000] * 4999 + [None], pa.timestamp("us"))
    table = pa.table({"t": times, "x": range(10_000)})
    path, index = _indexed(tmp_path / "t.orc", table, {kind: {"t": {}}}, types={"t": "TIMESTAMP(6)"})
    file = orcidx.open(path)
    value = file.read(["t"], timezone="America/New_York")["t"][0].as_py()
    assert value != file.read(["t"])["t"][0].as_py()
    for where in (orcidx.col("t") == value, orcidx.col("t") != value, orcidx.col("t").is_null()):
        scan = file.scan(["x"], where, timezone="America/New_York", file_index=index)
        plain = file.scan(["x"], where, timezone="America/New_York", row_index=False)
        assert scan.to_table() == plain.to_table()
        assert scan.count_rows() == plain.count_rows() > 0


@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap", "bloom-filter"])
def test_replaced_text(tmp_path: Path, kind: str) -> None:
    """With ``utf8="replace"`` a scan reads U+FFFD where the file and its index have bytes that are not UTF-8."""
    texts = pa.array([b"a\xff"] * 5000 + [b"b"] * 4999 + [None], pa.binary()).view(pa.string())
    path = str(tmp_path / "u.orc")
    pa_orc.write_table(pa.table({"s": texts, "x": range(10_000)}), path)
    file = orcidx.open(path)
    spec: dict[str, Any] = {kind: {"s": {}}}
    index = paimon.build_file_index(path, spec, utf8="unchecked")
    for where in (orcidx.col("s") == "a\ufffd", orcidx.col("s") != "b", orcidx.col("s").is_null()):
        scan = file.scan(["x"], where, utf8="replace", file_index=index)
        plain = file.scan(["x"], where, utf8="replace", row_index=False, bloom_filters=False)
        assert scan.to_table() == plain.to_table()
        assert scan.count_rows() == plain.count_rows() > 0


def test_replaced_text_without_the_file() -> None:
    """An index in a directory's catalog must not rule out a file by text that a scan would replace."""
    types = {"s": "STRING", "x": "INT"}
    where = (orcidx.col("s") == "a\ufffd") & (orcidx.col("x") == 1)
    for utf8, count in (("replace", 1), ("unchecked", 2)):
        bound = bind_to_index(where, types, ReadOptions(utf8=utf8))  # type: ignore[arg-type]
        assert len(bound.columns) == count


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "bloom-filter"])
def test_columns_by_position(tmp_path: Path, kind: str) -> None:
    """With ``match="position"`` a wanted column can have the name of another column of the file. A scan must not use
    the index of that other column."""
    table = pa.table({"a": [1] * 5000 + [2] * 5000, "b": [7] * 5000 + [8] * 5000})
    path, index = _indexed(tmp_path / "p.orc", table, {kind: {"a": {}, "b": {}}})
    wanted = pa.schema([("b", pa.int64()), ("a", pa.int64())])
    for where in (orcidx.col("a") == 8, orcidx.col("b") == 1, orcidx.col("b") != 7):
        plain = orcidx.scan([path], where=where, schema=wanted, match="position")
        scan = orcidx.scan([path], where=where, schema=wanted, match="position", file_index={path: index})
        assert scan.to_table() == plain.to_table()
        assert scan.count_rows() == plain.count_rows() > 0


def test_options_that_change_values_are_refused(tmp_path: Path) -> None:
    """An index describes the stored values. Options that change values are refused when an index is built, because
    scans with other options would lose rows."""
    path = str(tmp_path / "t.orc")
    nanos = pa.array([1_600_000_000_000_000_500, None], pa.timestamp("ns"))
    days = pa.array([0, None], pa.timestamp("us"))
    orcidx.write_table(pa.table({"s": ["a", "b"], "t": nanos, "u": days}), path)
    spec: dict[str, Any] = {"bitmap": {"s": {}, "u": {}}}
    changing: list[dict[str, Any]] = [
        {"timezone": "Europe/Oslo"}, {"utf8": "replace"}, {"decimal_rounding": "half_up"}, {"calendar": "stored"}
    ]  # fmt: skip
    for options in changing:
        with pytest.raises(InvalidQuery, match="changes values"):
            paimon.build_file_index(path, spec, **options)
    built = paimon.build_file_index(path, spec, timestamp_unit="us", timezone=None, utf8="unchecked")
    assert built.to_bytes() == paimon.build_file_index(path, spec, types={"u": "TIMESTAMP(6)"}).to_bytes()
    with pytest.raises(InvalidQuery, match="lose digits"):
        paimon.build_file_index(path, {"bitmap": {"t": {}}}, timestamp_unit="us")


def test_decimals_without_precision(tmp_path: Path) -> None:
    """An option sets the scale of a DECIMAL of precision 0. An index that was built with another scale may lack
    digits."""
    numbers = [Decimal(i * 10**8 + i * 997 + 89).scaleb(-8) for i in range(2000)]
    path = tmp_path / "d.orc"
    orcidx.write_table(pa.table({"x": pa.array(numbers, pa.decimal128(38, 8))}), path, compression="uncompressed")
    content = path.read_bytes()
    old, new = bytes.fromhex("28263008"), bytes.fromhex("28003000")
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    file = orcidx.open(path)
    index = paimon.build_file_index(path, {"bsi": {"x": {}}})
    for digits in ((38, 2), (38, 6), (38, 18)):
        value = file.read(decimal_zero_precision=digits)["x"][1234].as_py()
        for where in (orcidx.col("x") == value, orcidx.col("x") != value, orcidx.col("x") >= value):
            scan = file.scan([], where, decimal_zero_precision=digits, file_index=index)
            plain = file.scan([], where, decimal_zero_precision=digits, row_index=False)
            assert scan.count_rows() == plain.count_rows() > 0
    types = {"x": "DECIMAL(38, 6)", "y": "DECIMAL(18, 2)"}
    where = (orcidx.col("x") == 1) & (orcidx.col("y") == 1)
    for precision, count in (((38, 6), 2), ((38, 18), 1)):
        bound = bind_to_index(where, types, ReadOptions(decimal_zero_precision=precision))
        assert len(bound.columns) == count


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap", "bloom-filter"])
def test_keys_lose_no_digits(kind: str) -> None:
    """A key is a number of milliseconds or microseconds. If finer digits were dropped, conditions would lose rows."""
    nanos = pa.decimal128(38, 0)
    for values, data_type in (
        (pa.array([36_000_000_500, None], pa.time64("us")), "TIME(6)"),
        (pa.array([36_000_000_000_500, None], pa.time64("ns")), "TIME(9)"),
        (pa.array([Decimal(1500), None], nanos), "TIMESTAMP(6)"),
        (pa.array([Decimal(-1_000_500), None], nanos), "TIMESTAMP(3)"),
        (pa.array([1500, None], pa.timestamp("ns")), "TIMESTAMP(6)"),
    ):
        with pytest.raises(InvalidQuery, match="digits"):
            paimon.build_index(kind, values, data_type)
    times = pa.array([36_000_001_000, None], pa.time64("us"))
    whole = paimon.build_index(kind, times, "TIME(6)").to_bytes()
    assert whole == paimon.build_index(kind, times.cast(pa.time32("ms")), "TIME(6)").to_bytes()
    micros = [Decimal(1000), None]
    wide = paimon.build_index(kind, pa.array(micros, nanos), "TIMESTAMP(6)").to_bytes()
    assert wide == paimon.build_index(kind, pa.array([1, None], pa.timestamp("us")), "TIMESTAMP(6)").to_bytes()


def test_explanations_name_the_option(tmp_path: Path) -> None:
    """If an option is the reason why an index is not used, the explanation names this option."""
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us")), "s": ["a", "b"]})
    spec: dict[str, Any] = {"bitmap": {"t": {}, "s": {}}}
    path, index = _indexed(tmp_path / "t.orc", table, spec, types={"t": "TIMESTAMP(6)", "s": "STRING"})
    file = orcidx.open(path)

    def notes(where: Any, **options: Any) -> list[tuple[str, str | None]]:
        found = file.scan(["s"], where, file_index=index, row_index=False, **options).explain()
        return [(note.text, note.column) for part in found.files for note in part.notes if "index is not" in note.text]

    text = "the index is not used, because the option {} may give other values than the index has"
    assert notes(orcidx.col("s") == "a", utf8="replace") == [(text.format('utf8="replace"'), "s")]
    at = orcidx.col("t") == table["t"][0].as_py()
    assert notes(at, timezone="Europe/Oslo") == [(text.format("timezone"), "t")]
    assert notes(orcidx.col("t").is_null(), timezone="Europe/Oslo") == notes(at, utf8="replace") == []
    wanted = table.schema
    scan = orcidx.scan([path], where=at, schema=wanted, match="position", file_index={path: index})
    assert 'match="position"' in str(scan.explain())
