"""The rows of several small files are tested together. The results are the same as if each file were tested alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from java_footers import as_java_writes
from rows_together import rows_of_each_test, separately

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.scanner import file_queue, small_turn
from orcidx.scanner.small_filter import SmallFilter, UntestedRows

FILES, ROWS = 40, 100


def written(folder: Path, *, files: int = FILES) -> list[str]:
    """Writes files whose rows have the keys 0, 1, 2, and so on, and returns their paths."""
    for number in range(files):
        keys = np.arange(number * ROWS, (number + 1) * ROWS)
        columns: dict[str, Any] = {
            "key": keys,
            "price": keys / 4,
            "word": [None if key % 11 == 0 else f"w{key % 7}" for key in keys.tolist()],
            "parts": [list(range(key % 3)) for key in keys.tolist()],
        }
        orcidx.write_table(pa.table(columns), folder / f"{number:02}.orc", compression="zstd")
    return sorted(map(str, folder.glob("*.orc")))


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list of the numbers of rows that were tested in one call."""
    return rows_of_each_test(monkeypatch)


def test_rows_of_many_files_are_tested_in_one_call(
    tmp_path: Path, tests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = orcidx.scan(written(tmp_path), where=col("word") == "w3")
    table = separately(monkeypatch, scan.to_table)
    assert len(tests) >= FILES - 1
    assert table.num_rows > FILES * 10
    tests.clear()
    assert scan.to_table().equals(table)
    assert tests == [ROWS, (FILES - 1) * ROWS], "the first file shows that the next files may have matching rows"
    tests.clear()
    assert scan.count_rows() == table.num_rows
    assert tests == [FILES * ROWS], "a count decodes no other columns, so all files are tested together"
    monkeypatch.setattr(small_turn, "UNTESTED_ROWS", 250)
    for read in (lambda: scan.to_table().num_rows, scan.count_rows):
        tests.clear()
        assert read() == table.num_rows
        assert max(tests) == 3 * ROWS
    monkeypatch.setattr(small_turn, "UNTESTED_ROWS", 1 << 16)
    with monkeypatch.context() as patch:
        patch.setattr(small_turn, "BATCHES_A_TURN", 4)
        tests.clear()
        assert scan.count_rows() == table.num_rows
        assert max(tests) == 4 * ROWS, "rows of files with few rows do not wait for ever"
    monkeypatch.setattr(small_turn, "UNTESTED_BYTES", 1)
    tests.clear()
    assert scan.to_table().equals(table)
    assert tests == [ROWS] * FILES


def test_other_columns_of_files_without_matching_rows_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untested: list[bool] = []
    real = SmallFilter.untested

    def counted(self: SmallFilter, *given: Any, **options: Any) -> UntestedRows | None:
        found = real(self, *given, **options)
        untested.append(found is not None)
        return found

    monkeypatch.setattr(SmallFilter, "untested", counted)
    monkeypatch.setattr(small_turn, "UNTESTED_ROWS", 4 * ROWS)
    folder = tmp_path / "a"
    folder.mkdir()
    paths = written(folder)
    for number, path in enumerate(paths):  # statistics do not show which files have an "x"
        words = ["a", *["x" if number < 10 or number > 35 else "y"] * (ROWS - 2), "z"]
        orcidx.write_table(orcidx.read_table(path).append_column("mark", pa.array(words)), path)
    scan = orcidx.scan(paths, where=col("mark") == "x")
    found = scan.to_table()
    assert found.num_rows == 14 * (ROWS - 2)
    # File 0 is tested alone. Then four files are tested together: 1 to 4, 5 to 8, 9 to 12. Of the last four, only one
    # has an "x", so each later file is tested alone, until file 36 has an "x".
    assert untested == [False] + [True] * 12 + [False] * 24 + [True] * 3
    assert found.equals(separately(monkeypatch, scan.to_table))


def test_a_damaged_file_is_the_same_error_or_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    paths = written(tmp_path, files=6)
    sound = Path(paths[4]).read_bytes()
    where = col("word") == "w3"

    def outcomes() -> list[Any]:
        found: list[Any] = []
        for read in (orcidx.scan(paths, where=where).to_table, orcidx.scan(paths, where=where).count_rows):
            forget_metadata()
            try:
                found.append(read())
            except orcidx.OrcidxError as error:
                found.append((type(error), str(error)))
        return found

    different = 0
    for at in sorted(rng.choice(len(sound), 80, replace=False).tolist()):
        Path(paths[4]).write_bytes(sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :])
        expected = separately(monkeypatch, outcomes)
        assert outcomes() == expected, at
        different += not isinstance(expected[0], pa.Table)
    assert different > 20


def test_files_of_another_schema_have_their_own_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        kind = pa.int64() if number % 4 < 2 else pa.int32()
        keys = pa.array(range(number * ROWS, (number + 1) * ROWS), kind)
        orcidx.write_table(
            pa.table({"key": keys, "even": [key % 2 == 0 for key in range(ROWS)]}), tmp_path / f"{number:02}.orc"
        )
    schema = pa.schema([("key", pa.int64()), ("even", pa.bool_())])
    scan = orcidx.scan(sorted(map(str, tmp_path.iterdir())), where=col("even") == True, schema=schema)  # noqa: E712
    found = scan.to_table()
    assert found["key"].to_pylist() == list(range(0, 12 * ROWS, 2))
    assert found.equals(separately(monkeypatch, scan.to_table))
    assert scan.count_rows() == 6 * ROWS


@pytest.mark.parametrize("options", [{}, {"calendar": "stored"}, {"strings": "view"}, {"strings": "dictionary"}])
def test_options_of_the_columns(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of the condition are decoded in the proleptic calendar, whatever the calendar of the others is."""
    for number in range(8):  # files of the hybrid calendar
        days = pa.array(range(-142_000 - ROWS * number, -142_000 - ROWS * (number - 1)), pa.int32()).cast(pa.date32())
        table = pa.table({"day": days, "word": [f"w{row % 7}" for row in range(ROWS)], "other": days})
        path = tmp_path / f"{number}.orc"
        orcidx.write_table(table, path, compression="none")
        path.write_bytes(as_java_writes(path.read_bytes()))
    paths = sorted(map(str, tmp_path.iterdir()))
    assert orcidx.read_table(paths[0]) != orcidx.read_table(paths[0], calendar="stored")
    for where in (col("word") == "w3", col("day") != days[7].as_py(), col("word") > "w3"):
        for columns in (None, ["day", "word"], ["other"], []):
            scan = orcidx.scan(paths, columns, where, **options)
            found = scan.to_table()
            assert found.equals(separately(monkeypatch, scan.to_table))
            assert scan.count_rows() == found.num_rows > 100


def test_strings_as_views(tmp_path: Path, tests: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars reads strings as views. pyarrow cannot filter views, so strings are converted after the rows are tested.
    Without a condition, strings are converted after a file is decoded."""
    paths = written(tmp_path, files=12)
    opened: list[str] = []
    real = file_queue.open_job
    monkeypatch.setattr(file_queue, "open_job", lambda job, *given: opened.append(job.source.name) or real(job, *given))
    for where, rows in ((col("word") == "w3", 156), (col("word").is_null(), 110), (None, 1200), (col("key") < 0, 0)):
        plain = orcidx.scan(paths, ["word", "key"], where).to_table()
        opened.clear()
        scan = orcidx.scan(paths, ["word", "key"], where, strings="view")
        found = scan.to_table()
        found.validate(full=True)
        assert found.schema.field("word").type == pa.string_view()
        assert found["word"].cast(pa.string()).combine_chunks() == plain["word"].combine_chunks()
        assert found["key"] == plain["key"]
        assert found.num_rows == scan.count_rows() == rows
        assert set(opened) <= {paths[0]}, "only the first file is opened, to find the schema"
    assert max(tests) == 12 * ROWS


@pytest.mark.parametrize("batch_size", [1, 30, 250, 1000, 65536])
def test_batches(tmp_path: Path, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more rows than the caller wants. Before the first batch is returned, at most half a batch of rows is
    read in addition to the rows that are read if each file is tested alone."""
    scan = orcidx.scan(written(tmp_path), where=col("word") == "w3", batch_size=batch_size)

    def read() -> tuple[int, list[pa.RecordBatch]]:
        with scan.to_batches() as batches:
            first = next(batches)
            return batches.metrics.files, [first, *batches]

    files, found = read()
    alone, expected = separately(monkeypatch, read)
    assert files <= alone + batch_size // 2 // ROWS
    assert max(batch.num_rows for batch in found) <= batch_size
    assert pa.Table.from_batches(found) == pa.Table.from_batches(expected)
    limited = scan.limit(3).to_batches()
    assert sum(batch.num_rows for batch in limited) == 3
    assert limited.metrics.files == 1


def test_a_condition_that_pyarrow_evaluates(tmp_path: Path, tests: list[int]) -> None:
    """pyarrow evaluates this condition, and one word is not a number. The rows of the file are tested alone, because an
    index could rule out the word if the file was opened."""
    for number in range(8):
        words = [str(key) for key in range(ROWS)]
        words[50] = "no number" if number == 4 else "50"
        orcidx.write_table(pa.table({"word": words}), tmp_path / f"{number}.orc")
    where = pc.field("word").cast(pa.int64()) >= 20
    paths = sorted(map(str, tmp_path.iterdir()))
    assert orcidx.scan(paths[:4], where=where).count_rows() == 4 * 80
    assert tests == [ROWS] * 4
    for read in (orcidx.scan(paths, where=where).to_table, orcidx.scan(paths, where=where).count_rows):
        with pytest.raises(orcidx.InvalidQuery, match="no number"):
            read()
