"""What every implementation of a protocol must do: one function a protocol, called by the tests of each implementation.

A function fails with an AssertionError; it needs nothing but what it is given, and leaves nothing behind.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from orcidx.errors import StorageError, Unsupported
from orcidx.storage import RangeReader
from orcidx.storage.folder import Folder

__all__ = ["check_exclusive_create", "check_folder", "check_range_reader", "check_refused_create"]


def check_range_reader(reader: RangeReader, content: bytes) -> None:
    """``RangeReader`` over ``content``, at least 100 bytes."""
    size = len(content)
    assert size >= 100
    last, told = reader.read_tail(10)
    assert (bytes(last), told, reader.size()) == (content[-10:], size, size)
    whole, told = reader.read_tail(size + 5)
    assert (bytes(whole), told) == (content, size)
    asked = [(50, 7), (0, 3), (size - 4, 4), (50, 7), (20, 0), (51, 30)]
    for most in (None, 1):
        found = reader.read_ranges(asked, most=most)
        assert [bytes(one) for one in found] == [content[offset : offset + length] for offset, length in asked]
    assert reader.read_ranges([]) == []
    assert reader.fingerprint().matches(reader.fingerprint())
    assert reader.fingerprint().size == size
    hash(reader.identity)
    assert reader.metrics.bytes_asked > 0
    with pytest.raises(StorageError):
        reader.read_ranges([(size - 1, 2)])


def check_folder(folder: Folder) -> None:
    """``Folder`` over an empty place: what it writes, replaces, lists and deletes."""
    base = f"conformance-{uuid.uuid4().hex}"
    name, deep = f"{base}/one", f"{base}/a=b/c d%20ü/.hidden"
    assert folder.list(base) == []
    assert folder.read(name) is None
    folder.put(name, b"first")
    folder.put(name, b"first")
    assert folder.read(name) == b"first"
    folder.put(name, b"")
    assert folder.read(name) == b""
    large = bytes(range(256)) * 4096
    folder.put(deep, large)
    assert folder.read(deep) == large
    listed = [(one.name, one.version.size) for one in folder.list(base)]
    assert listed == sorted([(deep, len(large)), (name, 0)]), "all of it, hidden names too, and nothing temporary"
    assert not folder.create(name, b"other", single_writer=True)
    assert folder.read(name) == b""
    for _ in range(2):
        folder.delete(name)
        folder.delete(deep)
    assert folder.list(base) == []
    assert folder.create(name, b"third", single_writer=True)
    assert folder.read(name) == b"third"
    folder.delete(name)


def check_exclusive_create(folder: Folder, *, rounds: int = 5, writers: int = 8) -> None:
    """Of many that create one name at once a single one is told True, and what it wrote is there."""
    base = f"conformance-{uuid.uuid4().hex}"
    barrier = threading.Barrier(writers)

    def race(call: tuple[str, bytes]) -> bool:
        barrier.wait(60)
        return folder.create(*call)

    names = [f"{base}/{number}" for number in range(rounds)]
    with ThreadPoolExecutor(writers) as pool:
        for name in names:
            calls = [(name, f"{name} of writer {writer}".encode()) for writer in range(writers)]
            told = list(pool.map(race, calls))
            assert told.count(True) == 1, f"{told.count(True)} of {writers} were told True"
            assert folder.read(name) == calls[told.index(True)][1]
    assert not folder.create(names[0], folder.read(names[0]) or b""), "the same bytes again are no success either"
    mine = uuid.uuid4().bytes
    assert folder.publish(f"{base}/mine", mine)
    assert folder.publish(f"{base}/mine", mine)
    assert not folder.publish(f"{base}/mine", uuid.uuid4().bytes)
    names.append(f"{base}/mine")
    assert [one.name for one in folder.list(base)] == sorted(names), "no probe and nothing temporary stays"
    for name in names:
        folder.delete(name)


def check_refused_create(folder: Folder) -> None:
    """A storage that cannot create exclusively says so, writes nothing, and names the way out."""
    name = f"conformance-{uuid.uuid4().hex}"
    for create in (folder.create, folder.publish):
        with pytest.raises(Unsupported, match="single_writer=True"):
            create(name, b"data")
    assert folder.list() == []
    assert folder.create(name, b"data", single_writer=True)
    assert not folder.publish(name, b"other", single_writer=True)
    assert folder.read(name) == b"data"
    folder.delete(name)
