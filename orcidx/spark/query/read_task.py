"""The work of one task of a read, without Spark. The task returns rows of some files as batches in exactly Spark's
schema."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orcidx.errors import CorruptFile, FileGone, StorageError
from orcidx.paimon_table.read.scan import TableScan
from orcidx.planner.schema_mapping import widen, with_child
from orcidx.scanner.scan import Scan
from orcidx.scanner.top_rows import SortKey, first_rows
from orcidx.spark.query.task_session import OfSession
from orcidx.spark.query.worker_errors import without_traceback

__all__ = ["ROW", "TASK", "ReadTask", "ReadTasks", "broken_files_passed", "gone_files_named"]

TASK, ROW = "orcidx task", "orcidx row"
"""Names of the columns that keep the order of equal top rows. These columns are dropped at the end."""


@dataclass(frozen=True)
class ReadTask:
    """A task that reads ``rows`` and returns them in ``schema``, which is Spark's schema in Arrow. With ``order``, only
    the first ``limit`` rows are returned. Each of these rows also has the number of its task and its position.
    ``session``: the parts of the read that depend on the session that runs the task."""

    rows: Scan | TableScan
    schema: pa.Schema
    number: int
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    session: OfSession | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the task. Raises ``StorageError`` with the name of a file that was changed or deleted after the
        read was planned."""
        rows = self.rows if self.session is None else self.session.settle(self.rows)
        plain = isinstance(self.rows, Scan)
        with gone_files_named(), broken_files_passed() if plain else nullcontext():
            if not self.order:
                for batch in rows:
                    yield conform(batch, self.schema)
                return
            best = first_rows(rows, rows.schema, self.order, self.limit or 0)
            for batch in best.to_batches():
                yield self._numbered(conform(batch, self.schema))

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        task = pa.array(np.full(batch.num_rows, self.number, np.int32))
        place = pa.array(np.arange(batch.num_rows, dtype=np.int32))
        return pa.RecordBatch.from_arrays([*batch.columns, task, place], [*batch.schema.names, TASK, ROW])


@contextmanager
def gone_files_named() -> Iterator[None]:
    """Raises ``StorageError`` for a missing file. Its message says that the file was deleted after the read was
    planned."""
    try:
        yield
    except FileNotFoundError as error:
        named = error.file if isinstance(error, FileGone) else error.filename
        name = named if isinstance(named, str) else None
        unnamed = "" if name else f": {error}"
        raise StorageError(
            f"the file was deleted after the read was planned; create the DataFrame again{unnamed}", file=name
        ) from error


@contextmanager
def broken_files_passed() -> Iterator[None]:
    """Adds a hint to the error about a damaged ORC file: the option with which Spark's reader skips such files. The
    hint is not added for files of a table."""
    try:
        yield
    except CorruptFile as error:
        error.message += "; orcidx.spark.read(..., options={'ignoreCorruptFiles': True}) skips such files"
        raise


@dataclass(frozen=True)
class ReadTasks:
    """For ``mapInArrow``: the rows of pickled ``ReadTask``s. The input has the tasks' numbers, multiplied by
    ``stride``."""

    payloads: tuple[bytes, ...]
    stride: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task: ReadTask = pickle.loads(self.payloads[number // self.stride])
                with without_traceback():
                    yield from task.batches()


# ---------------------------------------------------------------------- Spark's Arrow


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Converts the batch to the schema. The types may differ in three ways: in the units of times, in numbers that
    stand for intervals, and in the names and nullability of nested fields."""
    if batch.schema.equals(schema):
        return batch
    arrays = [_as_type(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_type(array: pa.Array, want: pa.DataType) -> pa.Array:
    if array.type == want:
        return array
    return widen(_in_micros(array), want)


def _in_micros(array: pa.Array) -> pa.Array:
    """Rounds nanoseconds down to microseconds, at every level of nesting."""
    types, kind = pa.types, array.type
    if types.is_timestamp(kind) and kind.unit == "ns":
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return pa.array(numbers // 1000, pa.int64(), mask=mask).cast(pa.timestamp("us", kind.tz))
    if types.is_time(kind):
        return array.cast(pa.int32())
    if types.is_struct(kind):
        children = [_in_micros(array.field(i)) for i in range(kind.num_fields)]
        if all(child.type == kind.field(i).type for i, child in enumerate(children)):
            return array
        fields = [kind.field(i).with_type(child.type) for i, child in enumerate(children)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if types.is_map(kind):
        keys, items = _in_micros(array.keys), _in_micros(array.items)
        if (keys.type, items.type) == (kind.key_type, kind.item_type):
            return array
        want = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[want.key_field, want.item_field])
        return with_child(array, want, entries)
    if types.is_list(kind):
        values = _in_micros(array.values)
        same = values.type == kind.value_type
        return array if same else with_child(array, pa.list_(kind.value_field.with_type(values.type)), values)
    return array
