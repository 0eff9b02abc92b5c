"""Keys, tokens and signatures do not occur in messages, reprs, explanations or JSON. They occur in a pickle only on
request."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import fsspec
import obstore.store
import pyarrow as pa
import pyarrow.fs
import pytest
from paimon_empty import empty_table
from range_server import RangeServer

import orcidx
from orcidx import InvalidQuery
from orcidx.paimon import open_table
from orcidx.storage import describe_source
from orcidx.storage.secrets import secret_names, shown, with_secrets, without_secrets

REFUSED = r"the pickle would contain values that may be secret \(.*with_secrets"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, []),
        ({"anon": True, "endpoint_url": "http://minio:9000", "profile": "reader", "use_ssl": False}, []),
        ({"client_kwargs": {"region_name": "eu-west-1", "verify": None}, "default_block_size": 1 << 20}, []),
        ({"key": "k", "secret": "s"}, ["key", "secret"]),
        (
            {"client_kwargs": {"aws_secret_access_key": "s", "region_name": "r"}},
            ["client_kwargs.aws_secret_access_key"],
        ),
        ({"connection_string": "AccountKey=x"}, ["connection_string"]),
        ({"endpoint_url": "http://user:pw@minio:9000"}, ["endpoint_url"]),
        ({"headers": {"Authorization": b"Bearer x"}}, ["headers.Authorization"]),
        ({"credentials": object()}, ["credentials"]),
        ({"whatever": "x"}, ["whatever"]),
        ({"password": "", "token": None}, []),
        ({"fs": fsspec.filesystem("memory")}, []),
    ],
)
def test_what_may_be_secret_of_options(options: dict[str, Any], names: list[str]) -> None:
    assert secret_names(options) == names


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://h/a.orc", None),
        ("https://h/a.orc?versionId=abc&year=2024", None),
        (
            "https://h/a.orc?X-Amz-Signature=abc&X-Amz-Expires=3600",
            "https://h/a.orc?X-Amz-Signature=…&X-Amz-Expires=3600",
        ),
        ("https://h/a.orc?sv=2024-01-01&sig=a%2Bb", "https://h/a.orc?sv=…&sig=…"),
        ("https://h/a.orc?sig=1?2&x=", "https://h/a.orc?sig=…&x="),
        ("ftp://user:pw@h/a.orc", "ftp://user:…@h/a.orc"),
        ("sftp://user@h/a.orc", None),
        ("s3://bucket/what?.orc", None),
        ("simplecache::https://u:p@h/a?t=x", "simplecache::https://u:…@h/a?t=…"),
        ("zip://a.orc::https://u:p@h/a?t=x", "zip://a.orc::https://u:…@h/a?t=…"),
        ("/data/a?b=c", None),
    ],
)
def test_urls_are_shown_without_secrets(url: str, said: str | None) -> None:
    assert shown(url) == (url if said is None else said)
    text = f"404, message='Not Found', url='{url}'"
    assert without_secrets(text) == text.replace(url, shown(url))


def file_systems() -> dict[str, Any]:
    given: dict[str, Any] = {}
    s3fs = pytest.importorskip("s3fs")
    given["fsspec"] = s3fs.S3FileSystem(key="k3y", secret="s3cret", endpoint_url="http://h")
    inner = {"fs": given["fsspec"]}
    given["fsspec inside"] = fsspec.filesystem("dir", path="bucket", **inner)
    given["pyarrow"] = pyarrow.fs.S3FileSystem(access_key="k3y", secret_key="s3cret", region="eu-west-1")
    given["pyarrow inside"] = pyarrow.fs.SubTreeFileSystem("bucket", given["pyarrow"])
    config: Any = {"aws_access_key_id": "k3y", "aws_secret_access_key": "s3cret", "region": "eu-west-1"}
    given["obstore"] = obstore.store.S3Store("bucket", config=config)
    return given


@pytest.mark.parametrize("kind", ["fsspec", "fsspec inside", "pyarrow", "pyarrow inside", "obstore"])
def test_file_systems_with_keys_are_refused(kind: str) -> None:
    filesystem = file_systems()[kind]
    source = describe_source("bucket/a.orc", filesystem=filesystem)
    for name in (repr(source), str(source)):
        assert "s3cret" not in name
    with pytest.raises(InvalidQuery, match=REFUSED):
        pickle.dumps(source)
    let = describe_source("bucket/a.orc", filesystem=filesystem, storage_options=with_secrets())
    assert b"s3cret" in pickle.dumps(let)
    assert pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(let)))).name == "bucket/a.orc"
    assert pickle.dumps(let.below("b"))


def test_file_systems_without_keys_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of these file systems come from the environment, so a pickle does not need them. Another machine takes
    the keys from its own environment."""
    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k3y")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    for filesystem in (
        s3fs.S3FileSystem(endpoint_url="http://h", client_kwargs={"region_name": "r"}),
        pyarrow.fs.S3FileSystem(region="eu-west-1"),
        obstore.store.S3Store("bucket", region="eu-west-1"),
        fsspec.filesystem("memory"),
        obstore.store.MemoryStore,
    ):
        if filesystem is not obstore.store.MemoryStore:
            data = pickle.dumps(describe_source("bucket/a.orc", filesystem=filesystem))
            assert b"s3cret" not in data
    assert pickle.dumps(describe_source("s3://bucket/a.orc", storage_options={"anon": True}))


def test_what_is_opened_with_secrets_pickles_where_that_is_asked(tmp_path: Path) -> None:
    for number in range(2):
        orcidx.write_table(pa.table({"id": range(10)}), f"memory://secrets/{number}.orc")
    given = {"token": "s3cret"}
    let = orcidx.with_secrets(given)
    fsspec.filesystem("memory", **given)
    table = "memory://secrets-table"
    for path in empty_table(tmp_path / "t").rglob("*"):
        if path.is_file():
            fsspec.filesystem("memory").pipe_file(
                f"/secrets-table/{path.relative_to(tmp_path / 't')}", path.read_bytes()
            )
    makers: dict[str, Any] = {
        "scan": lambda options: orcidx.scan("memory://secrets/", storage_options=options),
        "split": lambda options: orcidx.scan("memory://secrets/", storage_options=options).splits()[0],
        "file": lambda options: orcidx.open("memory://secrets/0.orc", storage_options=options),
        "dataset": lambda options: orcidx.dataset("memory://secrets/", storage_options=options),
        "table scan": lambda options: open_table(table, storage_options=options).scan(),
        "split there": lambda options: orcidx.scan("memory://secrets/").splits()[0].scan(storage_options=options),
    }
    for name, make in makers.items():
        with pytest.raises(InvalidQuery, match=REFUSED):
            pickle.dumps(make(given))
        data = pickle.dumps(make(let))
        assert b"s3cret" in data, name
        assert pickle.dumps(pickle.loads(data)), name
        assert b"s3cret" not in pickle.dumps(make(None)), name
        assert "s3cret" not in repr(make(given)), name
    scan = makers["scan"](given)
    assert "s3cret" not in scan.splits()[0].to_json() + str(scan.explain()) + str(scan.explain().to_dict())


SIGNED = "X-Amz-Credential=AKIA12345678&X-Amz-Signature=5ecre7"


def test_a_signed_url_is_nowhere_shown() -> None:
    sink = pa.BufferOutputStream()
    orcidx.write_table(pa.table({"id": range(10)}), sink)
    with RangeServer({"a.orc": sink.getvalue().to_pybytes()}) as server:
        url = f"{server.url}/a.orc?{SIGNED}"
        scan = orcidx.scan(url, where="id > 3", file_path="path")
        texts = [repr(scan), scan._repr_html_(), str(scan.explain()), str(scan.explain().to_dict())]
        texts += [scan.explain().to_html(), repr(orcidx.open(url)), str(scan.to_table()["path"].to_pylist())]
        assert scan.count_rows() == 6
        assert not [text for text in texts if "5ecre7" in text or "AKIA12345678" in text]
        with pytest.raises(InvalidQuery, match=r"the URL's signature or password"):
            pickle.dumps(scan)
        again = pickle.loads(pickle.dumps(orcidx.scan(url, storage_options=orcidx.with_secrets())))
        assert again.count_rows() == 10
        (split,) = scan.splits()
        with pytest.raises(InvalidQuery, match="cannot be written as JSON") as caught:
            split.to_json()
        assert "5ecre7" not in str(caught.value)
        missing = url.replace("a.orc", "nothing.orc")
        told = [
            _traceback_of(one) for one in (missing, url.replace("http:", "nosuch:"), f"{url}::x", f"zip://a::{url}")
        ]
        server.faults.extend(["403"] * 9 + ["500"] * 30)
        told += [_traceback_of(url), _traceback_of(url)]
    told.append(_traceback_of(url))  # the server has stopped
    assert not [text for text in told if "5ecre7" in text or "AKIA12345678" in text]


def _traceback_of(url: str) -> str:
    with pytest.raises((orcidx.OrcidxError, OSError)) as failed:
        orcidx.open(url)
    return "".join(traceback.format_exception(failed.value))
