"""Local files, bytes and file objects as readers of ranges."""

from __future__ import annotations

import asyncio
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from orcidx import InvalidQuery, ReadOptions, StorageError
from orcidx.storage import Fingerprint, RangeReader, describe_source, open_reader

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
    if read_into := getattr(reader, "read_into", None):
        room = bytearray(1000)
        read_into(50_000, [memoryview(room)])
        assert room == DATA[50_000:51_000]
        with pytest.raises(StorageError, match="were requested, but the object has"):
            read_into(99_001, [memoryview(room)])
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


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_reader(tmp_path / "nothing.orc")
    with pytest.raises(IsADirectoryError):
        open_reader(tmp_path)
    with pytest.raises(InvalidQuery, match="is not a path"):
        open_reader("nul\0inside")
    with pytest.raises(StorageError, match="cannot open"):
        open_reader("x" * 5000)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        open_reader(tmp_path / "pipe")


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("size", [50_000, 100_000, 100_001, 0])
def test_changed_file_is_noticed(path: Path, size: int, mmap: bool) -> None:
    reader = open_reader(path, options=ReadOptions(mmap=mmap))
    reader.read_tail(10)
    later = path.stat().st_mtime_ns + 5_000_000
    path.write_bytes(bytes(size))
    os.utime(path, ns=(later, later))
    with pytest.raises(StorageError, match="changed"):
        reader.read_ranges([(60_000, 10)])
    reader.close()


def test_expected_version(path: Path) -> None:
    source = describe_source(path)
    known = source.open().fingerprint()
    source.open(expected=known).close()
    source.open(expected=Fingerprint(len(DATA))).close()
    os.utime(path, ns=(1, 1))
    with pytest.raises(StorageError, match="changed"):
        source.open(expected=known)
    reader = open_reader(DATA)
    with pytest.raises(StorageError, match="changed"):
        describe_source(reader).open(expected=Fingerprint(5))
    assert reader.read_ranges([(0, 1)]) == [DATA[:1]], "the caller's reader remains open"


def test_replaced_file_stays_readable(path: Path, tmp_path: Path) -> None:
    reader = open_reader(path)
    (tmp_path / "new").write_bytes(b"new")
    os.replace(tmp_path / "new", path)
    assert reader.read_ranges([(0, 10)]) == [DATA[:10]], "the opened file can still be read"
    reader.close()


def test_empty_sources(path: Path) -> None:
    path.write_bytes(b"")
    for source in (path, b"", io.BytesIO()):
        for mmap in (False, True):
            reader = open_reader(source, options=ReadOptions(mmap=mmap))
            assert reader.read_tail(10) == (b"", 0)
            assert reader.read_ranges([(0, 0)]) == [b""]
            reader.close()


def test_identity_needs_a_settled_file(path: Path) -> None:
    reader = open_reader(path)
    assert reader.identity is None, "a new file could change again without a new time"
    reader.close()
    old = path.stat().st_mtime_ns - 60_000_000_000
    os.utime(path, ns=(old, old))
    reader = open_reader(path)
    opened = reader._opened  # type: ignore[attr-defined]
    reader._opened = opened + 60_000_000_000  # type: ignore[attr-defined]  # as if opened a minute later
    first = reader.identity
    assert first is not None
    reader.close()
    os.utime(path, ns=(old + 1, old + 1))
    reader = open_reader(path)
    reader._opened = opened + 60_000_000_000  # type: ignore[attr-defined]
    assert reader.identity != first
    reader.close()
    assert open_reader(b"abc").identity is None


def test_mapped_buffers_outlive_the_reader(path: Path) -> None:
    reader = open_reader(path, options=ReadOptions(mmap=True))
    (buffer,) = reader.read_ranges([(10, 1000)])
    reader.close()
    assert buffer == DATA[10:1010]


class _Slow(io.RawIOBase):
    """Returns a few bytes at a time, as pipes and sockets do."""

    def __init__(self, data: bytes, step: int = 7) -> None:
        self._inner = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, self._step))


def test_file_objects_that_read_little_or_wrong() -> None:
    assert open_reader(_Slow(DATA[:1000])).read_ranges([(3, 100)]) == [DATA[3:103]]
    with pytest.raises(StorageError, match="only 0 of 100 bytes at offset 3"):
        open_reader(_Slow(DATA[:1000], step=0)).read_ranges([(3, 100)])

    class Text(_Slow):
        def read(self, size: int = -1) -> str:  # type: ignore[override]
            return "x" * size

    with pytest.raises(InvalidQuery, match="returned str instead of bytes"):
        open_reader(Text(DATA)).read_ranges([(3, 100)])

    class Broken(_Slow):
        def read(self, size: int = -1) -> bytes:
            raise OSError("no more")

    with pytest.raises(StorageError, match="100 bytes at offset 3 could not be read: no more"):
        open_reader(Broken(DATA)).read_ranges([(3, 100)])

    class Unseekable(_Slow):
        def seek(self, offset: int, whence: int = 0) -> int:
            raise io.UnsupportedOperation("seek")

    with pytest.raises(StorageError, match="cannot seek"):
        open_reader(Unseekable(DATA))


def test_reads_from_many_threads(path: Path) -> None:
    with open(path, "rb") as file:
        for reader in (open_reader(path), open_reader(file)):
            with ThreadPoolExecutor(4) as pool:
                for buffers in pool.map(lambda _: reader.read_ranges(RANGES), range(50)):  # noqa: B023
                    assert [bytes(b) for b in buffers] == WANTED
            assert reader.metrics.ranges == 50 * len(RANGES)
            reader.close()


def test_a_dropped_reader_closes_its_file(path: Path) -> None:
    reader = open_reader(path)
    fd = reader._fd  # type: ignore[attr-defined]
    os.fstat(fd)
    del reader
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_system_without_pread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    check(open_reader(path))
