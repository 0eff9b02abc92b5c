"""``orcidx.dataset`` returns files as a ``pyarrow.dataset.Dataset``. DuckDB, Polars and DataFusion push columns and
filters into it.

The classes never call the ``__init__`` of their base. They have no C++ object, so every method of the base is either
defined here or raises an error. A filter is used for pruning if orcidx's indexes leave out enough rows
(``pruning_gain``). ``OrcScanner`` applies the filter in any case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypedDict, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from orcidx.engines.arrow_scanner import OrcScanner, ScannerColumns
from orcidx.engines.dataset_filters import both_filters, both_predicates, has_all, is_exact, parted, pruning_part
from orcidx.engines.pruning_gain import pays
from orcidx.errors import InvalidQuery, Unsupported
from orcidx.index_directory.scan_files import scan as scan_files
from orcidx.keywords import lists_options
from orcidx.planner.request import tests_file_path
from orcidx.predicate import Predicate, Where, parse
from orcidx.predicate.adapters import from_expression
from orcidx.scanner.arguments import FilesArguments
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.schema_reads import count_schema_reads, schema_reads
from orcidx.spellings import counted, unknown_keyword
from orcidx.storage import Sources

__all__ = ["OrcDataset", "OrcFragment", "dataset"]


@lists_options(scan_files, but=("limit", "top"))
def dataset(sources: Sources, **scan_options: Unpack[FilesArguments]) -> OrcDataset:
    """Returns files as a pyarrow dataset, for DuckDB, ``polars.scan_pyarrow_dataset`` and DataFusion's
    ``register_dataset``.

    The keywords ``columns`` and ``where`` of ``orcidx.scan`` limit the columns and rows that queries can see. A
    ``limit`` raises an error; give the limit to the query.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        The same as in ``orcidx.scan``.
    **scan_options
        The keywords of ``orcidx.scan``.

    Returns
    -------
    OrcDataset
        A ``pyarrow.dataset.Dataset`` that accepts columns and filters. ``last_metrics`` shows what the last query read.

    Examples
    --------
    >>> import orcidx, pyarrow as pa, pyarrow.compute as pc
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> orcidx.dataset("ids.orc").count_rows(pc.field("id") > 1)
    2
    """
    return OrcDataset(scan_files(sources, **scan_options))


class OptionsWithoutEffect(TypedDict, total=False):
    """Options of pyarrow's scanner that an orcidx dataset accepts and ignores."""

    batch_readahead: int
    fragment_readahead: int
    fragment_scan_options: object
    use_threads: bool
    cache_metadata: bool
    memory_pool: pa.MemoryPool | None


class ScannerOptions(OptionsWithoutEffect, total=False):
    """Options of ``scanner``, without the columns and the filter."""

    schema: pa.Schema | None
    batch_size: int | None


def _check_names(options: Mapping[str, object]) -> None:
    """Raises ``InvalidQuery`` for an option that pyarrow's scanner does not have."""
    known = ScannerOptions.__annotations__
    if unknown := sorted(options.keys() - known.keys()):
        raise unknown_keyword(unknown[0], ("columns", "filter", *known), {})


class _Scans:
    """The base class of a dataset and its fragments. It returns the rows of a scan, and pushes columns and filters into
    the scan."""

    _scan: Scan
    _kept: pc.Expression | None
    """A filter for values in the types of the dataset's schema. It applies in addition to the predicate of the scan."""
    last_metrics: ScanMetrics | None
    """The metrics of the iteration over rows that was started last. It also counts the reads that found the
    schema of the dataset, and the reads that decide whether the scan applies the filter."""

    def _start(self, scan: Scan, kept: pc.Expression | None) -> None:
        if scan.row_limit is not None:
            raise Unsupported("a dataset does not support limit=; limit the rows in the engine that reads the dataset")
        self._scan = scan
        self._kept = kept
        self.last_metrics = None

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: ScannerColumns = None,
        filter: Where | None = None,
        batch_size: int | None = None,
        **others: Unpack[OptionsWithoutEffect],
    ) -> OrcScanner:
        """A scanner that returns some columns of the rows for which a filter is true.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            A schema with the columns that may be used. None: all columns.
        columns : sequence of str, or mapping of str to pyarrow.compute.Expression, optional
            Names, or expressions by name. None: all columns.
        filter : pyarrow.compute.Expression, or any other form of ``where``, optional
            A condition. Only rows for which the condition is true are returned. pyarrow's expressions are evaluated
            as in pyarrow. The other forms mean the same as ``where`` in ``orcidx.scan``.
        batch_size : int, optional
            The maximum number of rows in a batch.
        **others
            Other options of pyarrow's scanner (read-ahead, threads, memory pool). They have no effect; give
            ``ReadOptions`` to ``orcidx.dataset`` instead.

        Returns
        -------
        OrcScanner

        Raises
        ------
        InvalidQuery
            A column or an option is unknown, ``columns`` is a string, or the filter is not a condition.
        """
        _check_names(others)
        if isinstance(columns, str):
            raise InvalidQuery(f"columns must be a list or a dictionary; give [{columns!r}]")
        whole = self._schema if schema is None else schema
        filter, where = parted(filter)
        needed = self._needed(whole, columns, filter)
        if self._kept is not None:
            columns = whole.names if columns is None else columns
            unused = pa.schema([field for field in self._schema if field.name not in whole.names])
            whole = pa.schema([*whole, *unused])
            tested = self._needed(whole, [], self._kept)
            needed = [name for name in whole.names if name in needed or name in tested]
            filter = both_filters(self._kept, filter)
        pushed = self._pushed(needed, filter, batch_size, where)
        if filter is not None and not self._is_worth(pushed):
            pushed = self._pushed(needed, None, batch_size, where)
        reads = pa.schema([whole.field(name) for name in needed])
        return OrcScanner(pushed, reads, columns, filter, self._begin)

    def _begin(self, metrics: ScanMetrics) -> None:
        count_schema_reads(self._scan, metrics)
        self.last_metrics = metrics

    def _is_worth(self, pushed: Scan) -> bool:
        """Whether the scan also applies the filter. ``OrcScanner`` applies the filter in any case."""
        return True

    @property
    def _schema(self) -> pa.Schema:
        return self._scan.schema

    def _needed(self, whole: pa.Schema, columns: Any, filter: pc.Expression | None) -> list[str]:
        """Names of the columns that are requested or used by the filter, in the order of the scan's schema."""
        expressions = list(columns.values()) if isinstance(columns, Mapping) else []
        if filter is not None:
            expressions.append(filter)
        names = set(whole.names if columns is None else () if isinstance(columns, Mapping) else columns)
        for expression in expressions:
            used = from_expression(expression).columns
            names.update(whole.names if used is None else (path[0] for path in used))
        if unknown := sorted(names - set(whole.names)):
            raise InvalidQuery(f"there is no column {unknown[0]!r}; the columns are {', '.join(whole.names)}")
        return [name for name in whole.names if name in names]

    def _pushed(
        self,
        needed: Sequence[str],
        filter: pc.Expression | None,
        batch_size: int | None,
        where: Predicate | None = None,
    ) -> Scan:
        """The scan of the needed columns. It leaves out rows for which ``where`` is not true, and may leave out rows
        for which the filter is not true."""
        request = self._scan.resolved
        where = both_predicates(request.where, where)
        if filter is not None:
            asked = pruning_part(filter, self._schema, without=request.row_numbers)
            where = both_predicates(where, asked)
        options = request.options
        if batch_size is not None:
            options = options.override(batch_size=batch_size)
        added = {request.file_path, request.row_numbers}
        tested = tests_file_path(replace(request, where=where))
        request = replace(
            request,
            columns=_narrowed(
                request.columns,
                [name for name in needed if name not in added],
                case_sensitive=options.case_sensitive,
            ),
            where=where,
            file_path=request.file_path if request.file_path in needed or tested else None,
            row_numbers=request.row_numbers if request.row_numbers in needed else None,
            options=options,
        )
        return replace(self._scan, request=request)

    def to_table(self, columns: Any = None, filter: Where | None = None, **options: Unpack[ScannerOptions]) -> pa.Table:
        """The rows as a table.

        Parameters
        ----------
        columns, filter, **options
            As in ``scanner``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            A column is unknown.
        """
        return self.scanner(columns=columns, filter=filter, **options).to_table()

    def to_batches(
        self, columns: Any = None, filter: Where | None = None, **options: Unpack[ScannerOptions]
    ) -> Iterator[pa.RecordBatch]:
        """The rows as record batches.

        Parameters
        ----------
        columns, filter, **options
            As in ``scanner``.

        Returns
        -------
        iterator of pyarrow.RecordBatch

        Raises
        ------
        InvalidQuery
            A column is unknown.
        """
        return self.scanner(columns=columns, filter=filter, **options).to_batches()

    def head(
        self, num_rows: int, columns: Any = None, filter: Where | None = None, **options: Unpack[ScannerOptions]
    ) -> pa.Table:
        """The first rows as a table.

        Parameters
        ----------
        num_rows : int
            The maximum number of rows.
        columns, filter, **options
            As in ``scanner``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            A column is unknown.
        """
        return self.scanner(columns=columns, filter=filter, **options).head(num_rows)

    def take(
        self, indices: object, columns: Any = None, filter: Where | None = None, **options: Unpack[ScannerOptions]
    ) -> pa.Table:
        """Rows by their number in the result, in the given order.

        Parameters
        ----------
        indices : sequence or array of int
            Row numbers, counted from 0.
        columns, filter, **options
            As in ``scanner``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            A column is unknown, or a number is not the number of a row.
        """
        return self.scanner(columns=columns, filter=filter, **options).take(indices)

    def count_rows(self, filter: Where | None = None, **options: Unpack[ScannerOptions]) -> int:
        """The number of rows. Rows are not read if metadata, catalogs and indexes prove the number.

        Parameters
        ----------
        filter : pyarrow.compute.Expression, or any other form of ``where``, optional
            A condition. Only rows for which the condition is true are counted.
        **options
            As in ``scanner``.

        Returns
        -------
        int
        """
        _check_names(options)
        if self._kept is None:
            expression, where = parted(filter)
            if expression is None and where is None:
                return self._scan.count_rows()
            scan = self._pushed(self._needed(self._schema, [], expression), expression, None, where)
            if expression is None or is_exact(expression, self._schema, without=scan.request.row_numbers):
                return scan.count_rows()
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # pyarrow.dataset.write_dataset calls this method if the object has it. Without this method, write_dataset would
        # use the dataset's C++ object, which does not exist here.
        return self.scanner().__arrow_c_stream__(requested_schema)


def _narrowed(columns: Any, names: Sequence[str], *, case_sensitive: bool) -> tuple[str | tuple[str, ...], ...]:
    """Returns those of a scan's columns that are in ``names``. ``columns`` has the names or the paths into structs that
    the caller gave to the scan. None means all columns. A path is kept if its first name is in ``names``."""
    if columns is None:
        return tuple((name,) for name in names)
    letters = str if case_sensitive else str.casefold
    wanted = frozenset(map(letters, names))
    kept = []
    for path in columns:
        name = letters(path if isinstance(path, str) else path[0])
        if name in wanted or (isinstance(path, str) and any(name.startswith(f"{one}.") for one in wanted)):
            kept.append(path)
    return tuple(kept)


def _refuse(name: str, instead: str) -> Any:
    def refused(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise Unsupported(f"{name} is not supported by an orcidx dataset; {instead}")

    return refused


class OrcDataset(_Scans, ds.Dataset):  # type: ignore[misc]
    """Files as a pyarrow dataset, with a fragment for each file. Made by ``orcidx.dataset``.

    Examples
    --------
    >>> import orcidx, pyarrow as pa, pyarrow.compute as pc
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> dataset = orcidx.dataset("ids.orc")
    >>> dataset.count_rows(), dataset.filter(pc.field("id") > 1).to_table().num_rows
    (3, 2)
    """

    def __init__(self, scan: Scan, kept: pc.Expression | None = None) -> None:
        self._start(scan, kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return OrcDataset, (self._scan, self._kept)

    def __repr__(self) -> str:
        return f"<OrcDataset of {counted(len(self._scan.jobs), 'file')}>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._schema

    @property
    def files(self) -> list[str]:
        """The paths or URLs of the files."""
        return [job.source.name for job in self._scan.jobs]

    @property
    def partition_expression(self) -> pc.Expression:
        """A condition that is true for every row. It is always the literal true."""
        return pc.scalar(True)

    def get_fragments(self, filter: Where | None = None) -> Iterator[OrcFragment]:
        """The files as fragments. A file is left out if indexes prove that no row matches the filter and the dataset's
        own predicate.

        Stripes and row groups of a fragment are skipped when the fragment is read.

        Parameters
        ----------
        filter : pyarrow.compute.Expression, or any other form of ``where``, optional
            The condition for the wanted rows.

        Yields
        ------
        OrcFragment
        """
        expression, where = parted(filter)
        scan = self._pushed(self._schema.names, both_filters(self._kept, expression), None, where)
        jobs, request = scan.jobs, self._scan.resolved
        if scan.indexes is not None and scan.request.where is not None:
            jobs, _ = scan.indexes.plan(jobs, scan.request)
        # The plan has used the indexes. Using them again for each file would take longer than reading the file.
        for job in jobs:
            one = replace(self._scan, jobs=(job,), request=request, indexes=None)
            yield OrcFragment(one, self._schema, self._kept)

    def _is_worth(self, pushed: Scan) -> bool:
        return pays(pushed, metrics=schema_reads(self._scan))

    def filter(self, expression: Where) -> OrcDataset:
        """The dataset with only the rows for which an expression is true.

        Parameters
        ----------
        expression : pyarrow.compute.Expression, or any other form of ``where``
            The condition, which is joined with earlier filters by AND.

        Returns
        -------
        OrcDataset
        """
        request = self._scan.resolved
        where = parse(expression)
        # pyarrow can evaluate only filters whose columns are all in the schema. The scan evaluates all other filters.
        if (
            isinstance(expression, pc.Expression)
            and has_all(self._schema, from_expression(expression).columns)
            and not is_exact(expression, self._schema, without=request.row_numbers)
        ):
            return OrcDataset(self._scan, both_filters(self._kept, expression))
        both = both_predicates(request.where, where)
        return OrcDataset(replace(self._scan, request=replace(request, where=both)), self._kept)

    replace_schema = _refuse("replace_schema", "give schema= to orcidx.dataset")
    sort_by = _refuse("sort_by", "sort the result of to_table()")
    join = _refuse("join", "join the result of to_table()")
    join_asof = _refuse("join_asof", "join the result of to_table()")
    _get_fragments = _refuse("_get_fragments", "use get_fragments()")
    _scanner_options = _refuse("_scanner_options", "use scanner()")
    _scan_options = _refuse("_scan_options", "use scanner()")


class OrcFragment(_Scans, ds.Fragment):  # type: ignore[misc]
    """One file of an ``OrcDataset``."""

    def __init__(self, scan: Scan, schema: pa.Schema, kept: pc.Expression | None = None) -> None:
        self._start(scan, kept)
        self._whole = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return OrcFragment, (self._scan, self._whole, self._kept)

    def __repr__(self) -> str:
        return f"<OrcFragment {self._scan.jobs[0].source.name}>"

    @property
    def _schema(self) -> pa.Schema:
        return self._whole

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the rows. It is the dataset's schema, because all files are read into that schema."""
        return self._whole

    @property
    def partition_expression(self) -> pc.Expression:
        """A condition that is true for every row. It is always the literal true."""
        return pc.scalar(True)
