"""Compares totals that are computed without reading rows with reads of the rows.

    python -m benchmarks.totals [files] [range] [groups] [plan] [--scale 0.1]

``files``: computes count, sum, minimum, maximum and average for a range, with the catalog of a directory. The directory
has 100,000 files of 60,000 rows, in a store that takes 30 ms for a request. Only the files that a query opens exist.
They are the first file, which gives the schema, and the files at the two ends of the range. No metadata is cached.

``range``: computes a sum over a range of one sorted local file of 10,000,000 rows, and compares it with scans and with
pyarrow. The least time of many calls counts, once with cached metadata of the file and once without. Rows are never
cached.

``plan``: finds the files that a range does not rule out, with the catalog of a local directory of 1,000,000 files. The
condition has one column, then four columns. Then one of the four columns also has indexes of 100 bytes in the catalog.
The benchmark measures the time, and the peak of memory in addition to the memory of the listing.

``groups``: computes counts and sums by a column of few values with a bitmap index. They are compared with a scan.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
from fsspec.asyn import AsyncFileSystem

import orcidx
from orcidx import paimon
from orcidx.index_directory.catalog import FILE_FIELDS, Catalog, StatisticsKey
from orcidx.orc.metadata_cache import forget_metadata

REQUEST_SECONDS = 0.03
FILES, ROWS, PLANNED = 100_000, 60_000, 1_000_000
RANGE_ROWS, GROUP_ROWS = 10_000_000, 1_000_000
EXACT, VALUES = 8 + 16, 32 + 64
"""Flags of the catalog: the bounds are exact and are values of the column, and the number of values is known."""
FILTER_BYTES = 32
"""The size of the bits of a bloom filter in bytes."""
CATALOG = "table/_orcidx/rollup/00000001.catalog"


class SlowStore(AsyncFileSystem):  # type: ignore[misc]
    """A store in memory. Each request takes ``REQUEST_SECONDS``. Some objects are created when they are first read."""

    cachable = False

    def __init__(self, make: Callable[[str], bytes], sizes: dict[str, int]) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.make = make
        self.sizes = sizes
        self.asked: list[str] = []

    async def _wait(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(REQUEST_SECONDS)

    def _described(self, path: str) -> dict[str, Any]:
        size = len(self.objects[path]) if path in self.objects else self.sizes[path]
        return {"name": path, "size": size, "type": "file", "ETag": "1"}

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return self._described(self._strip_protocol(path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        await self._wait(f"list {path}")
        found = [self._described(one) for one in self.objects if one.startswith(f"{path.strip('/')}/")]
        return found if detail else [one["name"] for one in found]

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        if path not in self.objects:
            self.objects[path] = self.make(path)
        await self._wait(f"read {path}")
        return self.objects[path][start:end]


def file_of(number: int) -> bytes:
    """Returns a file. The keys increase from file to file, and the values are the same in each file."""
    first = number * ROWS
    rows = pa.table({"t": np.arange(first, first + ROWS), "v": np.arange(ROWS) * 7919 % 1000})
    buffer = io.BytesIO()
    orcidx.write_table(rows, buffer)
    return buffer.getvalue()


def catalog_of(paths: list[str], sizes: dict[str, int]) -> Catalog:
    """Returns the catalog that ``orcidx.spark.build_file_index`` would write for these files."""
    count = len(paths)
    columns: dict[str, pa.Array] = {one.name: pa.nulls(count, one.type) for one in FILE_FIELDS}
    columns["path"] = pa.array(paths)
    usual = np.random.default_rng(2).integers(300_000, 400_000, count).tolist()
    columns["size"] = pa.array([sizes.get(f"table/{path}", one) for path, one in zip(paths, usual)], pa.int64())
    columns["etag"] = pa.repeat("1", count)
    columns["rows"] = pa.repeat(pa.scalar(ROWS, pa.int64()), count)
    first = np.arange(count) * ROWS
    values = {"t": (first, first + ROWS - 1, first * ROWS + ROWS * (ROWS - 1) // 2)}
    same = np.arange(ROWS) * 7919 % 1000
    values["v"] = tuple(np.full(count, one) for one in (same.min(), same.max(), same.sum()))
    kept = {}
    for name, (low, high, total) in values.items():
        key = StatisticsKey(name, "bigint")
        flags = np.full(count, EXACT + VALUES)
        arrays = [np.full(count, ROWS), flags, low, high, total]
        fields = [pa.array(one).cast(field.type) for one, field in zip(arrays, key.storage)]
        kept[key] = pa.StructArray.from_arrays(fields, fields=list(key.storage))
    return Catalog(pa.table(columns, schema=FILE_FIELDS), kept, {"spec": {}, "types": {}, "embedded_bytes": 500}, "0")


def files(count: int) -> Iterator[str]:
    ids = np.random.default_rng(1).bytes(8 * count).hex()  # random ids, as in the names of Spark's files
    paths = [f"part-{number:06}-{ids[16 * number : 16 * number + 16]}.zstd.orc" for number in range(count)]
    low, high = count // 4 * ROWS + 12_345, count // 4 * 3 * ROWS + 23_456
    opened = [0, low // ROWS, high // ROWS]
    made = {f"table/{paths[number]}": file_of(number) for number in opened}
    sizes = {path: len(data) for path, data in made.items()}
    store = SlowStore(made.__getitem__, sizes)
    store.objects[CATALOG] = catalog_of(paths, sizes).to_bytes(listed=time.time())
    size = len(store.objects[CATALOG])
    yield f"{count:,} files, {count * ROWS:,} rows, a catalog of {size:,} bytes, {1e3 * REQUEST_SECONDS:.0f} ms each"
    asked = {"n": "count(*)", "s": "sum(v)", "lo": "min(v)", "hi": "max(t)", "mean": "avg(v)"}
    yield "| seconds | processor | requests | rows from the catalog | decoded |"
    yield "|--:|--:|--:|--:|--:|"
    for _ in range(5):
        forget_metadata()
        store.asked.clear()
        began, worked = time.perf_counter(), time.process_time()
        found = orcidx.aggregate("table", asked, f"t between {low} and {high}", filesystem=store, fresh="catalog")
        took, cpu = time.perf_counter() - began, time.process_time() - worked
        assert found["n"][0].as_py() == high - low + 1
        origins = json.loads(found.schema.metadata[b"orcidx"])["rows"]
        decoded = sum(rows for origin, rows in origins.items() if origin != "catalog")
        yield f"| {took:.3f} | {cpu:.3f} | {len(store.asked)} | {origins['catalog']:,} | {decoded:,} |"
    yield "asked: " + ", ".join(store.asked)


def plan(count: int) -> Iterator[str]:
    paths = [
        f"dt=2026-01-{number % 28 + 1:02}/part-{number:06}-{number * 7919:016x}.zstd.orc" for number in range(count)
    ]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "_orcidx", "rollup")
        folder.mkdir(parents=True)
        known = catalog_of(paths, {})
        t, v = known.statistics.values()
        more = {StatisticsKey("u", "bigint"): t, StatisticsKey("w", "bigint"): v}
        known = replace(known, statistics={**known.statistics, **more})
        catalog = Path(folder, "00000001.catalog")
        catalog.write_bytes(known.to_bytes(listed=time.time()))
        one = f"t between {count // 2 * ROWS} and {(count // 2 + 5) * ROWS}"
        four = f"{one} and v >= 0 and u > 5 and w < 2000"
        yield f"{one}: {planned(directory, one)}"
        yield f"{four}: {planned(directory, four)}"
        catalog.write_bytes(with_embedded(known).to_bytes(listed=time.time()))
        del known, t, v, more
        yield f"with indexes of v, {catalog.stat().st_size:,} bytes: {planned(directory, four)}"


def planned(directory: str, where: str) -> str:
    """Makes a plan in a separate process, and returns the line that the process prints."""
    script = PLAN.format(directory=directory, where=where)
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def with_embedded(known: Catalog) -> Catalog:
    """Adds a bloom filter of column v to the catalog for each file. A filter has about 100 bytes of random bits."""
    count = len(known)
    source = io.BytesIO()
    orcidx.write_table(pa.table({"v": np.arange(60)}), source)
    spec = {"bloom-filter": {"v": {"items": "60", "fpp": "0.1"}}}
    index = bytes(paimon.build_file_index(source.getvalue(), spec).to_bytes())
    filled = np.frombuffer(index, np.uint8)[None].repeat(count, 0)
    filled[:, -FILTER_BYTES:] |= np.random.default_rng(3).integers(0, 256, (count, FILTER_BYTES), np.uint8)
    ends = pa.py_buffer((np.arange(count + 1) * len(index)).astype(np.int32))
    embedded = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(filled)])
    kinds = FILE_FIELDS.field("indexes").type
    entry = pa.array([[{"column": "v", "kind": "bloom-filter", "bytes": FILTER_BYTES, "type": "BIGINT"}]], kinds)
    kept = known.files.set_column(known.files.column_names.index("embedded"), "embedded", embedded)
    kept = kept.set_column(kept.column_names.index("indexes"), "indexes", entry.take(pa.array(np.zeros(count, int))))
    return replace(known, files=kept, spec={"spec": spec, "types": {}, "embedded_bytes": 500})


PLAN = """
import time
from orcidx.index_directory.store import IndexStore
def memory():
    with open("/proc/self/status") as status:
        return [int(line.split()[1]) // 1024 for line in status if line.startswith(("VmHWM", "VmRSS"))]
listing = IndexStore.open({directory!r}).catalogs.listing.files
store = IndexStore.open({directory!r})
held, began, worked = memory()[1], time.perf_counter(), time.process_time()
left = store.plan(listing, "{where}").kept
took, cpu = time.perf_counter() - began, time.process_time() - worked
print(f"{{len(listing):,}} files, {{len(left)}} left, "
      f"{{took:.2f}} s, {{cpu:.2f}} of processor, {{memory()[0] - held}} MiB")
"""
"""This script runs in a separate process, so that its peak of memory is the peak of the plan. It needs Linux."""


def best(call: Callable[[], object], rounds: int) -> tuple[float, object]:
    """Returns the least processor time of the rounds, and the result."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        answer = call()
        times.append(time.process_time() - began)
    return min(times), answer


def sorted_range(rows: int) -> Iterator[str]:
    rng = np.random.default_rng(1)
    low, high = rows // 8, rows // 8 * 7
    table = pa.table(
        {
            "t": np.arange(rows),
            "few": rng.integers(0, 1000, rows),
            "many": rng.integers(0, 1 << 40, rows),
            "price": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(20, 0)).cast(pa.decimal128(12, 0)),
        }
    )
    where = f"t between {low} and {high}"
    inside = (pc.field("t") >= low) & (pc.field("t") <= high)
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory, "sorted.orc"))
        orcidx.write_table(table, path)
        time.sleep(0.2)  # the metadata of a file that was just written is not cached
        yield f"{rows:,} rows, a range of three quarters; processor milliseconds, and how many times as fast"
        yield "| column | aggregate | nothing known | scan with the condition | scan of all rows | pyarrow, all rows |"
        yield "|---|--:|--:|--:|--:|--:|"
        for column in ("few", "many", "price"):

            def scanned(column: str = column) -> Any:
                total = Decimal(0)
                for batch in orcidx.scan(path, [column], where):
                    total += Decimal(pc.sum(batch.column(0)).as_py())
                return total

            def read(rows_of: Callable[[list[str]], pa.Table], column: str = column) -> Any:
                return Decimal(pc.sum(rows_of([column, "t"]).filter(inside)[column]).as_py())

            def aggregated(column: str = column) -> Any:
                return orcidx.aggregate(path, {"s": f"sum({column})"}, where)["s"][0].as_py()

            def unknown(aggregated: Callable[[], Any] = aggregated) -> Any:
                forget_metadata()
                return aggregated()

            aggregated()
            totals, answer = best(aggregated, 60)
            cold, _ = best(unknown, 15)
            others = [
                best(scanned, 5),
                best(lambda: read(lambda names: orcidx.read_table(path, names)), 5),
                best(lambda: read(lambda names: pyarrow.orc.ORCFile(path).read(names)), 3),
            ]
            assert all(found == answer for _, found in others)
            cells = " | ".join(f"{1e3 * one:.1f} ({one / totals:.0f})" for one, _ in others)
            yield f"| {column} | {1e3 * totals:.2f} | {1e3 * cold:.2f} | {cells} |"


def groups(rows: int) -> Iterator[str]:
    rng = np.random.default_rng(1)
    table = pa.table({"g": rng.integers(0, 10, rows), "v": rng.integers(-1000, 1000, rows)})
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory, "groups.orc"))
        orcidx.write_table(table, path)
        index = paimon.build_file_index(path, {"bitmap": {"g": {}}, "bsi": {"v": {}}})
        yield f"{rows:,} rows by a column of 10 values; processor milliseconds"
        yield "| asked | by indexes | decoded | times |"
        yield "|---|--:|--:|--:|"
        for asked in ({"n": "count(*)"}, {"n": "count(*)", "s": "sum(v)"}):
            with_index = orcidx.open(path).scan(file_index=index)
            known, answer = best(partial(with_index.aggregate, asked, "g"), 9)
            decoded, other = best(partial(orcidx.aggregate, path, asked, None, "g"), 5)
            assert answer == other
            yield f"| {', '.join(asked.values())} | {1e3 * known:.2f} | {1e3 * decoded:.1f} | {decoded / known:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["files", "range", "groups", "plan", []], default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of files and rows")
    chosen = parser.parse_args()
    parts = (
        ("files", files, FILES),
        ("range", sorted_range, RANGE_ROWS),
        ("groups", groups, GROUP_ROWS),
        ("plan", plan, PLANNED),
    )
    for name, lines, size in parts:
        if name in chosen.what or not chosen.what:
            for line in lines(int(size * chosen.scale)):
                print(line, flush=True)
            print()


if __name__ == "__main__":
    main()
