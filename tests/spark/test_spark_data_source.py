"""``spark.read.format("orcidx")``: schema, pushdown of filters, options, SQL views, and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from interop.test_orc_java import SCHEMA, row
from pyarrow import orc

import orcidx
from orcidx import paimon
from orcidx.spark import read, register
from orcidx.spark.query.data_source import OrcidxReader
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.spark_session import is_connect

pytestmark = pytest.mark.java

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def files(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 600 rows of every type in two files. ``sorted`` grows from file to file."""
    folder = tmp_path_factory.mktemp("source") / "t"
    table = pa.Table.from_pylist([row(i) for i in range(600)], SCHEMA)
    table = table.append_column("sorted", pa.array(range(600)))
    spark.createDataFrame(table).repartitionByRange(2, "sorted").write.orc(str(folder))
    register(spark)
    return folder


def rows(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_every_type_by_load_and_filters(spark: Any, files: Path) -> None:
    expected = spark.read.orc(str(files))
    frame = spark.read.format("orcidx").load(str(files))
    assert frame.schema == expected.schema
    assert rows(frame) == rows(expected)
    for where in (
        "ts < TIMESTAMP '1901-01-01 00:00:00' AND d IS NOT NULL",
        "i32 IN (7919, 62710561) OR sorted = 3",
        "dec > 100.5 AND date >= DATE '1500-01-01' AND NOT b",
        "ntz = TIMESTAMP_NTZ '1969-12-01 00:37:00.000001'",
    ):
        assert rows(frame.where(where)) == rows(expected.where(where)), where


def test_filters_prune_and_come_back(files: Path) -> None:
    sources = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(sources, "GreaterThan"):
        pytest.skip("pyspark before 4.1 does not push filters")
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("sorted", LongType())])
    reader = OrcidxReader(Query(path=str(files)), schema, pushdown=True)
    assert len(reader.partitions()) == 1
    filters = [sources.GreaterThan(("sorted",), 450), sources.EqualTo(("sorted",), "text")]
    assert reader.pushFilters(filters) is filters
    (partition,) = reader.partitions()
    found = [i for batch in reader.read(partition) for i in batch.column(0).to_pylist()]
    assert found == list(range(451, 600))
    reader.pushFilters([sources.GreaterThan(("sorted",), 1000)])
    assert reader.partitions() == []
    assert list(reader.read(None)) == []
    reader.pruneColumns(StructType([]))
    assert "pushFilters" not in vars(OrcidxReader)


def test_nothing_left_is_no_rows(spark: Any, files: Path) -> None:
    assert spark.read.format("orcidx").load(str(files)).where("sorted > 1000").collect() == []


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    """The session with pushdown of filters turned on, as other data sources may need it."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def test_a_shared_dataframe_keeps_its_rows(pushing: Any, files: Path) -> None:
    """Without the option ``where``, the rows are right whether Spark pushes filters or not."""
    frame = pushing.read.format("orcidx").option("columns", "sorted, S").load(str(files))
    assert frame.schema.simpleString() == "struct<sorted:bigint,S:string>"
    assert frame.where("sorted BETWEEN 10 AND 20").count() == 11
    assert frame.where("sorted < 5").union(frame.where("sorted > 594")).count() == 10
    assert frame.count() == 600


def test_the_pushdown_as_an_option(pushing: Any, files: Path) -> None:
    def load() -> Any:
        return pushing.read.format("orcidx").options(columns="sorted", pushdown="true").load(str(files))

    assert load().where("sorted BETWEEN 10 AND 20").count() == 11
    assert load().where("sorted > 1000").collect() == []
    assert load().where("sorted < 5").union(load().where("sorted > 594")).count() == 10
    pushing.conf.set(PUSHDOWN, "false")
    assert load().where("sorted BETWEEN 10 AND 20").count() == 11
    with pytest.raises(Exception, match="true or false"):
        pushing.read.format("orcidx").option("pushdown", "maybe").load(str(files)).count()


@pytest.mark.xfail(strict=True, reason="Spark uses the last planned filters for both sides; see decision 0014")
def test_spark_shares_pushed_filters_between_queries(pushing: Any, files: Path) -> None:
    """If a DataFrame occurs twice in a query, Spark uses the filters of one occurrence for both. So this test is
    expected to fail. If it passes, Spark has fixed the bug, and ``register`` can push filters by default."""
    frame = pushing.read.format("orcidx").options(columns="sorted", pushdown="true").load(str(files))
    assert frame.where("sorted < 5").union(frame.where("sorted > 594")).count() == 10


def test_options(spark: Any, files: Path, tmp_path: Path) -> None:
    frame = spark.read.format("orcidx").options(columns='["sorted"]', where="i64 = 35 OR i64 = 40").load(str(files))
    expected = spark.read.orc(str(files)).where("i64 = 35 OR i64 = 40").select("sorted")
    assert frame.columns == ["sorted"]
    assert rows(frame) == rows(expected) != []
    paths = [str(path) for path in sorted(files.glob("*.orc"))]
    assert spark.read.format("orcidx").option("columns", "sorted").load(paths).count() == 600
    with pytest.raises(Exception, match="whole number"):
        spark.read.format("orcidx").option("target_bytes", "many").load(str(files))
    with pytest.raises(Exception, match="unknown option 'column'; did you mean 'columns'"):
        spark.read.format("orcidx").option("column", "sorted").load(str(files))
    with pytest.raises(Exception, match="unknown option 'xyz'; the options are columns, where"):
        spark.read.format("orcidx").option("xyz", "1").load(str(files))
    assert spark.read.format("orcidx").options(engine="orcidx", columns="sorted").load(str(files)).count() == 600
    with pytest.raises(Exception, match="the option engine must be 'auto' or 'orcidx', not 'spark'"):
        spark.read.format("orcidx").option("engine", "spark").load(str(files))
    with pytest.raises(Exception, match=r"no path is given: give it by \.load"):
        spark.read.format("orcidx").load()


def test_a_given_schema_prunes_casts_and_adds(spark: Any, files: Path) -> None:
    frame = spark.read.format("orcidx").schema("SORTED decimal(20,1), absent string, i8 int").load(str(files))
    assert rows(frame.where("sorted > 500 AND absent IS NULL")) == rows(
        spark.read.orc(str(files))
        .where("sorted > 500")
        .selectExpr("CAST(sorted AS DECIMAL(20,1)) SORTED", "CAST(NULL AS STRING) absent", "CAST(i8 AS INT) i8")
    )


def test_a_sql_view(spark: Any, files: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING orcidx OPTIONS (path '{files}', columns 'sorted,few')")
    assert spark.sql("SELECT max(sorted) AS m FROM v WHERE sorted < 100 AND few IS NOT NULL").first().m < 100
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW w (few string) USING orcidx OPTIONS (path '{files}')")
    assert spark.sql("SELECT count(DISTINCT few) AS n FROM w").first().n == 11


def test_a_table(spark: Any, tmp_path: Path) -> None:
    from paimon_tables import PaimonTable

    table = PaimonTable(tmp_path / "t")
    table.schema({0: ("id", "BIGINT"), 1: ("name", "STRING")})
    data = pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    table.add("data-0.orc", data)
    table.commit()
    frame = spark.read.format("orcidx").load(str(tmp_path / "t"))
    assert [one.name for one in frame.where("ID > 97").collect()] == ["n98", "n99"]
    assert spark.read.format("orcidx").schema("NAME string").load(str(tmp_path / "t")).where("name = 'n7'").count() == 1
    with pytest.raises(Exception, match="must keep its type"):
        spark.read.format("orcidx").schema("id string").load(str(tmp_path / "t")).collect()
    assert paimon.open_table(tmp_path / "t").scan().count_rows() == 100


@pytest.fixture
def in_tokyo(spark: Any) -> Iterator[Any]:
    """A session whose zone changed after the format was registered."""
    before = spark.conf.get("spark.sql.session.timeZone")
    register(spark)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def test_times_are_on_the_clock_of_the_session_that_asks(in_tokyo: Any, files: Path, tmp_path: Path) -> None:
    """Times are in the session's zone at the query, not in the zone at the time when the format was registered. This
    also applies to partition values."""
    for where in ("ts < TIMESTAMP '1901-06-01 00:00:00'", "NOT ts > TIMESTAMP '1901-06-01 00:00:00' AND few LIKE '%1'"):
        found = in_tokyo.read.format("orcidx").option("where", where).load(str(files))
        assert rows(found) == rows(in_tokyo.read.orc(str(files)).where(where))
    days = in_tokyo.range(9).selectExpr("id", "timestamp_ntz'2021-07-01 00:00:00' + make_dt_interval(0, id) AS at")
    days.write.partitionBy("at").orc(str(tmp_path / "days"))
    where = "at BETWEEN TIMESTAMP '2021-07-01 02:00:00' AND TIMESTAMP '2021-07-01 03:00:00'"
    found = in_tokyo.read.format("orcidx").option("where", where).load(str(tmp_path / "days"))
    assert rows(found) == rows(in_tokyo.read.orc(str(tmp_path / "days")).where(where)) != []
    with pytest.raises(Exception, match="does not give the session's time zone here"):
        found.rdd.collect()


@pytest.mark.parametrize("name", ["caseSensitive", "sources.partitionColumnTypeInference.enabled"])
def test_rules_that_changed_since_it_was_registered_are_said(spark: Any, tmp_path: Path, name: str) -> None:
    spark.range(3).selectExpr("id", "id AS part").write.partitionBy("part").orc(str(tmp_path / "t"))
    register(spark)
    frame = spark.read.format("orcidx").option("columns", "ID,part").load(str(tmp_path / "t"))
    before = spark.conf.get(f"spark.sql.{name}")
    spark.conf.set(f"spark.sql.{name}", "true" if before == "false" else "false")
    try:
        with pytest.raises(Exception, match=f"{name} is .* now, but was"):
            frame.collect()
    finally:
        spark.conf.set(f"spark.sql.{name}", before)


def test_what_spark_keeps_from_a_python_source_is_said(spark: Any, files: Path) -> None:
    register(spark)
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW name USING orcidx"):
        spark.sql(f"CREATE TABLE told USING orcidx OPTIONS (path '{files}')")
    with pytest.raises(Exception, match="does not support streams") as error:
        spark.readStream.format("orcidx").load(str(files)).writeStream.format("noop").start().processAllAvailable()
    assert "Traceback" not in str(error.value)


def test_errors_are_a_sentence_without_a_traceback(spark: Any, files: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.orc"
    orcidx.write_table(pa.table({"i": np.arange(50_000) * 7919 % 50_021}), damaged, compression="zstd")
    with orcidx.open(damaged) as file:
        where = file.stripes[0].offset + 300
    with damaged.open("r+b") as stream:
        stream.seek(where)
        stream.write(b"\xff" * 4000)

    def load(path: Path, **options: str) -> Any:
        return spark.read.format("orcidx").options(**options).load(str(path))

    for wrong, said in (
        (lambda: load(files, wehre="sorted = 1"), "InvalidQuery: unknown option 'wehre'; did you mean 'where'"),
        (lambda: load(files, where="sotred = 1").count(), "no column 'sotred'; did you mean 'sorted'"),
        (lambda: load(files, where="sorted = = 1").count(), "InvalidQuery: "),
        (lambda: load(tmp_path / "none").count(), "FileNotFoundError: "),
        (lambda: load(damaged).collect(), "ignoreCorruptFiles"),
        (lambda: read(spark, damaged, engine="orcidx").collect(), "ignoreCorruptFiles"),
        (lambda: spark.range(3).write.format("orcidx").mode("append").save(str(tmp_path / "out")), "frame.write.orc"),
    ):
        with pytest.raises(Exception) as error:
            wrong()
        text = str(error.value).partition("\n\tat ")[0]
        assert said in text
        assert "Traceback" not in text, text
        assert "File " not in text, text


CONNECT = """
import os
import sys
import pyarrow as pa
from pyspark.sql import SparkSession, functions
from orcidx import CorruptFile, col
from orcidx.spark import build_file_index, explain, read, refresh, register, why
from orcidx.spark.sessions.spark_session import facts_of

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
print(facts_of(spark))
path = sys.argv[1]
frame = read(spark, path, ["i"], "i >= 90 AND i < 210", target_bytes=1)
assert sorted(row.i for row in frame.collect()) == list(range(90, 210))
best = read(spark, path, ["i"], top=[("i", "desc")], limit=3)
assert [row.i for row in best.collect()] == [299, 298, 297]
assert read(spark, path, where="i < 0", columns=["i"]).count() == 0
assert read(spark, path, limit=7).count() == 7
register(spark)
source = spark.read.format("orcidx").load(path)
assert source.where("i > 280").count() == 19
spark.sql(f"CREATE TEMPORARY VIEW v USING orcidx OPTIONS (path '{path}')")
assert spark.sql("SELECT max(at) AS at FROM v WHERE i < 10").first().at.year == 2020
built = build_file_index(spark, path, {"bitmap": {"i": {}}}, progress=True)
assert {row.status for row in built.collect()} == {"built"}
assert {row.status for row in refresh(spark, path).collect()} == {"fresh"}
for asked in ("i = 120", "I = 120 AND abs(i) = 120", col("i") == 120, [("i", "=", 120)]):
    found = read(spark, path, where=asked)
    assert found.count() == 1
    assert (why(found).files, why(found).files_left) == (3, 1), str(why(found))
for asked in ("abs(i) = 120", "i = '120'", functions.col("i") == 120):
    found = read(spark, path, where=asked)
    assert found.count() == 1
    assert why(found).files is None, str(why(found))
assert read(spark, path, where="i = 1200").count() == 0
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
early = read(spark, path, ["i"], "at < TIMESTAMP '2020-01-01 00:00:00'")
spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
assert early.count() == spark.read.orc(path).where("at < TIMESTAMP '2020-01-01 00:00:00'").count()
os.utime(path + "/0.orc", (1, 1))
moved = read(spark, path, where="i = 120")
assert (moved.count(), why(moved).files_left) == (1, 2), str(why(moved))
os.utime(path + "/0.orc")
assert {row.status for row in refresh(spark, path).collect()} == {"fresh", "rebuilt"}
keys = spark.range(120, 122).selectExpr("id AS i")
some = read(spark, path, where_in={"i": keys})
assert (some.count(), why(some).files_left) == (2, 1), str(why(some))
assert explain(spark, path, "i = 120").funnel[0].after == 1
with open(path + "/bad.orc", "wb") as bad:
    bad.write(b"nonsense")
try:
    refresh(spark, path, on_error="raise")
    raise SystemExit("it did not stop")
except CorruptFile as error:
    assert error.file == path + "/bad.orc", error
print("ok")
spark.stop()
"""


def test_a_connect_session_is_known_by_its_module() -> None:
    """This is a quick check. ``test_spark_connect`` uses a real Spark Connect session."""
    kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    assert is_connect(kind())
    assert not is_connect(object())


@pytest.mark.slow
def test_spark_connect(files: Path, tmp_path: Path) -> None:
    """Runs a Spark Connect session in a process of its own. In such a session, Python has no access to a JVM."""
    for name in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        pytest.importorskip(name)
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        numbers = range(part * 100, part * 100 + 100)
        at = pa.array([1577836800_000000 + i for i in numbers], pa.timestamp("us"))
        orc.write_table(pa.table({"i": numbers, "at": at}), data / f"{part}.orc")
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path / "local"), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_TESTING": "1"}  # makes the server choose a free port instead of 15002
    command = [sys.executable, "-P", "-c", CONNECT, str(data)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=400
    )
    assert done.stdout.endswith("ok\n"), done.stdout + done.stderr
