"""Index jobs on an object store (moto's S3). They write by conditional PUT, through fsspec and through obstore."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from indexed_directory import SPEC, index_here
from pyarrow import orc
from s3_server import RequestLog, s3_bucket
from spark_frames import collected

import orcidx.spark
from orcidx import paimon
from orcidx.index_directory.store import IndexStore
from orcidx.storage import list_sources

pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")
obstore = pytest.importorskip("obstore")
obstore_store = pytest.importorskip("obstore.store")
pytest.importorskip("pyarrow.fs")

BUCKET = "orcidx-index"


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[dict[str, Any], RequestLog]]:
    with s3_bucket(BUCKET, "HTTP_IF_NONE_MATCH") as found:
        yield found


def orc_bytes(start: int) -> bytes:
    numbers = range(start, start + 300)
    sink = io.BytesIO()
    orc.write_table(pa.table({"id": pa.array(numbers, pa.int64()), "city": [f"c{n % 7}" for n in numbers]}), sink)
    return sink.getvalue()


def test_a_job_refresh_and_plan(spark: Any, s3: tuple[dict[str, Any], RequestLog]) -> None:
    options, log = s3
    root = f"s3://{BUCKET}/events"
    filesystem = s3fs.S3FileSystem(**options)
    data = {f"day={n % 2}/{n}.orc": orc_bytes(n * 1000) for n in range(5)}
    for name, content in data.items():
        filesystem.pipe_file(f"{BUCKET}/events/{name}", content)
    filesystem.pipe_file(f"{BUCKET}/events/bad.orc", b"nonsense")

    log.requests.clear()
    result = orcidx.spark.build_file_index(spark, root, SPEC, storage_options=options)
    found = {(row["path"], row["kind"]): row for row in collected(result).to_pylist()}
    assert {row["status"] for row in found.values()} == {"built", "error"}
    puts = [(key, condition) for method, key, condition in log.requests if method == "PUT" and ".tmp" not in key]
    assert len(puts) == 6
    assert [key.split("/")[2] for key, condition in puts if condition == "*"] == ["rollup"]
    for name, content in data.items():
        index = found[name, "bitmap"]["index"]
        assert index.startswith(f"{root}/_orcidx/index/{name}.")
        filesystem.invalidate_cache()
        assert filesystem.cat_file(index) == paimon.build_file_index(content, SPEC).to_bytes()

    again = orcidx.spark.build_file_index(spark, root, SPEC, storage_options=options)
    assert {row["status"] for row in collected(again).to_pylist()} == {"fresh", "error"}

    filesystem.pipe_file(f"{BUCKET}/events/day=0/0.orc", orc_bytes(9000))
    log.requests.clear()
    sources = list_sources(root, storage_options=options)
    store = IndexStore.open(root, storage_options=options)
    assert store is not None
    plan = store.plan(sources, "id BETWEEN 1000 AND 1010 AND city = 'c6'")
    assert [sources[i].name for i in plan.kept] == [f"{root}/bad.orc", f"{root}/day=0/0.orc", f"{root}/day=1/1.orc"]
    assert len(log.requests) <= 6, "two listings, the catalog, and checks of s3fs whether a prefix is a file"
    assert not any(key.endswith(".orc") for _, key, _ in log.requests)

    source = sources[plan.kept[2]]
    log.requests.clear()
    scan = orcidx.scan(source, where="city = 'c6' AND id < 1011", file_index={source.name: plan.index_of(plan.kept[2])})
    assert scan.count_rows() == 2
    assert [method for method, key, _ in log.requests if key.endswith(".index")] == ["GET"]

    states = orcidx.spark.describe(spark, root, storage_options=options).states
    assert states == {"fresh": 4, "stale": 1, "error": 1}
    done = collected(orcidx.spark.refresh(spark, root, storage_options=options)).to_pylist()
    assert {row["path"] for row in done if row["status"] == "rebuilt"} == {"day=0/0.orc"}
    cleaned = orcidx.spark.clean(spark, root, older_than=0, storage_options=options)
    assert sorted(one.reason for one in cleaned.removed)[-1] == "no catalog names it"
    explained = orcidx.spark.explain(spark, root, "city = 'c1' AND id > 9000", storage_options=options)
    assert explained.funnel[0].after == 2, "the changed file and the unreadable file remain"


def test_a_directory_in_a_store_of_obstore() -> None:
    store = obstore_store.MemoryStore()
    for number in range(3):
        obstore.put(store, f"t/{number}.orc", orc_bytes(number * 1000))
    made = index_here((store, "t"))
    sources = list_sources([(store, "t")])
    assert made.plan(sources, "id = 2001").kept.tolist() == [2]
