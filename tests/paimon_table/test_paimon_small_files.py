"""The rows of several small files of a Paimon table are decoded together. The results are the same as if each file were
decoded alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_empty import empty_table
from rows_together import rows_of_each_test, separately
from work_done import small_reads as counted_reads

import orcidx
from orcidx import CorruptFile, ValueOutOfRange, col
from orcidx.paimon import open_table
from orcidx.paimon_table.read import task_run
from orcidx.scanner import reads_ahead, small_groups, small_reads

FILES, ROWS = 12, 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of files with 50 rows each."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "word": "STRING", "price": "DOUBLE"})
    table = open_table(folder)
    for number in range(FILES):
        keys = list(range(number * ROWS, (number + 1) * ROWS))
        table.append(
            pa.table({"id": keys, "word": [f"w{key % 5}" for key in keys], "price": [key / 4 for key in keys]})
        )
    return folder


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list of the numbers of rows that were tested in one call."""
    return rows_of_each_test(monkeypatch)


def data_file(folder: Path, number: int) -> Path:
    """The data file with the rows of the append ``number``."""
    paths = [path for path in folder.rglob("*.orc") if orcidx.read_table(str(path))["id"][0].as_py() == number * ROWS]
    assert len(paths) == 1
    return paths[0]


def test_rows_of_many_files_are_tested_in_one_call(
    folder: Path, tests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(folder)
    scan = table.scan(where=col("word") == "w3")
    rows = separately(monkeypatch, scan.to_table)
    assert rows.num_rows == FILES * ROWS // 5
    tests.clear()
    assert scan.to_table() == rows
    assert sum(tests) == FILES * ROWS
    assert len(tests) <= 2
    tests.clear()
    assert scan.count_rows() == rows.num_rows
    assert tests == [FILES * ROWS]
    tests.clear()
    assert scan.limit(15).to_table() == rows.slice(0, 15)
    assert set(tests) == {ROWS}, "with a limit, later files may not be needed"
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 3 * ROWS)
    tests.clear()
    assert scan.to_table() == rows
    assert scan.count_rows() == rows.num_rows
    assert max(tests) == 3 * ROWS
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 1 << 16)
    monkeypatch.setattr(small_groups, "BATCHES_A_TURN", 4)
    tests.clear()
    assert scan.to_table() == rows
    assert scan.count_rows() == rows.num_rows
    assert max(tests) == 4 * ROWS


def test_files_with_deleted_rows_keep_their_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(folder)
    table.delete(col("id").is_in([7, 153, 158, 333, 599]))
    scan = open_table(folder).scan(where=col("word") == "w3")
    rows = scan.to_table()
    assert rows["id"].to_pylist() == [key for key in range(FILES * ROWS) if key % 5 == 3 and key not in (153, 158, 333)]
    assert rows == separately(monkeypatch, scan.to_table)
    assert scan.count_rows() == rows.num_rows


@pytest.mark.parametrize("use_threads", [False, True])
def test_files_are_read_ahead_once(folder: Path, monkeypatch: pytest.MonkeyPatch, *, use_threads: bool) -> None:
    """Files with deleted rows are opened, so they are not read ahead."""
    open_table(folder).delete(col("id").is_in([153, 158]))
    ahead: list[int] = []
    real = small_reads.ReadsAhead.take

    def take(self: Any, path: str, last: int) -> Any:
        found = real(self, path, last)
        ahead.append(found is not None)
        return found

    monkeypatch.setattr(reads_ahead, "FILES_A_READ", 4)
    monkeypatch.setattr(small_reads.ReadsAhead, "take", take)
    scan = open_table(folder).scan(where=col("word") == "w3", use_threads=use_threads)
    for read in (scan.to_table, scan.count_rows):
        ahead.clear()
        with monkeypatch.context() as patch:
            paths = counted_reads(patch)
            read()
            assert sum(ahead) == FILES - 2, "all but the first file, and the one with deleted rows"
            assert len(paths) == len(set(paths)) == FILES


def test_an_error_of_a_conversion_names_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is raised while the rows of several files are converted to the table's types. Each file is then
    converted separately."""
    real = task_run.in_table_type

    def convert(array: pa.Array, *types: Any) -> pa.Array:
        if 303 in array.to_pylist():
            raise ValueOutOfRange("303 is too large")
        return real(array, *types)

    monkeypatch.setattr(task_run, "in_table_type", convert)
    path = data_file(folder, 6)
    scan = open_table(folder).scan(where=col("word") == "w3")
    outcomes = []
    for read in (scan.to_table, lambda: separately(monkeypatch, scan.to_table)):
        with pytest.raises(ValueOutOfRange, match="303 is too large") as raised:
            read()
        assert Path(str(raised.value.file)).name == path.name
        outcomes.append(str(raised.value))
    assert outcomes[0] == outcomes[1]
    batches = scan.to_batches()
    before = []
    with pytest.raises(ValueOutOfRange):
        before.extend(batches)
    assert pa.Table.from_batches(before)["id"].to_pylist() == list(range(3, 6 * ROWS, 5)), "rows of earlier files"


def test_rows_before_a_damaged_file_are_returned(folder: Path) -> None:
    path = data_file(folder, 5)
    data = path.read_bytes()
    path.write_bytes(data[:3] + b"\xff" * 200 + data[203:])
    batches = open_table(folder).scan(where=col("word") == "w3").to_batches()
    before = []
    with pytest.raises(CorruptFile) as raised:
        before.extend(batches)
    assert Path(str(raised.value.file)).name == path.name
    assert pa.Table.from_batches(before)["id"].to_pylist() == list(range(3, 5 * ROWS, 5))
    with pytest.raises(CorruptFile):
        open_table(folder).scan(where=col("word") == "w3").count_rows()
