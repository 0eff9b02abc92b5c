"""Checks of what every implementation of a protocol must do. The tests of each implementation call them.

There is one function for each protocol. Such a function raises an AssertionError if a check fails. It needs only its
arguments, and leaves no files behind.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from orcidx.errors import CorruptFile, InvalidQuery, StorageError, Unsupported
from orcidx.paimon import read_index
from orcidx.paimon.index import EmptyIndex, Index
from orcidx.predicate import BoundLeaf
from orcidx.pruning.findings import Evidence, Finding, Note
from orcidx.pruning.selection import RowSelection
from orcidx.storage import Fingerprint, RangeReader, Source, list_sources
from orcidx.storage.folder import Folder
from orcidx.storage.sink import open_sink
from orcidx.storage.stores import store_class, store_of

if TYPE_CHECKING:
    from orcidx.orc.stored_stream import StreamSource

__all__ = [
    "check_exclusive_create",
    "check_finding",
    "check_folder",
    "check_index",
    "check_range_reader",
    "check_refused_create",
    "check_store",
    "check_stream_source",
]


def check_range_reader(reader: RangeReader, content: bytes) -> None:
    """Checks a ``RangeReader`` over ``content``, which has at least 100 bytes."""
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
    for outside in ((size - 1, 2), (-1, 1), (size + 1, 1)):
        with pytest.raises(StorageError):
            reader.read_ranges([outside])
    found = asyncio.run(reader.aread_ranges(asked))
    assert [bytes(one) for one in found] == [content[offset : offset + length] for offset, length in asked]
    with ThreadPoolExecutor(4) as pool:
        offsets = [number * (size - 50) // 40 for number in range(40)]
        for offset, (one,) in zip(offsets, pool.map(lambda at: reader.read_ranges([(at, 50)]), offsets), strict=True):
            assert bytes(one) == content[offset : offset + 50], "threads that share a reader get each other's bytes"
    reader.close()


def check_stream_source(source: StreamSource, content: bytes) -> None:
    """Checks a ``StreamSource`` over a stream of these bytes: forwards, backwards, and at its end."""
    size = len(content)
    assert source.length == size

    def fetched(offset: int) -> int:
        view = memoryview(source.fetch(offset))
        assert view.contiguous
        assert view.format == "B"
        usable = min(len(view), size - offset)  # the view may contain bytes behind the end of the stream
        assert usable >= 1
        assert bytes(view[:usable]) == content[offset : offset + usable]
        return offset + usable

    for _ in range(2):  # the second round goes back to the start
        at = 0
        while at < size:
            at = fetched(at)
        assert len(source.fetch(size)) == 0
    for offset in range(size - 1, -1, -max(1, size // 37)):
        fetched(offset)
    for beyond in (size + 1, size + 1000):
        with pytest.raises(CorruptFile):
            source.fetch(beyond)
    assert len(source.fetch(size)) == 0


def check_finding(
    evidence: Evidence,
    leaf: BoundLeaf,
    alive: RowSelection,
    finding: Finding | None,
    *,
    may: npt.NDArray[np.bool_],
    must: npt.NDArray[np.bool_],
) -> None:
    """Checks ``finding``, which ``evidence.test(leaf, alive)`` returned. Evidence is, for example, statistics or an
    index. It makes a statement for each unit, which is a row, a row group, a stripe or a file. ``may``: for each unit,
    whether the leaf is TRUE for some row. ``must``: for each unit, whether the leaf is TRUE for all rows."""
    assert isinstance(evidence.name, str)
    assert evidence.name
    assert all(isinstance(note, Note) for note in evidence.notes)
    assert alive.length == len(may)
    if finding is None:
        return
    told = f"{evidence.name} of {leaf}"
    assert finding.may.length == finding.must.length == len(may), told
    assert not (may & alive.mask() & ~finding.may.mask()).any(), f"{told} loses rows"
    assert not (finding.must.mask() & alive.mask() & ~must).any(), f"{told} promises rows that do not match"
    units = np.arange(len(may), dtype=np.int64)[:5]
    described = finding.describe(units)
    assert len(described) == len(units)
    assert all(isinstance(str(text), str) for text in described)


def check_index(index: Index, values: Sequence[Any]) -> None:
    """Checks an ``Index`` of a column of these values, which are numbers or texts. None stands for null."""
    assert index.rows in (None, len(values))
    index.check()
    stored = index.to_bytes()
    again = index if isinstance(index, EmptyIndex) else read_index(index.kind, stored, index.data_type)
    assert again == index
    assert again.to_bytes() == stored
    assert hash(again) == hash(index)
    present = sorted({value for value in values if value is not None})
    absent: Any = "no such" if index.data_type.root == "VARCHAR" else 123_456
    for literal in [*present, absent]:
        questions = {
            "eq": lambda value, literal=literal: value == literal,
            "neq": lambda value, literal=literal: value != literal,
            "lt": lambda value, literal=literal: value < literal,
            "lte": lambda value, literal=literal: value <= literal,
            "gt": lambda value, literal=literal: value > literal,
            "gte": lambda value, literal=literal: value >= literal,
        }
        for op, test in questions.items():
            _check_verdict(again, op, [literal], {i for i, v in enumerate(values) if v is not None and test(v)})
        for op, inside in (("in", True), ("notin", False)):
            rows = {i for i, v in enumerate(values) if v is not None and (v in (literal, absent)) == inside}
            _check_verdict(again, op, [literal, absent], rows)
    _check_verdict(again, "isnull", [], {i for i, value in enumerate(values) if value is None})
    _check_verdict(again, "isnotnull", [], {i for i, value in enumerate(values) if value is not None})
    _check_verdict(again, "eq", [None], set())
    with pytest.raises(InvalidQuery, match="operator"):
        index.evaluate("resembles", [absent])


def _check_verdict(index: Index, op: str, literals: list[Any], rows: set[int]) -> None:
    verdict = index.evaluate(op, literals)
    told = f"{index.kind}: {op} {literals}"
    if verdict.kind == "skip":
        assert not rows, told
    elif verdict.kind == "rows":
        assert verdict.rows is not None
        found = set(verdict.rows)
        assert found == rows if verdict.exact else found >= rows, told


def check_folder(folder: Folder) -> None:
    """Checks a ``Folder`` over an empty place: what it writes, replaces, lists and deletes."""
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
    assert listed == sorted([(deep, len(large)), (name, 0)]), "all files, also hidden ones, but no temporary ones"
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
    """If many writers create one name at the same time, ``create`` returns True to only one of them, and the data of
    this writer is stored."""
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
            assert told.count(True) == 1, f"create returned True to {told.count(True)} of {writers} writers"
            assert folder.read(name) == calls[told.index(True)][1]
    assert not folder.create(names[0], folder.read(names[0]) or b""), (
        "create must return False, even if the stored bytes are the same"
    )
    mine = uuid.uuid4().bytes
    assert folder.publish(f"{base}/mine", mine)
    assert folder.publish(f"{base}/mine", mine)
    assert not folder.publish(f"{base}/mine", uuid.uuid4().bytes)
    names.append(f"{base}/mine")
    assert [one.name for one in folder.list(base)] == sorted(names), "no probe and no temporary file is left"
    for name in names:
        folder.delete(name)


def check_refused_create(folder: Folder) -> None:
    """Checks that a storage without exclusive create raises an error that says what to do, and writes nothing."""
    name = f"conformance-{uuid.uuid4().hex}"
    for create in (folder.create, folder.publish):
        with pytest.raises(Unsupported, match="single_writer=True"):
            create(name, b"data")
    assert folder.list() == []
    assert folder.create(name, b"data", single_writer=True)
    assert not folder.publish(name, b"other", single_writer=True)
    assert folder.read(name) == b"data"
    folder.delete(name)


def check_store(place: Source) -> None:
    """Checks a ``Store`` in an empty directory or prefix, through all classes that are built on it: what it writes,
    creates, lists and reads."""
    base = Folder(place).source(f"conformance-{uuid.uuid4().hex}")
    folder = Folder(base)
    check_folder(folder)
    try:
        folder.create("probe", b"")
        folder.delete("probe")
    except Unsupported:
        check_refused_create(folder)
    else:
        check_exclusive_create(folder)
    content = bytes(range(256)) * 8
    file, other = folder.source("k=1/file.orc"), folder.source("k=1/other.orc")
    for source in (file, other):
        store, path = store_of(source)
        store.make_parent(path)
        sink = open_sink(source)
        sink.write(content[:1000])
        sink.write(memoryview(content)[1000:])
        if source is file:
            sink.close()
        else:
            sink.abort()
    folder.put("_hidden/file.orc", b"hidden")
    assert [one.name for one in folder.list()] == ["_hidden/file.orc", "k=1/file.orc"], "whole, or nothing"
    with pytest.raises(FileNotFoundError):
        list_sources(folder.source("nothing"))
    assert list_sources(folder.source("nothing-*/*.orc")) == []
    for named in (base, folder.source("k=*/*.orc"), file):
        (found,) = list_sources(named)
        assert (found.size, found.partition) == (len(content), {} if named is file else {"k": "1"})
        assert found.listed is not None
        check_range_reader(found.open(expected=found.listed), content)
        with pytest.raises(StorageError, match="changed"):
            found.open(expected=Fingerprint(len(content) + 1)).read_tail(10)
        if store_class(found.kind).address(found.location, found.filesystem) is None:
            with pytest.raises(InvalidQuery, match="JSON"):
                found.to_dict()
        else:
            check_range_reader(Source.from_dict(found.to_dict()).open(), content)
    for stored in folder.list():
        folder.delete(stored.name)
