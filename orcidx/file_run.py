"""One file during one pass of a scan: mapped onto the wanted columns, judged, and read stripe by stripe.

``FileJob`` says what to read of a file (frozen, picklable); ``FileRun`` does it. Like ``stripe_scan`` it never waits
for bytes itself: its generators yield ``Fetch`` requests.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.constant_evidence import ConstantEvidence
from orcidx.errors import InvalidQuery, Unsupported, located
from orcidx.io_loop import Fetch
from orcidx.judge import FileJudge, StripeDecision
from orcidx.metrics import ScanMetrics
from orcidx.options import ReadOptions
from orcidx.orc.bounds import within_nanoseconds
from orcidx.orc.columns.base import Limits
from orcidx.orc.metadata import EncodingKind, TypeKind
from orcidx.orc.reader import OpenStripe, OrcReader
from orcidx.orc.types import STRING_KINDS, OrcType, arrow_type, find_columns, project
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.predicate import BoundPredicate, Predicate, bind
from orcidx.schema_mapping import FieldSource, MappedColumns, map_columns, widen
from orcidx.selection import RowSelection
from orcidx.storage import Source
from orcidx.stripe_scan import ColumnPlan, Step, scan_stripe

__all__ = ["FileJob", "FileRun", "ScanRequest"]

Requests = Generator[Fetch, Any, Any]

SMALLEST_PIECE = 64 << 10
LARGEST_PIECE = 1 << 19
"""Bounds in bytes of what is fetched of one stream at a time when a stripe is too large to be fetched at once."""


@dataclass(frozen=True)
class ScanRequest:
    """What a scan wants of every file; see ``OrcFile.scan``."""

    columns: tuple[str | tuple[str, ...], ...] | None = None
    where: Predicate | None = None
    schema: pa.Schema | None = None
    match: str = "name"
    row_numbers: str | None = None
    file_path: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class FileJob:
    """One file of a scan and what is known of it beforehand.

    ``stripes``: numbers of the only stripes to read; ``row_range``: (start, stop) in file rows; ``selection``: the only
    rows to read; ``deleted``: rows never to return; ``evidence``: what else knows of this file's rows, such as a Paimon
    file index; ``constants``: columns with one value in this file, such as Hive partitions.
    """

    source: Source
    stripes: tuple[int, ...] | None = None
    row_range: tuple[int, int] | None = None
    selection: RowSelection | None = None
    deleted: Any = None
    evidence: tuple[Any, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)


class FileRun:
    """Reads one open file as a request asks. ``dictionaries`` are known once ``prepare`` has run."""

    def __init__(self, reader: OrcReader, job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> None:
        self.reader = reader
        self.job = job
        self.request = request
        self.options = request.options
        self.metrics = metrics
        self._dictionaries: frozenset[int] = frozenset()

    def prepare(self) -> Requests:
        """Reads what must be known before the schema is: with ``strings="dictionary"`` every stripe's footer."""
        if self.options.strings == "dictionary":
            yield from self.fetch_footers(range(len(self.reader.stripes)))
            self._dictionaries = self._dictionary_columns()

    def fetch_footers(self, stripes: Any) -> Requests:
        """Reads the footers of these stripes that are not here yet, in one request."""
        missing = [stripe for stripe in stripes if not self.reader.has_footer(stripe)]
        if missing:
            buffers = yield Fetch(tuple(map(self.reader.footer_range, missing)), "footer")
            for stripe, buffer in zip(missing, buffers, strict=True):
                self.reader.put_footer(stripe, buffer)

    def _dictionary_columns(self) -> frozenset[int]:
        direct = {EncodingKind.DIRECT, EncodingKind.DIRECT_V2}
        texts = [node.id for node in self.reader.root.walk() if node.kind in STRING_KINDS]
        footers = [self.reader.footer(stripe) for stripe, info in enumerate(self.reader.stripes) if info.rows]
        return frozenset(
            column for column in texts if footers and all(f.encodings[column].kind not in direct for f in footers)
        )

    # ------------------------------------------------------------------ columns

    @cached_property
    def mapped(self) -> MappedColumns:
        """The wanted columns and where each comes from."""
        constants = dict(self.job.constants)
        if self.request.file_path is not None:
            constants[self.request.file_path] = pa.scalar(self.reader.name, pa.string())
        columns = self.request.columns
        if columns is not None and self.request.file_path is not None:
            columns = (*columns, self.request.file_path)
        return map_columns(
            self.reader.root,
            columns,
            options=self.options,
            wanted=self.request.schema,
            match=self.request.match,  # type: ignore[arg-type]
            constants=constants,
            dictionaries=self._dictionaries,
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches that ``scan`` yields."""
        schema = self.mapped.schema
        if self.request.row_numbers is not None:
            schema = schema.append(pa.field(self.request.row_numbers, pa.int64(), nullable=False))
        return schema

    @cached_property
    def _askable(self) -> dict[str, FieldSource]:
        """Every column that the predicate may name, by name: what the file, the wanted schema and the job know."""
        exact = replace(self.options, strings="string", timestamp_unit="ns", calendar="proleptic")
        mapped = map_columns(
            self.reader.root,
            None,
            options=exact,
            wanted=self.request.schema,
            match=self.request.match,  # type: ignore[arg-type]
            constants=self.job.constants,
        )
        found: dict[str, FieldSource] = {}
        for source in mapped.fields:
            kind = source.field.type if source.column is None else arrow_type(source.column, exact)
            found.setdefault(source.field.name, replace(source, field=source.field.with_type(kind)))
        return found

    @cached_property
    def where(self) -> BoundPredicate | None:
        """The predicate bound to the wanted names, in this file's own types."""
        if self.request.where is None:
            return None
        askable = self._askable
        lengths = {
            (name, *node.path[len(source.column.path) :]): node.max_length
            for name, source in askable.items()
            if source.column is not None
            for node in source.column.walk()
            if node.kind is TypeKind.CHAR
        }
        return bind(
            self.request.where,
            pa.schema([source.field for source in askable.values()]),
            nan=self.options.nan,
            case_sensitive=self.options.case_sensitive,
            char_lengths=lengths,
        )

    @cached_property
    def _places(self) -> dict[tuple[str, ...], OrcType | None]:
        """The file's column for each path that the predicate reads; None for a constant or missing one."""
        places: dict[tuple[str, ...], OrcType | None] = {}
        for path in self.where.columns if self.where is not None else ():
            column = self._askable[path[0]].column
            if column is None:
                places[path] = None
            else:
                places[path] = find_columns(self.reader.root, (*column.path, *path[1:]))[0]
        return places

    @cached_property
    def plan(self) -> ColumnPlan:
        """Which columns are decoded, by whom, and in which options."""
        output = [source.column for source in self.mapped.fields if source.column is not None]
        names, predicate = self._predicate_columns()
        self._check_encrypted([*output, *predicate])
        constants = {path[0]: self._askable[path[0]] for path, node in self._places.items() if node is None}
        exact = [not self._fits_nanoseconds(column) for column in predicate]
        options = self.options
        shared = [self._shared_with(column, predicate, exact) for column in output]
        titles = [source.field.name for source in self.mapped.fields if source.column is not None]
        kinds = [arrow_type(column, options, dictionaries=self._dictionaries) for column in output]
        fields = [pa.field(name, kind) for name, kind in zip(titles, kinds)]
        row_number = None
        if self.request.row_numbers is not None:
            row_number = len(fields)
            fields.append(pa.field(self.request.row_numbers, pa.int64(), nullable=False))
        return ColumnPlan(
            schema=pa.schema(fields),
            output=tuple(output),
            output_options=tuple(self.options for _ in output),
            predicate=tuple(predicate),
            predicate_options=tuple(self._predicate_options(column) for column in predicate),
            predicate_names=tuple(names),
            exact_times=tuple(exact),
            constants=tuple((name, source.field.type, source.value) for name, source in constants.items()),
            shared=tuple(shared),
            row_number=row_number,
            where=self.where,
        )

    def _check_encrypted(self, columns: list[OrcType]) -> None:
        encryption = self.reader.tail.footer.encryption
        if encryption is None or self.options.encrypted == "masked":
            return
        roots = set(encryption.roots)
        secret = frozenset[int]().union(*(node.ids for node in self.reader.root.walk() if node.id in roots))
        for node in (node for column in columns for node in column.walk()):
            if node.id in secret:
                raise Unsupported(
                    f"the column is encrypted (keys: {', '.join(encryption.key_names)}), and no key can be given; "
                    'encrypted="masked" reads what its writer left for readers without keys',
                    file=self.reader.name,
                    column=node.dotted,
                )

    def _predicate_columns(self) -> tuple[list[str], list[OrcType]]:
        """Names and top-level columns that the residual filter reads, with no more below them than it needs."""
        paths: dict[str, list[tuple[str, ...]]] = {}
        for path, node in self._places.items():
            if node is not None:
                paths.setdefault(path[0], []).append(node.path)
        columns = []
        for name, wanted in paths.items():
            tree = project(self.reader.root, wanted).root
            source = self._askable[name].column
            assert source is not None
            columns.append(next((child for child in tree.children if child.id == source.id), tree))
        return list(paths), columns

    def _predicate_options(self, column: OrcType) -> ReadOptions:
        """The file's own precision and the proleptic calendar, in which literals are compared."""
        return replace(self.options, timestamp_unit="ns", calendar="proleptic")

    def _shared_with(self, column: OrcType, predicate: list[OrcType], exact: list[bool]) -> int | None:
        """Index of the predicate column that decodes to exactly this output, or None."""
        for index, other in enumerate(predicate):
            if other != column or exact[index]:
                continue
            if self._predicate_options(other) == self.options:
                return index
            if not any(node.kind in _UNIT_KINDS for node in column.walk()):
                return index
        return None

    def _fits_nanoseconds(self, column: OrcType) -> bool:
        """Whether the file's statistics prove that all timestamps of a column fit 64 bits of nanoseconds."""
        return all(
            within_nanoseconds(self.reader.tail, node, self.options)
            for node in column.walk()
            if node.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
        )

    @cached_property
    def _is_complete(self) -> bool:
        """Whether what is decoded is already what is wanted."""
        return bool(self.plan.schema.equals(self.schema))

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Adds constants and missing columns, and widens, so that the batch has the wanted schema."""
        if self._is_complete:
            return batch
        arrays = []
        decoded = iter(batch.columns)
        for source in self.mapped.fields:
            if source.column is not None:
                arrays.append(widen(next(decoded), source.field.type))
            else:
                arrays.append(_repeated(source, batch.num_rows))
        arrays.extend(decoded)
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    # ------------------------------------------------------------------ rows

    @cached_property
    def judge(self) -> FileJudge:
        constants = {path: self._askable[path[0]] for path, node in self._places.items() if node is None}
        beforehand: list[Any] = [ConstantEvidence(constants, int(self.reader.stripe_bounds[-1]))]
        beforehand += self.job.evidence
        return FileJudge(
            self.reader,
            self.where,
            self.wanted_rows,
            (*self.plan.output, *self.plan.predicate),
            self._places,
            self.options,
            tuple(beforehand),
        )

    @cached_property
    def wanted_rows(self) -> RowSelection:
        """The rows that the caller wants, before any predicate: his selection, range and stripes, less the deleted."""
        bounds = self.reader.stripe_bounds
        rows = int(bounds[-1])
        wanted = RowSelection.all(rows)
        if self.job.selection is not None:
            if self.job.selection.length != rows:
                raise InvalidQuery(f"the selection spans {self.job.selection.length} rows, the file has {rows}")
            wanted = wanted & self.job.selection
        if self.job.row_range is not None:
            start, stop = self.job.row_range
            wanted = wanted & RowSelection.from_runs([(min(max(start, 0), rows), min(max(stop, start, 0), rows))], rows)
        if self.job.stripes is not None:
            mask = np.zeros(len(bounds) - 1, bool)
            mask[list(self.job.stripes)] = True
            wanted = wanted & RowSelection.from_groups(mask, bounds)
        if self.job.deleted is not None:
            wanted = wanted - deleted_rows(self.job.deleted, rows, self.reader.name)
        return wanted

    def stripe_numbers(self) -> list[int]:
        """The stripes that hold wanted rows and that the file's and the stripes' own statistics leave alive."""
        return self.judge.stripes()

    def decide(self, stripe: int) -> Generator[Fetch, Any, StripeDecision]:
        """Judges one stripe with all its indexes; reads no data."""
        yield from self.fetch_footers([stripe])
        decision = yield from self.judge.decide(stripe)
        return decision

    def scan(self, decision: StripeDecision) -> Step:
        """The batches of a stripe, in the wanted schema."""
        if decision.rows.may.is_empty:
            return
        stripe = OpenStripe(
            self.reader,
            decision.stripe,
            index=decision.index,
            read_ahead=self._read_ahead(),
            limits=Limits(self.options.batch_bytes),
            dictionaries=self._dictionaries,
        )
        steps = scan_stripe(stripe, self.plan, decision.rows, self.options)
        answer = None
        while True:
            try:
                item = steps.send(answer)
            except StopIteration:
                break
            answer = None
            if isinstance(item, Fetch):
                answer = yield item
            else:
                yield self.complete(item)
        self.metrics.chunks_decompressed += sum(window.chunks_decompressed for window in stripe.windows)
        self.metrics.bytes_decompressed += sum(window.bytes_decompressed for window in stripe.windows)

    def _read_ahead(self) -> int:
        """Bytes to fetch of one stream at a time, so that all streams together stay within the budget."""
        columns = sum(len(column.ids) for column in (*self.plan.output, *self.plan.predicate))
        share = self.options.io_bytes // (4 * max(1, columns))
        return max(SMALLEST_PIECE, min(LARGEST_PIECE, share))


_UNIT_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT, TypeKind.DATE})


def _repeated(source: FieldSource, rows: int) -> pa.Array:
    if source.value is None:
        return pa.nulls(rows, source.field.type)
    scalar = source.value if isinstance(source.value, pa.Scalar) else pa.scalar(source.value)
    return pa.repeat(scalar.cast(source.field.type), rows)


def deleted_rows(deleted: Any, rows: int, name: str) -> RowSelection:
    """The rows of a deletion vector, bitmap, selection or list of row numbers.

    A position past the file is an error: a vector that does not fit belongs to another file.
    """
    if isinstance(deleted, DeletionVector):
        with located(file=name):
            return ~deleted.kept_rows(rows)
    if isinstance(deleted, RowSelection):
        found = deleted
    elif hasattr(deleted, "range_cardinality"):
        found = RowSelection.from_bitmap(deleted, max(rows, int(deleted.max()) + 1 if len(deleted) else 0))
    else:
        found = RowSelection.from_positions(deleted, rows)
    if found.length != rows:
        raise InvalidQuery(f"the deletion vector reaches past the {rows} rows of {name}")
    return found
