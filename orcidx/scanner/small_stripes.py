"""Local stripes of few rows, all of which are wanted: brought with one read, or one a column, and decoded in one call
where they are plain."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import pyarrow as pa

from orcidx.fetching.drive import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.compression import open_codec
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts, StripeInformation
from orcidx.orc.reader import OrcReader, held_bytes
from orcidx.orc.small_stripe import MOST_ROWS, Allowance, Recipe, read_stripe
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_plan import SchemaPlan
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.decode_pool import run_all, thread_count
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage.local_file import LocalFile

__all__ = ["Held", "held_stripe", "is_for_one_call", "read_at_once"]

Held = tuple[int, memoryview]
"""(offset in the file, bytes) of all streams of a stripe."""

SMALL_STRIPE = 1 << 20
"""Bytes of a local stripe that is read at once, where all of it is wanted: instead of a read for each stream."""

PARTS = 4
"""Of a stripe that threads share, for each thread: the columns of one may take longer than those of another."""


def held_stripe(
    reader: OrcReader, plan: SchemaPlan, decision: StripeDecision
) -> Generator[Fetch, list[memoryview], Held | None]:
    """A small local stripe all of which is wanted, at once: (offset in the file, bytes); None of any other."""
    information = reader.stripes[decision.stripe]
    size = information.footer_offset - information.offset
    if not (0 < size <= SMALL_STRIPE and decision.rows.may.is_all and reader.storage.is_local):
        return None
    if reader.whole() is not None or len(plan.nodes) < reader.tail.columns - 1:
        return None
    (data,) = yield Fetch(((information.offset, size),), "data")
    return information.offset, data


def is_for_one_call(plan: SchemaPlan, stripe: StripeInformation, options: ReadOptions) -> bool:
    """Whether the stripe's columns and rows are such that ``read_at_once`` is worth a try."""
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
    """All of a stripe that is in memory, or of a local file; None of one that needs column readers."""
    recipe = plan.recipe
    if recipe is None or (0, StreamKind.PRESENT) in footer.streams:
        return None
    rows, options, most = information.rows, request.options, request.bytes_at_once
    from_file = isinstance(source, LocalFile)
    if from_file and not recipe.is_for_a_file(footer, rows, most):
        return None
    threads = thread_count(use_threads=options.use_threads) if from_file else 1
    codec = open_codec(facts.compression)
    allowance = Allowance(most, held=held_bytes(information, options))
    shifted = facts.hybrid_calendar and options.calendar == "proleptic"

    def read(recipe: Recipe) -> tuple[list[pa.Array], int, int] | None:
        return read_stripe(recipe, source, footer, rows, codec, facts.block_size, allowance=allowance, shifted=shifted)

    if threads == 1:
        results = [read(recipe)]
    else:
        results = run_all([partial(read, part) for part in recipe.parts(PARTS * threads)], use_threads=True)
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
    return pa.RecordBatch.from_arrays(arrays, schema=plan.columns(()).schema)
