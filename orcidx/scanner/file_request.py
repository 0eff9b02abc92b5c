"""What a request wants from one file: ``FileColumns`` has the columns, and ``WantedRows`` has the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from orcidx.errors import OrcidxError, located
from orcidx.orc.bounds import within_nanoseconds
from orcidx.orc.frame_metadata import with_schema_metadata
from orcidx.orc.reader import OrcReader
from orcidx.planner.column_plan import ColumnPlan
from orcidx.planner.request import FileJob, ScanRequest, wanted_rows
from orcidx.planner.schema_mapping import FieldSource, wanted_columns
from orcidx.planner.schema_plan import SchemaPlan, schema_plan
from orcidx.pruning.selection import RowSelection

__all__ = ["FileColumns", "WantedRows"]


class FileColumns:
    """The columns that a request reads from a file. ``dictionaries``: ids of the text columns that are read as
    dictionaries."""

    def __init__(self, reader: OrcReader, job: FileJob, request: ScanRequest) -> None:
        self.reader = reader
        self.job = job
        self.request = request
        self.dictionaries: frozenset[int] = frozenset()

    @cached_property
    def schema_plan(self) -> SchemaPlan:
        """The plan for reading the file, made from the request and the schema of the file."""
        reader = self.reader
        try:
            return schema_plan(
                reader.schema_key,
                reader.root,
                self.request,
                self.job,
                encryption=reader.tail.footer.encryption,
                dictionaries=self.dictionaries,
            )
        except OrcidxError as error:
            error.at(file=reader.name)
            raise

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches that ``read`` yields."""
        try:
            if self._values:
                for source in self.schema_plan.fields:
                    if source.column is None:
                        _ = self.valued(source).scalar  # raises the error of an impossible value
            metadata = self.reader.tail.footer.user_metadata
            return with_schema_metadata(self.schema_plan.schema, metadata, self.request.schema)
        except OrcidxError as error:
            error.at(file=self.reader.name)
            raise

    @cached_property
    def plan(self) -> ColumnPlan:
        """The columns that are decoded, with their readers and options."""
        try:
            asked = self.schema_plan.asked
            times = asked.timestamps
            if not any(times):
                return asked.columns((False,) * len(times))
            fits = partial(within_nanoseconds, self.reader.tail, options=self.request.options)
            return asked.columns(tuple(not all(map(fits, nodes)) for nodes in times))
        except OrcidxError as error:
            error.at(file=self.reader.name)
            raise

    def check_condition(self) -> None:
        """Raises the errors of the condition, for a file whose rows need not be read."""
        with located(file=self.reader.name):
            _ = self.schema_plan.where

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        """The values of the file's constant columns, by name."""
        name = self.request.file_path
        return self.job.constants if name is None else {**self.job.constants, name: self.reader.name}

    def valued(self, source: FieldSource) -> FieldSource:
        """Returns a description of a wanted column that is not stored in the file. The description has the column's
        constant value for this file."""
        return replace(source, value=self._values.get(source.field.name))

    @cached_property
    def constants(self) -> tuple[tuple[str, pa.Scalar], ...]:
        """Pairs (name, value) for the names in the predicate that are not columns of the file."""
        constants = self.schema_plan.asked.predicate_constants
        if not constants:
            return ()
        with located(file=self.reader.name):
            asked = {path[0]: self.valued(source) for path, source in constants.items()}
            return tuple((name, source.scalar) for name, source in asked.items())

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Adds constants and missing columns, and widens types. The returned batch has the wanted schema."""
        if self.schema_plan.is_complete:
            return batch
        plan = self.schema_plan
        with located(file=self.reader.name):
            arrays = wanted_columns(
                plan.fields, batch.columns, lambda source: pa.repeat(self.valued(source).scalar, batch.num_rows)
            )
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


class WantedRows:
    """The rows that a request wants from a file, before any predicate is evaluated. ``is_plain``: whether only the
    predicate excludes rows. ``takes_all``: whether all rows of the file are wanted, without any condition."""

    def __init__(self, reader: OrcReader, job: FileJob, request: ScanRequest) -> None:
        self._reader = reader
        self._job = job
        self._request = request
        limited = request.limit is not None and request.where is None
        chosen = job.selection is not None or job.row_range is not None or job.stripes is not None
        self.is_plain = not (limited or chosen or job.deleted is not None)
        self.takes_all = request.where is None and self.is_plain

    @cached_property
    def wanted(self) -> RowSelection:
        """The rows that are in the selection, in the row range and in the wanted stripes, and that are not deleted.

        If there is a limit and no predicate, rows after the limit are left out, so they are not fetched.
        """
        if self.is_plain:
            return RowSelection.all(self._reader.tail.footer.rows)
        return wanted_rows(self._job, self._request, self._reader.stripe_bounds, self._reader.name)

    @property
    def count(self) -> int:
        """How many rows are wanted."""
        return self._reader.tail.footer.rows if self.is_plain else self.wanted.count
