"""Results stay right if a file has two names, if a file is replaced, if settings of the process change, and if
directory names contain special texts."""

from __future__ import annotations

import datetime
import locale
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.scanner.file_scan import FileScan
from orcidx.storage.local import SMALL_FILE_BYTES, LocalReader


def test_a_file_is_read_as_often_as_it_is_named(tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.orc")
    (tmp_path / "b.orc").symlink_to(tmp_path / "a.orc")
    twice = [1, 2, 1, 2]
    for sources in ([tmp_path / "a.orc"] * 2, [tmp_path / "a.orc", tmp_path / "b.orc"], tmp_path):
        assert orcidx.read_table(sources)["x"].to_pylist() == twice
        assert orcidx.scan(sources).count_rows() == 4
        assert orcidx.scan(sources, where="x = 2").count_rows() == 2
        assert orcidx.aggregate(sources, {"total": "sum(x)"})["total"][0].as_py() == 6


def test_changes_within_a_second_and_a_size(tmp_path: Path) -> None:
    """A file is replaced several times within a second by a file of the same size. Each read returns the new rows,
    because caches identify files by their time in nanoseconds. A file that is open raises an error."""
    path = tmp_path / "a.orc"
    sizes = set()
    for value in range(1, 9):
        orcidx.write_table(pa.table({"x": [value]}), path, compression="uncompressed")
        sizes.add(path.stat().st_size)
        assert orcidx.read_table(path)["x"].to_pylist() == [value]
        assert orcidx.scan(path, where=f"x = {value}").count_rows() == 1
    assert len(sizes) == 1
    with orcidx.open(path) as file:
        other = path.read_bytes()
        orcidx.write_table(pa.table({"x": [9]}), tmp_path / "b.orc", compression="uncompressed")
        path.write_bytes((tmp_path / "b.orc").read_bytes())
        with pytest.raises(orcidx.StorageError, match="changed since it was opened"):
            file.read()
    assert orcidx.read_table(path)["x"].to_pylist() == [9]
    path.write_bytes(other)
    assert orcidx.read_table(path)["x"].to_pylist() == [8]


def _keys(path: Path, rows: int = 120_000) -> pa.Table:
    """Writes a file of several stripes that is too large to be read at once, and waits until it can be cached."""
    numbers = np.random.default_rng(rows)
    table = pa.table({"k": numbers.permutation(rows), "v": numbers.random(rows)})
    orcidx.write_table(table, path, stripe_size=1 << 18)
    assert path.stat().st_size > SMALL_FILE_BYTES
    while LocalReader(str(path)).identity is None:
        time.sleep(0.02)
    return table


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the paths of the files that are opened."""
    found: list[str] = []
    inner = LocalReader.__init__

    def init(self: LocalReader, path: str, **options: Any) -> None:
        found.append(path)
        inner(self, path, **options)

    monkeypatch.setattr(LocalReader, "__init__", init)
    return found


def test_rows_of_an_open_file_are_read_without_opening_it_again(tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "keys.orc"
    table = _keys(path)
    one = [{"k": table["k"][55_555].as_py(), "v": table["v"][55_555].as_py()}]
    with orcidx.open(path) as file:
        assert len(file.stripes) > 2
        opened.clear()
        where = orcidx.col("k") == one[0]["k"]
        some = "k < 500000 or v is null"
        kept = [v for k, v in zip(table["k"].to_pylist(), table["v"].to_pylist()) if k < 500_000]
        for threads, again in ((False, 0), (True, 3)):  # with threads, a scan of several stripes opens the file again
            assert file.scan(where=where, use_threads=threads).to_table().to_pylist() == one
            assert file.scan(where="k >= 0", use_threads=threads).to_table() == table
            assert file.scan(["v"], where=some, use_threads=threads).to_table()["v"].to_pylist() == kept
            assert file.scan(where="k = -1", use_threads=threads).to_table() == table.slice(0, 0)
            assert len(opened) == again
        opened.clear()
        # each of these scans opens the file again
        assert file.scan(where=where).count_rows() == 1
        assert next(file.scan(where=where).to_batches()).to_pylist() == one
        assert file.scan(where=where, limit=1).to_table().to_pylist() == one
        assert file.scan(where=where, merge_gap=0).to_table().to_pylist() == one
        assert len(opened) == 4
        scan = file.scan(where=where)
    assert scan.to_table().to_pylist() == one, "the file is closed, but its scans can still be read"
    assert len(opened) == 5


def test_rows_of_an_open_file_that_is_closed_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _keys(tmp_path / "keys.orc")
    file = orcidx.open(tmp_path / "keys.orc")
    inner = FileScan.decide

    def decide(self: FileScan, stripe: int) -> Any:
        if stripe == 1:
            file.close()
        return inner(self, stripe)

    monkeypatch.setattr(FileScan, "decide", decide)
    scan = file.scan(where="k >= 0", use_threads=False)
    assert scan.to_table() == table
    assert file.closed


def test_rows_of_an_open_file_that_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys.orc"
    _keys(path)
    with orcidx.open(path) as file:
        _keys(tmp_path / "other.orc", rows=90_000)
        (tmp_path / "other.orc").replace(path)
        with pytest.raises(orcidx.StorageError, match="changed since it was opened"):
            file.scan(where="k >= 0").to_table()
        path.unlink()
        with pytest.raises(orcidx.FileGone):
            file.scan(where="k >= 0").to_table()


@pytest.fixture
def restored() -> Iterator[None]:
    zone, words = os.environ.get("TZ"), locale.setlocale(locale.LC_ALL)
    yield
    os.environ.pop("TZ", None)
    if zone is not None:
        os.environ["TZ"] = zone
    time.tzset()
    locale.setlocale(locale.LC_ALL, words)


@pytest.mark.usefixtures("restored")
def test_zone_and_locale_of_the_process_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    moment = datetime.datetime(2024, 6, 30, 23, 30)
    table = pa.table({"at": [moment], "n": [1.5], "z": pa.array([moment], pa.timestamp("us", "UTC"))})
    orcidx.write_table(table, path)
    seen = set()
    for zone, words in (("UTC", "C"), ("Asia/Tokyo", "C"), ("America/New_York", "de_DE.UTF-8"), ("UTC", "C.UTF-8")):
        os.environ["TZ"] = zone
        time.tzset()
        with suppress(locale.Error):  # the locale may not be installed
            locale.setlocale(locale.LC_ALL, words)
        for where in ("at = '2024-06-30 23:30:00'", "z > '2024-06-30 23:29:59Z'", "n = 1.5"):
            assert orcidx.scan(path, where=where).count_rows() == 1, (zone, where)
        again = tmp_path / f"{len(seen)}.orc"
        orcidx.write_table(table, again)
        seen.add((repr(orcidx.read_table(path).to_pylist()), again.read_bytes()))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("007", pa.int64(), 7),
        ("-0", pa.int64(), 0),
        ("1.0", pa.string(), "1.0"),
        ("+7", pa.string(), "+7"),
        ("a%2Fb", pa.string(), "a/b"),
        ("a%00b", pa.string(), "a\0b"),
        ("%zz", pa.string(), "%zz"),
        ("", pa.string(), ""),
        ("__HIVE_DEFAULT_PARTITION__", pa.string(), None),
    ],
)
def test_texts_of_directories(tmp_path: Path, text: str, kind: pa.DataType, value: object) -> None:
    folder = tmp_path / f"p={text}"
    folder.mkdir()
    orcidx.write_table(pa.table({"x": [1]}), folder / "a.orc")
    found = orcidx.scan(tmp_path).to_table()
    assert (found.schema.field("p").type, found["p"].to_pylist()) == (kind, [value])
    where = orcidx.col("p").is_null() if value is None else orcidx.col("p") == value
    assert orcidx.scan(tmp_path, where=where).count_rows() == 1
    assert orcidx.scan(tmp_path, where=~where).count_rows() == 0
    given = pa.schema([("x", pa.int64()), ("p", pa.string())])
    kept = text if kind == pa.int64() else value
    assert orcidx.scan(tmp_path, schema=given).to_table()["p"].to_pylist() == [kept]


def test_texts_that_are_no_directories_are_refused(tmp_path: Path) -> None:
    for text in ("a\0b", "", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(orcidx.InvalidQuery, match="column p"):
            orcidx.write_dataset(pa.table({"p": [text], "x": [1]}), tmp_path / "t", partition_by="p")
    back = ["007", "a/b", "%2F", "x=y", None, " "]
    orcidx.write_dataset(pa.table({"p": back, "x": range(len(back))}), tmp_path / "t", partition_by="p")
    assert orcidx.scan(tmp_path / "t").to_table().sort_by("x")["p"].to_pylist() == back
