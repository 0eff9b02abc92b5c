"""``LikeFiles``: everything that is the same for all similar small files of a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from orcidx.orc.frame_metadata import with_schema_metadata
from orcidx.orc.integer_range import FileTest
from orcidx.orc.small_file import SmallFile
from orcidx.orc.small_tails import Like
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.schema_plan import SchemaPlan
from orcidx.planner.stripe_pruning import numbers_test
from orcidx.scanner.small_filter import SmallFilter, small_filter
from orcidx.scanner.small_groups import WholeRows

__all__ = ["LikeFiles", "like_files", "schema_of"]


class LikeFiles(NamedTuple):
    """What is the same for all files of one ``Like``. ``plan``: how their columns become the wanted ones. ``reader``:
    decodes files together, or filters them. ``rules_out``: says whether statistics rule out a file. ``schema``: a
    function that returns the schema of the batches. ``has_constants``: whether the files have constant columns, so that
    the plan depends on more than the ``Like``."""

    like: Like
    plan: SchemaPlan
    reader: SmallFilter | WholeRows | None
    rules_out: FileTest | None
    schema: Callable[[], pa.Schema]
    has_constants: bool

    def holds_for(self, file: SmallFile, job: FileJob) -> bool:
        """Whether all of this is true for another file."""
        return self.like is file.like and not self.has_constants and not job.constants


def like_files(
    file: SmallFile, job: FileJob, plan: SchemaPlan, request: ScanRequest, before: LikeFiles | None
) -> LikeFiles:
    """What is the same for all files like this one. ``before``: the same for the file before. Files that have one plan
    have one reader, because only files with one reader are decoded together."""
    where, like = plan.where, file.like
    reader: SmallFilter | WholeRows | None = None
    test = None
    if before is not None and before.plan is plan:
        reader, test = before.reader, before.rules_out
    elif where is not None:
        reader = small_filter(plan)
    elif plan.at_once is not None or plan.has_only_constants:
        reader = WholeRows(plan, plan.at_once)
    if where is not None and (before is None or before.plan is not plan or before.like.kind is not like.kind):
        test = numbers_test(where, plan.asked.places, like.kind.root, like.kind.facts, request.options)
    schema = partial(schema_of, plan, request, like.user_metadata)
    return LikeFiles(like, plan, reader, test, schema, bool(job.constants))


def schema_of(plan: SchemaPlan, request: ScanRequest, metadata: Mapping[str, bytes]) -> pa.Schema:
    """The schema of the batches of a file. ``metadata``: the user metadata of the file."""
    return with_schema_metadata(plan.schema, metadata, request.schema)
