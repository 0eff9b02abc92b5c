"""Checks whether the index files of a directory exist and are complete."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, Unsupported
from orcidx.index_directory.catalog import INDEX_FOLDER
from orcidx.index_directory.store import IndexStore, whole_object
from orcidx.paimon.file_index import read_file_index

__all__ = ["broken_indexes", "damaged_indexes"]


def damaged_indexes(store: IndexStore) -> npt.NDArray[np.bool_]:
    """For each file of the catalog, whether its index file is missing or does not have the length with which it was
    written."""
    files = store.catalogs.read(files=("index", "index_size"), columns=()).files
    sizes = {one.name: one.version.size for one in store.folder.list(INDEX_FOLDER)} if len(files) else {}
    pairs = zip(files["index"].to_pylist(), files["index_size"].to_pylist())
    return np.array([name is not None and sizes.get(name) != size for name, size in pairs], np.bool_)


def broken_indexes(store: IndexStore) -> dict[int, str]:
    """Reads and checks the index of each file in the catalog. Returns a description of the damage for each damaged
    index, by the number of its row in the catalog."""
    found = {}
    names = ("index", "index_size", "embedded", "indexes", "rows")
    for number, row in enumerate(store.catalogs.read(files=names, columns=()).files.to_pylist()):
        data = row["embedded"] if row["index"] is None else whole_object(store.folder, row["index"])
        if row["index"] is not None and (data is None or len(data) != row["index_size"]):
            found[number] = f"the index file {row['index']} is missing or truncated"
        elif data is not None:
            damage = _damage_in(data, {one["column"]: one["type"] for one in row["indexes"] or ()}, row["rows"])
            if damage is not None:
                found[number] = damage
    return found


def _damage_in(data: bytes, types: Mapping[str, str], rows: int | None) -> str | None:
    """Reads an index file completely. Returns a description of its damage. The result is None if there is no damage."""
    try:
        index = read_file_index(data, types=types, rows=rows)
        for entry in index.entries:
            if entry.payload is not None and (one := index.index(entry.column, entry.kind)) is not None:
                one.check()
    except (CorruptFile, Unsupported) as error:
        return str(error)
    return None
