"""Local files, bytes and file objects as range readers."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pyarrow as pa
import pytest

from orcidx import ReadOptions, StorageError
from orcidx.storage import RangeReader, open_reader

DATA = bytes(os.urandom(100_000))
RANGES = [(5, 10), (0, 3), (50_000, 1000), (7, 0), (99_990, 10), (5, 10)]
WANTED = [DATA[offset : offset + length] for offset, length in RANGES]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "data.orc"
    file.write_bytes(DATA)
    return file


def check(reader: RangeReader) -> None:
    tail, size = reader.read_tail(1000)
    assert (bytes(tail), size) == (DATA[-1000:], len(DATA))
    tail, size = reader.read_tail(10**9)
    assert (bytes(tail), size) == (DATA, len(DATA))
    buffers = reader.read_ranges(RANGES)
    assert [bytes(buffer) for buffer in buffers] == WANTED
    assert all(buffer.readonly for buffer in buffers)
    assert [bytes(buffer) for buffer in asyncio.run(reader.aread_ranges(RANGES))] == WANTED
    assert reader.read_ranges([]) == []
    assert reader.size() == reader.fingerprint().size == len(DATA)
    for wrong in [(99_999, 2), (-1, 2), (0, -1), (1 << 62, 1 << 62)]:
        with pytest.raises(StorageError):
            reader.read_ranges([wrong])
    reader.close()
    reader.close()
    with pytest.raises(StorageError, match="closed"):
        reader.read_ranges([(0, 1)])


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("form", [str, Path, os.fsencode, Path.as_uri, lambda path: f"file:{path}"])
def test_local_file(path: Path, form: object, mmap: bool) -> None:
    source = form(path) if form is not os.fsencode else Path(os.fsdecode(os.fsencode(path)))  # type: ignore[operator]
    reader = open_reader(source, options=ReadOptions(mmap=mmap))
    assert reader.is_local
    check(reader)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, pa.py_buffer, io.BytesIO, pa.BufferReader])
def test_in_memory(form: object) -> None:
    check(open_reader(form(DATA)))  # type: ignore[operator]


@pytest.mark.parametrize("buffering", [0, -1])
def test_file_object_stays_open(path: Path, buffering: int) -> None:
    with open(path, "rb", buffering=buffering) as file:
        check(open_reader(file))
        assert not file.closed
