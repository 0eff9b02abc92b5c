"""The files of a table's directory on any storage: snapshots, schemas, manifests, and the sources of data files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, StorageError
from orcidx.paimon.small_files import read_whole
from orcidx.paimon_table.metadata.schema import TableSchema, parse_schema
from orcidx.paimon_table.metadata.snapshot import Snapshot, parse_hint, parse_snapshot
from orcidx.storage import OneSource, Source, describe_source
from orcidx.storage.inside import in_one_store, is_inside
from orcidx.storage.listing import names_in
from orcidx.threads.tasks import side_by_side

__all__ = ["TableFiles"]

T = TypeVar("T")
_FILES_READ_AT_ONCE = 8
"""How many files of metadata are read at the same time."""
_HINT_READS = 3
"""The maximum number of times that a hint file is read. It is read again if another process overwrites it during
the read."""
_MOST_PROBES = 100_000
"""The largest number of snapshots or schemas that are tried one by one, beginning with a known number."""


@dataclass(frozen=True)
class TableFiles:
    """The directory of one table. ``root``: its path, URL, or path in a file system.

    ``external_paths``: directories or URL prefixes in other stores. The table's manifests may name files in these
    places.
    """

    root: Source
    external_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.root.location, str):
            raise InvalidQuery(f"{self.root.name} is not a path or URL; give the path or URL of the table's directory")

    def source(self, path: str) -> Source:
        """The source of the file at a path within the table. The path has slashes."""
        return self.root.below(path)

    def external(self, path: str) -> Source:
        """The source of a file that a manifest names by an absolute path.

        The table's writer chose the path, and the file is opened with the reader's credentials. So the file must be in
        the table's own store (scheme and bucket or host), or in one of ``external_paths``. Raises ``InvalidQuery``
        otherwise.
        """
        in_session = self.root.kind == "hadoop"  # the file systems of a Spark session accept URLs of many stores
        if self.root.filesystem is not None and not in_session:
            found = describe_source(path, filesystem=self.root.filesystem)
            return replace(found, ships_secrets=self.root.ships_secrets)
        trusted = in_one_store(path, str(self.root.location))
        if in_session and not trusted:
            raise InvalidQuery(
                f"a manifest refers to a file in another store, {path!r:.200}. With the file systems of a Spark "
                "session, the URL of each file must have the same scheme and the same bucket or host as the table",
                file=self.root.name,
            )
        if in_session:
            return replace(self.root, name=path, location=path)
        if not trusted and not any(is_inside(path, one) for one in self.external_paths):
            raise InvalidQuery(
                f"a manifest refers to a file in another store, {path!r:.200}. If you trust the table, give the "
                "directories of such files as external_paths=[...] (in the shell --external-paths)",
                file=self.root.name,
            )
        found = describe_source(path, storage_options=self.root.storage_options)
        return replace(found, ships_secrets=self.root.ships_secrets)

    def parsed(self, path: str, parse: Callable[[memoryview], T]) -> T:
        """Reads and parses a file. Adds the file's name to errors."""
        source = self.source(path)
        try:
            return parse(read_whole(source))
        except OrcidxError as error:
            error.at(file=source.name)
            raise

    def parsed_all(self, paths: Sequence[str], parse: Callable[[memoryview], T]) -> list[T]:
        """Reads and parses several files in parallel."""
        if len(paths) < 2:
            return [self.parsed(path, parse) for path in paths]
        return side_by_side(lambda path: self.parsed(path, parse), paths, _FILES_READ_AT_ONCE)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with this number. Raises ``FileNotFoundError`` if it does not exist or has expired."""
        snapshot = self.parsed(f"snapshot/snapshot-{snapshot_id}", parse_snapshot)
        if snapshot.id != snapshot_id:
            raise CorruptFile(f"the file of snapshot {snapshot_id} contains another snapshot, {snapshot.id}")
        return snapshot

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot. The result is None if the table has no snapshots.

        LATEST is only a hint. The search starts at the number in LATEST and tries the next higher numbers. If the
        search finds no snapshot, the directory is listed.
        """
        hint = self.hint()
        latest = None if hint is None else self._last(self.snapshot, hint)
        if latest is not None:
            return latest
        numbers = self._snapshot_numbers()
        if hint is not None and not numbers:
            raise CorruptFile(f"LATEST refers to snapshot {hint}, but the table has no snapshots", file=self.root.name)
        return self.snapshot(max(numbers)) if numbers else None

    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, for writers. Raises ``CorruptFile`` if a number is missing although snapshots with
        higher numbers exist.

        If a number is missing, Paimon's readers may use different snapshots, because some readers use the hint and
        others list the directory. Only a damaged table has a gap.
        """
        latest = self.latest_snapshot()
        most = max(self._snapshot_numbers(), default=0)
        if latest is not None and most > latest.id:
            latest = self._last(self.snapshot, latest.id)  # another writer may have committed or rolled back by now
        if latest is not None and most > latest.id:
            raise CorruptFile(
                f"snapshot {latest.id + 1} is missing, but snapshot {most} exists, so a later commit would collide "
                f"with snapshot {most}. Roll the table back to snapshot {most}, or delete the files in snapshot/ with "
                f"a number above {latest.id}",
                file=self.root.name,
            )
        return latest

    def nearest_below(self, number: int) -> int | None:
        """The largest number of an existing snapshot that is less than ``number``."""
        return max((one for one in self._snapshot_numbers() if one < number), default=None)

    def schema(self, schema_id: int) -> TableSchema:
        """The schema with this number."""
        schema = self.parsed(f"schema/schema-{schema_id}", parse_schema)
        if schema.id != schema_id:
            raise CorruptFile(f"the file of schema {schema_id} contains another schema, {schema.id}")
        return schema

    def latest_schema(self, known: int) -> TableSchema | None:
        """The newest schema. The search starts at the schema with the number ``known``, and tries the next higher
        numbers. The result is None if the schema with the number ``known`` does not exist."""
        return self._last(self.schema, known)

    def _snapshot_numbers(self) -> list[int]:
        """The numbers in the names of the snapshot files. Names that have something else after ``snapshot-`` are
        ignored."""
        try:
            names = names_in(self.source("snapshot"))
        except FileNotFoundError:
            return []
        texts = [name.removeprefix("snapshot-") for name in names if name.startswith("snapshot-")]
        return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= 19]

    def hint(self) -> int | None:
        """The number in LATEST. The result is None if the file is missing or cannot be read.

        LATEST and EARLIEST are the only files of a table that are overwritten in place. If the file changes while it is
        read, it is read again.
        """
        for _ in range(_HINT_READS):
            try:
                return self.parsed("snapshot/LATEST", parse_hint)
            except FileNotFoundError:
                return None
            except StorageError:
                continue
        return None  # without a hint, the caller lists the directory; if the storage fails, the listing raises an error

    def _last(self, read: Callable[[int], T], first: int) -> T | None:
        found: T | None = None
        for number in range(first, first + _MOST_PROBES):
            try:
                found = read(number)
            except FileNotFoundError:
                return found
        return found


def table_files(
    path: OneSource,
    storage_options: Mapping[str, Any] | None,
    filesystem: object,
    external_paths: Sequence[str] = (),
) -> TableFiles:
    """The files of the table at a path or URL, or at a path in ``filesystem``."""
    if isinstance(external_paths, str):
        raise InvalidQuery(f"external_paths must be a list: give [{external_paths!r}]")
    root = describe_source(path, storage_options=storage_options, filesystem=filesystem)
    return TableFiles(root, tuple(external_paths))
