"""``orcidx.rewriting.convert``: values of CSV or JSON lines do not change when they are converted to ORC."""

from __future__ import annotations

import datetime
import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import orcidx
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.rewriting import csv_rows
from orcidx.rewriting.convert import convert


def from_csv(path: Path, text: str, **options) -> pa.Table:
    (path / "a.csv").write_text(text)
    done = convert(path / "a.csv", path / "a.orc", overwrite=True, progress=False, **options)
    found = orcidx.open(path / "a.orc").read()
    assert done["rows"] == found.num_rows
    return found


def from_json(path: Path, lines: list[str], **options) -> pa.Table:
    (path / "a.jsonl").write_text("\n".join(lines))
    convert(path / "a.jsonl", path / "a.orc", overwrite=True, progress=False, **options)
    return orcidx.open(path / "a.orc").read()


TEXT = ["01234", "12345678901234567890", "+4712345678", "0x1F", "0.1000000000000000055511151231257827", "10:00"]
NUMBERS = [("9223372036854775807", 2**63 - 1), ("1.10", 1.1), ("0.30000000000000004", 0.1 + 0.2), (" 5", 5)]


@pytest.mark.parametrize("value", TEXT)
def test_doubtful_values_of_csv_stay_text(tmp_path, value):
    assert from_csv(tmp_path, f"a\n{value}\n")["a"].to_pylist() == [value]


@pytest.fixture
def small_blocks(monkeypatch):
    """pyarrow parses the file in blocks of 1 MiB."""
    monkeypatch.setattr(csv_rows, "TEXT_BLOCK_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_blocks")
def test_the_whole_file_is_asked_not_its_first_block(tmp_path):
    first = "1234567,1234567,true\n" * 60_000  # longer than one block; pyarrow infers types from the first block
    found = from_csv(tmp_path, f"a,b,c\n{first}007,1.5,1\n")
    assert found.schema.types == [pa.string(), pa.float64(), pa.string()]
    assert list(found.slice(60_000).to_pylist()[0].values()) == ["007", 1.5, "1"]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_other_numbers_of_csv_are_numbers(tmp_path, text, value):
    assert from_csv(tmp_path, f"a\n{text}\nNA\n")["a"].to_pylist() == [value, None]


def test_csv_with_a_schema_and_notes(tmp_path):
    (tmp_path / "a.csv").write_text("zip,big,at\n01234,12345678901234567890,2020-01-01\n")
    done = convert(tmp_path / "a.csv", tmp_path / "a.orc", progress=False)
    assert [note.split("'")[1] for note in done["notes"]] == ["zip", "big"]
    schema = pa.schema([("big", pa.decimal128(20, 0)), ("zip", pa.int32())])
    found = from_csv(tmp_path, (tmp_path / "a.csv").read_text(), schema=schema)
    assert found.to_pylist()[0]["big"] == Decimal("12345678901234567890")
    assert found["zip"].to_pylist() == [1234]
    with pytest.raises(InvalidQuery, match="zipp"):
        from_csv(tmp_path, "zip\n1\n", schema=pa.schema([("zipp", pa.int32())]))
    with pytest.raises(InvalidQuery, match="files contain their types"):
        convert(tmp_path / "a.orc", tmp_path / "b.csv", schema=schema)


def test_unknown_formats(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(InvalidQuery, match=r"suffix belongs to no known format .*give the format by target_format="):
        convert(tmp_path / "a.csv", tmp_path / "a.xlsx")
    with pytest.raises(InvalidQuery, match=r"source_format= \(--from\) is 'exel', but must be one of orc, parquet"):
        convert(tmp_path / "a.csv", tmp_path / "a.orc", source_format="exel")


def test_a_nan_of_csv_is_no_null(tmp_path):
    found = from_csv(tmp_path, "a,b\n1.5,x\nnan,\n,NA\n")
    assert str(found["a"].to_pylist()) == "[1.5, nan, None]"


@pytest.mark.parametrize("texts", [["a", None, "", "NA", "null", "x,y"], [None, None], ["", "a"], [None, "", "NULL"]])
@pytest.mark.parametrize("beside", [None, [1.5], ["NULL"]])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_null_texts_come_back_from_csv(tmp_path, texts, beside, suffix):
    """A table is converted to CSV or TSV and back. Null texts do not become empty texts, and a row is not lost if its
    only column is null."""
    table = pa.table({"s": pa.array(texts, pa.string())} | ({"b": beside * len(texts)} if beside else {}))
    orcidx.write_table(table, tmp_path / "a.orc")
    convert(tmp_path / "a.orc", tmp_path / f"a.{suffix}")
    convert(tmp_path / f"a.{suffix}", tmp_path / "b.orc")
    assert orcidx.read_table(tmp_path / "b.orc").equals(table)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n1,x\nNA,NA\n,\n4,""\n', {"a": [1, None, None, 4], "b": ["x", "NA", None, ""]}),
        ('a,b\n"1","x"\n"","NA"\n"3",""\n', {"a": [1, None, 3], "b": ["x", "NA", ""]}),
        ("a\n1\n\n2\n\n", {"a": [1, None, 2, None]}),
        ("\n\na\n1\n\n2\n", {"a": [1, 2]}),
        ("a,b\n1,2\n\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
    ],
)
def test_nulls_of_other_csv_files(tmp_path, text, expected):
    assert from_csv(tmp_path, text).to_pydict() == expected


@pytest.mark.usefixtures("small_blocks")
def test_nulls_of_csv_in_several_blocks(tmp_path):
    """If a column of numbers contains a null word such as NA, the columns of texts are read separately. In these
    columns, only an empty value without quotes is null. The file is longer than one block."""
    rows = [("NA" if i % 7 == 0 else str(i), "" if i % 3 else '""') for i in range(200_000)]
    table = from_csv(tmp_path, "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert table["a"].to_pylist() == [None if a == "NA" else int(a) for a, _ in rows]
    assert table["b"].to_pylist() == [None if b == "" else "" for _, b in rows]


def test_a_given_type_with_null_words_in_csv(tmp_path):
    schema = pa.schema([("a", pa.decimal128(10, 2)), ("b", pa.large_string())])
    table = from_csv(tmp_path, 'a,b\n1,x\nNA,NA\n"",\n4,""\n', schema=schema)
    assert table.to_pydict() == {"a": [1, None, None, 4], "b": ["x", "NA", None, ""]}


def test_random_csv_columns_keep_their_values(tmp_path):
    """Each text of a CSV column remains this text, or becomes a number or boolean that is equal to it."""
    seeded = random.Random(7)
    kinds = [
        lambda: str(seeded.randrange(-(10**18), 10**18)),
        lambda: str(seeded.randrange(10 ** seeded.randrange(1, 24))),
        lambda: repr(seeded.uniform(-1, 1) * 10 ** seeded.randrange(-30, 30)),
        lambda: f"{seeded.randrange(10**6):08}",
        lambda: f"{seeded.uniform(-9, 9):.{seeded.randrange(25)}f}",
        lambda: seeded.choice(["true", "false", "1", "x", "2020-01-01", "1e5", "+1", ".5", "5."]),
    ]
    for _ in range(60):
        chosen = seeded.sample(kinds, seeded.randrange(1, 3))
        values = [seeded.choice(chosen)() for _ in range(5)]
        back = from_csv(tmp_path, "a\n" + "\n".join(values) + "\n")["a"].to_pylist()
        for text, value in zip(values, back, strict=True):
            if isinstance(value, bool):
                assert str(value).lower() == text
            elif isinstance(value, int | float):
                assert Decimal(text) in (Decimal(repr(value)), Decimal(f"{value:.17g}"))
                assert len(text) < 2 or not (text.isdigit() and text[0] == "0")
            else:
                assert str(value) == text


def test_numbers_of_json_that_no_double_holds_stay_text(tmp_path):
    lines = [
        '{"a": 12345678901234567890, "n": {"x": [9007199254740993.0, null]}, "d": 0.1, "t": "2020-01-01 00:00:00"}',
        '{"a": 1, "n": {"x": []}, "d": 2, "t": null}',
        '{"a": null}',
    ]
    found = from_json(tmp_path, lines)
    assert found["a"].to_pylist() == ["12345678901234567890", "1", None]
    assert found["n"].to_pylist() == [{"x": ["9007199254740993.0", None]}, {"x": []}, None]
    assert found["d"].to_pylist() == [0.1, 2.0, None]
    assert pa.types.is_timestamp(found["t"].type)
    schema = pa.schema([("a", pa.decimal128(20, 0)), ("d", pa.string())])
    found = from_json(tmp_path, lines[:2], schema=schema)
    assert found["a"].to_pylist() == [Decimal("12345678901234567890"), Decimal(1)]
    assert found["d"].to_pylist() == ["0.1", "2"]
    with pytest.raises(CorruptFile, match="'a' cannot be read as int64"):
        from_json(tmp_path, lines, schema=pa.schema([("a", pa.int64())]))


def test_json_that_names_a_field_twice_is_refused(tmp_path):
    for line in ('{"a": 1, "a": 2}', '{"a": 12345678901234567890, "n": {"x": 1, "x": 2}}'):
        with pytest.raises(CorruptFile, match="twice"):
            from_json(tmp_path, [line])


def test_two_columns_of_one_name_do_not_become_json(tmp_path):
    """The conversion to JSON is refused, because a JSON object would keep only one of two fields with the same name."""
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    nested = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for number, table in enumerate(
        (twice, pa.table({"s": nested}), pa.table({"l": pa.array([[]], pa.list_(nested.type))}))
    ):
        orcidx.write_table(table, tmp_path / f"{number}.orc")
        with pytest.raises(Unsupported, match="two fields are called 'a'"):
            convert(tmp_path / f"{number}.orc", tmp_path / "b.jsonl")
        assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_long_rows(tmp_path, suffix):
    """Rows of more than 1 MiB can be read. Rows of more than 16 MiB are refused as unsupported, and the error does not
    say that the file is damaged."""
    for size, fits in ((3_000_000, True), (40_000_000, False)):
        table = pa.table({"s": ["a", "x" * size, "b"]})
        orcidx.write_table(table, tmp_path / "a.orc")
        convert(tmp_path / "a.orc", tmp_path / f"a.{suffix}", overwrite=True)
        if fits:
            convert(tmp_path / f"a.{suffix}", tmp_path / "b.orc")
            assert orcidx.read_table(tmp_path / "b.orc").equals(table)
        else:
            with pytest.raises(Unsupported, match="a row has more than 16 MiB"):
                convert(tmp_path / f"a.{suffix}", tmp_path / "c.orc")


@pytest.mark.usefixtures("small_blocks")
def test_a_field_that_only_a_later_block_of_json_has_is_not_lost(tmp_path):
    lines = [json.dumps({"a": number}) for number in range(200_000)] + ['{"a": 1, "late": 2}']
    with pytest.raises(CorruptFile, match="late"):
        from_json(tmp_path, lines)
    schema = pa.schema([("late", pa.int32())])
    assert from_json(tmp_path, lines[-5:], schema=schema)["late"].to_pylist() == [None] * 4 + [2]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2020-01-01T12:00:00Z", None], pa.timestamp("ns", "UTC")),
        (["2020-01-01T12:00:00+05:00", "2020-01-01 07:00:00Z"], pa.timestamp("ns", "UTC")),
        (["2020-01-01T12:00:00-0530"], pa.timestamp("ns", "UTC")),
        (["2020-01-01T12:00:00Z", "2020-01-01T12:00:00"], pa.string()),
        (["2020-01-01", "2020-01-01T12:00:00Z"], pa.string()),
        (["2020-01-01T12:00:00", "2020-01-01 13:00"], pa.timestamp("ns")),
        (["2020-01-01", None], pa.timestamp("ns")),
        (["2020-01-01T12:00:00Z", "soon"], pa.string()),
    ],
)
def test_times_of_json_keep_their_zone(tmp_path, texts, kind, nested):
    """Times with a zone become timestamps in UTC. If a column has times with a zone and times without one, it keeps its
    texts."""
    rows = [{"r": {"l": [{"a": text}]}} if nested else {"a": text} for text in texts]
    found = from_json(tmp_path, [json.dumps(row) for row in rows])
    times = pc.struct_field(pc.list_flatten(pc.struct_field(found["r"], "l")), "a") if nested else found["a"]
    assert times.type == kind
    if kind != pa.string():
        texts = [None if text is None else nanoseconds(text) for text in texts]
        times = times.cast(pa.int64())
    assert times.to_pylist() == texts


def nanoseconds(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp()) * 10**9


def test_a_time_of_int96_outside_of_nanoseconds_is_an_error(tmp_path):
    """A time in the year 9999 does not fit into nanoseconds. The conversion to nanoseconds raises an error, because
    pyarrow would return a wrong time."""
    day, last = datetime.datetime(2020, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    for values in ([day, None, day], [day] * 70_000 + [last, None]):
        rows = pa.table({"t": pa.array(values, pa.timestamp("us")), "id": range(len(values))})
        pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=30_000)
        source, target = tmp_path / "a.parquet", tmp_path / "a.orc"
        convert(source, target, overwrite=True, progress=False, timestamp_unit="us")
        assert orcidx.read_table(target, timestamp_unit="us").equals(rows)
        if last in values:
            with pytest.raises(ValueOutOfRange, match=r"'t' has a timestamp .* timestamp_unit"):
                convert(source, target, overwrite=True, progress=False)
        else:
            convert(source, target, overwrite=True, progress=False)
            assert orcidx.read_table(target, timestamp_unit="us").equals(rows)


def test_times_that_python_lacks_become_json(tmp_path):
    """Dates and times before year 1 or after year 9999 are converted to JSON. Earlier, this conversion raised
    ``OverflowError``."""
    days = pa.array([2_932_897, -719_163, None], pa.int32()).cast(pa.date32())
    times = pa.array([253_402_300_800_000_000, 5, None], pa.int64()).cast(pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([days, times], names=["d", "t"])
    orcidx.write_table(pa.table({"d": days, "t": times, "s": nested}), tmp_path / "a.orc")
    convert(tmp_path / "a.orc", tmp_path / "a.jsonl", timestamp_unit="us")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["d"] for row in rows] == ["10000-01-01", "0000-12-31", None]
    assert [row["t"] for row in rows] == ["10000-01-01T00:00:00.000000", "1970-01-01T00:00:00.000005", None]
    assert [row["s"] for row in rows] == [{"d": row["d"], "t": row["t"]} for row in rows]
