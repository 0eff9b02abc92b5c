"""``Table``: one snapshot of a Paimon table with its data files, indexes and deletion vectors. Its methods scan and
change the table.

Append tables are supported. Primary-key tables are supported if their files need no merging. Planning reads only
metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Never, Unpack

import pyarrow as pa

from orcidx.errors import FileGone, InvalidQuery, located
from orcidx.explain.facts import facts_html
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, OptionsByName, ReadOptions
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptions, CommitOptionsByName
from orcidx.paimon_table.commit.index_rewriting import rewrite_file_index
from orcidx.paimon_table.commit.row_appending import append_rows
from orcidx.paimon_table.commit.row_deleting import delete_rows
from orcidx.paimon_table.metadata.files import TableFiles, table_files
from orcidx.paimon_table.metadata.manifest import IndexEntry
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.metadata.snapshot import Snapshot
from orcidx.paimon_table.read.jvm_instants import check_zone
from orcidx.paimon_table.read.plan import TableFile, TablePlan
from orcidx.paimon_table.read.replanning import Newest, Unpinned
from orcidx.paimon_table.read.scan import TableScan
from orcidx.paimon_table.read.shared_reading import planned_where, whole_column
from orcidx.paimon_table.read.table_view import TableView
from orcidx.paimon_table.read.totals import aggregate_scan
from orcidx.paimon_table.read_gates import check_reading, unknown_notes
from orcidx.planner.query_words import asked_columns, asked_limit
from orcidx.predicate import Predicate, Where, parse
from orcidx.scanner.top_rows import parse_order
from orcidx.spellings import READING, unknown_keyword
from orcidx.storage import OneSource

__all__ = ["Table", "open_table"]


class Table:
    """One snapshot of a table, as returned by ``open_table``. The metadata is read when it is first needed, and is then
    cached."""

    def __init__(self, view: TableView) -> None:
        self._view = view

    @property
    def view(self) -> TableView:
        """The snapshot as the ``TableView`` that plans and changes use."""
        return self._view

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._view.files.root.name

    @property
    def table_files(self) -> TableFiles:
        """The table's directory."""
        return self._view.files

    @property
    def is_latest(self) -> bool:
        """Whether the table was opened at its newest snapshot, not at a snapshot that the caller chose."""
        return self._view.is_latest

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot. It is None if nothing has been written yet."""
        return self._view.snapshot

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot's number."""
        return self._view.snapshot_id

    @property
    def table_schema(self) -> TableSchema:
        """The schema of the table: its fields (each with its id and Paimon type), its keys and its options."""
        return self._view.schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._view.schema.arrow_schema

    def __repr__(self) -> str:
        return f"<Table {self.path!r} at snapshot {self.snapshot_id}>"

    def _repr_html_(self) -> str:
        schema = self.table_schema
        facts = {
            "snapshot": self.snapshot_id,
            "records": None if self.snapshot is None else self.snapshot.total_record_count,
            "primary key": ", ".join(schema.primary_keys) or None,
            "partitions": ", ".join(schema.partition_keys) or None,
        }
        rows = [(field.id, field.name, field.type) for field in schema.fields]
        return facts_html(self.path, facts, ("id", "column", "type"), rows)

    # ------------------------------------------------------------------ metadata

    def files(self) -> list[TableFile]:
        """The live data files in the order of the manifests. Files that a scan can read only together with other files
        are included.

        Returns
        -------
        list of TableFile
        """
        return self._view.data_files()

    def index_files(self) -> list[IndexEntry]:
        """The live index files: hash indexes, deletion vectors, global indexes.

        Returns
        -------
        list of IndexEntry
        """
        return self._view.index_files()

    def schema_of(self, schema_id: int) -> TableSchema:
        """The schema with this number. Each data file names the number of its schema.

        Parameters
        ----------
        schema_id : int
            The number.

        Returns
        -------
        TableSchema

        Raises
        ------
        CorruptFile
            The schema's file is missing or damaged.
        """
        return self._view.schema_of(schema_id)

    # ------------------------------------------------------------------ planning

    def plan(
        self,
        where: Where | None = None,
        *,
        nan: Literal["ieee", "largest"] = "ieee",
        case_sensitive: bool = True,
        jvm_zone: str | None = None,
    ) -> TablePlan:
        """Plans which files a scan reads. The plan uses the files' partitions and buckets, and the statistics in the
        manifests. The plan also lists the files that the scan skips, with the reasons.

        Parameters
        ----------
        where : predicate, optional
            The condition, in any form that ``orcidx.scan`` takes.
        nan : {"ieee", "largest"}
            How NaN compares. "ieee": by the rules of IEEE 754. "largest": above every number.
        case_sensitive : bool
            Whether names of columns are case-sensitive.
        jvm_zone : str, optional
            As for ``scan``.

        Returns
        -------
        TablePlan

        Raises
        ------
        InvalidQuery
            The condition does not fit the schema.
        Unsupported
            The files cannot be read independently of each other. The message says why.
        """
        with located(file=self.path):
            check_reading(self.table_schema, latest=self.is_latest)
        plan = self._view.plan(where, nan=nan, case_sensitive=case_sensitive, jvm_zone=jvm_zone)
        return replace(plan, notes=(*unknown_notes(self.table_schema, self._view.unknown_keys()), *plan.notes))

    # ------------------------------------------------------------------ rows

    @lists_options(ReadOptions)
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        *,
        top: Sequence[Any] | None = None,
        limit: int | None = None,
        options: ReadOptions | None = None,
        jvm_zone: str | None = None,
        **option_overrides: Unpack[OptionsByName],
    ) -> TableScan:
        """Returns a scan of the snapshot's rows in the table's schema. The scan is planned immediately, and reads data
        when it is iterated.

        A compaction followed by an expiry may delete files that the scan still has to read. If the table was opened
        without ``snapshot_id``, the scan is then planned again on the newest snapshot, and a note reports this.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of top-level columns. None means all columns.
        where : predicate, optional
            The condition, in any form that ``orcidx.scan`` takes.
        top : sequence, optional
            The order in which the first ``limit`` rows are returned, such as ``[("score", "desc", "last"), "id"]``. An
            item is a column, or a tuple of column, direction and position of nulls.
        limit : int, optional
            The largest number of rows to return.
        options : ReadOptions, optional
            How rows are read. The unit of timestamps follows from the precision of their column. With
            ``strings="dictionary"``, the scan still returns plain strings.
        jvm_zone : str, optional
            The time zone of the JVMs that wrote TIMESTAMP WITH LOCAL TIME ZONE to the ORC files, such as
            "America/New_York". Paimon's Java shifts these instants by the zone of the JVM, and the scan shifts them
            back. "UTC" means that no instant was shifted. None: the instants are returned as stored, and a note reports
            this.
        **option_overrides
            Fields of ``ReadOptions`` by name.

        Returns
        -------
        TableScan

        Raises
        ------
        InvalidQuery
            A column, the condition or an option does not fit the table.
        Unsupported
            Rows of several files must be merged.
        FileGone
            A file was deleted, and the scan cannot be planned again. The reason is that the scan has returned rows, or
            that the table was opened by ``snapshot_id``.
        """
        options = (options or USUAL_OPTIONS).override(**option_overrides)
        names = asked_columns(columns, case_sensitive=options.case_sensitive)
        limit = None if limit is None else asked_limit(limit)
        if top is not None and limit is None:
            raise InvalidQuery("top= is given without limit=; give limit= to say how many rows to return")
        read = (
            self.table_schema.by_name if names is None else [one if isinstance(one, str) else one[0] for one in names]
        )
        self.table_schema.check_convertible(list(read))
        chosen = self.schema.names if names is None else [whole_column(name, self.schema, options) for name in names]
        order = () if top is None else parse_order(top)
        order = tuple(replace(key, column=whole_column(key.column, self.schema, options)) for key in order)
        predicate = None if where is None else parse(where)
        zone = check_zone(jvm_zone)
        try:
            plan = _plan(self, predicate, options, zone)
        except FileGone:  # the snapshot expired before the scan was planned
            newer = _newest(self.table_files) if self.is_latest else self
            if newer.snapshot_id == self.snapshot_id:
                raise
            return newer.scan(columns, predicate, top=top, limit=limit, options=options, jvm_zone=zone)
        known = Unpinned(plan, self.snapshot_id, partial(_newest_plan, self.table_files))
        unpinned = known if self.is_latest else None
        return TableScan(plan, self.table_schema, tuple(chosen), predicate, options, limit, order, zone, unpinned)

    @lists_options(ReadOptions)
    def aggregate(
        self,
        aggregates: Mapping[str, str],
        where: Where | None = None,
        by: str | Sequence[str] | None = None,
        *,
        jvm_zone: str | None = None,
        **options: Unpack[OptionsByName],
    ) -> pa.Table:
        """Computes totals of the snapshot's rows. Where metadata and statistics prove a total, no rows are read for it.

        Parameters
        ----------
        aggregates : mapping of str to str
            The totals by name, as for ``orcidx.aggregate``.
        where : predicate, optional
            The condition, in any form that ``orcidx.scan`` takes.
        by : str or sequence of str, optional
            The columns by whose values the rows are grouped.
        jvm_zone : str, optional
            As for ``scan``.
        **options
            Fields of ``ReadOptions`` by name.

        Returns
        -------
        pyarrow.Table
            One row. With ``by``, one row for each group.

        Raises
        ------
        InvalidQuery, Unsupported, FileGone
            As for ``scan``.
        """
        columns = self.schema.names if self.table_schema.unsupported_columns else None
        return aggregate_scan(self.scan(columns, where, jvm_zone=jvm_zone, **options), aggregates, by)

    # ------------------------------------------------------------------ changes

    @lists_options(CommitOptions)
    def rewrite_file_index(
        self,
        where: Where | None = None,
        spec: Mapping[str, Mapping[str, Mapping[str, Any] | None]] | None = None,
        *,
        only_missing: bool = True,
        dry_run: bool = False,
        **commit: Unpack[CommitOptionsByName],
    ) -> Changed:
        """Builds file indexes for data files of the newest snapshot, and commits them as one COMPACT snapshot.

        Files that disappear or change during the rewrite are left out, and the result names them. This ``Table``
        object is not moved to the new snapshot.

        Parameters
        ----------
        where : predicate, optional
            A condition on partition keys.
        spec : mapping, optional
            Kinds, columns and options as for ``build_file_index``. Columns have the names of the newest schema. None
            means the kinds, columns and options in the table's ``file-index`` options.
        only_missing : bool
            Do not rebuild the indexes of files that already have every index.
        dry_run : bool
            Only return the plan, and change nothing.
        **commit
            Options of ``CommitOptions`` by name.

        Returns
        -------
        Changed

        Raises
        ------
        Unsupported
            The table has an option or a metadata field that orcidx does not support for this change.
        CommitConflict, CommitUncertain
            See ``CommitOptions``.
        """
        return rewrite_file_index(self._view, where, spec, only_missing=only_missing, dry_run=dry_run, given=commit)

    @lists_options(CommitOptions)
    def delete(
        self,
        where: Where | None = None,
        *,
        everything: bool = False,
        isolation: Literal["snapshot", "serializable"] = "snapshot",
        dry_run: bool = False,
        **commit: Unpack[CommitOptionsByName],
    ) -> Changed:
        """Deletes the rows for which ``where`` is true. The deletion vectors are committed as one OVERWRITE snapshot.

        The table must be an append table with ``deletion-vectors.enabled``. If no row matches, no snapshot is made.
        This ``Table`` object is not moved to the new snapshot.

        Parameters
        ----------
        where : predicate, optional
            The rows to delete.
        everything : bool
            Delete every row. Then ``where`` must not be given.
        isolation : {"snapshot", "serializable"}
            This option concerns matching rows that other writers append during the delete. With "serializable" these
            rows are deleted too. With "snapshot" they are kept.
        dry_run : bool
            Only count the matching rows.
        **commit
            Options of ``CommitOptions`` by name.

        Returns
        -------
        Changed

        Raises
        ------
        Unsupported
            The table has an option or a metadata field that orcidx does not support for this change.
        CorruptFile
            A deletion vector is damaged.
        CommitConflict, CommitUncertain
            See ``CommitOptions``.
        """
        return delete_rows(self._view, where, everything=everything, isolation=isolation, dry_run=dry_run, given=commit)

    @lists_options(CommitOptions)
    def append(self, data: object, *, dry_run: bool = False, **commit: Unpack[CommitOptionsByName]) -> Changed:
        """Appends rows as one APPEND snapshot. The table must not have a primary key. It may have buckets.

        The new data files get statistics. They also get the file indexes that the table's options name. This ``Table``
        object is not moved to the new snapshot.

        Parameters
        ----------
        data : Arrow data
            A Table, record batch, RecordBatchReader or anything with ``__arrow_c_stream__``. Columns are found by name.
            Missing columns become null. Values must fit the table's types.
        dry_run : bool
            Read and check every row, but write nothing.
        **commit
            Options of ``CommitOptions`` by name.

        Returns
        -------
        Changed

        Raises
        ------
        InvalidQuery, ValueOutOfRange
            Rows do not fit the table.
        Unsupported
            The table has an option or a metadata field that orcidx does not support for this change.
        CommitConflict, CommitUncertain
            See ``CommitOptions``.
        """
        return append_rows(self._view, data, dry_run=dry_run, given=commit)


@lists_options()
def open_table(
    path: OneSource,
    *,
    snapshot_id: int | None = None,
    external_paths: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    **unknown: Never,
) -> Table:
    """Opens a table at its latest snapshot, or at ``snapshot_id`` with the schema of that snapshot.

    Parameters
    ----------
    path : path, URL or source
        The table's directory, or a path in ``filesystem``.
    snapshot_id : int, optional
        The number of the snapshot. None means the latest snapshot.
    external_paths : sequence of str
        Directories and URL prefixes outside of the table's own store (scheme and bucket or host). The table's manifests
        may name files in these places. ``storage_options`` are used for these files too.
    storage_options : mapping, optional
        Options of the file system to which a URL belongs.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``path`` is a path.

    Returns
    -------
    Table

    Raises
    ------
    FileNotFoundError
        There is no table.
    InvalidQuery
        The snapshot does not exist.
    CorruptFile, Unsupported
        The metadata is damaged, or the table uses a feature that orcidx does not support.

    Examples
    --------
    >>> table = orcidx.paimon.open_table("warehouse/db.db/t")  # doctest: +SKIP
    >>> table.scan(where="id = 5").to_table()  # doctest: +SKIP
    """
    for name in unknown:
        raise unknown_keyword(name, ("snapshot_id", "external_paths", "storage_options", "filesystem"), READING)
    files = table_files(path, storage_options, filesystem, external_paths)
    if snapshot_id is not None:
        try:
            snapshot = files.snapshot(snapshot_id)
        except FileNotFoundError:
            raise InvalidQuery(f"{files.root.name} has no snapshot {snapshot_id}; it may have expired") from None
        return Table(TableView(files, snapshot, files.schema(snapshot.schema_id), is_latest=False))
    return _newest(files)


def _newest(files: TableFiles) -> Table:
    latest = files.latest_snapshot()
    schema = files.latest_schema(0 if latest is None else latest.schema_id)
    if schema is None:
        raise FileNotFoundError(f"{files.root.name} is not a Paimon table: it has no schema")
    return Table(TableView(files, latest, schema))


def _newest_plan(files: TableFiles, where: Predicate | None, options: ReadOptions, jvm_zone: str | None) -> Newest:
    table = _newest(files)
    return Newest(_plan(table, where, options, jvm_zone), table.table_schema, table.snapshot_id)


def _plan(table: Table, where: Predicate | None, options: ReadOptions, jvm_zone: str | None) -> TablePlan:
    asked = planned_where(where, table.table_schema, options)
    return table.plan(asked, nan=options.nan, case_sensitive=options.case_sensitive, jvm_zone=jvm_zone)
