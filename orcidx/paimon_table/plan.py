"""What a scan of a table reads: its files, pruned by what the manifests say, as one work item per file.

Nothing is read here: planning is a function of the files, the schemas and the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.paimon.deletion_vector import DeletionVector, read_deletion_vector
from orcidx.paimon_table.bucket_pruning import bucket_filter
from orcidx.paimon_table.file_pruning import Bounds, FileBounds, partition_bounds, stats_bounds, value_bounds
from orcidx.paimon_table.manifest import FileEntry, ManifestInfo, RowStats
from orcidx.paimon_table.raw_files import hides_level_zero, merging_needed
from orcidx.paimon_table.schema import FieldMapping, TableSchema, map_fields
from orcidx.predicate import BoundPredicate
from orcidx.pruning.evaluate import Note, Outcome, evaluate
from orcidx.pruning.reasons import Reason
from orcidx.pruning.selection import RowSelection
from orcidx.storage import Source

__all__ = [
    "DeletionFile",
    "FileTask",
    "SkippedFile",
    "TableFile",
    "TablePlan",
    "files_in_partitions",
    "matching_manifests",
    "plan_files",
]

POSTPONE_BUCKET = -2


@dataclass(frozen=True)
class DeletionFile:
    """Where the deletion vector of a data file is; ``length`` as manifests count it (see ``deletion_vector``)."""

    source: Source
    offset: int
    length: int
    cardinality: int | None

    @property
    def path(self) -> str:
        """The index file."""
        return self.source.name

    def read(self) -> DeletionVector:
        """Reads it; ``CorruptFile`` for damage, and where the manifest says another cardinality."""
        vector = read_deletion_vector(self.source, self.offset, self.length)
        if self.cardinality is not None and self.cardinality != len(vector):
            raise CorruptFile(
                f"deletion vector of {len(vector)} positions, where the manifest says {self.cardinality}",
                file=self.path,
                offset=self.offset,
            )
        return vector


@dataclass(frozen=True)
class TableFile:
    """A data file of a snapshot.

    ``partition`` maps partition columns to values in the predicates' domain (text as str; DATE as days, timestamps as
    nanoseconds). ``embedded_index``: the bytes of its file index; ``index``: the source of the file that holds it. One
    of the two, or neither. ``entry`` is the manifest's entry, with keys and statistics.
    """

    source: Source
    partition: Mapping[str, Any]
    partition_values: tuple[Any, ...] = field(repr=False)
    entry: FileEntry
    embedded_index: bytes | None
    index: Source | None
    deletion: DeletionFile | None

    @property
    def path(self) -> str:
        """The data file."""
        return self.source.name

    @property
    def format(self) -> str:
        """The format by the file's extension: "orc", "parquet", "avro" ..."""
        return self.entry.name.rpartition(".")[2].lower()

    @property
    def bucket(self) -> int:
        """Its bucket; -2: postponed."""
        return self.entry.bucket

    @property
    def rows(self) -> int:
        """Rows in the file, deleted ones included."""
        return self.entry.rows

    @property
    def level(self) -> int:
        """Its level in the bucket's LSM tree; 0 in append tables."""
        return self.entry.level

    @property
    def schema_id(self) -> int:
        """The schema that it was written with."""
        return self.entry.schema_id

    @property
    def size(self) -> int:
        """Bytes."""
        return self.entry.size


@dataclass(frozen=True)
class FileTask:
    """A file to read, and how its fields become those of the table (``mapping``, in the table's order)."""

    file: TableFile
    mapping: tuple[FieldMapping, ...]


@dataclass(frozen=True)
class _Ruled:
    """The reasons of one file of an outcome over many, put into words when they are asked for."""

    outcome: Outcome
    place: int

    def __call__(self) -> tuple[Reason, ...]:
        return self.outcome.reasons(self.place, self.place + 1)


@dataclass(frozen=True)
class _Known:
    reason: Reason

    def __call__(self) -> tuple[Reason, ...]:
        return (self.reason,)


@dataclass(frozen=True)
class SkippedFile:
    """A file that a plan leaves out, and why."""

    file: TableFile
    why: _Ruled | _Known = field(repr=False, compare=False)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What ruled the file out."""
        return self.why()


@dataclass(frozen=True)
class TablePlan:
    """What a scan reads and what it leaves out, both in the manifests' order."""

    tasks: tuple[FileTask, ...]
    skipped: tuple[SkippedFile, ...]
    notes: tuple[Note, ...]


def matching_manifests(
    manifests: Sequence[ManifestInfo], schema: TableSchema, bound: BoundPredicate
) -> list[ManifestInfo]:
    """Manifests with a partition that can match; an add and its delete are always of one partition."""
    places = {field.name: (i, field.type) for i, field in enumerate(schema.partition_fields)}
    if not places:
        return list(manifests)

    def bounds_of(i: int, column: str) -> Bounds | None:
        if column not in places:
            return None
        # The row count that null counts refer to is not recorded: one row stands for "not empty".
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
    instants_known: bool = False,
) -> TablePlan:
    """Plans a scan of ``files`` into ``schema``; ``schema_of`` gives a file's schema by its number.

    ``instants_known``: ORC files have the instants that statistics were made of, as no JVM's zone moved them.

    Raises ``Unsupported``, saying why, where rows must be merged before they can be filtered.
    """
    if schema.is_on("data-evolution.enabled"):
        raise Unsupported("the rows of a data-evolution table are spread over several files, which is not supported")
    plan = _Planner(schema, schema_of, list(files))
    if schema.primary_keys:
        plan.hide_uncompacted()
    if bound is not None:
        plan.prune_partitions(bound)
        plan.prune_buckets(bound)
    if schema.primary_keys:
        plan.check_raw()
    if bound is not None:
        plan.prune_statistics(bound, moved=schema.moves_instants and not instants_known)
    tasks = tuple(FileTask(file, plan.mapping(file)) for file in plan.files)
    return TablePlan(tasks, tuple(plan.skipped), tuple(plan.notes))


def files_in_partitions(
    files: Sequence[TableFile],
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    bound: BoundPredicate,
) -> tuple[list[TableFile], list[SkippedFile]]:
    """The files of partitions that match a predicate over the partition keys, and the others."""
    plan = _Planner(schema, schema_of, list(files))
    plan.prune_partitions(bound)
    return plan.files, plan.skipped


class _Planner:
    """The files that are left after each step, and those that are not."""

    def __init__(self, schema: TableSchema, schema_of: Callable[[int], TableSchema], files: list[TableFile]) -> None:
        self.schema = schema
        self.schema_of = schema_of
        self.files = files
        self.skipped: list[SkippedFile] = []
        self.notes: list[Note] = []

    def mapping(self, file: TableFile) -> tuple[FieldMapping, ...]:
        with located(file=file.path):
            return map_fields(self.schema, self.schema_of(file.schema_id))

    def _keep(self, reason_to_skip: Callable[[int, TableFile], _Ruled | _Known | None]) -> None:
        kept = []
        for i, file in enumerate(self.files):
            why = reason_to_skip(i, file)
            if why is None:
                kept.append(file)
            else:
                self.skipped.append(SkippedFile(file, why))
        self.files = kept

    def hide_uncompacted(self) -> None:
        """Leaves out what no reader of a primary-key table sees yet."""
        level_hidden = hides_level_zero(self.schema)

        def reason(_: int, file: TableFile) -> _Known | None:
            if file.bucket == POSTPONE_BUCKET:
                return _Known(Reason("bucket", "", "postponed rows wait for compaction"))
            if level_hidden and file.level == 0:
                return _Known(Reason("level", "", "level 0 is not visible before compaction"))
            return None

        self._keep(reason)

    def prune_partitions(self, bound: BoundPredicate) -> None:
        fields = self.schema.partition_fields
        if fields:
            known = [partition_bounds(fields, file.partition_values, file.rows or 1) for file in self.files]
            self._prune("partition", bound, lambda i, column: known[i].get(column))

    def prune_buckets(self, bound: BoundPredicate) -> None:
        buckets = bucket_filter(self.schema, bound.root)
        if buckets is not None:
            other = _Known(Reason("bucket", "", "the key that is asked for hashes into another bucket"))
            self._keep(lambda _, file: None if buckets.may_hold(file.bucket, file.entry.total_buckets) else other)

    def prune_statistics(self, bound: BoundPredicate, *, moved: bool) -> None:
        files, fields = self.files, self.schema.by_name
        partitions = [
            partition_bounds(self.schema.partition_fields, file.partition_values, file.rows) for file in files
        ]

        def bounds_of(i: int, column: str) -> Bounds | None:
            if column in partitions[i]:
                return partitions[i][column]
            distrusted = moved and files[i].format == "orc"
            if distrusted and column in fields and fields[column].type.has_instants:
                return None  # Java's statistics are of before its JVM's zone moved what the file has
            with located(file=files[i].path):
                return value_bounds(files[i].entry, self.schema_of(files[i].schema_id), fields[column])

        self._prune("file statistics", bound, bounds_of)

    def _prune(self, name: str, bound: BoundPredicate, bounds_of: Callable[[int, str], Bounds | None]) -> None:
        span = RowSelection.all(len(self.files))
        outcome: Outcome = evaluate(bound.root, [FileBounds(name, len(self.files), bounds_of)], span)
        self.notes.extend(outcome.notes)
        may = outcome.may.mask()
        self._keep(lambda i, _: None if may[i] else _Ruled(outcome, i))

    def check_raw(self) -> None:
        """Raises ``Unsupported`` where a bucket's files cannot be read one by one."""
        buckets: dict[tuple[bytes, int], list[FileEntry]] = {}
        for file in self.files:
            buckets.setdefault((file.entry.partition, file.bucket), []).append(file.entry)
        for (_, bucket), entries in buckets.items():
            if reason := merging_needed(entries, self.schema):
                raise Unsupported(
                    f"bucket {bucket} needs merging by primary key: {reason}; compact the table, or read it with Paimon"
                )
