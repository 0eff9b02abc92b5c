"""``Table.append``: adds rows to an append table and commits them as APPEND.

Data files are written once, even if the commit is tried several times. Values that depend on other files of the table,
such as the sequence numbers of the rows in a bucket, are taken from the newest snapshot on each try. If it is certain
that the change was not committed, the data files are deleted again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcidx.errors import CommitConflict, CommitUncertain, CorruptFile, Unsupported
from orcidx.paimon_table.commit.candidate import Change, NewFile
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptionsByName
from orcidx.paimon_table.commit.committing import Committer
from orcidx.paimon_table.commit.orphans import discard, name_left, take_back
from orcidx.paimon_table.commit.snapshot_creation import Attempt
from orcidx.paimon_table.commit.table_change import begin, changed, check_instants, check_table
from orcidx.paimon_table.commit.table_state import MANIFEST_VERSION, TableState
from orcidx.paimon_table.data_files.data_file_formats import check_writable
from orcidx.paimon_table.data_files.data_file_writing import DataFiles, WrittenFile
from orcidx.paimon_table.data_files.row_conforming import arrow_batches, check_columns, conformed, placed
from orcidx.paimon_table.metadata.manifest import ADD
from orcidx.paimon_table.metadata.manifest_schemas import MANIFEST_SCHEMA, completed, field_names
from orcidx.paimon_table.metadata.schema import UNAWARE_BUCKET, TableSchema
from orcidx.paimon_table.metadata.snapshot import LONG_LIMIT
from orcidx.paimon_table.read.table_view import TableView

__all__ = ["AppendPlan", "append_rows", "commit_append", "plan_append", "write_rows"]

KIND = "APPEND"
_NO_KEY = bytes(12)
"""A row without fields. Files of a table without a primary key store this row as their minimum and maximum key."""


@dataclass
class AppendPlan:
    """The plan of an append. ``schema``: the schema of the rows. ``buckets``: the number of buckets, or -1 if the table
    has no buckets."""

    committer: Committer
    schema: TableSchema
    buckets: int
    dense: bool
    """Whether the record of a file's statistics leaves out columns without statistics."""


def plan_append(table: TableView, given: CommitOptionsByName) -> AppendPlan:
    """Checks that orcidx can append to the table. Only metadata is read."""
    committer = begin(table, "append", given)
    state = committer.state
    schema = state.schema
    if schema.primary_keys:
        raise Unsupported(
            "orcidx cannot append to a primary-key table, whose rows must be merged by key; append "
            "the rows with Spark or Flink"
        )
    buckets = schema.buckets
    if buckets != UNAWARE_BUCKET and buckets < 1:
        raise Unsupported(f"orcidx cannot append to tables with bucket = {buckets}; append the rows with Paimon")
    if buckets > 0 and not schema.bucket_fields:
        raise CorruptFile("the table has buckets, but the option bucket-key is missing", file=committer.files.root.name)
    form = check_writable(schema)
    check_instants(schema, list(schema.by_name), form, committer.options, "appending to ORC files")
    dense = schema.is_on("metadata.stats-dense-store", default=True)
    dense = dense and "_VALUE_STATS_COLS" in field_names(_newest_schema(state), "_FILE")
    return AppendPlan(committer, schema, buckets, dense)


def _newest_schema(state: TableState) -> bytes:
    """The Avro schema of the newest manifest."""
    newest = state.newest_manifest
    return MANIFEST_SCHEMA if newest is None else newest.schema_text


def write_rows(plan: AppendPlan, data: object, files: DataFiles | None) -> tuple[int, list[WrittenFile]]:
    """Writes rows to data files that no snapshot names yet. If ``files`` is None, the rows are only checked. Returns
    the number of rows and the files."""
    given, batches = arrow_batches(data)
    check_columns(given, plan.schema)
    count = 0
    for batch in batches:
        rows = conformed(batch, plan.schema)
        count += rows.num_rows
        if files is None or not rows.num_rows:
            continue
        for partition, values, bucket, part in placed(rows, plan.schema, plan.buckets):
            files.write(partition, values, bucket, part)
    return count, [] if files is None else files.close()


def commit_append(plan: AppendPlan, written: Sequence[WrittenFile]) -> Changed:
    """Commits data files that ``write_rows`` has written."""

    def change(attempt: Attempt) -> Change | None:
        check_table(attempt.state, "append", plan.committer.options)
        if attempt.state.schema.id != plan.schema.id:
            said = "the table's schema has changed while the rows were written; run the append again"
            raise CommitConflict(said, snapshot_id=attempt.state.snapshot_id)
        return _change(attempt.state, plan, written)

    committed = plan.committer.commit(KIND, change)
    if committed is not None and committed.repeated:
        return changed(plan.committer, committed, KIND, plan.committer.state.snapshot_id)
    size = sum(file.size + (file.sidecar_size if file.sidecar else 0) for file in written)
    rows = sum(file.rows for file in written)
    names = {"new": tuple(file.name for file in written)}
    planned_on = plan.committer.state.snapshot_id
    return changed(plan.committer, committed, KIND, planned_on, files=names, rows=rows, bytes=size)


def _change(state: TableState, plan: AppendPlan, written: Sequence[WrittenFile]) -> Change | None:
    if not written:
        return None
    _check_buckets(state, plan, written)
    newest = _newest_schema(state)
    following = _next_numbers(state) if plan.buckets > 0 else {}
    added, new_files = [], []
    for file in written:
        first = following.get((file.partition, file.bucket), 0)
        if first + file.rows > LONG_LIMIT:
            raise CorruptFile(
                f"the new rows of bucket {file.bucket} would exceed the largest sequence number: the bucket's next "
                f"number is {first}"
            )
        if plan.buckets > 0:
            following[file.partition, file.bucket] = first + file.rows
        added.append(_record(newest, plan, file, first))
        new_files.append(NewFile(f"{file.directory}/{file.name}", file.size))
        if file.sidecar is not None:
            new_files.append(NewFile(f"{file.directory}/{file.sidecar}", file.sidecar_size))
    return Change(KIND, added=tuple(added), added_schema=newest, new_files=tuple(new_files))


def _check_buckets(state: TableState, plan: AppendPlan, written: Sequence[WrittenFile]) -> None:
    """Checks that the existing files of each partition have the table's number of buckets."""
    touched = {file.partition for file in written}
    for live in state.live.values():
        if live.entry.partition in touched and live.entry.total_buckets != plan.buckets:
            raise Unsupported(
                f"a partition has {live.entry.total_buckets} buckets, but the table option bucket is {plan.buckets}; "
                "rewrite the partition with INSERT OVERWRITE first"
            )


def _next_numbers(state: TableState) -> dict[tuple[bytes, int], int]:
    """The sequence number that the next row of each bucket gets."""
    following: dict[tuple[bytes, int], int] = {}
    for live in state.live.values():
        place = (live.entry.partition, live.entry.bucket)
        last = live.record["_FILE"].get("_MAX_SEQUENCE_NUMBER")
        if type(last) is not int:
            raise CorruptFile(f"data file {live.entry.name} has no sequence number")
        following[place] = max(following.get(place, 0), last + 1)
    return following


def _record(schema_text: bytes, plan: AppendPlan, file: WrittenFile, first: int) -> dict[str, Any]:
    nothing: Mapping[str, Any] = {"_MIN_VALUES": _NO_KEY, "_MAX_VALUES": _NO_KEY, "_NULL_COUNTS": []}
    data = {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size,
        "_ROW_COUNT": file.rows,
        "_MIN_KEY": _NO_KEY,
        "_MAX_KEY": _NO_KEY,
        "_KEY_STATS": dict(nothing),
        "_VALUE_STATS": file.stats,
        "_MIN_SEQUENCE_NUMBER": first,
        "_MAX_SEQUENCE_NUMBER": first + file.rows - 1,
        "_SCHEMA_ID": plan.schema.id,
        "_LEVEL": 0,
        "_EXTRA_FILES": [] if file.sidecar is None else [file.sidecar],
        "_CREATION_TIME": _wall_clock(),
        "_DELETE_ROW_COUNT": 0,
        "_EMBEDDED_FILE_INDEX": file.container,
        "_FILE_SOURCE": 0,
        "_VALUE_STATS_COLS": file.stats_columns,
        "_EXTERNAL_PATH": None,
        "_FIRST_ROW_ID": None,
        "_WRITE_COLS": None,
    }
    lossy = ("_DELETE_ROW_COUNT", "_FILE_SOURCE", "_CREATION_TIME")
    record = {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": ADD,
        "_PARTITION": file.partition,
        "_BUCKET": file.bucket,
        "_TOTAL_BUCKETS": plan.buckets,
        "_FILE": completed(schema_text, data, "_FILE", may_lose=lossy),
    }
    return completed(schema_text, record)


def _wall_clock() -> int:
    """The current local time in milliseconds, as if it were UTC. Paimon stores the creation time of a file in this
    form."""
    now = time.time()
    return int((now + time.localtime(now).tm_gmtoff) * 1000)


def append_rows(table: TableView, data: object, *, dry_run: bool, given: CommitOptionsByName) -> Changed:
    """Implements ``Table.append``, which describes the arguments. ``given`` has the commit options."""
    plan = plan_append(table, given)
    committer = plan.committer
    if earlier := committer.earlier(KIND):
        return changed(committer, earlier, KIND, committer.state.snapshot_id)
    if dry_run:
        rows, _ = write_rows(plan, data, None)
        return Changed(None, KIND, {}, rows, planned_on=committer.state.snapshot_id, dry_run=True)
    files = DataFiles(committer.files.root, plan.schema, dense=plan.dense)
    try:
        _, written = write_rows(plan, data, files)
        result = commit_append(plan, written)
    except BaseException as error:
        if isinstance(error, CommitUncertain) or committer.in_doubt:
            name_left(error, files.new.paths)
        else:
            take_back(committer.folder, files.new.paths, error)
        raise
    if result.repeated:
        discard(committer.folder, files.new.paths)
    return result
