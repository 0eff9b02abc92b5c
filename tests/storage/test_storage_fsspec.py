"""fsspec file systems without special support: synchronous ones, wrapped ones, and ones that behave wrongly."""

from __future__ import annotations

import asyncio
import io
import os
import zipfile
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from orcidx import StorageError, write_table
from orcidx.storage import open_reader
from orcidx.storage.failures import Retries

DATA = os.urandom(50_000)
RANGES = [(5, 10), (0, 3), (49_990, 10), (20_000, 5000)]
WANTED = [DATA[offset : offset + length] for offset, length in RANGES]


class Cloud(AsyncFileSystem):
    """An asynchronous storage that returns size and generation only from ``info``, as gcsfs and adlfs do."""

    cachable = False
    protocol = "cloud"

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.data = DATA
        self.calls: list[tuple[str, int | None, int | None]] = []
        self.failures: list[Exception] = []

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        self.calls.append(("info", None, None))
        return {"name": path, "size": len(self.data), "type": "file", "etag": f"{hash(self.data):x}"}

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.calls.append(("cat", start, end))
        if self.failures:
            raise self.failures.pop()
        await asyncio.sleep(0.001)
        return self.data[start:end]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "delay", lambda self, attempt: 0.001)


def test_asynchronous_storage() -> None:
    cloud = Cloud()
    reader = open_reader("a/b", filesystem=cloud)
    assert reader.read_tail(100) == (DATA[-100:], len(DATA))
    assert cloud.calls == [("info", None, None), ("cat", 49_900, 50_000)]
    cloud.calls.clear()
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert sorted(cloud.calls, key=str) == [("cat", 0, 25_000), ("info", None, None)], "one check for the read"
    cloud.calls.clear()
    assert [bytes(b) for b in asyncio.run(reader.aread_ranges([*RANGES, (9000, 10)]))] == [*WANTED, DATA[9000:9010]]
    assert cloud.calls == [], "most bytes of the response were unneeded, so it was kept"
    cloud.data = DATA[::-1]
    with pytest.raises(StorageError, match="changed"):
        reader.read_ranges([(30_000, 10)])


def test_failures_of_any_type() -> None:
    cloud = Cloud()
    reader = open_reader("a/b", filesystem=cloud)

    class HttpError(Exception):
        code = 503

    cloud.failures.append(HttpError())
    assert reader.read_ranges([(0, 10)]) == [DATA[:10]]
    assert reader.metrics.retries == 1
    cloud.failures.append(KeyError("a bug of the library"))
    with pytest.raises(StorageError, match="10 bytes at 3: KeyError") as caught:
        reader.read_ranges([(3, 10)])
    assert isinstance(caught.value.__cause__, KeyError)
    cloud.data = DATA[:5]
    with pytest.raises(StorageError):
        reader.read_ranges([(0, 10)])


def test_synchronous_storage() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/sync/a.orc", DATA)
    reader = open_reader("memory://sync/a.orc")
    assert not reader.is_local
    assert reader.read_tail(100) == (DATA[-100:], len(DATA))
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert [bytes(b) for b in asyncio.run(reader.aread_ranges(RANGES))] == WANTED
    memory.pipe_file("/sync/a.orc", DATA[:-1])
    with pytest.raises(StorageError, match="changed"):
        reader.read_ranges([(30_000, 10)])
    reader.close()
    with pytest.raises(StorageError, match="closed"):
        reader.read_ranges(RANGES)
    reader.close()


def test_directories_are_no_files() -> None:
    fsspec.filesystem("memory").pipe_file("/dir/a.orc", DATA)
    with pytest.raises(IsADirectoryError):
        open_reader("memory://dir").read_tail(10)


def test_chained_file_systems() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("in/a.orc", DATA)
    fsspec.filesystem("memory").pipe_file("/packed.zip", archive.getvalue())
    reader = open_reader("zip://in/a.orc::memory://packed.zip")
    assert reader.read_tail(100) == (DATA[-100:], len(DATA))
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    reader.close()


def test_files_without_the_cache_option() -> None:
    class Strict(AbstractFileSystem):
        protocol = "strict"
        opened = 0

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": len(DATA), "type": "file"}

        def open(self, path: str, mode: str = "rb") -> Any:  # type: ignore[override]
            Strict.opened += 1
            return io.BytesIO(DATA)

    strict = Strict()
    reader = open_reader("/strict.orc", filesystem=strict)
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert Strict.opened == 1, "one file for all reads"
    reader.close()


def test_own_cat_file_is_used() -> None:
    class Own(MemoryFileSystem):
        protocol = "own"
        asked: list[tuple[int | None, int | None]] = []  # noqa: RUF012

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
            self.asked.append((start, end))
            return DATA[start:end]

    fsspec.filesystem("memory").pipe_file("/own.orc", DATA)
    own = Own()
    assert open_reader("/own.orc", filesystem=own).read_ranges([(3, 4)]) == [DATA[3:7]]
    assert own.asked == [(3, 7)]


def test_reading_inside_the_storages_own_loop() -> None:
    cloud = Cloud()
    reader = open_reader("a/b", filesystem=cloud)

    async def inside() -> list[memoryview]:
        with pytest.raises(StorageError, match="await aread_ranges"):
            reader.read_ranges(RANGES)
        return await reader.aread_ranges(RANGES)

    assert [bytes(b) for b in asyncio.run_coroutine_threadsafe(inside(), cloud.loop).result(10)] == WANTED


def test_one_range_fails_and_the_others_are_cancelled() -> None:
    cloud = Cloud()
    reader = open_reader("a/b", filesystem=cloud)
    cloud.failures.extend([PermissionError("no")] * 2)
    with pytest.raises(PermissionError, match="no"):
        reader.read_ranges([(0, 10), (40_000, 10)])
    cloud.failures.clear()
    assert reader.read_ranges([(0, 10)]) == [DATA[:10]]


class WithoutSizes(MemoryFileSystem):
    protocol = "withoutsizes"

    def info(self, path: str, **_: Any) -> Any:
        return None


class WithoutBytes(MemoryFileSystem):
    protocol = "withoutbytes"

    def cat_file(self, path: str, **_: Any) -> Any:
        return None


class WithoutFiles(MemoryFileSystem):
    protocol = "withoutfiles"

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return None


def test_a_file_system_that_opens_nothing_is_not_written_to() -> None:
    """If a file system returns None instead of an open file, the error is ``StorageError``. Discarding a file that was
    never opened must not raise another error."""
    with pytest.raises(StorageError, match="returned None"):
        write_table(pa.table({"a": [1]}), "/nothing.orc", filesystem=WithoutFiles())
    assert not MemoryFileSystem().exists("/nothing.orc")


@pytest.mark.parametrize(("unfinished", "said"), [(WithoutSizes, "the object's size"), (WithoutBytes, "None")])
def test_a_file_system_that_returns_none_is_refused(unfinished: type[MemoryFileSystem], said: str) -> None:
    MemoryFileSystem().pipe_file("/none.orc", b"0123456789")
    reader = open_reader("/none.orc", filesystem=unfinished())
    with pytest.raises(StorageError, match=said):
        reader.read_tail(4)
    reader.close()


@pytest.mark.parametrize("kind", ["asynchronous", "threads"])
def test_no_bytes_of_another_version_are_kept(kind: str) -> None:
    """The check of the version runs beside the requests. A response is kept only after all checks have passed.
    Otherwise the read after a failed read could return bytes of the new object."""
    memory, cloud, changed = fsspec.filesystem("memory"), Cloud(), DATA[::-1] + b"x"
    for _ in range(20):
        memory.pipe_file("/kept/a.orc", DATA)
        cloud.data = DATA
        reader = open_reader("memory://kept/a.orc") if kind == "threads" else open_reader("a/b", filesystem=cloud)
        assert reader.size() == len(DATA)
        memory.pipe_file("/kept/a.orc", changed)
        cloud.data = changed
        for _ in range(3):
            with pytest.raises(StorageError, match="changed"):
                reader.read_ranges([(0, 10), (40_000, 10)])
        reader.close()
