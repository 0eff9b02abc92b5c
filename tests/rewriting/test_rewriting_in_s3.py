"""Rewrites and datasets in an object store (moto's S3). After an error, nothing is published. If a call was killed, the
next call completes its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from s3_server import RequestLog, obstore_of, s3_bucket

import orcidx
from orcidx import OrcidxError
from orcidx.rewriting.dataset_job import DatasetJob

s3fs = pytest.importorskip("s3fs")
BUCKET = "rewriting"
ROWS = 1_500_000
"""Random numbers of 12 MB: more than one part of an upload."""


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[dict[str, Any], RequestLog]]:
    with s3_bucket(BUCKET) as found:
        yield found


class Denied:
    """A server that refuses requests for which ``matches(method, path, query)`` is true."""

    def __init__(self, app: Any, matches: Any) -> None:
        self.app, self.matches, self.refused = app, matches, 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if self.matches(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]):
            self.refused += 1
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>not now</Message></Error>"]
        return self.app(environ, start_response)


def names(options: dict[str, Any], prefix: str) -> list[str]:
    found = s3fs.S3FileSystem(**options, use_listings_cache=False).find(f"{BUCKET}/{prefix}")
    return sorted(name.removeprefix(f"{BUCKET}/{prefix}/") for name in found)


def uploads(options: dict[str, Any]) -> list[Any]:
    found = s3fs.S3FileSystem(**options).call_s3("list_multipart_uploads", Bucket=BUCKET)
    return list(found.get("Uploads", []))


@pytest.mark.parametrize("store", ["s3fs", "obstore"])
@pytest.mark.parametrize("part", ["partNumber=2", "uploadId"], ids=["a part", "completing"])
def test_a_rewrite_that_fails_publishes_nothing(s3, monkeypatch, tmp_path, store, part):
    options, log = s3
    table = pa.table({"a": np.random.default_rng(1).integers(-(2**62), 2**62, ROWS)})
    orcidx.write_table(table, tmp_path / "a.orc", compression="uncompressed")
    orcidx.write_table(table.slice(0, 10), tmp_path / "old.orc")
    filesystem = s3fs.S3FileSystem(**options)
    folder = f"{store}-{part[:4]}"
    filesystem.put_file(str(tmp_path / "old.orc"), f"{BUCKET}/{folder}/b.orc")

    def rewrite() -> Any:
        if store == "s3fs":
            return orcidx.rewrite(
                tmp_path / "a.orc", f"s3://{BUCKET}/{folder}/b.orc", overwrite=True, storage_options=options
            )
        held = obstore_of(options["endpoint_url"], BUCKET)
        return orcidx.rewrite(tmp_path / "a.orc", (held, f"{folder}/b.orc"), overwrite=True)

    wanted = "PUT" if part.startswith("part") else "POST"
    denied = Denied(log.app, lambda method, path, query: method == wanted and folder in path and part in query)
    with monkeypatch.context() as patched:
        patched.setattr(log, "app", denied)
        with pytest.raises((OrcidxError, OSError)):
            rewrite()
    assert denied.refused
    assert names(options, folder) == ["b.orc"]
    assert filesystem.cat_file(f"{BUCKET}/{folder}/b.orc") == (tmp_path / "old.orc").read_bytes()
    assert not uploads(options)
    assert rewrite().rows == ROWS
    assert orcidx.open(f"s3://{BUCKET}/{folder}/b.orc", storage_options=options).num_rows == ROWS


def test_merged_and_in_place(s3):
    options, _ = s3
    root = f"s3://{BUCKET}/place"
    for number in range(2):
        part = pa.table({"id": np.arange(number * 100, number * 100 + 100)[::-1]})
        orcidx.write_table(part, f"{root}/{number}.orc", storage_options=options)
    done = orcidx.rewrite(root, f"{root}/0.orc", merge=True, sort_by="id", overwrite=True, storage_options=options)
    assert done.rows == 200
    found = orcidx.open(f"{root}/0.orc", storage_options=options).read()
    assert found["id"].to_pylist() == list(range(200))
    again = orcidx.rewrite(f"{root}/0.orc", f"{root}/0.orc", compression="zlib", storage_options=options)
    assert again.way == "recompress"
    assert names(options, "place") == ["0.orc", "1.orc"]


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_dataset_is_completed_after_a_kill(s3, monkeypatch, dies):
    """The call is killed when its second file already has the final name, before or after this file is added to the
    manifest. The next call completes the dataset."""
    options, _ = s3
    root = f"s3://{BUCKET}/set-{dies}"
    table = pa.table({"k": ["a", "b", "c"] * 1000, "v": range(3000)})
    asked = {"partition_by": "k", "job": "load", "storage_options": options}
    add = DatasetJob.add
    calls = 0

    def die(self: Any, file: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 and dies == "before":
            raise KeyboardInterrupt
        add(self, file)
        if calls == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DatasetJob, "add", die)
        with pytest.raises(KeyboardInterrupt):
            orcidx.write_dataset(table, root, **asked)
    done = orcidx.write_dataset(table, root, **asked)
    assert [one.written for one in done.files].count(True) == (2 if dies == "before" else 1)
    assert not any(one.written for one in orcidx.write_dataset(table, root, **asked).files)
    found = orcidx.scan(root, storage_options=options).to_table()
    assert sorted(found["v"].to_pylist()) == list(range(3000))
    assert len([name for name in names(options, f"set-{dies}") if name.endswith(".orc")]) == 3
    assert not uploads(options)


def test_a_dataset_that_is_denied_leaves_no_file(s3, monkeypatch):
    options, log = s3
    table = pa.table({"k": ["a", "b"] * 100, "v": range(200)})
    denied = Denied(log.app, lambda method, path, query: method == "PUT" and "k=b" in path)
    with monkeypatch.context() as patched:
        patched.setattr(log, "app", denied)
        with pytest.raises((OrcidxError, OSError)):
            orcidx.write_dataset(table, f"s3://{BUCKET}/denied", partition_by="k", job="j", storage_options=options)
    assert denied.refused
    assert not any("k=b" in name for name in names(options, "denied"))
    orcidx.write_dataset(table, f"s3://{BUCKET}/denied", partition_by="k", job="j", storage_options=options)
    assert orcidx.scan(f"s3://{BUCKET}/denied", storage_options=options).count_rows() == 200
