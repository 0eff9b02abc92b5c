"""Tests with a real S3 interface (moto, in this process, on loopback), which s3fs, obstore and pyarrow use."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from goldens import FIXTURES
from s3_server import KEY, RequestLog, arrow_of, obstore_of, s3_server

import orcidx
from orcidx import InvalidQuery, ReadOptions, StorageError, col
from orcidx.paimon import open_table
from orcidx.storage import RangeReader, Source, describe_source, list_sources, open_reader
from orcidx.storage.failures import Retries

pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")
obstore = pytest.importorskip("obstore")
pyarrow_fs = pytest.importorskip("pyarrow.fs")

DATA = os.urandom(2_000_000)
RANGES = [(0, 100), (500_000, 70_000), (1_999_000, 1000), (10, 0), (1_000_000, 5)]
WANTED = [DATA[offset : offset + length] for offset, length in RANGES]
BUCKET = "orcidx-test"


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[str, RequestLog]]:
    with s3_server(BUCKET) as found:
        yield found


@pytest.fixture(scope="module")
def store(s3: tuple[str, RequestLog]) -> Any:
    endpoint, _ = s3
    filesystem = s3fs.S3FileSystem(endpoint_url=endpoint, **KEY)
    filesystem.call_s3("create_bucket", Bucket=BUCKET)
    made = _obstore(endpoint)
    for name, content in {
        "data.orc": DATA,
        "empty.orc": b"",
        "t/dt=2020-01-01/a.orc": b"aa",
        "t/dt=2020-01-02/b.orc": b"b",
        "t/_SUCCESS": b"",
    }.items():
        obstore.put(made, name, content)
    return made


def _obstore(endpoint: str) -> Any:
    return obstore_of(endpoint, BUCKET)


Describe = Callable[[str], Source]
KINDS = ["url", "s3fs", "asynchronous s3fs", "obstore", "arrow"]


@pytest.fixture(params=KINDS)
def describe(request: pytest.FixtureRequest, s3: tuple[str, RequestLog], store: Any) -> Describe:
    endpoint, log = s3
    log.requests.clear()
    kind = request.param
    if kind == "url":
        options = {"endpoint_url": endpoint, **KEY}
        return lambda key: describe_source(f"s3://{BUCKET}/{key}", storage_options=options)
    if kind == "obstore":
        return lambda key: describe_source((store, key))
    if kind == "arrow":
        arrow = arrow_of(endpoint)
        return lambda key: describe_source(f"{BUCKET}/{key}", filesystem=arrow)
    filesystem = s3fs.S3FileSystem(endpoint_url=endpoint, asynchronous=kind.startswith("async"), **KEY)
    return lambda key: describe_source(f"{BUCKET}/{key}", filesystem=filesystem)


def _objects(log: RequestLog, key: str) -> list[tuple[str, str | None]]:
    return [(method, wanted) for method, path, wanted in log.requests if path == key]


def test_read(describe: Describe, s3: tuple[str, RequestLog]) -> None:
    log = s3[1]
    reader = describe("data.orc").open(ReadOptions(merge_gap=0))
    tail, size = reader.read_tail(65536)
    assert (bytes(tail), size) == (DATA[-65536:], len(DATA))
    if not isinstance(describe("x").filesystem, pyarrow_fs.FileSystem):  # Arrow sends a HEAD request first
        assert _objects(log, "data.orc") == [("GET", "bytes=-65536")]
    log.requests.clear()
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    gets = sorted(wanted or "" for method, wanted in _objects(log, "data.orc") if method == "GET")
    assert gets == ["bytes=0-99", "bytes=1000000-1000004", "bytes=500000-569999"], "the tail is not read again"
    assert [bytes(b) for b in asyncio.run(reader.aread_ranges(RANGES))] == WANTED
    known = reader.fingerprint()
    assert known.size == len(DATA)
    assert known.etag is not None
    assert reader.identity is not None
    reader.close()


def test_far_ranges_in_few_requests(describe: Describe, s3: tuple[str, RequestLog], store: Any) -> None:
    """Ranges that are far apart are read by few requests. The bytes between the ranges are dropped while they arrive,
    or afterwards, depending on the library."""
    log = s3[1]
    data = DATA * 4
    obstore.put(store, "far.orc", data)
    ranges = [(7_000_000, 1000), (100, 50_000), (4_000_000, 1), (1_500_000, 10)]
    for most in (1, 2):
        reader = describe("far.orc").open()
        assert [bytes(b) for b in reader.read_ranges(ranges, most=most)] == [data[o : o + n] for o, n in ranges]
        assert reader.metrics.requests == most
        reader.close()
        log.requests.clear()
        reader = describe("far.orc").open()  # a new reader, because the first one has kept its responses
        assert [len(b) for b in asyncio.run(reader.aread_ranges(ranges, most=most))] == [n for _, n in ranges]
        assert len([one for one in _objects(log, "far.orc") if one[0] == "GET"]) == most
        reader.close()


@pytest.mark.parametrize("kind", ["url", "obstore", "arrow"])
def test_a_lookup_in_large_stripes(s3: tuple[str, RequestLog], store: Any, kind: str) -> None:
    """A lookup in a stripe of 18 MB takes two requests for the file and four for the stripe, with each library."""
    endpoint, log = s3
    rows = 300_000
    random = np.random.default_rng(7)
    columns = {"id": np.arange(rows)} | {f"n{i}": random.integers(0, 1 << 62, rows) for i in range(16)}
    out = io.BytesIO()
    pa.orc.write_table(pa.table(columns), out, stripe_size=18 << 20, row_index_stride=5000)
    obstore.put(store, "large.orc", out.getvalue())
    source, options = {
        "url": (f"s3://{BUCKET}/large.orc", {"storage_options": {"endpoint_url": endpoint, **KEY}}),
        "obstore": ((store, "large.orc"), {}),
        "arrow": (f"{BUCKET}/large.orc", {"filesystem": arrow_of(endpoint)}),
    }[kind]
    with orcidx.open(source, **options) as file:
        assert file.stripes[1].data_length > 15e6
        log.requests.clear()
        table = file.read(where=col("id") == 200_000)
    assert table["n9"].to_pylist() == [columns["n9"][200_000]]
    assert len([one for one in _objects(log, "large.orc") if one[0] == "GET"]) <= 1 + 4


def test_empty_and_missing(describe: Describe) -> None:
    reader = describe("empty.orc").open()
    assert reader.read_tail(100) == (b"", 0)
    assert reader.fingerprint().size == 0
    reader.close()
    for method, arguments in [("read_tail", (10,)), ("size", ()), ("read_ranges", ([(0, 1)],))]:
        reader = describe("nothing.orc").open()
        with pytest.raises(FileNotFoundError):
            getattr(reader, method)(*arguments)


def test_every_way_sees_one_fingerprint(s3: tuple[str, RequestLog], store: Any) -> None:
    endpoint, _ = s3
    readers = [
        open_reader(f"s3://{BUCKET}/data.orc", storage_options={"endpoint_url": endpoint, **KEY}),
        open_reader((store, "data.orc")),
        open_reader(f"{BUCKET}/data.orc", filesystem=arrow_of(endpoint)),
    ]
    first, *others = [reader.fingerprint() for reader in readers]
    assert all(first.matches(other) and other.matches(first) and first.etag == other.etag for other in others)


def test_changed_object_is_noticed(describe: Describe, store: Any) -> None:
    obstore.put(store, "changing.orc", DATA)
    reader = describe("changing.orc").open()
    reader.read_tail(100)
    obstore.put(store, "changing.orc", DATA[::-1])
    with pytest.raises(StorageError, match="changed"):
        reader.read_ranges([(1000, 10)])
    reader.close()


def test_sources_pickle(describe: Describe) -> None:
    source = describe("data.orc")
    with pytest.raises(InvalidQuery, match="the pickle would contain values that may be secret"):
        pickle.dumps(source)
    let = describe_source(source, storage_options=orcidx.with_secrets())
    reader = pickle.loads(pickle.dumps(let)).open()
    assert reader.read_tail(10) == (DATA[-10:], len(DATA))
    reader.close()


def test_listing(describe: Describe) -> None:
    for path, wanted in [("t", ["a", "b"]), ("t/", ["a", "b"]), ("t/*/b*", ["b"]), ("t/dt=2020-01-01", ["a"])]:
        found = list_sources(describe(path))
        assert [source.location.rpartition("/")[2] for source in found] == [f"{name}.orc" for name in wanted]
        assert [source.size for source in found] == [{"a": 2, "b": 1}[name] for name in wanted]
    assert [source.partition for source in list_sources(describe("t"))] == [{"dt": "2020-01-01"}, {"dt": "2020-01-02"}]
    (one,) = list_sources(describe("data.orc"))
    assert (one.size, one.root) == (len(DATA), None)
    with pytest.raises(FileNotFoundError):
        list_sources(describe("nothing.orc"))


def test_wrong_credentials_are_a_permission_error(
    s3: tuple[str, RequestLog], store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, log = s3

    def deny(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [b"<Error><Code>AccessDenied</Code></Error>"]

    monkeypatch.setattr(log, "app", deny)
    for reader in _one_of_each(endpoint, store):
        with pytest.raises(PermissionError):
            reader.read_tail(10)


def test_an_unavailable_storage_ends_in_a_storage_error(
    s3: tuple[str, RequestLog], store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, log = s3
    monkeypatch.setattr(Retries, "delay", lambda self, attempt: 0.001)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    asked = 0

    def fail(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        nonlocal asked
        asked += 1
        start_response("500 Internal Server Error", [("Content-Type", "application/xml")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [b"<Error><Code>InternalError</Code></Error>"]

    monkeypatch.setattr(log, "app", fail)
    for reader in _one_of_each(endpoint, store):
        asked = 0
        with pytest.raises(StorageError, match="the last 10 bytes") as caught:
            reader.read_tail(10)
        assert caught.value.file == reader.name
        assert 1 <= asked <= 24


def _one_of_each(endpoint: str, store: Any) -> list[RangeReader]:
    arrow = pyarrow_fs.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        access_key="k",
        secret_key="s",
        region="us-east-1",
        retry_strategy=pyarrow_fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    config = {"retries": {"max_attempts": 0}}
    options = {"endpoint_url": endpoint, "config_kwargs": config, "skip_instance_cache": True, **KEY}
    return [
        open_reader(f"s3://{BUCKET}/data.orc", storage_options=options),
        open_reader((store, "data.orc")),
        open_reader(f"{BUCKET}/data.orc", filesystem=arrow),
    ]


FROZEN_TABLES = FIXTURES / "paimon" / "tables" / "db.db"


@pytest.mark.parametrize("kind", ["url", "s3fs", "obstore", "arrow"])
def test_paimon_tables(s3: tuple[str, RequestLog], store: Any, kind: str) -> None:
    """Snapshots, manifests, deletion vectors and sidecars are all read from the bucket. A table that was pickled can
    read them, too."""
    endpoint, log = s3
    let: dict[str, Any] = {"storage_options": orcidx.with_secrets()}
    for name, where in (("append_dv32", col("v") == 7), ("append_index_files", col("s") == "s7")):
        folder = FROZEN_TABLES / name
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            obstore.put(store, f"warehouse/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        local = open_table(folder)
        log.requests.clear()
        key = f"warehouse/{name}"
        table = {
            "url": lambda key=key: open_table(
                f"s3://{BUCKET}/{key}", storage_options=orcidx.with_secrets({"endpoint_url": endpoint, **KEY})
            ),
            "s3fs": lambda key=key: open_table(
                f"{BUCKET}/{key}", filesystem=s3fs.S3FileSystem(endpoint_url=endpoint, **KEY), **let
            ),
            "obstore": lambda key=key: open_table((_obstore(endpoint), key), **let),
            "arrow": lambda key=key: open_table(f"{BUCKET}/{key}", filesystem=arrow_of(endpoint), **let),
        }[kind]()
        assert table.snapshot_id == local.snapshot_id
        rows = local.scan(where=where).to_table()
        assert rows.num_rows
        assert table.scan(where=where).to_table() == rows
        assert table.scan().count_rows() == local.scan().count_rows()
        assert pickle.loads(pickle.dumps(table)).scan(where=where, limit=3).to_table() == rows.slice(0, 3)
        asked = {key.rpartition("/")[0].removeprefix(f"{BUCKET}/") for _, key, _ in log.requests}
        assert {f"warehouse/{name}/{part}" for part in ("snapshot", "schema", "manifest", "bucket-0")} <= asked
