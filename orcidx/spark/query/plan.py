"""Plans a read on the driver, without Spark: which tasks it has, and which parts each task reads.

``begin_plan`` lists the files and determines the schema. The module ``parts`` cuts the read into parts and packs them.
For many files, Spark tasks do the work of ``parts``. ``assign`` makes tasks from the parts."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.index_directory.lookup import plan_listing
from orcidx.index_directory.scan_files import scan
from orcidx.orc.types import OrcType
from orcidx.paimon_table.read.scan import TableScan
from orcidx.paimon_table.table import Table, open_table
from orcidx.planner.constant_evidence import rules_out
from orcidx.planner.request import FileJob
from orcidx.planner.schema_mapping import choose_fields
from orcidx.predicate import bind
from orcidx.scanner.file import make_scan, open_file
from orcidx.scanner.scan import Scan
from orcidx.scanner.top_rows import SortKey
from orcidx.spark.conditions.floored_times import in_micros_of_columns
from orcidx.spark.query.parts import TaskPart, enough, pack_sizes
from orcidx.spark.query.read_query import Query, zoned_partitions
from orcidx.spark.query.read_task import ReadTask, broken_files_passed
from orcidx.spark.query.task_session import OfSession
from orcidx.spark.sessions.case_rule import columns_as_spelled, where_as_spelled
from orcidx.spark.types.hive_columns import partition_constants, partition_types
from orcidx.spark.types.spark_types import (
    arrow_schema_of,
    field_json,
    field_of_orc,
    json_of_paimon,
    json_of_schema,
    stored_schema,
    struct_json,
    struct_of_paimon,
    with_defaults,
)
from orcidx.storage import Source, describe_source, list_sources
from orcidx.storage.secrets import with_secrets

__all__ = ["Plan", "assign", "begin_plan", "reads_table"]


LEAST_TASK_BYTES = 4 << 20
"""The minimum number of bytes of a task, even if slots stay idle, because starting a task costs about 30 ms."""
FILE_BYTES = 256 << 10
"""The estimated cost of opening a file, in bytes read. With this cost, 2,000 files of 100 rows make one task for each
slot, not 126 tasks."""


@dataclass(frozen=True)
class Plan:
    """A read before it is cut into parts. ``rows``: the scan, without the files that catalogs or partition values
    exclude. ``schema``: the JSON of Spark's schema. ``columns``: the names of the schema's first columns in the
    caller's spelling. ``order``: the order of the top rows. ``listed``: the number and the bytes of the files in
    ``rows``. ``session``: the parts of the read that depend on the session that runs the tasks."""

    query: Query
    rows: Scan | TableScan
    schema: Any
    columns: tuple[str, ...]
    order: tuple[SortKey, ...] = ()
    listed: tuple[int, int] = (0, 0)
    session: OfSession | None = None

    def target(self, slots: int) -> int:
        """The number of bytes for each task. This is the number that the caller wants, or a smaller number if slots
        would otherwise be idle."""
        files, size = self.listed
        return min(self.query.target_bytes, max(LEAST_TASK_BYTES, -(-(size + files * FILE_BYTES) // slots)))


def begin_plan(query: Query) -> Plan:
    """Lists the files and determines the schema. Opens at most one ORC file.

    A directory with the layout of a Paimon table is read as a table, unless ``format`` says otherwise. Raises the
    errors of ``orcidx.scan`` and ``paimon.open_table``.
    """
    table = None if query.format == "orc" else _table(query)
    return _begin_orc(query) if table is None else _begin_paimon(query, table)


def reads_table(query: Query) -> bool:
    """Whether the path has the layout of a Paimon table."""
    return query.format != "orc" and _table(query) is not None


def _table(query: Query) -> Table | None:
    required = query.format == "paimon"
    if not required and not isinstance(query.path, (str, os.PathLike)):
        return None
    source = describe_source(query.reached, storage_options=with_secrets(query.storage_options))
    is_file = not os.path.isdir(source.location) if source.kind == "path" else source.name.endswith(".orc")
    if is_file and not required:
        return None
    try:
        latest = open_table(query.reached, storage_options=with_secrets(query.storage_options))
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise
        return None
    if query.snapshot_id is None:
        return latest
    return open_table(query.reached, snapshot_id=query.snapshot_id, storage_options=with_secrets(query.storage_options))


# ---------------------------------------------------------------------- ORC


def _begin_orc(query: Query) -> Plan:
    if query.snapshot_id is not None or query.jvm_zone is not None:
        raise InvalidQuery("snapshot_id and jvm_zone are only for Paimon tables, but this path has ORC files")
    if query.other_values is not None:
        raise InvalidQuery(f"{query.other_values}: reset this setting, or leave out limit=, top= and engine=")
    if name := next(iter(with_defaults(query.schema)), None):
        raise InvalidQuery(
            f"the column {name!r} has a DEFAULT. If a file lacks the column, Spark uses the DEFAULT, but orcidx's "
            "tasks do not: leave out limit=, top= and engine=, or remove the DEFAULT from the schema",
            column=name,
        )
    found = list_sources(query.reached, storage_options=with_secrets(query.storage_options))
    files = [source for source in found if source.size != 0 or source.root is None]
    schema, types, positional, names = _orc_schema(query, files)
    arrow = arrow_schema_of(schema)
    order = query.order(arrow)
    options = query.scan_options
    chosen = choose_fields(arrow, query.columns, case_sensitive=query.case_sensitive)
    columns = query.spelled([one.name for _, one in chosen])
    asked = columns_as_spelled(query.columns, arrow, case_sensitive=query.case_sensitive)
    if asked is not None:
        asked = (*asked, *(key.column for key in order if key.column not in asked))
    shared: dict[str, Any] = {"limit": None, "row_numbers": False, "schema": stored_schema(arrow), "options": options}
    match: Literal["name", "position"] = "position" if positional else "name"
    where = query.predicate(arrow, types, schema)
    if where is not None:
        where = in_micros_of_columns(where, arrow, "us", case_sensitive=query.case_sensitive)
        where = where_as_spelled(where, arrow, case_sensitive=query.case_sensitive)
    if not files:
        rows = make_scan([], asked, where, match=match, **shared)
    else:
        by_path: dict[str, Any] = {"deletion_vector": query.deletion_vector, "file_index": query.file_index}
        rows = scan(files, asked, where, match=match, hive_partitions=False, indexes="none", **by_path, **shared)
        jobs = _by_catalog(rows, types) if match == "name" else rows.jobs
        waiting = {} if query.session_zone is not None else zoned_partitions(types)
        settled = {name: one for name, one in types.items() if name not in waiting}
        constants = partition_constants([job.source for job in jobs], settled, query.session_zone or "UTC")
        rows = replace(rows, jobs=tuple(replace(job, constants=one) for job, one in zip(jobs, constants)))
        rows = _by_directory(rows)
    listed = (len(rows.jobs), sum(job.source.size or 0 for job in rows.jobs))
    session = query.of_session(arrow, types, names) or query.of_case_rule(where, arrow)
    return Plan(query, rows, _shown(schema, rows.schema), columns, order, listed, session)


def _by_directory(rows: Scan) -> Scan:
    """Returns the scan without the files that their partition values exclude."""
    request = rows.request
    if request.where is None or request.schema is None or not any(job.constants for job in rows.jobs):
        return rows
    options = request.options
    bound = bind(request.where, request.schema, nan=options.nan, case_sensitive=options.case_sensitive)
    pruned: dict[tuple[int, ...], bool] = {}
    kept = []
    for job in rows.jobs:
        key = tuple(map(id, job.constants.values()))  # all files of one directory have the same partition values
        if key not in pruned:
            pruned[key] = rules_out(bound, job.constants)
        if not pruned[key]:
            kept.append(job)
    return replace(rows, jobs=tuple(kept))


def _by_catalog(rows: Scan, partitions: Mapping[str, tuple[str, Any]]) -> tuple[FileJob, ...]:
    """The files that the catalogs of indexed directories do not exclude, with their indexes. Warns if a catalog is
    damaged."""
    # Timestamps depend on the session's time zone. A catalog does not contain this zone, so timestamps exclude no file.
    kinds = [(key, kind) for key, kind in partitions.values() if not str(kind).startswith("timestamp")]
    schema = arrow_schema_of(struct_json(kinds))
    sources = [job.source for job in rows.jobs]
    # Column names in a catalog have the same case as in the files. So the comparison is case-sensitive, even if the
    # session's spark.sql.caseSensitive is false.
    options = rows.options.override(case_sensitive=True)
    found = plan_listing(sources, rows.request.where, schema=schema, options=options)
    for note in found.notes:
        if note.kind == "damaged":
            warnings.warn(f"the directory's indexes are not used: {note.text}", RuntimeWarning, stacklevel=2)
    kept = []
    for number in found.kept:
        job, index, tail = rows.jobs[number], found.indexes.get(number), found.tails.get(number)
        if index is not None and job.file_index is None:
            job = replace(job, file_index=index, fingerprint=job.source.listed)
        if tail is not None:
            job = replace(job, tail=tail, fingerprint=job.source.listed)
        kept.append(job)
    return tuple(kept)


def _orc_schema(query: Query, files: Sequence[Source]) -> tuple[Any, dict[str, tuple[str, Any]], bool, tuple[str, ...]]:
    """Returns four values. The first is the whole schema. The second has the columns of the schema that are directory
    keys, with their keys and types. The third says whether columns are found by position. The fourth has the stored
    names of the columns and keys.

    As in Spark, the schema is the given schema, or else the schema of the first file with a column. Directory keys that
    are not in this schema are added at the end. If a key is also a column of the files, its values, name and type come
    from the directory, and its position is the position in the files
    (``PartitioningUtils.mergeDataAndPartitionSchema``). A key of a given schema comes last, with the given type. Files
    that old versions of Hive wrote have columns named ``_col0``, ``_col1``. With a given schema, such columns are found
    by position."""
    found = _first_columns(files, query.storage_options)
    by_position = bool(found) and all(name.startswith("_col") for name in found)
    given = query.retype if query.schema is None and by_position else query.schema
    given = None if given is None else json_of_schema(given)
    if given is not None:
        fields = {one["name"]: one for one in given["fields"]}
    elif found or query.retype is not None:
        fields = _orc_fields(query, found)
    else:
        raise InvalidQuery(
            f"{query.path!r} has no ORC file with a column, so there is no schema; give schema= for an empty result"
        )
    keys = {}
    for key, kind in partition_types(files, infer=query.infer_partitions).items():
        name = next((one for one in fields if query.folded(one) == query.folded(key)), None)
        if name is None:
            fields[key] = field_json(key, kind)
        elif query.retype is None:
            fields = _with_partition(fields, name, key, None if given is not None else kind)
        name = key if key in fields else name
        assert name is not None
        keys[name] = (key, fields[name]["type"])
    stored = (*found, *(key for key, _ in keys.values()))
    return {"type": "struct", "fields": list(fields.values())}, keys, by_position and given is not None, stored


def _with_partition(fields: Mapping[str, Any], name: str, key: str, kind: Any) -> dict[str, Any]:
    """The fields, with one field replaced by a directory key. ``kind`` is None if a schema was given."""
    if kind is None:
        rest = {one: field for one, field in fields.items() if one != name}
        return {**rest, name: fields[name]}
    return {
        key if one == name else one: field_json(key, kind) if one == name else field for one, field in fields.items()
    }


def _first_columns(files: Sequence[Source], storage_options: Mapping[str, Any] | None) -> dict[str, OrcType]:
    """The columns of the first file that has columns."""
    for source in files:
        with broken_files_passed(), open_file(source, storage_options=storage_options) as file:
            if file.columns and not file.columns[0].path:
                raise Unsupported(
                    f"the rows have the type {file.orc_schema}, which Spark cannot read", file=source.name
                )
            if file.columns:
                return {node.path[0]: node for node in file.columns}
    return {}


def _orc_fields(query: Query, columns: Mapping[str, OrcType]) -> dict[str, Any]:
    """Spark's type of each column. Raises an error for a type that Spark does not have, but only if the query requests
    the column."""
    asked = None
    if query.columns is not None:
        paths = [(one,) if isinstance(one, str) else tuple(one) for one in query.columns]
        asked = {query.folded(part) for path in paths for part in (path[0], path[0].partition(".")[0])}
    fields = {}
    for name, node in columns.items():
        try:
            fields[name] = field_of_orc(name, node, zero_precision=query.options.decimal_zero_precision)
        except Unsupported:
            if asked is None or query.folded(name) in asked:
                raise
    if query.retype is None:
        return fields
    retyped = {one["name"]: one for one in query.retype["fields"]}
    known = {query.folded(name) for name in retyped}
    return {name: one for name, one in fields.items() if query.folded(name) not in known} | retyped


def _shown(whole: Any, shown: pa.Schema) -> Any:
    """The part of a Spark schema with the columns of an Arrow schema. Nested fields that the Arrow schema lacks are
    left out."""
    by_name = {one["name"]: one for one in whole["fields"]}
    fields = []
    for column in shown:
        field = by_name[column.name]
        narrowed = _narrowed(field["type"], column.type)
        fields.append(field if narrowed == field["type"] else field_json(column.name, narrowed))
    return {"type": "struct", "fields": fields}


def _narrowed(kind: Any, arrow: pa.DataType) -> Any:
    if isinstance(kind, str) or kind["type"] != "struct":
        return kind
    fields = {one["name"]: one["type"] for one in kind["fields"]}
    return struct_json([(one.name, _narrowed(fields[one.name], one.type)) for one in arrow])


# ---------------------------------------------------------------------- Paimon


def _begin_paimon(query: Query, table: Table) -> Plan:
    for name in ("deletion_vector", "file_index", "schema"):
        if getattr(query, name) is not None:
            raise InvalidQuery(
                f"{name}= cannot be given for a Paimon table, which has its own schema, deletion vectors and file "
                f"indexes; leave {name}= out"
            )
    order = query.order(table.schema)
    asked = None if query.columns is None else [one if isinstance(one, str) else ".".join(one) for one in query.columns]
    options = query.scan_options.override(wall_clock_zone=None, char="stored")
    shown = table.scan(asked, options=options).columns
    every = list(dict.fromkeys((*shown, *(key.column for key in order))))
    where = query.predicate(table.schema, whole=struct_of_paimon(table.table_schema.fields))
    if where is not None:
        where = in_micros_of_columns(where, table.schema, "ns", case_sensitive=query.case_sensitive)
    rows = table.scan(every, where, top=query.top, limit=query.limit, options=options, jvm_zone=query.jvm_zone)
    fields = table.table_schema.by_name
    schema = struct_json([(name, json_of_paimon(fields[name])) for name in every])
    listed = (len(rows.plan.tasks), sum(task.file.size for task in rows.plan.tasks))
    session = query.of_session(table.schema, {}, table.schema.names)
    return Plan(query, rows, schema, query.spelled(shown), order, listed, session)


# ---------------------------------------------------------------------- tasks


def assign(
    plan: Plan, parts: Sequence[TaskPart], target_bytes: int, *, names: Sequence[str] | None = None
) -> list[bytes]:
    """The pickled ``ReadTask``s, with parts packed by bytes. For a limit without an order, no more parts are used than
    the limit needs.

    ``names``: the names of the batches' columns, if they differ from the schema's names.
    """
    limit = plan.query.limit
    if limit is not None and not plan.order:
        parts = enough(parts, limit)
    bins = pack_sizes([part.size + FILE_BYTES for part in parts], target_bytes)
    packed: dict[int, list[TaskPart]] = {}
    for number, part in zip(bins, parts):
        packed.setdefault(number, []).append(part)
    schema = arrow_schema_of(plan.schema)
    if names is not None:
        schema = pa.schema([one.with_name(name) for one, name in zip(schema, names, strict=True)])
    tasks = []
    for number in sorted(packed):
        what: Any = tuple(part.what for part in packed[number])
        rows: Scan | TableScan
        if isinstance(plan.rows, Scan):
            rows = replace(plan.rows, jobs=what, row_limit=None if plan.order else limit)
        else:
            rows = replace(plan.rows, plan=replace(plan.rows.plan, tasks=what, skipped=(), notes=()))
        tasks.append(pickle.dumps(ReadTask(rows, schema, number, plan.order, limit, plan.session)))
    return tasks
