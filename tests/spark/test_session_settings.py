"""Settings of a session that change between ``register`` or ``read`` and the action. They have the same effect as on
``spark.read.orc``.

Spark interprets a condition and partition values by the settings at ``where`` and ``load``. It finds columns in files
by the case rule at the action. The format ``orcidx`` is a Python data source, which does not get the settings. It
interprets times in the zone of the session that runs the query. If it cannot know the value of a setting, it raises an
error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from orcidx import InvalidQuery
from orcidx.spark import build_file_index, read, register

pytestmark = pytest.mark.java

ZONE, ANSI, CASE = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive"
SETTINGS = {
    ZONE: (
        ("Asia/Tokyo", "America/Los_Angeles"),
        (
            "at < TIMESTAMP'2020-09-13 20:00:00'",
            "at >= TIMESTAMP'2020-09-14 03:00:00' AND id < 1200",
            "at = '2020-09-13 21:26:40'",
            "hour(at) = 3 AND id < 600",
            "cast(at AS date) = DATE'2020-09-14'",
            "day >= '2020-02-01' AND day < current_date()",
            "part = TIMESTAMP'2021-07-01 02:00:00'",
        ),
    ),
    ANSI: (
        ("true", "false"),
        (
            "few = '3'",
            "day >= '2020-05-01'",
            "id = 5.0",
            "text = 31",
            "id / few > 2",
            "cast(text AS int) = 5",
            "id + 9223372036854775000 > 0",
            "id IN ('7', '8')",
        ),
    ),
    CASE: (("true", "false"), ("id < 20", "ID < 20", "Few = 3 AND id >= 700", "`ID` IN (5, 700) OR Key = 7919")),
}
"""For each setting: two values, and conditions. The meaning of a condition depends on the value, or the condition is
invalid with one of the values."""
WAYS = ("auto", "spark", "orcidx", "format", "format and where")


@pytest.fixture(scope="module")
def directory(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes indexed files in a folder for each hour. The names of all columns are in lower case."""
    folder = tmp_path_factory.mktemp("settings") / "t"
    frame = spark.range(0, 1500, 1, 3).selectExpr(
        "id",
        "pmod(id * 7919, 100003) AS key",
        "int(id % 7) AS few",
        "if(id < 1000, string(id), concat('t', id)) AS text",
        "date_add(date'2020-01-01', int(id div 10)) AS day",
        "timestamp_seconds(1600000000 + id * 600) AS at",
        "timestamp_ntz'2021-07-01 00:00:00' + make_dt_interval(0, id div 500) AS part",
    )
    frame.write.partitionBy("part").orc(str(folder))
    build_file_index(spark, folder, {"bloom-filter": {"key": {"items": 1000}, "text": {}}, "bitmap": {"few": {}}})
    return folder


@pytest.fixture(autouse=True)
def kept(spark: Any) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in SETTINGS}
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
    register(spark)


def made(spark: Any, path: Path, where: str, way: str) -> Any:
    """Returns the DataFrame of one of ``WAYS`` or of Spark itself, or the text of the error."""
    source = spark.read.format("orcidx")
    try:
        if way == "plain":
            return spark.read.orc(str(path)).where(where)
        if way == "format":
            return source.option("where", where).load(str(path))
        if way == "format and where":
            return source.load(str(path)).where(where)
        return read(spark, path, where=where, engine=way)
    except Exception as error:  # an error of Spark, or of orcidx through the JVM
        return str(error)


def rows(frame: Any) -> Any:
    """Returns the rows, or the text of the error."""
    try:
        return frame if isinstance(frame, str) else Counter(map(repr, frame.select("id", "key", "at").collect()))
    except Exception as error:  # an error of Spark, or of orcidx through the JVM
        return str(error)


TOLD = (
    "is not a literal",  # from orcidx's SQL parser, which reads the option ``where``
    "did you mean",  # the format uses the rule for upper and lower case that was set when it was registered
    "cannot be compared",
    "pyarrow cannot evaluate",
    "in UTC, but Spark",
    "results for division by zero",
    "when orcidx was registered",
)
"""Messages of the format for conditions that it does not evaluate like Spark."""


def check(expected: Any, found: Any, about: Any, *, by_format: bool) -> None:
    if isinstance(found, str) and by_format and any(one in found for one in TOLD):
        return
    assert isinstance(found, str) == isinstance(expected, str), (about, str(expected)[:400], str(found)[:400])
    assert isinstance(found, str) or found == expected, about


def in_every_way(spark: Any, path: Path, setting: str, values: Sequence[str], conditions: Sequence[str]) -> None:
    """The format is registered with the first value. Reads use the first or the second value, and actions use the
    second."""
    first, then = values
    for where in conditions:
        # The format interprets partition values in the time zone that is set when the action runs. So it is not
        # compared for conditions on ``part``.
        ways = [way for way in WAYS if "part" not in where or not way.startswith("format")]
        for changed_before_read in (False, True):
            spark.conf.set(setting, first)
            register(spark)
            if changed_before_read:
                spark.conf.set(setting, then)
            frames = {way: made(spark, path, where, way) for way in ("plain", *ways)}
            spark.conf.set(setting, then)
            expected = rows(frames["plain"])
            on_action = rows(made(spark, path, where, "plain")) if setting == ZONE else expected
            for way in ways:
                found = rows(frames[way])
                by_format = way.startswith("format")
                if isinstance(expected, str) and setting == ANSI and by_format and not isinstance(found, str):
                    continue  # orcidx may skip the row that causes Spark's error
                wanted = on_action if way == "format" else expected
                check(wanted, found, (setting, values, where, way, changed_before_read), by_format=by_format)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_changes(spark: Any, directory: Path, setting: str) -> None:
    values, conditions = SETTINGS[setting]
    in_every_way(spark, directory, setting, values, conditions[:1])


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_that_changes(spark: Any, directory: Path, setting: str, turned: bool) -> None:
    values, conditions = SETTINGS[setting]
    in_every_way(spark, directory, setting, values[::-1] if turned else values, conditions)


def test_names_that_every_rule_finds_need_no_second_register(spark: Any, directory: Path) -> None:
    """After a change of the case rule, the format refuses only names that are written in another case."""
    spark.conf.set(CASE, "false")
    register(spark)
    options = {"where": "id < 20 AND few = 3", "columns": "id,key"}
    frame = spark.read.format("orcidx").options(**options).load(str(directory))
    other = spark.read.format("orcidx").option("where", "ID < 20").load(str(directory))
    third = spark.read.format("orcidx").option("columns", "ID").load(str(directory))
    assert frame.count() == other.where("few = 3").count() == third.where("ID < 3").count() == 3
    spark.conf.set(CASE, "true")
    assert frame.count() == 3
    with pytest.raises(Exception, match="when orcidx was registered"):
        other.count()
    with pytest.raises(Exception, match="when orcidx was registered"):
        third.collect()


@pytest.fixture(scope="module")
def letters(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes four indexed files. Two of them have column names in another case."""
    folder = tmp_path_factory.mktemp("letters")
    for number, (names, keys) in enumerate(
        {
            ("key", "b"): [1, 2, None],
            ("Key", "b"): [1, 7, None],
            ("KEY", "B"): [11, 12, 17],
            ("key", "B"): [21, 22, 27],
        }.items()
    ):
        orc.write_table(pa.table([keys, [number] * 3], names=list(names)), folder / f"{number}.orc")
    build_file_index(spark, folder, {"bloom-filter": {"key": {}}, "bitmap": {"b": {}}})
    return folder


@pytest.mark.parametrize(
    "where",
    [None, "key = 12", "key IS NULL", "b IS NULL", "NOT key = 7", "key IN (1, 27)", "b = 3 AND key IS NOT NULL"],
)
@pytest.mark.parametrize("rules", [("false", "true"), ("true", "false")])
def test_columns_of_files_are_found_by_the_rule_at_the_action(
    spark: Any, letters: Path, rules: Sequence[str], where: str | None
) -> None:
    """Columns are found by the case rule at the action. By this rule, files with the column ``KEY`` may have no column
    ``key``. Then all values of ``key`` are null, so these files must not be skipped."""
    spark.conf.set(CASE, rules[0])
    register(spark)
    source = spark.read.schema("key bigint, b bigint")
    option = {} if where is None else {"where": where}
    frames = [
        source.orc(str(letters)).where("true" if where is None else where),
        *(
            read(spark, letters, where=where, schema="key bigint, b bigint", engine=one)
            for one in ("auto", "spark", "orcidx")
        ),
        source.format("orcidx").options(**option).load(str(letters)),
    ]
    spark.conf.set(CASE, rules[1])
    expected, *found = (sorted(map(repr, frame.collect())) for frame in frames)
    assert found == [expected] * 4


def test_names_of_a_read_are_found_by_the_rule_at_the_read(spark: Any, letters: Path) -> None:
    spark.conf.set(CASE, "false")
    asked = {"where": "KEY >= 12 AND Key < 27", "columns": ["B", "KEY"], "schema": "key bigint, b bigint"}
    frames = [read(spark, letters, engine=one, **asked) for one in ("spark", "orcidx")]
    top = read(spark, letters, where="KEY > 1", top=[("KEY", "desc")], limit=1, schema="key bigint, b bigint")
    spark.conf.set(CASE, "true")
    assert [frame.columns for frame in frames] == [["B", "KEY"]] * 2
    assert Counter(frames[0].collect()) == Counter(frames[1].collect()) == Counter({(None, 21): 1, (None, 22): 1})
    assert top.collect() == [(27, None)]


@pytest.mark.parametrize("where", ["hour(at) = 3", "at + at > at", "id / few > 2", "few / (id - id) = 1"])
def test_what_would_be_computed_otherwise_than_by_spark_is_sparks(spark: Any, directory: Path, where: str) -> None:
    """For these conditions, pyarrow's results differ from Spark's. For example, pyarrow computes the hour in UTC, and 5
    / 0 as infinity. So Spark evaluates these conditions on the result of ``read``. The format cannot use Spark for
    this, so it refuses them."""
    register(spark)
    expected = rows(made(spark, directory, where, "plain"))
    try:
        found: Any = read(spark, directory, where=where, limit=2000)
    except InvalidQuery as error:
        found = str(error)
    check(expected, rows(found), where, by_format=False)
    frame = spark.read.format("orcidx").option("where", where).load(str(directory))
    with pytest.raises(Exception, match="to the DataFrame with filter"):
        frame.collect()


@pytest.mark.parametrize("where", ["id / 2 = 7", "id / 0.5 = 14.0", "few + id > 1490", "length(text) = 1"])
def test_what_is_computed_as_by_spark_is_taken(spark: Any, directory: Path, where: str) -> None:
    expected = rows(spark.read.orc(str(directory)).where(where))
    assert rows(read(spark, directory, where=where, limit=2000)) == expected
    assert rows(spark.read.format("orcidx").option("where", where).load(str(directory))) == expected
