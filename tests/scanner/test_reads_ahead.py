"""The next small files of a scan are read while the files before them are decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rows_together import separately
from work_done import small_reads

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import KINDS
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_tails import SmallTails
from orcidx.planner.request import FileJob
from orcidx.scanner import reads_ahead, small_groups
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.reads_ahead import ReadsAhead
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.work_queue import WorkQueue
from orcidx.storage import describe_source

FILES, ROWS = 60, 50


def written(folder: Path, files: int = FILES) -> list[str]:
    for number in range(files):
        keys = np.arange(number * ROWS, (number + 1) * ROWS)
        words = [f"w{key % 7}" for key in keys.tolist()]
        orcidx.write_table(pa.table({"key": keys, "word": words}), folder / f"{number:02}.orc")
    return sorted(map(str, folder.glob("*.orc")))


def jobs_of(paths: list[str]) -> list[FileJob]:
    return [FileJob(describe_source(path)) for path in paths]


@pytest.mark.parametrize("where", [None, col("word") == "w3", col("key") >= 40 * ROWS])
@pytest.mark.parametrize("files_a_read", [1, 7, 64])
def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, files_a_read: int) -> None:
    paths = written(tmp_path)
    monkeypatch.setattr(reads_ahead, "FILES_A_READ", files_a_read)
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 10 * ROWS)
    for threads in (False, True):
        scan = orcidx.scan(paths, where=where, use_threads=threads)
        expected = separately(monkeypatch, scan.to_table)
        with monkeypatch.context() as patch:
            read = small_reads(patch)
            assert scan.to_table().equals(expected)
            again = sorted(set(read))
            assert len(again) >= FILES - 1
            # Only files of which just the tail was read first are read again.
            assert len(read) == len(again) or where is not None


def test_the_numbers_of_reads_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, kept, real = written(tmp_path), [], SmallFiles.__init__

    def begin(self: SmallFiles, request: Any, metrics: Any, **options: Any) -> None:
        kept.append(metrics)
        real(self, request, metrics, **options)

    for path in paths:
        os.utime(path, (0, 0))  # the tail of a file that was changed a moment ago is not kept
    orcidx.scan(paths).to_table()  # reads the schema, which is counted only once
    monkeypatch.setattr(SmallFiles, "__init__", begin)
    for where in (None, col("word") == "w3"):
        counts = []
        for enabled in (True, False):
            monkeypatch.setattr(reads_ahead, "ENABLED", enabled)
            orcidx.scan(paths, where=where).to_table()
            (metrics,) = kept
            kept.clear()
            counts.append({name: value for name, value in vars(metrics).items() if name != "seconds"})
        assert counts[0] == counts[1]
        assert counts[0]["requests"] >= FILES


def test_a_file_that_changes_or_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path)
    scan = orcidx.scan(paths)
    assert scan.to_table().num_rows == FILES * ROWS
    os.remove(paths[33])
    with pytest.raises(orcidx.StorageError, match=r"33\.orc"):
        scan.to_table()
    Path(paths[33]).write_bytes(b"no ORC file")
    with pytest.raises(orcidx.CorruptFile, match=r"33\.orc"):
        scan.to_table()


def test_the_bytes_that_wait_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, 30)
    size = os.stat(paths[0]).st_size
    for path in paths:
        orcidx.open(path).close()
    monkeypatch.setattr(reads_ahead, "FILES_A_READ", 5)
    monkeypatch.setattr(reads_ahead, "BYTES_A_READ", 3 * size)
    read = small_reads(monkeypatch)
    ahead = ReadsAhead(JobsLeft(iter(jobs_of(paths))), SmallTails(MetadataLimits(), KINDS.get), size, WorkQueue(1))
    ahead.begin(1 << 20)
    assert read == paths[:6]
    for number, path in enumerate(paths):
        found = ahead.take(path, 1 << 20)
        assert found is not None
        assert bytes(found.data) == Path(path).read_bytes()
        assert len(read) - number - 1 < 7, number
    assert read == paths
    assert ahead.take("another", 1 << 20) is None
    ahead.close()


def test_files_that_are_left_out(tmp_path: Path) -> None:
    paths = written(tmp_path, 12)
    ahead = ReadsAhead(JobsLeft(iter(jobs_of(paths))), SmallTails(MetadataLimits(), KINDS.get), 1000, WorkQueue(2))
    ahead.begin(1 << 20)
    assert ahead.take("another", 1 << 20) is None
    for path in paths[::3]:
        found = ahead.take(path, 1 << 20)
        assert found is not None
        assert bytes(found.data) == Path(path).read_bytes()
    ahead.close()
    assert ahead.take(paths[11], 1 << 20) is None


def test_jobs_that_are_looked_at() -> None:
    jobs = jobs_of([f"{number}.orc" for number in range(6)])
    left = JobsLeft(iter(jobs))
    assert left.take() is jobs[0]
    assert left.look(2) == jobs[1:3]
    assert left.look(1) == jobs[3:4]
    assert left.take_new() is jobs[1]
    left.put_back = jobs[1]
    assert left.take() is jobs[1]
    left.put_back = jobs[2]
    assert left.take_new() is jobs[2]
    left.put_back_all(jobs[:2])
    assert [left.take() for _ in range(3)] == [*jobs[:2], jobs[2]]
    assert left.look(9) == jobs[4:]
    assert left.look(9) == []
    assert [left.take() for _ in range(4)] == [*jobs[3:], None]


def test_an_error_of_a_later_job() -> None:
    jobs = jobs_of([f"{number}.orc" for number in range(3)])

    def failing() -> Iterator[FileJob]:
        yield from jobs
        raise orcidx.StorageError("made up")

    left = JobsLeft(failing())
    assert left.look(9) == jobs
    assert left.look(9) == []
    assert [left.take() for _ in jobs] == jobs
    for _ in range(2):
        with pytest.raises(orcidx.StorageError, match="made up"):
            left.take()
