"""One file during one pass of a scan: mapped onto the wanted columns, pruned, and read stripe by stripe.

A ``FileJob`` says what to read of a file; ``FileScan`` does it. Like ``stripe_reader`` it never waits
for bytes itself: its generators yield ``Fetch`` requests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.fetching.byte_budget import Share
from orcidx.fetching.drive import Fetch, Pending
from orcidx.options import ReadOptions
from orcidx.orc.bounds import within_nanoseconds
from orcidx.orc.columns.base import Limits
from orcidx.orc.metadata import EncodingKind, TypeKind
from orcidx.orc.reader import OpenStripe, OrcReader
from orcidx.orc.types import STRING_KINDS, OrcType, arrow_type, project
from orcidx.planner.column_plan import ColumnPlan
from orcidx.planner.constant_evidence import ConstantEvidence
from orcidx.planner.fetch_policy import StripeRequests
from orcidx.planner.index_evidence import IndexEvidence, StoredIndex, index_evidence
from orcidx.planner.request import FileJob, ScanRequest, as_selection, deleted_rows
from orcidx.planner.schema_mapping import FieldSource, MappedColumns, map_columns, widen
from orcidx.planner.stripe_pruning import FilePruner, StripeDecision
from orcidx.predicate import And, BoundPredicate, Leaf, Or, all_of, any_of, bind, resolve_column
from orcidx.pruning.evaluate import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.stripe_reader import Step, read_stripe

__all__ = ["FileScan"]

Path = tuple[str, ...]
Requests = Generator[Fetch, Any, Any]

SMALLEST_PIECE = 64 << 10
LARGEST_PIECE = 1 << 19
"""Bounds in bytes of what is fetched of one stream at a time when a stripe is too large to be fetched at once."""

LOCAL_PIECE = 1 << 18
LOCAL_BYTES = 1 << 20
"""Locally, pieces are larger than the one only as long as all columns' together stay within the other: memory that
stays in the processor's cache is worth more than fewer reads."""


class FileScan:
    """Reads one open file as a request asks. ``dictionaries`` are known once ``prepare`` has run."""

    def __init__(self, reader: OrcReader, job: FileJob, request: ScanRequest, metrics: ScanMetrics) -> None:
        self.reader = reader
        self.job = job
        self.request = request
        self.options = request.options
        self.metrics = metrics
        self._dictionaries: frozenset[int] = frozenset()
        self._alive: list[int] | None = None

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
                if not self.reader.storage.is_local:
                    self._requests.spend(stripe)

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
        with located(file=self.reader.name):
            mapped = map_columns(
                self.reader.root,
                self.request.columns,
                options=self.options,
                wanted=self.request.schema,
                match=self.request.match,
                constants=self.job.constants,
                dictionaries=self._dictionaries,
            )
        return MappedColumns((*mapped.fields, *self._file_path()))

    def _file_path(self) -> tuple[FieldSource, ...]:
        name = self.request.file_path
        if name is None:
            return ()
        return (FieldSource(pa.field(name, pa.string()), None, pa.scalar(self.reader.name, pa.string())),)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches that ``scan`` yields."""
        return self.request.with_row_numbers(self.mapped.schema)

    @cached_property
    def _askable(self) -> dict[str, FieldSource]:
        """Every column that the predicate may name, by name: what the file, the wanted schema and the job know."""
        exact = replace(self.options, strings="string", timestamp_unit="ns", calendar="proleptic")
        with located(file=self.reader.name):
            mapped = map_columns(
                self.reader.root,
                None,
                options=exact,
                wanted=self.request.schema,
                match=self.request.match,
                constants=self.job.constants,
            )
        found: dict[str, FieldSource] = {}
        for source in (*mapped.fields, *self._file_path()):
            kind = source.field.type if source.column is None else arrow_type(source.column, exact)
            found.setdefault(source.field.name, replace(source, field=source.field.with_type(kind)))
        return found

    @cached_property
    def where(self) -> BoundPredicate | None:
        """The predicate bound to the wanted names, in this file's own types."""
        if self.request.where is None:
            return None
        askable = self._askable
        case_sensitive = self.options.case_sensitive
        lengths = {
            (name, *path): node.max_length
            for name, source in askable.items()
            if source.column is not None
            for path, node in _named_below(source.column)
            if node.kind is TypeKind.CHAR
        }
        predicate = self.request.where
        if self.request.schema is not None:
            predicate = self._without_missing(predicate, self.request.askable_schema)
        with located(file=self.reader.name):
            return bind(
                predicate,
                pa.schema([source.field for source in askable.values()]),
                nan=self.options.nan,
                case_sensitive=case_sensitive,
                char_lengths=lengths,
            )

    def _without_missing(self, node: Any, wanted: pa.Schema) -> Any:
        """The predicate with an answer in place of each question about a field that the file's structs lack."""
        if isinstance(node, And | Or):
            join = all_of if isinstance(node, And) else any_of
            return join(*(self._without_missing(child, wanted) for child in node.children))
        if isinstance(node, Leaf):
            path, _ = resolve_column(node.path, wanted, case_sensitive=self.options.case_sensitive)
            column = self._askable[path[0]].column
            if column is not None and _below(column, path[1:]) is None:
                return node.of_null()
        return node

    @cached_property
    def _places(self) -> dict[Path, OrcType | None]:
        """The file's column for each path that the predicate reads; None for a constant or missing one."""
        places: dict[Path, OrcType | None] = {}
        for path in self.where.columns if self.where is not None else ():
            column = self._askable[path[0]].column
            places[path] = None if column is None else _below(column, path[1:])
        return places

    @cached_property
    def plan(self) -> ColumnPlan:
        """Which columns are decoded, by whom, and in which options."""
        output = [source.column for source in self.mapped.fields if source.column is not None]
        names, predicate = self._predicate_columns()
        self._check_encrypted([*output, *predicate])
        constants = {path[0]: self._askable[path[0]] for path, node in self._places.items() if node is None}
        exact = [not self._fits_nanoseconds(column) for column in predicate]
        sources = [source for source in self.mapped.fields if source.column is not None]
        strings = self._decoding.strings
        chosen = [source.options or self.options for source in sources]
        decoding = [one if one.strings == strings else replace(one, strings=strings) for one in chosen]
        shared = [self._shared_with(*one, predicate, exact) for one in zip(output, decoding)]
        titles = [source.field.name for source in sources]
        kinds = [arrow_type(*one, dictionaries=self._dictionaries) for one in zip(output, decoding)]
        fields = [pa.field(name, kind) for name, kind in zip(titles, kinds)]
        row_number = None
        if self.request.row_numbers is not None:
            row_number = len(fields)
            fields.append(pa.field(self.request.row_numbers, pa.int64(), nullable=False))
        return ColumnPlan(
            schema=pa.schema(fields),
            output=tuple(output),
            output_options=tuple(decoding),
            predicate=tuple(predicate),
            predicate_options=tuple(self._predicate_options(column) for column in predicate),
            predicate_names=tuple(names),
            exact_times=tuple(exact),
            constants=tuple((name, source.scalar) for name, source in constants.items()),
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
        asked: dict[str, list[Path]] = {}
        for path, node in self._places.items():
            if node is not None:
                asked.setdefault(path[0], []).append(path)
        root = self.reader.root
        columns = []
        for name, paths in asked.items():
            column = self._askable[name].column
            assert column is not None
            if column.id != root.id:
                column = project(replace(root, children=(column,), names=(name,)), paths).root.children[0]
            columns.append(column)
        return list(asked), columns

    def _predicate_options(self, column: OrcType) -> ReadOptions:
        """The file's own precision and the proleptic calendar, in which literals are compared."""
        return replace(self._decoding, timestamp_unit="ns", calendar="proleptic")

    @cached_property
    def _decoding(self) -> ReadOptions:
        """The options to decode with. pyarrow has no filter for views, so they are made of strings after a filter."""
        job = self.job
        takes_all = self.where is None and job.selection is None and job.deleted is None and job.row_range is None
        if self.options.strings != "view" or takes_all:
            return self.options
        return replace(self.options, strings="string")

    def _shared_with(
        self, column: OrcType, options: ReadOptions, predicate: list[OrcType], exact: list[bool]
    ) -> int | None:
        """Index of the predicate column that decodes to exactly this output, or None."""
        for index, other in enumerate(predicate):
            if other != column or exact[index]:
                continue
            if self._predicate_options(other) == options:
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
                with located(column=source.field.name, file=self.reader.name):
                    arrays.append(widen(next(decoded), source.field.type))
            else:
                arrays.append(pa.repeat(source.scalar, batch.num_rows))
        arrays.extend(decoded)
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    # ------------------------------------------------------------------ rows

    @cached_property
    def pruner(self) -> FilePruner:
        constants = {path: self._askable[path[0]] for path, node in self._places.items() if node is None}
        beforehand: list[Any] = [ConstantEvidence(constants, int(self.reader.stripe_bounds[-1]))]
        notes: list[Note] = []
        if self.job.file_index is not None and self.where is not None:
            beforehand += self._file_index(notes)
        return FilePruner(
            self.reader,
            self.where,
            self.wanted_rows,
            (*self.plan.output, *self.plan.predicate),
            self._places,
            self.options,
            tuple(beforehand),
            notes,
        )

    def _file_index(self, notes: list[Note]) -> tuple[IndexEvidence, ...]:
        """The file's Paimon indexes; none, and a note, where they are damaged, or stored for another version of it."""
        strict, index = self.options.strict_index, self.job.file_index
        stored = isinstance(index, StoredIndex)
        if stored and index.tail is not None and index.tail != self.reader.tail.checksum:
            notes.append(Note("Paimon file index", "stale", "the file's tail is not the one that was indexed"))
            return ()
        try:
            return index_evidence(index, self.reader.root, self.reader.tail.footer.rows, strict=strict)
        except (CorruptFile, Unsupported, FileNotFoundError) as error:
            missing = isinstance(error, FileNotFoundError)
            if strict or (missing and not stored):
                raise
            notes.append(Note("Paimon file index", "absent" if missing else "damaged", str(error)))
            return ()

    @cached_property
    def wanted_rows(self) -> RowSelection:
        """The rows that the caller wants, before any predicate: his selection, range and stripes, less the deleted.

        Without a predicate a limit says which rows those are; what lies behind them is then not even fetched.
        """
        bounds = self.reader.stripe_bounds
        rows = int(bounds[-1])
        wanted = RowSelection.all(rows)
        if self.job.selection is not None:
            with located(file=self.reader.name):
                wanted = wanted & as_selection(self.job.selection, rows)
        if self.job.row_range is not None:
            start, stop = self.job.row_range
            wanted = wanted & RowSelection.from_runs([(min(max(start, 0), rows), min(max(stop, start, 0), rows))], rows)
        if self.job.stripes is not None:
            mask = np.zeros(len(bounds) - 1, bool)
            mask[list(self.job.stripes)] = True
            wanted = wanted & RowSelection.from_groups(mask, bounds)
        if self.job.deleted is not None:
            wanted = wanted - deleted_rows(self.job.deleted, rows, self.reader.name)
        if self.request.limit is not None and self.request.where is None:
            wanted = wanted.limit(self.request.limit)
        return wanted

    def stripe_numbers(self) -> list[int]:
        """The stripes that hold wanted rows and that the file's and the stripes' own statistics leave alive."""
        if self._alive is None:
            self._alive = self.pruner.stripes()
        return self._alive

    def decide(self, stripe: int) -> Generator[Fetch | Pending, Any, StripeDecision]:
        """Prunes one stripe with all its indexes; reads no data."""
        if self.reader.storage.is_local:
            yield from self.fetch_footers([stripe])
            decision: StripeDecision = yield from self.pruner.decide(stripe)
            return decision
        decision = yield from self._requests.decide(stripe, self.stripe_numbers(), self.pruner)
        return decision

    @cached_property
    def _requests(self) -> StripeRequests:
        selective = self.request.where is not None or not self.wanted_rows.is_all
        return StripeRequests(self.reader, self.options, selective=selective)

    def read(self, decision: StripeDecision, share: Share | None = None) -> Step:
        """The batches of a stripe, in the wanted schema. ``share``: of the scan's bytes; None: all are the stripe's."""
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
        requests = None if stripe.is_local else self._requests.left(decision.stripe)
        steps = read_stripe(stripe, self.plan, decision.rows, self.options, requests=requests, share=share)
        answer = None
        try:
            while True:
                try:
                    item = steps.send(answer)
                except StopIteration:
                    break
                answer = None
                if isinstance(item, Fetch | Pending):
                    answer = yield item
                else:
                    yield self.complete(item)
        finally:  # of a pass that ends early, too
            self.metrics.chunks_decompressed += sum(window.chunks_decompressed for window in stripe.windows)
            self.metrics.bytes_decompressed += sum(window.bytes_decompressed for window in stripe.windows)

    def _read_ahead(self) -> int:
        """Bytes to fetch of one stream at a time, so that all streams together stay within the budget."""
        columns = max(1, sum(len(column.ids) for column in (*self.plan.output, *self.plan.predicate)))
        largest = LARGEST_PIECE
        if self.reader.storage.is_local:
            largest = max(LOCAL_PIECE, min(LARGEST_PIECE, LOCAL_BYTES // columns))
        return max(SMALLEST_PIECE, min(largest, self.options.io_bytes // (4 * columns)))


def _below(column: OrcType, names: Path) -> OrcType | None:
    """The field that these names lead to from a column; None where there is none."""
    for name in names:
        found = column.names.index(name) if name in column.names else -1
        if found < 0:
            return None
        column = column.children[found]
    return column


def _named_below(column: OrcType) -> Iterator[tuple[Path, OrcType]]:
    """The column and all fields of its structs, with the names that lead to them."""
    yield (), column
    for name, child in zip(column.names, column.children):
        for path, node in _named_below(child):
            yield (name, *path), node


_UNIT_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT, TypeKind.DATE})
