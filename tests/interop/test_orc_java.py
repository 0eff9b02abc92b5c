"""Files that ORC Java writes inside Spark, decoded value by value: through Spark SQL, and through ORC's own API."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.java_writer import JavaWriter

import orcidx

pytestmark = pytest.mark.java

ROWS = 2500
STRIDE = 1000  # the smallest stride that Java allows

# --- through Spark SQL ------------------------------------------------------------------------------------------------

CODECS = ["none", "zlib", "snappy", "lzo", "lz4", "zstd"]

SCHEMA = pa.schema(
    [
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("few", pa.string()),
        ("bin", pa.binary()),
        ("date", pa.date32()),
        ("ntz", pa.timestamp("us")),
        ("ts", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(18, 4)),
        ("wide", pa.decimal128(38, 6)),
        ("none", pa.string()),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("nested", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.struct([("y", pa.string())])))])),
    ]
)


def row(i: int) -> dict[str, Any]:
    known = {
        "b": i % 3 == 0,
        "i8": i % 256 - 128,
        "i16": i * 37 % 65536 - 32768,
        "i32": i * 7919 * 7919 % (1 << 32) - (1 << 31),
        "i64": i * 5 if i % 300 < 150 else i * 7919**5 % (1 << 63),
        "f": i / 8,
        "d": i / 7,
        "s": "æß" * (i % 5) + str(i),
        "few": f"entry {i % 11}",
        "bin": bytes([i % 256]) * (i % 20),
        "date": dt.date(1400, 1, 1) + dt.timedelta(days=i * 131),
        "ntz": dt.datetime(1969, 12, 1) + dt.timedelta(minutes=i * 37, microseconds=i % 1000),
        "ts": dt.datetime(1900, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i * 400, microseconds=(i % 7) * 1000),
        "dec": Decimal(i * 7919 - 5_000_000).scaleb(-4),
        "wide": Decimal((-7) ** (i % 40)).scaleb(-6) if i % 2 else Decimal(i),
        "list": [None if j == 2 else i + j for j in range(i % 4)],
        "map": [(f"k{j}", None if j == 1 else i) for j in range(i % 3)],
        "nested": {"x": i, "l": [{"y": str(j)} for j in range(i % 3)]},
    }
    absent = {name for at, name in enumerate(known) if (i + at) % 9 == 4 or (1000 <= i < 2000 and at % 5 == 1)}
    return {"none": None, **{name: None if name in absent else value for name, value in known.items()}}


@pytest.fixture(scope="module")
def frame(spark: Any) -> tuple[Any, pa.Table]:
    table = pa.Table.from_pylist([row(i) for i in range(ROWS)], SCHEMA)
    return spark.createDataFrame(table).coalesce(1).cache(), table


def written(frame: Any, folder: Path, **options: Any) -> Path:
    writer = frame.write.mode("overwrite")
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.orc(str(folder))
    (path,) = folder.glob("*.orc")
    return path


def compare(path: Path, table: pa.Table) -> None:
    """Compares a file with a table: read at once, in steps, and backwards from every row group."""
    # Spark's timestamp is the wall clock of the session's zone, which is UTC here.
    at = table.schema.get_field_index("ts")
    expected = table.set_column(at, "ts", table.column("ts").cast(pa.timestamp("us")))
    with orcidx.open(path) as file:
        found = file.read(timestamp_unit="us")
        found.validate(full=True)
        for name in expected.schema.names:
            assert found.column(name).equals(expected.column(name)), name
        assert pa.Table.from_batches(file.scan(timestamp_unit="us", batch_size=77)).equals(found)
        for start in reversed(range(0, ROWS, STRIDE)):
            part = file.read(row_range=(start + 3, start + 20), timestamp_unit="us")
            assert part.equals(found.slice(start + 3, 17)), start


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(frame: Any, tmp_path: Path, codec: str) -> None:
    data, table = frame
    path = written(data, tmp_path / "t", compression=codec, orc__row__index__stride=STRIDE)
    with orcidx.open(path) as file:
        assert file.compression == codec.upper()
        assert file.writer.kind == "java"
    compare(path, table)


@pytest.mark.parametrize(
    "options",
    [
        {"orc__write__format": "0.11"},
        {"orc__write__format": "0.11", "orc__dictionary__key__threshold": 0},
        {"orc__dictionary__key__threshold": 0},
        {"orc__dictionary__key__threshold": 1},
        {"orc__encoding__strategy": "COMPRESSION"},
        {"orc__create__index": "false"},
        {"orc__compress__size": 2048, "orc__buffer__size__enforce": "true", "compression": "zlib"},
        {"orc__stripe__row__count": 700},
    ],
    ids=lambda options: " ".join(f"{name.split('__')[-1]}={value}" for name, value in options.items()),
)
def test_every_layout(frame: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    data, table = frame
    path = written(data, tmp_path / "t", orc__row__index__stride=STRIDE, **options)
    compare(path, table)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "Europe/Oslo"])
def test_the_zone_of_the_writer(spark: Any, tmp_path: Path, zone: str) -> None:
    """The result is the wall clock time that Spark shows in the writer's zone, before and after every change of the
    clocks."""
    texts = [
        f"{year}-{day} {clock}.5"
        for year in (1955, 1969, 1970, 2015, 2037, 2044)
        for day in ("01-01", "03-30", "07-01", "11-01")
        for clock in ("00:15:00", "04:15:07", "23:15:59")
    ]
    java = spark._jvm.java.util.TimeZone
    default = java.getDefault()
    spark.conf.set("spark.sql.session.timeZone", zone)
    java.setDefault(java.getTimeZone(zone))
    try:
        frame = spark.createDataFrame([(text,) for text in texts], "t string").selectExpr("cast(t as timestamp) t")
        path = written(frame.coalesce(1), tmp_path / "t")
    finally:
        java.setDefault(default)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    with orcidx.open(path) as file:
        assert file._reader.footer(0).writer_timezone == zone
        found = file.read(timestamp_unit="us").column("t").to_pylist()
    assert found == [dt.datetime.fromisoformat(text + "00000") for text in texts]


def test_one_thread_in_a_task(spark: Any, frame: Any, tmp_path: Path) -> None:
    """A Python worker of Spark decodes in the task's own thread, although ``use_threads=True`` asks for a pool of
    threads."""
    data, _ = frame
    path = str(written(data, tmp_path / "t", orc__row__index__stride=STRIDE))

    def read(items: Any) -> Any:
        import pyarrow as pa

        import orcidx
        from orcidx.scanner.chains import POOL

        pa.set_cpu_count(4)
        for _ in items:
            with orcidx.open(path) as file:
                rows = file.read(use_threads=True).num_rows
            yield rows, POOL.threads

    # The result goes to a file, because collect() leaves a socket open until the garbage collector runs.
    spark.sparkContext.parallelize([0], 1).mapPartitions(read).saveAsTextFile(str(tmp_path / "found"))
    assert (tmp_path / "found" / "part-00000").read_text().strip() == f"({ROWS}, 0)"


# --- through ORC's Java API -------------------------------------------------------------------------------------------


API_SCHEMA = (
    "struct<u:uniontype<int,string,double>,i:timestamp with local time zone,c:char(4),v:varchar(3),"
    "s:smallint,d:decimal(10,2),l:array<char(2)>,t:timestamp>"
)
API_ROWS = 60


def api_row(i: int) -> tuple[Any, ...]:
    union = (None, (0, i), (1, f"text {i}"), (2, i / 4), (1, None))[i % 5]
    moment = (i - 30) * 86_400 * 200 * 10**9 + (i % 4) * 123_456_789
    return (
        union,
        None if i % 7 == 2 else moment,
        None if i % 6 == 1 else "åb"[: i % 3],
        "xyz"[: i % 4],
        i * 800 - 20_000,
        Decimal(i * 11).scaleb(-2),
        [None if j else "q" for j in range(i % 3)],
        moment,
    )


@pytest.mark.parametrize("settings", [{}, {"orc__write__format": "0.11"}, {"orc__dictionary__key__threshold": "0"}])
def test_types_that_spark_does_not_write(spark: Any, tmp_path: Path, settings: dict[str, Any]) -> None:
    rows = [api_row(i) for i in range(API_ROWS)]
    path = tmp_path / "t.orc"
    JavaWriter(spark, path, API_SCHEMA, **settings).write(rows)
    with orcidx.open(path) as file:
        assert file.orc_schema == API_SCHEMA
        table = file.read()
        trimmed = file.read(["c", "l"], char="trimmed")
    columns = list(zip(*rows))
    assert table.column("u").to_pylist() == [None if value is None else value[1] for value in columns[0]]
    tags = table.column("u").combine_chunks().type_codes.to_pylist()
    assert tags == [0 if value is None else value[0] for value in columns[0]]
    assert table.column("i").type == pa.timestamp("ns", "UTC")
    assert table.column("i").cast("int64").to_pylist() == list(columns[1])
    assert table.column("c").to_pylist() == [None if value is None else f"{value:<4}" for value in columns[2]]
    assert trimmed.column("c").to_pylist() == list(columns[2])
    assert table.column("v").to_pylist() == list(columns[3])
    assert table.column("s").to_pylist() == list(columns[4])
    assert table.column("d").to_pylist() == list(columns[5])
    assert table.column("l").to_pylist() == [[None if item is None else f"{item:<2}" for item in v] for v in columns[6]]
    assert trimmed.column("l").to_pylist() == list(columns[6])
    assert table.column("t").cast("int64").to_pylist() == list(columns[7])


@pytest.mark.parametrize("proleptic", [True, False])
def test_calendars(spark: Any, tmp_path: Path, proleptic: bool) -> None:
    """The dates are given in the hybrid calendar. The file stores them in either calendar, and its footer says in
    which."""
    days = [-719_164, -171_655, -141_428, -141_427, 0]
    path = tmp_path / "t.orc"
    JavaWriter(spark, path, "struct<d:date>", orc__proleptic__gregorian=str(proleptic).lower()).write(
        [(day,) for day in days]
    )
    expected = [-719_162, -171_664, -141_438, -141_427, 0]
    with orcidx.open(path) as file:
        assert file.read().column("d").cast("int32").to_pylist() == expected
        stored = file.read(calendar="stored").column("d").cast("int32").to_pylist()
    assert stored == (expected if proleptic else days)
