"""``orcidx.scan``, and all objects made from a scan, use the indexes beside the files."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from indexed_directory import index_here
from pyarrow import orc
from pyroaring import BitMap

import orcidx
from orcidx import CorruptFile, InvalidQuery, col
from orcidx.planner.index_evidence import StoredIndex
from orcidx.scanner.small_files import SmallFiles

WHERE = col("id") == 1003
"""One of four files has this value. The bitmap of the file names one of its hundred rows."""


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scanned") / "events"
    for number in range(4):
        folder = root / f"day={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = pa.array(range(number * 1000, number * 1000 + 100), pa.int64())
        orc.write_table(
            pa.table({"id": ids, "city": [f"c{n * 7 % 100}" for n in range(100)]}), folder / f"{number}.orc"
        )
    index_here(root, {"bitmap": {"id": {}, "city": {}}})
    return root


def opened(scan: orcidx.Scan, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int]]:
    """Runs the scan. Returns the names of the files that it opens or reads, and the ids that it finds."""
    names: list[str] = []
    plain, take = orcidx.scanner.file_queue.open_job, SmallFiles.take

    def noted(job: Any, *rest: Any) -> Any:
        if job.source.name != "<bytes>":  # the catalog
            names.append(os.path.basename(job.source.name))
        return plain(job, *rest)

    def read(files: SmallFiles, job: Any, **options: Any) -> Any:
        found = take(files, job, **options)
        if found is not None:
            names.append(os.path.basename(job.source.name))
        return found

    scan.schema  # noqa: B018  (opens the first file)
    with monkeypatch.context() as patch:
        patch.setattr(SmallFiles, "take", read)
        patch.setattr("orcidx.scanner.file_queue.open_job", noted)
        return names, [one for batch in scan for one in batch["id"].to_pylist()]


def test_files_that_the_catalog_rules_out_are_not_opened(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = [indexed, [indexed / "day=0", indexed / "day=1"], f"{indexed}/*/*.orc"]
    asked += [sorted(indexed.rglob("*.orc")), indexed / "day=1"]
    for sources in asked:
        assert opened(orcidx.scan(sources, where=WHERE), monkeypatch) == (["1.orc"], [1003]), sources
    names, ids = opened(orcidx.scan(indexed, where=WHERE, indexes="none"), monkeypatch)
    assert (sorted(names), ids) == (["0.orc", "1.orc", "2.orc", "3.orc"], [1003])
    with pytest.raises(InvalidQuery, match="'auto', 'all' or 'none'"):
        orcidx.scan(indexed, indexes="yes")  # type: ignore[arg-type]


def test_rows_are_left_out_by_the_index_of_their_file(indexed: Path) -> None:
    """In each file, the bitmap rules out all rows except one. Statistics cannot do this."""
    scan = orcidx.scan(indexed, where=col("city") == "c7")
    assert {stripe.decision.rows.may.count for stripe in scan.stripes()} == {1}
    assert scan.count_rows() == 4
    assert "Paimon bitmap index" in str(scan.explain())
    batches = orcidx.scan(indexed, where=WHERE).to_batches()
    assert sum(batch.num_rows for batch in batches) == 1
    assert (batches.metrics.files, batches.metrics.files_skipped) == (4, 3)


def test_a_dataset_and_its_fragments_ask_with_the_filter_pushed_into_them(indexed: Path) -> None:
    dataset = orcidx.dataset(indexed)
    assert dataset.to_table(filter=pc.field("id") == 1003)["id"].to_pylist() == [1003]
    assert dataset.last_metrics is not None
    assert dataset.last_metrics.files_skipped == 3
    left = list(dataset.get_fragments(pc.field("id") == 1003))
    assert [one.to_table(filter=pc.field("id") == 1003).num_rows for one in left] == [1]
    assert len(list(dataset.get_fragments())) == 4
    assert orcidx.read_table(indexed, where="id = 1003 and day = 1").num_rows == 1
    assert orcidx.read_table(indexed, where="id = 1003 and day = 0").num_rows == 0
    assert (
        orcidx.read_table(indexed, where="id = 1003 and day = '1'", hive_partitions=False, schema=_with_day()).num_rows
        == 0
    )


def _with_day() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("day", pa.string())])


def test_a_file_that_was_replaced_is_read(indexed: Path, tmp_path: Path) -> None:
    """A file is read with its new content even if it was replaced after the scan had listed the directory."""
    root = shutil.copytree(indexed, tmp_path / "events", copy_function=shutil.copy2)
    scan = orcidx.scan(root, where=WHERE)
    assert scan.count_rows() == 1
    orc.write_table(pa.table({"id": [1003, 1003], "city": ["a", "b"]}), root / "day=0" / "0.orc")
    assert scan.count_rows() == 3
    later = orcidx.scan(root, where=WHERE)
    assert later.count_rows() == 3
    assert "refresh the catalog" in str(later.explain())


def test_a_damaged_catalog_keeps_the_files_and_is_told(indexed: Path, tmp_path: Path) -> None:
    root = shutil.copytree(indexed, tmp_path / "events", copy_function=shutil.copy2)
    for catalog in (root / "_orcidx" / "rollup").iterdir():
        catalog.write_bytes(catalog.read_bytes()[:100])
    scan = orcidx.scan(root, where=WHERE)
    assert scan.count_rows() == 1
    assert "build the indexes again" in str(scan.explain())
    with pytest.raises(CorruptFile, match="build the indexes again"):
        orcidx.scan(root, where=WHERE, strict_index=True).count_rows()


def test_an_index_that_cannot_be_read_keeps_the_files(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise PermissionError("not allowed to list")

    scan = orcidx.scan(indexed, where=WHERE)
    monkeypatch.setattr("orcidx.index_directory.lookup.IndexStore.open", failing)
    assert scan.count_rows() == 1
    assert "not allowed to list" in str(scan.explain())


def test_splits_and_pickles_take_the_indexes_along(indexed: Path) -> None:
    scan = pickle.loads(pickle.dumps(orcidx.scan(indexed, where=col("city") == "c7")))
    splits = [orcidx.Split.from_json(split.to_json()) for split in scan.splits()]
    assert all(isinstance(split.job.file_index, StoredIndex) for split in splits)
    assert sum(split.scan().count_rows() for split in splits) == 4
    assert len(orcidx.scan(indexed, where=WHERE).splits()) == 1
    inside = json.loads(splits[0].to_json())
    assert orcidx.Split.from_json(json.dumps(inside), within=str(indexed)).rows == 100
    inside["job"]["file_index"] = {"source": {"name": "x", "location": "/etc/x", "root": None}, "tail": 1, "types": {}}
    with pytest.raises(InvalidQuery, match="not inside"):
        orcidx.Split.from_json(json.dumps(inside), within=str(indexed))
    for wrong in (
        {"types": 1},
        {"types": {"id": 1}},
        {"types": {}, "source": 5},
        {"types": {}, "bytes": "AA", "tail": "x"},
    ):
        inside["job"]["file_index"] = wrong
        with pytest.raises(InvalidQuery):
            orcidx.Split.from_json(json.dumps(inside))


def test_remote_files_named_one_by_one_are_asked_when_told_to(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in indexed.rglob("*.orc"):
        memory.pipe_file(f"/lake/{path.relative_to(indexed.parent)}", path.read_bytes())
    index_here("memory://lake/events")
    try:
        asked: list[str] = []
        listing = orcidx.storage.folder.Folder.list
        monkeypatch.setattr(
            "orcidx.storage.folder.Folder.list", lambda self, below="": asked.append(self.name) or listing(self, below)
        )
        files = [f"memory://lake/events/day={n % 2}/{n}.orc" for n in range(4)]
        for sources, indexes, skipped, places in (
            ("memory://lake/events", "auto", 3, 1),
            ("memory://lake/events/day=*", "auto", 3, 1),
            ("memory://lake/events/day=1", "auto", 1, 1),
            (files, "auto", 0, 0),
            (files, "all", 3, None),
        ):
            asked.clear()
            batches = orcidx.scan(sources, where=WHERE, hive_partitions=False, indexes=indexes).to_batches()  # type: ignore[arg-type]
            assert sum(batch.num_rows for batch in batches) == 1
            assert batches.metrics.files_skipped >= skipped, (sources, indexes)
            assert places is None or len(asked) == places, (sources, asked)
    finally:
        memory.rm("/lake", recursive=True)


def test_sources_that_have_no_hash_are_explained(indexed: Path) -> None:
    """The sources are files in memory, and a file that is named twice and has a selection."""
    data = next(indexed.rglob("1.orc")).read_bytes()
    for source in (bytearray(data), pa.py_buffer(data), memoryview(data)):
        assert len(orcidx.scan(source, where=WHERE).explain().files) == 1
    path = str(next(indexed.rglob("1.orc")))
    twice = orcidx.scan([path, path], where=WHERE, selection={path: [3]})
    assert twice.to_table().num_rows == 2
    assert len(twice.explain().files) == 2


STORED_MATCHES: dict[str, Callable[[int, int], bool]] = {
    "p = 2": lambda p, i: p == 2,
    "p = 1": lambda p, i: p == 1,
    "p > 1": lambda p, i: p > 1,
    "NOT p = 1": lambda p, i: p != 1,
    "p = 2 OR id = 3": lambda p, i: p == 2 or i == 3,
    "p IN (2, 9) AND id < 5": lambda p, i: p in (2, 9) and i < 5,
    "p IS NULL": lambda p, i: False,
    "p = 9": lambda p, i: False,
}


@pytest.mark.parametrize("key", ["p", "P"])
@pytest.mark.parametrize("embedded", [0, 1 << 20])
def test_a_partition_column_that_the_files_store_has_the_value_of_the_directory(
    tmp_path: Path, key: str, embedded: int
) -> None:
    """The files also store the partition column, but their values may differ from the directory's value. Indexes and
    statistics of the stored values must not rule out files whose rows match by the directory's value."""
    for value in (1, 2, 3):
        (tmp_path / f"{key}={value}").mkdir()
        table = pa.table({"id": list(range(50)), "p": pa.array([1] * 50, pa.int32())})
        orc.write_table(table, tmp_path / f"{key}={value}" / "a.orc")
    index_here(tmp_path, {"bitmap": {"p": {}}, "bloom-filter": {"id": {}}}, embedded_bytes=embedded)
    schemas = (None, pa.schema([("id", pa.int64()), ("p", pa.int32())]))
    for where, matches in STORED_MATCHES.items():
        expected = sorted((i, p) for p in (1, 2, 3) for i in range(50) if matches(p, i))
        for asked, schema in itertools.product({where, where.replace("p ", f"{key} ")}, schemas):
            check_partition_column(tmp_path, key, asked, schema, expected)


def check_partition_column(
    folder: Path, key: str, where: str, schema: pa.Schema | None, expected: list[tuple[int, int]]
) -> None:
    """Compares scans of a directory with the expected values of the columns ``id`` and ``p``."""
    options = {"case_sensitive": key == "p", "schema": schema}
    scan = orcidx.scan(folder, where=where, **options)
    table = scan.to_table()
    assert table.column_names == ["id", key if schema is None else "p"]
    assert sorted(zip(*(column.to_pylist() for column in table.columns))) == expected, where
    assert scan.count_rows() == len(expected), where
    assert scan.explain().funnel
    assert orcidx.scan(folder, ["p"], where, **options).to_table().num_rows == len(expected), where
    first = orcidx.scan(folder, where=where, top=[("p", "desc"), "id"], limit=3, **options)
    order = sorted(expected, key=lambda one: (-one[1], one[0]))[:3]
    assert list(zip(*(column.to_pylist() for column in first.to_table().columns))) == order, where


@pytest.mark.parametrize(
    "where", ["p = 1", "p = 2", "P >= 2", "p IS NULL", "NOT p = 2", "p = 1 OR id = 3", "P + 0 = 2"]
)
@pytest.mark.parametrize("with_index", [False, True])
def test_directories_whose_keys_differ_in_case(tmp_path: Path, with_index: bool, where: str) -> None:
    """``P=`` and ``p=`` are one column if names are compared without regard to case. The column has the values of both
    keys."""
    for folder in ("P=1", "p=2", "p=3/q=4", "P=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / folder).mkdir(parents=True)
        orcidx.write_table(pa.table({"id": list(range(5))}), tmp_path / folder / "a.orc")
    if with_index:
        index_here(tmp_path, {"bitmap": {"id": {}}})
    values = [one for one in (1, None, 2, 3) for _ in range(5)]
    keeps = {
        "p = 1": lambda p, i: p == 1,
        "p = 2": lambda p, i: p == 2,
        "P >= 2": lambda p, i: p is not None and p >= 2,
        "p IS NULL": lambda p, i: p is None,
        "NOT p = 2": lambda p, i: p not in (2, None),
        "p = 1 OR id = 3": lambda p, i: p == 1 or i == 3,
        "P + 0 = 2": lambda p, i: p == 2,
    }[where]
    expected = [(i, p) for number, p in enumerate(values) if keeps(p, i := number % 5)]
    where = where.replace("p ", "P ") if "+" in where else where
    for fresh in ("listing", "catalog") if with_index else ("listing",):
        scan = orcidx.scan(tmp_path, ["id", "P"], where, case_sensitive=False, fresh=fresh)
        assert list(zip(*(column.to_pylist() for column in scan.to_table().columns))) == expected
        assert scan.count_rows() == len(expected)
        total = orcidx.aggregate(tmp_path, {"n": "count(*)"}, where, case_sensitive=False, fresh=fresh)
        assert total["n"].to_pylist() == [len(expected)]
    apart = orcidx.scan(tmp_path, ["P", "p"], "P = 1 OR p = 2").to_table().to_pylist()
    assert apart == [{"P": 1, "p": None}] * 5 + [{"P": None, "p": 2}] * 5


KEYED = {
    "alone": {"z": [1, 1, 1]},
    "beside a number": {"a": [7, 8, 9]},
    "beside a map": {"a": pa.array([[("b", "x")]] * 3, pa.map_(pa.string(), pa.string()))},
}


@pytest.mark.parametrize("others", list(KEYED.values()), ids=list(KEYED))
@pytest.mark.parametrize("embedded", [0, 1 << 20])
def test_a_column_that_is_named_like_a_key_of_a_map_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: dict[str, Any], embedded: int
) -> None:
    """The build must index the column ``a[b]``, and not look for the key ``b`` of a map ``a``."""
    rows = pa.table({**others, "a[b]": [1, 2, 3], "id": [1, 2, 3]})
    orc.write_table(rows, tmp_path / "x.orc")
    orc.write_table(rows.take([0, 2]), tmp_path / "y.orc")
    spec: Any = {"bitmap": {"a[b]": {}}}
    where = col("a[b]") == 2
    index_here(tmp_path, spec, embedded_bytes=embedded)
    names, found = opened(orcidx.scan(tmp_path, where=where), monkeypatch)
    assert (found, "y.orc" in names) == ([2], not embedded)
    skipped = [str(one) for one in orcidx.scan(tmp_path, where=where).explain().to_dict()["files"]]
    assert any("Paimon bitmap index" in one for one in skipped)
    assert orcidx.paimon.build_file_index(tmp_path / "x.orc", spec).evaluate(where).rows == BitMap([1])


@pytest.mark.parametrize("kind", ["bitmap", "bloom-filter", "range-bitmap"])
@pytest.mark.parametrize("embedded_bytes", [0, 100_000])
@pytest.mark.parametrize("char", ["stored", "padded", "trimmed"])
def test_an_index_of_a_char_column(tmp_path: Path, kind: str, embedded_bytes: int, char: str) -> None:
    """The keys of the index are padded with spaces, and its type is STRING. A scan compares values of CHAR without
    their trailing spaces."""
    values = ["A", "b", "A ", "zz", None]
    orcidx.write_table(pa.table({"c": values, "s": values}), tmp_path / "a.orc", types={"c": "char(5)"})
    index_here(tmp_path, {kind: {"c": {}, "s": {}}}, embedded_bytes=embedded_bytes)
    conditions: list[Any] = ["c = 'A'", "c IN ('A', 'x')", "c <> 'A'", "c > 'A'", "c <= 'A'", "c = 'b' AND s = 'b'"]
    conditions += [pc.field("c") == "A", pc.field("c").isin(["A", "x"]), pc.field("c") <= "A", "s = 'A'", "s <> 'A'"]
    for where in conditions:
        scan = orcidx.scan(tmp_path, where=where, char=char)  # type: ignore[arg-type]
        plain = orcidx.scan(tmp_path, where=where, char=char, indexes="none")  # type: ignore[arg-type]
        assert scan.to_table().equals(plain.to_table()), where
        assert scan.count_rows() == plain.count_rows()
    assert orcidx.scan(tmp_path, where="c = 'A'").count_rows() == 2


@pytest.mark.parametrize("fresh", ["listing", "catalog"])
def test_a_note_says_that_indexes_are_not_used_for_positions(tmp_path: Path, fresh: Any) -> None:
    orcidx.write_table(pa.table({"a": [1]}), tmp_path / "0.orc")
    index_here(tmp_path, {"bloom-filter": {"a": {}}})
    schema = pa.schema([("b", pa.int64())])
    for where, told in ((col("b") == 1, True), (None, False)):
        scan = orcidx.scan(tmp_path, where=where, schema=schema, match="position", fresh=fresh)
        assert ('match="position" does not find columns by their names' in str(scan.explain())) == told
        named = orcidx.scan(tmp_path, where=None if where is None else col("a") == 1, fresh=fresh)
        assert "does not find columns" not in str(named.explain())


@pytest.mark.parametrize("fresh", ["listing", "catalog"])
def test_explain_counts_no_bytes_of_files_that_a_scan_does_not_open(tmp_path: Path, fresh: str) -> None:
    """An explanation does not count the bytes of files that are ruled out. If no schema is given, the first file is an
    exception, because its tail is read for the schema."""
    rows = 40_000
    for number in range(3):
        folder = tmp_path / f"day={number}"
        folder.mkdir()
        ids = range(number * rows, (number + 1) * rows)
        orcidx.write_table(pa.table({"id": ids, "s": [f"{n * 2654435761 % 2**32:x}" for n in ids]}), folder / "a.orc")
    index_here(tmp_path, {"bitmap": {"id": {}}})
    schema = orcidx.scan(tmp_path).schema
    last = 2 * rows + 7
    for where, left in (("day = 2", 2), (f"id = {last}", 2), (f"day = 1 and id = {rows + 7}", 1), ("id = 3", 0)):
        scan = orcidx.scan(tmp_path, where=where, fresh=fresh)
        told = scan.explain()
        assert [number for number, file in enumerate(told.files) if file.kept] == [left]
        assert [file.read_bytes > 0 for file in told.files[1:]] == [left == 1, left == 2]
        known = orcidx.scan(tmp_path, where=where, fresh=fresh, schema=schema).explain()
        assert [file.read_bytes > 0 for file in known.files] == [number == left for number in range(3)]
        assert {stage.of for stage in told.funnel} == {"all files"}
        assert told.funnel == known.funnel
        assert told.funnel[-1].before > 3 * 100_000, "explain opens all files, so it knows the bytes of all files"
