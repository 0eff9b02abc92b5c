"""The store of a session's Hadoop file systems: how its creates are exclusive, and what is sent to tasks."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from memory_files import MemoryFiles

from orcidx import paimon
from orcidx.errors import StorageError, Unsupported
from orcidx.paimon import file_index, read_file_index
from orcidx.storage import describe_source
from orcidx.storage.folder import Folder
from orcidx.storage.hadoop_access import HdfsAccess, NoAccess, S3Access
from orcidx.storage.hadoop_store import AccessByAuthority, TaskFiles, authority_of, hadoop_source, install
from orcidx.storage.stores import Found


def folder_in(url: str, files: MemoryFiles) -> Folder:
    return Folder(hadoop_source(url, files))


def test_hdfs_creates_by_a_rename() -> None:
    files = MemoryFiles()
    folder = folder_in("hdfs://node:8020/t", files)
    assert folder.create("a", b"1")
    assert not folder.create("a", b"2")
    assert (folder.read("a"), set(files.ways)) == (b"1", {"rename"})


def test_an_index_of_known_size_is_read_without_asking_for_its_status() -> None:
    class Counted(MemoryFiles):
        def status(self, url: str) -> Found | None:
            self.ways.append("status")
            return super().status(url)

    files = Counted()
    data = paimon.build_file_index(pa.table({"id": [1, 2, 3]}), {"bitmap": {"id": {}}}).to_bytes()
    source = hadoop_source("s3a://bucket/t/x.index", files)
    files.held["s3a://bucket/t/x.index"] = data
    for size in (None, len(data)):
        files.ways.clear()
        index = read_file_index(replace(source, size=size), types={"id": "BIGINT"})
        assert index.evaluate("id = 77").is_empty
        assert (files.ways == []) is (size is not None)
    with pytest.raises(StorageError, match="changed"):
        read_file_index(replace(source, size=len(data) + 1), types={"id": "BIGINT"})


def test_a_large_index_that_is_replaced_between_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first read, only the size of the index file is known. Between two reads, another index file of the
    same size replaces it. The second read must raise an error."""
    monkeypatch.setattr(file_index, "_BYTES_READ_AT_ONCE", 100)
    files = MemoryFiles()
    data = paimon.build_file_index(pa.table({"id": range(100_000)}), {"bitmap": {"id": {}}}).to_bytes()
    files.held["s3a://bucket/t/x.index"] = data
    source = replace(hadoop_source("s3a://bucket/t/x.index", files), size=len(data))
    with read_file_index(source, types={"id": "BIGINT"}) as index:
        assert not index.evaluate("id = 99000").is_empty
        files.held["s3a://bucket/t/x.index"] = data[:-1] + b"\0"
        with pytest.raises(StorageError, match="changed"):
            index.evaluate("id = 5")


def test_s3a_creates_by_a_condition_that_is_tried_out() -> None:
    files = MemoryFiles()
    folder = folder_in("s3a://bucket/t", files)
    assert folder.create("a", b"1")
    assert not folder.create("a", b"2")
    assert set(files.ways) == {"conditional"}
    assert [one.name for one in folder.list()] == ["a"]


def test_s3a_that_ignores_its_condition_is_refused() -> None:
    files = MemoryFiles()
    files.refuses_second = lambda url: True  # type: ignore[method-assign]
    files.refuses = False
    with pytest.raises(Unsupported, match="ignores the condition"):
        folder_in("s3a://bucket/t", files).create("a", b"1")


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_an_older_s3a_creates_as_tasks_do(scheme: str) -> None:
    pytest.importorskip("fsspec")
    files = MemoryFiles(refuses=False)
    with pytest.raises(Unsupported, match="s3fs or obstore is needed"):
        folder_in(f"{scheme}://bucket/t", files).create("a", b"1")
    files.beside = describe_source("memory://orcidx-beside/t/a")
    assert folder_in(f"{scheme}://bucket/t", files).create("a", b"1")
    assert not folder_in(f"{scheme}://bucket/t", files).create("a", b"2")
    Folder(describe_source("memory://orcidx-beside/t")).delete("a")


@pytest.mark.parametrize("url", ["viewfs://cluster/t", "gs://bucket/t", "webhdfs://node/t"])
def test_others_are_refused(url: str) -> None:
    files = MemoryFiles()
    with pytest.raises(Unsupported, match="single_writer=True"):
        folder_in(url, files).create("a", b"1")
    assert folder_in(url, files).create("a", b"1", single_writer=True)
    assert not folder_in(url, files).create("a", b"1", single_writer=True)


@pytest.mark.parametrize("url", ["hdfs://node:8020/t/a b.orc", "S3A://bucket/t"])
def test_the_top_of_a_url(url: str) -> None:
    assert authority_of(url) in ("hdfs://node:8020", "s3a://bucket")


def test_a_task_opens_by_its_way(tmp_path: object) -> None:
    pytest.importorskip("fsspec")
    import fsspec

    fsspec.filesystem("memory").pipe_file("/orcidx-access/t/a", b"bytes")

    class Memory:
        shown = "memory"
        problem = None

        def source(self, url: str) -> object:
            return describe_source(url.replace("s3a://bucket", "memory://orcidx-access"))

    source = hadoop_source("s3a://bucket/t/a", TaskFiles("a token of this test"))  # type: ignore[arg-type]
    source = pickle.loads(pickle.dumps(source))
    with pytest.raises(StorageError, match="orcidx's own tasks"):
        source.open()
    install("a token of this test", AccessByAuthority({"s3a://bucket": Memory()}))  # type: ignore[dict-item]
    assert bytes(source.open().read_ranges([(1, 3)])[0]) == b"yte"
    with pytest.raises(StorageError, match="does not have the settings of the bucket"):
        hadoop_source("s3a://other/t", TaskFiles("a token of this test")).open()  # type: ignore[arg-type]
    install("a token of this test", AccessByAuthority({"gs://bucket": NoAccess("gs")}))
    with pytest.raises(Unsupported, match="cannot read gs://"):
        hadoop_source("gs://bucket/t", TaskFiles("a token of this test")).open()  # type: ignore[arg-type]
    assert source.open().size() == 5
    fsspec.filesystem("memory").rm_file("/orcidx-access/t/a")


def test_secrets_are_not_shown() -> None:
    access = S3Access("bucket", key="the-key", secret="the-secret", token="the-token")
    assert not any(
        word in repr(AccessByAuthority({"s3a://bucket": access})) for word in ("the-key", "the-secret", "the-token")
    )


def test_what_tasks_need_for_hdfs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARROW_LIBHDFS_DIR", "HADOOP_HOME", "HADOOP_COMMON_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert HdfsAccess("node:8020", "me", ("node", 9870)).problem is None
    assert "WebHDFS" in HdfsAccess("node:8020", "me", ("node", 9870)).shown
    assert HdfsAccess("node:8020", "me", why="set something").problem == "set something"
    with pytest.raises(StorageError, match="set something"):
        HdfsAccess("node:8020", "me", why="set something").source("hdfs://node:8020/t")
