"""The indexes of a plain directory: what the catalog proves, when it is stale, and how it is written."""

from __future__ import annotations

import datetime
import decimal
import os
import pickle
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyorc
import pytest
from indexed_directory import SPEC, catalog_of, index_here
from pyarrow import orc

import orcidx
from orcidx import InvalidQuery, StorageError, paimon
from orcidx.errors import CorruptFile
from orcidx.index_directory.build import IndexSpec, index_file
from orcidx.index_directory.catalog import FILE_FIELDS, OBSERVED, Catalog, StatisticsKey
from orcidx.index_directory.catalog_file import CatalogFile
from orcidx.index_directory.file_pruning import changed_statistics, columns_asked_of
from orcidx.index_directory.store import IndexStore, listing_table
from orcidx.options import ReadOptions
from orcidx.planner.request import FileJob
from orcidx.scanner.file import make_scan
from orcidx.storage import Source, list_sources


def events(start: int, rows: int = 100) -> pa.Table:
    numbers = range(start, start + rows)
    cities = pa.array([f"c{n % 7}-{start}" for n in numbers], pa.string())
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": cities})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for start in range(0, 600, 100):
        folder = tmp_path / "data" / f"day={start // 200}"
        folder.mkdir(parents=True, exist_ok=True)
        orc.write_table(events(start), folder / f"{start}.orc")
    return tmp_path / "data"


def opened(root: Path) -> IndexStore:
    store = IndexStore.open(root)
    assert store is not None
    return store


def kept(store: IndexStore, where: Any, **options: Any) -> list[str]:
    sources = list_sources(store.root)
    return [Path(sources[i].name).stem for i in store.plan(sources, where, **options).kept]


# ---------------------------------------------------------------------- planning


def test_files_are_ruled_out_by_statistics_and_partitions(directory: Path) -> None:
    index_here(directory)
    store = opened(directory)
    assert kept(store, None) == ["0", "100", "200", "300", "400", "500"]
    assert kept(store, "id BETWEEN 150 AND 220") == ["100", "200"]
    assert kept(store, "id < 0") == []
    assert kept(store, "day = 1 AND id <> 250") == ["200", "300"]
    assert kept(store, "(day = 0 AND id = 20) OR (day = 2 AND id = 20)") == ["0"]
    assert kept(store, "city IS NULL OR id = 500") == ["500"]
    assert kept(store, "ID = 500", options=ReadOptions(case_sensitive=False)) == ["500"]


def test_partitions_have_the_types_that_are_given(directory: Path) -> None:
    store = index_here(directory)
    assert kept(store, "day < '10'", schema=pa.schema([("day", pa.string())])) == ["0", "100", "200", "300"]
    assert kept(store, "day < 10 AND id < 250", schema=pa.schema([("day", pa.int32())])) == ["0", "100", "200"]
    assert kept(store, "day = 1 AND id < 250", schema=pa.schema([])) == ["0", "100", "200"]


def test_the_reason_is_told(directory: Path) -> None:
    plan = index_here(directory).plan(list_sources(directory), "id > 550 AND day > 0")
    assert [str(reason) for reason in plan.reasons(0)] == ["col('day') > 0: is 0 in the whole file (partition)"]
    assert "max 499, no null (file statistics)" in str(plan.reasons(4)[0])
    assert plan.rows.tolist() == [100] * 6


def test_files_of_no_row_and_of_one(directory: Path) -> None:
    orc.write_table(events(0, 0), directory / "day=0" / "empty.orc")
    orc.write_table(events(700, 1), directory / "day=2" / "single.orc")
    store = index_here(directory, embedded_bytes=1 << 20)
    sources = list_sources(directory)
    names = [Path(source.name).stem for source in sources]
    empty, single = names.index("empty"), names.index("single")
    for where in (None, "id >= 0", "city = 'c0-700' OR id = 5", "city = 'c0-700' OR day = 7"):
        plan = store.plan(sources, where)
        assert empty not in plan.kept
        assert single in plan.kept
        assert [str(reason) for reason in plan.reasons(empty)] == ["the file has no rows (catalog)"]
        assert all(plan.reasons(file) == () for file in plan.kept)
    assert store.plan(sources, "city = 'c0-701' OR day = 7").kept.tolist() == []


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, set()),
        ({"timezone": "Europe/Oslo"}, {"date", "timestamp"}),
        ({"calendar": "stored"}, {"date", "timestamp"}),
        ({"timestamp_ntz": False}, {"bigint"}),
        ({"utf8": "replace"}, {"string"}),
        ({"utf8": "unchecked"}, set()),
        ({"decimal_zero_precision": (38, 2)}, {"decimal(0,0)"}),
        ({"decimal_zero_precision": (38, 2), "utf8": "replace"}, {"decimal(0,0)", "string"}),
    ],
)
def test_options_with_which_the_statistics_do_not_apply(options: dict[str, Any], changed: set[str]) -> None:
    kinds = ("bigint", "string", "date", "timestamp", "decimal(0,0)", "decimal(9,2)", "double")
    catalog: Any = SimpleNamespace(statistics={StatisticsKey("c", kind): None for kind in kinds})
    off = changed_statistics(catalog, ReadOptions(**options))
    assert {key.type for key in off} == changed
    assert all("cannot be used with the option" in note.text for note in off.values())


def test_columns_that_a_predicate_may_mean() -> None:
    assert columns_asked_of(None) == set()
    assert columns_asked_of(None, ["t"]) == {"t"}
    assert columns_asked_of(orcidx.predicate.parse("a = 1 OR NOT b > 2"), ["t"]) == {"a", "b", "t"}
    assert columns_asked_of(orcidx.col("a.b.c") == 1) == {"a", "a.b", "a.b.c"}


@pytest.mark.parametrize("where", ["nowhere = 1 AND id = 5", "id = 'text' AND id < 100", "city LIKE '%5%' AND id < 50"])
def test_what_cannot_be_asked_rules_nothing_out(directory: Path, where: str) -> None:
    assert kept(index_here(directory), where) == ["0"]


def test_an_index_is_handed_out_where_the_predicate_asks_its_column(directory: Path) -> None:
    store = index_here(directory)
    sources = list_sources(directory)
    assert store.plan(sources, "day = 1").index_of(2) is None
    assert store.plan(sources).index_of(2) is None
    plan = store.plan(sources, "city = 'c1-200' AND id > 0")
    where = orcidx.predicate.parse("city = 'c1-200' AND id > 0")
    for i in plan.kept.tolist():
        job = FileJob(sources[i], file_index=plan.index_of(i), fingerprint=sources[i].listed)
        scan = make_scan(
            pickle.loads(pickle.dumps([job])), None, where, limit=None, row_numbers=False, schema=None,
            options=ReadOptions(),
        )  # fmt: skip
        explained = str(scan.explain())
        assert scan.count_rows() == (14 if i == 2 else 0)
        assert "the index keeps" in explained


def test_small_indexes_are_in_the_catalog(directory: Path) -> None:
    store = index_here(directory, {"bloom-filter": {"id": {"items": 10}}})
    plan = store.plan(list_sources(directory), "id = 3")
    found = plan.index_of(0)
    assert found is not None
    built = paimon.build_file_index(str(directory / "day=0" / "0.orc"), {"bloom-filter": {"id": {"items": 10}}})
    assert found.data == built.to_bytes()
    assert not (directory / "_orcidx" / "index").exists()


def test_embedded_indexes_are_asked_by_the_plan(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = index_here(directory, embedded_bytes=1 << 20)
    sources = list_sources(directory)
    plan = store.plan(sources, "CITY = 'c1-300' AND Id > 5", options=ReadOptions(case_sensitive=False))
    assert plan.kept.tolist() == [3]
    assert str(plan.reasons(1)[0]) == "no row of the file matches by its index in the catalog (Paimon file index)"
    assert "file statistics" in str(store.plan(sources, "city = 'c1-300' AND id > 350").reasons(1)[0])
    assert store.plan(sources, "city LIKE '%300' AND day = 2").kept.tolist() == [4, 5]
    monkeypatch.setattr("orcidx.index_directory.file_pruning.MOST_EVALUATED", 2)
    assert len(store.plan(sources, "city = 'c1-300' AND id < 1000").kept) == 6


def test_a_damaged_embedded_index_rules_nothing_out(directory: Path) -> None:
    store = index_here(directory, embedded_bytes=1 << 20)
    whole = store.catalogs.read()
    cut = [data.as_py()[:-5] for data in whole.files["embedded"]]
    place = whole.files.schema.get_field_index("embedded")
    damaged = whole.files.set_column(place, "embedded", pa.array(cut, pa.binary()))
    store = store.commit(Catalog(damaged, whole.statistics, whole.spec, whole.spec_key))
    sources = list_sources(directory)
    plan = store.plan(sources, "id = 3 AND city = 'c3-0'")
    assert plan.kept.tolist() == [0]
    index = plan.index_of(0)
    assert orcidx.scan(sources[0], where="id = 3", file_index={sources[0].name: index}).count_rows() == 1


def test_indexes_equal_a_build_by_hand(directory: Path) -> None:
    index_here(directory)
    for path in directory.glob("*/*.orc"):
        (made,) = (directory / "_orcidx" / "index" / path.parent.name).glob(f"{path.name}.*.index")
        assert made.read_bytes() == paimon.build_file_index(str(path), SPEC).to_bytes()


def test_a_plan_takes_two_reads(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_here(directory)
    listed: list[str] = []
    readers: list[Any] = []
    walk, open_source = os.walk, Source.open
    monkeypatch.setattr(os, "walk", lambda path: (listed.append(path), walk(path))[1])
    monkeypatch.setattr(
        Source, "open", lambda self, *args, **kw: (readers.append(open_source(self, *args, **kw)), readers[-1])[1]
    )
    sources = list_sources(directory)
    plan = opened(directory).plan(sources, "id = 5 AND city = 'c5-0'")
    assert plan.kept.tolist() == [0]
    assert listed == [str(directory / "_orcidx" / "rollup")]
    assert sum(reader.metrics.requests for reader in readers) == 1


# ---------------------------------------------------------------------- soundness


def _typed_files(root: Path, rng: np.random.Generator) -> None:
    """Writes files in which columns have several types, with nulls, NaN, CHAR, and texts that the catalog cuts."""
    kinds = ["int", "bigint", "double", "decimal(20,3)", "timestamp", "date", "string", "char(6)", "boolean", "binary"]
    for number in range(20):
        kind = kinds[number % len(kinds)]
        base = int(rng.integers(-50, 50))
        values = [_value(kind, base + int(rng.integers(0, 6)), rng) for _ in range(30)]
        values = [None if rng.random() < 0.1 else value for value in values] if number % 3 else values
        with (
            open(root / f"{number:02}.orc", "wb") as file,
            pyorc.Writer(file, f"struct<x:{kind},n:int>", row_index_stride=1000) as writer,
        ):
            for i, value in enumerate(values):
                writer.write((value, i if number % 4 else None))


def _value(kind: str, n: int, rng: np.random.Generator) -> Any:
    if kind in ("int", "bigint"):
        return n
    if kind == "double":
        return float("nan") if rng.random() < 0.1 else n / 2
    if kind.startswith("decimal"):
        return decimal.Decimal(n * 1250).scaleb(-3)
    if kind == "timestamp":
        return datetime.datetime(2020, 1, 1) + datetime.timedelta(days=n, microseconds=n % 3)
    if kind == "date":
        return datetime.date(2020, 1, 1) + datetime.timedelta(days=n)
    if kind == "boolean":
        return n % 2 == 0
    text = f"{n + 60:03}" + ("\U0001f600" * 40 if n % 5 == 0 and kind == "string" else "")
    return text.encode() if kind == "binary" else text


QUESTIONS = [
    *("x = 3", "x <> 3", "x < 2.5", "x >= 10", "x IN (1, 7, 20)", "x NOT IN (1, 2, 3)", "x BETWEEN 0 AND 5", "x = 7.5"),
    *("NOT x > 4", "x <= 1.0000000000000000000001", "x IS NULL", "x IS NOT NULL", "x = '2020-01-20'", "x = true"),
    *(
        "x > '2020-02-01 00:00:00.000001'",
        "x > '2020-02-01T00:00:00Z'",
        "x = '062'",
        "x >= '090'",
        "x LIKE '06%'",
        "x = 3 OR n IS NULL",
    ),
    *("x IS NULL AND n > 28", "x <=> 3", "NOT (x <=> 3)"),
]


AS_SPARK = {
    "nan": "largest", "timestamp_unit": "us", "char": "padded", "utf8": "unchecked", "decimal_rounding": "half_up",
    "decimal_zero_precision": (38, 10),
}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{"nan": "ieee"}, {**AS_SPARK, "wall_clock_zone": "America/New_York"}, {"calendar": "stored"}],
    ids=["default", "spark", "stored calendar"],
)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_no_file_with_a_matching_row_is_ruled_out(
    tmp_path: Path, rng: np.random.Generator, options: Any, every: int
) -> None:
    _typed_files(tmp_path, rng)
    store = index_here(tmp_path, {"bloom-filter": {"n": {"items": 10}}})
    sources = list_sources(tmp_path)
    pruned = asked = 0
    questions = [*QUESTIONS, orcidx.col("x") == b"062", orcidx.col("x").starts_with("065\U0001f600")]
    for where in questions[int(rng.integers(every)) :: every]:
        chosen = set(store.plan(sources, where, options=ReadOptions(**options)).kept.tolist())
        for i, source in enumerate(sources):
            try:
                count = orcidx.scan(source, where=where, row_index=False, **options).count_rows()
            except InvalidQuery:
                continue
            asked += 1
            pruned += i not in chosen
            assert count == 0 or i in chosen, (where, source.name)
    assert pruned > asked / 4


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("city = 'c1-100' OR id = 350", ["100", "300"]),
        ("(city = 'c1-100' OR id = 350) AND id > 0", ["100", "300"]),
        ("(city = 'c1-100' AND id > 350) OR id = 20", ["0"]),
        ("city = 'c1-100' OR city = 'c2-500' OR (id > 350 AND id < 352)", ["100", "300", "500"]),
        ("city = 'c1-100' OR day = 2", ["100", "400", "500"]),
        ("NOT (city <> 'c1-100' AND id <> 350)", ["100", "300"]),
    ],
)
def test_an_index_and_statistics_rule_out_the_parts_of_an_or_together(
    directory: Path, where: str, left: list[str]
) -> None:
    """The index of ``city`` alone cannot decide ``city = 'x' OR id = 350``. Statistics rule out ``id = 350``."""
    for path in directory.rglob("*.orc"):
        # All cities are between "c0" and "d", so statistics of city rule nothing out.
        ends = pa.table({"id": [int(path.stem)] * 2, "city": ["c0", "d"]})
        orc.write_table(pa.concat_tables([events(int(path.stem)), ends]), path)
    store = index_here(directory, {"bloom-filter": {"city": {"items": 100, "fpp": 0.0001}}}, embedded_bytes=1 << 20)
    assert sorted(kept(store, where)) == left
    many = " OR ".join([where, *(f"id = {number}" for number in range(1000, 1017))])
    assert set(left) <= set(kept(store, many)), "with so many parts, files may remain"


def test_only_the_columns_that_an_option_changes_are_silent(tmp_path: Path) -> None:
    rows = pa.table({"d": pa.array([1, 2], pa.decimal128(9, 2)), "i": [1, 2]})
    orc.write_table(rows, tmp_path / "a.orc")
    store = index_here(tmp_path, {"bloom-filter": {"i": {"items": 1}}})
    other = ReadOptions(decimal_zero_precision=(38, 10), timezone="Asia/Tokyo", decimal_rounding="half_up")
    assert kept(store, "d > 5", options=other) == []
    assert kept(store, "i > 5", options=other) == []
    assert kept(store, "i > 5 OR d > 5", options=ReadOptions(utf8="unchecked")) == []


def test_statistics_do_not_hold_for_other_readings(tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ns"))})
    orc.write_table(rows, tmp_path / "a.orc")
    store = index_here(tmp_path, {"bloom-filter": {"t": {"items": 1}}})
    assert kept(store, "t > '2021-01-01'") == []
    sources = list_sources(tmp_path)
    plan = store.plan(sources, "t > '2021-01-01'", options=ReadOptions(timezone="Asia/Tokyo"))
    assert plan.kept.tolist() == [0]
    assert plan.notes[0].kind == "off"


# ---------------------------------------------------------------------- staleness


def _rewrite(path: Path, table: pa.Table) -> None:
    """Writes other rows into a file. The size of the file must not change."""
    size = path.stat().st_size
    orc.write_table(table, path)
    assert path.stat().st_size == size


def test_a_file_that_changed_is_read_and_told(directory: Path) -> None:
    store = index_here(directory)
    path = directory / "day=0" / "100.orc"
    _rewrite(path, events(300).set_column(1, "city", events(100)["city"]))
    sources = list_sources(directory)
    plan = store.plan(sources, "id = 333")
    assert [sources[i].name for i in plan.kept] == [str(path), str(directory / "day=1" / "300.orc")]
    assert plan.index_of(1) is None
    assert plan.index_of(3) is not None
    assert plan.rows.tolist() == [100, -1, 100, 100, 100, 100]
    (note,) = plan.notes
    assert (note.kind, note.source) == ("stale", "catalog")
    assert "1 of 6 files changed after the catalog was made, such as day=0/100.orc: refresh the catalog" in note.text


def test_the_time_alone_makes_stale(directory: Path) -> None:
    store = index_here(directory)
    path = directory / "day=0" / "0.orc"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert store.plan(list_sources(directory), "id = 599").kept.tolist() == [0, 5]


def test_the_tail_tells_what_size_and_time_hide(directory: Path) -> None:
    store = index_here(directory)
    path = directory / "day=0" / "0.orc"
    before = path.stat()
    _rewrite(path, events(0).set_column(1, "city", pa.array([f"d{n % 7}-0" for n in range(100)])))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    source = list_sources(directory)[0]
    index = store.plan([source], "city = 'c1-0'").index_of(0)
    explained = orcidx.scan(source, where="city = 'c1-0'", file_index={source.name: index}).explain()
    assert ("Paimon file index", "stale") in [(note.source, note.kind) for note in explained.notes]


def test_a_version_that_nothing_tells_is_no_match(directory: Path) -> None:
    store = index_here(directory)
    listing = listing_table(store.root, list_sources(directory))
    blind = listing.set_column(2, "mtime", pa.nulls(6, pa.int64()))
    assert store.match(listing).fresh.all()
    assert not store.match(blind).fresh.any()


def test_times_that_a_listing_cuts_to_milliseconds(directory: Path) -> None:
    store = index_here(directory)
    listing = listing_table(store.root, list_sources(directory))
    times = pc.multiply(pc.divide(listing["mtime"], 1_000_000), 1_000_000)
    cut = listing.set_column(2, "mtime", times)
    assert not store.match(cut).fresh.all()
    assert store.match(cut, unit=1_000_000).fresh.all()
    moved = listing.set_column(2, "mtime", pc.add(times, 1_000_000))
    assert not store.match(moved, unit=1_000_000).fresh.any()


def test_an_index_that_is_gone_loses_nothing(directory: Path) -> None:
    store = index_here(directory)
    sources = list_sources(directory)
    index = store.plan(sources, "city = 'c1-0'").index_of(0)
    for path in (directory / "_orcidx" / "index").rglob("*.index"):
        path.unlink()
    scan = orcidx.scan(sources[0], where="city = 'c1-0'", file_index={sources[0].name: index})
    assert scan.count_rows() == 15
    assert ("Paimon file index", "absent") in [(note.source, note.kind) for note in scan.explain().notes]


# ---------------------------------------------------------------------- indexing one file


def test_a_file_that_is_listed_otherwise_is_refused(directory: Path) -> None:
    store = IndexStore.open(directory, create=True)
    assert store is not None
    source = list_sources(directory)[0]
    orc.write_table(events(7, 50), source.name)
    row = index_file(store.folder, source, "day=0/0.orc", IndexSpec.of(SPEC), ReadOptions())
    assert "has changed" in row["error"]
    assert source.name in row["error"]
    assert not row["is_final"]
    assert not (directory / "_orcidx").exists()


def test_bad_files_have_a_row_with_their_error(tmp_path: Path) -> None:
    (tmp_path / "bad.orc").write_bytes(b"nonsense")
    (tmp_path / "empty.orc").write_bytes(b"")
    orc.write_table(events(0, 0), tmp_path / "none.orc")
    orc.write_table(events(0).drop(["city"]), tmp_path / "old.orc")
    store = index_here(tmp_path)
    rows = {row["path"]: row for row in store.catalogs.read().files.to_pylist()}
    assert re.match(r"CorruptFile: .*bad\.orc", rows["bad.orc"]["error"])
    assert (rows["empty.orc"]["rows"], rows["none.orc"]["rows"]) == (0, 0)
    assert [one["column"] for one in rows["old.orc"]["indexes"]] == ["id"]
    assert kept(store, "city = 'x'") == ["bad", "old"]


def test_a_second_run_takes_what_is_there(directory: Path) -> None:
    index_here(directory)
    made = {path: path.read_bytes() for path in directory.rglob("*.index")}
    again = index_here(directory).catalogs.read(files=("read_bytes", "index"), columns=()).files
    assert not pc.any(pc.is_valid(again["read_bytes"])).as_py(), "no data was read"
    assert {path: path.read_bytes() for path in directory.rglob("*.index")} == made
    assert len(made) == 6
    damaged = next(iter(made))
    whole = damaged.read_bytes()
    damaged.write_bytes(b"")
    index_here(directory)
    assert damaged.read_bytes() == whole


def test_a_spec_without_an_index_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="contains no index"):
        IndexSpec.of({"bitmap": {}})


# ---------------------------------------------------------------------- writing the catalog


def _row(path: str, rows: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(FILE_FIELDS.names)
    return {**row, "path": path, "rows": rows, "size": 1, "mtime": 1, "statistics": [], "is_final": True}


def test_news_are_parts_until_they_are_many(tmp_path: Path) -> None:
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    store = store.commit(catalog_of([_row(f"{i:04}", i) for i in range(100)], spec))
    for i in range(8):
        store = store.commit(catalog_of([_row(f"{i:04}", 1000 + i), _row(f"new{i}", i)], spec))
        assert store.catalogs.names[0] == "rollup/00000001.catalog"
    listed = pa.array([*(f"{i:04}" for i in range(50)), "last"])
    store = store.commit(catalog_of([_row("last", 7)], spec), listed=listed)
    assert store.catalogs.names == ("rollup/00000010.catalog",)
    files = opened(tmp_path).catalogs.read().files
    assert dict(zip(files["path"].to_pylist(), files["rows"].to_pylist())) == {
        **{f"{i:04}": i for i in range(8, 50)},
        **{f"{i:04}": 1000 + i for i in range(8)},
        "last": 7,
    }


def test_of_two_jobs_both_rows_stay(tmp_path: Path) -> None:
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    jobs = [
        threading.Thread(target=store.commit, args=(catalog_of([_row(f"f{i}", i)], spec),)) for i in range(6)
    ]  # fmt: skip
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert sorted(opened(tmp_path).catalogs.read().files["path"].to_pylist()) == [f"f{i}" for i in range(6)]
    other = IndexSpec.of({"bsi": {"id": {}}})
    with pytest.raises(StorageError, match="another spec"):
        store.commit(catalog_of([_row("f", 1)], other))


def test_a_commit_on_an_old_listing_is_not_lost(tmp_path: Path) -> None:
    """A partial catalog must not take a number that a whole catalog has used, or that ``clean`` has freed. If its
    number were below that of the last whole catalog, the partial catalog would be committed but never read."""
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    slow = store.commit(catalog_of([_row(f"{i:02}", i) for i in range(40)], spec))
    assert slow.catalogs.listing.spec_key
    slow.catalogs.read()
    fast = slow
    for number in range(3):
        fast = fast.commit(catalog_of([_row(f"{i:02}", 100 + number) for i in range(40)], spec))
    for name in (1, 2):
        fast.folder.delete(f"rollup/{name:08}.catalog")
    after = slow.commit(catalog_of([_row("new", 7)], spec))
    files = opened(tmp_path).catalogs.read().files
    rows = dict(zip(files["path"].to_pylist(), files["rows"].to_pylist()))
    assert rows == {**{f"{i:02}": 102 for i in range(40)}, "new": 7}
    assert after.catalogs.generation == 5, "number 2 is free, but smaller than that of the last whole catalog"


@pytest.mark.parametrize(
    "name",
    ["../x", "index/../../x", "/etc/x", "index/a/../../../x", "rollup/x", "index/", "index//x", "index/a\\..\\x"],
)
def test_a_catalog_that_names_an_index_elsewhere_is_an_error(tmp_path: Path, name: str) -> None:
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    store.commit(catalog_of([{**_row("a", 1), "index": "index/day=1/a b%20..orc.0.index", "index_size": 5}], spec))
    assert opened(tmp_path).catalogs.read().files["index"].to_pylist()
    store.commit(catalog_of([{**_row("a", 1), "index": name, "index_size": 5}], spec))
    with pytest.raises(CorruptFile, match="outside its folder"):
        opened(tmp_path).catalogs.read()


def test_what_stands_on_a_catalog_that_is_gone_is_an_error(tmp_path: Path) -> None:
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    store = store.commit(catalog_of([_row(f"{i:02}", i) for i in range(40)], spec))
    store = store.commit(catalog_of([_row("new", 7)], spec))
    assert store.catalogs.names == ("rollup/00000001.catalog", "rollup/00000002.catalog")
    store.folder.delete("rollup/00000001.catalog")
    with pytest.raises(CorruptFile, match=r"last whole catalog is missing.*build the indexes again"):
        opened(tmp_path).catalogs.read()
    store = opened(tmp_path).commit(catalog_of([_row("x", 1)], spec))
    assert opened(tmp_path).catalogs.read().files["path"].to_pylist() == ["x"]
    assert store.catalogs.generation == 3


def test_an_answer_that_is_lost_neither_loses_nor_doubles_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = IndexSpec.of(SPEC)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    link = os.link
    failures = [ConnectionResetError("lost")]

    def lossy(old: str, new: str) -> None:
        link(old, new)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(os, "link", lossy)
    store = store.commit(catalog_of([_row("a", 1)], spec))
    assert not failures
    assert store.catalogs.generation == 1
    assert opened(tmp_path).catalogs.read().files["path"].to_pylist() == ["a"]


def test_a_damaged_catalog_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "_orcidx" / "rollup").mkdir(parents=True)
    (tmp_path / "_orcidx" / "rollup" / "00000001.catalog").write_bytes(b"PAR1")
    with pytest.raises(CorruptFile, match=r"not a catalog.*00000001\.catalog"):
        opened(tmp_path).plan([])


def test_a_catalog_with_a_byte_changed_is_an_error_or_loses_no_file(directory: Path, rng: np.random.Generator) -> None:
    store = index_here(directory)
    path = directory / "_orcidx" / store.catalogs.names[0]
    whole = path.read_bytes()
    questions = ["id = 420", "city = 'c3' AND id > 100", None]
    expected = [set(kept(store, where)) for where in questions]
    outcomes = set()
    for place in range(int(rng.integers(0, 97)), len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            assert all(set(kept(opened(directory), where)) >= files for where, files in zip(questions, expected))
            outcomes.add("accepted")
        except CorruptFile as error:
            outcomes.add(str(error).rpartition("; ")[2].partition(" (")[0])
    assert outcomes == {"accepted", "build the indexes again"}


def test_without_a_catalog_there_is_no_store(tmp_path: Path) -> None:
    assert IndexStore.open(tmp_path) is None
    assert IndexStore.open(b"bytes") is None
    assert IndexStore.open(tmp_path / "nowhere") is None


def test_a_large_catalog_is_read_in_ranges(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_here(directory)
    monkeypatch.setattr("orcidx.index_directory.catalogs.READ_AT_ONCE", 1000)
    assert kept(opened(directory), "id = 420") == ["400"]


def test_statistics_survive_the_bytes() -> None:
    statistics = [
        [{"column": "a", "type": "bigint", "count": 3, "flags": 1, "low_integer": -1, "high_integer": 5, "sum": 7}],
        [],
        [
            {"column": "a", "type": "string", "count": 3, "flags": 0, "low_bytes": b"x"},
            {"column": "a", "type": "bigint", "count": 0, "flags": 3},
        ],
    ]
    files = pa.Table.from_pylist([_row(f"{i}", i) for i in range(3)], schema=FILE_FIELDS)
    made = Catalog.observed(files, pa.array(statistics, OBSERVED), {"spec": {}}, "key")
    file = CatalogFile(made.to_bytes())
    read = Catalog.read(file)
    assert read.files.equals(made.files)
    assert read.spec_key == "key"
    assert read.statistics[StatisticsKey("a", "bigint")].to_pylist() == [
        {"count": 3, "flags": 1, "low": -1, "high": 5, "sum": 7},
        None,
        {"count": 0, "flags": 3, "low": None, "high": None, "sum": None},
    ]
    assert read.statistics[StatisticsKey("a", "string")][2].as_py()["low"] == b"x"
    assert Catalog.read(file, files=["path"], columns=["b"]).statistics == {}


def _indexed_rows(store: IndexStore, sources: list[Source], names: set[str]) -> Catalog:
    wanted = IndexSpec.of(SPEC)
    paths = listing_table(store.root, sources)["path"].to_pylist()
    pairs = [(source, path) for source, path in zip(sources, paths, strict=True) if path in names]
    return catalog_of([index_file(store.folder, *pair, wanted, ReadOptions()) for pair in pairs], wanted)


def test_a_job_that_listed_earlier_drops_nothing_that_another_has_committed(tmp_path: Path) -> None:
    """The early job lists the directory before another job commits. So its listing lacks a file that came later, and
    has the old version of a file that changed. The commit of the early job must keep what the other job committed."""
    for name in ("a", "b", "c"):
        orc.write_table(events(100), tmp_path / f"{name}.orc")
    index_here(tmp_path)
    (tmp_path / "c.orc").unlink()
    orc.write_table(events(300), tmp_path / "b.orc")
    early = opened(tmp_path)
    listed = list_sources(tmp_path)
    rows = _indexed_rows(early, listed, {"b.orc"})
    orc.write_table(events(500, 200), tmp_path / "b.orc")
    orc.write_table(events(700), tmp_path / "d.orc")
    late = opened(tmp_path)
    sources = list_sources(tmp_path)
    late.commit(_indexed_rows(late, sources, {"b.orc", "d.orc"}))
    paths = listing_table(early.root, listed)["path"].combine_chunks()
    store = early.commit(rows, listed=paths)
    assert store.match(listing_table(store.root, sources)).fresh.all()
    assert sorted(store.catalogs.read(files=("rows",), columns=()).files.to_pydict().items()) == [
        ("path", ["a.orc", "b.orc", "d.orc"]),
        ("rows", [100, 200, 100]),
    ]


def test_catalogs_of_version_1_count_as_unknown(directory: Path) -> None:
    """Catalogs of version 1 are Parquet files. They are not read, but their numbers stay in use. A refresh replaces
    them."""
    rollup = directory / "_orcidx" / "rollup"
    rollup.mkdir(parents=True)
    (rollup / "00000007.parquet").write_bytes(b"PAR1")
    store = opened(directory)
    assert (store.catalogs.generation, store.catalogs.names) == (7, ())
    sources = list_sources(directory)
    plan = store.plan(sources, "id = 420")
    assert len(plan.kept) == len(sources)
    assert not plan.matching.any() or not plan.fresh.any()
    assert "are not in the catalog" in plan.notes[0].text
    index_here(directory)
    assert opened(directory).catalogs.names == ("rollup/00000008.catalog",)
    assert kept(opened(directory), "id = 420") == ["400"]


def test_no_flipped_bit_of_a_catalog_is_believed(rng: np.random.Generator) -> None:
    """A catalog needs its own checksums, because ORC has none."""
    statistics = [
        [{"column": "a", "type": "bigint", "count": 3, "flags": 96, "low_integer": i, "sum": i}] for i in range(9)
    ]
    files = pa.Table.from_pylist([_row(f"{i}", i) for i in range(9)], schema=FILE_FIELDS)
    made = Catalog.observed(files, pa.array(statistics, OBSERVED), {"spec": {}}, "key")
    known = {key: array.to_pylist() for key, array in made.statistics.items()}
    data = made.to_bytes()
    damaged = 0
    for place in rng.integers(0, 8 * len(data), 300).tolist():
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            found = Catalog.read(CatalogFile(bytes(changed)))
        except CorruptFile:
            damaged += 1
            continue
        assert found.files.equals(made.files)
        assert {key: array.to_pylist() for key, array in found.statistics.items()} == known
        assert (found.spec, found.spec_key) == (made.spec, made.spec_key)
    assert damaged > 200
