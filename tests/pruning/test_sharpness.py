"""Row groups kept are never more than ORC Java keeps for the same search argument."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import get_field

import orcidx
from orcidx import col

pytestmark = pytest.mark.java

STRIDE = 1000


def java_rows(spark: Any, path: Path, source_filter: Any) -> int:
    """Rows of the row groups that ORC Java reads for a filter of Spark's, which Spark itself translates."""
    jvm = spark._jvm
    schema = spark.read.orc(str(path))._jdf.schema()
    filters = jvm.org.apache.spark.sql.execution.datasources.orc.OrcFilters
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq([source_filter])
    argument = filters.createFilter(schema, sequence).get()
    orc = jvm.org.apache.orc.OrcFile
    location = jvm.org.apache.hadoop.fs.Path(path.as_uri())
    reader = orc.createReader(location, orc.readerOptions(spark._jsc.hadoopConfiguration()))
    leaves = argument.getLeaves()
    names = [leaves.get(place).getColumnName() for place in range(leaves.size())]
    array = spark._sc._gateway.new_array(jvm.String, len(names))
    for place, name in enumerate(names):
        array[place] = name
    rows = reader.rows(reader.options().searchArgument(argument, array).allowSARGToFilter(False))
    batch = reader.getSchema().createRowBatch()
    total = 0
    while rows.nextBatch(batch):
        total += get_field(batch, "size")
    rows.close()
    return total


def our_rows(path: Path, where: Any) -> int:
    """Rows of the row groups that are kept."""
    total = 0
    with orcidx.open(path) as file:
        for stripe in file.scan([], where).stripes():
            bounds = stripe.decision.rows.bounds
            total += int((bounds[1:] - bounds[:-1])[stripe.decision.kept].sum())
    return total


def bloom_does_not_pay(path: Path, where: Any) -> bool:
    """The one exception: a bloom filter that is larger than the data it may save is not read; Java reads it anyway."""
    with orcidx.open(path) as file:
        return any("more than the data that it may save" in note.text for note in file.scan([], where).explain().notes)


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
    sharper = 0
    for source_filter, where in asked + both:
        theirs, ours = java_rows(spark, written, source_filter), our_rows(written, where)
        assert ours <= theirs or bloom_does_not_pay(written, where), where
        sharper += ours < theirs
    print(f"{len(asked + both)} search arguments, sharper than Java in {sharper}")
