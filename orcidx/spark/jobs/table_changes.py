"""Changes Paimon tables by Spark jobs. Tasks build indexes, find rows or write files, and the driver commits once.

A task that runs twice does no harm. Index files are named by their content. Only the data files of the attempt that
Spark accepts are committed. If a driver dies, start it again with the printed user, identifier and snapshot. The new
driver finds what the old driver has committed, and does not commit it again."""

from __future__ import annotations

import contextlib
import pickle
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from orcidx.errors import CommitUncertain, InvalidQuery, OrcidxError
from orcidx.keywords import lists_options
from orcidx.options import ReadOptions
from orcidx.paimon.build import Spec
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptions, CommitOptionsByName
from orcidx.paimon_table.commit.index_rewriting import commit_rewrite, naming_task_sidecars, plan_index_rewrite
from orcidx.paimon_table.commit.orphans import discard, name_left, take_back
from orcidx.paimon_table.commit.row_appending import commit_append, plan_append
from orcidx.paimon_table.commit.row_deleting import DeleteTask, commit_delete, delete_rows, plan_delete, without_gone
from orcidx.paimon_table.commit.table_change import changed
from orcidx.paimon_table.data_files.data_file_writing import DataFiles, WrittenFile, pieces
from orcidx.paimon_table.data_files.row_conforming import check_columns, conformed, placed
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.table import Table, open_table
from orcidx.spark.conditions.floored_times import in_micros_of_columns
from orcidx.spark.conditions.query_text import parse_text
from orcidx.spark.conditions.text_conditions import TextCondition, predicate_of_text
from orcidx.spark.jobs.file_jobs import TaskFailure, rows_of_tasks, weigh
from orcidx.spark.query.placement import place
from orcidx.spark.sessions.progress import Counters, Progress
from orcidx.spark.sessions.spark_session import facts_of
from orcidx.spark.types.argument_types import SparkWhere, TableName
from orcidx.spark.types.local_times import on_session_clock
from orcidx.spark.types.spark_types import struct_of_paimon
from orcidx.storage import Source
from orcidx.storage.secrets import with_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["append", "delete", "rewrite_file_index"]

_ROWS = pa.schema([pa.field("pickled", pa.binary())])


@lists_options(CommitOptions)
def rewrite_file_index(
    spark: SparkSession,
    table: TableName,
    where: SparkWhere | None = None,
    spec: Spec | None = None,
    *,
    only_missing: bool = True,
    dry_run: bool = False,
    target_bytes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitOptionsByName],
) -> Changed:
    """Builds file indexes of a Paimon table as a job. Tasks build the indexes, and the driver commits them as one
    snapshot.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    table
        A path or URL that the driver and the tasks can reach.
    where
        The partitions whose files are indexed. None: all partitions.
    spec
        The indexes to build. None: the indexes in the table's options.
    only_missing
        Do not rebuild the indexes of files that already have all of them.
    dry_run
        Only return the plan; change nothing.
    target_bytes
        Stored bytes of data for each task.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.
    **commit
        Options of ``paimon.CommitOptions`` by name.

    Returns
    -------
    paimon.Changed
        ``snapshot_id`` is the new snapshot, or None if there was nothing to do, or with ``dry_run``. ``files`` has the
        names of the data files by their outcome, such as ``done`` for files that got indexes.

    Raises
    ------
    InvalidQuery, Unsupported, CorruptFile, CommitConflict, CommitUncertain
        As for ``paimon.Table.rewrite_file_index``.

    Examples
    --------
    >>> orcidx.spark.rewrite_file_index(spark, "warehouse/db.db/t", spec={"bitmap": {"city": {}}})  # doctest: +SKIP
    """
    opened = _opened(table, storage_options)
    where = _predicate(spark, opened, where)
    commit = _named(opened, commit)
    plan = plan_index_rewrite(opened.view, where, spec, only_missing=only_missing, given=commit)
    if dry_run or not plan.tasks or plan.committer.earlier("COMPACT"):
        return opened.rewrite_file_index(where, spec, only_missing=only_missing, dry_run=dry_run, **commit)
    with naming_task_sidecars(plan):
        built = _run(spark, plan.tasks, [task.size for task in plan.tasks], "build", target_bytes)
    return commit_rewrite(plan, built)


@lists_options(CommitOptions)
def delete(
    spark: SparkSession,
    table: TableName,
    where: SparkWhere | None = None,
    *,
    everything: bool = False,
    isolation: Literal["snapshot", "serializable"] = "snapshot",
    dry_run: bool = False,
    target_bytes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitOptionsByName],
) -> Changed:
    """Deletes rows of a Paimon append table as a job. Tasks find the rows, and the driver merges and commits them.

    Deletes exactly the rows that ``read`` with this ``where`` returns. As in ``read``, Spark analyses a text, and times
    without a zone are in the session's time zone. NaN is the largest number, and names are compared by the session's
    case rule. Each file is scanned at most once, even if the commit is tried several times.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    table
        A path or URL that the driver and the tasks can reach.
    where
        The rows to delete. A text may only have comparisons of columns with constants.
    everything
        Delete every row. Then ``where`` must not be given.
    isolation
        With "serializable", matching rows that other writers append during the call are deleted too. With "snapshot"
        these rows are kept.
    dry_run
        Only return the plan; change nothing.
    target_bytes
        Stored bytes of data for each task.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.
    **commit
        Options of ``paimon.CommitOptions`` by name.

    Returns
    -------
    paimon.Changed
        ``snapshot_id`` is the new snapshot, or None if no row matches, or with ``dry_run``. ``files`` has the names of
        the data files that contain the deleted rows.

    Raises
    ------
    InvalidQuery
        The text has a part that only Spark can compute, or names an unknown column.
    Unsupported, CorruptFile, CommitConflict, CommitUncertain
        As for ``paimon.Table.delete``.

    Examples
    --------
    >>> orcidx.spark.delete(spark, "warehouse/db.db/t", "id = 5")  # doctest: +SKIP
    """
    opened = _opened(table, storage_options)
    facts = facts_of(spark)
    cased = facts.case_sensitive
    where = _predicate(spark, opened, where)
    if where is not None:
        where = on_session_clock(parse_text(where), opened.schema, facts.session_zone, case_sensitive=cased)
        where = in_micros_of_columns(where, opened.schema, "ns", case_sensitive=cased)
    commit = _named(opened, commit)
    options = ReadOptions(nan="largest", case_sensitive=cased)
    plan = plan_delete(opened.view, where, everything=everything, given=commit, options=options)
    if dry_run or plan.committer.earlier("OVERWRITE"):
        named: dict[str, Any] = {"everything": everything, "isolation": isolation, "dry_run": dry_run}
        return delete_rows(opened.view, where, **named, given=commit, options=options)

    def find(tasks: list[DeleteTask]) -> Iterable[Any]:
        sizes = [task.file.file.size for task in tasks]
        return zip([task.place for task in tasks], _run(spark, tasks, sizes, "find", target_bytes))

    return commit_delete(plan, without_gone(find(plan.tasks)), isolation=isolation, find=find)


@lists_options(CommitOptions)
def append(
    spark: SparkSession,
    table: TableName,
    rows: DataFrame,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitOptionsByName],
) -> Changed:
    """Appends the rows of a DataFrame to a Paimon table. Each task writes its own files, and the driver commits all
    files as one snapshot.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect. It is not used, because ``rows`` has its own session. All functions
        of this module take the session first.
    table
        A path or URL that the driver and the tasks can reach.
    rows
        A DataFrame with the table's columns.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.
    **commit
        Options of ``paimon.CommitOptions`` by name.

    Returns
    -------
    paimon.Changed
        ``snapshot_id`` is the new snapshot, or None if there was nothing to append. ``files`` has the names of the new
        data files.

    Raises
    ------
    InvalidQuery, Unsupported, ValueOutOfRange, CommitConflict, CommitUncertain
        As for ``paimon.Table.append``.

    Examples
    --------
    >>> orcidx.spark.append(spark, "warehouse/db.db/t", spark.range(10).toDF("id"))  # doctest: +SKIP
    """
    opened = _opened(table, storage_options)
    plan = plan_append(opened.view, _named(opened, commit))
    if found := plan.committer.earlier("APPEND"):
        return changed(plan.committer, found, "APPEND", plan.committer.state.snapshot_id)
    task = _WriteTask(plan.committer.files.root, plan.schema, plan.buckets, plan.dense)
    if unknown := [name for name in rows.columns if name not in plan.schema.by_name]:
        raise InvalidQuery(f"the table has no column {unknown[0]!r}; it has {', '.join(plan.schema.by_name)}")
    written: list[WrittenFile] = _collected(rows, task)
    try:
        result = commit_append(plan, written)
    except BaseException as error:
        if isinstance(error, CommitUncertain) or plan.committer.in_doubt:
            name_left(error, list(pieces(written)))
        else:
            take_back(plan.committer.folder, list(pieces(written)), error)
        raise
    if result.repeated:  # another driver with the same user and identifier has committed, so these files are not needed
        discard(plan.committer.folder, list(pieces(written)))
    return result


def _predicate(spark: SparkSession, table: Table, where: SparkWhere | None) -> SparkWhere | None:
    """Interprets a text as Spark does. Any other condition is returned unchanged."""
    if not isinstance(where, str):
        return where
    condition = TextCondition(spark, where, facts_of(spark).clock_zone, once=True)
    return predicate_of_text(condition, struct_of_paimon(table.table_schema.fields))


def _opened(table: TableName, storage_options: Mapping[str, Any] | None) -> Table:
    return table if isinstance(table, Table) else open_table(table, storage_options=with_secrets(storage_options))


def _named(table: Table, commit: CommitOptionsByName) -> CommitOptionsByName:
    """If the options have no user, adds a user, an identifier and the snapshot, and prints them. A driver that is
    started again with these values finds what the first driver has committed."""
    if commit.get("commit_user") is None:
        commit = {**commit, "commit_user": f"orcidx-{uuid.uuid4()}", "identifier": 1, "since": table.snapshot_id or 0}
        said = ", ".join(f"{name}={commit[name]!r}" for name in ("commit_user", "identifier", "since"))
        sys.stderr.write(f"orcidx: to start this change again after a crash, pass {said}\n")
    return commit


# ---------------------------------------------------------------------- tasks


def _run(
    spark: SparkSession, tasks: Sequence[Any], sizes: Sequence[int], method: str, target_bytes: int | None
) -> list[Any]:
    """Calls the method with the name ``method`` on each task, in a Spark job. Returns the results in the order of the
    tasks."""
    if not tasks:
        return []
    numbered = pa.table({"pickled": [pickle.dumps((number, task)) for number, task in enumerate(tasks)]})
    bins = weigh(sizes, facts_of(spark).slots, target_bytes)
    frame = place(spark, numbered, bins, max(bins) + 1)
    with Progress(spark, f"{method} in files", files=len(tasks), bytes=sum(sizes)) as shown:
        found = dict(_collected(frame, _CallTask(method, tuple(sizes), shown.counters)))
    return [found[number] for number in range(len(tasks))]


def _collected(frame: DataFrame, task: Any) -> list[Any]:
    return [pickle.loads(data) for data in rows_of_tasks(frame, task, _ROWS)["pickled"].to_pylist()]


@dataclass(frozen=True)
class _CallTask:
    """For ``mapInArrow``: calls a method of each pickled task."""

    method: str
    sizes: tuple[int, ...]
    counters: Counters

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("pickled").to_pylist():
                number, task = pickle.loads(data)
                with _errors_sent():
                    result = getattr(task, self.method)()
                self.counters.add(bytes=self.sizes[number], failed=False)
                yield pa.RecordBatch.from_pylist([{"pickled": pickle.dumps((number, result))}], schema=_ROWS)


@dataclass(frozen=True)
class _WriteTask:
    """For ``mapInArrow``: writes the rows of one task to data files. If the task fails, it deletes these files."""

    root: Source
    schema: TableSchema
    buckets: int
    dense: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = DataFiles(self.root, self.schema, dense=self.dense)
        try:
            with _errors_sent():
                for batch in batches:
                    check_columns(batch.schema, self.schema)
                    rows = conformed(batch, self.schema)
                    if rows.num_rows:
                        for partition, values, bucket, part in placed(rows, self.schema, self.buckets):
                            files.write(partition, values, bucket, part)
                written = files.close()
        except BaseException:
            for path in files.new.paths:
                with contextlib.suppress(OrcidxError, OSError):
                    files.new.folder.delete(path)
            raise
        yield pa.RecordBatch.from_pylist([{"pickled": pickle.dumps(file)} for file in written], schema=_ROWS)


@contextlib.contextmanager
def _errors_sent() -> Iterator[None]:
    """Sends errors to the driver. The driver raises each error with its own type."""
    try:
        yield
    except OrcidxError as error:
        raise TaskFailure.of(f"{type(error).__name__}: {error}", error.file or "") from error
