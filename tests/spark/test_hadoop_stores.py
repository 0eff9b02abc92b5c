"""Indexes, reads, SQL and rewrites on a session's Hadoop file systems, with no other libraries than Spark's.

``viewfs`` represents all file systems that tasks cannot open themselves. It needs no server. HDFS and s3a have real
servers in ``.ci/hadoop``.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_server import RequestLog, s3_server
from spark import random_queries
from spark.test_local_cluster import run_cluster_jobs

from orcidx.errors import OrcidxError, Unsupported
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_file import CatalogFile
from orcidx.spark import (
    build_file_index,
    clean,
    describe,
    disable,
    enable,
    explain,
    read,
    recover,
    refresh,
    rewrite,
    why,
)
from orcidx.spark.sessions import served
from orcidx.spark.sessions.hadoop_files import SessionFiles, reached
from orcidx.storage.folder import Folder
from orcidx.storage.hadoop_store import hadoop_source
from orcidx.storage.stores import store_of

SPECIAL = ["a b", "a%b", "a'b", "ü", "a+b", "a#b", "a?b", "a:b", "[x]", "{y}", "a*b", "a=b"]
ROWS = 1200
SPEC = {"bloom-filter": {"id": {"items": "200"}}, "bitmap": {"k": {}}}
SECRET = "the-secret-of-s3"
REAL = os.environ.get("ORCIDX_HADOOP")


@dataclass(frozen=True)
class Place:
    """A directory of a file system. ``open_in_tasks`` is the library with which tasks open files, or None if they
    cannot. ``denied`` removes the rights to a directory's content. ``log`` has the requests to an S3 server.
    ``settings`` are the settings for a session of another process."""

    url: str
    open_in_tasks: str | None
    denied: Callable[[str], AbstractContextManager[None]]
    log: RequestLog | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def exclusive(self) -> bool:
        """Whether a create in this file system fails if the file exists."""
        return self.url.startswith(("hdfs:", "s3a:"))


@contextmanager
def settings_of(spark: Any, **settings: str) -> Iterator[None]:
    conf = spark._jsc.hadoopConfiguration()
    for name, value in settings.items():
        conf.set(name.replace("__", ".").replace("_", "-"), value)
    yield
    for name in settings:
        conf.unset(name.replace("__", ".").replace("_", "-"))


@contextmanager
def viewfs(spark: Any, scratch: Path) -> Iterator[Place]:
    (scratch / "data").mkdir()
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.orcidx.link./data", (scratch / "data").as_uri())

    @contextmanager
    def denied(directory: str) -> Iterator[None]:
        """Simulates a JVM without rights to the directory. Real rights cannot be used, because root may read
        everything."""

        def refuses(call: Any) -> Any:
            def checked(self: SessionFiles, url: str, *rest: Any, **named: Any) -> Any:
                if directory in url:
                    raise PermissionError(errno.EACCES, "access denied by the session's Hadoop file system", url)
                return call(self, url, *rest, **named)

            return checked

        with pytest.MonkeyPatch.context() as patch:
            for name in ("list", "status", "read", "write"):
                patch.setattr(SessionFiles, name, refuses(getattr(SessionFiles, name)))
            yield

    yield Place("viewfs://orcidx/data", None, denied)


@contextmanager
def hdfs(spark: Any, scratch: Path) -> Iterator[Place]:
    from minicluster import minicluster

    (folder,) = _jars("hdfs")

    @contextmanager
    def denied(directory: str) -> Iterator[None]:
        jvm = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(directory)
        files = path.getFileSystem(spark._jsc.hadoopConfiguration())
        rights = files.getFileStatus(path).getPermission()
        files.setPermission(path, jvm.org.apache.hadoop.fs.permission.FsPermission("000"))
        yield
        files.setPermission(path, rights)

    with minicluster(folder, scratch) as (url, web), settings_of(spark, dfs__namenode__http_address=web):
        settings = {"spark.hadoop.dfs.namenode.http-address": web}
        yield Place(f"{url}/data", f"WebHDFS at {web}", denied, settings=settings)


@contextmanager
def s3a(spark: Any, scratch: Path) -> Iterator[Place]:
    import boto3

    with s3_server("bucket") as (endpoint, log):

        @contextmanager
        def denied(directory: str) -> Iterator[None]:
            inside = directory.partition("bucket/")[2]
            log.refuse = lambda asked: "403 AccessDenied" if inside in asked else None
            yield
            log.refuse = None

        keys = {"aws_access_key_id": "k", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="bucket")
        conf = spark._jsc.hadoopConfiguration()
        (jars,) = _jars("s3a")
        settings = {f"spark.{one}.extraClassPath": f"{jars}/*" for one in ("driver", "executor")}
        for name, value in {
            "endpoint": endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "k",
            "bucket.bucket.secret.key": SECRET,
        }.items():
            conf.set(f"fs.s3a.{name}", value)
            settings[f"spark.hadoop.fs.s3a.{name}"] = value
        yield Place("s3a://bucket/data", "s3fs", denied, log, settings)


def _jars(name: str) -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return sorted(Path(os.environ.get("ORCIDX_JARS") or cache / "orcidx" / "jars").glob(f"{name}-*"))


STORES = {"viewfs": viewfs, "hdfs": hdfs, "s3a": s3a}
PARAMETERS = [pytest.param(REAL, marks=pytest.mark.hadoop) if REAL else "viewfs"]
pytestmark = pytest.mark.java


@pytest.fixture(scope="module", params=PARAMETERS)
def place(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with STORES[request.param](spark, tmp_path_factory.mktemp("hadoop")) as found:
        yield found
        disable(spark)


@pytest.fixture(scope="module")
def indexed(spark: Any, place: Place) -> str:
    """A partitioned table. The names of its directories and of a file have special characters."""
    table = f"{place.url}/a table"
    values = ", ".join("'" + one.replace("'", "\\'") + "'" for one in SPECIAL)
    special = f"element_at(array({values}), cast(id div 100 AS int) + 1) AS `p q`"
    frame = spark.range(0, ROWS, 1, 1).selectExpr("id", "id div 100 AS k", "concat('it is ', id) AS t", special)
    frame.write.partitionBy("p q").orc(table)
    build(spark, place, table)
    return table


def build(spark: Any, place: Place, table: str, spec: dict[str, Any] = SPEC) -> None:
    if not place.exclusive:
        with pytest.raises(Unsupported, match="single_writer=True"):
            build_file_index(spark, table, spec, progress=False)
    built = build_file_index(spark, table, spec, progress=False, single_writer=not place.exclusive).collect()
    assert {(row.status, row.error) for row in built} == {("built", None)}


def test_what_is_indexed(spark: Any, indexed: str) -> None:
    found = describe(spark, indexed, verify=True)
    assert found.states == {"fresh": len(SPECIAL)}
    assert {
        row.status for row in build_file_index(spark, indexed, SPEC, progress=False, single_writer=True).collect()
    } == {"fresh"}


@pytest.mark.parametrize("number", range(0, ROWS, 100) if REAL else (100, 800))
def test_a_key_in_each_directory(spark: Any, indexed: str, number: int) -> None:
    """Spark reads the file that contains the key by its path, which may contain any characters. The rows have the value
    of the partition column."""
    wanted = [(row.id, row["p q"]) for row in spark.read.orc(indexed).where(f"id = {number}").collect()]
    frame = read(spark, indexed, where=f"id = {number}", engine="spark")
    assert [(row.id, row["p q"]) for row in frame.collect()] == wanted
    assert why(frame).files_left == 1, why(frame)


def test_files_are_chosen_by_their_names(spark: Any, indexed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcidx.spark.choosing.engine_rules.MOST_NAMED", 0)
    frame = read(spark, indexed, where="k IN (0, 4, 5, 8, 9)", engine="spark")
    assert sorted(row.id for row in frame.collect()) == sorted(
        row.id for row in spark.read.orc(indexed).where("k IN (0, 4, 5, 8, 9)").collect()
    )
    if not indexed.startswith("viewfs:"):  # viewfs returns names of the underlying file system
        assert "selected by a filter on their names" in why(frame).reason
        assert why(frame).files_left == 5


def test_sql(spark: Any, indexed: str) -> None:
    spark.read.orc(indexed).createOrReplaceTempView("hadoop_indexed")
    for text, most in (
        ("SELECT id, `p q` FROM hadoop_indexed WHERE k = 3", 1),
        (f"SELECT count(*) FROM orc.`{indexed}` WHERE id = 250", 1),
        ("SELECT a.id FROM hadoop_indexed a JOIN hadoop_indexed b ON a.id = b.id WHERE a.k = 7 AND b.id < 710", 1),
        ("SELECT count(*) FROM hadoop_indexed WHERE id < 0", 0),
        ("SELECT count(*) FROM hadoop_indexed WHERE t IS NULL", 0),
    ):
        disable(spark)
        plain = sorted(map(str, spark.sql(text).collect()))
        enable(spark)
        assert sorted(map(str, spark.sql(text).collect())) == plain
        disable(spark)
        assert why()[-1].files_left == most, why()[-1]


def test_random_queries(spark: Any, place: Place, rng: np.random.Generator) -> None:
    """Runs random queries on three layouts. For long runs by hand, ORCIDX_QUERIES, ORCIDX_SEED and --timeout can be
    set."""
    random_queries.make_tables(spark, f"{place.url}/random", lambda one: build(spark, place, one, random_queries.SPEC))
    try:
        random_queries.check_random_queries(
            spark, rng, int(os.environ.get("ORCIDX_QUERIES", "30" if REAL else "6")), random_queries.LAYOUTS
        )
    finally:
        random_queries.drop_tables(spark)


def test_own_tasks(spark: Any, place: Place, indexed: str) -> None:
    if not place.open_in_tasks:
        with pytest.raises(Unsupported, match="cannot read viewfs://"):
            read(spark, indexed, where="id = 250", engine="orcidx")
        return
    frame = read(spark, indexed, where="id = 250", engine="orcidx")
    assert [row.t for row in frame.collect()] == ["it is 250"]
    assert f"tasks open the files by {place.open_in_tasks}" in str(why(frame))
    assert read(spark, indexed, limit=7).count() == 7
    assert [row.id for row in read(spark, indexed, top=[("id", "desc")], limit=2).collect()] == [ROWS - 1, ROWS - 2]


def test_explanation(spark: Any, indexed: str) -> None:
    text = str(explain(spark, indexed, where="id = 250"))
    assert "bloom" in text


def test_no_credentials_in_plans_and_pickles(spark: Any, place: Place, indexed: str) -> None:
    source = reached(spark, indexed)
    assert SECRET.encode() not in pickle.dumps(source)
    assert SECRET not in repr(source)
    if place.open_in_tasks:
        frame = read(spark, indexed, where="id = 250", engine="orcidx")
        assert SECRET not in frame._jdf.queryExecution().toString()
        assert SECRET not in frame._jdf.queryExecution().analyzed().prettyJson()


def test_refresh_rewrite_recover(spark: Any, place: Place) -> None:
    table = f"{place.url}/changing"
    columns = ("id", "id div 100 AS k", "id % 2 AS p")
    spark.range(0, 400, 1, 2).selectExpr(*columns).write.partitionBy("p").orc(table)
    build(spark, place, table)
    spark.range(400, 800, 1, 2).selectExpr(*columns).write.mode("append").partitionBy("p").orc(table)
    frame = read(spark, table, where="id = 500", engine="spark")
    assert [row.id for row in frame.collect()] == [500]
    single = {"progress": False, "single_writer": not place.exclusive}
    statuses = [row.status for row in refresh(spark, table, **single).collect()]
    assert (statuses.count("fresh"), statuses.count("built")) == (8, 8)
    if not place.open_in_tasks:
        with pytest.raises(Unsupported, match="cannot read viewfs://"):
            rewrite(spark, table, sort_by="id", progress=False)
        return
    done = rewrite(spark, table, sort_by="id", progress=False).collect()
    assert {(row.status, row.rows) for row in done} == {("rewritten", 400)}
    assert spark.read.orc(table).where("id >= 0").count() == 800
    assert recover(spark, table) == ()
    frame = read(spark, table, where="id = 500", engine="spark")
    assert [row.id for row in frame.collect()] == [500]
    assert why(frame).files_left == 1
    assert clean(spark, table, older_than=0).removed


def test_a_catalog_table(spark: Any, indexed: str) -> None:
    spark.sql("DROP TABLE IF EXISTS of_hadoop")
    spark.sql(
        f"CREATE TABLE of_hadoop (id BIGINT, k BIGINT, t STRING, `p q` STRING) USING orc PARTITIONED BY (`p q`) "
        f"LOCATION '{indexed}'"
    )
    spark.sql("MSCK REPAIR TABLE of_hadoop")
    enable(spark)
    try:
        assert [row.id for row in spark.sql("SELECT id FROM of_hadoop WHERE id = 250").collect()] == [250]
        assert why()[-1].files_left == 1
        in_one = spark.sql("SELECT id FROM of_hadoop WHERE id = 550 AND `p q` = 'a#b'").collect()
        assert [row.id for row in in_one] == [550]
    finally:
        disable(spark)
    frame = read(spark, "of_hadoop", where="id = 250")
    assert [row.id for row in frame.collect()] == [250]
    spark.sql("DROP TABLE of_hadoop")


def test_the_commands_of_the_guide(spark: Any, place: Place) -> None:
    """Runs the first code block of ``docs/guides/spark-on-a-cluster.md`` with another table."""
    if not place.exclusive:
        return
    table = f"{place.url}/guide"
    spark.range(4000, 5000, 1, 4).selectExpr("id AS customer", "id % 7 AS n").write.orc(table)
    page = (Path(__file__).parents[2] / "docs/guides/spark-on-a-cluster.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    code, count = re.subn(r'^table = "[^"]*"', f"table = {table!r}", block, flags=re.MULTILINE)
    assert count == 1
    try:
        exec(compile(code, "guide", "exec"), {"spark": spark})
    finally:
        disable(spark)
    assert why()[-1].files_left == 1


def test_a_lookup_fetches_a_tenth(spark: Any, place: Place) -> None:
    """A lookup of whole rows by one key fetches at most a tenth of the bytes that Spark's reader fetches. The bytes are
    counted in the server's responses, or in HDFS's streams."""
    if not place.exclusive:
        return
    table = f"{place.url}/looked up"
    text = "concat_ws(' ', uuid(), uuid(), uuid(), uuid())"
    columns = ("id", "pmod(id * 7919, 240000) AS key", f"{text} AS a", f"{text} AS b")
    spark.range(0, 240_000, 1, 24).selectExpr(*columns).write.option("orc.compress", "zstd").orc(table)
    build(spark, place, table, {"bloom-filter": {"key": {"items": "10000", "fpp": "0.001"}}})
    where = "key = 4711"

    def bytes_of(frame: Callable[[], Any]) -> tuple[int, list[Any]]:
        before = fetched(spark, place)
        rows = frame().collect()
        return fetched(spark, place) - before, rows

    plain, expected = bytes_of(lambda: spark.read.orc(table).where(where))
    for way in (lambda: read(spark, table, where=where), lambda: enabled(spark, table, where)):
        way().collect()  # this run fills the cache of catalogs
        ours, rows = bytes_of(way)
        disable(spark)
        assert rows == expected
        assert len(rows) == 1
        assert ours <= 0.1 * plain, (ours, plain)
        assert plain > 10_000_000


@pytest.mark.parametrize("size", [0, 1, 6000, 6001, 12_000, 100_000])
def test_pieces_of_a_file(spark: Any, place: Place, tmp_path: Path, size: int, rng: np.random.Generator) -> None:
    """If a part of a file has more than 6,000 bytes, the JVM does not pass it as text, because a text of more than 8 kB
    would wait 40 ms for an acknowledgement."""
    if place.exclusive:
        return  # the test reads a local file, so it need not run for every storage
    data = rng.bytes(size)
    (tmp_path / "ä file").write_bytes(data)
    files, url = SessionFiles(spark), f"file://{tmp_path}/ä file"
    for known in (None, size):
        assert files.read(url, 0, size, size=known) == data
        assert files.read(url, 0, size + 7, size=known) == data
        assert files.read(url, size // 3, size, size=known) == data[size // 3 :]
        assert files.read(url, size // 3, size // 2, size=known) == data[size // 3 : size // 3 + size // 2]
    with pytest.raises(FileNotFoundError):
        files.read(url + "x", 0, size, size=size)


def test_requests_of_a_file(spark: Any, place: Place) -> None:
    """If the size is known, s3a does not request the status of the file again."""
    if place.log is None:
        return
    source = hadoop_source(f"{place.url}/of a file", SessionFiles(spark))
    Folder(hadoop_source(place.url, SessionFiles(spark))).create("of a file", bytes(10_000))
    place.log.requests.clear()
    with closing(store_of(source)[0].open(str(source.location), name="f", options=None, expected=None)) as reader:
        assert reader.read_tail(1 << 20) == (bytes(10_000), 10_000)
    assert [method for method, *_ in place.log.requests] == ["HEAD", "GET"]


def test_bytes_are_for_who_knows_the_password(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10_000))
    told = SessionFiles(spark)._java.serve(f"file://{tmp_path}/a", 0, 10_000, -1, bytearray(b"p" * 32))
    port, length = map(int, told.split())
    assert length == 10_000
    with pytest.raises(ConnectionResetError):
        served._given(port, b"q" * 32, length)
    with pytest.raises(ConnectionError):  # a port responds only once
        served._given(port, b"p" * 32, length)


@pytest.mark.parametrize("answer", [b"", b"\0\0", b"\0\0\0\x0aabcd", b"\0\0\0\x0babcdefghijk", b"\xff\xff\xff\xffabcd"])
def test_an_answer_that_ends_early_or_is_of_another_length(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            connection, _ = door.accept()
            with connection:
                assert connection.recv(3) == b"abc"
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(ConnectionResetError, match="ended early"):
            served._given(door.getsockname()[1], b"abc", 10)
        server.join()


def test_long_listings(spark: Any, tmp_path: Path) -> None:
    names = [f"{number:03} ü \N{SNOWMAN}" * 3 for number in range(400)]
    for name in names:
        (tmp_path / name).touch()
    found = SessionFiles(spark).list(f"file://{tmp_path}")
    assert sorted(one.path.rpartition("/")[2] for one in found) == names


def enabled(spark: Any, table: str, where: str) -> Any:
    enable(spark)
    return spark.sql(f"SELECT * FROM orc.`{table}` WHERE {where}")


def fetched(spark: Any, place: Place) -> int:
    """Returns the bytes that were fetched until now: those of the S3 server's responses, or those that this JVM read
    from HDFS."""
    if place.log is not None:
        return place.log.sent
    every = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(int(one.getBytesRead()) for one in every if one.getScheme() == "hdfs")


@pytest.mark.timeout(1200)
def test_every_job_on_a_local_cluster(place: Place, tmp_path: Path) -> None:
    """Runs ``cluster_jobs`` on this storage. Some tasks die and some run twice, after they have written their files."""
    if REAL:
        run_cluster_jobs(place.url, tmp_path, place.settings)


def test_one_of_many_creates_wins(spark: Any, place: Place) -> None:
    folder = Folder(hadoop_source(f"{place.url}/race", SessionFiles(spark)))
    if not place.exclusive:
        with pytest.raises(Unsupported, match="exclusively"):
            folder.create("one", b"")
        return
    told: list[bool] = []
    threads = [threading.Thread(target=lambda n=n: told.append(folder.create("one", b"%d" % n))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 5 + [True]
    assert [one.name for one in folder.list()] == ["one"]


def test_damaged_and_foreign_indexes_are_left_aside(spark: Any, place: Place) -> None:
    """If a catalog was copied only in part, or has a future format, Spark reads all files."""
    table = f"{place.url}/half copied"
    spark.range(0, 200, 1, 2).selectExpr("id", "id div 100 AS k").write.orc(table)
    build(spark, place, table)
    folder = Folder.of(hadoop_source(table, SessionFiles(spark)), "_orcidx")
    (catalog,) = (one.name for one in folder.list("rollup"))
    whole = folder.read(catalog)
    assert whole is not None
    for damaged in (whole[: len(whole) // 2], b"", b"PAR1" + bytes(100) + b"PAR1"):
        folder.put(catalog, damaged)
        with pytest.warns(RuntimeWarning, match="not used"):
            frame = read(spark, table, where="id = 5")
        assert [row.id for row in frame.collect()] == [5]
        enable(spark)
        with pytest.warns(RuntimeWarning, match="not used"):
            assert [row.id for row in spark.sql(f"SELECT id FROM orc.`{table}` WHERE id = 5").collect()] == [5]
        disable(spark)
    folder.delete(catalog)
    assert read(spark, table, where="id = 5").count() == 1


def answers(spark: Any, table: str) -> list[Any]:
    """Returns the results of ``read`` and of plain SQL, without warnings."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found.append([row.id for row in read(spark, table, where="id = 5").collect()])
        enable(spark)
        try:
            found.append([row.id for row in spark.sql(f"SELECT id FROM orc.`{table}` WHERE id = 5").collect()])
        finally:
            disable(spark)
    return found


def files_in(spark: Any, table: str) -> dict[str, Any]:
    return {one.name: one.version for one in Folder(hadoop_source(table, SessionFiles(spark))).list()}


@pytest.fixture(scope="module")
def small(spark: Any, place: Place) -> str:
    table = f"{place.url}/small"
    spark.range(0, 200, 1, 2).selectExpr("id", "id div 100 AS k").write.orc(table)
    build(spark, place, table)
    return table


def test_an_index_that_may_not_be_read_is_left_aside(spark: Any, place: Place, small: str) -> None:
    before = files_in(spark, small)
    with place.denied(f"{small}/_orcidx"):
        assert answers(spark, small) == [[5], [5]]
        assert "denied" in str(why()[-1]), why()[-1]
        with pytest.raises(OSError, match="denied") as caught:
            build_file_index(spark, small, SPEC, progress=False, rebuild=True, single_writer=not place.exclusive)
        assert "\n" not in str(caught.value)
    assert files_in(spark, small) == before
    assert answers(spark, small) == [[5], [5]]
    assert why()[-1].files_left == 1


def test_files_of_an_index_that_are_gone_or_of_another_version(
    spark: Any, place: Place, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First, the index files that the catalog names are missing, as in a directory that was copied in part. Then the
    catalog has another format. In both cases, all rows are returned."""
    folder = Folder.of(hadoop_source(small, SessionFiles(spark)), "_orcidx")
    (catalog,) = (one.name for one in folder.list("rollup"))
    held = {one.name: folder.read(one.name) for one in folder.list()}
    for name in held:
        if name != catalog:
            folder.delete(name)
    assert answers(spark, small) == [[5], [5]]
    whole = Catalog.read(CatalogFile(held[catalog] or b""))
    monkeypatch.setattr("orcidx.index_directory.catalog.VERSION", 7)
    folder.put(catalog, whole.to_bytes())
    monkeypatch.undo()
    assert answers(spark, small) == [[5], [5]]
    assert why()[-1].files_left is None
    for name, data in held.items():
        folder.put(name, data or b"")


def test_credentials_that_have_ended(spark: Any, place: Place, small: str) -> None:
    """With expired keys, Spark cannot read the files either. Every call of orcidx raises an error that says so. Plain
    SQL raises Spark's own error."""
    if place.log is None:  # only s3a has keys here
        return
    for answer in ("400 ExpiredToken", "403 InvalidAccessKeyId", "403 SignatureDoesNotMatch"):
        place.log.refuse = lambda asked, answer=answer: answer
        try:
            for call in (build_file_index, refresh, describe, recover, rewrite, clean):
                given = (spark, small, SPEC) if call is build_file_index else (spark, small)
                with pytest.raises((OrcidxError, OSError)) as caught:
                    call(*given)
                assert "\n" not in str(caught.value)
                assert answer.partition(" ")[2] in str(caught.value)
            with pytest.raises((OrcidxError, OSError)) as caught:
                read(spark, small, where="id = 5")
            assert "\n" not in str(caught.value)
        finally:
            place.log.refuse = None
    assert answers(spark, small) == [[5], [5]]


def test_errors_are_a_sentence(spark: Any, place: Place) -> None:
    with pytest.raises(FileNotFoundError, match="no such"):
        build_file_index(spark, f"{place.url}/nothing", SPEC, progress=False)
    with pytest.raises((OrcidxError, FileNotFoundError)) as caught:
        build_file_index(spark, "nosuch://here/x", SPEC, progress=False)
    assert "\n" not in str(caught.value)
    with pytest.raises((OrcidxError, FileNotFoundError)) as caught:
        read(spark, "nosuch://here/x", where="id = 5")
    assert "\n" not in str(caught.value)
    assert "nosuch" in str(caught.value)


def test_json_has_no_session(spark: Any, indexed: str) -> None:
    from orcidx.errors import InvalidQuery

    with pytest.raises(InvalidQuery, match="JSON"):
        json.dumps(reached(spark, indexed).to_dict())
