"""An index is found for every way to name the files: directory, partition, glob, single file, list."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from indexed_directory import index_here
from pyarrow import orc

from orcidx import col
from orcidx.index_directory.lookup import plan_listing
from orcidx.storage import Source, list_sources

WHERE = col("id") == 1003


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lookup") / "events"
    for number in range(4):
        folder = root / f"day={number % 2}" / "part"
        folder.mkdir(parents=True, exist_ok=True)
        ids = pa.array(range(number * 1000, number * 1000 + 100), pa.int64())
        table = pa.table({"id": ids, "city": [f"c{n % 7}" for n in range(100)]})
        orc.write_table(table, folder / f"{number}.orc")
    index_here(root)
    return root


def kept_of(asked: Any, **where: Any) -> tuple[list[str], int]:
    sources = list_sources(asked, **where)
    plan = plan_listing(sources, WHERE)
    assert set(plan.reasons) | set(plan.kept) == set(range(len(sources)))
    assert all(plan.reasons.values())
    return [os.path.basename(sources[i].name) for i in plan.kept], plan.covered


def test_every_way_to_name_the_files_finds_the_index(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = indexed / "day=1"
    every: list[Any] = [
        indexed,
        str(indexed) + "/",
        f"file://{indexed}",
        day,
        day / "part",
        [day],
        [indexed / "day=0", day],
        f"{indexed}/*",
        f"{indexed}/day=*",
        f"{indexed}/**/*.orc",
        f"{indexed}/day=1/part/[0-9].orc",
        day / "part" / "1.orc",
        [str(path) for path in sorted(indexed.rglob("*.orc"))],
    ]
    for asked in every:
        names, covered = kept_of(asked)
        assert names == ["1.orc"], asked
        assert covered == len(list_sources(asked)), asked
    monkeypatch.chdir(indexed.parent)
    assert kept_of("events/day=1")[0] == ["1.orc"]
    monkeypatch.chdir(day)
    assert kept_of(".")[0] == ["1.orc"]


def test_folders_above_what_was_asked_are_no_columns(tmp_path: Path) -> None:
    """The folder is named ``day=1``, and the files also store a column ``day``. If the scan starts inside this folder,
    the column has the stored values. If the scan starts above the folder, the column has the value 1."""
    (tmp_path / "day=1").mkdir()
    orc.write_table(pa.table({"id": [1, 2], "day": [7, 8]}), tmp_path / "day=1" / "a.orc")
    index_here(tmp_path, {"bitmap": {"id": {}}})
    inside, above = list_sources(tmp_path / "day=1"), list_sources(tmp_path)
    assert plan_listing(inside, col("day") == 7).kept == (0,)
    assert plan_listing(inside, col("day") == 1).kept == ()
    assert plan_listing(above, col("day") == 1).kept == (0,)
    assert plan_listing(above, col("day") == 7).kept == ()


def test_files_of_two_indexed_directories_and_of_none(indexed: Path, tmp_path: Path) -> None:
    other, plain = tmp_path / "other", tmp_path / "plain"
    for place in (other, plain):
        shutil.copytree(indexed / "day=1" / "part", place, copy_function=shutil.copy)
    index_here(other)
    sources = list_sources([other, plain, indexed / "day=1"])
    plan = plan_listing(sources, WHERE)
    assert [os.path.relpath(sources[i].name, tmp_path) for i in plan.kept][:3] == [
        "other/1.orc",
        "plain/1.orc",
        "plain/3.orc",
    ]
    assert plan.covered == len(sources) - 2
    assert plan_listing([Source("<bytes>", "bytes", b"")], WHERE).covered == 0


def test_remote_places(indexed: Path) -> None:
    """With fsspec, obstore and pyarrow.fs, the index is found from the directory, a partition, a glob and a file."""
    fsspec = pytest.importorskip("fsspec")
    obstore_store = pytest.importorskip("obstore.store")
    obstore = pytest.importorskip("obstore")
    memory = fsspec.filesystem("memory")
    store = obstore_store.MemoryStore()
    for path in indexed.rglob("*"):
        if path.is_file() and "_orcidx" not in path.parts:
            name = f"lake/{path.relative_to(indexed.parent)}"
            memory.pipe_file(f"/{name}", path.read_bytes())
            obstore.put(store, name, path.read_bytes())
    index_here("memory://lake/events")
    index_here((store, "lake/events"))
    for base in ("", "/day=1", "/day=*", "/day=1/part/1.orc"):
        assert kept_of(f"memory://lake/events{base}")[0] == ["1.orc"], base
        assert kept_of((store, f"lake/events{base}"))[0] == ["1.orc"], base
        assert kept_of(f"lake/events{base}", filesystem=memory)[0] == ["1.orc"], base
    memory.rm("/lake", recursive=True)


def test_a_damaged_catalog_keeps_the_files_and_says_so(indexed: Path, tmp_path: Path) -> None:
    root = tmp_path / "events"
    shutil.copytree(indexed, root)
    for catalog in (root / "_orcidx" / "rollup").iterdir():
        catalog.write_bytes(b"PAR1 nonsense PAR1")
    plan = plan_listing(list_sources(root / "day=1"), WHERE)
    assert len(plan.kept) == 2
    assert [note.kind for note in plan.notes] == ["damaged"]
