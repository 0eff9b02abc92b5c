"""Which engine reads which data. All engines return the same rows as ``spark.read.orc``."""

from __future__ import annotations

import glob
import json
import os
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orcidx import InvalidQuery, col
from orcidx.orc.timezones import load_zone
from orcidx.predicate import Constant, parse
from orcidx.spark import build_file_index, read, why
from orcidx.spark.choosing import engine_rules as choosing
from orcidx.spark.conditions import key_frames, survivors
from orcidx.spark.conditions.analysed_conditions import analysed_conjuncts, condition_of_json, part_of_json
from orcidx.spark.conditions.relation import relation_of

pytestmark = pytest.mark.java

SPEC = {
    "bitmap": {"few": {}},
    "bloom-filter": {"key": {"items": 1000, "fpp": 0.001}, "text": {"items": 1000, "fpp": 0.001}},
}
FILES, ROWS = 6, 500


@pytest.fixture(scope="module")
def directory(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes indexed files whose names have all special characters of URIs and globs. ``id`` grows from file to file,
    and ``key`` is scattered."""
    root = tmp_path_factory.mktemp("engines")
    frame = spark.range(0, FILES * ROWS, 1, FILES).selectExpr(
        "id",
        "pmod(id * 7919, 100003) AS key",
        "int(id % 7) AS few",
        "concat('t', pmod(id * 31, 1009)) AS text",
        "if(id % 11 = 0, null, id / 3.0D) AS real",
        "cast(id / 7 AS decimal(12,2)) AS dec",
        "date_add(date'2020-01-01', cast(id / 10 AS int)) AS day",
        "timestamp_seconds(1600000000 + id * 600) AS at",
        "id % 5 = 0 AS flag",
        "concat('p ', int(id div 1500), '%ü') AS part",
    )
    frame.write.partitionBy("part").orc(str(root / "plain"))
    folder = root / "a b%20ü,{x}[1]'"
    shutil.copytree(root / "plain", folder)
    for number, path in enumerate(sorted(folder.rglob("*.orc"))):
        path.rename(path.with_name(f"{number} %41+&=#;ö{{1}}.orc"))
    for path in folder.rglob(".*.crc"):
        path.unlink()
    build_file_index(spark, folder, SPEC)
    return folder


def rows(frame: Any) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.fixture(scope="module")
def unquoted(directory: Path) -> Path:
    """The same files without quotes in their names. A filter on file names does not allow quotes."""
    return Path(shutil.copytree(directory, directory.with_name(directory.name.replace("'", "~"))))


def plain(spark: Any, path: Path) -> Any:
    """Returns Spark's own relation."""
    return relation_of(spark, str(path)).frame


CONDITIONS = [
    "id = 5", "id < 700 AND NOT flag", "id IN (3, 1400, 99999)", "key = 7919", "key IN (7919, 15838, 5)",
    "text = 't31'", "few = 9", "few = 3 AND id > 2900", "few <> 3", "NOT (id >= 10)", "id + 1 = 6", "id = 5.0",
    "id = '5'", "try_cast(text AS int) = 5", "real IS NULL AND id < 20", "real > 900 OR key = 7919",
    "NOT (real <= 900)", "dec BETWEEN 3 AND 5", "dec = 1.0BD", "day = DATE'2020-03-01'", "day > '2020-09-01'",
    "at < TIMESTAMP'2020-09-13 20:00:00'", "year(day) = 2020 AND id = 3", "flag AND id < 100",
    "NOT flag OR id IS NULL", "part = 'p 1%ü' AND id = 1501", "part LIKE 'p%' AND text LIKE 't3%'",
    "CASE WHEN id < 5 THEN true ELSE null END", "id <=> 5", "coalesce(real, 0) = 0", "id = 5 AND id = 6",
    "CAST(null AS boolean)",
    "true", "id = CAST(power(2, 3) AS int)", "id IN (SELECT 5)", "rand() >= 0 AND id = 5",
    "input_file_name() <> '' AND id = 5", "_metadata.file_name <> 'x' AND id = 5", "id = 5 AND day < current_date()",
]  # fmt: skip


@pytest.mark.parametrize(("few", "every"), [(32, 4), pytest.param(32, 1, marks=pytest.mark.slow), (0, 4)])
def test_conditions_of_every_kind(
    spark: Any, directory: Path, unquoted: Path, monkeypatch: pytest.MonkeyPatch, few: int, every: int
) -> None:
    """Spark reads the remaining files by explicit paths, or by a filter on file names. The rows are right in both
    cases."""
    monkeypatch.setattr(choosing, "MOST_NAMED", few)
    path = directory if few else unquoted
    whole, fell = plain(spark, path), 0
    for where in CONDITIONS[::every]:
        frame = read(spark, path, where=where)
        expected = whole.where(where)
        assert frame.schema == expected.schema
        assert rows(frame) == rows(expected), (where, str(why(frame)))
        assert few or "all are read" not in str(why(frame)), where
        fell += why(frame).files is not None and why(frame).files_left < why(frame).files
    assert fell >= (13 if every == 1 else 2)


UNJUDGED = {
    "rand() >= 0": "it is not deterministic",
    "engines_odd(id)": "it has a PythonUDF",
    "id IN (SELECT id FROM engines_view WHERE id >= 5)": "it has an InSubquery",
    "id >= (SELECT min(id) FROM engines_view)": "it has a ScalarSubquery",
    "EXISTS (SELECT 1 FROM engines_view)": "it has an Exists",
    "(id < 9 OR engines_odd(id))": "it has a PythonUDF",
}


@pytest.mark.parametrize("part", UNJUDGED)
def test_a_part_that_cannot_be_judged_leaves_the_others(spark: Any, directory: Path, part: str) -> None:
    """If orcidx cannot evaluate a part of a condition, the other parts still rule out files. ``why`` gives the
    reason."""
    spark.udf.register("engines_odd", lambda number: number % 2 == 1, "boolean")
    plain(spark, directory).createOrReplaceTempView("engines_view")
    for where in (f"id = 5 AND {part}", f"{part} AND id = 5", f"id < 9 AND {part} AND id IN (5, 9)"):
        frame = read(spark, directory, where=where)
        assert rows(frame) == rows(plain(spark, directory).where(where)) != Counter(), where
        told = why(frame)
        assert (told.engine, told.files_left) == ("spark", 1), told
        assert told.notes[0] == f"a part of the condition skips no file, because {UNJUDGED[part]}"
        frame = read(spark, directory, where=where, engine="orcidx")
        assert rows(frame) == rows(plain(spark, directory).where(where)), where
    frame = read(spark, directory, where=part)
    assert f": {UNJUDGED[part]}" in why(frame).reason
    frame = read(spark, directory, where=part, where_in={"key": spark.createDataFrame([(35 * 1000,)], "key bigint")})
    assert why(frame).files_left is not None


@pytest.mark.parametrize("engine", ["spark", "orcidx", "auto"])
def test_random_predicates_by_every_engine(spark: Any, directory: Path, rng: np.random.Generator, engine: str) -> None:
    dice, whole = random.Random(int(rng.integers(1 << 30))), plain(spark, directory)
    for _ in range(8):
        where = predicate(dice, 2)
        assert rows(read(spark, directory, where=where, engine=engine)) == rows(whole.where(where)), where


@pytest.mark.parametrize("engine", ["spark", "orcidx", "auto"])
def test_a_null_is_not_nan(spark: Any, directory: Path, engine: str) -> None:
    """In Spark, isnan(NULL) is false. So orcidx's tasks must keep rows with nulls."""
    assert read(spark, directory, where="NOT isnan(real) AND id < 50", engine=engine).count() == 50
    assert read(spark, directory, where="NOT (isnan(real) OR id >= 50)", engine=engine).count() == 50


def predicate(dice: random.Random, depth: int) -> str:
    if depth and dice.random() < 0.7:
        parts = [predicate(dice, depth - 1) for _ in range(2)]
        return dice.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
    number = dice.randrange(FILES * ROWS)
    leaf = dice.choice(
        [f"id = {number}", f"id < {number}", f"key = {number * 7919 % 100003}", f"text = 't{number % 1200}'",
         f"few = {number % 9}", f"few IN ({number % 9}, 2)", f"dec > {number / 7:.2f}", f"real <= {number}.5D",
         "real IS NULL", f"day = date_add(date'2020-01-01', {number // 10})", "flag"]
    )  # fmt: skip
    return f"NOT ({leaf})" if dice.random() < 0.3 else leaf


def test_a_listing_that_differs_from_the_index_is_read(spark: Any, directory: Path, tmp_path: Path) -> None:
    """A file may be skipped only if its size and time are those in the index. New files are read."""
    folder = tmp_path / "t"
    shutil.copytree(directory, folder)
    build_file_index(spark, folder, SPEC)
    frame = read(spark, folder, where="id = 5")
    assert why(frame).files_left == 1
    last = max(folder.rglob("*.orc"))
    os.utime(last, (1, 1))
    shutil.copy(directory / min(directory.rglob("*.orc")).relative_to(directory), last.with_name("new.orc"))
    again = read(spark, folder, where="id = 5")
    assert again.count() == 2
    assert why(again).files_left == 3
    assert frame.count() == 1, "a frame uses its own listing"


def test_a_file_of_another_type_is_read(spark: Any, tmp_path: Path) -> None:
    """If Spark reads a bigint column as int, the result may be null or another number. So the statistics of this column
    cannot be used. The statistics of a smallint column can be used."""
    for number, kind in enumerate(("int", "bigint", "smallint")):
        frame = spark.range(1).selectExpr(f"CAST({[5, 1 << 33, 7][number]} AS {kind}) AS x")
        frame.coalesce(1).write.mode("append").orc(str(tmp_path / "t"))
    build_file_index(spark, tmp_path / "t", {"bloom-filter": {"x": {}}})
    frame = read(spark, tmp_path / "t", where="x = 5", schema=spark.range(0).selectExpr("int(id) x").schema)
    assert why(frame).files_left == 2
    assert frame.collect() == [(5,)]


def test_what_is_told(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    assert why(read(spark, directory)).engine == "spark"
    few = read(spark, directory, ["ID", "text"], where=F.col("key") == 7919)
    assert few.columns == ["ID", "text"]
    assert "7 ruled out" in str(why(few)).replace(str(why(few).files - 1), "7")
    assert why(read(spark, directory, where="id BETWEEN 5 AND 7")).files_left == 1
    assert why(read(spark, directory, limit=3)).engine == "orcidx"
    monkeypatch.setattr(choosing, "LEAST_LOOKUP_BYTES", 0)
    keyed = read(spark, directory, where="key IN (7919, 5)")
    assert why(keyed).engine == "orcidx"
    assert rows(keyed) == rows(plain(spark, directory).where("key IN (7919, 5)"))
    assert why(read(spark, directory, where="key = 7919", engine="spark")).engine == "spark"
    with pytest.raises(InvalidQuery, match=r"orcidx\.spark\.read returned"):
        why(keyed.select("id"))
    spark.conf.set("spark.orcidx.engine", "orcidx")
    try:
        assert why(read(spark, directory, where="key = 7919")).engine == "orcidx"
        assert why(read(spark, directory, where="key = 7919", engine="spark")).engine == "spark"
    finally:
        spark.conf.unset("spark.orcidx.engine")


def test_a_path_without_an_index_says_so_once(spark: Any, directory: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(directory, plain, ignore=shutil.ignore_patterns("_orcidx"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read(spark, plain)  # without a condition, no index is used
        read(spark, plain, where="id = 3", engine="spark")
        read(spark, directory, where="id = 3")
        assert [str(one.message) for one in told if "no index" in str(one.message)] == []
        asked = (plain, plain, [str(plain)], f"{glob.escape(str(plain))}/*")
        frames = [read(spark, one, where="id = 3") for one in asked]
        read(spark, [str(plain)], where="id = 3")
    texts = [str(one.message) for one in told if "no index" in str(one.message)]
    assert len(texts) == len(set(texts)) == 3
    assert all("build_file_index" in text for text in texts)
    assert all(why(frame).reason == "there is no index of the directory" for frame in frames)


def test_wrong_questions_are_one_sentence(spark: Any, directory: Path) -> None:
    from pyspark.sql import functions as F

    for asked, told in (
        ({"where": "ide = 5"}, "cannot be resolved"),
        ({"where": "id = "}, "Syntax error"),
        ({"columns": ["txt"]}, "did you mean 'text'"),
        ({"engine": "java"}, "'auto', 'spark' and 'orcidx'"),
        ({"engine": "spark", "limit": 3}, "engine spark needs Spark's reader"),
        ({"where": F.col("id") > 3, "limit": 3}, "a Column in where= needs Spark's reader"),
        ({"where": col("id") > "x"}, "id"),
    ):
        with pytest.raises(InvalidQuery, match=told) as raised:
            read(spark, directory, **asked)
        assert "\n" not in str(raised.value)
    with pytest.raises(FileNotFoundError):
        read(spark, directory.parent / "absent")


def test_predicates_of_orcidx_become_sparks(spark: Any, directory: Path) -> None:
    for where, sql in (
        (col("id").is_in([3, 1400]) & (col("text") != "x"), "id IN (3, 1400) AND text <> 'x'"),
        ([("key", "=", 7919)], "key = 7919"),
        (col("real").is_null() | ~col("few").between(1, 5), "real IS NULL OR few NOT BETWEEN 1 AND 5"),
    ):
        frame = read(spark, directory, where=where)
        assert why(frame).engine == "spark"
        assert rows(frame) == rows(plain(spark, directory).where(sql))
    assert why(read(spark, directory, where=col("id") > 7.5)).engine == "orcidx", "a number that Spark would round"


def test_planning_stops_where_it_does_not_pay(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survivors, "FUTILE_INDEXES", 2)
    monkeypatch.setattr(survivors, "COST_SHARE", 1e9)
    frame = read(spark, directory, where="few = 3 AND key < 1000000")
    assert why(frame).notes == ("the first 2 file indexes excluded no file, so no more indexes were used",)
    other = read(spark, directory, where="id >= 0 AND real < 1e9")
    assert why(other).notes == (), "no indexes of other columns are read"
    monkeypatch.setattr(survivors, "COST_SHARE", 0)
    patient = why(read(spark, directory, where="key = 7919"))
    assert patient.files_left == 1, "the indexes of few files are always used"
    monkeypatch.setattr(survivors, "UNNOTICED_SECONDS", 0)
    for once, few in ((0.0, FILES - 2), (1e9, FILES)):
        monkeypatch.setattr(survivors, "RELATION_SECONDS", once)
        short = read(spark, directory, where="key = 7919")
        assert "of 2 files were excluded by their indexes, but using more indexes would cost too much" in str(
            why(short)
        )
        assert why(short).files_left >= few
        assert short.count() == 1


@pytest.mark.parametrize("most", [100_000, 1])
def test_rows_with_the_keys_of_a_frame(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(key_frames, "MOST_KEYS", most)
    whole = plain(spark, directory)
    small = spark.sql("SELECT * FROM VALUES (5L), (7L), (5L), (null), (123456789L) AS t(user)")
    for engine in ("auto", "orcidx"):
        frame = read(spark, directory, ["text"], "NOT flag", where_in={"ID": small}, engine=engine)
        expected = whole.where("NOT flag").join(small, whole.id == small.user, "left_semi").select("text")
        assert rows(frame) == rows(expected) != Counter()
    told = why(read(spark, directory, where_in={"id": small.limit(2)}))
    assert told.files_left == 1
    assert ("their range" in str(told)) == (most == 1)
    assert rows(read(spark, directory, where_in={"id": small.where("user < 0")})) == Counter()
    for bad, text in (
        ({"id": spark.range(1).selectExpr("int(id) x")}, "cast the keys"),
        ({"real": spark.range(1)}, "keys of type double"),
        ({"idd": spark.range(1)}, "no column"),
        ({"id": whole}, "single column"),
        ([1], "DataFrame with the keys"),
    ):
        with pytest.raises(InvalidQuery, match=text):
            read(spark, directory, where_in=bad)


def test_lists_globs_and_folders_of_partitions(spark: Any, directory: Path) -> None:
    parts = sorted(directory.glob("part=*"))
    for path in (parts[0], list(directory.glob("*/*.orc"))):
        frame = read(spark, path, where="id = 5")
        assert frame.count() == 1
        assert why(frame).files_left == 1 < why(frame).files, str(why(frame))


def test_the_time_rules_out_what_is_over(spark: Any, directory: Path) -> None:
    """Files with old rows are skipped if the condition is a lower bound that depends on the current time. Other
    conditions on the current time skip no files."""
    for where, fell in (
        ("day >= date_sub(current_date(), 30)", True),
        ("at > now() - INTERVAL 5 DAYS", False),  # times in Spark's files rule nothing out (decision 0014)
        ("now() < at AND day > trunc(current_date(), 'MM')", True),
        ("day < current_date()", False),
        ("day = current_date() OR id = 5", False),
        ("id = 5 AND day < current_date()", True),
    ):
        frame = read(spark, directory, where=where)
        assert rows(frame) == rows(plain(spark, directory).where(where)), where
        chosen = why(frame)
        assert (chosen.files is not None and chosen.files_left < FILES) == fell, (where, str(chosen))


def test_options_of_sparks_reader(spark: Any, directory: Path, tmp_path: Path) -> None:
    whole = plain(spark, directory)
    some = read(spark, directory, where="id = 5", options={"pathglobfilter": "0*", "mergeSchema": True})
    assert some.count() == 1 == why(some).files_left
    assert read(spark, directory, options={"modifiedBefore": "2020-01-01T00:00:00"}, schema=whole.schema).count() == 0
    flat = read(spark, directory, where="id = 5", options={"recursiveFileLookup": True})
    assert flat.columns == whole.columns[:-1]
    assert flat.count() == 1 == why(flat).files_left
    folder = tmp_path / "t"
    shutil.copytree(directory, folder)
    build_file_index(spark, folder, SPEC)
    (min(folder.rglob("*.orc")).parent / "broken.orc").write_bytes(b"ORC?" * 100)
    spared = read(spark, folder, where="id = 5", options={"ignoreCorruptFiles": True})
    assert spared.count() == 1
    for bad, text in (
        ({"mergSchema": 1}, "did you mean 'mergeSchema'"),
        ("mergeSchema", "options must be a mapping"),
        ({"x": 1}, "the options are"),
    ):
        with pytest.raises(InvalidQuery, match=text):
            read(spark, directory, options=bad)
    with pytest.raises(InvalidQuery, match="options= needs Spark's reader"):
        read(spark, directory, limit=3, options={"mergeSchema": True})
    with pytest.raises(InvalidQuery, match="cannot be given with engine="):
        read(spark, directory, engine="orcidx", options={"mergeSchema": True})


def test_a_schema_as_sql_writes_it(spark: Any, directory: Path) -> None:
    frame = read(spark, directory, where="id = 5", schema="id BIGINT, few INT")
    assert frame.columns == ["id", "few", "part"]
    assert [row.few for row in frame.collect()] == [5]
    assert read(spark, directory, schema="id BIGINT, few INT", limit=2).count() == 2
    with pytest.raises(InvalidQuery, match="schema='id BIG"):
        read(spark, directory, schema="id BIGG INT")


@pytest.mark.parametrize("partitioned", [False, True])
def test_tables_of_the_catalog(spark: Any, directory: Path, tmp_path: Path, partitioned: bool) -> None:
    """Tables are read by name, with the indexes of their directory. Rows and columns are those of ``spark.table``."""
    where = f"LOCATION '{tmp_path / 'o'}'"
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    try:
        by = "PARTITIONED BY (few)" if partitioned else ""
        spark.sql(
            f"CREATE TABLE shop.orders USING orc {by} {where} AS SELECT id, text, CAST(id % 3 AS int) few"
            f" FROM range(0, 900, 1, 3) JOIN VALUES ('a') AS t(text)"
        )
        build_file_index(spark, tmp_path / "o", {"bloom-filter": {"id": {}}})
        frame = read(spark, "shop.orders", where="id = 5")
        assert frame.schema == spark.table("shop.orders").schema
        assert rows(frame) == rows(spark.table("shop.orders").where("id = 5"))
        assert why(frame).engine == "spark"
        assert why(frame).files_left < why(frame).files, str(why(frame))
        assert read(spark, "spark_catalog.shop.`orders`").count() == 900
        with pytest.raises(InvalidQuery, match="give the directory of the table"):
            read(spark, "shop.orders", limit=3)
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1")
        with pytest.raises(InvalidQuery, match="temporary view"):
            read(spark, "v")
    finally:
        spark.sql("DROP DATABASE shop CASCADE")
        spark.catalog.dropTempView("v")


def test_files_of_any_name(spark: Any, tmp_path: Path) -> None:
    """All files except hidden ones are read, as in Spark."""
    spark.range(10).coalesce(1).write.orc(str(tmp_path / "t"))
    file = next((tmp_path / "t").glob("*.orc"))
    file.rename(file.with_name("data"))
    for engine in ("spark", "orcidx"):
        assert read(spark, tmp_path / "t", where="id = 5", engine=engine).count() == 1  # type: ignore[arg-type]


def test_text_with_a_collation_is_not_pruned(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics, and the tasks that look up keys, compare bytes. So they are not used for a text with a collation.
    Spark's own ORC reader cannot read a schema with a collation, but a condition can contain one."""
    monkeypatch.setattr(choosing, "LEAST_LOOKUP_BYTES", 0)
    asked = {"where": "text = 'T31'", "schema": "id BIGINT, key BIGINT, few INT, text STRING COLLATE UTF8_LCASE"}
    frame = read(spark, directory, **asked)
    assert why(frame).engine == "spark"
    assert why(frame).files_left == why(frame).files
    where = "text COLLATE UTF8_LCASE = 'T31'"
    assert rows(read(spark, directory, where=where)) == rows(plain(spark, directory).where(where)) != Counter()
    for more, told in (
        ({"engine": "orcidx"}, "only Spark's reader can compare text"),
        ({"limit": 2}, "collation in schema= needs Spark's reader"),
    ):
        with pytest.raises(InvalidQuery, match=told):
            read(spark, directory, **asked, **more)


def test_frames_are_cached_shared_and_joined(spark: Any, directory: Path) -> None:
    """Frames of either engine, with and without skipped files, can be cached and joined. Catalyst knows how many bytes
    they read, and does not broadcast them."""
    whole = plain(spark, directory)
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "2000")
    try:
        one = read(spark, directory, where="id < 700")
        other = read(spark, directory, where="few = 3", engine="orcidx")
        one.createOrReplaceTempView("one")
        other.createOrReplaceTempView("other")
        joined = spark.sql("SELECT one.id, other.text FROM one JOIN other USING (id)")
        assert rows(joined) == rows(whole.where("id < 700 AND few = 3").select("id", "text"))
        told = one._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        assert told >= why(one).bytes_left > 2000
        assert "BuildRight" not in joined._jdf.queryExecution().executedPlan().toString(), "orcidx's rows are broadcast"
        assert rows(one.cache()) == rows(one) == rows(whole.where("id < 700"))
        assert one.where("flag").count() == whole.where("id < 700 AND flag").count()
        assert read(spark, directory, where="id >= 700").count() == whole.where("id >= 700").count()
        assert rows(one.union(read(spark, directory, where="id = 2900"))) == rows(whole.where("id < 700 OR id = 2900"))
        one.unpersist()
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
        for name in ("one", "other"):
            spark.catalog.dropTempView(name)


def test_confs_that_change_before_the_action(spark: Any, directory: Path) -> None:
    """A condition keeps the meaning that it had at ``read``, as a filter of Spark does."""
    names = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
    }
    before = {name: spark.conf.get(name) for name in names}
    for engine in ("auto", "orcidx"):
        for where in ("at < TIMESTAMP'2020-09-13 20:00:00' AND ID >= 5", "few = '3' AND day >= '2020-05-01'"):
            frame, expected = read(spark, directory, where=where, engine=engine), plain(spark, directory).where(where)
            try:
                for name, value in names.items():
                    spark.conf.set(name, value)
                assert rows(frame) == rows(expected) != Counter(), (engine, where)
            finally:
                for name, value in before.items():
                    spark.conf.set(name, value)


# ---------------------------------------------------------------------- without Spark


def tree(*nodes: tuple[str, int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"class": f"a.b.{name}", "num-children": count, **more} for name, count, more in nodes]


X = ("AttributeReference", 0, {"name": "x", "dataType": "long", "metadata": {}})


def five(kind: str = "long") -> tuple[str, int, dict[str, Any]]:
    return ("Literal", 0, {"value": "5", "dataType": kind})


REFERENCE = ("CommonExpressionRef", 0, {"id": None, "dataType": "long"})
BETWEEN = (
    ("And", 2, {}),
    ("GreaterThanOrEqual", 2, {}), REFERENCE, five(),
    ("LessThanOrEqual", 2, {}), REFERENCE, five(),
)  # fmt: skip
"""How Spark 4.0 and later represent the condition x BETWEEN 5 AND 5. REFERENCE stands for x, which is defined
elsewhere."""


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        (tree(("EqualTo", 2, {}), X, five()), "x = 5"),
        (tree(("LessThan", 2, {}), five(), X), "x > 5"),
        (tree(("Not", 1, {}), ("EqualTo", 2, {}), X, five()), "x <> 5"),
        (tree(("IsNaN", 1, {}), X), "isnan(x)"),
        (tree(("Not", 1, {}), ("IsNaN", 1, {}), X), "NOT isnan(x) OR x IS NULL"),
        (tree(("EqualTo", 2, {}), X, five("integer")), None),
        (tree(("And", 2, {}), ("Mystery", 0, {}), ("EqualTo", 2, {}), X, five()), "x = 5"),
        (tree(("Or", 2, {}), ("Mystery", 0, {}), ("EqualTo", 2, {}), X, five()), None),
        (tree(("Not", 1, {}), ("Or", 2, {}), ("Mystery", 0, {}), ("EqualTo", 2, {}), X, five()), "x <> 5"),
        (tree(("Not", 1, {}), ("And", 2, {}), ("Mystery", 0, {}), ("EqualTo", 2, {}), X, five()), None),
        (tree(("EqualTo", 2, {}), ("Cast", 1, {}), X, five()), None),
        (tree(("EqualNullSafe", 2, {}), X, ("Literal", 0, {"dataType": "long", "value": None})), "x IS NULL"),
        (tree(("With", 2, {}), *BETWEEN, ("CommonExpressionDef", 1, {}), X), "x >= 5 AND x <= 5"),
        (
            tree(("Not", 1, {}), ("With", 2, {}), *BETWEEN, ("CommonExpressionDef", 1, {}), X),
            "NOT (x >= 5) OR NOT (x <= 5)",
        ),
        (tree(("With", 2, {}), *BETWEEN, ("CommonExpressionDef", 1, {}), ("Cast", 1, {}), X), None),
        (tree(("With", 3, {}), *BETWEEN, *2 * (("CommonExpressionDef", 1, {}), X)), None),
    ],
)
def test_what_an_expression_proves(nodes: list[dict[str, Any]], where: str | None) -> None:
    found = condition_of_json(json.loads(json.dumps(nodes)), load_zone("UTC"))
    assert found == (Constant(True) if where is None else parse(where))


def test_an_expression_of_any_depth(rng: np.random.Generator) -> None:
    ors = tree(*[node for _ in range(5000) for node in (("Or", 2, {}), ("EqualTo", 2, {}), X, five())], X)
    assert condition_of_json(ors, load_zone("UTC")) == Constant(True)


COLUMN_D = ("AttributeReference", 0, {"name": "d", "dataType": "date", "metadata": {}})
TODAY = ("CurrentDate", 0, {})
DAY = ("Literal", 0, {"value": "2026-05-20", "dataType": "date"})
SEVEN = ("Literal", 0, {"value": "7", "dataType": "integer"})


@pytest.mark.parametrize(
    ("before", "folded", "where"),
    [
        ((("GreaterThan", 2, {}), COLUMN_D, TODAY), (("GreaterThan", 2, {}), COLUMN_D, DAY), "d > DATE '2026-05-19'"),
        (
            (("LessThanOrEqual", 2, {}), ("DateSub", 2, {}), TODAY, SEVEN, COLUMN_D),
            (("LessThanOrEqual", 2, {}), DAY, COLUMN_D),
            "d >= DATE '2026-05-19'",
        ),
        ((("LessThan", 2, {}), COLUMN_D, TODAY), (("LessThan", 2, {}), COLUMN_D, DAY), None),
        ((("EqualTo", 2, {}), COLUMN_D, TODAY), (("EqualTo", 2, {}), COLUMN_D, DAY), None),
        (
            (("GreaterThan", 2, {}), COLUMN_D, ("Mystery", 1, {}), TODAY),
            (("GreaterThan", 2, {}), COLUMN_D, DAY),
            None,
        ),
        (
            (("Or", 2, {}), ("GreaterThan", 2, {}), COLUMN_D, TODAY, ("IsNull", 1, {}), COLUMN_D),
            (("Or", 2, {}), ("GreaterThan", 2, {}), COLUMN_D, DAY, ("IsNull", 1, {}), COLUMN_D),
            None,
        ),
    ],
)
def test_only_what_later_actions_keep_is_proven_by_the_time(before: Any, folded: Any, where: str | None) -> None:
    found = part_of_json(tree(*before), tree(*folded), load_zone("UTC"))
    assert found == (Constant(True) if where is None else parse(where))


def test_the_parts_of_a_condition() -> None:
    one, two = (("EqualTo", 2, {}), X, five()), (("Or", 2, {}), X, ("Not", 1, {}), X)
    nodes = tree(("And", 2, {}), ("And", 2, {}), *one, *two, *one)
    assert analysed_conjuncts(nodes) == [tree(*one), tree(*two), tree(*one)]
