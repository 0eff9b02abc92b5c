"""Makes a directory of ORC files with indexes in this process, for the tests of the index store and of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from orcidx.index_directory.build import INDEXED, IndexSpec, index_file
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.kept_tails import keep_tails
from orcidx.index_directory.store import IndexStore, listing_table
from orcidx.options import ReadOptions
from orcidx.storage import list_sources

SPEC: Mapping[str, Any] = {"bitmap": {"city": {}}, "bloom-filter": {"id": {"items": 1000, "fpp": 0.01}}}


def index_here(root: Any, spec: Mapping[str, Any] = SPEC, *, embedded_bytes: int | None = None) -> IndexStore:
    """Indexes every file of a directory, one after the other, and commits the catalog."""
    store = IndexStore.open(root, create=True)
    assert store is not None
    wanted = IndexSpec.of(spec, embedded_bytes=embedded_bytes)
    sources = list_sources([root])
    paths = listing_table(store.root, sources)["path"].to_pylist()
    rows = [index_file(store.folder, *one, wanted, ReadOptions()) for one in zip(sources, paths)]
    keep_tails(store.folder, rows)
    return store.commit(catalog_of(rows, wanted), listed=pa.array(paths, pa.string()))


def catalog_of(rows: list[dict[str, Any]], spec: IndexSpec) -> Catalog:
    table = pa.Table.from_pylist(rows, schema=INDEXED)
    return Catalog.observed(table, table["statistics"].combine_chunks(), spec.to_dict(), spec.key)
