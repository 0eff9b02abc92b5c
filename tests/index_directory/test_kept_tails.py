"""The tails of files are kept beside the catalog, so that a file in a store is opened without a request for its
tail."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from indexed_directory import catalog_of, index_here

import orcidx
from orcidx.index_directory import kept_tails
from orcidx.index_directory.build import IndexSpec, index_file
from orcidx.index_directory.catalog import FILE_FIELDS, Catalog
from orcidx.index_directory.catalog_file import CatalogFile, written_catalog
from orcidx.index_directory.clean import clean_indexes
from orcidx.index_directory.kept_tails import TAIL_FIELDS, keep_tails
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage import kept_tails as shared_tails

ROWS, FILES = 12_000, 8
SPEC = {"bloom-filter": {"v": {"items": 10}}}
ASKED = {"n": "count(*)", "s": "sum(v)", "hi": "max(v)"}


class CountedFiles(MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory that notes each read."""

    protocol = "memory"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.read: list[str] = []

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        self.read.append(path)
        found: bytes = super().cat_file(path, start, end, **more)
        return found

    def reads(self) -> tuple[int, int, list[str]]:
        """Returns the number of reads of catalogs and of tails since the last call, and the data files that were
        read."""
        forget_metadata()
        names, self.read = self.read, []
        catalogs = [name for name in names if "/rollup/" in name]
        tails = [name for name in names if "/tails/" in name]
        return len(catalogs), len(tails), [name for name in names if name not in (*catalogs, *tails)]


def table_of(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table({"t": np.arange(number * ROWS, (number + 1) * ROWS), "v": rng.integers(0, 1 << 40, ROWS)})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kept")
    for number in range(FILES):
        orcidx.write_table(table_of(number), root / f"{number}.orc", row_index_stride=1000, compression="zstd")
    return root


@pytest.fixture
def store(written: Path) -> Iterator[CountedFiles]:
    files = CountedFiles()
    for path in sorted(written.glob("*.orc")):
        files.pipe_file(f"/table/{path.name}", path.read_bytes())
    index_files(files)
    yield files
    forget_metadata()


def index_files(files: CountedFiles) -> IndexStore:
    made = index_here(orcidx.storage.describe_source("table", filesystem=files), SPEC, embedded_bytes=1 << 20)
    files.reads()
    return made


def tails_of(files: CountedFiles) -> list[str]:
    return [name for name in files.find("/table/_orcidx") if name.endswith(".tails")]


def plain(where: str, written: Path) -> pa.Table:
    return orcidx.read_table(written, where=where)


WHERE = f"t between {2 * ROWS + 10} and {2 * ROWS + 20} or t between {5 * ROWS + 10} and {5 * ROWS + 20}"


@pytest.mark.parametrize("fresh", ["listing", "catalog"])
def test_files_that_are_left_cost_no_footer(store: CountedFiles, written: Path, fresh: Any) -> None:
    """A scan reads the catalog once and the tails once. Of each file that the catalog does not rule out, the scan then
    reads only the index and data of one row group."""
    schema = table_of(0).schema
    scan = orcidx.scan("table", where=WHERE, fresh=fresh, filesystem=store, schema=schema)
    assert scan.to_table() == plain(WHERE, written)
    catalogs, tails, data = store.reads()
    assert (catalogs, tails) == (1, 1)
    assert sorted(set(data)) == ["/table/2.orc", "/table/5.orc"]
    store.rm(tails_of(store)[0])
    assert orcidx.scan("table", where=WHERE, fresh=fresh, filesystem=store, schema=schema).to_table() == plain(
        WHERE, written
    )
    without = store.reads()[2]
    assert len(without) == len(data) + 2  # one read for each of the two footers


def test_copies_of_tails_are_explained(store: CountedFiles, written: Path) -> None:
    """An explanation counts the bytes that are read from the copies of tails, as the scan does. It does not count the
    tails of files that the scan does not open."""
    scan = orcidx.scan("table", ["t"], WHERE, filesystem=store, schema=table_of(0).schema)
    told = scan.explain()
    assert store.reads()[1] == 1
    with scan.to_batches() as batches:
        assert sum(batch.num_rows for batch in batches) == 22
    assert told.read_bytes == batches.metrics.bytes_read
    assert [bool(file.read_bytes) for file in told.files] == [number in (2, 5) for number in range(FILES)]


def test_totals_of_a_range_read_its_ends_alone(store: CountedFiles, written: Path, saves: Callable[..., bool]) -> None:
    where = f"t between {ROWS + 2500} and {6 * ROWS + 2500}"
    found = orcidx.aggregate("table", ASKED, where, filesystem=store, fresh="catalog", schema=table_of(0).schema)
    assert found.to_pylist() == orcidx.aggregate(written, ASKED, where, indexes="none").to_pylist()
    catalogs, tails, data = store.reads()
    if saves("file statistics"):
        assert (catalogs, tails, set(data)) == (1, 1, {"/table/1.orc", "/table/6.orc"})


def test_statistics_that_prove_all_need_no_request_of_the_file(store: CountedFiles, written: Path) -> None:
    where = "v >= 0 and t < 1200000"
    schema = table_of(0).schema
    for number in range(FILES):
        store.reads()
        one = f"table/{number}.orc"
        found = orcidx.aggregate(one, ASKED, where, filesystem=store, indexes="all", schema=schema)
        assert found["n"][0].as_py() == ROWS
        assert not store.reads()[2]


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "empty", "flipped"])
def test_damaged_tails_are_not_believed(store: CountedFiles, written: Path, damage: str) -> None:
    (name,) = tails_of(store)
    data = bytearray(store.cat_file(name))
    if damage == "gone":
        store.rm(name)
    else:
        changed = {
            "cut": bytes(data[: len(data) // 2]),
            "other": bytes(reversed(data)),
            "empty": b"",
            "flipped": bytes(one ^ 1 for one in data),
        }[damage]
        store.pipe_file(name, changed)
    scan = orcidx.scan("table", where=WHERE, filesystem=store)
    assert scan.to_table() == plain(WHERE, written)


@pytest.mark.parametrize("fault", ["crc", "place", "parse", "null"])
def test_rows_of_the_catalog_that_tell_wrong_places_are_not_believed(
    store: CountedFiles, written: Path, fault: str
) -> None:
    """The catalog has wrong facts about the tails, or the tails cannot be parsed. The catalog has checksums, so only a
    faulty writer can cause this. A scan must still return the right rows."""
    made = IndexStore.open(orcidx.storage.describe_source("table", filesystem=store))
    assert made is not None
    whole = made.catalogs.read()
    files = whole.files
    at, lengths = files["tail_at"].to_pylist(), files["tail_length"].to_pylist()
    (name,) = tails_of(store)
    if fault == "parse":
        store.pipe_file(name, data := bytes(sum(lengths)))
        crcs = [kept_tails.zlib.crc32(data[:length]) for length in lengths]
    else:
        crcs = [one ^ (fault == "crc") for one in files["tail_crc"].to_pylist()]
    if fault == "place":
        at = [1 << 40] * FILES
    if fault == "null":
        lengths = [None] * FILES
    for column, values in (("tail_at", at), ("tail_length", lengths), ("tail_crc", crcs)):
        place = files.schema.names.index(column)
        files = files.set_column(place, column, pa.array(values, pa.int64()))
    data = Catalog(files, whole.statistics, whole.spec, whole.spec_key).to_bytes()
    store.pipe_file(f"/table/_orcidx/{made.catalogs.names[0]}", data)
    assert orcidx.scan("table", where=WHERE, filesystem=store).to_table() == plain(WHERE, written)


def test_names_outside_of_the_folder_are_refused() -> None:
    columns = {one.name: pa.nulls(1, one.type) for one in FILE_FIELDS}
    for name in ("tails/../../secret", "index/a.index", "/etc/passwd", "tails/a//b"):
        columns["tails"] = pa.array([name])
        data = Catalog(pa.table(columns, schema=FILE_FIELDS), {}).to_bytes()
        with pytest.raises(orcidx.CorruptFile, match="outside its folder"):
            Catalog.read(CatalogFile(data))


def test_catalogs_of_before_know_no_tails() -> None:
    """The first catalogs of version 2 do not have the columns of tails. Such a catalog is read with nulls in these
    columns."""
    columns = {one.name: pa.nulls(2, one.type) for one in FILE_FIELDS if one.name not in TAIL_FIELDS.names}
    columns["path"] = pa.array(["a", "b"])
    fields = pa.schema([one for one in FILE_FIELDS if one.name in columns])
    described = {"version": 2, "spec": {}, "spec_key": "", "statistics": [], "whole": True}
    data = written_catalog(pa.table(columns, schema=fields), described)
    read = Catalog.read(CatalogFile(data))
    assert read.files.schema == FILE_FIELDS
    assert read.files["path"].to_pylist() == ["a", "b"]
    assert read.files["tails"].null_count == 2
    assert Catalog.read(CatalogFile(data), files=["tails", "path"]).files.column_names == ["tails", "path"]


def test_a_file_that_was_replaced_is_never_read_by_a_tail_of_before(store: CountedFiles, written: Path) -> None:
    """If a replaced file is listed again, its new content is read. If a file changes after its listing, the scan raises
    an error."""
    schema = table_of(0).schema
    held = orcidx.scan("table", where=WHERE, filesystem=store, schema=schema)
    buffer = pa.BufferOutputStream()
    orcidx.write_table(table_of(2).slice(0, 11_000), buffer, row_index_stride=1000)
    store.pipe_file("/table/2.orc", buffer.getvalue().to_pybytes())
    with pytest.raises(orcidx.StorageError, match="changed"):
        held.to_table()
    again = orcidx.scan("table", where=WHERE, filesystem=store, schema=schema)
    assert again.to_table() == plain(WHERE, written)


def test_what_is_sent_elsewhere_reads_them_there(store: CountedFiles, written: Path) -> None:
    made = IndexStore.open(orcidx.storage.describe_source("table", filesystem=store))
    assert made is not None
    plan = made.plan(orcidx.storage.list_sources("table", filesystem=store), WHERE)
    kept = [tail for tail in plan.tails_of(plan.kept) if tail is not None]
    data = [tail.read(ScanMetrics()) for tail in kept]
    assert [bytes(one[-4:-1]) for one in data if one is not None] == [b"ORC", b"ORC"]
    assert kept[0].shared is kept[1].shared
    state = kept[0].__getstate__()
    assert state["shared"] is None
    copy = pickle.loads(pickle.dumps(orcidx.storage.kept_tails.KeptTail(kept[0].source, 0, 1, 0)))
    assert copy.shared is None


def test_turns_are_bounded(store: CountedFiles, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tails of many files are read in parts. ``FIRST_BYTES`` and ``MOST_AT_ONCE`` limit the size of the parts."""
    monkeypatch.setattr(shared_tails, "FIRST_BYTES", 1)
    monkeypatch.setattr(shared_tails, "MOST_AT_ONCE", 2000)
    where = "v >= 0"
    schema = table_of(0).schema
    assert orcidx.scan("table", where=where, filesystem=store, schema=schema).to_table() == plain(where, written)
    assert 2 < store.reads()[1] <= FILES


def test_small_and_local_files_have_none(tmp_path: Path, written: Path) -> None:
    """Tails are not kept for a small file, which one request reads whole, or for a local file, which needs no
    request."""
    files = CountedFiles()
    buffer = pa.BufferOutputStream()
    orcidx.write_table(table_of(0).slice(0, 100), buffer)
    files.pipe_file("/table/0.orc", buffer.getvalue().to_pybytes())
    index_files(files)
    assert not tails_of(files)
    shutil.copy(written / "0.orc", tmp_path / "0.orc")
    index_here(tmp_path, {"bloom-filter": {"v": {}}})
    assert not (tmp_path / "_orcidx" / "tails").exists()


def test_catalogs_in_parts(store: CountedFiles, written: Path) -> None:
    """The row and tail of a file that came later are in a partial catalog, which adds to the first catalog."""
    for number in range(FILES, FILES + 5):
        store.pipe_file(f"/table/{number}.orc", (written / "7.orc").read_bytes())
        root = orcidx.storage.describe_source("table", filesystem=store)
        made = IndexStore.open(root)
        assert made is not None
        (source,) = [one for one in orcidx.storage.list_sources("table", filesystem=store) if f"/{number}." in one.name]
        spec = IndexSpec.of(SPEC, embedded_bytes=1 << 20)
        rows = [index_file(made.folder, source, f"{number}.orc", spec, ReadOptions())]
        keep_tails(made.folder, rows)
        made = made.commit(catalog_of(rows, spec))
    assert len(made.catalogs.names) > 1
    store.reads()
    where = f"t >= {7 * ROWS} and v >= 0"
    found = orcidx.scan("table", where=where, filesystem=store, schema=table_of(0).schema).to_table()
    assert found.num_rows == 6 * ROWS
    assert store.reads()[1] == 6 - 4, "one read for the first tails, and one for the later tails, which are equal"


def test_clean_deletes_what_no_catalog_names(store: CountedFiles, written: Path) -> None:
    root = orcidx.storage.describe_source("table", filesystem=store)
    (first,) = tails_of(store)
    store.pipe_file("/table/_orcidx/tails/0123.tails", b"left")
    done = clean_indexes(root, older_than=0)
    assert [one.name for one in done.removed] == ["tails/0123.tails"]
    assert tails_of(store) == [first]
    for number in range(FILES):
        store.rm(f"/table/{number}.orc")
    store.pipe_file("/table/9.orc", (written / "1.orc").read_bytes())
    index_files(store)
    assert len(tails_of(store)) == 2
    clean_indexes(root, older_than=0)
    assert len(tails_of(store)) == 1
    assert tails_of(store) != [first]
