"""``orcidx.register_duckdb`` registers files as a view of a DuckDB connection, with the facts that DuckDB's planner
needs.

A ``pyarrow.dataset.Dataset`` does not report how many rows it has. DuckDB then assumes a table of one row, and joins in
the wrong order. If DuckDB can translate a condition, it passes the condition to the dataset and does not evaluate it
again. The dataset filters with pyarrow. DuckDB 2 supports subclasses of its own ``Source``. Such a subclass reports the
number of rows, and chooses the conditions that it evaluates. orcidx's subclass chooses the conditions for which indexes
leave out rows (``pruning_gain``). DuckDB is faster at filtering by all other conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Unpack

import pyarrow.compute as pc

from orcidx.engines.arrow_dataset import OrcDataset, dataset
from orcidx.engines.planner_facts import row_count
from orcidx.engines.pruning_gain import is_local, pays
from orcidx.extras import needed
from orcidx.index_directory.scan_files import scan as scan_files
from orcidx.keywords import lists_options
from orcidx.scanner.arguments import FilesArguments
from orcidx.storage import Sources

if TYPE_CHECKING:
    import duckdb
    from duckdb._sources.nodes import Node

__all__ = ["register_duckdb"]


@lists_options(scan_files, but=("limit", "top"))
def register_duckdb(
    connection: duckdb.DuckDBPyConnection, name: str, sources: Sources, **scan_options: Unpack[FilesArguments]
) -> None:
    """Registers files as a view of a DuckDB connection, with the facts that DuckDB's planner needs.

    With DuckDB 2, the planner gets the number of rows. Conditions are pushed if indexes leave out at least half of the
    rows, or if the files are in a store. Strings of local files are returned with their stored dictionaries. In DuckDB,
    such columns have the type VARCHAR. Give ``strings=`` to change this. With older versions of DuckDB the dataset
    itself is registered.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The connection. ``connection.unregister(name)`` removes the view.
    name : str
        The name of the view. An existing view of this name is replaced.
    sources : path, URL, directory, glob, or an iterable of them
        The same as in ``orcidx.scan``.
    **scan_options
        The keywords of ``orcidx.dataset``.

    Returns
    -------
    None

    Examples
    --------
    >>> import orcidx, pyarrow as pa, duckdb
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> connection = duckdb.connect()
    >>> orcidx.register_duckdb(connection, "ids", "ids.orc")
    >>> connection.sql("SELECT count(*) FROM ids WHERE id > 1").fetchall()
    [(2,)]
    """
    rows = dataset(sources, **scan_options)
    made = _source_class()
    if made is None:
        connection.register(name, rows)
        return
    scan = rows._scan
    # With strings="dictionary" the scan reads the footer of each stripe before the first row. For a remote file this
    # takes more requests. So this option is set only for local files.
    if not {"options", "strings"} & scan_options.keys() and is_local(scan):
        options = scan.options.override(strings="dictionary")
        rows = OrcDataset(replace(scan, request=replace(scan.request, options=options)))
    connection.register(name, made(rows))


@cache
def _source_class() -> Callable[[OrcDataset], object] | None:
    """The class from which this version of DuckDB reads. The result is None for versions without such a class."""
    with needed("duckdb"):
        import duckdb  # noqa: F401
    try:
        from duckdb._sources.pyarrow import PyArrowDatasetSource
        from duckdb._sources.to_arrow import to_arrow
    except ImportError:
        return None

    class OrcSource(PyArrowDatasetSource):  # type: ignore[misc]
        """A dataset that reports its number of rows, and accepts the conditions for which indexes leave out rows."""

        def __init__(self, rows: OrcDataset) -> None:
            super().__init__(rows)
            self._count: int | None = None
            self._worth: dict[str, bool] = {}

        def rows(self) -> int | None:
            """The number of rows. The result is None if the metadata does not give this number."""
            if self._count is None:
                self._count = row_count(self.obj._scan)
            return self._count

        def accepts(self, predicate: Node) -> bool:
            """Whether DuckDB leaves the evaluation of a condition to the dataset."""
            text = predicate.fragment()
            if text not in self._worth:
                self._worth[text] = super().accepts(predicate) and _is_worth(
                    self.obj, to_arrow(predicate, self.declared_schema())
                )
            return self._worth[text]

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            # DuckDB's ``register`` raises an error for an object without this method.
            return self.obj.__arrow_c_stream__(requested_schema)

    return OrcSource


def _is_worth(rows: OrcDataset, filter: pc.Expression) -> bool:
    return pays(rows._pushed(rows.schema.names, filter, None))
