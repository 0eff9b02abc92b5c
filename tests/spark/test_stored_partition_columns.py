"""Partition columns that the files also store, with other values. Spark and orcidx use the values of the directories.

Indexes, statistics and bloom filters of such a column describe the stored values, which no query returns. So they must
not rule out rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from orcidx.spark import build_file_index, explain, read, register

pytestmark = pytest.mark.java

CASE = "spark.sql.caseSensitive"
ROWS = 50
SPEC = {"bloom-filter": {"p": {"items": 100}, "id": {"items": 100}}, "bitmap": {"p": {}}}
CONDITIONS = (
    "p = 2",
    "p = 1",
    "p > 1",
    "NOT p = 1",
    "p IN (2, 3) AND id < 10",
    "p = 2 OR id = 3",
    "p = 9",
    "p IS NULL",
    "p BETWEEN 2 AND 3 AND id = 7",
)


def slowly(case: str) -> Any:
    return pytest.param(case, marks=pytest.mark.slow)


WAYS = ("auto", "spark", "orcidx", "limit", "top", "format", "format and where", "format with skipping")


@pytest.fixture(scope="module", params=["p", "P"])
def directory(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the partitions ``p=1``, ``p=2`` and ``p=3``, and indexes the columns ``p`` and ``id`` of the files. All
    files store p = 1."""
    folder = tmp_path_factory.mktemp("stored") / "t"
    for value in (1, 2, 3):
        inside = folder / f"{request.param}={value}"
        inside.mkdir(parents=True)
        for part in range(2):
            ids = range(part * ROWS, (part + 1) * ROWS)
            table = pa.table({"id": list(ids), "p": pa.array([1] * ROWS, pa.int32()), "v": [value * 1000] * ROWS})
            orc.write_table(table, inside / f"{part}.orc")
    build_file_index(spark, folder, SPEC)
    return folder


@pytest.fixture(autouse=True)
def kept(spark: Any) -> Iterator[None]:
    register(spark)
    yield
    spark.conf.unset(CASE)
    register(spark)


def made(spark: Any, path: Any, where: str, way: str, **given: Any) -> Any:
    source = spark.read.format("orcidx")
    match way:
        case "limit":
            return read(spark, path, where=where, limit=10**6, **given)
        case "top":
            return read(spark, path, where=where, limit=10**6, top=["id"], **given)
        case "format":
            return source.option("where", where).load(str(path))
        case "format and where":
            return source.load(str(path)).where(where)
        case "format with skipping":
            return source.option("pushdown", "true").load(str(path)).where(where)
    return read(spark, path, where=where, engine=way, **given)


def rows(frame: Any) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.mark.parametrize("where", CONDITIONS[:1] + tuple(map(slowly, CONDITIONS[1:])))
def test_the_value_of_the_directory_wins(spark: Any, directory: Path, where: str) -> None:
    plain = spark.read.orc(str(directory)).where(where)
    expected = rows(plain)
    for way in WAYS:
        found = made(spark, directory, where, way)
        assert found.columns == plain.columns, way
        assert rows(found) == expected, way
        assert found.count() == sum(expected.values()), way
    told = explain(spark, str(directory), where)
    assert told.funnel[1].after >= sum(expected.values())


def test_keys_of_a_frame_are_of_the_directory(spark: Any, directory: Path) -> None:
    keys = spark.sql("SELECT int(2) AS k")
    expected = rows(spark.read.orc(str(directory)).where("p = 2"))
    for engine in ("auto", "spark", "orcidx"):
        assert rows(read(spark, directory, where_in={"p": keys}, engine=engine)) == expected, engine


def test_the_first_rows_are_of_the_directory(spark: Any, directory: Path) -> None:
    first = read(spark, directory, top=[("p", "desc"), "id"], limit=2, columns=["id", "p", "v"])
    assert [tuple(row) for row in first.collect()] == [(0, 3, 3000), (1, 3, 3000)]


@pytest.mark.slow
def test_letters_are_compared_by_the_rule_of_the_session(spark: Any, directory: Path) -> None:
    """If names are case-sensitive, ``P`` and ``p`` are two columns."""
    spark.conf.set(CASE, "true")
    register(spark)
    for where in ("p = 1", "p = 2", "id < 3"):
        plain = spark.read.orc(str(directory)).where(where)
        for way in WAYS:
            assert rows(made(spark, directory, where, way)) == rows(plain), (where, way)


@pytest.mark.parametrize(
    "schema", ["id bigint, p int, v bigint", slowly("id bigint, P bigint"), slowly("P bigint, id bigint")]
)
def test_a_schema_that_names_it_means_the_directory(spark: Any, directory: Path, schema: str) -> None:
    for where in ("p = 2", "id = 3"):
        plain = spark.read.schema(schema).orc(str(directory)).where(where)
        for way in WAYS[:5]:
            found = made(spark, directory, where, way, schema=schema)
            assert found.columns == plain.columns, (where, way)
            assert rows(found) == rows(plain), (where, way)


def test_a_partition_that_basepath_makes(spark: Any, directory: Path) -> None:
    inside = next(one for one in directory.iterdir() if one.name.endswith("=2"))
    build_file_index(spark, inside, SPEC)
    for options in ({"basePath": str(directory)}, {}):
        for where in ("p = 2", "p = 1", "p = 1 AND id = 3", "p = 2 AND id = 3"):
            plain = spark.read.options(**options).orc(str(inside)).where(where)
            for engine in ("auto", "spark") if options else ("auto", "spark", "orcidx"):
                found = read(spark, inside, where=where, engine=engine, options=options)
                assert rows(found) == rows(plain), (options, where, engine)


def test_a_partition_of_the_catalog_is_what_the_catalog_says(spark: Any, directory: Path) -> None:
    """The catalog determines the value of a partition, not the directory of its files. Here, ``p = 7`` is in the
    directory ``p=2``."""
    inside = next(one for one in directory.iterdir() if one.name.endswith("=2"))
    columns = "id bigint, v bigint, p int"
    spark.sql(f"CREATE TABLE elsewhere ({columns}) USING orc PARTITIONED BY (p) LOCATION '{directory}'")
    try:
        spark.sql(f"ALTER TABLE elsewhere ADD PARTITION (p = 7) LOCATION '{inside}'")
        for where in ("p = 7", "p = 2", "p = 1", "p = 7 AND id = 3"):
            expected = rows(spark.table("elsewhere").where(where))
            for engine in ("auto", "spark"):
                assert rows(read(spark, "elsewhere", where=where, engine=engine)) == expected, (where, engine)
    finally:
        spark.sql("DROP TABLE elsewhere")
