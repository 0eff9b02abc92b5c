"""``OrcFile``: an open ORC file, with its metadata, its statistics and its scans. ``orcidx.open`` returns an
``OrcFile``."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.explain.facts import facts_html
from orcidx.fetching.drive import run_value
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, OptionsByName, ReadOptions
from orcidx.orc.file_statistics import column_statistics, statistics_table
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.kinds import TypeKind, WriterKind
from orcidx.orc.metadata import FileTail
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import ColumnStatistics
from orcidx.orc.types import OrcType
from orcidx.planner.query_words import asked_columns, asked_limit, asked_name, asked_row_range, asked_stripes
from orcidx.planner.request import FileJob, ScanRequest, as_selection
from orcidx.predicate import Where, parse
from orcidx.scanner.arguments import RowArguments
from orcidx.scanner.arrow_stream import Batches
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.file_shortcuts import FileShortcuts
from orcidx.scanner.key_search import AskedForKeys
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import SPLIT_BYTES, Scan, Split
from orcidx.scanner.top_rows import parse_order
from orcidx.spellings import counted
from orcidx.storage import Fingerprint, OneSource, RangeReader, Source, describe_source
from orcidx.storage.failures import gone

__all__ = ["OrcFile", "Writer", "make_scan", "open_file"]


@dataclass(frozen=True)
class Writer:
    """The writer of a file. ``kind``: the kind of writer, such as "java" or "cpp". ``version``: the number in the field
    ``writerVersion`` of the PostScript. ``software``: the version of the writer's software, as stored in the file (""
    if the file does not have it)."""

    kind: str
    version: int
    software: str


class OrcFile(AskedForKeys, FileShortcuts):
    """An open ORC file. It is a context manager. Its scans can still be used after the file was closed.

    Iterating gives the batches of ``scan()``. ``pyarrow.table(file)`` and other readers of Arrow streams accept the
    file. The file can be pickled if its source can be pickled.

    The first request reads the tail. Everything else is read when it is needed.

    Parameters
    ----------
    source : path, URL, bytes, file object or Source
        The file, in any form that ``orcidx.open`` accepts.
    options : ReadOptions, optional
        The default options of the file's scans.
    expected : storage.Fingerprint, optional
        The version that the file must have.

    Raises
    ------
    CorruptFile
        The bytes are not an ORC file, or its tail is damaged.
    FileNotFoundError
        The file does not exist.
    StorageError
        The storage failed, or the file is not the expected version.

    Examples
    --------
    >>> import io, orcidx, pyarrow as pa
    >>> sink = io.BytesIO()
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), sink)
    >>> file = orcidx.open(sink.getvalue())
    >>> file.num_rows, file.orc_schema
    (3, 'struct<id:bigint>')
    >>> file.statistics("id").maximum
    3
    >>> file.read(where=orcidx.col("id") > 1)["id"].to_pylist()
    [2, 3]
    """

    def __init__(
        self, source: OneSource, options: ReadOptions | None = None, expected: Fingerprint | None = None
    ) -> None:
        source = source if isinstance(source, Source) else describe_source(source)
        self.source = source
        self.options = options or USUAL_OPTIONS
        self._storage: RangeReader | None = None
        try:
            self._storage = source.open(self.options, expected=expected)
            self._reader = OrcReader(self._storage, MetadataLimits.of(self.options))
        except BaseException as error:
            if self._storage is not None:
                self._storage.close()
            known = source.listed is not None or expected is not None
            if known and isinstance(error, FileNotFoundError):
                raise gone(source.name) from error
            raise

    def __enter__(self) -> OrcFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Metadata that was already read, and scans that were already made, can still be used.

        A new scan raises ``InvalidQuery``.
        """
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called. Scans that were made before the call can still be read."""
        return self._storage is None

    def __repr__(self) -> str:
        rows, stripes = counted(self.num_rows, "row"), counted(len(self.stripes), "stripe")
        return f"<OrcFile {self.source.name}: {rows} in {stripes}, {self.compression}>"

    def _repr_html_(self) -> str:
        facts = {
            "rows": f"{self.num_rows:,}",
            "stripes": f"{len(self.stripes):,}",
            "codec": self.compression,
            "bytes": f"{self.tail.size:,}",
            "writer": self.writer.software or self.writer.kind,
        }
        rows = [(node.dotted, node, field.type) for node, field in zip(self.columns, self.schema)]
        return facts_html(self.source.name, facts, ("column", "ORC", "Arrow"), rows)

    # ------------------------------------------------------------------ metadata

    @property
    def reader(self) -> OrcReader:
        """The internal view of the file, for code that inspects files. Its interface may change."""
        return self._reader

    @property
    def tail(self) -> FileTail:
        """The parsed tail of the file."""
        return self._reader.tail

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema in which ``scan`` reads the file with the default options."""
        storage = self._open_storage()
        scan = FileScan(self._reader, FileJob(self.source), ScanRequest(options=self.options), ScanMetrics())
        run_value(scan.prepare(), storage)
        return scan.columns.schema

    @property
    def orc_schema(self) -> str:
        """The schema as Hive and ORC Java write it, such as ``struct<id:bigint,name:string>``."""
        return str(self._reader.root)

    @property
    def columns(self) -> tuple[OrcType, ...]:
        """The ORC types of the top-level columns, in the order of ``schema``."""
        root = self._reader.root
        return root.children if root.kind is TypeKind.STRUCT else (root,)

    @property
    def num_rows(self) -> int:
        """The number of rows of the file."""
        return self.tail.footer.rows

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        """The position and the number of rows of each stripe."""
        return self._reader.stripes

    @property
    def compression(self) -> str:
        """The codec: "NONE", "ZLIB", "SNAPPY", "LZO", "LZ4", "ZSTD" or "BROTLI"."""
        return self.tail.postscript.compression.name

    @property
    def writer(self) -> Writer:
        """The software that wrote the file."""
        facts = self.tail.facts
        kind = facts.writer.name.lower() if isinstance(facts.writer, WriterKind) else f"unknown {facts.writer}"
        return Writer(kind, facts.writer_version, facts.software_version)

    @property
    def user_metadata(self) -> Mapping[str, bytes]:
        """The key-value pairs of user metadata that are stored in the file."""
        return self.tail.footer.user_metadata

    def statistics(
        self, column: str | Sequence[str] | int, stripe: int | None = None, row_group: int | None = None
    ) -> ColumnStatistics | None:
        """Statistics of a column for the file, a stripe, or a row group of a stripe.

        Parameters
        ----------
        column : str, sequence of str, or int
            A name, a dotted path, a path as a sequence of names, or the number of the column in the ORC schema.
        stripe : int, optional
            The number of the stripe, counted from 0. None: the whole file.
        row_group : int, optional
            The number of the row group in the stripe, counted from 0. None: the whole stripe.

        Returns
        -------
        ColumnStatistics or None
            None if the file has no such statistics.

        Raises
        ------
        InvalidQuery
            The column, stripe or row group is unknown.
        """
        return column_statistics(self._reader, column, stripe, row_group)

    def statistics_table(self, level: str = "file") -> pa.Table:
        """Statistics of all columns as one table.

        Parameters
        ----------
        level : str
            "file", "stripe" or "row_group".

        Returns
        -------
        pyarrow.Table
            One row for each column of the file, of each stripe or of each row group. Row groups of a stripe without a
            usable index are left out.

        Raises
        ------
        InvalidQuery
            The level is unknown.
        """
        return statistics_table(self._reader, level)

    def _open_storage(self) -> RangeReader:
        if self._storage is None:
            raise InvalidQuery("the file is closed: open it again", file=self.source.name)
        return self._storage

    # ------------------------------------------------------------------ rows

    @lists_options(ReadOptions)
    def scan(
        self,
        columns: Sequence[str | Sequence[str]] | None = None,
        where: Where | None = None,
        *,
        stripes: Iterable[int] | None = None,
        row_range: tuple[int, int] | None = None,
        limit: int | None = None,
        top: Sequence[Any] | None = None,
        row_numbers: bool | str = False,
        selection: object = None,
        deletion_vector: object = None,
        file_index: object = None,
        schema: pa.Schema | None = None,
        options: ReadOptions | None = None,
        **option_overrides: Unpack[OptionsByName],
    ) -> Scan:
        """Returns a scan of this file. Nothing is read before the scan is iterated.

        Parameters
        ----------
        columns : sequence of str or of sequences of str, optional
            Names, dotted paths, or paths as sequences of names. None: all columns.
        where : Predicate, str, pyarrow.compute.Expression or list of tuples, optional
            Returns only rows for which this condition is true. See ``orcidx.col``. A ``str`` is SQL. A list is in
            disjunctive normal form.
        stripes : iterable of int, optional
            Only these stripes.
        row_range : tuple of int, optional
            Only the rows from ``start`` up to, but not including, ``stop``, counted from 0 in the file.
        limit : int, optional
            The maximum number of rows that are returned.
        top : sequence, optional
            Returns the first ``limit`` rows in an order, such as ``[("score", "desc", "last"), "id"]``. An entry has a
            column, a direction (default "asc") and the place of nulls (default "last"). NaN sorts above every number.
            If rows are equal, the earlier rows are returned. Data that cannot contain one of the returned rows is
            skipped. More data can be skipped as more rows are read.
        row_numbers : bool or str
            Adds the number of each row in the file as the last column, of type int64. A ``str`` is the name of this
            column. The default name is ``row_number``.
        selection : iterable of int, bool mask or RowSelection, optional
            Only these rows.
        deletion_vector : paimon.DeletionVector or row numbers, optional
            Rows that are never returned.
        file_index : paimon.FileIndex, bytes or path, optional
            A Paimon file index of this file.
        schema : pyarrow.Schema, optional
            The schema of the result. Columns are found by name, missing columns are null, and types are widened.
        options : ReadOptions, optional
            Replaces the file's options.
        **option_overrides
            Single fields of ``ReadOptions`` by name.

        Returns
        -------
        Scan
            Iterating the scan yields record batches. The scan also has the methods ``to_table``, ``count_rows`` and
            ``explain``.

        Raises
        ------
        InvalidQuery
            For an unknown column (the message names the most similar one), and for a condition that does not fit the
            type of its column.
        """
        self._open_storage()
        job = FileJob(
            self.source,
            stripes=None if stripes is None else asked_stripes(stripes, len(self.stripes)),
            row_range=None if row_range is None else asked_row_range(row_range),
            selection=None if selection is None else as_selection(selection, self.num_rows),
            deleted=deletion_vector,
            file_index=file_index,
            fingerprint=self._reader.fingerprint,
            opened=weakref.ref(self._reader),
        )
        return make_scan(
            [job],
            columns,
            where,
            limit=limit,
            top=top,
            row_numbers=row_numbers,
            schema=schema,
            options=(options or self.options).override(**option_overrides),
        )

    @lists_options(scan, but=("limit", "top"))
    def splits(
        self,
        target_bytes: int = SPLIT_BYTES,
        columns: Sequence[str | Sequence[str]] | None = None,
        where: Where | None = None,
        **arguments: Unpack[RowArguments],
    ) -> list[Split]:
        """Cuts ``scan(...)`` into tasks for other processes and machines.

        Parameters
        ----------
        target_bytes : int
            The approximate size of a task, in stored bytes of the columns that it reads.
        columns, where, **arguments
            As in ``scan``, except ``limit`` and ``top``.

        Returns
        -------
        list of Split

        Raises
        ------
        InvalidQuery
            As in ``scan``. Also raised for a limit, because a limit counts the rows of all tasks together.
        """
        return self.scan(columns, where, **arguments).splits(target_bytes)

    @lists_options(scan)
    def read(
        self,
        columns: Sequence[str | Sequence[str]] | None = None,
        where: Where | None = None,
        **arguments: Unpack[RowArguments],
    ) -> pa.Table:
        """``scan(...)`` as one table.

        Parameters
        ----------
        columns, where, **arguments
            As in ``scan``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            As in ``scan``.
        CorruptFile
            The bytes that are read violate the format.
        """
        return self.scan(columns, where, **arguments).to_table()

    def __iter__(self) -> Batches:
        """The batches of ``scan()``."""
        return iter(self.scan())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the file. Unpickling opens the file again, and raises an error if its version has changed."""
        return OrcFile, (self.source, self.options, self._reader.fingerprint)


def make_scan(
    jobs: Iterable[FileJob],
    columns: Sequence[str | Sequence[str]] | None,
    where: Where,
    *,
    limit: int | None,
    row_numbers: bool | str,
    schema: pa.Schema | None,
    options: ReadOptions,
    match: Literal["name", "position", "field_id"] = "name",
    file_path: bool | str = False,
    top: Sequence[Any] | None = None,
) -> Scan:
    """Makes a scan from a caller's arguments. Raises ``InvalidQuery`` for invalid arguments."""
    if not isinstance(schema, pa.Schema | None):
        raise InvalidQuery(f"schema is {schema!r:.100}, of type {type(schema).__name__}: give a pyarrow.Schema")
    request = ScanRequest(
        columns=None if columns is None else asked_columns(columns, case_sensitive=options.case_sensitive),
        where=None if where is None else parse(where),
        schema=schema,
        match=match,
        row_numbers=None if row_numbers is False else asked_name(row_numbers, "row_number", "row_numbers"),
        file_path=None if file_path is False else asked_name(file_path, "file_path", "file_path"),
        options=options,
    )
    if top is not None and limit is None:
        raise InvalidQuery("top= is given without limit=; give limit= to say how many rows to return")
    order = () if top is None else parse_order(top)
    return Scan(tuple(jobs), request, None if limit is None else asked_limit(limit), top=order)


@lists_options(ReadOptions)
def open_file(
    source: OneSource,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    options: ReadOptions | None = None,
    **option_overrides: Unpack[OptionsByName],
) -> OrcFile:
    """Opens an ORC file. Only the tail of the file is read. The rows are read by scans.

    Parameters
    ----------
    source : path, URL, bytes or binary file object
        The file. If ``filesystem`` is given, ``source`` is a path in that file system. ``~`` at the beginning of a path
        is the home directory.
    storage_options : dict, optional
        Options for fsspec if ``source`` is a URL.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system of the path ``source``.
    options : ReadOptions, optional
        The default options of the file's scans.
    **option_overrides
        Single fields of ``ReadOptions`` by name.

    Returns
    -------
    OrcFile
        A context manager. Several threads may use it.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    CorruptFile
        If the tail is damaged, or the file is not an ORC file. The message says which format it has instead.
    StorageError
        If the storage fails.
    InvalidQuery
        For an unknown or wrong option.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> with orcidx.open("ids.orc") as file:
    ...     file.num_rows, file.read(where="id > 1").num_rows
    (3, 2)
    """
    chosen = (options or USUAL_OPTIONS).override(**option_overrides)
    return OrcFile(describe_source(source, storage_options=storage_options, filesystem=filesystem), chosen)
