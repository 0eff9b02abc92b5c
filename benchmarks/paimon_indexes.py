"""Compares Paimon's formats in orcidx and in Paimon's Java library, in one run:  python -m benchmarks.paimon_indexes

The benchmark has three parts. It builds each kind of index from a column. It looks up values in indexes of ``--rows``
rows. It scans a table of ``--rows`` rows with deletion vectors. Both sides run with one thread, in turns, several
times, and the best round of each counts. Java is warmed up first, and measures its own times (System.nanoTime and the
processor time of the thread). The output has elapsed time, processor time, and Java's processor time divided by the
processor time of orcidx. The results are compared.

Java needs a JRE and the jar of ``.ci/fetch-paimon``. With ``--no-java``, its columns are empty. pypaimon-rust has no
interface to single indexes, and its filtered reads of ORC files fail. With ``--rust``, it scans the tables. In these
rows, the columns of orcidx have the times of pypaimon-rust.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.orc
from pyroaring import BitMap

from orcidx import col, paimon

ROOT = Path(__file__).resolve().parent.parent
JAR = "paimon-bundle-1.4.2.jar"
SEED = 20261121
BLOOM = {"items": 1_000_000, "fpp": 0.1}
BUILDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bloom-filter, int64": ("bloom-filter", "distinct", BLOOM),
    "bloom-filter, strings of 20 bytes": ("bloom-filter", "text", BLOOM),
    "bitmap, int64, 1000 values": ("bitmap", "few", {}),
    "bitmap, strings, 1000 values": ("bitmap", "words", {}),
    "bitmap, int64, all distinct": ("bitmap", "distinct", {}),
    "range-bitmap, int64, 1000 values": ("range-bitmap", "few", {}),
    "range-bitmap, int64, all distinct": ("range-bitmap", "distinct", {}),
    "range-bitmap, strings, 1000 values": ("range-bitmap", "words", {}),
    "bsi, int64, 1000 values": ("bsi", "few", {}),
    "bsi, int64, all distinct": ("bsi", "distinct", {}),
}
ASKED = {"bitmap": "few", "range-bitmap": "distinct", "bsi": "distinct", "bloom-filter": "distinct"}


@dataclass(frozen=True)
class Time:
    """The times of the best round, in seconds."""

    wall: float
    cpu: float


def column(name: str, rows: int) -> tuple[pa.Array, str]:
    """Returns values and their type. ``few`` and ``words`` have 1000 distinct values."""
    random = np.random.default_rng(SEED)
    few = random.integers(0, 1000, rows)
    distinct = random.permutation(rows) * 7
    if name in ("few", "distinct"):
        return pa.array(few if name == "few" else distinct), "BIGINT"
    numbers = pa.array(few if name == "words" else distinct + 10**12).cast(pa.string())
    return pa.compute.utf8_lpad(numbers, 20, "x"), "STRING"


def best(work: Callable[[], Any], rounds: int) -> tuple[Time, Any]:
    wall = cpu = math.inf
    for _ in range(rounds):
        began, began_cpu = time.perf_counter(), time.process_time()
        made = work()
        cpu = min(cpu, time.process_time() - began_cpu)
        wall = min(wall, time.perf_counter() - began)
    return Time(wall, cpu), made


# ---------------------------------------------------------------------- Java


class Java:
    """Calls Paimon in the JVM of a Spark session, through the bridge of the tests."""

    def __init__(self, folder: Path, *, memory: str) -> None:
        jars = Path(os.environ.get("ORCIDX_JARS") or Path.home() / ".cache" / "orcidx" / "jars")
        if not (jars / JAR).is_file():
            raise SystemExit(f"{jars} does not contain {JAR}; run .ci/fetch-paimon, or give --no-java")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        sys.path.insert(0, str(ROOT / "tests"))
        from interop.paimon_java import PaimonJava

        builder = SparkSession.builder.master("local[1]").config("spark.jars", str(jars / JAR))
        for name, value in {
            "spark.driver.memory": memory,
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.local.dir": str(folder / "spark"),
            "spark.sql.session.timeZone": "UTC",
        }.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self.bridge = PaimonJava(self.session, folder)
        self.bridge.compile(Path(__file__).with_name("PaimonTimes.java"))
        self.folder = folder

    def load(self, values: pa.Array, data_type: str) -> None:
        source = self.folder / "column.orc"
        pa.orc.write_table(pa.table({"c": values}), source, compression="zstd")
        self.bridge.call("load", self.bridge.row_type({"c": data_type}), str(source))

    def build(self, kind: str, data_type: str, options: Mapping[str, Any], rounds: int) -> tuple[Time, bytes]:
        given = self.bridge.jvm.java.util.HashMap()
        for name, value in options.items():
            given.put(name, str(value))
        took = self._timed("build", kind, self.bridge.data_type(data_type), given, rounds)
        return took, bytes(self.bridge.call("result"))

    def evaluate(self, file: Path, data_type: str, operation: str, literals: Sequence[int], rounds: int) -> Any:
        types = {"c": data_type}
        predicate = self.bridge.leaf(types, "c", operation, *map(str, literals))
        took = self._timed("evaluate", str(file), self.bridge.row_type(types), predicate, rounds)
        return took, self._rows()

    def top(self, file: Path, data_type: str, k: int, rounds: int) -> tuple[Time, Any]:
        return self._timed("top", str(file), self.bridge.row_type({"c": data_type}), k, rounds), self._rows()

    def scan(self, name: str, rounds: int) -> tuple[Time, Any]:
        wall, cpu, count, total = map(int, str(self.bridge.call("scan", self.bridge.table(name), rounds)).split())
        return Time(wall / 1e9, cpu / 1e9), (count, total)

    def _timed(self, method: str, *arguments: Any) -> Time:
        wall, cpu = map(int, str(self.bridge.call(method, *arguments)).split())
        return Time(wall / 1e9, cpu / 1e9)

    def _rows(self) -> BitMap | str:
        found = bytes(self.bridge.call("result"))
        if len(found) == 1:
            return "all" if found[0] else BitMap()
        return BitMap.deserialize(found)


# ---------------------------------------------------------------------- measuring builds and lookups


@dataclass(frozen=True)
class Row:
    name: str
    ours: Time
    java: Time | None
    equal: bool
    items: int = 0
    """The number of values in a round. If it is not 0, values per second are shown instead of milliseconds."""


def builds(given: argparse.Namespace, java: Java | None) -> Iterator[Row]:
    loaded = None
    for name, (kind, values, options) in BUILDS.items():
        if given.only not in name:
            continue
        array, data_type = column(values, given.build_rows)
        took, body = best(lambda: paimon.build_index(kind, array, data_type, options).to_bytes(), given.repeat)  # noqa: B023
        theirs, equal = None, True
        if java is not None:
            if loaded != values:
                java.load(array, data_type)
                loaded = values
            java.build(kind, data_type, options, given.warm)
            theirs, java_body = java.build(kind, data_type, options, given.repeat)
            equal = java_body == body if kind != "bitmap" else len(java_body) == len(body)  # Java's order varies
        yield Row(f"build {name}", took, theirs, equal, given.build_rows)


def questions(kind: str, rows: int) -> Iterator[tuple[str, str, list[int]]]:
    """Yields the label, Paimon's operation and the literals of each lookup."""
    step = 1 if kind == "bitmap" else 7
    top = 1000 if kind == "bitmap" else rows
    yield "equality", "equal", [top // 3 * step]
    yield "IN 100", "in", [i * (top // 100) * step for i in range(100)]
    if kind in ("range-bitmap", "bsi"):
        yield "range of 1 %", "between", [top // 2 * step, (top // 2 + top // 100) * step]
        yield "range of half", "greaterOrEqual", [top // 2 * step]


def where_of(operation: str, literals: list[int]) -> Any:
    c = col("c")
    if operation == "equal":
        return c == literals[0]
    if operation == "in":
        return c.is_in(literals)
    return c.between(*literals) if operation == "between" else c >= literals[0]


def answers(given: argparse.Namespace, java: Java | None, folder: Path) -> Iterator[Row]:
    for kind, values in ASKED.items():
        if given.only not in f"ask {kind}":
            continue
        array, data_type = column(values, given.rows)
        options = {"items": given.rows, "fpp": 0.1} if kind == "bloom-filter" else {}
        file = folder / f"{kind}.index"
        table = pa.table({"c": array})
        file.write_bytes(paimon.build_file_index(table, {kind: {"c": options}}).to_bytes())
        types = {"c": data_type}

        def ask(where: Any, file: Path = file, types: Mapping[str, str] = types) -> Any:
            with paimon.read_file_index(file, types=types) as index:
                return index.evaluate(where)

        for label, operation, literals in questions(kind, given.rows):
            where = where_of(operation, literals)
            took, verdict = best(lambda: ask(where), given.rounds)  # noqa: B023
            theirs, equal = None, True
            if java is not None:
                java.evaluate(file, data_type, operation, literals, given.rounds)
                theirs, rows = java.evaluate(file, data_type, operation, literals, given.rounds)
                equal = rows == ("all" if verdict.rows is None else verdict.rows)
            yield Row(f"ask {kind}: {label}", took, theirs, equal)
        if kind == "range-bitmap":
            yield top_rows(given, java, file, types)


def top_rows(given: argparse.Namespace, java: Java | None, file: Path, types: Mapping[str, str]) -> Row:
    def ask() -> Any:
        with paimon.read_file_index(file, types=types) as index:
            return index.top_k("c", 100, descending=True, nulls_first=False)

    took, verdict = best(ask, given.rounds)
    if java is None:
        return Row("ask range-bitmap: top 100", took, None, True)
    java.top(file, types["c"], 100, given.rounds)
    theirs, rows = java.top(file, types["c"], 100, given.rounds)
    return Row("ask range-bitmap: top 100", took, theirs, rows == verdict.rows)


# ---------------------------------------------------------------------- deletion vectors


def total(batches: Any) -> tuple[int, int]:
    count = sum_ = 0
    for batch in batches:
        count += batch.num_rows
        sum_ += pa.compute.sum(batch.column(0)).as_py() or 0
    return count, sum_


def scans(given: argparse.Namespace, java: Java | None) -> Iterator[Row]:
    if java is None or given.only not in "scan":
        return
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.compression": "zstd"}
    folder = java.bridge.create("scanned", {"id": "BIGINT", "v": "BIGINT"}, options=options)
    values, _ = column("few", given.rows)
    java.bridge.write("scanned", pa.table({"id": pa.array(range(given.rows)), "v": values}))
    files = paimon.open_table(folder).files()
    (folder / "index").mkdir()
    for label, share in (("nothing", 0.0), ("1 %", 0.01), ("50 %", 0.5)):
        if share:
            random = np.random.default_rng(SEED)
            vectors = {
                file.entry.name: paimon.DeletionVector(np.flatnonzero(random.random(file.rows) < share))
                for file in files
            }
            written = paimon.write_deletion_vectors(folder / "index" / f"index-{share}", vectors)
            java.bridge.commit_deletions("scanned", written)
        table = paimon.open_table(folder)
        took, found = best(lambda: total(table.scan(use_threads=False)), given.repeat)  # noqa: B023
        java.scan("scanned", 2)
        theirs, expected = java.scan("scanned", given.repeat)
        yield Row(f"scan, {label} deleted", took, theirs, found == expected, given.rows)
        if given.rust:
            took, other = by_rust(folder)
            yield Row(f"scan by pypaimon-rust, {label} deleted", took, None, other == expected, given.rows)


def by_rust(folder: Path) -> tuple[Time, tuple[int, int]]:
    """Scans the table with pypaimon-rust, only once, because pypaimon-rust is slow with deletions."""
    from pypaimon_rust.datafusion import PaimonCatalog

    catalog = PaimonCatalog({"warehouse": str(folder.parent.parent)})
    table = catalog.get_table(f"{folder.parent.name.removesuffix('.db')}.{folder.name}")

    def scan() -> tuple[int, int]:
        builder = table.new_read_builder()
        return total(builder.new_read().read_arrow(builder.new_scan().plan().splits()))

    return best(scan, 1)


# ---------------------------------------------------------------------- report


def shown(row: Row) -> str:
    def side(took: Time | None) -> str:
        if took is None:
            return f"{'':>21}"
        unit, scale = ("M/s", row.items / 1e6) if row.items else ("ms", None)
        numbers = [scale / t if scale else t * 1e3 for t in (took.wall, took.cpu)]
        return " ".join(f"{number:8.2f}" for number in numbers) + f" {unit:>3}"

    ratio = f"{row.java.cpu / row.ours.cpu:7.2f}x" if row.java else ""
    return f"{row.name:42} {side(row.ours)}  {side(row.java)}  {ratio}{'' if row.equal else '  ANSWERS DIFFER'}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of lookups and scans (default 10,000,000)")
    parser.add_argument("--build-rows", type=int, default=2_000_000, help="rows of each build (default 2,000,000)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of a build or scan (default 3)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of a lookup, and of warming up Java")
    parser.add_argument("--warm", type=int, default=3, help="builds that warm up Java (default 3)")
    parser.add_argument("--only", default="", help="measure only rows whose name contains this text")
    parser.add_argument("--no-java", dest="java", action="store_false", help="measure only orcidx")
    parser.add_argument("--rust", action="store_true", help="also scan with pypaimon-rust, which must be installed")
    parser.add_argument("--memory", default="6g", help="heap of the JVM (default 6g)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="orcidx-paimon-") as name:
        folder = Path(name)
        java = Java(folder, memory=given.memory) if given.java else None
        print(f"\n{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
        print(f"{'':42} {'orcidx: wall      cpu':>21}  {'Java: wall      cpu':>21}  {'ratio':>8}")
        for rows in (builds(given, java), answers(given, java, folder), scans(given, java)):
            for row in rows:
                found.append(row)
                print(shown(row), flush=True)
        if java is not None:
            java.session.stop()
    if not found:
        excluded = "" if given.java else ", or leave out --no-java, which excludes the scans"
        raise SystemExit(
            f"nothing was measured, because no row has a name that contains {given.only!r}; change --only{excluded}"
        )
    slower = [row.name for row in found if row.java and row.ours.cpu > 1.5 * row.java.cpu]
    print(f"\n{len(found)} rows; slower than Java by more than half: {', '.join(slower) or 'none'}")
    return 0 if all(row.equal for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
