"""Every implementation of a protocol is checked by the protocol's function in ``conformance``. None is left out."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from conformance import check_finding, check_index, check_range_reader, check_store, check_stream_source
from memory_files import MemoryFiles
from range_server import RangeServer
from s3_server import s3_bucket
from streams.framing import PieceSource

import orcidx
from orcidx import ReadOptions, col, paimon
from orcidx.index_directory.directory_partitions import PartitionEvidence, Partitions
from orcidx.orc.stream_sources import FileStream, HeldStream
from orcidx.orc.stripe_streams import PlannedStream, StreamReads
from orcidx.paimon.index import BodyIndex, EmptyIndex, Index
from orcidx.paimon_table.read.file_pruning import Bounds, FileBounds
from orcidx.predicate import BoundLeaf, bind
from orcidx.pruning.findings import Finding
from orcidx.pruning.selection import RowSelection
from orcidx.rewriting.counted_reads import CountedReads
from orcidx.storage import ReadMetrics, describe_source, open_reader
from orcidx.storage.given import FileObjectReader
from orcidx.storage.hadoop_store import hadoop_source
from orcidx.storage.local import LentLocalReader, LocalReader
from orcidx.storage.ranges import LentReader
from orcidx.storage.recording import RecordingReader
from orcidx.storage.stores import STORES, store_class, store_of

CONTENT = np.random.default_rng(3).bytes(70_000)


def modules() -> list[ModuleType]:
    """Returns every module of orcidx, also compiled ones. Modules of Spark need Spark, so a test below reads their
    source."""
    found = []
    for info in pkgutil.walk_packages(orcidx.__path__, "orcidx."):
        if not info.name.startswith(("orcidx.spark", "orcidx.__main__")):
            found.append(importlib.import_module(info.name))
    return found


def implementations(*methods: str, parameters: tuple[str, ...] | None = None) -> set[str]:
    """Returns the classes that define all these methods. ``parameters``: the parameters of the first method."""
    names = set()
    for module in modules():
        for value in vars(module).values():
            if (
                not inspect.isclass(value)
                or value.__module__ != module.__name__
                or getattr(value, "_is_protocol", False)
            ):
                continue
            known = all(callable(getattr(value, method, None)) for method in methods)
            if known and (
                parameters is None or tuple(inspect.signature(getattr(value, methods[0])).parameters) == parameters
            ):
                names.add(value.__name__)
    return names


def test_spark_has_no_implementation() -> None:
    """The modules of Spark have no implementation of the protocols in this file. ``modules`` does not import them, so
    this test reads their source."""
    marks = {"read_ranges", "aread_ranges", "read_tail", "get_tail", "fetch", "publish"}
    found = []
    for path in (Path(orcidx.__file__).parent / "spark").glob("*.py"):
        for cls in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)):
            defined = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
            test = defined.get("test")
            is_evidence = test is not None and [one.arg for one in test.args.args] == ["self", "leaf", "alive"]
            if is_evidence or marks & set(defined) or any(ast.unparse(base) == "Index" for base in cls.bases):
                found.append(f"{path.name}: {cls.name}")
    assert not found, found


# ---------------------------------------------------------------------- RangeReader


def over_http(folder: Path) -> Iterator[Any]:
    pytest.importorskip("aiohttp")
    with RangeServer({"content": CONTENT}) as server:
        yield open_reader(f"{server.url}/content")


def over_s3(folder: Path) -> Iterator[Any]:
    pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    with s3_bucket("conformance") as (options, _):
        s3fs.S3FileSystem(**options).pipe("conformance/content", CONTENT)
        yield open_reader("s3://conformance/content", storage_options=options)


def over_an_asynchronous_file_system(folder: Path) -> Iterator[Any]:
    wrapper = pytest.importorskip("fsspec.implementations.asyn_wrapper")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/orcidx-conformance", CONTENT)
    yield open_reader("orcidx-conformance", filesystem=wrapper.AsyncFileSystemWrapper(memory, asynchronous=False))


def over_memory(folder: Path) -> Iterator[Any]:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/orcidx-conformance", CONTENT)
    yield open_reader("memory://orcidx-conformance")
    handler = pyarrow.fs.FSSpecHandler(memory)  # orcidx unwraps it and uses the same backend
    yield open_reader("orcidx-conformance", filesystem=pyarrow.fs.PyFileSystem(handler))


def over_arrow(folder: Path) -> Iterator[Any]:
    filesystem = pyarrow.fs._MockFileSystem()
    with filesystem.open_output_stream("content") as sink:
        sink.write(CONTENT)
    yield open_reader("content", filesystem=filesystem)


def over_obstore(folder: Path) -> Iterator[Any]:
    store = pytest.importorskip("obstore.store").LocalStore(str(folder))
    yield open_reader((store, "content"))


def over_hadoop(folder: Path) -> Iterator[Any]:
    files = MemoryFiles()
    files.held["hdfs://node:8020/content"] = CONTENT
    yield hadoop_source("hdfs://node:8020/content", files).open()


def lent_local(folder: Path) -> Any:
    owner = LocalReader(str(folder / "content"))
    assert owner.local_file is not None
    metrics = ReadMetrics()
    return LentLocalReader(owner, owner.local_file.counted_by(metrics), metrics)


def counted_whole(folder: Path) -> Any:
    reader = CountedReads(open_reader(folder / "content"))
    assert reader.whole() == CONTENT
    return reader


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "pread": ("LocalReader", lambda folder: open_reader(folder / "content")),
    "mmap": ("LocalReader", lambda folder: LocalReader(str(folder / "content"), options=ReadOptions(mmap=True))),
    "bytes": ("BytesReader", lambda folder: open_reader(CONTENT)),
    "file object": ("FileObjectReader", lambda folder: FileObjectReader(io.BytesIO(CONTENT), name="<file>")),
    "lent": ("LentReader", lambda folder: LentReader(open_reader(CONTENT))),
    "lent local": ("LentLocalReader", lent_local),
    "recording": ("RecordingReader", lambda folder: RecordingReader(open_reader(folder / "content"))),
    "counted": ("CountedReads", lambda folder: CountedReads(open_reader(folder / "content"))),
    "counted whole": ("CountedReads", lambda folder: counted_whole(folder)),
}


@pytest.mark.parametrize("kind", READERS)
def test_range_readers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    name, make = READERS[kind]
    reader = make(tmp_path)
    assert type(reader).__name__ == name
    check_range_reader(reader, CONTENT)


def test_every_range_reader_is_checked() -> None:
    found = implementations("read_tail", "read_ranges", "aread_ranges", "fingerprint")
    base = {"ReaderAtHand"}  # the base class of local readers
    checked = {name for name, _ in READERS.values()} | {"RemoteReader"}  # the test below checks it with each backend
    assert found - base | {"LentReader"} == checked  # LentReader forwards all calls by __getattr__


BACKENDS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "HttpBackend": over_http,
    "S3Backend": over_s3,
    "AsyncBackend": over_an_asynchronous_file_system,
    "BlockingBackend": over_memory,
    "ArrowBackend": over_arrow,
    "ObstoreBackend": over_obstore,
    "HadoopBackend": over_hadoop,
}


@pytest.mark.parametrize("name", BACKENDS)
def test_range_readers_over_every_backend(name: str, tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    for reader in BACKENDS[name](tmp_path):
        assert type(reader).__name__ == "RemoteReader"
        assert type(reader._backend).__name__ == name
        check_range_reader(reader, CONTENT)


def test_every_backend_is_checked() -> None:
    base = {"ThreadBackend"}  # the base class of backends with a synchronous library
    assert implementations("stat", "get", "get_tail", "loop", "close") - base == set(BACKENDS)


# ---------------------------------------------------------------------- Store


def fsspec_place(folder: Path) -> Any:
    pytest.importorskip("fsspec")
    return describe_source("memory://orcidx-conformance-folder/here")


def obstore_place(folder: Path) -> Any:
    return describe_source((pytest.importorskip("obstore.store").MemoryStore(), "place"))


PLACES: dict[str, Callable[[Path], Any]] = {
    "LocalStore": lambda folder: describe_source(folder / "not there yet"),
    "FsspecStore": fsspec_place,
    "ObstoreStore": obstore_place,
    "ArrowStore": lambda folder: describe_source("place", filesystem=pyarrow.fs._MockFileSystem()),
    "HadoopStore": lambda folder: hadoop_source("hdfs://node:8020/place", MemoryFiles()),
}


@pytest.mark.parametrize("name", PLACES)
def test_stores(name: str, tmp_path: Path) -> None:
    source = PLACES[name](tmp_path)
    assert type(store_of(source)[0]).__name__ == name
    check_store(source)


def test_every_store_is_checked() -> None:
    assert implementations("put", "create", "exists", "read", "delete", "walk") == set(PLACES)
    assert {store_class(kind).__name__ for line in STORES for kind in line.kinds} == set(PLACES)


# ---------------------------------------------------------------------- StreamSource


def planned(plan: list[tuple[int, int]], **options: Any) -> Callable[[Path], PlannedStream]:
    def make(path: Path) -> PlannedStream:
        reader = LocalReader(str(path))
        local = {name: getattr(reader, name) if wanted is None else wanted for name, wanted in options.items()}
        stream = PlannedStream(StreamReads(reader.read_ranges, 3_000, **local), offset=1000, length=50_000)
        stream.plan(plan)
        return stream

    return make


class Streamed(FileStream):
    """A stream of a local file that keeps its file open."""

    reader: LocalReader


def streamed(path: Path) -> FileStream:
    reader = LocalReader(str(path))
    assert reader.local_file is not None
    stream = Streamed(reader.local_file, 1000, 50_000, 3_000, memoryview(b""))
    stream.reader = reader
    return stream


SOURCES: dict[str, Callable[[Path], Any]] = {
    "held": lambda path: HeldStream(memoryview(CONTENT), 1000, 50_000),
    "planned whole": planned([(0, 50_000)]),
    "planned in parts": planned([(0, 7_000), (30_000, 31_000)]),
    "nothing planned": planned([]),
    "into a room": planned([(0, 50_000)], read_into=None),
    "of a local file": planned([(0, 50_000)], read_into=None, local_file=None),
    "in pieces of a local file": streamed,
    "pieces": lambda path: PieceSource(CONTENT[1000:51_000], 777),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_stream_sources(kind: str, tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    check_stream_source(SOURCES[kind](tmp_path / "content"), CONTENT[1000:51_000])


@pytest.mark.parametrize("source", [HeldStream(memoryview(CONTENT), 7, 0), PieceSource(b"")])
def test_stream_sources_without_a_byte(source: Any) -> None:
    check_stream_source(source, b"")


def test_every_stream_source_is_checked() -> None:
    assert implementations("fetch", parameters=("self", "offset")) == {"FileStream", "HeldStream", "PlannedStream"}


# ---------------------------------------------------------------------- Index

VALUES = {
    "INT": [5, None, 7, 5, -1, 2**31 - 1, None, 0, 5, 8],
    "STRING": ["b", None, "", "b", "aa", "ü", None, "a", "b", "zz"],
    "BIGINT": [None] * 10,
}


KINDS = ("bitmap", "bloom-filter", "bsi", "range-bitmap")
PAIRS = [(kind, data_type) for kind in KINDS for data_type in VALUES if (kind, data_type) != ("bsi", "STRING")]


@pytest.mark.parametrize(("kind", "data_type"), PAIRS)
def test_indexes(kind: str, data_type: str) -> None:
    values = VALUES[data_type]
    arrow = {"INT": pa.int32(), "STRING": pa.string(), "BIGINT": pa.int64()}[data_type]
    check_index(paimon.build_index(kind, pa.array(values, arrow), data_type), values)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_indexes(kind: str) -> None:
    check_index(EmptyIndex(kind, "INT"), [])


def test_every_index_is_checked() -> None:
    modules()
    bases = [Index, BodyIndex]
    assert {cls.__name__ for base in bases for cls in base.__subclasses__() if cls not in bases} == {
        "BitmapIndex", "BloomFilterIndex", "BsiIndex", "RangeBitmapIndex", "EmptyIndex",
    }  # fmt: skip


# ---------------------------------------------------------------------- Evidence

ROWS = 1000
TABLE = pa.table(
    {
        "a": pa.array([None if i % 50 == 9 else i // 2 for i in range(ROWS)], pa.int64()),
        "b": pa.array([(i * 7919) % 1000 for i in range(ROWS)], pa.int64()),
        "s": pa.array(["acht", "eins", "vier", "zwei"][i % 4] for i in range(ROWS)),
    }
)
ASKED = [
    (col("a") == 17) & (col("s") == "zwei"),
    (col("a") > 400) | col("a").is_null(),
    ~col("a").between(100, 300),
    (col("s") == "drei") | (col("b") == 18),
    col("b").is_in([5, 5_000]),
    col("b") == 5_000,
    (col("p") == 3) & (col("a") < 30),
    (col("p") != 3) | (col("a") < 30),
]


class Recorder:
    """Records the result of each call of ``Evidence.test`` in scans of one file. The file has one stripe, with the rows
    of ``TABLE``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[tuple[Any, BoundLeaf, RowSelection, Finding | None]] = []
        self.known: set[str] = set()
        for module in modules():
            for name, cls in vars(module).items():
                if inspect.isclass(cls) and cls.__module__ == module.__name__ and is_evidence(cls):
                    self.known.add(name)
                    monkeypatch.setattr(cls, "test", self._recording(cls.test))

    def _recording(self, test: Callable[..., Finding | None]) -> Callable[..., Finding | None]:
        def recorded(evidence: Any, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
            finding = test(evidence, leaf, alive)
            self.said.append((evidence, leaf, alive, finding))
            return finding

        return recorded


def is_evidence(cls: type) -> bool:
    test = vars(cls).get("test")
    told = test is not None and tuple(inspect.signature(test).parameters) == ("self", "leaf", "alive")
    return told and not getattr(cls, "_is_protocol", False)


def truth(leaf: BoundLeaf, table: pa.Table) -> np.ndarray:
    """Returns for each row whether the leaf is TRUE, computed from the values one by one."""
    values = table[leaf.path[0]].to_pylist()
    literals = [one.decode() if isinstance(one, bytes) else one for one in leaf.literals]
    compare: dict[str, Callable[[Any], bool]] = {
        "EQ": lambda value: value == literals[0],
        "LT": lambda value: value < literals[0],
        "LE": lambda value: value <= literals[0],
        "GT": lambda value: value > literals[0],
        "GE": lambda value: value >= literals[0],
        "IN": lambda value: value in literals,
        "BETWEEN": lambda value: literals[0] <= value <= literals[1],
    }
    if leaf.op.name == "IS_NULL":
        return np.array([(value is None) != leaf.negated for value in values])
    test = compare[leaf.op.name]
    return np.array([value is not None and test(value) != leaf.negated for value in values])


def test_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table" / "p=3" / "one.orc"
    path.parent.mkdir(parents=True)
    options = {"row_index_stride": 100, "bloom_filter_columns": ["b"], "dictionary_key_size_threshold": 1.0}
    orcidx.write_table(TABLE, path, **options)
    stripes = tmp_path / "stripes.orc"
    orcidx.write_table(TABLE, stripes, stripe_size=4 << 10, compression="uncompressed", row_index_stride=100)
    assert len(orcidx.open(stripes).stripes) > 1
    index = paimon.build_file_index(path, {"bitmap": {"a": {}}, "range-bitmap": {"b": {}}, "bloom-filter": {"s": {}}})
    recorder = Recorder(monkeypatch)
    whole = TABLE.append_column("p", pa.array([3] * ROWS))
    for where in ASKED:
        for given in (None, index):
            scan = orcidx.scan(
                tmp_path / "table", where=where, **({} if given is None else {"file_index": {str(path): given}})
            )
            assert scan.count_rows() == int(bind(where, whole.schema).evaluate(whole.to_batches()[0]).sum())
            str(scan.explain())
    assert orcidx.scan(stripes, where=col("a") == 17).count_rows() == 2
    spoke = set()
    for evidence, leaf, alive, finding in list(recorder.said):
        rows = truth(leaf, whole)
        if alive.length != ROWS:  # the evidence is about one of several stripes, and does not say which
            continue
        check_finding(evidence, leaf, alive, finding, may=rows, must=rows)
        if finding is not None:
            spoke.add(type(evidence).__name__)
    of_files = {"FileBounds", "PartitionEvidence"}  # checked below
    assert spoke == recorder.known - of_files, "an evidence that no condition here uses, or that proves nothing"


def test_evidence_of_files() -> None:
    lows, highs = [0, 10, 20, None], [9, 19, 20, None]
    rows = [list(range(low, high + 1)) if low is not None else [None] for low, high in zip(lows, highs, strict=True)]

    def bounds_of(file: int, column: str) -> Bounds | None:
        return Bounds(lows[file], highs[file], int(lows[file] is None), len(rows[file])) if column == "a" else None

    places = np.array([0, 1, 1, 2])
    partitions = Partitions(places, {"p": pa.array([3, 4, None], pa.int64())})
    schema = pa.schema([("a", pa.int64()), ("p", pa.int64())])
    wheres = (
        col("a") == 15,
        ~(col("a") < 20),
        col("a").is_null(),
        col("p") == 4,
        ~col("p").is_in([3]),
        col("p").is_null(),
    )
    spoke = set()
    for where in wheres:
        for leaf in bind(where, schema).leaves():
            values = rows if leaf.path == ("a",) else [[partitions.values["p"][place].as_py()] for place in places]
            each = [truth(leaf, pa.table({leaf.path[0]: pa.array(of_file, pa.int64())})) for of_file in values]
            may, must = np.array([one.any() for one in each]), np.array([one.all() for one in each])
            for evidence in (FileBounds("manifest", 4, bounds_of), PartitionEvidence(partitions)):
                alive = RowSelection.all(4)
                finding = evidence.test(leaf, alive)
                check_finding(evidence, leaf, alive, finding, may=may, must=must)
                if finding is not None:
                    spoke.add(type(evidence).__name__)
    assert spoke == {"FileBounds", "PartitionEvidence"}


def test_sources_open_as_often_as_asked(tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    source = describe_source(tmp_path / "content")
    for _ in range(2):
        check_range_reader(source.open(), CONTENT)
