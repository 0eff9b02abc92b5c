"""``Table.rewrite_file_index``: builds file indexes for existing data files and commits them as COMPACT.

Tasks build the indexes. ``Table.rewrite_file_index`` runs the tasks one after the other, and Spark runs the tasks on
several machines. Then one commit gives every file its new entry. The entry names the same data file, with an index in
the manifest or in a sidecar. The sidecar's name is computed from its content, so no file is ever overwritten. Files
that a compaction or another rewrite has replaced while the tasks ran are left out, and the other files are committed.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orcidx.errors import (
    CommitConflict,
    CommitUncertain,
    CorruptFile,
    FileGone,
    InvalidQuery,
    OrcidxError,
    Unsupported,
    located,
)
from orcidx.options import ReadOptions
from orcidx.paimon.build import FileIndexBuilder, Spec
from orcidx.paimon.container import split_map_key
from orcidx.paimon.data_types import DataType
from orcidx.paimon.file_index import read_file_index
from orcidx.paimon.file_index_options import FileIndexOptions, for_every_reader
from orcidx.paimon_table.commit.candidate import Change, NewFile
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptionsByName
from orcidx.paimon_table.commit.committing import Committer
from orcidx.paimon_table.commit.snapshot_creation import Attempt
from orcidx.paimon_table.commit.table_change import begin, changed, check_instants, check_own_file, check_table
from orcidx.paimon_table.commit.table_state import view_of
from orcidx.paimon_table.metadata.manifest import ADD, FilePlace, file_entry
from orcidx.paimon_table.metadata.schema import TableSchema, char_lengths
from orcidx.paimon_table.read.parquet_rows import read_parquet
from orcidx.paimon_table.read.plan import POSTPONE_BUCKET, SkippedFile, TableFile, files_in_partitions
from orcidx.paimon_table.read.shared_reading import finest_unit, with_coarse_units
from orcidx.paimon_table.read.table_paths import bucket_path, decoded_partition
from orcidx.paimon_table.read.table_view import TableView
from orcidx.predicate import Where, bind, parse
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file import open_file
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["BuiltIndex", "IndexRewritePlan", "IndexTask", "commit_rewrite", "plan_index_rewrite", "rewrite_file_index"]

KIND = "COMPACT"


@dataclass(frozen=True)
class BuiltIndex:
    """The index of one data file. ``container``: the bytes that are embedded in the manifest. ``sidecar``: the name of
    the sidecar file, if the index is not embedded. Only one of ``container`` and ``sidecar`` is set. ``size``: the size
    of the index in bytes."""

    identity: tuple[Any, ...]
    container: bytes | None = field(repr=False)
    sidecar: str | None
    size: int


@dataclass(frozen=True)
class IndexTask:
    """A task that builds the index of one data file. It can be pickled. ``spec`` and ``types`` use the file's own
    column names. ``directory``: the directory of the data file in the table."""

    root: Source
    source: Source
    identity: tuple[Any, ...]
    name: str
    rows: int
    size: int
    directory: str
    spec: Spec
    types: Mapping[str, DataType]
    threshold: int

    def build(self) -> BuiltIndex | None:
        """Reads the file's columns and builds the index. Writes a sidecar if the index is too large for the manifest.
        Returns None if a compaction and an expiry have deleted the file."""
        try:
            with located(file=self.source.name):
                data = self._container()
        except FileNotFoundError:
            return None
        if len(data) <= self.threshold:
            return BuiltIndex(self.identity, data, None, len(data))
        sidecar = f"{self.name}.{hashlib.sha256(data).hexdigest()[:16]}.index"
        Folder(self.root, made_of=[self.source]).put(f"{self.directory}/{sidecar}", data)
        return BuiltIndex(self.identity, None, sidecar, len(data))

    def _container(self) -> bytes:
        columns = self.types
        if self.name.lower().endswith(".orc"):
            with open_file(self.source) as opened:
                if opened.num_rows != self.rows:
                    raise CorruptFile(f"the file has {opened.num_rows} rows, but the manifest says {self.rows}")
                kinds = {name: kind.arrow_type for name, kind in columns.items()}
                unit = finest_unit(pa.schema(list(kinds.items())))
                scan = opened.scan([(name,) for name in columns], timestamp_unit=unit, calendar="stored")
                if schema := with_coarse_units(scan.schema, kinds):
                    scan = opened.scan(timestamp_unit=unit, calendar="stored", schema=schema)
                with scan.to_batches() as batches:
                    return self._built(batches)
        rows = RowSelection.all(self.rows)
        return self._built(read_parquet(self.source, columns, rows, batch_size=ReadOptions.batch_size))

    def _built(self, batches: Iterable[Any]) -> bytes:
        builder = None
        for batch in batches:
            builder = builder or FileIndexBuilder(self.spec, batch.schema, self.types)
            builder.add(batch)
        if builder is None or builder.rows != self.rows:
            raise CorruptFile(
                f"the scan returned {builder.rows if builder else 0} rows, but the manifest says that the file has "
                f"{self.rows}"
            )
        return builder.finish().to_bytes()


@dataclass
class IndexRewritePlan:
    """The plan of a rewrite: its ``tasks``, and the files that need no task, by status."""

    committer: Committer
    tasks: list[IndexTask]
    files: dict[str, list[str]]
    planned_on: int
    schema_id: int
    known: frozenset[tuple[Any, ...]]


def plan_index_rewrite(
    table: TableView, where: Where, spec: Spec | None, *, only_missing: bool, given: CommitOptionsByName
) -> IndexRewritePlan:
    """Plans which files get which indexes. Only metadata and the headers of sidecars are read."""
    committer = begin(table, "rewrite_file_index", given)
    state = committer.state
    options = FileIndexOptions.parse(state.schema.options)
    wanted = for_every_reader(options.spec if spec is None else spec)
    if not any(wanted.values()):
        raise Unsupported(
            "the table has no option for file indexes: set file-index.<kind>.columns in the table, or give spec="
        )
    _check_columns(wanted, state.schema)
    current = view_of(table, state)
    chosen: list[TableFile] = current.data_files()
    others: Sequence[SkippedFile] = ()
    if where is not None:
        chosen, others = _in_partitions(current, where)
    files: dict[str, list[str]] = {"complete": [], "skipped": [skipped.file.entry.name for skipped in others]}
    tasks = []
    for file in chosen:
        if file.bucket == POSTPONE_BUCKET:
            files["skipped"].append(file.entry.name)
            continue
        task = _task(committer, current, file, wanted, options)
        if task is None or (only_missing and _is_complete(file, task)):
            files["complete"].append(file.entry.name)
        else:
            tasks.append(task)
    return IndexRewritePlan(committer, tasks, files, state.snapshot_id, state.schema.id, frozenset(state.live))


def _check_columns(spec: Spec, schema: TableSchema) -> None:
    for given in dict.fromkeys(column for columns in spec.values() for column in columns):
        column, _ = split_map_key(given, schema.by_name)
        if column not in schema.by_name:
            raise InvalidQuery(f"the table has no column {column!r}; it has {', '.join(schema.by_name)}", column=column)


def _in_partitions(table: TableView, where: Any) -> tuple[list[TableFile], list[SkippedFile]]:
    schema = table.schema
    bound = bind(parse(where), schema.arrow_schema, char_lengths=char_lengths(schema.fields))
    if other := [path[0] for path in bound.columns if path[0] not in schema.partition_keys]:
        keys = ", ".join(schema.partition_keys) or "none"
        raise InvalidQuery(
            f"where may use only partition keys, but {other[0]!r} is not a partition key; the partition keys are: "
            f"{keys}"
        )
    return files_in_partitions(table.data_files(), schema, table.schema_of, bound)


def _task(
    committer: Committer, table: TableView, file: TableFile, wanted: Spec, options: FileIndexOptions
) -> IndexTask | None:
    """The task for a file. The result is None if the file has no rows, or none of the columns."""
    check_own_file(file.entry)
    if file.format not in ("orc", "parquet"):
        raise Unsupported(
            f"orcidx cannot build an index for data files of format {file.format!r}; build it with Paimon",
            file=file.path,
        )
    written_with = table.schema_of(file.schema_id)
    spec, types = _in_file(wanted, table.schema, written_with)
    if not spec or not file.rows:
        return None
    check_instants(written_with, list(types), file.format, committer.options, "building an index")
    directory = bucket_path(table.schema, file.bucket, file.partition_values)
    entry = file.entry
    root = committer.files.root
    return IndexTask(
        root,
        file.source,
        entry.identity,
        entry.name,
        entry.rows,
        entry.size,
        directory,
        spec,
        types,
        options.in_manifest_threshold,
    )


def _in_file(wanted: Spec, table: TableSchema, file: TableSchema) -> tuple[Spec, dict[str, DataType]]:
    """The spec and the types with the column names of the file's schema. Columns are found by field id. Columns that
    the file lacks are left out."""
    by_id = {entry.id: entry for entry in file.fields}
    spec: dict[str, dict[str, Any]] = {}
    types: dict[str, DataType] = {}
    for kind, columns in wanted.items():
        for column, given in columns.items():
            name, key = split_map_key(column, table.by_name)
            found = by_id.get(table.by_name[name].id)
            if found is None:
                continue
            types[found.name] = found.type
            spec.setdefault(kind, {})[found.name if key is None else f"{found.name}[{key}]"] = dict(given or {})
    return spec, types


def _is_complete(file: TableFile, task: IndexTask) -> bool:
    """Whether the file has every wanted index. A damaged index counts as missing."""
    source = file.embedded_index if file.embedded_index is not None else file.index
    if source is None or (file.embedded_index is not None and file.index is not None):
        return False
    try:
        with read_file_index(source, types=dict(task.types), rows=file.rows) as index:
            return all(kind in index.columns.get(column, ()) for kind in task.spec for column in task.spec[kind])
    except (CorruptFile, FileNotFoundError):
        return False


# ---------------------------------------------------------------------- commit


def commit_rewrite(plan: IndexRewritePlan, results: Sequence[BuiltIndex | None]) -> Changed:
    """Commits the indexes that tasks built. Files that have disappeared or changed while the tasks ran are left out,
    and the result names them."""
    built = [index for index in results if index is not None]
    status: dict[str, list[str]] = {}
    rows: list[int] = []

    def change(attempt: Attempt) -> Change | None:
        check_table(attempt.state, "rewrite_file_index", plan.committer.options)
        if attempt.state.schema.id != plan.schema_id:
            raise CommitConflict(
                "the table's schema has changed since the rewrite was planned; plan the rewrite again",
                snapshot_id=attempt.state.snapshot_id,
            )
        made = _change(attempt, plan, built, status)
        rows[:] = [old.entry.rows for old, _ in made.replaced]
        return made if made.replaced else None

    with _naming_sidecars(plan, built):
        committed = plan.committer.commit(KIND, change)
    if committed is not None and committed.repeated:
        return changed(plan.committer, committed, KIND, plan.planned_on)
    names = {name: tuple(found) for name, found in {**status, **plan.files}.items() if found}
    size = sum(index.size for index in built)
    return changed(plan.committer, committed, KIND, plan.planned_on, files=names, rows=sum(rows), bytes=size)


@contextmanager
def _naming_sidecars(plan: IndexRewritePlan, built: Sequence[BuiltIndex | None]) -> Iterator[None]:
    """Adds the names of the remaining sidecars to an error. The sidecars are not deleted, because another job may have
    committed the same sidecars. The names of sidecars are computed from their content, so two jobs can write the same
    sidecar."""
    try:
        yield
    except BaseException as error:
        directories = {task.identity: task.directory for task in plan.tasks}
        left = [
            f"{directories[index.identity]}/{index.sidecar}"
            for index in built
            if index is not None and index.sidecar is not None
        ]
        if left and isinstance(error, (CommitConflict, CommitUncertain)):
            error.left_behind = (*error.left_behind, *left)
        else:
            _note_left(error, left)
        raise


@contextmanager
def naming_task_sidecars(plan: IndexRewritePlan) -> Iterator[None]:
    """Adds the names of the remaining sidecars to an error. Tasks in other processes wrote these sidecars, so they are
    found by listing directories."""
    try:
        yield
    except BaseException as error:
        try:
            left = _stored_sidecars(plan)
        except (OrcidxError, OSError):
            left = ["the sidecars cannot be listed, because the storage fails"]
        _note_left(error, left)
        raise


def _note_left(error: BaseException, left: Sequence[str]) -> None:
    if left:
        error.add_note(f"remaining files, which are unused unless another job has committed them: {', '.join(left)}")


def _stored_sidecars(plan: IndexRewritePlan) -> list[str]:
    """The stored sidecars that belong to data files in the plan. Sidecars that the planned snapshot names are left
    out."""
    named = {name for file in plan.committer.state.live.values() for name in file.entry.extra_files}
    planned = {f"{task.directory}/{task.name}" for task in plan.tasks}
    found = []
    for directory in sorted({task.directory for task in plan.tasks}):
        for stored in plan.committer.folder.list(directory):
            ours = re.fullmatch(r"(.+)\.[0-9a-f]{16}\.index", stored.name)
            if ours and ours[1] in planned and stored.name.rpartition("/")[2] not in named:
                found.append(stored.name)
    return found


def _change(
    attempt: Attempt, plan: IndexRewritePlan, built: Sequence[BuiltIndex], status: dict[str, list[str]]
) -> Change:
    live = attempt.state.live
    by_place = attempt.state.by_place
    for name in ("done", "gone", "changed", "new"):
        status[name] = []
    replaced, new_files = [], []
    planned = {_place(identity) for identity in plan.known}
    for index in built:
        old = live.get(index.identity)
        place = _place(index.identity)
        if old is None:
            status["changed" if place in by_place else "gone"].append(place[2])
            continue
        record, sidecar = _record(attempt, old.record, index)
        replaced.append((old, record))
        status["done"].append(place[2])
        if sidecar is not None:
            new_files.append(sidecar)
    made = {index.identity for index in built}
    for task in plan.tasks:
        if task.identity not in made:
            if _place(task.identity) in by_place:
                text = f"the file is missing, although the newest snapshot {attempt.state.snapshot_id} refers to it"
                raise FileGone(text, file=task.source.name)
            status["gone"].append(task.name)
    status["new"] = [place[2] for place in by_place if place not in planned]
    return Change(KIND, replaced=tuple(replaced), new_files=tuple(new_files))


def _place(identity: tuple[Any, ...]) -> FilePlace:
    partition, bucket, _, name, *_ = identity
    return partition, bucket, name


def _record(attempt: Attempt, old: dict[str, Any], index: BuiltIndex) -> tuple[dict[str, Any], NewFile | None]:
    """The file's new record, with either an embedded index or a sidecar. The other extra files of the data file stay.

    An identity that a manifest deletes can never be added again. If the new record would have such an identity, or the
    same identity as the old record, the index gets a new name.
    """
    schema = attempt.state.schema
    others = [name for name in old["_FILE"]["_EXTRA_FILES"] if not name.endswith(".index")]
    directory = bucket_path(schema, old["_BUCKET"], decoded_partition(schema, old["_PARTITION"]))
    sidecar, container = index.sidecar, index.container
    for number in itertools.count(1):
        extra = [*others, *([sidecar] if sidecar is not None else [])]
        file = {**old["_FILE"], "_EXTRA_FILES": extra, "_EMBEDDED_FILE_INDEX": container}
        record = {**old, "_KIND": ADD, "_FILE": file}
        identity = file_entry(record).identity
        if identity not in attempt.state.deleted and identity != file_entry(old).identity:
            break
        data = container if container is not None else attempt.folder.read(f"{directory}/{sidecar}")
        if data is None:
            raise CorruptFile(f"sidecar {sidecar} is gone")
        digest = hashlib.sha256(data).hexdigest()[:16]
        sidecar, container = f"{old['_FILE']['_FILE_NAME']}.{digest}-{number}.index", None
        attempt.folder.put(f"{directory}/{sidecar}", data)
    return record, None if sidecar is None else NewFile(f"{directory}/{sidecar}", index.size)


def rewrite_file_index(
    table: TableView, where: Where, spec: Spec | None, *, only_missing: bool, dry_run: bool, given: CommitOptionsByName
) -> Changed:
    """Implements ``Table.rewrite_file_index``, which describes the arguments. ``given`` has the commit options."""
    plan = plan_index_rewrite(table, where, spec, only_missing=only_missing, given=given)
    committer = plan.committer
    if found := committer.earlier(KIND):
        return changed(committer, found, KIND, plan.planned_on)
    if dry_run:
        names = {"done": tuple(task.name for task in plan.tasks)} | {k: tuple(v) for k, v in plan.files.items() if v}
        rows = sum(task.rows for task in plan.tasks)
        return Changed(None, KIND, names, rows, planned_on=plan.planned_on, dry_run=True)
    if not plan.tasks:
        names = {name: tuple(found) for name, found in plan.files.items() if found}
        return changed(committer, None, KIND, plan.planned_on, files=names)
    built: list[BuiltIndex | None] = []
    with _naming_sidecars(plan, built):
        for task in committer.options.counted(plan.tasks):
            built.append(task.build())
    return commit_rewrite(plan, built)
