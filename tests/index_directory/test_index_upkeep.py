"""Describing and cleaning the indexes of a directory."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from indexed_directory import SPEC, catalog_of, index_here
from pyarrow import orc

from orcidx import InvalidQuery, ReadOptions
from orcidx.cli import main
from orcidx.index_directory.build import IndexSpec, index_file
from orcidx.index_directory.clean import clean_indexes
from orcidx.index_directory.describe import describe_indexes
from orcidx.index_directory.store import IndexStore
from orcidx.spark.jobs.upkeep import clean, describe, summarize
from orcidx.storage import list_sources
from orcidx.storage.folder import Folder, is_temporary

OLD = time.time() - 2 * 86400


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(5):
        _write(tmp_path / f"{number}.orc", number * 1000)
    (tmp_path / "bad.orc").write_bytes(b"nonsense")
    index_here(tmp_path)
    return tmp_path


def _write(path: Path, start: int) -> None:
    numbers = range(start, start + 200)
    orc.write_table(pa.table({"id": pa.array(numbers, pa.int64()), "city": [f"c{n % 7}" for n in numbers]}), path)


def test_every_state_is_told(directory: Path) -> None:
    _write(directory / "1.orc", 7)
    _write(directory / "9.orc", 9000)
    (directory / "2.orc").unlink()
    found = describe(None, directory)
    assert found.states == {"fresh": 3, "stale": 1, "new": 1, "error": 1, "gone": 1}
    states = {row["path"]: row for row in found.files.to_pylist()}
    assert states["0.orc"]["indexes"] == ["bitmap of city", "bloom-filter of id"]
    assert (states["0.orc"]["rows"], states["0.orc"]["size"]) == (200, (directory / "0.orc").stat().st_size)
    assert states["0.orc"]["index_size"] == (directory / "_orcidx" / states["0.orc"]["index"]).stat().st_size
    assert states["9.orc"]["state"] == "new"
    assert found.index_bytes == 3 * states["0.orc"]["index_size"]
    text = str(found)
    assert "3 fresh, 1 stale, 1 new, 1 error, 1 gone" in text.splitlines()[0]
    assert "bloom-filter  items=1000, fpp=0.01      3" in text
    assert "CorruptFile: not an ORC file" in text
    assert json.loads(json.dumps(found.to_dict()))["spec"]["spec"] == SPEC
    assert "<td>bloom-filter</td>" in found._repr_html_()


def test_without_indexes_there_is_nothing_to_describe(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="build_file_index"):
        describe_indexes(tmp_path)


def test_clean_removes_old_leftovers_only(directory: Path) -> None:
    store = directory / "_orcidx"
    assert index_here(directory).catalogs.generation == 2
    old, young = [], []
    in_use = {path for path in store.rglob("*") if path.is_file()} - {store / "rollup" / "00000001.catalog"}
    for number, place in enumerate(["index/x.orc.0123456789abcdef.index", "rollup/00000001.catalog"]):
        path = store / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
        old.append(path)
        half = path.with_name(f".{path.name}.{number:032x}.tmp")
        half.write_bytes(b"123")
        old.append(half)
        fresh = path.with_name(f".{path.name}.{number + 9:032x}.tmp")
        fresh.write_bytes(b"1")
        young.append(fresh)
    other = store / "rollup" / "readme.txt"
    other.write_bytes(b"somebody's")
    for path in [*in_use, *old, other]:
        os.utime(path, (OLD, OLD))
    assert all(is_temporary(path.name) for path in young)

    planned = clean(None, directory, dry_run=True)
    assert {store / one.name for one in planned.removed} == set(old)
    assert planned.headline.endswith("would delete 4 leftovers, 16 B; 2 younger leftovers stay")
    assert all(path.exists() for path in old)
    done = clean(None, directory)
    assert {one.reason for one in done.removed} == {
        "its writer was killed", "a later catalog replaced it", "no catalog names it"
    }  # fmt: skip
    assert {path for path in store.rglob("*") if path.is_file()} == in_use | set(young) | {other}
    assert not clean(None, directory).removed
    assert {store / one.name for one in clean(None, directory, older_than=timedelta(0)).removed} == set(young)
    assert describe_indexes(directory).states == {"fresh": 5, "error": 1}


def test_clean_before_anything_was_committed(tmp_path: Path) -> None:
    half = tmp_path / "_orcidx" / "index" / f".a.orc.index.{'0' * 32}.tmp"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"1")
    os.utime(half, (OLD, OLD))
    assert [one.name for one in clean_indexes(tmp_path).removed] == [f"index/{half.name}"]
    with pytest.raises(FileNotFoundError):
        clean_indexes(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert not clean_indexes(tmp_path / "empty").removed
    with pytest.raises(InvalidQuery, match="negative"):
        clean_indexes(tmp_path, older_than=-1)


def test_what_was_replaced_a_moment_ago_stays(directory: Path) -> None:
    """Even an old catalog and its indexes stay if they were replaced a moment ago, because queries may still use
    them."""
    index_here(directory)
    everything = {path for path in (directory / "_orcidx").rglob("*") if path.is_file()}
    for path in everything:
        os.utime(path, (OLD, OLD))
    _write(directory / "1.orc", 7)
    index_here(directory)
    assert not clean(None, directory).removed[1:], "the first catalog was replaced long ago, and the second just now"
    assert all(path.exists() for path in everything if path.name != "00000001.catalog")
    gone = {one.name for one in clean(None, directory, older_than=0).removed}
    assert {name.partition(".orc")[0] for name in gone} == {"rollup/00000002.catalog", "index/1"}
    assert describe_indexes(directory).states == {"fresh": 5, "error": 1}


def test_an_index_whose_file_has_a_later_row_goes_in_time(tmp_path: Path) -> None:
    """A file was indexed again. The old catalog is still in use and names the first index of the file, but a newer
    catalog names another index. ``clean`` removes the first index only after some time."""
    for number in range(9):
        _write(tmp_path / f"{number}.orc", number)
    store = index_here(tmp_path)
    first = store.catalogs.read().files["index"].to_pylist()[0]
    _write(tmp_path / "0.orc", 777)
    (source,) = (one for one in list_sources(tmp_path) if one.name.endswith("/0.orc"))
    spec = IndexSpec.of(SPEC)
    store = store.commit(catalog_of([index_file(store.folder, source, "0.orc", spec, ReadOptions())], spec))
    assert len(store.catalogs.names) == 2
    os.utime(tmp_path / "_orcidx" / first, (OLD, OLD))
    assert not clean(None, tmp_path).removed, "the first index of 0.orc was in use until a moment ago"
    assert [one.name for one in clean(None, tmp_path, older_than=0).removed] == [first]
    assert describe_indexes(tmp_path).states == {"fresh": 9}


def test_an_index_that_a_build_finds_is_young_again(tmp_path: Path) -> None:
    """The index of a job that died may be old. ``clean`` must not delete it if another job has just found and used
    it."""
    _write(tmp_path / "1.orc", 7)
    index_here(tmp_path, embedded_bytes=0)
    (tmp_path / "_orcidx" / "rollup" / "00000001.catalog").unlink()
    (index,) = (tmp_path / "_orcidx" / "index").iterdir()
    os.utime(index, (OLD, OLD))
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    (source,) = list_sources(tmp_path)
    row = index_file(store.folder, source, "1.orc", IndexSpec.of(SPEC, embedded_bytes=0), ReadOptions())
    assert row["error"] is None
    assert row["read_bytes"] is None, "the index was found, so the file was not read"
    assert not clean(None, tmp_path).removed
    assert clean(None, tmp_path).kept == 1


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "one byte"])
def test_a_damaged_index_file_is_told(directory: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = describe_indexes(directory).files.to_pylist()[2]
    index = directory / "_orcidx" / row["index"]
    whole = index.read_bytes()
    if damage == "missing":
        index.unlink()
    else:
        index.write_bytes({"empty": b"", "cut": whole[:-5], "one byte": b"X" + whole[1:]}[damage])
    assert describe_indexes(directory, verify=True).states == {"fresh": 4, "error": 1, "damaged": 1}
    if damage != "one byte":
        found = describe(None, directory)
        assert found.states == {"fresh": 4, "error": 1, "damaged": 1}
        assert "2.orc: the index file is missing or truncated" in str(found)
    assert "1 damaged" in _output(capsys, "index", "describe", str(directory), "--verify")


def test_a_summary_is_shown_and_saved(tmp_path: Path) -> None:
    rows = [
        {"path": "a", "column": "id", "kind": "bsi", "status": "built", "bytes": 2000, "rows": 10, "millis": 5},
        {"path": "b", "column": "id", "kind": "bsi", "status": "error", "error": "CorruptFile: <b>"},
    ]
    names = ["path", "column", "kind", "status", "bytes", "rows", "millis", "error"]
    summary = summarize(pa.table({name: [row.get(name) for row in rows] for name in names}))
    assert str(summary).splitlines()[0] == "2 files: 1 built, 1 error; 2.0 KiB of indexes"
    summary.save(tmp_path / "job.html")
    page = (tmp_path / "job.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "CorruptFile: &lt;b&gt;" in page
    assert summary.to_dict()["statuses"] == {"built": 1, "error": 1}


def _output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_command_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(_output(capsys, "index", "describe", str(directory), "--json"))
    assert shown["states"] == {"fresh": 5, "error": 1}
    assert "5 fresh, 1 error" in _output(capsys, "index", "describe", str(directory))
    cleaned = _output(capsys, "index", "clean", str(directory), "--older-than", "0", "--dry-run")
    assert "would delete 0 leftovers" in cleaned


def test_an_object_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orcidx.storage import describe_source

    folder = Folder(describe_source(tmp_path))
    assert folder.create("a/b", b"one")
    assert not folder.create("a/b", b"two")
    assert folder.read("a/b") == b"one"
    folder.put("a/b", b"two")
    assert folder.read("a/b") == b"two"
    assert [(one.name, one.version.size) for one in folder.list()] == [("a/b", 3)]
    assert folder.list("nowhere") == []
    assert folder.read("nowhere") is None

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*a/c"):
        folder.put("a/c", b"three")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    folder.delete("a/b")
    folder.delete("a/b")
    assert folder.list() == []
