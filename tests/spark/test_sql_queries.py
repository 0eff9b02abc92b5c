"""Plain SQL in an enabled session returns Spark's own rows, but reads fewer files."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from spark.random_queries import LAYOUTS, SPEC, check_random_queries, drop_tables, key, make_tables

import orcidx.spark
from orcidx.errors import Unsupported
from orcidx.orc.timezones import load_zone
from orcidx.predicate import Constant, Leaf, Op
from orcidx.predicate.exact_time import ExactTime
from orcidx.spark import build_file_index, disable, enable, read, refresh, sql, why
from orcidx.spark.conditions.analysed_conditions import condition_of_json
from orcidx.spark.sessions import served, session_rule
from orcidx.spark.sessions.session_rule import has_rule
from orcidx.spark.sql_queries import _Answers, _Scan

FILES, ROWS = 8, 400
DAY = dt.date(2024, 1, 1)


def table_of(number: int) -> pa.Table:
    numbers = range(number * ROWS, number * ROWS + ROWS)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "k": pa.array([None if i % 50 == 7 else i * 7919 % 10_007 for i in numbers], pa.int32()),
            "t": [f"it's {i % 97}" for i in numbers],
            "d": pa.array([DAY + dt.timedelta(days=i // 10) for i in numbers]),
            "x": pa.array([i / 8 if i % 11 else float("nan") for i in numbers]),
            "m": pa.array([decimal.Decimal(i * 5) for i in numbers], pa.decimal128(12, 2)),
            # The files also store this partition column. Spark uses the value in the directory's name.
            "day": pa.array([5] * ROWS, pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def indexed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("sql") / "an indexed table"
    for number in range(FILES):
        (folder / f"day={number % 2}").mkdir(parents=True, exist_ok=True)
        orc.write_table(table_of(number), folder / f"day={number % 2}" / f"{number} %20.orc")
    built = build_file_index(spark, str(folder), {"bitmap": {"k": {}, "day": {}}}, progress=False)
    assert {row.status for row in built.collect()} == {"built"}
    spark.read.orc(str(folder)).createOrReplaceTempView("indexed")
    disable(spark)
    yield folder
    disable(spark)
    spark.catalog.dropTempView("indexed")


def both(spark: Any, text: str) -> tuple[list[str], list[str]]:
    """Returns the rows without the rule and with it, as text. In this form, NaN equals NaN."""
    disable(spark)
    plain = sorted(map(str, spark.sql(text).collect()))
    enable(spark)
    try:
        return plain, sorted(map(str, spark.sql(text).collect()))
    finally:
        disable(spark)


QUERIES = [
    ("SELECT n, day FROM indexed WHERE k = {key}", 1),
    ("SELECT count(*) FROM indexed WHERE k = {key} AND rand() >= 0", 1),
    ("SELECT count(*) FROM indexed WHERE k = {key} AND upper(t) LIKE 'IT%'", 1),
    ("SELECT count(*) FROM indexed WHERE n IN ({many})", 1),
    ("SELECT count(*) FROM indexed WHERE n NOT IN ({many})", FILES),
    ("SELECT a.n, b.n FROM indexed a JOIN indexed b ON a.n = b.n WHERE a.k = {key}", 1),
    ("SELECT (SELECT max(n) FROM indexed WHERE n < 100), count(*) FROM indexed WHERE n = 700", 1),
    ("SELECT * FROM indexed WHERE n < 0", 0),
    ("SELECT count(*) FROM indexed WHERE EXISTS (SELECT 1 FROM indexed b WHERE b.n = indexed.n AND b.k = {key})", 1),
    ("WITH a AS (SELECT * FROM indexed WHERE n < 50) SELECT n FROM a UNION ALL SELECT n FROM indexed WHERE n = 3", 1),
    ("SELECT n, row_number() OVER (ORDER BY n) FROM indexed WHERE d = DATE '2024-02-10'", 1),
    ("SELECT count(*) FROM indexed WHERE m BETWEEN 10 AND 20", 1),
    ("SELECT day, count(*) FROM indexed WHERE t = 'it''s 3' GROUP BY day", FILES),
    ("SELECT max(_metadata.file_name) FROM orc.`{folder}` WHERE k = {key}", 1),
]


@pytest.mark.java
@pytest.mark.parametrize(("text", "most"), QUERIES)
def test_queries_are_answered_as_by_spark_alone(spark: Any, indexed: Path, text: str, most: int) -> None:
    text = text.format(folder=indexed, key=key(1234), many=", ".join(map(str, range(30))))
    plain, pruned = both(spark, text)
    assert pruned == plain
    if most < FILES:
        assert why()[-1].files_left == most or why()[-2].files_left == most


@pytest.mark.java
def test_what_is_told_is_what_spark_reads(spark: Any, indexed: Path) -> None:
    enable(spark)
    try:
        frame = spark.sql(f"SELECT n FROM indexed WHERE k = {key(1234)}")
        assert "OrcidxFileIndex" in frame._jdf.queryExecution().executedPlan().toString()
        assert [row.n for row in frame.collect()] == [1234]
    finally:
        disable(spark)
    last = why()[-1]
    assert (last.files, last.files_left, dict(last.by)) == (FILES, 1, {"file indexes": FILES - 1})
    assert last.bytes == sum(one.stat().st_size for one in indexed.rglob("day=*/*.orc"))
    assert str(indexed) in str(last)


@pytest.mark.java
def test_a_listing_that_takes_several_answers_of_the_jvm(spark: Any, tmp_path: Path) -> None:
    for number in range(40):
        orc.write_table(pa.table({"n": [number, number + 100]}), tmp_path / f"{number:03} {'long name ü ' * 12}.orc")
    build_file_index(spark, str(tmp_path), {"bloom-filter": {"n": {}}}, progress=False).collect()
    plain, pruned = both(spark, f"SELECT n, _metadata.file_name FROM orc.`{tmp_path}` WHERE n = 117")
    assert pruned == plain
    assert (len(plain), why()[-1].files_left) == (1, 1)


@pytest.mark.java
def test_partitions_keep_the_values_of_their_directories(spark: Any, indexed: Path) -> None:
    """All rows in the files store day = 5, and statistics and bitmaps describe this value. Spark uses the values of the
    directories, so the stored value must not rule out files."""
    for text in ("day = 0", "day = 5", "day = 0 AND n < 500", "day = 1 OR n = 3"):
        plain, pruned = both(spark, f"SELECT n, day FROM indexed WHERE {text}")
        assert pruned == plain


@pytest.mark.java
def test_like_with_an_escape_character(spark: Any, tmp_path: Path) -> None:
    """Catalyst's JSON does not show the escape character of a LIKE. The rows must be right anyway."""
    for number, text in enumerate(("ab_cd", "ab/xcd", "zz")):
        orc.write_table(pa.table({"n": [number], "s": [text]}), tmp_path / f"{number}.orc")
    build_file_index(spark, str(tmp_path), {"bloom-filter": {"s": {}}}, progress=False).collect()
    for condition, most in ((r"'ab/_c%' ESCAPE '/'", 3), (r"'ab/_c%'", 1), (r"'ab\\_c%'", 1)):
        plain, pruned = both(spark, f"SELECT n FROM orc.`{tmp_path}` WHERE s LIKE {condition}")
        assert pruned == plain
        assert len(plain) == 1
        assert why()[-1].files_left in (None, most)


@pytest.mark.java
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_times_of_conditions_skip_files_in_every_zone(spark: Any, tmp_path: Path, zone: str) -> None:
    """Spark 4.1 writes the times of a condition in the session's zone. Earlier versions write them in the JVM's
    zone."""
    at = [1_700_000_000 + 864_000 * number for number in range(4)]
    for number, second in enumerate(at):
        times = pa.array([second * 10**6, second * 10**6 + 250_000], pa.timestamp("us"))
        orc.write_table(pa.table({"n": [number, -number], "t": times}), tmp_path / f"{number}.orc")
    build_file_index(spark, str(tmp_path), {"bloom-filter": {"n": {}}}, progress=False).collect()
    spark.read.schema("n BIGINT, t TIMESTAMP").orc(str(tmp_path)).createOrReplaceTempView("times")
    session_zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for micros in (0, 250_000):
            literal = f"timestamp_micros({at[2] * 10**6 + micros})"
            many = ", ".join(f"timestamp_micros({at[2] * 10**6 + micros + more})" for more in range(20))
            for condition in (f"t = {literal}", f"t IN ({many})", f"t <=> {literal}"):
                plain, pruned = both(spark, f"SELECT n FROM times WHERE {condition}")
                assert (pruned, len(plain), why()[-1].files_left) == (plain, 1, 1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", session_zone)
        spark.catalog.dropTempView("times")


@pytest.mark.java
@pytest.mark.parametrize("schema", ["_col1 BIGINT, _col0 BIGINT", "_col0 BIGINT, _col1 BIGINT"])
def test_columns_that_spark_finds_by_position(spark: Any, tmp_path: Path, schema: str) -> None:
    """If all names of a file begin with _col, Spark finds its columns by position, not by name."""
    for number in range(3):
        orc.write_table(pa.table({"_col0": [number], "_col1": [number + 10]}), tmp_path / f"{number}.orc")
    build_file_index(spark, str(tmp_path), {"bloom-filter": {"_col0": {}, "_col1": {}}}, progress=False).collect()
    try:
        frame = spark.read.schema(schema).orc(str(tmp_path))
        frame.createOrReplaceTempView("positions")
        column = frame.columns[0]
        for number in (2, 12):
            plain, pruned = both(spark, f"SELECT * FROM positions WHERE {column} = {number}")
            assert pruned == plain
            rows = read(spark, str(tmp_path), schema=schema, where=f"{column} = {number}").collect()
            assert sorted(map(str, rows)) == plain
    finally:
        spark.catalog.dropTempView("positions")


@pytest.mark.java
@pytest.mark.parametrize("bucketed", [False, True], ids=["partitioned", "bucketed"])
def test_tables_of_the_catalog(spark: Any, indexed: Path, tmp_path: Path, bucketed: bool) -> None:
    name = f"sql_table_{bucketed}".lower()
    frame = spark.read.orc(str(indexed)).withColumnRenamed("day", "part")
    writer = frame.repartitionByRange(4, "n").write.format("orc").option("path", str(tmp_path / name)).mode("overwrite")
    writer = writer.bucketBy(4, "n").sortBy("n") if bucketed else writer.partitionBy("part")
    writer.saveAsTable(name)
    try:
        build_file_index(spark, str(tmp_path / name), {"bitmap": {"k": {}}}, progress=False).collect()
        for where in (f"k = {key(1234)}", f"n = 77 AND k = {key(77)}", "n < 0", f"part = 1 AND k = {key(1234)}"):
            plain, pruned = both(spark, f"SELECT n, k, part FROM {name} WHERE {where}")
            assert pruned == plain
            last = why()[-1]
            assert last.files_left is not None, (where, last)
            assert last.files is not None
            assert last.files_left < last.files
        plain, pruned = both(spark, f"SELECT count(*) FROM {name} a JOIN {name} b USING (n) WHERE a.k = {key(5)}")
        assert pruned == plain
    finally:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.java
def test_a_long_question_is_served(spark: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of more than 8 kB is not sent by py4j, which would send it in two pieces. The second piece would wait 40
    ms for an acknowledgement."""
    asked: list[object] = []
    monkeypatch.setattr(session_rule, "text_from_java", lambda one: asked.append(one) or served.text_from_java(one))
    many = ", ".join(map(str, range(100_000, 100_900)))
    plain, pruned = both(spark, f"SELECT n FROM indexed WHERE n IN (77, {many}) AND t <> 'ü{'☃' * 2500}'")
    assert plain == pruned == ["Row(n=77)"]
    assert any(not isinstance(one, str) for one in asked)
    assert why()[-1].files_left == 1


@pytest.mark.java
def test_a_scan_without_an_index_is_not_asked_about(
    spark: Any, indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the tasks of a query use the processors, one call finds which scans of the query read a directory with an
    index. For the other scans, no more calls are made."""
    orc.write_table(table_of(0).drop(["day"]), tmp_path / "0.orc")
    spark.read.orc(str(tmp_path)).createOrReplaceTempView("plain")
    planned: list[int] = []
    asked: list[str] = []
    indexed_relations, skipped_files = _Answers.indexed, _Answers.skipped_files

    def plans(self: _Answers, relations: str) -> str:
        planned.append(relations.count("\x02") + 1)
        return indexed_relations(self, relations)

    def scans(self: _Answers, question: str, listing: Any) -> str:
        asked.append(question.partition("\x02")[0])
        return skipped_files(self, question, listing)

    monkeypatch.setattr(_Answers, "indexed", plans)
    monkeypatch.setattr(_Answers, "skipped_files", scans)
    text = "SELECT count(*) FROM plain a JOIN plain b USING (n) WHERE a.n > 5 AND b.k > 7"
    plain, enabled = both(spark, text)
    assert enabled == plain
    assert (set(planned), asked) == ({2}, [])
    text = f"SELECT count(*) FROM plain JOIN indexed USING (n) WHERE indexed.k = {key(5)} AND plain.n > 1"
    plain, enabled = both(spark, text)
    assert enabled == plain
    assert {one.rpartition("/")[2].replace("%20", " ") for one in asked} == {indexed.name}
    build_file_index(spark, str(tmp_path), {"bitmap": {"k": {}}}, progress=False).collect()
    plain, enabled = both(spark, "SELECT n FROM plain WHERE n = -1")
    assert plain == enabled == []
    assert why()[-1].files_left == 0


@pytest.mark.java
def test_a_view_of_many_directories(spark: Any, indexed: Path) -> None:
    """Directories are examined when the scan lists its files, not while the query is planned."""
    files = sorted(map(str, indexed.rglob("day=*/*.orc"))) * 3
    spark.read.orc(*[files]).createOrReplaceTempView("many")
    plain, enabled = both(spark, f"SELECT n FROM many WHERE k = {key(1234)}")
    assert enabled == plain
    assert why()[-1].files_left == 3


@pytest.mark.java
def test_dynamic_partition_pruning_stays(spark: Any, indexed: Path) -> None:
    ones = "(SELECT id AS k FROM range(2) WHERE id * 2 = 2)"
    text = f"SELECT count(*) FROM indexed JOIN {ones} b ON day = b.k WHERE n < 1000"
    plain, pruned = both(spark, text)
    assert pruned == plain == ["Row(count(1)=400)"]


@pytest.mark.java
def test_one_query_alone(spark: Any, indexed: Path) -> None:
    frame = sql(spark, f"SELECT n FROM indexed WHERE k = {key(99)}")
    assert not has_rule(spark)
    before = len(why())
    assert [row.n for row in frame.collect()] == [99]
    assert why()[-1].files_left == 1
    assert spark.sql(f"SELECT n FROM indexed WHERE k = {key(99)}").count() == 1
    assert len(why()) in (before + 1, 100)


@pytest.mark.java
def test_sessions_and_other_rules_are_left_alone(spark: Any, indexed: Path) -> None:
    disable(spark)
    none = spark._jsparkSession.experimental().extraOptimizations().size()
    enable(spark)
    enable(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == none + 1
    assert not has_rule(spark.newSession())
    disable(spark)
    disable(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == none


@pytest.mark.java
def test_a_file_that_changed_is_read(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(3):
        orc.write_table(table_of(number).drop(["day"]), folder / f"{number}.orc")
    build_file_index(spark, str(folder), {"bitmap": {"k": {}}}, progress=False).collect()
    enable(spark)
    try:
        assert spark.read.orc(str(folder)).where("n = 100000").count() == 0
        assert why()[-1].files_left == 0
        changed = pa.table({"n": pa.array([100_000], pa.int64()), "k": pa.array([1], pa.int32())})
        orc.write_table(changed, folder / "1.orc")
        assert spark.read.orc(str(folder)).where("n = 100000").count() == 1
        refresh(spark, str(folder), progress=False)
        assert spark.read.orc(str(folder)).where("n = 100000").count() == 1
        assert why()[-1].files_left == 1
        newest = max((folder / "_orcidx").rglob("*"), key=lambda one: (one.is_file(), one.stat().st_mtime_ns))
        newest.write_bytes(b"damaged")
        assert spark.read.orc(str(folder)).where("n = 100000").count() == 1
    finally:
        disable(spark)


@pytest.mark.java
def test_options_that_may_change_values_are_left_to_spark(spark: Any, indexed: Path) -> None:
    enable(spark)
    try:
        frame = spark.read.option("someday", "x").orc(str(indexed)).where("n < 0")
        assert frame.count() == 0
        assert "someday may change" in str(why()[-1])
    finally:
        disable(spark)


@pytest.mark.java
def test_whatever_goes_wrong_in_python_all_files_are_read(
    spark: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("made up")

    for name in ("listing_of", "store_above"):
        monkeypatch.setattr(f"orcidx.spark.sql_queries.{name}", fails)
        plain, pruned = both(spark, f"SELECT n FROM indexed WHERE k = {key(1234)}")
        assert pruned == plain == ["Row(n=1234)"]


@pytest.mark.java
def test_random_queries(spark: Any, indexed: Path, rng: np.random.Generator, tmp_path: Path) -> None:
    """For long runs by hand, ORCIDX_QUERIES, ORCIDX_SEED and --timeout can be set."""
    make_tables(spark, str(tmp_path), lambda place: build_file_index(spark, place, SPEC, progress=False).collect())
    try:
        count = int(os.environ.get("ORCIDX_QUERIES", "20"))
        check_random_queries(spark, rng, count, ["indexed", *LAYOUTS, "rq_view"])
    finally:
        drop_tables(spark)


# ---------------------------------------------------------------------- without Java


def test_a_question_is_taken_apart() -> None:
    column = {"class": "org.apache.spark.sql.catalyst.expressions.AttributeReference", "num-children": 0}
    nodes = [{**column, "name": "a", "dataType": "string"}, {**column, "name": "b", "dataType": "string"}]
    text = "\x02".join(
        [
            "file:/x/p=1\x01file:/x/p=2",
            "p",
            "b",
            "path\x01mergeSchema",
            "UTC\x01true\x014",
            json.dumps([nodes]),
        ]
    )
    scan = _Scan.of(text)
    assert scan.roots == ("file:/x/p=1", "file:/x/p=2")
    assert scan.shown == "/x/p=1 and 1 more"
    assert scan.partitions == {"p"}
    assert scan.options == {"path", "mergeschema"}
    assert (scan.clock_zone, scan.infers_partitions, scan.slots) == ("UTC", True, 4)
    assert scan.types == {"a": "string", "b": "collated string"}


def test_instants_of_conditions_are_casts_in_utc() -> None:
    """Only casts in UTC are used. For any other text of an instant, the zone depends on Spark's version, so its value
    is not known."""
    of = "org.apache.spark.sql.catalyst.expressions."
    column = {"class": f"{of}AttributeReference", "num-children": 0, "name": "t", "dataType": "timestamp"}
    literal = {"class": f"{of}Literal", "num-children": 0}
    cast = {"class": f"{of}Cast", "num-children": 1, "dataType": "timestamp", "timeZoneId": "UTC"}
    compared = {"class": f"{of}EqualTo", "num-children": 2}
    local = {**literal, "dataType": "timestamp_ntz", "value": "1700000000250000"}
    text = {**literal, "dataType": "timestamp", "value": "2023-11-14 22:13:20.25"}
    conditions = [
        [compared, column, cast, local],
        [compared, column, {**cast, "timeZoneId": "Etc/GMT+12"}, local],
        [compared, column, text],
    ]
    head = ["file:/x", "", "", "path", "Etc/GMT+12\x01true\x014"]
    scan = _Scan.of("\x02".join([*head, json.dumps(conditions)]))
    found = [condition_of_json(one, load_zone("UTC")) for one in scan.filters]
    known = Leaf(("t",), Op.EQ, (ExactTime(1_700_000_000_250_000_000, "UTC"),))
    assert found == [known, Constant(True), Constant(True)]


def test_a_question_of_names_that_hold_what_separates_them() -> None:
    text = "\x02".join(["file:/x\x031y\x01file:/\x033\x032", "p\x031q", "\x0333", "path", "UTC\x01true\x014", "[]"])
    scan = _Scan.of(text)
    assert scan.roots == ("file:/x\x01y", "file:/\x03\x02")
    assert scan.partitions == {"p\x01q"}
    assert scan.collated == {"\x033"}


@pytest.mark.parametrize("call", [enable, disable, lambda spark: sql(spark, "SELECT 1")])
def test_connect_is_refused(call: Any) -> None:
    pytest.importorskip("pyspark")
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(Unsupported, match=r"Spark Connect"):
        call(session)


def test_the_rule_is_in_the_package() -> None:
    source = Path(orcidx.spark.__file__).parent / "sessions" / "java" / "IndexedFilesRule.java"
    assert "class IndexedFilesRule extends Rule" in source.read_text()
