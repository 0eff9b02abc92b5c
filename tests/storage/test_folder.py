"""``Folder`` on every kind of storage. Objects are complete or absent. A create fails if the object exists. If a
storage cannot guarantee this, creates are refused."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conformance import check_exclusive_create, check_folder, check_refused_create
from s3_server import RequestLog, arrow_of, obstore_of, s3_bucket

from orcidx.errors import Unsupported
from orcidx.storage import describe_source
from orcidx.storage.folder import Folder

s3fs = pytest.importorskip("s3fs")
fsspec = pytest.importorskip("fsspec")
obstore_store = pytest.importorskip("obstore.store")
fs = pytest.importorskip("pyarrow.fs")

BUCKET = "orcidx-folders"


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[dict[str, Any], RequestLog]]:
    pytest.importorskip("moto.server")
    with s3_bucket(BUCKET, "HTTP_IF_NONE_MATCH") as found:
        yield found


def local(tmp_path: Path) -> Folder:
    return Folder(describe_source(tmp_path / "there" / "not yet"))


def in_obstore(store: Any) -> Folder:
    return Folder(describe_source((store, "place")))


@pytest.mark.parametrize("kind", ["path", "file URL", "fsspec local", "arrow local", "obstore local"])
def test_local_directories(tmp_path: Path, kind: str) -> None:
    folders = {
        "path": lambda: local(tmp_path),
        "file URL": lambda: Folder(describe_source(f"file://{tmp_path}/x")),
        "fsspec local": lambda: Folder(describe_source(f"{tmp_path}/x", filesystem=fsspec.filesystem("file"))),
        "arrow local": lambda: Folder(describe_source(f"{tmp_path}/x", filesystem=fs.LocalFileSystem())),
        "obstore local": lambda: in_obstore(obstore_store.LocalStore(str(tmp_path))),
    }
    folder = folders[kind]()
    check_folder(folder)
    check_exclusive_create(folder, rounds=20)


@pytest.mark.parametrize("kind", ["fsspec", "obstore"])
def test_memory(kind: str) -> None:
    folder = Folder(describe_source("memory://orcidx-folders/here"))
    if kind == "obstore":
        folder = in_obstore(obstore_store.MemoryStore())
    check_folder(folder)
    check_exclusive_create(folder, rounds=20)


@pytest.mark.parametrize("kind", ["s3fs", "obstore"])
def test_s3(s3: tuple[dict[str, Any], RequestLog], kind: str) -> None:
    options, _ = s3
    folder = Folder(describe_source(f"s3://{BUCKET}/{kind}", storage_options=options))
    if kind == "obstore":
        folder = in_obstore(obstore_of(options["endpoint_url"], BUCKET))
    check_folder(folder)
    check_exclusive_create(folder)


def test_storage_that_cannot_create_exclusively_is_refused(s3: tuple[dict[str, Any], RequestLog]) -> None:
    endpoint = s3[0]["endpoint_url"]
    check_refused_create(Folder(describe_source(f"{BUCKET}/arrow", filesystem=arrow_of(endpoint))))
    check_refused_create(Folder(describe_source("place", filesystem=fs._MockFileSystem())))
    inner = fsspec.filesystem("memory")
    check_refused_create(Folder(describe_source("place", filesystem=fsspec.filesystem("dir", path="/d", fs=inner))))
    folder = Folder(describe_source(f"{BUCKET}/arrow", filesystem=arrow_of(endpoint)))
    check_folder(folder)
    never = obstore_of(endpoint, BUCKET, conditional_put="disabled")
    with pytest.raises(Unsupported, match="conditional_put"):
        in_obstore(never).create("name", b"data")


@pytest.mark.parametrize("kind", ["s3fs", "obstore"])
def test_a_server_that_ignores_the_condition_is_found_out(kind: str) -> None:
    with s3_bucket(BUCKET) as (options, log):
        inner = log.app

        def deaf(environ: dict[str, Any], start_response: Any) -> Any:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            return inner(environ, start_response)

        folder = Folder(describe_source(f"s3://{BUCKET}/deaf", storage_options=options))
        if kind == "obstore":
            folder = in_obstore(obstore_of(options["endpoint_url"], BUCKET))
        log.app = deaf
        check_refused_create(folder)
        log.app = inner
        check_exclusive_create(folder, rounds=1)


def test_an_old_library_that_drops_the_condition_is_found_out(
    s3: tuple[dict[str, Any], RequestLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """s3fs drops arguments that its botocore does not know. botocore before 1.35.20 does not know IfNoneMatch, so
    the condition is not sent. Creates must then be refused."""
    known = s3fs.S3FileSystem._filter_kwargs

    def older(self: Any, method: Any, given: Any) -> Any:
        return {key: value for key, value in known(self, method, given).items() if key != "IfNoneMatch"}

    monkeypatch.setattr(s3fs.S3FileSystem, "_filter_kwargs", older)
    # The additional argument makes fsspec create a new instance. The cached instance was already tested.
    filesystem = s3fs.S3FileSystem(**s3[0], default_block_size=1 << 20)
    check_refused_create(Folder(describe_source(f"{BUCKET}/old", filesystem=filesystem)))


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    check_refused_create(local(tmp_path))


def test_a_link_whose_answer_was_lost_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On NFS, the answer to a request can be lost. The repeated request fails, because the first request has made the
    link. The link still counts as created by this writer."""
    link = os.link

    def twice(old: str, new: str) -> None:
        link(old, new)
        link(old, new)

    monkeypatch.setattr(os, "link", twice)
    folder = local(tmp_path)
    assert folder.create("name", b"data")
    assert folder.read("name") == b"data"
    assert not folder.create("name", b"data")


def test_s3_is_asked_again_where_conditions_collide(s3: tuple[dict[str, Any], RequestLog]) -> None:
    """409 ConditionalRequestConflict means that another conditional PUT is running. This other PUT may still fail, so
    the create is tried again."""
    options, log = s3
    inner, conflicts = log.app, [2]
    body = b"<Error><Code>ConditionalRequestConflict</Code><Message>try again</Message></Error>"

    def colliding(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"].endswith("/409/name") and environ["REQUEST_METHOD"] == "PUT" and conflicts[0]:
            conflicts[0] -= 1
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            start_response("409 Conflict", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        return inner(environ, start_response)

    log.app = colliding
    try:
        folder = Folder(describe_source(f"s3://{BUCKET}/409", storage_options=options))
        assert folder.create("name", b"data")
        assert conflicts == [0]
        assert folder.read("name") == b"data"
    finally:
        log.app = inner


def test_locks_of_memory_file_systems_hold_between_instances() -> None:
    folders = [Folder(describe_source("memory://orcidx-instances/x")) for _ in range(8)]
    barrier = threading.Barrier(8)

    def race(folder: Folder) -> bool:
        barrier.wait(60)
        return folder.create("name", b"data")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(race, folders)).count(True) == 1
    folders[0].delete("name")
