"""``orcidx.spark.read``: ORC files and Paimon tables as a DataFrame. This module plans the read, and tasks carry it
out."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery, OrcidxError, StorageError, Unsupported
from orcidx.predicate import External
from orcidx.predicate.fold import parts
from orcidx.scanner.scan import Scan
from orcidx.scanner.top_rows import parse_order
from orcidx.spark.choosing.choice import Choice, Chosen, Engine, Unreadable
from orcidx.spark.choosing.connect_pruning import certain_predicate
from orcidx.spark.choosing.engine_choice import choose, engine_of, is_column, own_tasks_only
from orcidx.spark.choosing.remaining_files import types_of
from orcidx.spark.choosing.schema_differences import damaged_file, with_files_named
from orcidx.spark.conditions.key_frames import restricted_to
from orcidx.spark.conditions.query_text import parse_text
from orcidx.spark.conditions.text_conditions import TextCondition, filtered_by
from orcidx.spark.jobs.swap_marks import swap_under_way
from orcidx.spark.query.parts import TaskPart, pack_sizes, split_orc, split_paimon
from orcidx.spark.query.placement import place
from orcidx.spark.query.plan import Plan, assign, begin_plan, reads_table
from orcidx.spark.query.read_query import TARGET_BYTES, Query, TableFormat
from orcidx.spark.query.reader_options import options_of_reader, struct_of_ddl
from orcidx.spark.query.table_notes import catalog_notes, warned_of
from orcidx.spark.query.task_frame import frame_of_tasks, sort_column
from orcidx.spark.sessions.arrow_tables import table_of
from orcidx.spark.sessions.catalog_tables import catalog_table
from orcidx.spark.sessions.hadoop_files import access_notes, shipped, sources_in_session
from orcidx.spark.sessions.spark_session import SessionFacts, facts_of, hadoop_has, is_connect
from orcidx.spark.sql_queries import last_scans
from orcidx.spark.types.argument_types import KeyFrames, Paths, Schema, SparkWhere
from orcidx.spark.types.column_names import quoted
from orcidx.spark.types.spark_types import collated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["read", "why"]

DRIVER_METADATA_FILES = 256
"""The maximum number of files whose metadata the driver reads itself, at about a millisecond each. For more files,
tasks read it."""
CHUNKS_PER_SLOT = 4
"""The maximum number of planning tasks for each slot. With several tasks for each slot, all slots finish at about the
same time."""
_CHOICE = "_orcidx_choice"
_FAILED_PART = -1
"""The ``order`` of a row that has an error instead of a part."""
_PARTS = pa.schema([("order", pa.int64()), ("part", pa.binary())])


def read(
    spark: SparkSession,
    path: Paths,
    columns: Sequence[str | Sequence[str]] | None = None,
    where: SparkWhere | None = None,
    *,
    top: Sequence[Any] | None = None,
    limit: int | None = None,
    format: TableFormat | None = None,
    schema: Schema | None = None,
    snapshot_id: int | None = None,
    jvm_zone: str | None = None,
    deletion_vector: Mapping[Any, Any] | None = None,
    file_index: Mapping[Any, Any] | None = None,
    target_bytes: int = TARGET_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    where_in: Mapping[str, DataFrame] | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Reads ORC files or a Paimon table as a DataFrame. The result has the same rows as with ``spark.read.orc``, but
    files that indexes exclude are not read. This call lists and selects the files. The files are read each time Spark
    runs the DataFrame.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    path
        A file, directory, glob or URL prefix, a list of these, or the name of an ORC table in the catalog. A directory
        with a Paimon table's layout is read as a table, unless ``format`` says otherwise.
    columns
        Names of columns, or paths into structs. None: all columns.
    where
        The rows to read: a Column or SQL text as for Spark, or a predicate (see ``orcidx.col``), a pyarrow Expression
        or a DNF list, with Spark's meaning of NaN. Times without a zone are in the session's time zone.
    top
        The order in which the first ``limit`` rows are returned, such as ``[("score", "desc", "last"), "id"]``. An item
        is a column, or a tuple of column, direction and position of nulls.
    limit
        The largest number of rows. Without ``top``, any matching rows are returned.
    format
        "orc" or "paimon". None: the layout of the path decides.
    schema
        A ``StructType``, DDL text or pyarrow schema. It replaces the schema of the first file. It is not for Paimon
        tables.
    snapshot_id
        The snapshot of a Paimon table. None: the latest.
    jvm_zone
        As for ``paimon.Table.scan``. Without it, a warning says which instants are returned as stored.
    deletion_vector, file_index
        ``{path: ...}``, as for ``orcidx.scan``. These arguments are not for Paimon tables.
    target_bytes
        Stored bytes of data for each task.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.
    engine
        "spark": Spark's own reader. "orcidx": tasks that read with orcidx's pruning. They raise an error for a file
        that has changed since this call. "auto": the engine that is probably faster. None: the session's
        ``spark.orcidx.engine``, or else "auto". ``why`` shows which engine was chosen.
    where_in
        ``{column: DataFrame}``. Each DataFrame has one column, of exactly the type of ``column``. Only rows with one of
        its keys are read, as by a left-semi join. The keys are collected now, and are used to skip files.
    options
        Options of Spark's own reader, which then reads the files: mergeSchema, ignoreCorruptFiles, ignoreMissingFiles,
        pathGlobFilter, recursiveFileLookup, modifiedBefore, modifiedAfter, timeZone, basePath.

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    InvalidQuery
        A column, the condition or an argument does not fit the files.
    FileNotFoundError
        There are no such files.
    CorruptFile, StorageError, Unsupported
        A file or the storage cannot be read.

    Examples
    --------
    >>> orcidx.spark.read(spark, "events", where="user_id = 5").show()  # doctest: +SKIP
    """
    facts, table = facts_of(spark), None if format == "paimon" else catalog_table(spark, path)
    query = Query(
        path=_paths(path if table is None else table.location or path),
        columns=_names(columns),
        where=where,
        top=top,
        limit=limit,
        format=format,
        schema=struct_of_ddl(schema) if isinstance(schema, str) else schema,
        snapshot_id=snapshot_id,
        jvm_zone=jvm_zone,
        deletion_vector=deletion_vector,
        file_index=file_index,
        storage_options=storage_options,
        target_bytes=target_bytes,
        reader_options=options_of_reader(options),
        table=table,
        **facts.of_query,
    )
    return _answered(spark, query, facts, engine_of(spark, engine), where_in)


def _answered(spark: SparkSession, query: Query, facts: SessionFacts, wanted: Engine, where_in: KeyFrames) -> DataFrame:
    """Returns the DataFrame. If an error is about a column, the message of the error names the files that differ in
    this column."""
    query = replace(query, at=sources_in_session(spark, query.path, query.storage_options))
    try:
        return _by_engine(spark, query, facts, wanted, where_in)
    except InvalidQuery as error:
        raise with_files_named(query, error)  # noqa: B904  (raises the same error)


def _by_engine(
    spark: SparkSession, query: Query, facts: SessionFacts, wanted: Engine, where_in: KeyFrames
) -> DataFrame:
    """Chooses the engine, and returns the DataFrame. The choice is attached to the DataFrame, so ``why`` can show
    it."""
    where, own = query.where, own_tasks_only(query)
    if own is None and wanted != "orcidx" and query.table is None and _seen_as_table(spark, query):
        own = "only orcidx reads Paimon tables"
    if own is None and query.table is None and swap_under_way(query.reached, query.storage_options):
        own = (
            "a rewrite of the directory has not finished replacing its files, or keeps old files (keep_old), so "
            "Spark's reader would read rows twice; orcidx.spark.recover ends the rewrite"
        )
    by_spark = "a Column in where=" if is_column(where) else "where_in=" if where_in is not None else None
    if query.reader_options:
        if wanted == "orcidx":
            raise InvalidQuery("options= are only for Spark's reader, so they cannot be given with engine='orcidx'")
        by_spark = "options="
    if query.table is not None and (query.schema is not None or query.reader_options):
        raise InvalidQuery(
            f"{query.table.name} is a table of the catalog, which has its own schema and options; leave out schema= "
            "and options="
        )
    if query.table is not None and (own is not None or wanted == "orcidx"):
        raise InvalidQuery(
            f"{own or 'the engine orcidx was chosen'}, but orcidx cannot read a table by its name; give the directory "
            f"of the table, {query.table.location!r}"
        )
    if collated(query.schema):
        by_spark = "a collation in schema="
        if wanted == "orcidx":
            raise InvalidQuery("only Spark's reader can compare text with a collation; leave out engine='orcidx'")
    if own is not None and (wanted == "spark" or by_spark is not None):
        raise InvalidQuery(f"{by_spark or 'the engine spark'} needs Spark's reader, but {own}")
    if own is not None or (wanted == "orcidx" and where_in is None and _understood(spark, where)):
        try:
            return _planned(spark, query, facts, own or "the caller chose it")
        # Spark may accept a text that orcidx refuses, for example one that compares a number with text. Such a text is
        # passed to Spark below.
        except InvalidQuery:
            if own is not None or not isinstance(where, str):
                raise
    try:
        chosen = choose(spark, facts, query, wanted, where_in)
    except Unreadable as error:
        if wanted == "spark" or by_spark is not None:
            raise damaged_file(query) or InvalidQuery(f"Spark cannot read {query.path!r:.200}: {error}") from None
        return _planned(spark, query, facts, f"Spark cannot read the data ({error})")
    chosen, rows = _carried_out(spark, query, facts, chosen)
    rows = restricted_to(spark, rows, chosen.keys)
    return _with_choice(rows if query.columns is None else rows.select(*map(quoted, query.columns)), chosen.choice)


def _carried_out(spark: SparkSession, query: Query, facts: SessionFacts, chosen: Chosen) -> tuple[Chosen, DataFrame]:
    """Returns the choice and a DataFrame with its rows. The keys are not applied yet, and the columns are not selected
    yet. The alternative choice ``instead`` is used if orcidx and Spark have different types for a column, or if orcidx
    has no type for it."""
    if chosen.frame is not None:
        return chosen, chosen.frame
    pruned = replace(query, where=chosen.where, columns=chosen.needed)
    try:
        rows = _planned(spark, pruned, facts, chosen.choice.reason)
    # These errors are raised, for example, for columns of month intervals. They are also raised if the values in
    # directory names are decimals in Spark and text in orcidx.
    except (Unsupported, InvalidQuery):
        if chosen.instead is None:
            raise
        rows = None
    if chosen.instead is not None and (rows is None or types_of(rows.schema.fields) != chosen.types):
        return _carried_out(spark, query, facts, chosen.instead())
    return chosen, rows if chosen.condition is None else rows.where(chosen.condition)


def _seen_as_table(spark: SparkSession, query: Query) -> bool:
    """Whether the query is read as a Paimon table. Sometimes orcidx cannot list the path, because only Hadoop supports
    the scheme or has the credentials. In this case Hadoop looks for the directory ``schema`` of a table. If it is
    certain that there is no such directory, the result is False. Otherwise the error of the listing is raised."""
    try:
        return reads_table(query)
    except (StorageError, InvalidQuery, ImportError):
        if query.format is not None or hadoop_has(spark, f"{query.path}/schema") is not False:
            raise
        return False


def _planned(spark: SparkSession, query: Query, facts: SessionFacts, reason: str) -> DataFrame:
    """The DataFrame of orcidx's tasks, with the reason for this engine. The notes on the rows are given as warnings."""
    if isinstance(query.where, str):
        text = TextCondition(spark, query.where, facts.clock_zone, on_connect=partial(certain_predicate, query))
        query = replace(query, where=text)
        plan = begin_plan(query)
        if not text.last.exact:
            return _filtered_by_spark(spark, query, text, facts, reason)
    else:
        plan = begin_plan(query)
    frame = _of_plan(spark, plan, facts)
    notes = (*warned_of(plan.rows), *catalog_notes(plan.rows), *access_notes(query.at))
    return _with_choice(frame, Choice("orcidx", reason, notes=notes))


def _of_plan(spark: SparkSession, plan: Plan, facts: SessionFacts) -> DataFrame:
    target = plan.target(facts.slots)
    parts = _parts(spark, plan, target, facts)
    return frame_of_tasks(spark, plan, assign(plan, parts, target), parts)


def _filtered_by_spark(
    spark: SparkSession, query: Query, text: TextCondition, facts: SessionFacts, reason: str
) -> DataFrame:
    """The rows that may match. orcidx's tasks read these rows, and Spark filters them. Then ``limit`` or ``top`` is
    applied. Raises ``InvalidQuery`` for a path into a struct. Raises ``Unsupported`` for a condition that uses the file
    that Spark's reader is reading, such as ``input_file_name()``."""
    shown, named, order = query.columns, text.last.columns, () if query.top is None else parse_order(query.top)
    if any(not isinstance(one, str) for one in shown or ()):
        raise InvalidQuery(
            f"Spark computes a part of {text.text!r:.200}. With such a condition, orcidx cannot read single fields of "
            "structs: give whole columns in columns=, and select the fields from the DataFrame"
        )
    if text.last.of_files:
        raise Unsupported(
            f"{text.text!r:.200} uses a function such as input_file_name(), which works only if Spark's reader reads "
            "the files, but orcidx's tasks read the files of this query. Leave this part of the condition out, or "
            "filter spark.read.orc(path) by the condition"
        )
    columns = None if shown is None or named is None else [*shown]
    for one in () if columns is None else (*(named or ()), *(key.column for key in order)):
        if query.folded(one) not in map(query.folded, columns or ()):
            assert columns is not None
            columns.append(one)
    plan = begin_plan(replace(query, columns=columns, top=None, limit=None))
    if text.last.chars and not isinstance(plan.rows, Scan):
        raise InvalidQuery(
            f"Spark computes a part of {text.text!r:.200}, but {min(text.last.chars)} contains CHAR values, which "
            "this table stores without their trailing blanks: leave this part of the condition out, and apply it to "
            "the DataFrame with filter()"
        )
    computed = "Spark computes a part of the condition, and filters the rows that orcidx reads"
    notes = (*warned_of(plan.rows), *catalog_notes(plan.rows), computed, *access_notes(query.at))
    frame = filtered_by(_of_plan(spark, plan, facts), text.text)
    if order:
        frame = frame.orderBy(*(sort_column(frame[quoted(key.column)], key) for key in order))
    if query.limit is not None:
        frame = frame.limit(query.limit)
    if shown is not None:
        frame = frame.select(*map(quoted, shown))
    return _with_choice(frame, Choice("orcidx", reason, notes=notes))


def _understood(spark: SparkSession, where: SparkWhere | None) -> bool:
    """Whether orcidx's tasks can evaluate a condition. In a classic session they can evaluate a text, because Spark
    analyses the text. Spark Connect does not return the analysed condition. So with Spark Connect, the text must have
    no computed parts, and no parts that Spark's SQL may interpret differently."""
    if is_column(where) or not isinstance(where, str) or not is_connect(spark):
        return not is_column(where)
    try:
        return not any(isinstance(one, External) for one in parts(parse_text(where)))
    except InvalidQuery:
        return False


def _with_choice(frame: DataFrame, choice: Choice) -> DataFrame:
    frame.__dict__[_CHOICE] = choice
    return frame


@overload
def why(frame: DataFrame) -> Choice: ...


@overload
def why(frame: None = None) -> tuple[Choice, ...]: ...


def why(frame: DataFrame | None = None) -> Choice | tuple[Choice, ...]:
    """Says which engine reads a DataFrame that ``read`` returned, for what reason, and which files are skipped.

    Parameters
    ----------
    frame
        A DataFrame that ``read`` returned. None means the last scans of SQL queries in sessions with ``enable``.

    Returns
    -------
    Choice or tuple of Choice
        The choice for the DataFrame. Without a DataFrame, the choices of the last 100 scans of indexed directories, the
        newest last.

    Raises
    ------
    InvalidQuery
        The DataFrame is not one that ``read`` returned. This includes DataFrames that are derived from such a
        DataFrame.
    """
    if frame is None:
        return last_scans()
    choice = getattr(frame, "__dict__", {}).get(_CHOICE)
    if choice is None:
        raise InvalidQuery(
            "why() needs a DataFrame that orcidx.spark.read returned, not a DataFrame that is derived from it"
        )
    return choice  # type: ignore[no-any-return]


def _paths(path: Paths) -> Any:
    """The path as text, which can be pickled."""
    if isinstance(path, os.PathLike):
        return os.fspath(path)
    if isinstance(path, (list, tuple, set, frozenset)):
        return [os.fspath(one) if isinstance(one, os.PathLike) else one for one in path]
    if isinstance(path, str):
        return path
    raise InvalidQuery(
        f"path={path!r:.80} is not a path, a URL or a list of these. Spark's tasks open the files on their own, so "
        "they need a path or URL"
    )


def _names(columns: Any) -> Any:
    """The columns, with Columns of Spark replaced by their names. Raises ``InvalidQuery`` for an expression."""
    if isinstance(columns, str):
        raise InvalidQuery(f"columns must be a list: give [{columns!r}]")
    if hasattr(columns, "cast"):
        raise InvalidQuery("columns must be a list: give [column]")
    return None if columns is None else [_name(one) if hasattr(one, "cast") else one for one in columns]


def _name(column: Any) -> Any:
    """The name of a Column of Spark."""
    shown = re.fullmatch(r"Column<'(.*)'>", str(column), re.DOTALL)
    if shown is None or not re.fullmatch(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`))*", shown[1]):
        raise InvalidQuery(
            f"columns must be names, but {column} is an expression: compute it with select on the DataFrame"
        )
    parts = [quoted or plain for quoted, plain in re.findall(r"`([^`]+)`|(\w+)", shown[1])]
    return parts[0] if len(parts) == 1 else parts


# ---------------------------------------------------------------------- planning in tasks


def _parts(spark: SparkSession, plan: Plan, target: int, facts: SessionFacts) -> list[TaskPart]:
    rows = plan.rows
    if not isinstance(rows, Scan):
        return split_paimon(rows)
    if len(rows.jobs) <= DRIVER_METADATA_FILES:
        return split_orc(rows, target)
    sizes = [job.source.size or 0 for job in rows.jobs]
    count = max(1, min(CHUNKS_PER_SLOT * facts.slots, len(rows.jobs) // 64))
    weights = [1 + size // (1 << 20) for size in sizes]
    bins = pack_sizes(weights, max(1, sum(weights) // count))
    chunks: dict[int, list[int]] = {}
    for number, job in zip(bins, range(len(bins))):
        chunks.setdefault(number, []).append(job)
    payloads = [
        pickle.dumps((replace(rows, jobs=tuple(rows.jobs[job] for job in jobs)), jobs, target))
        for jobs in chunks.values()
    ]
    frame = place(spark, pa.table({"chunk": pa.array(payloads, pa.binary())}), range(len(payloads)), len(payloads))
    found = table_of(frame.mapInArrow(shipped(_plan_chunks, plan.query.reached), "order bigint, part binary"), _PARTS)
    order = np.argsort(found["order"].to_numpy(), kind="stable")
    pickled = found["part"].combine_chunks()
    if len(order) and found["order"][int(order[0])].as_py() == _FAILED_PART:
        raise pickle.loads(pickled[int(order[0])].as_buffer())
    return [pickle.loads(pickled[int(at)].as_buffer()) for at in order]


def _plan_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: splits pickled scans into parts. Returns each pickled part with the number of its file, or
    the error of a scan."""
    for batch in batches:
        for payload in batch.column(0):
            rows, numbers, target = pickle.loads(payload.as_buffer())
            number_of = {job.source: number for job, number in zip(rows.jobs, numbers)}
            try:
                parts = split_orc(rows, target)
            # The error is returned as a row. If the error were raised, Spark would show it with the tracebacks of two
            # languages.
            except OrcidxError as error:
                order, pickled = pa.array([_FAILED_PART], pa.int64()), pa.array([pickle.dumps(error)], pa.binary())
            else:
                order = pa.array([number_of[part.source] for part in parts], pa.int64())
                pickled = pa.array([pickle.dumps(part) for part in parts], pa.binary())
            yield pa.RecordBatch.from_arrays([order, pickled], schema=_PARTS)
