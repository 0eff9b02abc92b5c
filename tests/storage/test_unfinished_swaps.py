"""A listing finds each row once at every step of a swap. It warns while new and old files exist at the same time."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

import orcidx
from orcidx.errors import CorruptFile, StorageError
from orcidx.spark.jobs import leases
from orcidx.storage import describe_source, unfinished_swaps
from orcidx.storage.folder import Folder
from orcidx.storage.listing import list_sources
from orcidx.storage.unfinished_swaps import MARK, Swap, mark_of

OLD = ("a.orc", "b.orc")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, rows in (("a.orc", [1, 2]), ("b.orc", [3]), ("k=1/other.orc", [4]), (".staged.orc", [1, 2, 3])):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        orcidx.write_table(pa.table({"x": rows}), tmp_path / name)
    old = {name: list_sources(tmp_path / name)[0].listed for name in OLD}
    (tmp_path / f"{MARK}1.json").write_bytes(mark_of([Swap("new.orc", old)]))
    return tmp_path


def rows(path: object) -> list[int]:
    return sorted(orcidx.scan(path, schema=pa.schema([("x", pa.int64())])).to_table()["x"].to_pylist())


STEPS = [
    lambda directory: None,
    lambda directory: os.rename(directory / ".staged.orc", directory / "new.orc"),
    lambda directory: os.unlink(directory / "a.orc"),
    lambda directory: os.unlink(directory / "b.orc"),
    lambda directory: os.unlink(directory / f"{MARK}1.json"),
]


def test_each_row_is_read_once_at_every_step(directory):
    memory = fsspec.filesystem("memory")
    for number, step in enumerate(STEPS):
        step(directory)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert rows(directory) == [1, 2, 3, 4]
            assert rows(str(directory / "**" / "*.orc")) == [1, 2, 3, 4]
        said = [str(one.message) for one in caught if "has not finished replacing its files" in str(one.message)]
        assert len(said) == (2 if number in (1, 2) else 0)
        memory.put(str(directory), f"/swap{number}", recursive=True)
        for name in (f"memory://swap{number}", f"memory://swap{number}/*"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                # Files of a copy have other times, so they are not the old files that the mark names.
                assert set(rows(name)) == {1, 2, 3, 4}
        memory.rm(f"/swap{number}", recursive=True)


def test_marks_in_a_remote_store(directory):
    memory = fsspec.filesystem("memory")
    memory.put(str(directory), "/marked", recursive=True)
    old = {one.name.rpartition("/")[2]: one.listed for one in list_sources("memory://marked")}
    marks = mark_of([Swap("new.orc", {name: old[name] for name in OLD})])
    memory.pipe(f"/marked/{MARK}1.json", marks)
    memory.mv("/marked/.staged.orc", "/marked/new.orc")
    with pytest.warns(RuntimeWarning, match=r"2 files are left out"):
        assert rows("memory://marked") == [1, 2, 3, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):  # a warning is raised, not a StorageError
            rows("memory://marked")
    memory.rm("/marked", recursive=True)


def test_a_new_file_of_a_replaced_name_counts(directory):
    STEPS[1](directory)
    orcidx.write_table(pa.table({"x": [7, 8, 9]}), directory / "a.orc")
    with pytest.warns(RuntimeWarning, match="1 files are left out"):
        assert rows(directory) == [1, 2, 3, 4, 7, 8, 9]


def test_a_listing_between_two_moments_is_made_again(directory, monkeypatch):
    """A listing that has neither the new file nor all old files is not used, because rows would be missing. The
    directory is listed again."""
    monkeypatch.setattr(unfinished_swaps, "_PAUSE_SECONDS", 0.0)
    os.unlink(directory / "a.orc")
    with pytest.raises(StorageError, match="the directory changed while it was listed"):
        rows(directory)
    STEPS[1](directory)
    with pytest.warns(RuntimeWarning, match="1 files are left out"):
        assert rows(directory) == [1, 2, 3, 4]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version": 1, "swaps": [{}]}', b'{"version": 1, "swaps": 5}', b"\xff"])
def test_a_damaged_mark_is_an_error(directory, data):
    (directory / f"{MARK}1.json").write_bytes(data)
    with pytest.raises(CorruptFile, match=r"orcidx\.spark\.recover"):
        list_sources(directory)


def test_a_lease_is_renewed_and_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.4)
    folder = Folder(describe_source(tmp_path))
    with leases.Lease(folder, "job.lease") as lease:
        first = leases.leased_until(folder, "job.lease")
        time.sleep(0.6)
        assert leases.leased_until(folder, "job.lease") > max(first, time.time())
        lease.check()
        monkeypatch.setattr(leases.Lease, "_put", lambda self: None)
        time.sleep(0.5)
        with pytest.raises(StorageError, match="nothing was replaced"):
            lease.check()
    assert leases.leased_until(folder, "job.lease") == 0
    (tmp_path / "job.lease").write_text("{")
    assert leases.leased_until(folder, "job.lease") == 0
