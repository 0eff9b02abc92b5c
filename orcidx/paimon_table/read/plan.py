"""Plans a scan of a table. The plan has one task for each file that the manifests' statistics do not skip.

Planning reads no file. It uses only the entries of the files, the schemas and the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from orcidx.errors import CorruptFile, FileGone, Unsupported, located
from orcidx.explain.model import UnlistedFiles
from orcidx.paimon.data_types import DataField
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.paimon.deletion_vector_files import read_deletion_vector
from orcidx.paimon_table.metadata.manifest import FileEntry, ManifestInfo, RowStats
from orcidx.paimon_table.metadata.schema import FieldMapping, TableSchema, map_fields, same_type
from orcidx.paimon_table.read.bucket_pruning import bucket_filter
from orcidx.paimon_table.read.file_pruning import Bounds, FileBounds, partition_bounds, stats_bounds, value_bounds
from orcidx.paimon_table.read.raw_files import hides_level_zero, merging_needed
from orcidx.predicate import BoundPredicate
from orcidx.pruning.evaluate import Outcome, evaluate
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason
from orcidx.pruning.selection import RowSelection
from orcidx.spellings import counted
from orcidx.storage import ReadMetrics, Source

__all__ = [
    "DeletionFile",
    "FileTask",
    "SkippedFile",
    "TableFile",
    "TablePlan",
    "files_in_partitions",
    "in_planned_file",
    "matching_manifests",
    "plan_files",
]

POSTPONE_BUCKET = -2
"""The bucket of postponed files. Readers do not see their rows until a compaction has moved them."""


@dataclass(frozen=True)
class DeletionFile:
    """The location of a data file's deletion vector. ``length`` is counted as in manifests (see
    ``deletion_vector``)."""

    source: Source
    offset: int
    length: int
    cardinality: int | None

    @property
    def path(self) -> str:
        """The path of the index file with the vector."""
        return self.source.name

    def read(self, count: Callable[[ReadMetrics], None] | None = None) -> DeletionVector:
        """Reads the vector.

        Parameters
        ----------
        count : callable, optional
            A function that is called with the counts of the reads.

        Returns
        -------
        DeletionVector

        Raises
        ------
        CorruptFile
            The vector is damaged, or its cardinality differs from that in the manifest.
        """
        if count is None or self.source.kind == "reader":
            vector = read_deletion_vector(self.source, self.offset, self.length)
        else:
            with closing(self.source.open()) as reader, located(file=self.path):
                vector = read_deletion_vector(reader, self.offset, self.length)
                count(reader.metrics)
        if self.cardinality is not None and self.cardinality != len(vector):
            raise CorruptFile(
                f"the deletion vector has {len(vector)} positions, but should have {self.cardinality} according to "
                "the manifest",
                file=self.path,
                offset=self.offset,
            )
        return vector


@dataclass(frozen=True)
class TableFile:
    """A data file of a snapshot.

    ``partition``: the values of the partition columns in the form of predicates (text as str, DATE as days, timestamps
    as nanoseconds). ``embedded_index``: the bytes of the file index. ``index``: the file with the file index. At most
    one of ``embedded_index`` and ``index`` is set. ``entry``: the manifest's entry, with keys and statistics.
    """

    source: Source
    partition: Mapping[str, Any]
    partition_values: tuple[Any, ...] = field(repr=False)
    entry: FileEntry
    embedded_index: bytes | None
    index: Source | None
    deletion: DeletionFile | None

    def __repr__(self) -> str:
        facts = [f"{counted(self.rows, 'row')}", f"{counted(self.size, 'byte')}"]
        facts += [f"{name}={value!r:.60}" for name, value in self.partition.items()]
        facts += ["a file index"] if self.index is not None or self.embedded_index is not None else []
        facts += ["a deletion vector"] if self.deletion is not None else []
        return f"<TableFile {self.path!r}: {', '.join(facts)}>"

    @property
    def path(self) -> str:
        """The path of the data file."""
        return self.source.name

    @property
    def format(self) -> str:
        """The format, from the file's extension: "orc", "parquet", "avro" ..."""
        return self.entry.name.rpartition(".")[2].lower()

    @property
    def bucket(self) -> int:
        """The file's bucket. -2 means postponed."""
        return self.entry.bucket

    @property
    def rows(self) -> int:
        """The number of rows in the file, including deleted rows."""
        return self.entry.rows

    @property
    def level(self) -> int:
        """The file's level in the bucket's LSM tree. It is 0 in append tables."""
        return self.entry.level

    @property
    def schema_id(self) -> int:
        """The number of the schema that the file was written with."""
        return self.entry.schema_id

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.entry.size


@dataclass(frozen=True)
class FileTask:
    """A file to read. ``mapping`` maps its fields to the table's fields, in the table's order.

    ``moves_instants``: whether the file's values of TIMESTAMP WITH LOCAL TIME ZONE depend on the zone of the JVM that
    wrote it.
    """

    file: TableFile
    mapping: tuple[FieldMapping, ...] = field(repr=False)
    moves_instants: bool = False


@dataclass(frozen=True)
class _LazyReasons:
    """The reasons why one of many files is skipped. The text of the reasons is made only when it is used."""

    outcome: Outcome
    place: int

    def __call__(self) -> tuple[Reason, ...]:
        return self.outcome.reasons(self.place, self.place + 1)


@dataclass(frozen=True)
class _KnownReason:
    reason: Reason

    def __call__(self) -> tuple[Reason, ...]:
        return (self.reason,)


@dataclass(frozen=True)
class SkippedFile:
    """A file that a plan skips, and the reasons."""

    file: TableFile
    why: _LazyReasons | _KnownReason = field(repr=False, compare=False)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the file is skipped."""
        return self.why()


@contextmanager
def in_planned_file(file: TableFile) -> Iterator[None]:
    """Adds the file's path to errors. If the file is missing, raises ``FileGone`` with a message that says why."""
    try:
        with located(file=file.path):
            yield
    except FileNotFoundError as error:
        name = error.file if isinstance(error, FileGone) else error.filename
        raise FileGone(
            "the file is gone since its snapshot was opened: either it was deleted, or a compaction replaced it and "
            "the snapshot expired; open the table again",
            file=name or file.path,
        ) from error


@dataclass(frozen=True)
class TablePlan:
    """The files that a scan reads, and the files that it skips. Both lists are in the order of the manifests.
    ``unlisted``: the files of manifests that were not read. They are in neither list."""

    tasks: tuple[FileTask, ...]
    skipped: tuple[SkippedFile, ...]
    notes: tuple[Note, ...]
    unlisted: UnlistedFiles | None = None

    def __repr__(self) -> str:
        return f"<TablePlan of {counted(len(self.tasks), 'file')} to read and {len(self.skipped):,} left out>"


def matching_manifests(
    manifests: Sequence[ManifestInfo], schema: TableSchema, bound: BoundPredicate, *, instants_as_stored: bool = False
) -> list[ManifestInfo]:
    """The manifests with a partition that can match. The other manifests can be left out. They cannot delete a file
    that one of the returned manifests adds, because the entry that deletes a file has the same partition as the entry
    that adds it.

    ``instants_as_stored``: whether the scan returns instants as they are stored in the files. If so, partition columns
    that contain instants are not used.
    """
    places = {
        field.name: (i, field.type)
        for i, field in enumerate(schema.partition_fields)
        if not (instants_as_stored and field.type.has_instants)
    }
    if not places:
        return list(manifests)

    def bounds_of(i: int, column: str) -> Bounds | None:
        if column not in places:
            return None
        # A manifest does not record how many rows its partition statistics cover. The row count 1 is passed instead. It
        # only says that there is at least one row.
        position, data_type = places[column]
        stats = manifests[i].partition_stats
        counts = stats.null_counts
        none_null = counts is not None and position < len(counts) and counts[position] == 0
        known = stats_bounds(RowStats(stats.minima, stats.maxima, None), position, data_type, 1)
        return replace(known, nulls=0 if none_null else None)

    outcome = evaluate(
        bound.root, [FileBounds("partition range", len(manifests), bounds_of)], RowSelection.all(len(manifests))
    )
    return [manifests[i] for i in outcome.may.positions().tolist()]


def plan_files(
    files: Sequence[TableFile],
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    bound: BoundPredicate | None,
    *,
    jvm_zone: str | None = None,
) -> TablePlan:
    """Plans a scan that reads ``files`` as rows of ``schema``. ``schema_of`` returns a file's schema by its number.

    ``jvm_zone``: the zone of the JVMs that wrote the ORC files, if it is known (see ``jvm_instants``).

    Raises ``Unsupported`` with the reason if rows must be merged before they can be filtered.
    """
    plan = _Planner(schema, schema_of, list(files), jvm_zone)
    if schema.primary_keys:
        plan.hide_uncompacted()
    if bound is not None:
        plan.prune_partitions(bound)
        plan.prune_buckets(bound)
    if schema.primary_keys:
        plan.check_raw()
    if bound is not None:
        plan.prune_statistics(bound)
    tasks = tuple(FileTask(file, plan.mapping(file), plan.moves_instants(file)) for file in plan.files)
    return TablePlan(tasks, tuple(plan.skipped), tuple(plan.notes))


def files_in_partitions(
    files: Sequence[TableFile],
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    bound: BoundPredicate,
) -> tuple[list[TableFile], list[SkippedFile]]:
    """Splits files by a predicate over the partition keys. Returns the files of matching partitions, and the other
    files."""
    # The zone "UTC" has no effect, because no value in the files is compared.
    plan = _Planner(schema, schema_of, list(files), "UTC")
    plan.prune_partitions(bound)
    return plan.files, plan.skipped


class _Planner:
    """The files that remain after each step of planning, and the files that are skipped."""

    def __init__(
        self,
        schema: TableSchema,
        schema_of: Callable[[int], TableSchema],
        files: list[TableFile],
        jvm_zone: str | None,
    ) -> None:
        self.schema = schema
        self.schema_of = schema_of
        self.files = files
        self.jvm_zone = jvm_zone
        self.skipped: list[SkippedFile] = []
        self.notes: list[Note] = []
        self._mappings: dict[int, tuple[FieldMapping, ...]] = {}

    def mapping(self, file: TableFile) -> tuple[FieldMapping, ...]:
        """The mapping of a file's fields. All files of one schema share one mapping."""
        found = self._mappings.get(file.schema_id)
        if found is None:
            with located(file=file.path):
                found = self._mappings[file.schema_id] = map_fields(self.schema, self.schema_of(file.schema_id))
        return found

    def moves_instants(self, file: TableFile) -> bool:
        """Whether the file's instants depend on a JVM's zone. This follows from the table's options at the time when
        the file was written."""
        with located(file=file.path):
            return file.format == "orc" and self.schema_of(file.schema_id).moves_instants

    def _as_stored(self, file: TableFile, column: str) -> bool:
        """Whether a condition on the column tests the values as they are stored in the file. The stored values may
        differ from the values that the table's statistics describe."""
        field = self.schema.by_name.get(column)
        return field is not None and field.type.has_instants and self.jvm_zone is None and self.moves_instants(file)

    def _keep(self, reason_to_skip: Callable[[int, TableFile], _LazyReasons | _KnownReason | None]) -> None:
        kept = []
        for i, file in enumerate(self.files):
            why = reason_to_skip(i, file)
            if why is None:
                kept.append(file)
            else:
                self.skipped.append(SkippedFile(file, why))
        self.files = kept

    def hide_uncompacted(self) -> None:
        """Skips files that readers of a primary-key table do not see yet."""
        level_hidden = hides_level_zero(self.schema)

        def reason(_: int, file: TableFile) -> _KnownReason | None:
            if file.bucket == POSTPONE_BUCKET:
                return _KnownReason(Reason("bucket", "", "postponed rows are not visible before compaction"))
            if level_hidden and file.level == 0:
                return _KnownReason(Reason("level", "", "level 0 is not visible before compaction"))
            return None

        self._keep(reason)

    def prune_partitions(self, bound: BoundPredicate) -> None:
        fields = self.schema.partition_fields
        if fields:
            files = self.files
            known = [partition_bounds(fields, file.partition_values, file.rows or 1) for file in files]

            def bounds_of(i: int, column: str) -> Bounds | None:
                return None if self._as_stored(files[i], column) else known[i].get(column)

            self._prune("partition", bound, bounds_of)

    def prune_buckets(self, bound: BoundPredicate) -> None:
        buckets = bucket_filter(self.schema, bound.root)
        if buckets is None:
            return
        other = _KnownReason(Reason("bucket", "", "the hash of the key in the condition belongs to another bucket"))
        fields = self.schema.bucket_fields

        def reason(_: int, file: TableFile) -> _KnownReason | None:
            if any(self._as_stored(file, field.name) for field in fields) or not self._has_types(file, fields):
                return None
            return None if buckets.may_hold(file.bucket, file.entry.total_buckets) else other

        self._keep(reason)

    def _has_types(self, file: TableFile, fields: Sequence[DataField]) -> bool:
        """Whether the file was written with the same types of these fields. The hash of a key depends on its type."""
        with located(file=file.path):
            types = {field.id: field.type for field in self.schema_of(file.schema_id).fields}
        return all(field.id in types and same_type(types[field.id], field.type) for field in fields)

    def prune_statistics(self, bound: BoundPredicate) -> None:
        files, fields = self.files, self.schema.by_name
        partitions = [
            partition_bounds(self.schema.partition_fields, file.partition_values, file.rows) for file in files
        ]

        def bounds_of(i: int, column: str) -> Bounds | None:
            if column in partitions[i]:
                return None if self._as_stored(files[i], column) else partitions[i][column]
            zoned = column in fields and fields[column].type.has_instants
            if zoned and self.jvm_zone != "UTC" and self.moves_instants(files[i]):
                return None  # Java computes the statistics before it shifts the values by its JVM's zone
            with located(file=files[i].path):
                return value_bounds(files[i].entry, self.schema_of(files[i].schema_id), fields[column])

        self._prune("file statistics", bound, bounds_of)

    def _prune(self, name: str, bound: BoundPredicate, bounds_of: Callable[[int, str], Bounds | None]) -> None:
        span = RowSelection.all(len(self.files))
        outcome: Outcome = evaluate(bound.root, [FileBounds(name, len(self.files), bounds_of)], span)
        self.notes.extend(outcome.notes)
        may = outcome.may.mask()
        self._keep(lambda i, _: None if may[i] else _LazyReasons(outcome, i))

    def check_raw(self) -> None:
        """Raises ``Unsupported`` if the files of a bucket cannot be read independently of each other."""
        buckets: dict[tuple[bytes, int], list[FileEntry]] = {}
        for file in self.files:
            buckets.setdefault((file.entry.partition, file.bucket), []).append(file.entry)
        for (_, bucket), entries in buckets.items():
            if reason := merging_needed(entries, self.schema):
                raise Unsupported(
                    f"the rows of bucket {bucket} must be merged by primary key: {reason}; compact the table, or read "
                    "it with Paimon"
                )
