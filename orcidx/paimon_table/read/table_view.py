"""``TableView``: one snapshot of a table, for planning. Its manifests are read once, when they are first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from orcidx.errors import FileGone, located
from orcidx.explain.model import UnlistedFiles
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.manifest import (
    FileEntry,
    IndexEntry,
    ManifestInfo,
    live_files,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from orcidx.paimon_table.metadata.schema import TableSchema, char_lengths
from orcidx.paimon_table.metadata.snapshot import Snapshot
from orcidx.paimon_table.read.file_places import FilePlaces
from orcidx.paimon_table.read.jvm_instants import check_zone
from orcidx.paimon_table.read.plan import TableFile, TablePlan, matching_manifests, plan_files
from orcidx.predicate import Where, bind, parse

__all__ = ["TableView"]


class TableView:
    """A snapshot with the schema for reading its rows. The snapshot is None if nothing has been written yet.

    ``is_latest``: whether the view was opened as the newest snapshot, not by a number that the caller gave.
    ``manifests`` and ``entries``: metadata that has already been read.
    """

    def __init__(
        self,
        files: TableFiles,
        snapshot: Snapshot | None,
        schema: TableSchema,
        *,
        is_latest: bool = True,
        manifests: Sequence[ManifestInfo] | None = None,
        entries: Mapping[str, Sequence[FileEntry]] | None = None,
    ) -> None:
        self.files = files
        self.snapshot = snapshot
        self.schema = schema
        self.is_latest = is_latest
        self._schemas = {schema.id: schema}
        self._manifests = manifests
        self._entries = dict(entries or {})
        self._unknown_fields: set[str] = set()
        self._places = FilePlaces(files, schema, self.index_files)

    @property
    def snapshot_id(self) -> int | None:
        """The number of the snapshot."""
        return None if self.snapshot is None else self.snapshot.id

    def data_files(self) -> list[TableFile]:
        """The live data files in the order of the manifests. Files that a scan can read only together with other files
        are included."""
        return [self._places.table_file(entry) for entry in self._live(self._manifest_infos())]

    def index_files(self) -> list[IndexEntry]:
        """The live index files: hash indexes, deletion vectors, global indexes."""
        if self.snapshot is None or self.snapshot.index_manifest is None:
            return []
        with self._there():
            return self.files.parsed(f"manifest/{self.snapshot.index_manifest}", read_index_manifest)

    def schema_of(self, schema_id: int) -> TableSchema:
        """The schema with this number. Each data file names the number of its schema."""
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self.files.schema(schema_id)
        return self._schemas[schema_id]

    def plan(
        self,
        where: Where | None = None,
        *,
        nan: Literal["ieee", "largest"] = "ieee",
        case_sensitive: bool = True,
        jvm_zone: str | None = None,
    ) -> TablePlan:
        """Plans which files a scan reads and which it skips, with reasons. See ``paimon.Table.plan``."""
        zone = check_zone(jvm_zone)
        manifests = every = self._manifest_infos()
        bound = None
        if where is not None:
            chars = char_lengths(self.schema.fields)
            arrow = self.schema.arrow_schema
            bound = bind(parse(where), arrow, nan=nan, case_sensitive=case_sensitive, char_lengths=chars)
            manifests = matching_manifests(manifests, self.schema, bound, instants_as_stored=zone is None)
        files = [self._places.table_file(entry) for entry in self._live(manifests)]
        with located(file=self.files.root.name):
            plan = plan_files(files, self.schema, self.schema_of, bound, jvm_zone=zone)
        if len(manifests) == len(every):
            return plan
        return replace(plan, unlisted=self._unlisted(every, manifests, files))

    def _unlisted(
        self, every: Sequence[ManifestInfo], read: Sequence[ManifestInfo], listed: Sequence[TableFile]
    ) -> UnlistedFiles:
        """The files of the manifests that were not read. ``listed`` has the files of the other manifests."""
        names = {info.name for info in read}
        unread = [info for info in every if info.name not in names]
        known = [info.files for info in unread if info.files is not None]
        files = max(0, sum(known)) if len(known) == len(unread) else None
        total = None if self.snapshot is None else self.snapshot.total_record_count
        rows = None if total is None else max(0, total - sum(file.rows for file in listed))
        return UnlistedFiles(len(unread), files, 0 if files == 0 else rows)

    @contextmanager
    def _there(self) -> Iterator[None]:
        """Raises ``FileGone`` instead of the error about a missing manifest. Its message says that the snapshot has
        expired."""
        try:
            yield
        except FileNotFoundError as error:
            text = f"the file is gone, because snapshot {self.snapshot_id} has expired; open the table again"
            name = error.file if isinstance(error, FileGone) else error.filename
            raise FileGone(text, file=name or self.files.root.name) from error

    def unknown_keys(self) -> list[str]:
        """Descriptions of the unknown fields of the snapshot and of the manifests that have been read so far."""
        keys = () if self.snapshot is None else self.snapshot.unknown
        return [
            *(f"field {key!r} of snapshot {self.snapshot_id}" for key in keys),
            *(f"field {key!r} of a manifest" for key in sorted(self._unknown_fields)),
        ]

    def _manifest_infos(self) -> Sequence[ManifestInfo]:
        if self._manifests is None:
            lists = []
            if self.snapshot is not None:
                lists = [self.snapshot.base_manifest_list, self.snapshot.delta_manifest_list]
            with self._there():
                parsed = self.files.parsed_all([f"manifest/{name}" for name in lists], read_manifest_list)
            self._manifests = [info for infos in parsed for info in infos]
        return self._manifests

    def _live(self, manifests: Sequence[ManifestInfo]) -> list[FileEntry]:
        missing = list(dict.fromkeys(info.name for info in manifests if info.name not in self._entries))
        with self._there():
            parsed = self.files.parsed_all([f"manifest/{name}" for name in missing], read_manifest)
        for name, manifest in zip(missing, parsed):
            self._entries[name] = manifest.entries
            self._unknown_fields.update(manifest.unknown)
        with located(file=self.files.root.name):
            return live_files(entry for info in manifests for entry in self._entries[info.name])
