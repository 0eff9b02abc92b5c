"""Reads local stripes that become one batch, if all rows are wanted. A column is plain if compiled code supports it
(``orc/small_stripe``). If all columns are plain, one call decodes them. A stripe of few rows is read by one call, or by
one call for each column. The streams of a larger stripe are read piece by piece, if the types determine the bytes of
its rows."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Sized
from functools import partial

import pyarrow as pa

from orcidx.fetching.drive import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import open_codec
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.metadata import FileFacts
from orcidx.orc.plain_columns import PLAIN_ROWS, Allowance
from orcidx.orc.reader import OrcReader, held_bytes
from orcidx.orc.row_index import group_count
from orcidx.orc.small_stripe import read_stripes
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.planner.data_fetches import piece_bytes
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_plan import AtOnce, SchemaPlan
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.decode_pool import run_all, thread_count
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.reader_columns import HeldBytes, in_places, read_others
from orcidx.scanner.row_width import RowWidth
from orcidx.storage.local_file import LocalFile

__all__ = [
    "HeldBytes",
    "arrays_at_once",
    "count_file",
    "held_stripe",
    "is_for_one_call",
    "is_one_read",
    "read_at_once",
]

SMALL_STRIPE_BYTES = 1 << 20
"""The most bytes of a local stripe that is read by one call instead of one read for each stream. This is done only if
the whole stripe is wanted."""

SINGLE_THREADED_BYTES = 1 << 20
"""The most Arrow bytes of a stripe of many rows that is decoded by one call, although there are several threads. Column
readers decompress the chunks of a larger stripe in several threads."""

PARTS_PER_THREAD = 4
"""The columns of a stripe are divided into this many parts for each thread. One part for each thread would not be
enough, because some columns take longer than others."""


def held_stripe(
    reader: OrcReader, columns: Sized, decision: StripeDecision
) -> Generator[Fetch, list[memoryview], HeldBytes | None]:
    """Reads the bytes of a small local stripe with one call, if all its rows and columns are wanted. ``columns`` has
    the columns that are read, with all columns below them. Returns the offset of the stripe in the file, and its bytes.
    Returns None for any other stripe. The file must not be in memory."""
    information = reader.stripes[decision.stripe]
    if not (decision.rows.may.is_all and reader.storage.is_local and is_one_read(reader, columns, information)):
        return None
    (data,) = yield Fetch(((information.offset, information.footer_offset - information.offset),), "data")
    return information.offset, data


def is_one_read(reader: OrcReader, columns: Sized, stripe: StripeInformation) -> bool:
    """Whether the bytes of a local stripe are read by one call if all its rows are wanted. See ``held_stripe``."""
    small = 0 < stripe.footer_offset - stripe.offset <= SMALL_STRIPE_BYTES
    return small and len(columns) >= reader.tail.columns - 1


def is_for_one_call(plan: SchemaPlan, stripe: StripeInformation, options: ReadOptions) -> bool:
    """Whether the columns and the rows of the stripe allow ``read_at_once``. Even if they do, ``read_at_once`` may
    return None."""
    if plan.at_once is None or stripe.rows > options.batch_size:
        return False
    if stripe.rows <= PLAIN_ROWS:
        return True
    # The stripe must have no more rows than column readers would read at once.
    width = plan.at_once.recipe.row_bytes
    if width is None or stripe.rows * width > RowWidth.share * options.batch_bytes:
        return False
    few = stripe.rows * width <= SINGLE_THREADED_BYTES or not options.use_threads
    return few or thread_count(use_threads=True) == 1


def read_at_once(
    plan: SchemaPlan,
    facts: FileFacts,
    information: StripeInformation,
    footer: StripeFooter,
    source: HeldBytes | LocalFile,
    *,
    request: ScanRequest,
    metrics: ScanMetrics,
) -> pa.RecordBatch | None:
    """Returns all rows of a stripe for which ``is_for_one_call`` is true. In a stripe in memory, columns that are not
    plain are decoded by readers. If all columns are plain, several threads may decode them. Returns None if column
    readers are needed for all columns."""
    wanted = plan.at_once
    if wanted is None:
        return None
    arrays = arrays_at_once(wanted, facts, information, footer, source, request=request, metrics=metrics)
    if arrays is None:
        return None
    for place in wanted.views:
        arrays[place] = arrays[place].cast(pa.string_view())
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.schema)


def arrays_at_once(
    wanted: AtOnce,
    facts: FileFacts,
    information: StripeInformation,
    footer: StripeFooter,
    source: HeldBytes | LocalFile,
    *,
    request: ScanRequest,
    metrics: ScanMetrics,
) -> list[pa.Array] | None:
    """Returns all rows of some columns of a stripe. See ``read_at_once``."""
    recipe = wanted.recipe
    rows, options, most = information.rows, request.options, request.bytes_at_once
    shifted = facts.hybrid_calendar and wanted.options[0].calendar == "proleptic"
    allowance = Allowance(most, held=held_bytes(information, options))
    large = information.footer_offset - information.offset > SMALL_STRIPE_BYTES
    if large and recipe.others:
        return None
    piece = 0
    if isinstance(source, LocalFile) and not recipe.is_for_a_file(footer, rows, most):
        if recipe.row_bytes is None:
            return None
        piece = piece_bytes(len(wanted.columns), options, is_local=True)
    parts = [recipe]
    if options.use_threads and (isinstance(source, LocalFile) or large):
        threads = thread_count(use_threads=True)
        parts = parts if threads == 1 else recipe.parts(PARTS_PER_THREAD * threads)
    read = partial(
        read_stripes,
        stripes=[(source, footer, rows)],
        codec=open_codec(facts.compression),
        block_size=facts.block_size,
        allowance=allowance,
        shifted=shifted,
        decimal64=facts.decimal64,
        piece=piece,
    )
    if len(parts) > 1:
        results = run_all([partial(read, part) for part in parts], use_threads=True)
    else:
        results = [read(recipe)]
        if recipe.others and results[0] is not None and not isinstance(source, LocalFile):
            limits = Limits(min(allowance.arrays, options.batch_bytes), held_bytes=allowance.held)
            results.append(read_others(wanted, facts, [(source, footer, rows)], limits))
    arrays: list[pa.Array] = []
    chunks = size = 0
    for found in results:
        if found is None:
            return None
        arrays += found[0]
        chunks += found[1]
        size += found[2]
    metrics.chunks_decompressed += chunks
    metrics.bytes_decompressed += size
    return in_places(arrays, recipe.others) if recipe.others else arrays


def count_file(metrics: ScanMetrics, every: Sequence[StripeInformation], stride: int, *, is_out: bool) -> None:
    """Adds a small file to the metrics. ``is_out``: whether its statistics rule it out."""
    stripes = kept = 0
    for stripe in every:
        groups = group_count(stripe.rows, stride)
        metrics.row_groups += groups
        stripes += 1
        if stripe.rows and not is_out:
            kept += 1
            metrics.row_groups_kept += groups
            metrics.rows_considered += stripe.rows
    metrics.stripes += stripes
    metrics.stripes_skipped += stripes - kept
    metrics.files_skipped += not kept
