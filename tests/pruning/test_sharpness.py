"""orcidx never keeps more row groups than ORC Java for the same search argument.

The tests use random trees on Java's files with bloom filters and on ORC's example files. If orcidx keeps more row
groups than Java, the explanation must say why. ``EXCEPTIONS`` lists the valid reasons.
"""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx import col
from orcidx.planner import bloom_choice

pytestmark = pytest.mark.java

STRIDE = 1000
EXCEPTIONS = {
    "the writer stored timestamps in its local time (ORC-135)": "Java uses them as times in its own time zone",
    "this writer's minima and maxima of short decimals are wrong (ORC-517)": "ORC Java 1.5 uses them",
    "a layout from before the format was final": "Java reads the filter as if it had the final layout, and loses rows",
    "this writer's statistics of stripes and files are wrong (HIVE-8732)": "Java uses only those of row groups",
    "filters of the original kind are used for integers and dates only": "Java uses more of them, and loses rows",
}
"""Texts of explanations, and the reasons why orcidx may then keep more row groups than Java."""


def java_rows(spark: Any, path: Path, source_filter: Any) -> int | None:
    """Returns the number of rows in the row groups that ORC Java reads for a Spark filter. Spark converts the filter to
    a search argument. Returns None if Spark cannot convert it."""
    jvm = spark._jvm
    schema = spark.read.orc(str(path))._jdf.schema()
    filters = jvm.org.apache.spark.sql.execution.datasources.orc.OrcFilters
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq([source_filter])
    found = filters.createFilter(schema, sequence)
    if not found.isDefined():
        return None
    argument = found.get()
    orc = jvm.org.apache.orc.OrcFile
    location = jvm.org.apache.hadoop.fs.Path(path.as_uri())
    reader = orc.createReader(location, orc.readerOptions(spark._jsc.hadoopConfiguration()))
    leaves = argument.getLeaves()
    names = [leaves.get(place).getColumnName() for place in range(leaves.size())]
    array = spark._sc._gateway.new_array(jvm.String, len(names))
    for place, name in enumerate(names):
        array[place] = name
    included = spark._sc._gateway.new_array(jvm.boolean, reader.getSchema().getMaximumId() + 1)
    for number in (0, *(reader.getSchema().findSubtype(name).getId() for name in names)):
        included[number] = True  # Java uses only the indexes of included columns
    options = reader.options().searchArgument(argument, array).allowSARGToFilter(False).include(included)
    rows = reader.rows(options)
    batch = reader.getSchema().createRowBatch()
    from py4j.java_gateway import get_field

    total = 0
    while rows.nextBatch(batch):
        total += get_field(batch, "size")
    rows.close()
    return total


def our_rows(path: Path, where: Any, **options: Any) -> int:
    """Returns the number of rows in the row groups that orcidx keeps."""
    total = 0
    with orcidx.open(path) as file:
        for stripe in file.scan([], where, **options).stripes():
            bounds = stripe.decision.rows.bounds
            total += int((bounds[1:] - bounds[:-1])[stripe.decision.kept].sum())
    return total


def exceptions(path: Path, where: Any) -> set[str]:
    """Returns which of ``EXCEPTIONS`` the explanation names."""
    with orcidx.open(path) as file:
        notes = file.scan([], where).explain().notes
    return {reason for reason in EXCEPTIONS for note in notes if reason in note.text}


@pytest.fixture(autouse=True)
def every_bloom_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes orcidx read all bloom filters, as Java does. By default, orcidx does not read a filter that is larger than
    the data."""
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", float("inf"))


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharp") / "orc"
    columns = [
        "id", "id * 7919 % 20000 * 2 as spread", "if(id % 11 = 0, null, cast(id as string)) as text",
        "cast(id / 10 as decimal(10,2)) as price", "cast(id as double) as amount",
        "date_add(date'1990-01-01', cast(id / 5 as int)) as day", "id < 3000 as early",
        "cast(if(id < 5000, null, id) as int) as later",
    ]  # fmt: skip
    options = {"orc.row.index.stride": STRIDE, "orc.bloom.filter.columns": "spread,text", "compression": "zlib"}
    spark.range(20_000).coalesce(1).selectExpr(*columns).write.options(**options).orc(str(folder))
    (path,) = folder.glob("*.orc")
    return path


def test_never_more_row_groups_than_java(spark: Any, written: Path) -> None:
    sources = spark._jvm.org.apache.spark.sql.sources
    day = datetime.date(1995, 3, 4)
    java_day = spark._jvm.java.sql.Date.valueOf(day.isoformat())
    asked = [
        (sources.EqualTo("id", 15_000), col("id") == 15_000),
        (sources.LessThan("id", 1), col("id") < 1),
        (sources.LessThanOrEqual("id", 1000), col("id") <= 1000),
        (sources.GreaterThan("id", 18_999), col("id") > 18_999),
        (sources.GreaterThanOrEqual("id", 18_999), col("id") >= 18_999),
        (sources.Not(sources.EqualTo("id", 3)), ~(col("id") == 3)),
        (sources.EqualTo("spread", 5000), col("spread") == 5000),
        (sources.EqualTo("spread", 5001), col("spread") == 5001),
        (sources.EqualTo("text", "777"), col("text") == "777"),
        (sources.EqualTo("text", "absent"), col("text") == "absent"),
        (sources.EqualTo("amount", 1234.0), col("amount") == 1234.0),
        (sources.LessThan("amount", 1000.0), col("amount") < 1000.0),
        (sources.EqualTo("day", java_day), col("day") == day),
        (sources.LessThan("day", java_day), col("day") < day),
        (sources.EqualTo("early", True), col("early") == True),  # noqa: E712
        (sources.IsNull("later"), col("later").is_null()),
        (sources.IsNotNull("later"), ~col("later").is_null()),
        (sources.IsNull("id"), col("id").is_null()),
        (sources.EqualNullSafe("later", 5500), col("later").eq_null_safe(5500)),
        (sources.LessThan("later", 5500), col("later") < 5500),
    ]
    both = [
        (sources.And(one[0], other[0]), one[1] & other[1]) for one, other in zip(asked, asked[7:], strict=False)
    ] + [(sources.Or(one[0], other[0]), one[1] | other[1]) for one, other in zip(asked, asked[3:], strict=False)]
    for source_filter, where in asked + both:
        theirs = java_rows(spark, written, source_filter)
        assert theirs is not None
        assert our_rows(written, where) <= theirs, where


def test_a_bloom_filter_that_is_not_read_is_named(spark: Any, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """orcidx keeps more row groups than Java only because it does not read large bloom filters. The explanation must
    say this."""
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", 0.0)
    where = col("spread") == 5001
    with orcidx.open(written) as file:
        notes = file.scan([], where).explain().notes
    assert any(note.kind == "off" and "more than the data that it may save" in note.text for note in notes)
    assert our_rows(written, where) > (
        java_rows(spark, written, spark._jvm.org.apache.spark.sql.sources.EqualTo("spread", 5001)) or 0
    )


# ---------------------------------------------------------------------- writers that convert nothing

SPREAD = "(id * 7919 % 20000 * 2)"
BLOOMED = {
    "i": f"cast({SPREAD} as int)",
    "t": f"cast({SPREAD} as string)",
    "d": f"date_add(date'1990-01-01', cast({SPREAD} as int))",
    "c": f"cast(cast({SPREAD} as decimal(12,2)) / 4 as decimal(12,2))",
    "s": f"timestamp'2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, {SPREAD} * 1.5)",
    "o": "timestamp'1850-01-01 00:00:00' + make_dt_interval(cast(id as int))",
    "p": "timestamp'2020-01-01 00:00:00' + make_dt_interval(0, cast(id as int))",
}
"""Columns of even numbers in random order, and of timestamps in ascending order."""


@pytest.fixture(scope="module")
def bloomed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Writes the same rows with Spark and with pyarrow, with bloom filters, in UTC."""
    folder = tmp_path_factory.mktemp("bloomed")
    options = {"orc.row.index.stride": STRIDE, "orc.bloom.filter.columns": "i,t,d,c,s", "orc.bloom.filter.fpp": 0.0001}
    frame = spark.range(20_000).coalesce(1).selectExpr(*(f"{text} as {name}" for name, text in BLOOMED.items()))
    zones = spark._jvm.java.util.TimeZone
    default = zones.getDefault()
    zones.setDefault(zones.getTimeZone("UTC"))
    try:
        frame.write.options(**options).orc(str(folder / "spark"))
    finally:
        zones.setDefault(default)
    (spark_file,) = (folder / "spark").glob("*.orc")
    table = orcidx.open(spark_file).read(timestamp_unit="us")
    arrow_file = folder / "arrow.orc"
    pa.orc.write_table(
        table, arrow_file, row_index_stride=STRIDE, bloom_filter_columns=list(range(6)), bloom_filter_fpp=0.0001
    )
    return {"spark": spark_file, "pyarrow": arrow_file}


@pytest.mark.parametrize("writer", ["spark", "pyarrow"])
def test_distrust_of_converting_writers_costs_others_nothing(bloomed: dict[str, Path], writer: str) -> None:
    """Some statistics of writers that convert values are not trusted. This must not affect bloom filters on int,
    string, date and decimal, or the statistics and filters of timestamps in UTC."""
    path = bloomed[writer]
    start = datetime.datetime(2020, 1, 1)
    hour, year_1850 = datetime.timedelta(hours=1), datetime.datetime(1850, 1, 1)
    cases = {
        "i": (col("i") == 5000, col("i") == 5001),
        "t": (col("t") == "5000", col("t") == "5001"),
        "d": tuple(col("d") == datetime.date(1990, 1, 1) + datetime.timedelta(5000 + i) for i in range(2)),
        "c": tuple(col("c") == decimal.Decimal(value) for value in ("1250", "1250.25")),
        "s": tuple(col("s") == start + datetime.timedelta(seconds=s) for s in (7500, 7501)),
        "p": (col("p") == start + 5001 * hour, col("p") > start + 19_999 * hour),
        "o": (col("o") == year_1850 + datetime.timedelta(5), col("o") < year_1850),
    }
    for present, absent in cases.values():
        assert (our_rows(path, present), our_rows(path, absent)) == (STRIDE, 0), present
    if writer == "spark":  # Spark rounds values before it writes them, so filters are valid with any rounding
        assert our_rows(path, cases["c"][1], decimal_rounding="half_up") == 0
    assert our_rows(path, col("p").between(start + 5000 * hour, start + 5999 * hour)) == STRIDE
    with orcidx.open(path) as file:
        for present, _ in cases.values():
            assert not any(note.kind == "distrusted" for note in file.scan([], present).explain().notes), present


# ---------------------------------------------------------------------- random trees

Pair = tuple[Any, Any]
"""A filter of Spark, and the same predicate for orcidx."""


class Asker:
    """Makes random search arguments on the flat columns of a file. Literals are values of the file, and neighbouring
    values."""

    def __init__(self, spark: Any, table: pa.Table, rng: np.random.Generator) -> None:
        self.jvm = spark._jvm
        self.gateway = spark._sc._gateway
        self.rng = rng
        self.sources = self.jvm.org.apache.spark.sql.sources
        self.columns = [name for name in table.column_names if _literal_of(table[name].type)]
        self.values = {name: self._samples(table[name]) for name in self.columns}
        self.types = {name: table[name].type for name in self.columns}

    def _samples(self, column: pa.ChunkedArray) -> list[Any]:
        places = self.rng.integers(0, len(column), 12).tolist()
        values = [value for place in places if (value := column[place].as_py()) is not None]
        near = _literal_of(column.type)
        assert near is not None
        return [*values, *(other for value in values for other in near(value))] or list(near(None))

    def _java(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return self.jvm.java.sql.Timestamp.valueOf(value.isoformat(" "))
        if isinstance(value, datetime.date):
            return self.jvm.java.sql.Date.valueOf(value.isoformat())
        if isinstance(value, decimal.Decimal):
            return self.jvm.java.math.BigDecimal(str(value))
        return value

    def leaf(self) -> Pair:
        name = self.columns[int(self.rng.integers(len(self.columns)))]
        column, values = col((name,)) if "." in name else col(name), self.values[name]
        one, other = (values[int(self.rng.integers(len(values)))] for _ in range(2))
        java, sources = self._java(one), self.sources
        kind = int(self.rng.integers(10))
        if kind == 0:
            return sources.IsNull(name), column.is_null()
        if kind == 1:
            return sources.IsNotNull(name), ~column.is_null()
        if kind == 2:
            chosen = [
                values[int(place)] for place in self.rng.integers(0, len(values), int(self.rng.choice([1, 2, 5])))
            ]
            array = self.gateway.new_array(self.jvm.Object, len(chosen))
            for place, value in enumerate(chosen):
                array[place] = self._java(value)
            return sources.In(name, array), column.is_in(chosen)
        if kind == 3:
            between = sources.And(
                sources.GreaterThanOrEqual(name, java), sources.LessThanOrEqual(name, self._java(other))
            )
            return between, column.between(one, other)
        names = ("EqualTo", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan")
        here = (column == one, column == one, column.eq_null_safe(one), column < one, column <= one, column > one)
        return getattr(sources, names[kind - 4])(name, java), here[kind - 4]

    def tree(self, leaves: int) -> Pair:
        if leaves == 1:
            theirs, ours = self.leaf()
        else:
            first = int(self.rng.integers(1, leaves))
            (one, mine), (other, my_other) = self.tree(first), self.tree(leaves - first)
            if self.rng.random() < 0.5:
                theirs, ours = self.sources.And(one, other), mine & my_other
            else:
                theirs, ours = self.sources.Or(one, other), mine | my_other
        return (self.sources.Not(theirs), ~ours) if self.rng.random() < 0.2 else (theirs, ours)


def _literal_of(kind: pa.DataType) -> Callable[[Any], tuple[Any, ...]] | None:
    """Returns a function that returns literals near a value, or one literal if the value is None. Returns None for
    types that search arguments do not have."""
    if pa.types.is_boolean(kind):
        return lambda value: (True, False)
    if pa.types.is_integer(kind):
        top = (1 << (kind.bit_width - 1)) - 1
        return lambda value: (0,) if value is None else (min(value + 1, top), max(value - 1, -top))
    if pa.types.is_floating(kind):
        return lambda value: (0.5,) if value is None or value != value else (value * 2, value - 0.25)
    if pa.types.is_string(kind):
        return lambda value: ("m",) if value is None else (value + "!", value[:-1] or "a")
    if pa.types.is_date(kind):
        return lambda value: (datetime.date(2000, 1, 1),) if value is None else (value + datetime.timedelta(1),)
    if pa.types.is_timestamp(kind):
        day = datetime.datetime(2000, 1, 1)
        return lambda value: (day,) if value is None else (value + datetime.timedelta(seconds=1),)
    if pa.types.is_decimal(kind):
        return lambda value: (decimal.Decimal(1),) if value is None else (value + 1,)
    return None


def compare(spark: Any, path: Path, count: int, rng: np.random.Generator, tally: Counter[str]) -> None:
    with orcidx.open(path) as file:
        plain = [field.name for field in file.schema if _literal_of(field.type)]
        table = file.read(plain, limit=200_000, timestamp_unit="us")
    asker = Asker(spark, table, rng)
    for _ in range(count):
        source_filter, where = asker.tree(int(rng.choice([1, 1, 2, 3, 5])))
        theirs = java_rows(spark, path, source_filter)
        if theirs is None:
            tally["not translated"] += 1
            continue
        ours = our_rows(path, where)
        if ours > theirs:
            reasons = exceptions(path, where)
            assert reasons, (path.name, where, ours, theirs)
            tally.update(reasons)
        tally["sharper" if ours < theirs else "as sharp" if ours == theirs else "excepted"] += 1


def test_random_trees_over_a_file_of_java_with_bloom_filters(
    spark: Any, written: Path, rng: np.random.Generator
) -> None:
    tally: Counter[str] = Counter()
    compare(spark, written, 60, rng, tally)
    print(tally)
    assert tally["as sharp"] + tally["sharper"] > 40
    assert not tally["excepted"]


NOT_OF_SPARK = {
    "TestOrcFile.testUnionAndTimestamp.orc": "a union",
    "TestOrcFile.emptyFile.orc": "no rows",
    "zero.orc": "no bytes",
    "version1999.orc": "no file at all",
    "TestOrcFile.testTimestamp.orc": "its one column has no name",
}
"""Example files of which Spark cannot read the schema, or reads no rows."""


@pytest.mark.parametrize("trees", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_random_trees_over_the_examples(spark: Any, golden_orc: Path, rng: np.random.Generator, trees: int) -> None:
    from py4j.protocol import Py4JJavaError

    tally: Counter[str] = Counter()
    unread = {}
    for path in sorted(golden_orc.glob("*.orc")):
        if path.name in NOT_OF_SPARK:
            continue
        try:
            compare(spark, path, trees, rng, tally)
        except (Py4JJavaError, orcidx.OrcidxError) as error:
            unread[path.name] = str(error)[:3000]
    print(tally)
    assert not unread
    assert tally["as sharp"] + tally["sharper"] > 40
