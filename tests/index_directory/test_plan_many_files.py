"""Planning over 100,000 listed files, with a real catalog of their statistics and a simulated listing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from work_done import python_calls

from orcidx.index_directory import index_rows
from orcidx.index_directory.build import INDEXED, IndexSpec
from orcidx.index_directory.catalog import OBSERVED, Catalog
from orcidx.index_directory.file_versions import LISTING
from orcidx.index_directory.store import IndexStore
from orcidx.predicate import parse
from orcidx.storage import Source

FILES = 100_000
SPEC = IndexSpec.of({"bloom-filter": {"user": {"items": 1000}}})


def simulated(folder: Path, count: int) -> pa.Table:
    """Writes a catalog of ``count`` files into ``folder`` and returns their listing. The files have 4 columns, and
    embedded indexes of 100 bytes."""
    numbers = np.arange(count)
    paths = [f"day={n // 1000:03}/part-{n:05}-8c1f0d2e-5b1c-4f0e-9d3a-c000.zstd.orc" for n in numbers]
    listing = pa.table(
        [paths, numbers + 1_000_000, numbers * 1000 + 10**18, pa.nulls(count, pa.string())], schema=LISTING
    )
    rows = pa.repeat(10_000, count).cast(pa.int64())
    columns: dict[str, Any] = {name: pa.nulls(count, INDEXED.field(name).type) for name in INDEXED.names}
    columns |= {name: listing[name] for name in LISTING.names} | {"rows": rows, "tail": rows}
    columns["embedded"] = pa.array([b"%0100d" % n for n in range(count)], pa.binary())
    columns["spec"] = pa.repeat(SPEC.key, count)
    catalog = Catalog.observed(pa.table(columns), _observed(count), SPEC.to_dict(), SPEC.key)
    store = IndexStore.open(folder, create=True)
    assert store is not None
    store.commit(catalog)
    return listing


def _observed(count: int) -> pa.Array:
    """Returns statistics. ``id`` grows from file to file, ``user`` and ``price`` do not, ``city`` has few values per
    file."""
    numbers = np.repeat(np.arange(count), 4)
    number_of = np.tile(np.arange(4), count)
    names = pa.array(["id", "user", "price", "city"]).take(pa.array(number_of))
    kinds = pa.array(["bigint", "bigint", "double", "string"]).take(pa.array(number_of))
    texts = pa.array([f"city-{n % 500:03}" for n in range(count)], pa.binary()).take(pa.array(numbers))
    integers = np.where(number_of == 0, numbers * 10_000, numbers % 7)
    fields = {
        "column": names,
        "type": kinds,
        "count": pa.repeat(10_000, 4 * count).cast(pa.int64()),
        "flags": pa.array(np.where(number_of == 0, 96, 0), pa.int32()),  # 96: _ATTAINED and _COUNTED
        "sum": pa.array(integers * 10_000 + 49_995_000, mask=number_of > 0),
        "low_integer": pa.array(integers, mask=number_of > 1),
        "high_integer": pa.array(np.where(number_of == 0, integers + 9_999, 10**9), mask=number_of > 1),
        "low_double": pa.array(numbers / 100, mask=number_of != 2),
        "high_double": pa.array(numbers / 100 + 10, mask=number_of != 2),
        "low_bytes": pa.compute.if_else(pa.array(number_of == 3), texts, None),
        "high_bytes": pa.compute.if_else(pa.array(number_of == 3), texts, None),
    }
    items = pa.StructArray.from_arrays(
        [fields[one.name] for one in OBSERVED.value_type], fields=list(OBSERVED.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * 4, pa.int32()), items).cast(OBSERVED)


def test_a_hundred_thousand_files_are_planned_in_a_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = simulated(tmp_path, FILES)
    readers: list[Any] = []
    open_source = Source.open

    def opened(self: Source, *args: Any, **options: Any) -> Any:
        readers.append(open_source(self, *args, **options))
        return readers[-1]

    monkeypatch.setattr(Source, "open", opened)
    where = parse("id BETWEEN 123456789 AND 123556789 AND user = 77 AND city <> 'city-350' AND day = 12")
    plans: list[Any] = []

    def planned() -> None:
        store = IndexStore.open(tmp_path)
        assert store is not None
        plans.append(store.plan(listing, where))

    calls = python_calls(planned)
    (plan,) = plans
    assert plan.kept.tolist() == [n for n in range(12345, 12356) if n % 500 != 350]
    index = plan.index_of(12346)
    assert index is not None
    assert index.data == b"%0100d" % 12346
    assert sum(reader.metrics.requests for reader in readers) <= 3
    assert calls < FILES // 5, "calls are only made for the files that statistics do not rule out"


def test_indexes_are_read_of_the_files_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are not read for files that statistics rule out. For many files, the indexes are read in parts, in any
    order of the files."""
    listing = simulated(tmp_path, 20_000)
    asked: list[int] = []
    rows_of = Catalog.rows_of

    def counted(source: Any, names: Any, rows: Any) -> pa.Table:
        asked.append(len(rows))
        return rows_of(source, names, rows)

    monkeypatch.setattr(Catalog, "rows_of", counted)
    store = IndexStore.open(tmp_path)
    assert store is not None
    plan = store.plan(listing, parse("id BETWEEN 123456789 AND 123556789 AND user >= 0"))
    assert plan.kept.tolist() == list(range(12345, 12356))
    assert asked == [11]
    monkeypatch.setattr(index_rows, "ROWS_AT_ONCE", 1000)
    plan = store.plan(listing, parse("user >= 0"))
    assert len(plan.kept) == 20_000
    asked.clear()
    (tmp_path / "_orcidx" / store.catalogs.names[0]).unlink()  # as another job does after it has written a new catalog
    for number in (3, 2, 4, 19_999, 0, 999, 1000):
        index = plan.index_of(number)
        assert index is not None
        assert index.data == b"%0100d" % number
    assert asked == [1000, 1000, 1, 1000, 1000]


def test_indexes_of_a_catalog_in_parts(tmp_path: Path) -> None:
    """Each index comes from the last partial catalog that has its file."""
    listing = simulated(tmp_path, 1000)
    store = IndexStore.open(tmp_path)
    assert store is not None
    whole = store.catalogs.read()
    some = np.array([700, 3, 998])
    place = whole.files.schema.get_field_index("embedded")
    changed = whole.take(some)
    changed = replace(changed, files=changed.files.set_column(place, "embedded", pa.array([b"new"] * 3, pa.binary())))
    store = store.commit(changed)
    assert len(store.catalogs.names) == 2
    plan = store.plan(listing, parse("user >= 0"))
    found = {number: plan.index_of(number) for number in range(1000)}
    assert all(found.values())
    assert {number for number, index in found.items() if index is not None and index.data == b"new"} == {3, 700, 998}
    assert all(index.data == b"%0100d" % n for n, index in found.items() if index is not None and n not in some)


def test_a_directory_without_a_catalog_has_no_indexes(tmp_path: Path) -> None:
    listing = pa.table([["a.orc"], [7], [1], pa.nulls(1, pa.string())], schema=LISTING)
    store = IndexStore.open(tmp_path, create=True)
    assert store is not None
    plan = store.plan(listing, parse("user >= 0"))
    assert plan.kept.tolist() == [0]
    assert plan.known.index_rows.of(np.array([0])).to_pylist() == [dict.fromkeys(index_rows.INDEX_COLUMNS)]
