"""Reads local stripes of few rows, if all rows are wanted. A stripe is read by one call, or by one call for each
column. A column is plain if compiled code supports it (``orc/small_stripe``). If all columns are plain, one call
decodes them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.fetching.drive import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge, open_column
from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import open_codec
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.held_stripe import HeldStripe
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.reader import OrcReader, held_bytes
from orcidx.orc.small_stripe import MOST_ROWS, Allowance, Recipe, read_stripe
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_plan import SchemaPlan
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.decode_pool import run_all, thread_count
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage.local_file import LocalFile

__all__ = ["AtOnce", "Held", "arrays_at_once", "held_stripe", "is_for_one_call", "read_at_once"]

Found = tuple[list[pa.Array], int, int]
"""Arrays, and the number of chunks and bytes that were decompressed for them."""

Held = tuple[int, memoryview]
"""The bytes of all streams of a stripe, and their offset in the file: (offset, bytes)."""


@dataclass(frozen=True, eq=False)
class AtOnce:
    """Columns of small stripes that are read by one call, with their readers and options. ``dictionaries``: ids of
    columns that are read as Arrow dictionaries."""

    recipe: Recipe
    columns: Sequence[OrcType]
    options: Sequence[ReadOptions]
    dictionaries: frozenset[int] = frozenset()


SMALL_STRIPE = 1 << 20
"""The most bytes of a local stripe that is read by one call instead of one read for each stream. This is done only if
the whole stripe is wanted."""

PARTS_PER_THREAD = 4
"""For each thread a stripe is divided into this many shares. More than one is used, because some columns take longer
than others."""


def held_stripe(
    reader: OrcReader, plan: SchemaPlan, decision: StripeDecision
) -> Generator[Fetch, list[memoryview], Held | None]:
    """Reads the bytes of a small local stripe with one call, if all its rows and columns are wanted. Returns the offset
    of the stripe in the file, and its bytes. Returns None for any other stripe."""
    information = reader.stripes[decision.stripe]
    size = information.footer_offset - information.offset
    if not (0 < size <= SMALL_STRIPE and decision.rows.may.is_all and reader.storage.is_local):
        return None
    if reader.whole() is not None or len(plan.nodes) < reader.tail.columns - 1:
        return None
    (data,) = yield Fetch(((information.offset, size),), "data")
    return information.offset, data


def is_for_one_call(plan: SchemaPlan, stripe: StripeInformation, options: ReadOptions) -> bool:
    """Whether the columns and the rows of the stripe allow ``read_at_once``. Even if they do, ``read_at_once`` may
    return None."""
    return plan.recipe is not None and stripe.rows <= min(MOST_ROWS, options.batch_size)


def read_at_once(
    plan: SchemaPlan,
    facts: FileFacts,
    information: StripeInformation,
    footer: StripeFooter,
    source: Held | LocalFile,
    *,
    request: ScanRequest,
    metrics: ScanMetrics,
) -> pa.RecordBatch | None:
    """Returns all rows of a small stripe whose bytes are in memory. Columns that are not plain are decoded by readers.
    If all columns are plain, several threads decode them. Returns None for a stripe that must be read piece by
    piece."""
    recipe = plan.recipe
    if recipe is None:
        return None
    columns = plan.columns(())
    wanted = AtOnce(recipe, columns.output, columns.output_options, plan.dictionaries)
    arrays = arrays_at_once(wanted, facts, information, footer, source, request=request, metrics=metrics)
    return None if arrays is None else pa.RecordBatch.from_arrays(arrays, schema=columns.schema)


def arrays_at_once(
    wanted: AtOnce,
    facts: FileFacts,
    information: StripeInformation,
    footer: StripeFooter,
    source: Held | LocalFile,
    *,
    request: ScanRequest,
    metrics: ScanMetrics,
) -> list[pa.Array] | None:
    """Returns all rows of some columns of a small stripe whose bytes are in memory. See ``read_at_once``."""
    recipe = wanted.recipe
    if (0, StreamKind.PRESENT) in footer.streams:
        return None
    rows, options, most = information.rows, request.options, request.bytes_at_once
    shifted = facts.hybrid_calendar and wanted.options[0].calendar == "proleptic"
    allowance = Allowance(most, held=held_bytes(information, options))
    arguments = source, footer, rows, open_codec(facts.compression), facts.block_size
    large = information.footer_offset - information.offset > SMALL_STRIPE
    if large and recipe.others:
        return None
    if isinstance(source, LocalFile) and not recipe.is_for_a_file(footer, rows, most):
        return None
    if isinstance(source, LocalFile) or large:
        threads = thread_count(use_threads=options.use_threads)
        parts = [recipe] if threads == 1 else recipe.parts(PARTS_PER_THREAD * threads)
        tasks = [partial(read_stripe, part, *arguments, allowance=allowance, shifted=shifted) for part in parts]
        results = run_all(tasks, use_threads=options.use_threads)
    else:
        results = [read_stripe(recipe, *arguments, allowance=allowance, shifted=shifted)]
        if recipe.others and results[0] is not None:
            limits = Limits(min(allowance.arrays, options.batch_bytes), held_bytes=allowance.held)
            held = HeldStripe(source, footer, rows, facts, limits=limits, dictionaries=wanted.dictionaries)
            results.append(_by_readers(wanted, held, facts))
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
    return _in_order(arrays, recipe.others) if recipe.others else arrays


def _by_readers(wanted: AtOnce, stripe: HeldStripe, facts: FileFacts) -> Found | None:
    """Returns all rows of the columns that need readers. Returns None if an error occurs, or if the rows have too many
    bytes for one batch."""
    try:
        arrays = [
            open_column(wanted.columns[place], stripe, wanted.options[place], file=facts).read(stripe.rows)
            for place in wanted.recipe.others
        ]
    # After such an error, the stripe is read by the normal reader, which raises the error again or reads fewer rows at
    # once.
    except (OrcidxError, BatchTooLarge):
        return None
    windows = stripe.windows
    return arrays, sum([one.chunks_decompressed for one in windows]), sum([one.bytes_decompressed for one in windows])


def _in_order(arrays: Sequence[pa.Array], places: Sequence[int]) -> list[pa.Array]:
    """Moves the last ``len(places)`` arrays to the positions ``places`` in the result. The other arrays keep their
    order."""
    plain = iter(arrays[: len(arrays) - len(places)])
    last = dict(zip(places, arrays[len(arrays) - len(places) :]))
    return [last[place] if place in last else next(plain) for place in range(len(arrays))]
