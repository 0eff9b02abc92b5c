"""Compares random conditions with ``spark.read.orc``, on several layouts of one table and with every engine. The script
is run by hand.

    python tests/spark/predicates.py --count 300 --seed 1

The script prints a line for each layout. At the first difference between rows, it ends with exit code 1. In a third of
the cases, the zone, ANSI mode and case rule of the session change between ``read`` and the action.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

from orcidx import spark as orcidx_spark

ENGINES = ("auto", "spark", "orcidx")
ROWS = 6000
LEAVES = (
    "id = {n}", "id < {n}", "id >= {n}", "{n} > id", "id BETWEEN {n} AND {n} + 50", "id IN ({n}, 17, null)",
    "id = {n}.0", "id > {n}.5", "id = '{n}'", "small = {s}", "small IN ({s}, 3)", "key = {k}", "key IN ({k}, {n})",
    "text = 't{s}'", "text LIKE 't{s}%'", "text >= 't{s}'", "startswith(text, 't1')", "upper(text) = 'T{s}'",
    "contains(text, '{s}')", "text IS NULL", "real > {n}.25", "real <= -({n})", "isnan(real)", "real IS NULL",
    "real = 'NaN'", "single < {s}.1F", "dec = {s}.50", "dec > {n}", "dec IS NOT NULL",
    "day = date_add(date'2020-01-01', {s})", "day > '2020-0{d}-01'", "year(day) = 202{d}", "day < current_date()",
    "day >= date_sub(current_date(), 30)", "at < TIMESTAMP'2020-09-1{d} 20:00:00'", "at >= '2021-01-01'",
    "hour(at) = {d}", "flag", "NOT flag", "flag <=> null", "id <=> {n}", "coalesce(small, 0) = {s}",
    "id + small = {n}", "-id = -({n})", "if(flag, id = {n}, small = 3)", "CASE WHEN id < {n} THEN flag END",
    "id IN (SELECT 0 + {n})", "part = {d}", "part IN (1, 2) AND id = {n}", "try_cast(text AS int) = 5",
    "binary = X'0{d}'",
)  # fmt: skip
"""Conditions on columns of every type. Some of them can rule out files. Others can be evaluated only by Spark."""

CONFS = (
    ("spark.sql.session.timeZone", ("UTC", "Asia/Tokyo", "America/Los_Angeles")),
    ("spark.sql.ansi.enabled", ("true", "false")),
    ("spark.sql.caseSensitive", ("true", "false")),
)


def condition(dice: random.Random, depth: int) -> str:
    if depth and dice.random() < 0.65:
        parts = [condition(dice, depth - 1) for _ in range(2)]
        return dice.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
    number = dice.randrange(-50, ROWS + 50)
    values = {"n": number, "s": number % 300, "k": number * 7919 % 100003, "d": number % 8 + 1}
    leaf = dice.choice(LEAVES).format(**values)
    return f"NOT ({leaf})" if dice.random() < 0.2 else leaf


def write_layouts(spark: Any, root: Path) -> list[Path]:
    """Writes and indexes the same rows in several layouts: sorted by ``id``, unsorted, in partitions, and in many
    files. In the last layout, the files also store the partition column, with other values than their directories."""
    from pyspark.sql import functions as F

    frame = spark.range(0, ROWS, 1, 8).selectExpr(
        "id",
        "cast(if(id % 9 = 0, null, id % 300) AS smallint) AS small",
        "pmod(id * 7919, 100003) AS key",
        "if(id % 13 = 0, null, concat('t', id % 300)) AS text",
        "if(id % 11 = 0, null, if(id % 17 = 0, double('NaN'), (id - 3000) / 3.0D)) AS real",
        "cast(id % 300 / 7 AS float) AS single",
        "cast(if(id % 5 = 0, null, id % 300 + 0.5) AS decimal(12,2)) AS dec",
        "date_add(date'2020-01-01', int(id / 3)) AS day",
        "timestamp_seconds(1600000000 + id * 6000) AS at",
        "if(id % 19 = 0, null, id % 5 = 0) AS flag",
        "unhex(lpad(hex(id % 9), 2, '0')) AS binary",
        "int(id % 4) AS part",
    )
    frame.write.orc(str(root / "ordered"))
    frame.repartition(6).write.orc(str(root / "shuffled"))
    frame.repartition(4).write.partitionBy("part").orc(str(root / "a b=%41 {x}"))
    frame.repartition(60).write.orc(str(root / "many"))
    for part in range(4):  # these files store another value of ``part`` than their directory
        rows = frame.where(f"part = {part}").withColumn("part", F.lit((part + 1) % 4)).coalesce(2)
        rows.write.orc(str(root / "doubled" / f"part={part}"))
    folders = [root / name for name in ("ordered", "shuffled", "a b=%41 {x}", "many", "doubled")]
    spec = {
        "bloom-filter": {"key": {"items": 1000}, "text": {"items": 300}},
        "bitmap": {"small": {}, "part": {}},
        "range-bitmap": {"day": {}},
    }
    for folder in folders:
        orcidx_spark.build_file_index(spark, str(folder), spec, progress=False).count()
    return folders


@contextmanager
def changed(spark: Any, dice: random.Random) -> Iterator[None]:
    """Changes some of the session's settings to other values."""
    before = {name: spark.conf.get(name) for name, _ in CONFS}
    for name, values in CONFS:
        if dice.random() < 0.5:
            spark.conf.set(name, dice.choice(values))
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def totals(frame: Any) -> Any:
    """Returns the number of rows and a sum."""
    columns = ", ".join(f"`{name}`" for name in sorted(frame.columns))
    return frame.selectExpr("count(*)", f"sum(cast(xxhash64({columns}) AS decimal(38,0)))")


def answers(frames: Sequence[Any]) -> list[Any]:
    """Returns the totals of each frame, or "error" if Spark raises an error. All frames run in one job. If this job
    fails, each frame runs in a job of its own."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        numbered = [totals(frame).selectExpr(f"{number} AS number", "*") for number, frame in enumerate(frames)]
        return [tuple(row)[1:] for row in sorted(reduce(lambda one, other: one.union(other), numbered).collect())]
    except (PySparkException, Py4JJavaError):  # Spark's OrcFilters may raise a NullPointerException
        return ["error"] if len(frames) == 1 else [answers([frame])[0] for frame in frames]


def compare(spark: Any, folder: Path, dice: random.Random, count: int) -> tuple[int, int]:
    """Returns how many reads skipped files, and for how many conditions Spark raised an error. Raises ``SystemExit`` if
    rows differ."""
    fell = errors = 0
    began = time.perf_counter()
    for done in range(count):
        if done and done % 50 == 0:
            sys.stderr.write(f"{folder.name}: {done} of {count}, {time.perf_counter() - began:.0f} s, {fell} fewer\n")
        where = condition(dice, 2)
        plain = spark.read.orc(str(folder).replace("{", "\\{").replace("}", "\\}")).where(where)
        frames = [orcidx_spark.read(spark, str(folder), where=where, engine=engine) for engine in ENGINES]
        with changed(spark, dice) if dice.random() < 1 / 3 else nullcontext():
            expected, *found = answers([plain, *frames])
        errors += expected == "error"
        for engine, frame, one in zip(ENGINES, frames, found):
            chosen = orcidx_spark.why(frame)
            fell += chosen.files is not None and chosen.files_left < chosen.files
            if one != expected and expected != "error":  # orcidx may skip the row that causes Spark's error
                raise SystemExit(
                    f"{folder.name}: for the condition {where}, Spark returns {expected}, but orcidx with the engine "
                    f"{engine} returns {one}\n{chosen}"
                )
    return fell, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="number of conditions for each layout")
    parser.add_argument("--layouts", default="", help="first letters of the layouts (osamd); default: all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = orcidx_spark.session("local[2]", {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"})
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as scratch:
        for folder in write_layouts(spark, Path(scratch)):
            if given.layouts and folder.name[0] not in given.layouts:
                continue
            dice = random.Random(f"{given.seed} {folder.name}")
            fell, errors = compare(spark, folder, dice, given.count)
            told = f"{given.count} conditions by each of {len(ENGINES)} engines"
            told += f", {fell} reads with fewer files, {errors} conditions raise an error in Spark, 0 differ"
            sys.stdout.write(f"{folder.name}: {told}\n")
            sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
