"""Compares how much a lookup of one value reads before and after a rewrite, and reports an increase.

A lookup is ``column = value``, and it returns all columns. For each column, the values of some rows are looked up in
the old files and in the new file. The reads are counted, with tails, footers and indexes. Nothing comes from the caches
of metadata, so the lookups are cold. Where a lookup would read many stripes, only some of them are read, and the count
is extrapolated."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import OrcidxError
from orcidx.fetching.drive import run, run_value
from orcidx.options import ReadOptions
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import PARTS
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.predicate import Predicate, col
from orcidx.rewriting.counted_reads import CountedReads
from orcidx.rewriting.lookup_growth import READS_MORE, LookupCost, growth_causes
from orcidx.rewriting.sources import InputFile, rows_in
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.metrics import ScanMetrics
from orcidx.spellings import counted, size_text

__all__ = ["lookup_notes", "size_notes"]

Path = tuple[str, ...]

LOOKUPS = 4
"""The number of rows whose values are looked up, for each column."""
COMPARED_COLUMNS = 64
"""The maximum number of columns that are compared."""
MOST_FILES = 16
"""The maximum number of old files in which values are looked up. The counts of other files are extrapolated."""
MOST_STRIPES = 8
LOOKUP_BYTES = 8 << 20
"""A lookup ends after ``MOST_STRIPES`` stripes, or after the stripe in which it has read ``LOOKUP_BYTES`` bytes. The
counts of the remaining stripes are extrapolated."""
SIMILAR = 0.9
"""If the indexes leave more than this share of the rows, both in the old files and in the new file, only one value of
the column is looked up. Other values would give about the same counts."""
LEAST_BYTES = 16 << 20
MOST_SHARE = 1 / 16
BYTES_OF_OPENING_A_STRIPE = 64 << 10
"""No more columns are compared after ``LEAST_BYTES`` bytes plus the share ``MOST_SHARE`` of the bytes of the files have
been read. Opening a stripe counts as ``BYTES_OF_OPENING_A_STRIPE`` more bytes, because it takes about as long."""

TAKES_MORE = 1.02
"""The factor by which the size of a file must grow before the growth is reported."""


def lookup_notes(old: Sequence[InputFile], new: InputFile, options: ReadOptions) -> tuple[str, ...]:
    """A sentence about the columns for which a lookup reads more than before. Its numbers are about the column with the
    largest increase. There is no sentence if a file cannot be read again."""
    try:
        costs = _costs(_Lookups(old, options), _Lookups([new], options), _looked_up(new, options))
    except OrcidxError:
        return ()
    more = {name: growth for name, (was, now) in costs.items() if (growth := now.growth(was)) > 1}
    if not more:
        return ()
    worst = max(more, key=lambda name: more[name])
    was, now = costs[worst]
    what = "reads more" if now.bytes > READS_MORE * was.bytes else "takes more requests"
    others = f" (also by {counted(len(more) - 1, 'more column')})" if len(more) > 1 else ""
    readers = [one.reader for one in old]
    why = "".join(f"; {cause}" for cause in growth_causes(readers, new.reader, worst, was, now))
    return (f"a lookup by {worst} {what}: about {now}, before {was}{why}{others}",)


def size_notes(before: int, after: int) -> tuple[str, ...]:
    """A sentence that says how much larger the result is than before. There is no sentence if the result is not
    larger."""
    if after <= TAKES_MORE * before:
        return ()
    return (f"the result is larger: {size_text(after)}, before {size_text(before)}",)


# ---------------------------------------------------------------------- the lookups


def _looked_up(new: InputFile, options: ReadOptions) -> dict[Path, list[pa.Scalar]]:
    """Returns values of each column, from rows that are spread over the file. Nulls and NaN are left out. Columns with
    the same name are left out, too."""
    rows, root = new.rows, new.reader.root
    if not rows:
        return {}
    repeated = root.repeated_ids
    named = [node for node in root.walk() if node.path and node.id not in repeated]
    times = Counter(node.dotted for node in named)
    nodes = [one for one in named if one.kind in PARTS and not one.children and times[one.dotted] == 1]
    found: dict[Path, list[pa.Scalar]] = {tuple(node.path): [] for node in nodes[:COMPARED_COLUMNS]}
    for number in range(LOOKUPS):
        row = rows * (2 * number + 1) // (2 * LOOKUPS)
        try:
            table = rows_in([FileJob(new.source, row_range=(row, row + 1))], options=options).to_table()
        except OrcidxError:  # with these options, a value of the row cannot be returned
            continue
        for path, values in found.items():
            value = _value(table, path)
            if value is not None and value.is_valid and not _is_nan(value):
                values.append(value)
    return {path: values for path, values in found.items() if values}


def _is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and math.isnan(value.as_py())


def _value(table: pa.Table, path: Path) -> pa.Scalar | None:
    name, *below = path
    if table.schema.names.count(name) != 1:
        return None
    value = table.column(name)[0]
    for child in below:
        if not pa.types.is_struct(value.type) or not value.is_valid:
            return None
        value = pc.struct_field(value, child)
    return value


def _costs(
    before: _Lookups, after: _Lookups, looked_up: Mapping[Path, Sequence[pa.Scalar]]
) -> dict[str, tuple[LookupCost, LookupCost]]:
    """The costs of a lookup by each column, before and after. Columns are left out if the reads would take too long, or
    if the column of an old file is damaged, missing, or of another type."""
    conditions: dict[str, list[Predicate]] = {}
    shares: dict[str, float] = {}
    for path, values in looked_up.items():
        name = ".".join(path)
        with suppress(OrcidxError):
            conditions[name] = [col(*path) == value for value in values]
            shares[name] = min(before.share(conditions[name][0]), after.share(conditions[name][0]))
    costs = {}
    for name in sorted(shares, key=lambda name: shares[name]):  # selective lookups first, because they take less time
        if before.is_over or after.is_over:
            break
        found: list[tuple[LookupCost, LookupCost]] = []
        try:
            for where in conditions[name]:
                found.append((before.cost(where), after.cost(where)))
                if shares[name] > SIMILAR:
                    break
        except OrcidxError:
            continue
        costs[name] = _average([was for was, _ in found]), _average([now for _, now in found])
    return costs


def _average(costs: Sequence[LookupCost]) -> LookupCost:
    sums = [sum(numbers) / len(costs) for numbers in zip(*map(astuple, costs))]
    return LookupCost(*sums)


class _Lookups:
    """Looks up values in some files, and counts the reads."""

    def __init__(self, inputs: Sequence[InputFile], options: ReadOptions) -> None:
        self._options = options
        chosen = inputs[:: -(-len(inputs) // MOST_FILES)]
        self._scale = len(inputs) / len(chosen)
        self._files: list[tuple[OrcReader, FileJob, CountedReads]] = []
        self._opening = [0, 0]
        self._left = LEAST_BYTES
        for one in chosen:
            storage = CountedReads(one.reader.storage)
            reader = OrcReader(storage, MetadataLimits.of(options))
            if storage.whole() is None:  # a small file is read completely when it is opened
                self._files.append((reader, FileJob(one.source), storage))
            self._opening[0] += storage.metrics.bytes_fetched
            self._opening[1] += storage.metrics.requests
            self._left += int(MOST_SHARE * storage.size())

    @property
    def is_over(self) -> bool:
        """Whether the limit of bytes is used up. If it is, no more values are looked up."""
        return self._left < 0

    def share(self, where: Predicate) -> float:
        """The share of the rows that the statistics and the other indexes do not rule out."""
        kept = rows = 0
        stripes, skipped = self._stripes(where)
        for scan, storage, number in stripes[:MOST_STRIPES]:
            selected = run_value(scan.decide(number), storage).rows.may
            kept += selected.count
            rows += selected.length
        return kept * (1 - skipped) / max(rows, 1)

    def cost(self, where: Predicate) -> LookupCost:
        """What a lookup with this condition reads."""
        stripes, _ = self._stripes(where)
        size = requests = indexes = done = 0
        for scan, storage, number in stripes[:MOST_STRIPES]:
            start = storage.metrics.bytes_fetched, storage.metrics.requests
            decision = run_value(scan.decide(number), storage)
            indexes += storage.metrics.bytes_fetched - start[0]
            for _ in run(scan.read(decision), storage):
                pass
            size += storage.metrics.bytes_fetched - start[0]
            requests += storage.metrics.requests - start[1]
            done += 1
            if size > LOOKUP_BYTES:
                break
        self._left -= size + done * BYTES_OF_OPENING_A_STRIPE
        times = len(stripes) / max(done, 1)
        opened, opening = self._opening
        return LookupCost(
            bytes=self._scale * (opened + size * times),
            requests=self._scale * (opening + requests * times),
            index_bytes=self._scale * (opened + indexes * times),
        )

    def _stripes(self, where: Predicate) -> tuple[list[tuple[FileScan, CountedReads, int]], float]:
        """Returns the stripes that the statistics in the tails do not rule out, and the share of the other stripes. If
        there are more than ``MOST_STRIPES``, they are shuffled. Each call shuffles them in the same way."""
        request = ScanRequest(where=where, options=self._options, wanted_as="table")
        found: list[tuple[FileScan, CountedReads, int]] = []
        every = 0
        for reader, job, storage in self._files:
            scan = FileScan(reader.through(storage), job, request, ScanMetrics())
            found += [(scan, storage, number) for number in scan.stripe_numbers()]
            every += len(reader.stripes)
        if len(found) > MOST_STRIPES:
            found = random.Random(len(found)).sample(found, len(found))
        return found, 1 - len(found) / max(every, 1)
