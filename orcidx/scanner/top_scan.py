"""Finds the first rows of a scan in a sort order. The data that is most likely to have these rows is read first. The
rows that were found so far give a bound. This bound rules out other data.

Stripes are read in the order of the best value that their statistics allow. The row groups of a stripe are read in the
same order, few at first and twice as many each time. When the wanted number of rows has been found, the last of these
rows is the bound. Rows that are read later are needed only if they do not sort after the bound. The bound is added to
the condition of the scan. So the code for any ``where`` also compares statistics, indexes and rows with the bound. The
order of reading is only a guess from statistics. No row is lost by a wrong guess, because only the condition excludes
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.fetching.drive import run, run_value
from orcidx.options import ReadOptions
from orcidx.orc.bounds import StatisticsColumn, bound_statistics
from orcidx.orc.kinds import TypeKind
from orcidx.orc.row_index import usual_bounds
from orcidx.orc.statistics import stripe_statistics
from orcidx.orc.types import OrcType
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.planner.schema_mapping import column_path, widen
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, any_of, resolve_column
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_queue import FileQueue, OpenFile, open_job
from orcidx.scanner.file_scan import FileScan, count_groups
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_reads import held_source
from orcidx.scanner.top_rows import FirstRows, SortKey, sorts

__all__ = ["KEPT_FILES", "TopPass", "bound_condition", "resolved_order", "top_note", "with_sort_keys", "without_views"]

Rank = tuple[int, Any]
"""The rank of a stripe or row group: its class (class 0 comes first) and, in class 1, its best value."""

KEPT_FILES = 16
"""Files are opened twice: first to read their statistics, then to read rows. For at most this many files, the index
and the bytes of a small file are kept, so that they are read only once."""


def resolved_order(
    order: Sequence[SortKey], jobs: Sequence[FileJob], request: ScanRequest, metrics: ScanMetrics
) -> tuple[SortKey, ...]:
    """Returns the sort keys, with the column names spelled as in the schema. Raises ``InvalidQuery`` for an unknown
    column, and for a column whose type cannot be sorted. ``metrics`` counts the reads, if the first file must be opened
    to find the schema."""
    columns = tuple(dict.fromkeys((key.column,) for key in order if key.column != request.file_path))
    asked = replace(request, columns=columns, row_numbers=None)
    schema = asked.wanted_schema
    if schema is None:
        with open_job(jobs[0], asked, metrics) as file:
            schema, every = file.scan.columns.schema, file.scan.columns.schema_plan.mapped.predicate_schema
    else:
        every = request.predicate_schema
    keys = []
    for key in order:
        if key.column != request.file_path:  # a condition will use the name, so it must be unambiguous
            resolve_column((key.column,), every, case_sensitive=request.options.case_sensitive)
        path, kind = resolve_column((key.column,), schema, case_sensitive=request.options.case_sensitive)
        if len(path) > 1:
            raise InvalidQuery(
                f"top cannot sort by {key.column!r}, which is a field of a struct; name a whole column",
                column=key.column,
            )
        if not sorts(kind):
            raise InvalidQuery(
                f"top can only sort by columns with one value per row: {key.column!r} is {kind}", column=key.column
            )
        keys.append(replace(key, column=path[0]))
    return tuple(keys)


def top_note(order: Sequence[SortKey], limit: int) -> Note:
    """The note about an order, for an explanation."""
    keys = ", ".join(
        f"{key.column} {'descending' if key.descending else 'ascending'}{', nulls first' if key.nulls_first else ''}"
        for key in order
    )
    text = (
        f"the first {limit} rows by {keys}: data that may have the best values of {order[0].column} is read first, "
        "and data that cannot have rows before the last one found so far is skipped; how much is skipped depends on "
        "the data, so the scan may read less than this explanation says; it also reads row indexes of "
        f"{order[0].column}, which are not counted here"
    )
    return Note("top", "silent", text)


def bound_condition(key: SortKey, last: pa.Scalar, options: ReadOptions, *, strictly: bool = False) -> Predicate | None:
    """Returns a condition that is true for every row that sorts before ``last`` by this key or is equal to ``last``.
    Returns None if there is no useful condition, for example for a boolean.

    ``strictly``: whether the condition is true only for rows that sort before ``last``. ``last`` is a value as it was
    read. If values are rounded when they are read, different stored values can become equal. The condition then
    includes all these stored values.
    """
    path = (key.column,)
    null = Leaf(path, Op.IS_NULL)
    nulls: tuple[Predicate, ...] = (null,) if key.nulls_first else ()
    if not last.is_valid:
        if key.nulls_first:
            return Constant(False) if strictly else null
        return ~null if strictly else None
    value = last.value if isinstance(last, pa.DictionaryScalar) else last
    if pa.types.is_boolean(value.type):
        return None  # a bool has only two values, which give no useful bound
    if pa.types.is_date(value.type) and options.calendar != "proleptic":
        return None  # conditions compare dates of the proleptic calendar, but the rows have dates of another calendar
    if pa.types.is_floating(value.type):
        nan = Leaf(path, Op.IS_NAN)
        if bool(np.isnan(value.as_py())):  # NaN sorts above every number
            if key.descending:
                return any_of(*nulls) if strictly else any_of(nan, *nulls)
            return any_of(~nan, *nulls) if strictly else (None if key.nulls_first else ~null)
        if key.descending:
            nulls = (nan, *nulls)
    loose = _loosened(value, options, up=not key.descending)
    if loose is None:
        return None
    exactly = strictly and loose is value
    op = {(False, False): Op.LE, (False, True): Op.LT, (True, False): Op.GE, (True, True): Op.GT}
    return any_of(Leaf(path, op[key.descending, exactly], (loose,)), *nulls)


def _loosened(value: pa.Scalar, options: ReadOptions, *, up: bool) -> Any:
    """Returns ``value``, or a value beyond it. If stored values may be rounded when they are read, different stored
    values can be read as ``value``. The result then lies beyond all of these stored values. Returns None if there is no
    such result."""
    kind = value.type
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        step = pa.scalar(1 if up else -1, pa.duration(kind.unit))
        try:
            return pc.add_checked(value, step)
        except pa.ArrowInvalid:
            return None
    if pa.types.is_decimal(kind) and options.decimal_rounding != "error":
        number: Decimal = value.as_py()
        digits = number.as_tuple()
        unscaled = int("".join(map(str, digits.digits))) * (-1 if digits.sign else 1) + (1 if up else -1)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
    return value


def without_views(request: ScanRequest) -> ScanRequest:
    """The request without string views. Arrow can neither sort nor take string views. So strings are read as plain
    strings, and only the few remaining rows are converted to views."""
    schema, options = request.schema, request.options
    if options.strings == "view":
        options = options.override(strings="string")
    if schema is not None:
        plain = [one.with_type(pa.string()) if pa.types.is_string_view(one.type) else one for one in schema]
        schema = pa.schema(plain, schema.metadata)
    return replace(request, schema=schema, options=options)


def with_sort_keys(request: ScanRequest, order: Sequence[SortKey]) -> ScanRequest:
    """The request with the columns that are read: the wanted columns and the sort keys."""
    if request.columns is None:
        return request
    there = {column_path(column) for column in request.columns} | {(request.file_path,)}
    keys = ((key.column,) for key in order if (key.column,) not in there)
    return replace(request, columns=(*request.columns, *keys))


@dataclass(frozen=True)
class _Stripe:
    """A stripe that may have some of the first rows. ``file``: the position of its file among the jobs. ``number``: the
    number of the stripe in the file. ``first_row``: the number of the stripe's first row in the file."""

    file: int
    number: int
    first_row: int
    rank: Rank


class _FoundRows:
    """The first rows of all rows that were read so far, and the bound that follows from them. Equal rows are sorted by
    the number of their file, then by their row number. ``file`` and ``number`` are the names of the columns for these
    two numbers."""

    def __init__(self, order: tuple[SortKey, ...], k: int, options: ReadOptions, *, file: str, number: str) -> None:
        self.chars: frozenset[str] = frozenset()
        """Keys that have type CHAR in a file. They are compared without trailing spaces."""
        self._order = order
        self._k = k
        self._options = options
        self._file = file
        self._number = number
        self._first: FirstRows | None = None

    def add(self, batch: pa.RecordBatch, file: int, trimmed: frozenset[str]) -> None:
        """Adds rows of a file. ``trimmed``: the sort keys whose column has type CHAR in this file."""
        rows = batch.append_column(self._file, pa.array(np.full(batch.num_rows, file, np.int64)))
        for name in sorted(self.chars):
            values = batch.column(name)
            if name in trimmed:
                values = pc.ascii_rtrim(values.cast(pa.string()), " ")
            rows = rows.append_column(self._sorted_by(name), values.cast(pa.string()))
        if self._first is None:
            keys = [replace(key, column=self._sorted_by(key.column)) for key in self._order]
            ties = [SortKey(self._file, False, False), SortKey(self._number, False, False)]
            self._first = FirstRows(rows.schema, [*keys, *ties], self._k)
        self._first.add(rows)

    def bound(self, file: int, first_row: int) -> Predicate | None:
        """Returns a condition on the first sort key, for the rows of a file from ``first_row`` on. The condition is
        true for every row that sorts before the last of the rows found so far. It is also true for rows with the same
        first key as this last row, if these rows may sort before the last row."""
        last = None if self._first is None else self._first.last()
        if last is None:
            return None
        behind = (file, first_row) > (last[self._file].as_py(), last[self._number].as_py())
        key = self._order[0]
        value = last[self._sorted_by(key.column)]
        bound: Predicate | None = bound_condition(key, value, self._options, strictly=behind and len(self._order) == 1)
        return bound

    def table(self, schema: pa.Schema) -> pa.Table:
        """Returns the rows found so far, sorted, with the columns of ``schema``."""
        if self._first is None:
            return pa.Table.from_batches([], schema)
        if not schema.names:
            return self._first.table().select([])
        found = self._first.table().combine_chunks().to_batches()
        arrays = [widen(found[0].column(field.name), field.type) for field in schema] if found else []
        return pa.Table.from_arrays(arrays, schema=schema) if arrays else pa.Table.from_batches([], schema)

    def _sorted_by(self, name: str) -> str:
        return f"{self._file} {name}" if name in self.chars else name


class TopPass:
    """Reads files to find the first ``k`` rows of a request in an order. If rows are equal, the rows that come earlier
    in the files are kept, even if they were read later. So the result does not depend on the order in which the data is
    read."""

    def __init__(
        self, jobs: Iterable[FileJob], request: ScanRequest, order: Sequence[SortKey], k: int, metrics: ScanMetrics
    ) -> None:
        self._jobs = list(jobs)
        self._order = tuple(order)
        self._options = request.options
        self._metrics = metrics
        number = request.row_numbers or _unused("row", request)
        self._request = replace(
            with_sort_keys(request, self._order), row_numbers=number, limit=None, options=self._options
        )
        self._where = request.where
        self._found = _FoundRows(self._order, k, self._options, file=_unused("file", request), number=number)
        self._open: tuple[int, OpenFile] | None = None
        self._step = k
        """The number of rows of the row groups that are read next, before the bound is checked again."""

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Reads the files and returns the first ``k`` rows, sorted. ``schema``: the schema of the result."""
        try:
            for stripe in self._stripes():
                self._read(self._opened(stripe.file), stripe)
        finally:
            self._close()
        return self._found.table(schema)

    # ------------------------------------------------------------------ what to read first

    def _stripes(self) -> list[_Stripe]:
        """Returns the stripes that the files' statistics do not rule out. Stripes that may have the best values come
        first. Reads the tail of every file."""
        kept, found = 0, list[_Stripe]()
        numbers = {id(job): number for number, job in enumerate(self._jobs)}
        with FileQueue(self._jobs, self._request, self._metrics) as files:
            for file in files:
                alive = file.scan.stripe_numbers()
                ranks = self._ranks_of_stripes(file.scan)
                self._found.chars |= self._char_keys(file.scan)
                bounds = file.scan.reader.stripe_bounds
                number = numbers[id(file.scan.job)]
                found += [_Stripe(number, one, int(bounds[one]), ranks[one]) for one in alive]
                job = self._jobs[number]
                if alive and job.fingerprint is None:  # the stripe numbers are valid only for this version of the file
                    self._jobs[number] = replace(job, fingerprint=file.storage.fingerprint())
                if alive and kept < KEPT_FILES:
                    kept += 1
                    self._keep(number, file)
        return _best_first(found, [stripe.rank for stripe in found], descending=self._order[0].descending)

    def _keep(self, number: int, file: OpenFile) -> None:
        """Keeps what was read of a file that will be opened again: the bytes of a small local file, and its index."""
        job, index = self._jobs[number], file.scan.evidence.__dict__.get("index")
        source = held_source(job.source, file.scan.reader)
        self._jobs[number] = replace(job, source=source, file_index=job.file_index if index is None else index)

    def _ranks_of_stripes(self, scan: FileScan) -> list[Rank]:
        node = self._node(scan)
        count = len(scan.reader.stripes)
        if node is not None and self._options.row_index:
            try:
                raw = stripe_statistics(scan.reader.tail, node)
                return _ranks(bound_statistics(raw, scan.reader.facts, self._options), self._order[0])
            except (CorruptFile, Unsupported):
                pass  # the stripes are then read in the order of the file
        return [(0, None)] * count

    def _node(self, scan: FileScan) -> OrcType | None:
        """The column of the first sort key in a file. The result is None if the file does not have this column."""
        name = self._order[0].column
        sources = scan.columns.schema_plan.fields
        return next((one.column for one in sources if one.field.name == name), None)

    def _char_keys(self, scan: FileScan) -> frozenset[str]:
        names = {key.column for key in self._order}
        chars = (
            one
            for one in scan.columns.schema_plan.fields
            if one.column is not None and one.column.kind is TypeKind.CHAR
        )
        return frozenset(one.field.name for one in chars if one.field.name in names)

    # ------------------------------------------------------------------ reading

    def _opened(self, number: int) -> OpenFile:
        if self._open is None or self._open[0] != number:
            self._close()
            with self._metrics.stage("open"):
                self._open = number, open_job(self._jobs[number], self._request, self._metrics)
        return self._open[1]

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _read(self, file: OpenFile, stripe: _Stripe) -> None:
        """Reads a stripe, and adds the rows of the stripe that may be among the first ``k`` rows."""
        decided = self._decide(file, stripe, None, stripe.first_row)
        if decided is None:
            return
        scan, decision = decided
        groups = [] if decision.rows.may.count <= self._step else self._groups(file, decision, stripe)
        if not groups:
            self._take(file, stripe, scan, decision)
            return
        while groups:
            chosen: list[tuple[int, int]] = []
            rows = 0
            while groups and (rows < self._step or not chosen):
                chosen.append(groups.pop(0))
                rows += chosen[-1][1] - chosen[-1][0]
            self._step *= 2
            wanted = RowSelection.from_runs(sorted(chosen), scan.reader.tail.footer.rows)
            decided = self._decide(file, stripe, wanted, min(start for start, _ in chosen))
            if decided is not None:
                self._take(file, stripe, *decided)

    def _decide(
        self, file: OpenFile, stripe: _Stripe, rows: RowSelection | None, first_row: int
    ) -> tuple[FileScan, StripeDecision] | None:
        """Returns a scan of a stripe with the current bound as a condition, and the decision on the rows of the stripe.
        Returns None if no rows remain. ``rows``: the rows of the file to examine. ``first_row``: the first of these
        rows."""
        job = replace(self._jobs[stripe.file], stripes=(stripe.number,))
        if rows is not None:
            # ``rows.wanted`` already takes the caller's selection, deleted rows and range of rows into account.
            job = replace(job, selection=rows & file.scan.rows.wanted, deleted=None, row_range=None)
        bound = self._found.bound(stripe.file, first_row)
        request = self._request
        if bound is not None:
            request = replace(request, where=bound if self._where is None else all_of(self._where, bound))
        scan = FileScan(file.scan.reader, job, request, self._metrics)
        if self._options.strings == "dictionary":
            run_value(scan.prepare(), file.storage)
        if stripe.number not in scan.stripe_numbers():
            return None
        with self._metrics.stage("prune"):
            decision = run_value(scan.decide(stripe.number), file.storage)
        return None if decision.rows.may.is_empty else (scan, decision)

    def _groups(self, file: OpenFile, decision: StripeDecision, stripe: _Stripe) -> list[tuple[int, int]]:
        """The remaining row groups of a stripe. Each is a range (start, stop) of rows of the file. Row groups that may
        have the best values come first. The list is empty if the row index does not have the column of the first
        key."""
        node = self._node(file.scan)
        if node is None or not self._options.row_index:
            return []
        reader, nodes = file.scan.reader, file.scan.evidence.pruner.nodes
        if decision.index is None and len(usual_bounds(reader.tail, stripe.number)) < 3:
            return []
        index = run_value(StripeIndexes(reader, stripe.number, nodes, {node.id}).of_leaves(), file.storage)
        if index is None or node.id not in index.columns:
            return []
        column = bound_statistics(index.columns[node.id].statistics, reader.facts, self._options)
        ranks = _ranks(column, self._order[0])
        kept = np.flatnonzero(decision.rows.may.any_in(index.bounds)).tolist()
        runs = [tuple((index.bounds[group : group + 2] + stripe.first_row).tolist()) for group in kept]
        return _best_first(runs, [ranks[group] for group in kept], descending=self._order[0].descending)

    def _take(self, file: OpenFile, stripe: _Stripe, scan: FileScan, decision: StripeDecision) -> None:
        count_groups(scan, decision)
        trimmed = self._char_keys(scan)
        for batch in run(scan.read(decision), file.storage):
            self._found.add(batch, stripe.file, trimmed)


def _unused(name: str, request: ScanRequest) -> str:
    """Returns a column name that users are unlikely to choose. The name is made longer until no column of the request
    has this name."""
    taken = {request.file_path, *(() if request.schema is None else request.schema.names)}
    name = f"__orcidx_{name}"
    while name in taken:
        name += "_"
    return name


def _best_first(units: list[Any], ranks: Sequence[Rank], *, descending: bool) -> list[Any]:
    """Sorts stripes or row groups by rank. Stripes or row groups of equal rank keep their order."""
    classes: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for place, (kind, _) in enumerate(ranks):
        classes[kind].append(place)
    classes[1].sort(key=lambda place: ranks[place][1], reverse=descending)
    return [units[place] for kind in (0, 1, 2) for place in classes[kind]]


def _ranks(column: StatisticsColumn, key: SortKey) -> list[Rank]:
    """Returns the rank of each unit, that is, of each stripe or row group. A rank is a class and a bound. Class 0:
    nothing is known about the values of the unit, or some of them may sort before the values of all other units. Class
    1: units of this class are sorted by their bounds. Class 2: all values of the unit sort after the values of all
    other units."""
    values = (column.upper if key.descending else column.lower).at(np.arange(len(column)))
    ranks: list[Rank] = []
    for value, may_null, all_null, may_nan in zip(
        values, column.may_null.tolist(), column.all_null.tolist(), column.may_nan.tolist()
    ):
        if (key.nulls_first and may_null) or (key.descending and may_nan):
            ranks.append((0, None))
        elif all_null:
            ranks.append((2, None))
        else:
            ranks.append((0, None) if value is None else (1, value))
    return ranks
