"""``orcidx.scan_polars``: files as a Polars LazyFrame, into which Polars pushes columns, predicates and row limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.extras import needed
from orcidx.index_directory.scan_files import scan as scan_files
from orcidx.keywords import lists_options
from orcidx.predicate import Constant, all_of
from orcidx.predicate.polars_tree import from_polars
from orcidx.scanner.arguments import FilesArguments
from orcidx.scanner.frames import refuse_unions
from orcidx.scanner.scan import Scan
from orcidx.storage import Sources

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan_polars"]


@lists_options(scan_files)
def scan_polars(sources: Sources, **scan_options: Unpack[FilesArguments]) -> pl.LazyFrame:
    """Files as a Polars LazyFrame.

    Predicates prune by orcidx's indexes where they can be carried over. Strings come as views, which Polars takes
    without copying; ``strings=`` asks for anything else.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        As of ``orcidx.scan``.
    **scan_options
        The keywords of ``orcidx.scan``. A ``limit`` is refused: call ``head`` on the frame.

    Returns
    -------
    polars.LazyFrame
        Nothing is read until it is collected.

    Examples
    --------
    >>> import orcidx, pyarrow as pa, polars as pl
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> orcidx.scan_polars("ids.orc").filter(pl.col("id") > 1).collect().height
    2
    """
    with needed("polars"):
        import polars as pl
        from polars.io.plugins import register_io_source

    if "options" not in scan_options:
        scan_options.setdefault("strings", "view")
    scan_options.setdefault("nan", "largest")
    scan = scan_files(sources, **scan_options)
    if scan.row_limit is not None:
        raise Unsupported("a lazy scan has no limit: call head() on the frame")
    refuse_unions(scan.schema, "Polars")
    schema = pl.DataFrame(scan.schema.empty_table()).schema
    return register_io_source(_Source(scan), schema=schema, is_pure=True)


class _Source:
    """The callable that Polars asks for rows; it pickles with its scan."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        scan = self._pushed(with_columns, predicate, batch_size)
        if predicate is None and n_rows is not None:
            scan = scan.limit(n_rows)
        left = n_rows
        with scan.to_batches() as batches:
            for batch in batches:
                frame = _frame(batch)
                if with_columns is not None:
                    frame = frame.select(with_columns)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                yield frame
                if left == 0:
                    return

    def _pushed(self, with_columns: list[str] | None, predicate: pl.Expr | None, batch_size: int | None) -> Scan:
        request = self._scan.resolved
        schema = self._scan.schema
        if request.row_numbers is not None:  # no index knows them
            schema = schema.remove(schema.get_field_index(request.row_numbers))
        where = request.where
        if predicate is not None:
            pruning = _carried(predicate, schema)
            where = pruning if where is None else all_of(where, pruning)
        columns, file_path, row_numbers = request.columns, request.file_path, request.row_numbers
        if with_columns is not None and columns is None:
            columns = tuple((name,) for name in with_columns if name not in (file_path, row_numbers))
            file_path = file_path if file_path in with_columns else None
            row_numbers = row_numbers if row_numbers in with_columns else None
        options = request.options
        if batch_size is not None:
            options = options.override(batch_size=max(1, min(batch_size, options.batch_size)))
        request = replace(
            request,
            columns=columns,
            where=None if isinstance(where, Constant) and where.value else where,
            file_path=file_path,
            row_numbers=row_numbers,
            options=options,
        )
        return replace(self._scan, request=request)


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _carried(predicate: pl.Expr, schema: pa.Schema) -> Any:
    """The part of a Polars predicate that prunes here; True where its form is not known."""
    import polars as pl

    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError):  # such as a Python function inside
        return Constant(True)
    try:
        return from_polars(tree, schema)
    except InvalidQuery:
        return Constant(True)
