"""Directories, globs and prefixes, and partitions in their paths, give the same results on every storage."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import obstore
import obstore.store
import pyarrow
import pyarrow.fs
import pytest

import orcidx
from orcidx import InvalidQuery, Unsupported, paimon
from orcidx.storage import Source, describe_source, hive_partition, list_sources

FILES = {
    "t/dt=2020-01-02/b.orc": 3,
    "t/dt=2020-01-01/a.orc": 2,
    "t/dt=2020-01-01/_SUCCESS": 1,
    "t/dt=2020-01-01/.b.crc": 1,
    "t/dt=2020-01-01/c.orc._COPYING_": 1,
    "t/_temporary/0/x.orc": 1,
    "t/_orcidx/index": 1,
    "t/_hidden=1/kept.orc": 1,
    "t/empty.orc": 0,
    "t/z.orc": 1,
    "tz/other.orc": 1,
    "one.orc": 4,
}
KEPT = ["_hidden=1/kept.orc", "dt=2020-01-01/a.orc", "dt=2020-01-02/b.orc", "empty.orc", "z.orc"]

Lister = Callable[[str], list[Source]]


@pytest.fixture(params=["local", "file url", "fsspec url", "fsspec", "arrow", "obstore"])
def lister(request: pytest.FixtureRequest, tmp_path: Path) -> Lister:
    """Returns a function that lists a path relative to a directory with FILES."""
    kind = request.param
    base = str(tmp_path)
    if kind in ("fsspec", "fsspec url"):
        memory = fsspec.filesystem("memory")
        base = f"/{tmp_path.name}"
        for name, size in FILES.items():
            memory.pipe_file(f"{base}/{name}", bytes(size))
        if kind == "fsspec":
            return lambda path: list_sources(f"{base}/{path}", filesystem=memory)
        return lambda path: list_sources(f"memory:/{base}/{path}")
    if kind == "obstore":
        store = obstore.store.MemoryStore()
        for name, size in FILES.items():
            obstore.put(store, name, bytes(size))
        return lambda path: list_sources(path, filesystem=store)
    for name, size in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    if kind == "local":
        return lambda path: list_sources(os.path.join(base, path))
    if kind == "file url":
        return lambda path: list_sources(f"file://{base}/{path}")
    # orcidx does not treat a PyFileSystem as local, whatever it contains.
    arrow = pyarrow.fs.PyFileSystem(_Handler(pyarrow.fs.SubTreeFileSystem(base, pyarrow.fs.LocalFileSystem())))
    return lambda path: list_sources(path, filesystem=arrow)


class _Handler(pyarrow.fs.FileSystemHandler):
    """Forwards the calls that listing and reading need."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def get_type_name(self) -> str:
        return "test"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return self._inner.get_file_info(paths)  # type: ignore[no-any-return]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        return self._inner.get_file_info(selector)  # type: ignore[no-any-return]

    def open_input_file(self, path: str) -> Any:
        return self._inner.open_input_file(path)

    def open_input_stream(self, path: str) -> Any:
        return self._inner.open_input_stream(path)

    def create_dir(self, path: str, recursive: bool) -> None: ...
    def delete_dir(self, path: str) -> None: ...
    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None: ...
    def delete_root_dir_contents(self) -> None: ...
    def delete_file(self, path: str) -> None: ...
    def move(self, src: str, dest: str) -> None: ...
    def copy_file(self, src: str, dest: str) -> None: ...
    def open_output_stream(self, path: str, metadata: Any) -> None: ...
    def open_append_stream(self, path: str, metadata: Any) -> None: ...


def below(found: list[Source]) -> list[str]:
    return [source.name.replace(os.sep, "/").rpartition("/t/")[2].removeprefix("t/") for source in found]


def test_directory(lister: Lister) -> None:
    for path in ("t", "t/"):
        found = lister(path)
        assert below(found) == KEPT
        assert [source.size for source in found] == [1, 2, 3, 0, 1]
        assert [source.partition for source in found] == [
            {"_hidden": "1"},
            {"dt": "2020-01-01"},
            {"dt": "2020-01-02"},
            {},
            {},
        ]
    for source in found:
        reader = source.open()
        assert reader.size() == source.size
        reader.close()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("t/*.orc", ["empty.orc", "z.orc"]),
        ("t/dt=*", ["dt=2020-01-01/a.orc", "dt=2020-01-02/b.orc"]),
        ("t/dt=*/*.orc", ["dt=2020-01-01/a.orc", "dt=2020-01-02/b.orc"]),
        ("t/dt=2020-01-0[2-9]/?.orc", ["dt=2020-01-02/b.orc"]),
        ("t/dt=2020-01-0[!2]/*", ["dt=2020-01-01/a.orc"]),
        ("t/**/*.orc", KEPT),
        ("t/**", KEPT),
        ("t/_temporary/*/*.orc", ["_temporary/0/x.orc"]),
        ("t/_temp*/*/*", ["_temporary/0/x.orc"]),
        ("t/*.parquet", []),
    ],
)
def test_glob(lister: Lister, pattern: str, wanted: list[str]) -> None:
    found = lister(pattern)
    assert below(found) == wanted
    for source in found:
        assert source.partition == hive_partition(source.name, None)


def test_one_file_and_a_missing_one(lister: Lister) -> None:
    (found,) = lister("one.orc")
    assert (found.size, found.root, found.partition) == (4, None, {})
    with pytest.raises(FileNotFoundError):
        lister("nothing.orc")


def test_lists_keep_their_order(tmp_path: Path) -> None:
    for name in ("b.orc", "a.orc", "d/y.orc", "d/x.orc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    given = [tmp_path / "b.orc", str(tmp_path / "d"), b"bytes", tmp_path / "a.orc"]
    for many in (given, tuple(given), iter(given)):
        assert [os.path.basename(source.name) for source in list_sources(many)] == [
            "b.orc",
            "x.orc",
            "y.orc",
            "<bytes>",
            "a.orc",
        ]
    (same,) = list_sources(describe_source(tmp_path / "a.orc"))
    assert same.name == str(tmp_path / "a.orc")
    assert list_sources([]) == []
    store = obstore.store.MemoryStore()
    obstore.put(store, "a.orc", b"x")
    assert [source.kind for source in list_sources((store, "a.orc"))] == ["obstore"]


def test_relative_names_stay_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d" / "k=1").mkdir(parents=True)
    (tmp_path / "d" / "k=1" / "x.orc").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    for path in ("d", "d/", "d/*", "d/k=*/x.orc", Path("d"), "**/x.orc"):
        (found,) = list_sources(path)
        assert (found.name, found.partition) == ("d/k=1/x.orc", {"k": "1"})
        assert found.location == str(tmp_path / "d" / "k=1" / "x.orc")
    (found,) = list_sources(".")
    assert found.name == "./d/k=1/x.orc"
    source = describe_source("d")
    monkeypatch.chdir("/")
    found.open().close()
    assert list_sources(source)[0].name == str(tmp_path / "d" / "k=1" / "x.orc")
    (tmp_path / "w[1]").mkdir()
    monkeypatch.chdir(tmp_path / "w[1]")
    (tmp_path / "w[1]" / "y.orc").write_bytes(b"y")
    assert [source.name for source in list_sources("*.orc")] == ["y.orc"]
    with pytest.raises(FileNotFoundError):
        list_sources("nothing.orc")


def test_names_with_wildcards_and_links(tmp_path: Path) -> None:
    (tmp_path / "a[1].orc").write_bytes(b"x")
    assert len(list_sources(tmp_path / "a[1].orc")) == 1
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "link.orc").symlink_to(tmp_path / "a[1].orc")
    (tmp_path / "d" / "gone.orc").symlink_to(tmp_path / "nothing")
    found = list_sources(tmp_path / "d")
    assert [(os.path.basename(source.name), source.size) for source in found] == [("gone.orc", None), ("link.orc", 1)]
    with pytest.raises(FileNotFoundError):
        found[0].open()


@pytest.mark.parametrize(
    ("path", "root", "wanted"),
    [
        ("/r/a=1/b=x/f.orc", "/r", {"a": "1", "b": "x"}),
        ("/r/a=1/b=x/f.orc", "/r/", {"a": "1", "b": "x"}),
        ("/r/a=1/b=x/f.orc", "/r/a=1", {"b": "x"}),
        ("/x=1/r/f=3.orc", "/x=1/r", {}),
        ("a=1/f.orc", None, {"a": "1"}),
        ("/r/a=__HIVE_DEFAULT_PARTITION__/f", "/r", {"a": None}),
        ("/r/a%3Db=c%2Fd%20e/f", "/r", {"a=b": "c/d e"}),
        ("/r/a=%zz%4/f", "/r", {"a": "%zz%4"}),
        ("/r/a=%C3%B8/f", "/r", {"a": "ø"}),
        ("/r/a=%C3/f", "/r", {"a": "%C3"}),
        ("/r/a=b=c/f", "/r", {"a": "b=c"}),
        ("/r/a=/=1/sub/f", "/r", {"a": ""}),
        ("/r/f", "/r", {}),
    ],
)
def test_hive_partition(path: str, root: str | None, wanted: dict[str, str | None]) -> None:
    assert hive_partition(path, root) == wanted


def test_sources_pickle_where_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b%20.orc").write_bytes(b"abc")
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/pickled.orc", b"abc")
    subtree = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    sources = [
        describe_source("a b%20.orc"),
        describe_source((tmp_path / "a b%20.orc").as_uri()),
        describe_source(f"file:{tmp_path}/a b%20.orc"),
        describe_source(b"abc"),
        describe_source(memoryview(b"abc")),
        describe_source(io.BytesIO(b"abc")),
        describe_source("memory://pickled.orc"),
        describe_source("/pickled.orc", filesystem=memory),
        describe_source(memory.open("/pickled.orc")),
        describe_source(fsspec.open("memory://pickled.orc")),
        describe_source("a b%20.orc", filesystem=fsspec.filesystem("file")),
        describe_source(str(tmp_path / "a b%20.orc"), filesystem=pyarrow.fs.LocalFileSystem()),
        describe_source("a b%20.orc", filesystem=subtree),
        describe_source((obstore.store.LocalStore(tmp_path), "a b%20.orc")),
    ]
    monkeypatch.chdir("/")
    for source in sources:
        again = pickle.loads(pickle.dumps(source))
        reader = again.open()
        assert reader.read_tail(2) == (b"bc", 3), source
        reader.close()
        if source.kind in ("path", "url", "fsspec"):
            reader = Source.from_dict(source.to_dict()).open()
            assert reader.read_tail(2) == (b"bc", 3)
            reader.close()
        else:
            with pytest.raises(InvalidQuery, match="JSON"):
                source.to_dict()


def test_what_cannot_go_elsewhere_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(b"abc")
    with open(tmp_path / "a.orc", "rb") as file:
        source = describe_source(file)
        with pytest.raises(InvalidQuery, match="open file cannot be sent to another process"):
            pickle.dumps(source)
    with pytest.raises(InvalidQuery, match="open file cannot"):
        pickle.dumps(describe_source(describe_source(b"abc").open()))


def test_secrets_stay_out_of_texts() -> None:
    source = describe_source("s3://bucket/key", storage_options={"secret": "hunter2"})
    assert "hunter2" not in repr(source)
    assert "hunter2" not in str(source.to_dict())
    assert hash(source) == hash(describe_source("s3://bucket/key"))


def test_wrong_sources() -> None:
    for wrong in (3, None, object()):
        with pytest.raises(TypeError, match="give a path, URL"):
            describe_source(wrong)
    with pytest.raises(TypeError, match="not a file system"):
        describe_source("a", filesystem=object())
    with pytest.raises(TypeError, match="a path must be text"):
        describe_source(b"abc", filesystem=fsspec.filesystem("memory"))
    with pytest.raises(InvalidQuery, match="only one of them"):
        describe_source("a", filesystem=fsspec.filesystem("memory"), storage_options={"a": 1})
    with pytest.raises(InvalidQuery, match="binary"):
        describe_source(io.StringIO("abc"))
    with pytest.raises(InvalidQuery, match="nonsense"):
        describe_source("nonsense://x/y").open()
    with pytest.raises(Unsupported, match="gcsfs"):
        describe_source("gs://x/y").open()


@pytest.mark.parametrize("name", ["a\0b.orc", "a\ud800b.orc", "d\0/*.orc", "file:///tmp/a%00b.orc"])
def test_paths_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    """For such a path, the error is ``InvalidQuery``, not the operating system's ValueError."""
    wrong = {"match": "is not a path, because it has a character"}
    for asked in (name, tmp_path / name):
        if isinstance(asked, Path) and name.startswith("file:"):
            continue
        for ask in (list_sources, describe_source, orcidx.open, orcidx.scan, orcidx.dataset, paimon.open_table):
            with pytest.raises(InvalidQuery, **wrong):
                ask(asked)
        with pytest.raises(InvalidQuery, **wrong):
            orcidx.write_table(_table(), asked)
    with pytest.raises(InvalidQuery, **wrong):
        describe_source("a\0b", filesystem=pyarrow.fs.LocalFileSystem())


def _table() -> pyarrow.Table:
    return pyarrow.table({"a": [1]})


def test_names_that_are_too_long_are_refused_by_an_error_of_ours(tmp_path: Path) -> None:
    name = "x" * 300
    for call in (
        lambda: orcidx.scan(str(tmp_path / name)),
        lambda: orcidx.open(str(tmp_path / name)),
        lambda: orcidx.write_table(pyarrow.table({"a": [1]}), str(tmp_path / name)),
        lambda: orcidx.write_dataset(pyarrow.table({"p": [name], "a": [1]}), tmp_path / "d", partition_by=["p"]),
    ):
        with pytest.raises(orcidx.StorageError, match="too long"):
            call()
