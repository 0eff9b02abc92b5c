"""``fresh="catalog"`` uses the files that a directory's catalog knows, without a listing, and reports the time of the
catalog."""

from __future__ import annotations

import json
import pickle
import re
import time
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from indexed_directory import SPEC, catalog_of, index_here

import orcidx
from orcidx.cli import _orcidx
from orcidx.index_directory.build import IndexSpec, index_file
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.storage import list_sources
from orcidx.storage.fsspec_backend import FsspecStore

ASKED = {"n": "count(*)", "s": "sum(v)", "m": "avg(v)", "lo": "min(v)", "hi": "max(t)", "p": "sum(p)"}


def rows(number: int) -> pa.Table:
    return pa.table({"t": range(number * 100, number * 100 + 20), "v": [number + one for one in range(20)]})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Twelve files in three partitions, with values that grow from file to file."""
    root = tmp_path / "events"
    for number in range(12):
        (root / f"p={number % 3}").mkdir(parents=True, exist_ok=True)
        orcidx.write_table(rows(number), root / f"p={number % 3}" / f"{number:02}.orc", row_index_stride=10)
    index_here(root, {"bitmap": {"v": {}}})
    return root


def facts(table: pa.Table) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.schema.metadata[b"orcidx"])
    return found


@pytest.mark.parametrize("where", [None, "t between 105 and 910", "p = 1 and v > 3", "v in (5, 6)", "t < 0"], ids=str)
@pytest.mark.parametrize("by", [None, "p", "v"], ids=str)
def test_it_gives_the_rows_of_a_listing(directory: Path, where: str | None, by: str | None) -> None:
    asked = {name: call for name, call in ASKED.items() if by is None or f"({by})" not in call}
    asked = {f"x_{name}": call for name, call in asked.items()}
    known = orcidx.aggregate(directory, asked, where, by, fresh="catalog")
    assert known.to_pylist() == orcidx.aggregate(directory, asked, where, by).to_pylist()
    assert "as_of" not in facts(orcidx.aggregate(directory, asked, where, by))
    scans = [orcidx.scan(directory, where=where, fresh=one, file_path=True) for one in ("listing", "catalog")]
    assert scans[0].to_table() == scans[1].to_table()
    assert scans[0].count_rows() == scans[1].count_rows() == orcidx.dataset(directory, where=where).count_rows()
    assert [job.source.name for job in scans[0].jobs] == [job.source.name for job in scans[1].jobs]
    assert pickle.loads(pickle.dumps(scans[1])).to_table() == scans[1].to_table()


def test_nothing_is_listed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``fresh="catalog"`` only the folder of the catalogs is listed. Files in which all rows match are not
    opened."""
    memory = fsspec.filesystem("memory")
    memory.put(str(directory), "/fresh/events", recursive=True)
    index_here("memory://fresh/events", {"bitmap": {"v": {}}})
    walked: list[str] = []
    walk = FsspecStore.walk
    monkeypatch.setattr(FsspecStore, "walk", lambda self, path: walked.append(path) or walk(self, path))
    try:
        found = orcidx.aggregate("memory://fresh/events", ASKED, "t between 105 and 910", fresh="catalog")
    finally:
        memory.rm("/fresh", recursive=True)
    assert walked == ["/fresh/events/_orcidx/rollup"]
    assert facts(found)["rows"]["catalog"] == 7 * 20
    assert found["n"][0].as_py() == 15 + 7 * 20 + 11


def test_it_tells_the_time(directory: Path) -> None:
    found = facts(orcidx.aggregate(directory, ASKED, fresh="catalog"))
    told = time.strptime(found["as_of"], "%Y-%m-%dT%H:%M:%SZ")
    assert 0 <= time.time() - (time.mktime(told) - time.timezone) < 600
    note = f"listed at {found['as_of']}"
    assert any(note in one for one in found["notes"])
    for where in (None, "t = 5"):
        assert note in str(orcidx.scan(directory, where=where, fresh="catalog").explain())
    shown = CliRunner().invoke(
        _orcidx, ["aggregate", str(directory), "-s", "count(*)", "--fresh", "catalog", "--explain"]
    )
    assert shown.exit_code == 0
    assert "240" in shown.output
    assert note in shown.output
    counted = CliRunner().invoke(_orcidx, ["count", str(directory), "--fresh", "catalog"])
    assert counted.output.strip() == "240"


def test_later_files_are_not_seen_and_others_are_refused(directory: Path) -> None:
    orcidx.write_table(rows(50), directory / "p=0" / "50.orc")
    assert orcidx.aggregate(directory, {"n": "count(*)"})["n"][0].as_py() == 260
    assert orcidx.aggregate(directory, {"n": "count(*)"}, fresh="catalog")["n"][0].as_py() == 240
    changed = directory / "p=1" / "01.orc"
    changed.unlink()
    orcidx.write_table(rows(1).slice(0, 7), changed)
    assert orcidx.aggregate(directory, {"n": "count(*)"}, "t >= 105")["n"][0].as_py() == 200 + 2 + 20
    with pytest.raises(orcidx.StorageError, match=r"01\.orc"):
        orcidx.aggregate(directory, {"n": "count(*)"}, "t >= 105", fresh="catalog")
    changed.unlink()
    with pytest.raises(FileNotFoundError, match=r"01\.orc"):
        orcidx.scan(directory, where="t >= 105", fresh="catalog").to_table()


def test_an_unreadable_file_is_an_error(directory: Path) -> None:
    (directory / "p=2" / "99.orc").write_bytes(b"no file at all")
    time.sleep(0.15)
    index_here(directory, {"bitmap": {"v": {}}})
    for fresh in ("listing", "catalog"):
        with pytest.raises(orcidx.CorruptFile, match=r"99\.orc"):
            orcidx.aggregate(directory, {"n": "count(*)"}, "t >= 0", fresh=fresh)


def test_a_catalog_of_some_files_is_no_listing(directory: Path) -> None:
    with pytest.raises(orcidx.InvalidQuery, match="has no catalog"):
        orcidx.scan(directory / "p=0", fresh="catalog")
    orcidx.write_table(rows(50), directory / "p=0" / "50.orc")
    store = IndexStore.open(directory)
    assert store is not None
    sources = list_sources(directory)
    listed = pa.array([str(Path(one.location).relative_to(directory)) for one in sources])
    spec = IndexSpec.of(SPEC)
    some = [index_file(store.folder, sources[0], listed[0].as_py(), spec, ReadOptions())]
    store.commit(catalog_of(some, spec), listed=listed)
    with pytest.raises(orcidx.InvalidQuery, match="lists only some files"):
        orcidx.scan(directory, fresh="catalog")
    assert index_here(directory).catalogs.listing.listed is not None
    assert orcidx.scan(directory, fresh="catalog").count_rows() == 260


def test_a_part_tells_of_the_last_listing(directory: Path) -> None:
    """A commit without a listing does not change the time of the last listing. After a commit with a listing, the
    catalog no longer has the files that were deleted."""
    first = IndexStore.open(directory)
    assert first is not None
    before = first.catalogs.listing.listed
    spec = IndexSpec.of({"bitmap": {"v": {}}})
    after = first.commit(catalog_of([], spec))
    assert after.catalogs.listing.listed == before
    (directory / "p=0" / "00.orc").unlink()
    left = pa.array([path for path in after.catalogs.listing.files["path"].to_pylist() if not path.endswith("00.orc")])
    last = IndexStore.open(directory)
    assert last is not None
    last = last.commit(catalog_of([], spec), listed=left)
    assert last.catalogs.listing.listed is not None
    assert before is not None
    assert last.catalogs.listing.listed > before
    assert orcidx.scan(directory, fresh="catalog").count_rows() == 220


@pytest.mark.parametrize(
    ("sources", "more", "message"),
    [
        ("list", {}, "one directory"),
        ("directory", {"indexes": "none"}, "cannot be combined with"),
        ("directory", {"selection": {}}, "cannot be combined with"),
        ("directory", {"fresh": "now"}, "is not supported"),
    ],
)
def test_what_is_refused(directory: Path, sources: str, more: dict[str, Any], message: str) -> None:
    given: Any = [directory, directory] if sources == "list" else directory
    with pytest.raises(orcidx.InvalidQuery, match=re.escape(message)):
        orcidx.scan(given, **{"fresh": "catalog", **more})


def test_acid_directories_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "table"
    (root / "delta_0000006_0000006_0000").mkdir(parents=True)
    orcidx.write_table(rows(1), root / "delta_0000006_0000006_0000" / "000000_0")
    index_here(root, {"bitmap": {"v": {}}})
    for fresh in ("listing", "catalog"):
        with pytest.raises(orcidx.Unsupported, match="Hive ACID"):
            orcidx.aggregate(root, {"n": "count(*)"}, fresh=fresh)


def test_a_dataset_takes_it(directory: Path) -> None:
    known = orcidx.dataset(directory, fresh="catalog")
    assert known.count_rows(pc.field("t") >= 105) == 235 - 20
    assert known.to_table().num_rows == 240
    assert sum(fragment.count_rows() for fragment in known.get_fragments()) == 240
