"""``orcidx.scan_polars`` returns files as a Polars LazyFrame. Polars pushes columns, predicates and row limits into it.

Polars 2 reads through the table and the reader of ``planned_table``. Older versions, and
``ORCIDX_POLARS_READER=none``, use ``register_io_source``, which expects filtered frames. In both cases a condition is
pushed if indexes leave out enough rows, or if the condition keeps few rows (``pruning_gain``). Polars is faster at
filtering by other conditions (decision 0012)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from orcidx.engines.polars.planned_table import lazy_frame
from orcidx.engines.pruning_gain import is_tiny, pays
from orcidx.errors import InvalidQuery, Unsupported
from orcidx.extras import needed
from orcidx.index_directory.scan_files import scan as scan_files
from orcidx.keywords import lists_options
from orcidx.planner.request import tests_file_path
from orcidx.predicate import Constant, all_of
from orcidx.predicate.polars_tree import from_polars
from orcidx.scanner.arguments import FilesArguments
from orcidx.scanner.frames import refuse_unions
from orcidx.scanner.scan import TABLE_ROWS, Scan
from orcidx.storage import Sources

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan_polars"]

FRAME_ROWS = 1 << 18
"""The number of rows of a frame. With this number, TPC-H takes 0.88 of the time that it takes with frames of 65,536
rows (decision 0012)."""

PUSHED_SHARE = 0.25
"""A condition is pushed if it keeps at most this share of the rows. Strings of the other rows are then not created, and
Polars does not get these rows. TPC-H's query 19 takes half of the time, and no query takes longer (decision 0012)."""


@lists_options(scan_files, but=("limit", "top"))
def scan_polars(sources: Sources, **scan_options: Unpack[FilesArguments]) -> pl.LazyFrame:
    """Returns files as a Polars LazyFrame.

    A predicate that orcidx can translate is pushed to orcidx in three cases: the indexes leave out at least half of the
    rows, the predicate keeps at most a quarter of the rows of a sample, or the files are in a store. Polars applies the
    predicate in any case. For local files, Polars 2 also gets the number of rows and the ranges of columns, with which
    it chooses the order of joins. Strings are returned as views, which Polars uses without copying. The frames have
    262,144 rows. If a predicate was pushed, they have at most 1,048,576 rows. Give ``strings=`` and ``batch_size=`` to
    change this. A ``limit`` raises an error; call ``head`` on the frame.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        The same as in ``orcidx.scan``.
    **scan_options
        The keywords of ``orcidx.scan``.

    Returns
    -------
    polars.LazyFrame
        A frame that reads nothing until it is explained or collected.

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

    rows_at_once = 1 if scan_options.keys() & {"options", "batch_size"} else TABLE_ROWS
    if "options" not in scan_options:
        scan_options.setdefault("strings", "view")
        scan_options.setdefault("batch_size", FRAME_ROWS)
    scan_options.setdefault("nan", "largest")
    scan = scan_files(sources, **scan_options)
    if scan.row_limit is not None:
        raise Unsupported("scan_polars does not support limit=; call head() on the frame")
    refuse_unions(scan.schema, "Polars")
    schema = pl.DataFrame(pa.Table.from_batches([], schema=scan.schema)).schema
    source = _Source(scan, rows_at_once)
    lazy = None if os.environ.get("ORCIDX_POLARS_READER") == "none" else lazy_frame(source, schema)
    return register_io_source(source, schema=schema, is_pure=True) if lazy is None else lazy


class _Source:
    """Makes frames of a scan for Polars. An object of this class is also the callable for ``register_io_source``. The
    object is pickled together with its scan.

    ``rows_at_once``: the least number of rows that are decoded at once if the scan has a condition."""

    def __init__(self, scan: Scan, rows_at_once: int) -> None:
        self.scan = scan
        self.rows_at_once = rows_at_once

    def frames(
        self, columns: list[str], pre_slice: tuple[int, int] | None, filters: Sequence[pl.Expr]
    ) -> Iterator[pl.DataFrame]:
        """Frames with these columns and with the rows of a slice. If the scan applies the filters, rows that the
        filters exclude are left out."""
        import polars as pl

        scan = self._pushed(columns, filters if pre_slice is None else (), None)
        skipped, left = (0, None) if pre_slice is None else pre_slice
        if left is not None:
            scan = scan.limit(skipped + left)
        with scan.to_batches() as batches:
            for batch in batches:
                if skipped:
                    gone = min(skipped, batch.num_rows)
                    batch, skipped = batch.slice(gone), skipped - gone
                    if not batch.num_rows:
                        continue
                if not columns:
                    yield pl.DataFrame(height=batch.num_rows)
                    continue
                frame = pl.DataFrame(batch)
                yield frame if frame.columns == columns else frame.select(columns)

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        needed_columns = with_columns
        if predicate is not None and with_columns is not None:
            needed_columns = list(dict.fromkeys([*with_columns, *predicate.meta.root_names()]))
        if n_rows is None:
            scan = self._pushed(needed_columns, () if predicate is None else (predicate,), batch_size)
        else:  # if both are given, Polars expects that n_rows limits the rows before the predicate filters them
            scan = self._pushed(needed_columns, (), batch_size).limit(n_rows)
        with scan.to_batches() as batches:
            for batch in batches:
                frame = pl.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                yield frame if with_columns is None else frame.select(with_columns)

    def _pushed(self, with_columns: list[str] | None, filters: Sequence[pl.Expr], batch_size: int | None) -> Scan:
        request = self.scan.resolved
        schema = self.scan.schema
        if request.row_numbers is not None:  # row numbers are not stored, so no index contains them
            schema = schema.remove(schema.get_field_index(request.row_numbers))
        where = request.where
        carried = (_carried(each, schema, request.options.nan) for each in filters)
        if filters and not is_tiny(self.scan) and (pushed := [one for one in carried if one != Constant(True)]):
            pruning = all_of(*pushed)
            if pays(replace(self.scan, request=replace(request, where=pruning)), most_kept=PUSHED_SHARE):
                where = pruning if where is None else all_of(where, pruning)
        columns, file_path, row_numbers = request.columns, request.file_path, request.row_numbers
        if with_columns is not None and columns is None:
            columns = tuple((name,) for name in with_columns if name not in (file_path, row_numbers))
            tested = tests_file_path(replace(request, where=where))
            file_path = file_path if file_path in with_columns or tested else None
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
        if request.where is not None and batch_size is None:
            request = request.in_large_batches(self.rows_at_once)
        return replace(self.scan, request=request)


def _carried(predicate: pl.Expr, schema: pa.Schema, nan: Literal["ieee", "largest"]) -> Any:
    """Returns the part of a Polars predicate that orcidx can use for pruning. The result is the constant predicate True
    if orcidx does not know the form of the Polars predicate."""
    import polars as pl

    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError):  # for example, a Python function has no JSON form
        return Constant(True)
    try:
        return from_polars(tree, schema, nan=nan)
    except InvalidQuery:
        return Constant(True)
