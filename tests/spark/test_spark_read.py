"""Compares ``orcidx.spark.read`` with ``spark.read.orc``: the schemas and the rows must be the same."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.test_orc_java import ROWS, SCHEMA, row
from pyarrow import orc
from spark_frames import collected, frame_from

from orcidx import col, paimon
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.spark import read

pytestmark = pytest.mark.java


def counted(frame: Any) -> Counter[str]:
    """Returns rows as text. In this form, NaN equals NaN, and -0.0 differs from 0.0."""
    return Counter(map(repr, frame.collect()))


def check(spark: Any, path: Any, where: Any = None, sql: str | None = None, **given: Any) -> int:
    """Compares the rows of ``read`` with those of Spark's own reader, which filters by ``sql`` (default: ``where``).
    Returns the number of rows."""
    expected = spark.read.orc(*([str(path)] if isinstance(path, (str, Path)) else [[str(one) for one in path]]))
    if where is not None:
        expected = expected.where(sql or where)
    if "columns" in given:
        expected = expected.select(*given["columns"])
    found = read(spark, path, where=where, **given)
    assert found.schema == expected.schema
    rows = counted(found)
    assert rows == counted(expected), where
    return rows.total()


# ---------------------------------------------------------------------- types


WHERES = [
    "i64 > 1000 AND i64 < 5000",
    "i32 IN (0, 7919, 62710561) OR s = 'æß511'",
    "d > 300.0",
    "d = 0.0",
    "isnan(d) OR isnan(f)",
    "NOT (d <= 100.0)",
    "f <> 1.0",
    "few = 'entry 3' AND b",
    "few LIKE 'entry 1%' AND NOT b",
    "few NOT IN ('entry 1', 'entry 2')",
    "dec BETWEEN -100.5 AND 1000.25",
    "wide < -1",
    "date < DATE '1500-03-01'",
    "date = DATE '1800-01-01' OR date > DATE '2290-01-01'",
    "ts >= TIMESTAMP '1900-06-01 00:00:00' AND ts < TIMESTAMP '1902-01-01 12:00:00'",
    "ntz < TIMESTAMP '1969-12-15 00:00:00'",
    "bin IS NULL",
    "`none` IS NOT NULL",
    "nested.x > 2400",
    "i8 <=> NULL",
    "bin = X'0505050505'",
]


@pytest.fixture(scope="module")
def every_type(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes two files with every type that Spark can write, in several stripes, with nulls, NaN, -0.0 and 0.0."""
    folder = tmp_path_factory.mktemp("types") / "t"
    rows = [row(i) for i in range(ROWS)]
    for i, special in enumerate([float("nan"), 0.0, -0.0, float("inf"), float("-inf")] * 4):
        rows[100 * i]["d"] = special
        rows[100 * i + 1]["f"] = special
    table = pa.Table.from_pylist(rows, SCHEMA).append_column("id", pa.array(range(ROWS)))
    frame = frame_from(spark, table, folder.parent).selectExpr(
        "*", "interval '1' hour * i16 AS gap", "named_struct('at', ts, 'gaps', array(interval '1' day)) AS inner"
    )
    writer = frame.repartition(2).write.option("orc.row.index.stride", 1000).option("orc.stripe.row.count", 1000)
    writer.orc(str(folder))
    return folder


@pytest.fixture(scope="module")
def answers(spark: Any, every_type: Path) -> dict[str, set[int]]:
    """Returns the ids that Spark finds for each condition."""
    plain = [where.replace("TIMESTAMP '1969", "TIMESTAMP_NTZ '1969") for where in WHERES]
    asked = [f"{where} AS w{i}" for i, where in enumerate(plain)]
    found = collected(spark.read.orc(str(every_type)).selectExpr("id", *asked)).to_pylist()
    return {where: {one["id"] for one in found if one[f"w{i}"]} for i, where in enumerate(WHERES)}


def test_every_type(spark: Any, every_type: Path) -> None:
    assert check(spark, every_type) == ROWS


@pytest.mark.parametrize("where", WHERES)
def test_filters_mean_what_spark_means(spark: Any, every_type: Path, answers: dict[str, set[int]], where: str) -> None:
    found = collected(read(spark, every_type, ["id"], where))["id"].to_pylist()
    assert len(found) == len(set(found)) < ROWS
    assert set(found) == answers[where]
    assert found or where == "`none` IS NOT NULL"


def test_predicates_in_every_tongue(spark: Any, every_type: Path) -> None:
    at = dt.datetime(1901, 1, 1)
    wanted = spark.read.orc(str(every_type)).where("i64 > 1000 AND ts > TIMESTAMP '1901-01-01 00:00:00'").count()
    assert wanted > 10
    for where in (
        (col("i64") > 1000) & (col("ts") > at),
        (col("i64") > 1000) & (col("ts") > at.replace(tzinfo=dt.UTC)),
        [("i64", ">", 1000), ("ts", ">", "1901-01-01")],
        (pa.compute.field("i64") > 1000) & (pa.compute.field("ts") > pa.scalar(at.replace(tzinfo=dt.UTC))),
    ):
        assert read(spark, every_type, ["i8"], where).count() == wanted, where


@pytest.mark.parametrize(("names", "count"), [("o*.orc", 3), pytest.param("*.orc", 18, marks=pytest.mark.slow)])
def test_golden_examples(spark: Any, golden_orc: Path, names: str, count: int) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    compared = 0
    for path in sorted(golden_orc.glob(names)):
        try:
            expected = collected(spark.read.orc(str(path)))
        except (PySparkException, Py4JJavaError):
            # Spark cannot read unions, files without a root struct or without columns, or later versions of the format.
            continue
        found = read(spark, path)
        assert found.schema == spark.read.orc(str(path)).schema
        assert collected(found).equals(expected), path.name
        compared += 1
    assert compared >= count


def test_chars_are_padded_and_compare_so(spark: Any, tmp_path: Path) -> None:
    import pyorc

    with open(tmp_path / "chars.orc", "wb") as file:
        schema = "struct<c:char(6),v:varchar(4),s:struct<c:char(3),n:bigint>,l:array<char(2)>,n:int>"
        with pyorc.Writer(file, schema) as writer:
            writer.write(("ab", "v ", ("x", 1), ["y"], 1))
            writer.write(("ab  ", "v", None, None, 2))
            writer.write((None, None, ("z", None), [None, "q "], 3))
    path = tmp_path / "chars.orc"
    assert check(spark, path) == 3
    for where in ("c = 'ab'", "c IN ('ab   ', 'x')", "v = 'v'"):
        assert check(spark, path, where) > 0
    assert read(spark, path).where("c = 'ab'").count() == 2
    assert read(spark, path, ["s.c", "n"], "n = 1").first().asDict(True) == {"s": {"c": "x  "}, "n": 1}


ZONES = ["Europe/Berlin", "America/Los_Angeles", "UTC"]


@pytest.mark.parametrize(
    ("writers", "reader"),
    [
        (["Europe/Berlin"], "Europe/Berlin"),
        (["UTC"], "America/Los_Angeles"),
        *(pytest.param(ZONES, reader, marks=pytest.mark.slow) for reader in ZONES),
    ],
)
def test_timestamps_in_the_jvms_zone(spark: Any, tmp_path: Path, writers: list[str], reader: str) -> None:
    """Instants over nine thousand years, and around changes of summer time, are written in each zone and read in
    another zone."""
    zones = spark._jvm.java.util.TimeZone
    micros = [*range(-62135000000_000000, 253402300000_000000, 63115_000000_000001)]
    micros += [
        (at + step) * 1_000_000 for at in (1603587600, 1585443600, 1604217600) for step in range(-9000, 9000, 900)
    ]
    data = pa.table({"n": micros, "at": pa.array(micros, pa.timestamp("us", "UTC"))})
    before = zones.getDefault()
    try:
        for writer in writers:
            zones.setDefault(zones.getTimeZone(writer))
            path = str(tmp_path / writer.replace("/", "-"))
            frame_from(spark, data, tmp_path).coalesce(1).write.orc(path)
            zones.setDefault(zones.getTimeZone(reader))
            shown = ("n", "unix_micros(at) AS at")
            expected = collected(spark.read.orc(path).selectExpr(*shown))
            assert collected(read(spark, path).selectExpr(*shown)).equals(expected)
            assert check(spark, path, "at < TIMESTAMP '2020-10-25 01:30:00'", columns=["n"]) > 0
    finally:
        zones.setDefault(before)


def test_literals_are_on_the_sessions_clock(spark: Any, tmp_path: Path) -> None:
    start = dt.datetime(2020, 10, 24, 20, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(minutes=10 * i) for i in range(72)]
    frame = frame_from(spark, pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))}), tmp_path)
    frame.selectExpr("at", "to_timestamp_ntz(at) AS plain").coalesce(1).write.orc(str(tmp_path / "t"))
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        for literal in ("2020-10-25 02:30:00", "2020-10-25 01:10:00"):
            assert check(spark, tmp_path / "t", f"at >= TIMESTAMP '{literal}'") > 0
        assert check(spark, tmp_path / "t", "at = DATE '2020-10-25'") == 1
        # If the column is a timestamp without zone, Spark ignores the zone of a literal.
        assert check(spark, tmp_path / "t", "plain > '2020-10-25 02:30:00+00:00'") > 0
        zoned = col("plain") > dt.datetime(2020, 10, 25, 2, 30, tzinfo=dt.UTC)
        assert check(spark, tmp_path / "t", zoned, "plain > '2020-10-25 03:30:00'") > 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


# ---------------------------------------------------------------------- directories


@pytest.fixture(scope="module")
def partitioned(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hive") / "t"
    frame = spark.range(200).selectExpr(
        "id",
        "if(id % 5 = 0, NULL, id % 3) AS n",
        "if(id % 2 = 0, 'a b/c=d', 'é%') AS s",
        "date_add(DATE '2024-01-01', int(id % 2)) AS day",
        "id % 2 + 0.5D AS half",
        "timestamp_seconds(1700000000 + id % 2) AS moment",
    )
    frame.write.partitionBy("n", "s", "day", "half", "moment").orc(str(folder))
    return folder


def test_directories_become_columns_of_sparks_types(spark: Any, partitioned: Path) -> None:
    assert check(spark, partitioned) == 200
    for where in (
        "n = 1",
        "n IS NULL AND id < 50",
        "s <> 'a b/c=d'",
        "day = DATE '2024-01-02'",
        "half > 1",
        "ID IN (3, 4)",
    ):
        assert 0 < check(spark, partitioned, where) < 200, where
    moment = "moment = TIMESTAMP '2023-11-14 22:13:21'"
    assert check(spark, partitioned, moment, columns=["n", "ID", "moment"]) == 100
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        assert check(spark, partitioned, "n = '1'") > 0
    finally:
        spark.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")


def test_a_given_schema(spark: Any, partitioned: Path, tmp_path: Path) -> None:
    wanted = "absent STRING, id DECIMAL(20, 0), n BIGINT, s STRING, day STRING, half DOUBLE, moment STRING"
    expected = spark.read.schema("absent STRING, id BIGINT, n BIGINT, s STRING, day STRING, half DOUBLE, moment STRING")
    frame = read(spark, partitioned, schema=spark.createDataFrame([], wanted).schema, where="id >= 198")
    rows = (
        expected.orc(str(partitioned))
        .where("id >= 198")
        .selectExpr("absent", "CAST(id AS DECIMAL(20, 0)) id", "n", "s", "day", "half", "moment")
    )
    assert counted(frame) == counted(rows)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidQuery, match="schema="):
        read(spark, tmp_path / "empty")
    nothing = read(spark, tmp_path / "empty", schema=pa.schema([("a", pa.int32())]))
    assert (nothing.schema.simpleString(), nothing.count()) == ("struct<a:int>", 0)


def test_several_paths_and_globs(spark: Any, every_type: Path) -> None:
    files = sorted(every_type.glob("*.orc"))
    assert check(spark, files, "i64 > 1000", columns=["i64"]) > 0
    assert read(spark, f"{every_type}/*.orc").count() == ROWS
    assert read(spark, files[0].as_uri(), ["i8"]).count() < ROWS


def test_many_files_are_planned_in_tasks(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    (tmp_path / "t").mkdir()
    for i in range(80):
        orc.write_table(pa.table({"i": range(i * 10, i * 10 + 10)}), tmp_path / "t" / f"{i:03}.orc")
    module = importlib.import_module("orcidx.spark.reading")
    monkeypatch.setattr(module, "DRIVER_METADATA_FILES", 70)
    frame = read(spark, tmp_path / "t", where="i >= 700 AND i < 755")
    assert sorted(r.i for r in frame.collect()) == list(range(700, 755))
    assert frame.rdd.getNumPartitions() == 1
    assert read(spark, tmp_path / "t", limit=25).count() == 25
    (tmp_path / "t" / "077.orc").write_bytes(b"no ORC file at all")
    with pytest.raises(Exception, match=r"077\.orc"):
        read(spark, tmp_path / "t", where="i >= 700")


# ---------------------------------------------------------------------- top, limit, indexes


def test_limit_and_top_are_exact(spark: Any, every_type: Path) -> None:
    assert read(spark, every_type, ["s"], limit=7).count() == 7
    assert (
        read(spark, every_type, ["s"], "i64 > 1000", limit=100000).count()
        == spark.read.orc(str(every_type)).where("i64 > 1000").count()
    )
    assert read(spark, every_type, limit=0).count() == 0
    whole = spark.read.orc(str(every_type))
    for top, order in (
        ([("d", "desc", "last"), "i64"], "d DESC NULLS LAST, i64 ASC NULLS LAST"),
        ([("d", "asc", "first"), ("i64", "desc", "first")], "d ASC NULLS FIRST, i64 DESC NULLS FIRST"),
        ([("S", "desc"), "i64"], "s DESC NULLS LAST, i64 ASC NULLS LAST"),
        ([("few", "asc"), ("ts", "desc", "last"), "i64"], "few ASC NULLS LAST, ts DESC NULLS LAST, i64 ASC NULLS LAST"),
        ([("dec", "desc"), ("b", "asc"), "i64"], "dec DESC NULLS LAST, b ASC NULLS LAST, i64 ASC NULLS LAST"),
    ):
        found = read(spark, every_type, ["i64", "nested"], "i8 > 0", top=top, limit=60)
        assert found.columns == ["i64", "nested"]
        whole.createOrReplaceTempView("whole")
        expected = spark.sql(f"SELECT i64, nested FROM whole WHERE i8 > 0 ORDER BY {order} LIMIT 60")
        assert list(map(repr, found.collect())) == list(map(repr, expected.collect())), top
    with pytest.raises(InvalidQuery, match="limit"):
        read(spark, every_type, top=["i64"])


def test_deletion_vectors_and_file_indexes(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in (0, 1):
        data = pa.table({"id": range(part * 1000, part * 1000 + 1000), "k": [i * 7919 % 1000 for i in range(1000)]})
        orc.write_table(data, folder / f"{part}.orc")
        index = paimon.build_file_index(data, {"bitmap": {"k": {}}})
        (folder / f"_{part}.index").write_bytes(index.to_bytes())
    vectors = {folder / "0.orc": paimon.DeletionVector([0, 3, 999])}
    indexes = {str(folder / f"{part}.orc"): str(folder / f"_{part}.index") for part in (0, 1)}
    frame = read(spark, folder, deletion_vector=vectors, file_index=indexes, where="k = 0")
    expected = [part * 1000 + i for part in (0, 1) for i in range(1000) if i * 7919 % 1000 == 0]
    assert sorted(r.id for r in frame.collect()) == [i for i in expected if i != 0]
    assert read(spark, folder, deletion_vector=vectors).count() == 1997
    assert read(spark, folder, ["id"], deletion_vector=vectors, limit=1999).count() == 1997
    with pytest.raises(InvalidQuery, match="not among the 2 files"):
        read(spark, folder, deletion_vector={"other.orc": vectors[folder / "0.orc"]})


# ---------------------------------------------------------------------- what goes wrong


def test_files_that_change_or_vanish_are_named(spark: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        orc.write_table(pa.table({"i": range(100)}), tmp_path / f"{name}.orc")
    frame = read(spark, tmp_path)
    assert frame.count() == 200
    orc.write_table(pa.table({"i": range(101)}), tmp_path / "a.orc")
    with pytest.raises(Exception, match=r"StorageError: the object has changed .*a\.orc"):
        frame.count()
    frame = read(spark, tmp_path)
    (tmp_path / "b.orc").unlink()
    with pytest.raises(Exception, match=r"StorageError: the file was deleted after the read was planned.*b\.orc"):
        frame.count()
    with pytest.raises(FileNotFoundError):
        read(spark, tmp_path / "b.orc")


def test_mistakes_say_what_to_do(spark: Any, every_type: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="i64"):
        read(spark, every_type, where="i65 > 3")
    with pytest.raises(InvalidQuery, match="columns must be a list"):
        read(spark, every_type, "i64")
    with pytest.raises(InvalidQuery, match="'orc' or 'paimon'"):
        read(spark, every_type, format="parquet")
    with pytest.raises(InvalidQuery, match="so they need a path or URL"):
        read(spark, b"bytes of a file")
    with pytest.raises(InvalidQuery, match="SparkSession"):
        read(str(every_type), spark)
    with pytest.raises(InvalidQuery, match="snapshot_id"):
        read(spark, every_type, snapshot_id=1)
    (tmp_path / "bad.orc").write_bytes(b"x" * 100)
    with pytest.raises(CorruptFile, match=r"bad\.orc"):
        read(spark, tmp_path)
    spark.sql("SELECT 1 AS a, INTERVAL '1' MONTH AS months").write.orc(str(tmp_path / "months"))
    with pytest.raises(Unsupported, match="select the other columns"):
        read(spark, tmp_path / "months")
    assert read(spark, tmp_path / "months", ["a"]).count() == 1


# ---------------------------------------------------------------------- what Catalyst knows


def claimed(frame: Any) -> int:
    """Returns the size that Catalyst assumes for a DataFrame. It chooses joins by this size."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def test_a_frame_is_no_smaller_than_what_it_reads(spark: Any, every_type: Path) -> None:
    """If Catalyst assumed a size that is too small, it would broadcast every frame."""
    stored = sum(path.stat().st_size for path in every_type.glob("*.orc"))
    assert stored <= claimed(read(spark, every_type)) < 100 * stored
    assert claimed(read(spark, every_type, ["b"])) >= ROWS
    assert claimed(read(spark, every_type, ["id"], where="i64 > 1000")) > ROWS // 8
    assert claimed(read(spark, every_type, ["id"], where="id < 0")) <= 1
    assert claimed(read(spark, every_type, ["id"], top=["id"], limit=5)) < 1000


def test_columns_of_spark_are_names(spark: Any, every_type: Path) -> None:
    from pyspark.sql import functions as F

    frame = read(spark, every_type, ["i8", F.col("id"), F.col("nested.x")])
    assert frame.columns == ["i8", "id", "nested"]
    for bad in ([F.col("id") + 1], F.col("id"), "id"):
        with pytest.raises(InvalidQuery, match="columns"):
            read(spark, every_type, bad)
