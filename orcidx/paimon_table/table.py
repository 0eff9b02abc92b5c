"""Whole Paimon tables: one snapshot, its data files with their indexes and deletion vectors, and what a scan reads.

Append tables, and primary-key tables as far as their files need no merging. Planning reads metadata only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Never, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery, located
from orcidx.explain.facts import facts_html
from orcidx.keywords import lists_options
from orcidx.options import OptionsByName, ReadOptions
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptions, CommitOptionsByName
from orcidx.paimon_table.commit.index_rewriting import rewrite_file_index
from orcidx.paimon_table.commit.row_appending import append_rows
from orcidx.paimon_table.commit.row_deleting import delete_rows
from orcidx.paimon_table.commit.table_state import TableState
from orcidx.paimon_table.file_places import FilePlaces
from orcidx.paimon_table.metadata.files import TableFiles, table_files
from orcidx.paimon_table.metadata.manifest import (
    FileEntry,
    IndexEntry,
    ManifestInfo,
    live_files,
    manifest_info,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from orcidx.paimon_table.metadata.schema import TableSchema, char_lengths
from orcidx.paimon_table.metadata.snapshot import Snapshot, snapshot_of
from orcidx.paimon_table.read.jvm_instants import check_zone
from orcidx.paimon_table.read.plan import TableFile, TablePlan, matching_manifests, plan_files
from orcidx.paimon_table.read.scan import TableScan
from orcidx.paimon_table.read.totals import aggregate_scan
from orcidx.paimon_table.read_gates import check_reading, unknown_notes
from orcidx.planner.query_words import asked_columns, asked_limit
from orcidx.predicate import Where, bind, parse, resolve_column
from orcidx.scanner.top_rows import parse_order
from orcidx.spellings import READING, unknown_keyword
from orcidx.storage import OneSource

__all__ = ["Table", "open_table"]


class Table:
    """One snapshot of a table; made by ``open_table``. Its metadata is read when it is needed, once."""

    def __init__(
        self, files: TableFiles, snapshot: Snapshot | None, table_schema: TableSchema, *, latest: bool = True
    ) -> None:
        self._files = files
        self._latest = latest
        self._snapshot = snapshot
        self._schemas = {table_schema.id: table_schema}
        self._table_schema = table_schema
        self._manifests: list[ManifestInfo] | None = None
        self._entries: dict[str, list[FileEntry]] = {}
        self._unknown_fields: set[str] = set()
        self._places = FilePlaces(files, table_schema, self.index_files)

    @property
    def path(self) -> str:
        """As it was given."""
        return self._files.root.name

    @property
    def table_files(self) -> TableFiles:
        """The table's directory."""
        return self._files

    @property
    def is_latest(self) -> bool:
        """Whether it was opened at its newest snapshot, rather than at one of the caller's."""
        return self._latest

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot; None when nothing has been written yet."""
        return self._snapshot

    @property
    def snapshot_id(self) -> int | None:
        """Its number."""
        return None if self._snapshot is None else self._snapshot.id

    @property
    def table_schema(self) -> TableSchema:
        """Fields with their ids and Paimon types, keys and options."""
        return self._table_schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._table_schema.arrow_schema

    def __repr__(self) -> str:
        return f"<Table {self.path!r} at snapshot {self.snapshot_id}>"

    def _repr_html_(self) -> str:
        return _described_html(self)

    # ------------------------------------------------------------------ metadata

    def at(self, state: TableState) -> Table:
        """The table at a snapshot that was read whole, for planning without reading it again."""
        table = Table(self._files, None if state.document is None else snapshot_of(state.document), state.schema)
        table._manifests = [manifest_info(record) for record in state.infos]
        table._entries = {name: list(manifest.entries) for name, manifest in state.manifests.items()}
        return table

    def files(self) -> list[TableFile]:
        """The live data files, in the manifests' order; also those that a scan would not read as they are."""
        return [self._places.table_file(entry) for entry in self._live(self._manifest_infos())]

    def index_files(self) -> list[IndexEntry]:
        """The live index files: hash indexes, deletion vectors, global indexes."""
        if self._snapshot is None or self._snapshot.index_manifest is None:
            return []
        return self._files.parsed(f"manifest/{self._snapshot.index_manifest}", read_index_manifest)

    def _manifest_infos(self) -> list[ManifestInfo]:
        if self._manifests is None:
            lists = []
            if self._snapshot is not None:
                lists = [self._snapshot.base_manifest_list, self._snapshot.delta_manifest_list]
            paths = [f"manifest/{name}" for name in lists]
            parsed = self._files.parsed_all(paths, read_manifest_list)
            self._manifests = [info for infos in parsed for info in infos]
        return self._manifests

    def _live(self, manifests: Sequence[ManifestInfo]) -> list[FileEntry]:
        missing = list(dict.fromkeys(info.name for info in manifests if info.name not in self._entries))
        parsed = self._files.parsed_all([f"manifest/{name}" for name in missing], read_manifest)
        for name, manifest in zip(missing, parsed):
            self._entries[name] = manifest.entries
            self._unknown_fields.update(manifest.unknown)
        return live_files(entry for info in manifests for entry in self._entries[info.name])

    def schema_of(self, schema_id: int) -> TableSchema:
        """A schema of the table by number, as its data files name it."""
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._files.schema(schema_id)
        return self._schemas[schema_id]

    # ------------------------------------------------------------------ planning

    def plan(
        self,
        where: Where | None = None,
        *,
        nan: Literal["ieee", "largest"] = "ieee",
        case_sensitive: bool = True,
        jvm_zone: str | None = None,
    ) -> TablePlan:
        """Which files a scan reads, pruned by partition, bucket and the manifests' statistics, and which not, and why.

        ``jvm_zone`` as in ``scan``.
        Raises ``InvalidQuery`` for a predicate that does not fit the schema, and ``Unsupported``, saying why, where
        files cannot be read one by one.
        """
        schema = self._table_schema
        with located(file=self.path):
            check_reading(schema, latest=self._latest)
        zone = check_zone(jvm_zone)
        manifests = self._manifest_infos()
        bound = None
        if where is not None:
            chars = char_lengths(schema.fields)
            bound = bind(parse(where), self.schema, nan=nan, case_sensitive=case_sensitive, char_lengths=chars)
            manifests = matching_manifests(manifests, schema, bound, instants_as_stored=zone is None)
        files = [self._places.table_file(entry) for entry in self._live(manifests)]
        with located(file=self.path):
            plan = plan_files(files, schema, self.schema_of, bound, jvm_zone=zone)
        return replace(plan, notes=(*unknown_notes(schema, self._unknown_keys()), *plan.notes))

    def _unknown_keys(self) -> list[str]:
        keys = () if self._snapshot is None else self._snapshot.unknown
        return [
            *(f"field {key!r} of snapshot {self.snapshot_id}" for key in keys),
            *(f"field {key!r} of a manifest" for key in sorted(self._unknown_fields)),
        ]

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
        """The rows of the snapshot, in the table's schema; plans at once, reads data when it is iterated.

        ``columns``: names of whole columns, None for all; ``where``: as everywhere (see ``orcidx.col``); ``limit``: at
        most so many rows; ``top``: the first ``limit`` rows in an order, such as ``[("score", "desc", "last"), "id"]``:
        column, direction, place of nulls. ``options`` and any option by name: see ``ReadOptions``; timestamps come in
        the unit of their column's precision, and ``strings="dictionary"`` gives plain strings. ``jvm_zone``: the zone
        of every JVM that wrote TIMESTAMP WITH LOCAL TIME ZONE to ORC files, such as "America/New_York": Paimon's Java
        moves such instants by it, and they are put back; "UTC" says that none was moved. None: they come as the files
        have them, and a note says so. Raises ``InvalidQuery``, and ``Unsupported`` where rows must be merged.
        """
        options = (options or ReadOptions()).override(**option_overrides)
        names = asked_columns(columns, case_sensitive=options.case_sensitive)
        limit = None if limit is None else asked_limit(limit)
        if top is not None and limit is None:
            raise InvalidQuery("top gives the first rows in an order; say how many by limit")
        chosen = self.schema.names if names is None else [_whole_column(name, self.schema, options) for name in names]
        order = () if top is None else parse_order(top)
        order = tuple(replace(key, column=_whole_column(key.column, self.schema, options)) for key in order)
        predicate = None if where is None else parse(where)
        zone = check_zone(jvm_zone)
        plan = self.plan(predicate, nan=options.nan, case_sensitive=options.case_sensitive, jvm_zone=zone)
        return TableScan(plan, self._table_schema, tuple(chosen), predicate, options, limit, order, zone)

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
        """Totals of the snapshot's rows, from metadata and statistics where those prove them; see ``orcidx.aggregate``.

        ``where``, ``jvm_zone`` and ``options`` as in ``scan``, and it raises what ``scan`` raises."""
        return aggregate_scan(self.scan(None, where, jvm_zone=jvm_zone, **options), aggregates, by)

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

        ``spec``: kinds, columns and options as in ``build_file_index``, by the newest schema's names; None: the table's
        own ``file-index`` options. ``where``: a predicate over partition keys. ``only_missing``: files that have every
        index already are left as they are. ``dry_run``: only plans. ``commit``: see ``CommitOptions``. Files that
        disappear or change meanwhile are left out and named in the result; this object stays at its snapshot. Raises
        ``Unsupported`` for what cannot be kept right here, ``CommitConflict`` and ``CommitUncertain``.
        """
        return rewrite_file_index(self, where, spec, only_missing=only_missing, dry_run=dry_run, given=commit)

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
        """Deletes the rows for which ``where`` is true, by deletion vectors, as one OVERWRITE snapshot.

        ``everything=True`` instead of ``where``: every row. For append tables with ``deletion-vectors.enabled``.
        ``isolation``: rows that others append meanwhile are not looked at ("snapshot"), or are ("serializable").
        ``dry_run``: only counts. ``commit``: see ``CommitOptions``. Nothing to delete makes no snapshot; this object
        stays at its snapshot. Raises ``Unsupported``, ``CorruptFile`` for a damaged deletion vector,
        ``CommitConflict`` and ``CommitUncertain``.
        """
        return delete_rows(self, where, everything=everything, isolation=isolation, dry_run=dry_run, given=commit)

    @lists_options(CommitOptions)
    def append(self, data: object, *, dry_run: bool = False, **commit: Unpack[CommitOptionsByName]) -> Changed:
        """Appends rows as one APPEND snapshot: to tables without a primary key, with buckets or without.

        ``data``: a Table, record batch, RecordBatchReader or anything with ``__arrow_c_stream__``; columns by name,
        those that are missing are null. Values must fit the table's types. Statistics and the file indexes that the
        table's options name are written with the data files. ``dry_run``: reads and checks every row, and writes
        nothing.
        ``commit``: see ``CommitOptions``. This object stays at its snapshot. Raises ``InvalidQuery`` and
        ``ValueOutOfRange`` for rows that do not fit, ``Unsupported``, ``CommitConflict`` and ``CommitUncertain``.
        """
        return append_rows(self, data, dry_run=dry_run, given=commit)


def _described_html(table: Table) -> str:
    schema = table.table_schema
    facts = {
        "snapshot": table.snapshot_id,
        "records": None if table.snapshot is None else table.snapshot.total_record_count,
        "primary key": ", ".join(schema.primary_keys) or None,
        "partitions": ", ".join(schema.partition_keys) or None,
    }
    rows = [(field.id, field.name, field.type) for field in schema.fields]
    return facts_html(table.path, facts, ("id", "column", "type"), rows)


def _whole_column(name: str | tuple[str, ...], schema: pa.Schema, options: ReadOptions) -> str:
    asked = (name,) if isinstance(name, str) else name
    path, _ = resolve_column(asked, schema, case_sensitive=options.case_sensitive)
    if len(path) > 1:
        raise InvalidQuery(f"a table's scan gives whole columns: ask for {path[0]!r}", column=".".join(path))
    return path[0]


def open_table(
    path: OneSource,
    *,
    snapshot_id: int | None = None,
    external_paths: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    **unknown: Never,
) -> Table:
    """Opens a table at its latest snapshot, or at ``snapshot_id`` with the schema of that time.

    ``path``: the table's directory, as a path or URL, or a path in ``filesystem``. ``external_paths``: directories and
    URL prefixes outside of the table's own store (scheme and bucket or host) in which its manifests may name files;
    they are read with ``storage_options`` like the rest. Raises ``FileNotFoundError`` where no table is,
    ``InvalidQuery`` for a snapshot that is not there, ``CorruptFile`` and ``Unsupported``.
    """
    for name in unknown:
        raise unknown_keyword(name, ("snapshot_id", "external_paths", "storage_options", "filesystem"), READING)
    files = table_files(path, storage_options, filesystem, external_paths)
    if snapshot_id is not None:
        try:
            snapshot = files.snapshot(snapshot_id)
        except FileNotFoundError:
            raise InvalidQuery(f"{files.root.name} has no snapshot {snapshot_id}; it may have expired") from None
        return Table(files, snapshot, files.schema(snapshot.schema_id), latest=False)
    latest = files.latest_snapshot()
    schema = files.latest_schema(0 if latest is None else latest.schema_id)
    if schema is None:
        raise FileNotFoundError(f"{files.root.name} is no Paimon table: it has no schema")
    return Table(files, latest, schema)
