"""Which store is used for a source. A library is imported only when its store is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import orcidx
from orcidx.errors import StorageError
from orcidx.storage import describe_source
from orcidx.storage.stores import STORES, is_url, store_class

LOCAL = """
import sys
import pyarrow as pa
import orcidx
from orcidx.storage import describe_source, list_sources, open_reader
folder = sys.argv[1]
orcidx.write_table(pa.table({"a": [1, 2, 3]}), f"{folder}/a.orc")
for given in (f"{folder}/a.orc", open(f"{folder}/a.orc", "rb"), open(f"{folder}/a.orc", "rb").read()):
    assert orcidx.open(given).read().num_rows == 3
assert orcidx.scan(folder).count_rows() == 3
assert len(list_sources([f"{folder}/*.orc", b"bytes"])) == 2
try:
    describe_source(("no store", "a"))
except TypeError:
    pass
describe_source("s3://bucket/key") if len(sys.argv) > 2 else None
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"fsspec", "obstore", "boto3", "aiohttp"}))
print(*sorted(name for name in sys.modules if name == "pyarrow.fs" or name.endswith("_backend")))
"""


@pytest.mark.parametrize("url", [False, True])
def test_libraries_are_imported_when_their_stores_are_used(url: bool, tmp_path: Path) -> None:
    """The use of a URL imports fsspec. When the URL is opened, fsspec imports the library of the protocol."""
    command = [sys.executable, "-P", "-c", LOCAL, str(tmp_path), *(["url"] if url else [])]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert told == (["fsspec", "orcidx.storage.fsspec_backend"] if url else ["", ""])


@pytest.mark.parametrize(
    ("text", "kind", "location"),
    [
        ("/a/b.orc", "path", "/a/b.orc"),
        ("/a//b.orc", "path", "/a/b.orc"),
        ("/a/b::c", "path", "/a/b::c"),
        ("file:///a/b.orc", "path", "/a/b.orc"),
        ("FILE:/a/b.orc", "path", "/a/b.orc"),
        ("local:///a/b.orc", "path", "/a/b.orc"),
        ("file://localhost/a/b%20c", "path", "/a/b c"),
        ("s3://bucket/a b", "url", "s3://bucket/a b"),
        ("S3://bucket/a", "url", "S3://bucket/a"),
        ("nobody-knows://a", "url", "nobody-knows://a"),
        ("simplecache::file:///a", "url", "simplecache::file:///a"),
        ("file://a::b", "url", "file://a::b"),
    ],
)
def test_the_store_of_a_text(text: str, kind: str, location: str) -> None:
    source = describe_source(text)
    assert (source.name, source.kind, source.location) == (text, kind, location)
    assert source.in_store


@pytest.mark.parametrize("text", ["C:/a.orc", "a.orc", "a:b", "s3:/bucket", "x::y", "files:a"])
def test_what_is_no_url(text: str) -> None:
    assert not is_url(text)
    assert describe_source(text).kind == "path"


def test_kinds_and_schemes_are_of_one_store() -> None:
    kinds = [kind for line in STORES for kind in line.kinds]
    schemes = [scheme for line in STORES for scheme in line.schemes]
    assert len(kinds) == len(set(kinds))
    assert len(schemes) == len(set(schemes))
    assert {"", "*"} <= set(schemes)
    for line in STORES:
        assert {store_class(kind).__module__ for kind in line.kinds} == {line.module}


def test_a_listing_of_before_does_not_hide_another_writers_object() -> None:
    """Since version 2026.6, s3fs takes the size of an object from its cached listing before it reads the object. An
    object that another writer created after this listing must still be found."""
    import s3fs
    from s3_server import s3_bucket

    from orcidx.storage import describe_source, list_sources
    from orcidx.storage.folder import Folder

    with s3_bucket("stale") as (options, _):
        other = s3fs.S3FileSystem(**options, use_listings_cache=False, skip_instance_cache=True)
        other.pipe_file("stale/t/1", b"first")
        folder = Folder(describe_source("s3://stale/t", storage_options=options))
        ours = s3fs.S3FileSystem(**options)
        assert [one.name for one in folder.list()] == ["1"]
        ours.ls("stale/t")
        other.pipe_file("stale/t/2", b"theirs")  # another writer creates the object after the listing
        assert not folder.create("2", b"ours")
        assert folder.read("2") == b"theirs"
        assert not folder.publish("2", b"ours")
        ours.ls("stale/t")
        other.pipe_file("stale/t/2", b"theirs, and longer")
        assert folder.read("2") == b"theirs, and longer"
        ours.ls("stale/t")
        other.pipe_file("stale/t/4", b"fourth")
        assert not folder.create("4", b"ours")
        assert folder.read("4") == b"fourth"
        ours.ls("stale/t")
        other.pipe_file("stale/t/3", b"third")
        assert [one.size for one in list_sources("s3://stale/t/3", storage_options=options)] == [5]


@pytest.mark.parametrize("call", ["open", "scan", "write"])
@pytest.mark.parametrize("text", ["Unable to load libjvm\ndlopen(x) failed", "Prior attempt to load libhdfs failed"])
def test_hdfs_without_its_library_says_what_to_set(call: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's error has eighty lines of places that it searched. After a second attempt, its error names no places.
    In both cases, orcidx's error says what to set."""
    import fsspec.core

    def failing(url: str, **options: object) -> object:
        raise OSError(text)

    monkeypatch.setattr(fsspec.core, "url_to_fs", failing)
    calls = {
        "open": lambda url: orcidx.open(url),
        "scan": lambda url: orcidx.scan(url).count_rows(),
        "write": lambda url: orcidx.write_table(pa.table({"a": [1]}), url),
    }
    with pytest.raises(StorageError, match=r"JAVA_HOME.*HADOOP_HOME.*CLASSPATH.*hdfs://host/x"):
        calls[call]("hdfs://host/x.orc")
