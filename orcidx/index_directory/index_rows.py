"""``IndexRows`` says where the indexes of the files of a plan are. This information is read only for the files that the
plan keeps.

In a catalog of many files, most of the bytes may belong to embedded indexes. Statistics and directories rule out most
files. So the rows of the remaining files are read later, when they are needed, and no other rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.index_directory.catalog import FILE_FIELDS, Catalog
from orcidx.index_directory.catalog_file import CatalogFile

__all__ = ["INDEX_COLUMNS", "ROWS_AT_ONCE", "IndexRows", "rows_of_parts"]

Int64s = npt.NDArray[np.int64]

INDEX_COLUMNS = ("tail", "index", "index_size", "embedded", "indexes")
ROWS_AT_ONCE = 1 << 13
"""The number of rows that are read and kept together if files are looked up one by one. If there are no
more rows than this, all rows are kept. By default an embedded index has at most 500 bytes (decision 0070)."""


def rows_of_parts(parts: Sequence[CatalogFile], numbers: Int64s, names: Sequence[str]) -> pa.Table:
    """Reads rows of several catalogs by their numbers. The rows of all catalogs are numbered consecutively."""
    if not parts:
        return FILE_FIELDS.empty_table().select(names)
    order = np.argsort(numbers)
    ordered, first, found = numbers[order], 0, []
    for part in parts:
        mine = ordered[(ordered >= first) & (ordered < first + part.rows)]
        found.append(Catalog.rows_of(part, names, mine - first))
        first += part.rows
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pa.concat_tables(found).take(pa.array(back))


class IndexRows:
    """The columns ``INDEX_COLUMNS`` of the catalog for the files of a listing. ``entry`` has each file's row in the
    catalog, or -1 if it has no valid row. ``read`` reads some columns of some rows of the catalog. The numbers of these
    rows must be ascending."""

    def __init__(self, read: Callable[[Int64s, Sequence[str]], pa.Table], entry: Int64s) -> None:
        self._read = read
        self._entry = entry
        self._near: tuple[Int64s, pa.Table | None] = np.zeros(0, np.int64), None

    def of(self, files: Int64s, names: Sequence[str] = INDEX_COLUMNS) -> pa.Table:
        """A row for each of these files. A row is null if nothing is known about the file."""
        entry = self._entry[files]
        numbers, places = np.unique(entry, return_inverse=True)
        unknown = int(len(numbers) > 0 and numbers[0] < 0)
        found = self._read(numbers[unknown:], names)
        return found.take(pa.array(places.reshape(-1) - unknown, pa.int64(), mask=entry < 0))

    def parts(self, files: Int64s, names: Sequence[str] = INDEX_COLUMNS) -> Iterator[tuple[Int64s, pa.Table]]:
        """The rows of many files, in parts."""
        for start in range(0, len(files), ROWS_AT_ONCE):
            some = files[start : start + ROWS_AT_ONCE]
            yield some, self.of(some, names)

    def embedded(self, files: Int64s, *, most: int) -> list[tuple[int, Mapping[str, Any]]]:
        """The files whose index is in the catalog, each with its row. The result is empty if there are more than
        ``most`` such files."""
        found: list[tuple[int, Mapping[str, Any]]] = []
        for some, rows in self.parts(files, ["embedded", "indexes"]):
            has = np.flatnonzero(rows["embedded"].is_valid().to_numpy())
            if len(found) + len(has) > most:
                return []
            found += zip(some[has].tolist(), rows.take(pa.array(has)).to_pylist())
        return found

    def row(self, file: int, then: Int64s) -> Mapping[str, Any]:
        """The row of one file. ``then`` has the files that will probably be needed next, in their order."""
        files, table = self._near
        at = int(files.searchsorted(file))
        if table is None or at == len(files) or files[at] != file:
            first, at = int(then.searchsorted(file)), 0
            files = then[first : first + ROWS_AT_ONCE]
            if not len(files) or files[0] != file:
                files = np.array([file])
            table = self.of(files)
            self._near = files, table
        found: Mapping[str, Any] = table.slice(at, 1).to_pylist()[0]
        return found
