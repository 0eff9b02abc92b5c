"""The sentences of a report: whether a query reads little, and what would make it read less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orcidx.explain.model import Explanation
from orcidx.explain.render import rounded
from orcidx.inspection.column_facts import Ranges
from orcidx.inspection.sizes import FileSizes
from orcidx.predicate import External, Leaf, Op, Predicate
from orcidx.predicate.fold import leaves, parts
from orcidx.scanner.scan import Scan
from orcidx.spellings import size_text

__all__ = ["Facts", "advice"]

_LITTLE_SHARE = 0.1
_MUCH_SHARE = 0.5
"""Shares of the bytes up to which a query reads little, and above which one reads, or one column takes, much."""
_SPREAD = 2
"""Overlap depth of row groups above which sorting pays."""
_SMALL_FILE = 4 << 20
"""Bytes below which a file counts as small."""
_EQUALITIES = (Op.EQ, Op.IN, Op.EQ_NULL_SAFE)


@dataclass(frozen=True)
class Facts:
    """The facts that advice is based on. ``asked``: the columns of the condition, and whether each is compared for
    equality."""

    explanation: Explanation
    sizes: Sequence[FileSizes]
    ranges: Mapping[str, Ranges]
    asked: Mapping[str, bool]

    @staticmethod
    def of(explanation: Explanation, sizes: Sequence[FileSizes], ranges: Mapping[str, Ranges], scan: Scan) -> Facts:
        """Makes the facts from the findings of a report."""
        asked: dict[str, bool] = {}
        for leaf in _asked_leaves(scan.request.where):
            equality = leaf.op in _EQUALITIES and not leaf.negated
            asked[leaf.column] = asked.get(leaf.column, False) or equality
        return Facts(explanation, sizes, ranges, asked)

    def ordered(self) -> Iterator[tuple[str, Ranges]]:
        """The ranges: first those of asked columns, then the others by how sorted they are."""
        yield from sorted(self.ranges.items(), key=lambda item: (item[0] not in self.asked, item[1].overlap))

    @property
    def share(self) -> float:
        """The share of the bytes that the query reads."""
        stage = next(stage for stage in self.explanation.funnel if stage.name == "bytes")
        return stage.after / stage.before if stage.before else 0.0

    def has_bloom(self, column: str) -> bool:
        """Whether a column has bloom filters anywhere."""
        return any(one.bloom_filters for file in self.sizes for one in file.columns if one.column == column)


def _asked_leaves(predicate: Predicate | None) -> Iterator[Leaf]:
    """The columns of a pruning predicate, without its tests for null: pyarrow's expressions all come with one."""
    for part in parts(predicate):
        computed = isinstance(part, External)
        yield from (leaf for leaf in leaves(part) if not computed or leaf.op is not Op.IS_NULL)


def advice(facts: Facts) -> list[str]:
    """Sentences, the most useful first."""
    found = [*_of_query(facts), *_of_files(facts)]
    return found or ["Nothing stands out: the files look well made for what was asked."]


def _of_query(facts: Facts) -> Iterator[str]:
    if facts.explanation.where is None:
        yield "Give a condition (--where) to see what a query would read of these files, and why."
        return
    share = facts.share
    yield f"The query reads {100 * share:.3g} % of the bytes of its columns" + (
        ": the indexes do their work." if share <= _LITTLE_SHARE else "."
    )
    if share <= _LITTLE_SHARE:
        return
    scattered = {
        column: ranges.overlap / len(ranges.groups)
        for column in facts.asked
        if (ranges := facts.ranges.get(column)) is not None and len(ranges.groups) > 1 and ranges.overlap > _SPREAD
    }
    for column, equality in facts.asked.items():
        ranges = facts.ranges.get(column)
        if ranges is not None and column == max(scattered, key=lambda name: scattered[name], default=None):
            yield (
                f"{column} is in no useful order: its row groups have an overlap depth of "
                f"{rounded(ranges.overlap)} of {len(ranges.groups):,}. Written sorted by {column} (orcidx rewrite IN "
                f"OUT --sort-by {column}), statistics alone would rule out most of them."
            )
        several = ranges is not None and len(ranges.groups) > 1 and not ranges.of_few_values
        if equality and several and not facts.has_bloom(column):
            yield (
                f"{column} is asked for single values and has no bloom filter: write_table(..., "
                f"bloom_filter_columns=[{column!r}]) rules out row groups that do not hold them."
            )
    if share > _MUCH_SHARE and not facts.asked:
        yield "The condition computes with its columns, which no index can answer; add a plain comparison if one holds."


def _of_files(facts: Facts) -> Iterator[str]:
    whole, files = sum(one.bytes for one in facts.sizes), facts.explanation.files
    stored = sum(file.size for file in files)
    if len(files) > 10 and stored / len(files) < _SMALL_FILE:
        yield (
            f"The files are small, {size_text(stored // len(files))} on average: each costs at least one request. "
            "orcidx merge makes few of many."
        )
    blooms = sum(column.bloom_filters for one in facts.sizes for column in one.columns)
    if whole and blooms > 0.2 * whole:
        yield f"Bloom filters take {100 * blooms / whole:.0f} % of the bytes: keep those of columns that are asked for."
    largest = max(((column.bytes, column.column) for one in facts.sizes for column in one.columns), default=(0, ""))
    if whole and largest[0] > _MUCH_SHARE * whole and len(facts.sizes) == 1:
        yield f"More than half of the bytes are {largest[1]}'s: leave it out of queries that do not need it."
