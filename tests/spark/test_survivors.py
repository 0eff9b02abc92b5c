"""Which files can be skipped, without Spark: what is cached between reads, and how Spark's listing is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import index_here
from pyarrow import orc

import orcidx
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_file import CatalogFile
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.predicate import parse
from orcidx.spark.conditions import kept_stores, survivors
from orcidx.spark.conditions.listed_files import ClientFiles, Listing, SparkFiles, listing_of
from orcidx.spark.conditions.relation import Relation
from orcidx.spark.conditions.survivors import PartitionColumns, SurvivingFiles, find_survivors
from orcidx.storage import describe_source, list_sources


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Writes three files. The ranges of their cities are equal, and their ids differ."""
    for start in (0, 100, 200):
        cities = ["a", *(f"c{start}-{n}" for n in range(50)), "z"]
        orc.write_table(pa.table({"id": range(start, start + len(cities)), "city": cities}), tmp_path / f"{start}.orc")
    index_here(tmp_path, {"bloom-filter": {"city": {"items": 100, "fpp": 0.001}}})
    return tmp_path


def survivors_of(root: Path, where: str, share: float = 1.0) -> SurvivingFiles:
    files = ClientFiles(list_sources(root))
    (found,) = (
        find_survivors(
            store,
            files,
            positions,
            parse(where),
            types={"id": "long", "city": "string"},
            options=ReadOptions(),
            slots=1,
            partitions=PartitionColumns(),
            share=share,
        )
        for store, positions in files.stores()
    )
    return found


@pytest.mark.parametrize("kind", ["bitmap", "bloom-filter", "range-bitmap"])
@pytest.mark.parametrize("embedded_bytes", [0, 100_000])
def test_indexes_of_char_columns_rule_out_no_file(tmp_path: Path, kind: str, embedded_bytes: int) -> None:
    """ORC Java returns values of CHAR without trailing spaces, but the keys of the indexes have these spaces. So the
    indexes must not rule out files."""
    for name, types in (("char", {"city": "char(4)"}), ("text", {})):
        table = pa.table({"id": range(100), "city": ["a", *["b"] * 98, "z"]})
        orcidx.write_table(table, tmp_path / f"{name}.orc", types=types)
    index_here(tmp_path, {kind: {"city": {}}}, embedded_bytes=embedded_bytes)
    assert survivors_of(tmp_path, "city = 'b'").ruled_out.tolist() == [False, False]
    assert survivors_of(tmp_path, "city = 'c'").ruled_out.tolist() == [False, True]


@pytest.mark.parametrize("given", ["", "/part=a%20b", "/part=*/x*", "/part=1/ü 1.orc", "/[x]"])
def test_files_that_spark_has_listed_are_those_that_orcidx_lists(directory: Path, given: str) -> None:
    for part in ("part=1", "part=a%20b", "[x]/part=3"):
        (directory / part).mkdir(parents=True)
        for name in ("ü 1.orc", "x[2].orc"):
            (directory / part / name).write_bytes((directory / "100.orc").read_bytes())
    index_here(directory, {"bloom-filter": {"city": {}}})
    client = ClientFiles(list_sources(f"{directory}{given}"))
    listing = Listing(
        tuple(f"file:{one.location}" for one in client.sources),
        client.sizes,
        np.array([one.listed.mtime // 1_000_000 for one in client.sources if one.listed and one.listed.mtime]),
    )
    given_as = [describe_source(f"{directory}{given}")]
    spark = SparkFiles(listing_of("\x02".join(columns_of_text(listing))), given_as)
    assert spark.sizes.tolist() == client.sizes.tolist()
    ((ours, numbers),), ((theirs, same),) = spark.stores(), client.stores()
    assert ours.root.location == theirs.root.location
    assert numbers.tolist() == same.tolist() == list(range(len(client)))
    assert spark.partition_types(infer=True) == client.partition_types(infer=True)
    some = np.flatnonzero(np.arange(len(client)) % 2 == 0)
    for mine, other in ((spark, client), (spark.some(some), client.some(some))):
        table, match = mine.match(ours)
        expected, matched = other.match(theirs)
        assert table["path"].equals(expected["path"])
        assert match.entry.tolist() == matched.entry.tolist()
        assert match.fresh.all()


def test_no_files_of_spark() -> None:
    empty = SparkFiles(listing_of(""), [describe_source("/nothing")])
    assert (len(empty), empty.stores(), empty.partition_types(infer=True)) == (0, [], {})


def columns_of_text(listing: Listing) -> list[str]:
    """Returns the columns of a listing in the text form that Java writes."""
    numbers = [",".join(map(str, one.tolist())) for one in (listing.sizes, listing.times)]
    return ["\x01".join(listing.names), *numbers, ""]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[CatalogFile]:
    """Returns a list that records the catalogs that are read."""
    read = Catalog.read
    found: list[CatalogFile] = []

    def counted(file: CatalogFile, **columns: Any) -> Catalog:
        found.append(file)
        return read(file, **columns)

    monkeypatch.setattr(Catalog, "read", staticmethod(counted))
    monkeypatch.setattr(survivors, "_STORES", kept_stores.KeptStores())
    return found


def test_parts_of_an_or_are_ruled_out_by_index_and_statistics_together(directory: Path) -> None:
    """If a file index rules out one side of an OR, and the statistics of another column rule out the other side, the
    file is skipped."""
    assert survivors_of(directory, "city = 'c100-7' OR id = 3").ruled_out.tolist() == [False, False, True]
    assert survivors_of(directory, "(city = 'c100-7' AND id > 200) OR id = 3").ruled_out.tolist() == [False, True, True]


def test_no_index_is_asked_whether_there_are_values(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a join, Spark adds the condition that the key IS NOT NULL. No index is read for this condition."""
    asked: list[int] = []
    stored = survivors.stored_index
    monkeypatch.setattr(
        survivors, "stored_index", lambda known, file, then: asked.append(file) or stored(known, file, then)
    )
    assert survivors_of(directory, "city IS NOT NULL AND id >= 0").ruled_out.tolist() == [False] * 3
    assert not asked
    assert survivors_of(directory, "city IS NOT NULL AND city = 'c100-7'").ruled_out.tolist() == [True, False, True]
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        ("city > 'b'", 0),
        ("city <> 'b'", 0),
        ("city LIKE '%b%'", 0),
        ("NOT city IN ('b', 'c')", 0),
        ("city <=> 'b'", 3),
        ("city IN ('b', 'c') AND id > 3", 3),
        ("city > 'b' OR city = 'a7'", 3),
    ],
)
def test_bloom_filters_are_asked_for_single_values(
    directory: Path, where: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    inner = survivors.stored_index
    monkeypatch.setattr(
        survivors, "stored_index", lambda known, file, then: looked.append(file) or inner(known, file, then)
    )
    survivors_of(directory, where)
    assert len(looked) == asked


def test_a_catalog_is_read_again_only_when_there_is_another(directory: Path, reads: list[CatalogFile]) -> None:
    assert survivors_of(directory, "city = 'c100-7'").ruled_out.tolist() == [True, False, True]
    assert reads
    reads.clear()
    assert survivors_of(directory, "city = 'c200-7'").ruled_out.tolist() == [True, True, False]
    assert survivors_of(directory, "city = 'c200-7' OR city = 'absent'").ruled_out.tolist() == [True, True, False]
    assert reads == []
    orc.write_table(pa.table({"id": [0], "city": ["c200-7"]}), directory / "0.orc")
    assert survivors_of(directory, "city = 'c200-7'").ruled_out.tolist() == [False, True, False], "it is a new file"
    assert reads == []
    index_here(directory, {"bloom-filter": {"city": {"items": 100, "fpp": 0.001}}})
    assert survivors_of(directory, "city = 'c100-7'").ruled_out.tolist() == [True, False, True]
    assert reads


def test_large_catalogs_are_not_kept(
    directory: Path, reads: list[CatalogFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_stores, "STORE_BYTES", 100)
    for _ in range(2):
        reads.clear()
        survivors_of(directory, "city = 'c100-7'")
        assert reads


def test_the_oldest_stores_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_stores, "MOST_STORES", 2)
    kept, stores = kept_stores.KeptStores(), []
    for name in "abc":
        (tmp_path / name).mkdir()
        orc.write_table(pa.table({"id": [1]}), tmp_path / name / "0.orc")
        stores.append(index_here(tmp_path / name, {"bitmap": {"id": {}}}))
        kept.keep(stores[-1])
    again = [IndexStore.open(store.root.location) for store in stores]
    assert [kept.known(one) is store for one, store in zip(again, stores) if one] == [False, True, True]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list with an entry for each file whose index is read. In the simulated time, each read takes ten
    milliseconds."""
    read, found = survivors.read_file_index, []

    def counted(data: Any, *, types: Any, rows: int) -> Any:
        found.append(rows)
        return read(data, types=types, rows=rows)

    monkeypatch.setattr(survivors, "read_file_index", counted)
    monkeypatch.setattr(survivors.time, "thread_time", lambda: len(found) / 100)
    return found


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Writes twenty files. The ranges of their cities are equal. Every fourth file has the city of the queries."""
    for number in range(20):
        cities = ["a", "asked for" if number % 4 == 0 else "b", "z"]
        orc.write_table(pa.table({"id": [number] * 3, "city": cities}), tmp_path / f"{number:02}.orc")
    index_here(tmp_path, {"bloom-filter": {"city": {"items": 100, "fpp": 0.001}}})
    return tmp_path


def test_no_index_is_looked_up_that_has_none_of_the_columns(
    many: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no column of the condition has an index, the catalog is not searched for the index of each file. With 2,000
    files, this search took 90 ms."""

    def none(*given: Any) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(survivors, "stored_index", none)
    assert survivors_of(many, "id >= 0 AND id < 20").ruled_out.sum() == 0
    assert survivors_of(many, "id >= 3 AND id < 20").ruled_out.sum() == 3
    assert asked == []


@pytest.mark.parametrize(
    ("share", "bytes_a_second", "stops", "falls"),
    [
        (1.0, 20.0, False, True),  # at 20 bytes a second, reading a file of 400 bytes takes 20 seconds
        (1e-6, 20.0, True, False),  # reading so few bytes of a file takes less time than reading its index
        (1.0, 20e9, True, False),
        (2e-4, 20.0, True, True),  # no more indexes are read; files that were ruled out before are skipped
    ],
)
def test_indexes_are_asked_while_that_saves_more_than_it_costs(
    many: Path,
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    bytes_a_second: float,
    stops: bool,
    falls: bool,
) -> None:
    """Indexes are not read if reading them, and listing the remaining files again, takes more time than reading a
    column of the files."""
    monkeypatch.setattr(survivors, "SCAN_BYTES", bytes_a_second)
    found = survivors_of(many, "city = 'asked for'", share)
    assert len(asked) == (survivors.FUTILE_INDEXES if stops else 20)
    assert found.ruled_out.sum() == (0 if not falls else 6 if stops else 15)
    assert bool(found.notes) == stops


@pytest.mark.parametrize(
    ("slots", "seconds", "falls", "asked_of"),
    [
        (2, 0.05, 1.0, 40),  # two files at a time: reading a file takes longer than evaluating its index
        (2, 0.05, 0.5, 40),
        (2, 0.05, 0.0, 8),
        (1000, 0.05, 1.0, 8),  # a cluster reads all files at the same time, so an index saves little
        (1000, 0.001, 1.0, 40),  # all indexes are read, because this takes little time
    ],
)
def test_indexes_in_a_store_are_asked_side_by_side(
    slots: int, seconds: float, falls: float, asked_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes in a remote store are read at the same time. How many of them are read depends on the time that opening a
    file of this store takes."""
    now = [0.0]
    monkeypatch.setattr(survivors.time, "perf_counter", lambda: now[0])
    batches: list[int] = []

    def at_once(call: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
        began, told = now[0], []
        for item in items:
            now[0] = began
            told.append(call(item))
        now[0] = began + 1.5 * seconds
        batches.append(len(items))
        assert len(items) <= threads
        return told

    monkeypatch.setattr(survivors, "side_by_side", at_once)
    price = survivors._IndexCost(saved=1e-4, once=0.02, slots=slots, remote=True)
    numbers = iter(range(40))

    def question() -> bool:
        now[0] += seconds
        return next(numbers) % 10 < 10 * falls

    rest = 40
    while rest:
        price.ask([question] * min(price.concurrent, rest))
        rest -= batches[-1]
        if rest and (not price.excluded or price.is_too_high(rest)):
            break
    assert price.asked == asked_of
    assert set(batches) == {8}


class _Files(list[str]):
    """A list of files. It has the methods of a Scala sequence in py4j."""

    def __init__(self, texts: list[str], asked: list[int]) -> None:
        super().__init__(texts)
        self.asked = asked

    def size(self) -> int:
        return len(self)

    def slice(self, start: int, stop: int) -> _Files:
        return _Files(self[start:stop], self.asked)

    def mkString(self, between: str) -> str:
        text = between.join(self)
        self.asked.append(len(text))
        return text

    def allFiles(self) -> _Files:
        return self


@pytest.mark.parametrize("count", [0, 1, 24, 120, 121, 1000])
def test_answers_of_the_jvm_are_short_while_files_are_few(count: int) -> None:
    """A text of more than 8 kB takes 40 ms longer. So a few files are fetched in several shorter texts. For many files,
    this would take too many calls, so longer texts are used."""
    status = (
        "DeprecatedRawLocalFileStatus{{path=file:/data/warehouse/events/2026/part-{0:05}-"
        "41e95774-88c0-4594-867a-551281f0bf32-c000.zstd.orc; isDirectory=false; length={0}; replication=1; "
        "blocksize=33554432; modification_time={0}; access_time=1795000000000; owner=; group=; permission=rw-rw-rw-; "
        "isSymlink=false; hasAcl=false; isEncrypted=false; isErasureCoded=false}}"
    )
    asked: list[int] = []
    relation = Relation(None, None, None)
    relation.__dict__["_location"] = _Files([status.format(number) for number in range(count)], asked)
    listing = relation.listing
    assert listing is not None
    assert listing.sizes.tolist() == listing.times.tolist() == list(range(count))
    assert len(listing.names) == count
    assert len(asked) <= 10
    assert count > 120 or max(asked, default=0) < 8192
