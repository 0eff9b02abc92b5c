"""A condition as text has the same meaning as in Spark, with every engine: escapes, quotes, raw texts, functions,
settings.

For example, orcidx's own parser does not treat the backslash in ``'a\\\\b'`` as an escape, but Spark does.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paimon_empty import empty_table
from spark.text_cases import COLUMNS, OF_DELETE, SETTINGS, TEXTS, TYPES, random_text, rows

from orcidx import InvalidQuery
from orcidx.paimon import open_table
from orcidx.spark import append, build_file_index, delete, explain, read, register, why

pytestmark = pytest.mark.java

ANSI, QUOTED, ESCAPED = list(SETTINGS)[:3]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    """A cached DataFrame as the reference. Spark's pruning of cached rows gives wrong results for NaN, so it is turned
    off."""
    spark.conf.set("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
    return spark.createDataFrame(rows(), COLUMNS).cache()


def test_nan_in_rows_that_spark_holds(frame: Any) -> None:
    """Checks that the reference of these tests is right for NaN."""
    assert ids(frame.where("x = 'NaN'")) == Counter(number for number, row in enumerate(rows()) if row[6] != row[6])


@pytest.fixture(scope="module")
def files(spark: Any, frame: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "t"
    frame.repartition(2).write.orc(str(folder))
    build_file_index(spark, folder, {"bitmap": {"t": {}}, "bloom-filter": {"id": {}}})
    return folder


@pytest.fixture(scope="module")
def tables(spark: Any, frame: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Tables of ORC files, of Parquet files, and of ORC files in partitions."""
    folders = []
    for number, (kind, keys) in enumerate((("orc", ()), ("parquet", ()), ("orc", ("A",)))):
        folder = tmp_path_factory.mktemp("texts") / f"p{number}"
        plain = {"file__format": kind, "orc__timestamp_ltz__legacy__type": "false"}
        folders.append(empty_table(folder, TYPES, partition_keys=keys, **plain))
        append(spark, folder, frame)
    return folders


@pytest.fixture(scope="module")
def table(tables: list[Path]) -> Path:
    return tables[0]


@pytest.fixture(autouse=True)
def kept(spark: Any) -> Iterator[None]:
    register(spark)
    before = {name: spark.conf.get(name) for name in SETTINGS}
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def ids(frame: Any) -> Any:
    try:
        return Counter(row.id for row in (frame() if callable(frame) else frame).collect())
    except Exception as error:  # an error of Spark, of orcidx, or of orcidx through the JVM
        return f"raises {type(error).__name__}"[:7]


def check(spark: Any, files: Path, table: Path, where: str) -> str:
    """Checks that all reads return Spark's rows. Only a delete and the format may refuse the condition."""
    expected = ids(lambda: spark.read.orc(str(files)).where(where))
    ways = {
        "auto": lambda: read(spark, files, where=where),
        "orcidx": lambda: read(spark, files, where=where, engine="orcidx"),
        "limit": lambda: read(spark, files, where=where, limit=1000),
        "top": lambda: read(spark, files, where=where, limit=1000, top=[("t", "desc"), "id"], columns=["id"]),
        "paimon": lambda: read(spark, table, where=where, columns=["id"]),
        "paimon limit": lambda: read(spark, table, where=where, limit=1000),
    }
    for way, made in ways.items():
        assert ids(made) == expected, (where, way)
    by_format = ids(lambda: spark.read.format("orcidx").option("where", where).load(str(files)))
    # For a condition that Spark refuses, such as NULL, the format may return no rows.
    none = expected == "raises " and not by_format
    assert none or by_format in (expected, "raises "), (where, "format")
    if expected == "raises ":
        return "raises"
    try:
        found = delete(spark, table, where, dry_run=True)
    except InvalidQuery as error:
        return "refused" if "orcidx cannot convert all of" in str(error) else str(error)
    assert found.rows == sum(expected.values()), where
    return "deleted"


@pytest.mark.parametrize("where", TEXTS[:4])
def test_a_text_is_read_as_spark_reads_it(spark: Any, files: Path, table: Path, where: str) -> None:
    told = check(spark, files, table, where)
    assert (told == "deleted") == (where in OF_DELETE), told


@pytest.mark.slow
@pytest.mark.parametrize("where", TEXTS[4::3])
def test_more_texts_are_read_as_spark_reads_them(spark: Any, files: Path, table: Path, where: str) -> None:
    test_a_text_is_read_as_spark_reads_it(spark, files, table, where)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [ANSI, QUOTED, ESCAPED])
def test_settings_of_texts(spark: Any, files: Path, table: Path, setting: str) -> None:
    spark.conf.set(setting, "false" if spark.conf.get(setting) == "true" else "true")
    for where in ("\"A\" = 'x'", "t = 'a\\\\b'"):
        check(spark, files, table, where)


def test_a_delete_takes_the_rows_that_spark_means(spark: Any, tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "p", {"id": "BIGINT", "t": "STRING"}, file__format="orc")
    values = ["a\\b", "a\\\\b", "x\ny", "x\\ny", "a_b", "axb", "a\\_b"]
    append(spark, folder, spark.createDataFrame(list(enumerate(values)), "id bigint, t string"))
    gone: list[int] = []
    for where, expected in ((r"t = 'a\\b'", [0]), (r"t = 'x\ny'", [2]), (r"t LIKE 'a\\_b'", [4]), ('t = "axb"', [5])):
        assert delete(spark, folder, where).rows == len(expected)
        gone += expected
        left = sorted(open_table(folder).scan().to_table()["id"].to_pylist())
        assert left == [n for n in range(len(values)) if n not in gone], where
    for where in ("upper(t) = 'A'", "t RLIKE 'a.b'", "rand() < 0.5", "id IN (SELECT 1)"):
        with pytest.raises(InvalidQuery, match="cannot convert all of"):
            delete(spark, folder, where)
    with pytest.raises(InvalidQuery, match="Spark does not understand"):
        delete(spark, folder, "u = 1")


def test_a_cast_that_fails_is_told_in_a_sentence(spark: Any, table: Path, files: Path) -> None:
    """Spark evaluates a cast of a constant before any row is read, and raises an error if the cast fails. A delete and
    a read raise ``InvalidQuery`` instead."""
    spark.conf.set(ANSI, "true")
    for ask in (lambda text: delete(spark, table, text), lambda text: read(spark, files, where=text).collect()):
        with pytest.raises(InvalidQuery, match=r"Spark does not compute .*axb.* cannot be cast"):
            ask("x = 'axb'")


def test_what_spark_computes_is_filtered_by_spark(spark: Any, files: Path) -> None:
    frame = read(spark, files, where="upper(t) = 'A' OR id = 3", columns=["A"], limit=3, top=["id"])
    assert frame.columns == ["A"]
    assert "Spark computes a part" in str(why(frame))
    with pytest.raises(InvalidQuery, match="cannot read single fields of structs"):
        read(spark, files, where="upper(t) = 'A'", columns=[["t"]])
    assert explain(spark, str(files), r"t = 'a\\b'").funnel[0].after == 1


def settled(spark: Any, dice: random.Random) -> dict[str, str]:
    """Sets and returns random settings. Most of them have the first value in ``SETTINGS``."""
    found = {name: dice.choice(values) if dice.random() < 0.3 else values[0] for name, values in SETTINGS.items()}
    for name, value in found.items():
        spark.conf.set(name, value)
    return found


@pytest.mark.slow
def test_random_texts(spark: Any, files: Path, tables: list[Path]) -> None:
    """For long runs by hand, ORCIDX_TEXTS, ORCIDX_SEED and --timeout can be set."""
    dice = random.Random(int(os.environ.get("ORCIDX_SEED", "2")))
    told: Counter[str] = Counter()
    for _ in range(int(os.environ.get("ORCIDX_TEXTS", "4"))):
        settings, text = settled(spark, dice), random_text(dice)
        try:
            told[check(spark, files, dice.choice(tables), text)] += 1
        except AssertionError as error:
            raise AssertionError((text, settings)) from error
    sys.stderr.write(f"{dict(told)}\n")


@pytest.mark.slow
def test_random_deletes(spark: Any, frame: Any, tables: list[Path], tmp_path: Path) -> None:
    """As in Spark, a delete keeps the rows for which the condition is NULL or false. For long runs by hand,
    ORCIDX_DELETES can be set."""
    dice = random.Random(int(os.environ.get("ORCIDX_SEED", "1")))
    told: Counter[str] = Counter()
    for number in range(int(os.environ.get("ORCIDX_DELETES", "8"))):
        settings, text = settled(spark, dice), random_text(dice, depth=1)
        gone = ids(lambda text=text: frame.where(text))
        folder = tmp_path / str(number)
        shutil.copytree(dice.choice(tables), folder)
        try:
            delete(spark, folder, text)
        except InvalidQuery as error:
            refused, gone = "cannot convert all of" in str(error), "raises " if gone == "raises " else None
            told["refused" if refused else "raises"] += 1
            if not refused and gone is None:
                raise AssertionError((text, settings)) from error
            gone = Counter()
        else:
            told["deleted"] += 1
        left = Counter(open_table(folder).scan(["id"]).to_table()["id"].to_pylist())
        assert left == Counter(range(len(rows()))) - gone, (text, settings)
        shutil.rmtree(folder)
    sys.stderr.write(f"{dict(told)}\n")
