"""The sentences of a report. They say whether a query reads only a small part of the files, and what would make this
part smaller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orcidx.explain.explanation import Explanation
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
"""Shares of the bytes. A query that reads at most the first share reads little. A query that reads more than the second
share reads much. A column that takes more than the second share is large."""
_MUCH_OVERLAP = 2
"""The overlap depth of row groups above which sorting or a bloom filter is recommended. Up to this depth, statistics
leave only few row groups for one value."""
_SMALL_FILE = 4 << 20
"""The size in bytes below which a file counts as small."""
_EQUALITIES = (Op.EQ, Op.IN, Op.EQ_NULL_SAFE)


@dataclass(frozen=True)
class Facts:
    """The facts on which the advice is based. ``asked`` maps the name of each column of the condition to True if the
    condition compares the column for equality."""

    explanation: Explanation
    sizes: Sequence[FileSizes]
    ranges: Mapping[str, Ranges]
    asked: Mapping[str, bool]

    @staticmethod
    def of(explanation: Explanation, sizes: Sequence[FileSizes], ranges: Mapping[str, Ranges], scan: Scan) -> Facts:
        """Makes the facts from the data of a report."""
        asked: dict[str, bool] = {}
        for leaf in _asked_leaves(scan.request.where):
            equality = leaf.op in _EQUALITIES and not leaf.negated
            asked[leaf.column] = asked.get(leaf.column, False) or equality
        return Facts(explanation, sizes, ranges, asked)

    def ordered(self) -> Iterator[tuple[str, Ranges]]:
        """The ranges of columns. The columns of the condition come first. Within both groups, columns with less overlap
        come first."""
        yield from sorted(self.ranges.items(), key=lambda item: (item[0] not in self.asked, item[1].overlap))

    @property
    def share(self) -> float:
        """The scan's planned bytes as a share of all bytes of its columns."""
        stage = next(stage for stage in self.explanation.funnel if stage.name == "bytes")
        return stage.after / stage.before if stage.before else 0.0

    @property
    def reads_little(self) -> bool:
        """Whether the bytes that the scan reads, with tails, footers and indexes, are at most half of the
        bytes of the files."""
        stored = sum(file.size for file in self.explanation.files)
        return self.explanation.read_bytes <= _MUCH_SHARE * stored

    def has_bloom(self, column: str) -> bool:
        """Whether a column has bloom filters in any file."""
        return any(one.bloom_filters for file in self.sizes for one in file.columns if one.column == column)


def _asked_leaves(predicate: Predicate | None) -> Iterator[Leaf]:
    """Returns the leaves of a pruning predicate. If the predicate comes from a pyarrow Expression, tests for null are
    left out, because every such predicate contains them."""
    for part in parts(predicate):
        computed = isinstance(part, External)
        yield from (leaf for leaf in leaves(part) if not computed or leaf.op is not Op.IS_NULL)


def advice(facts: Facts) -> list[str]:
    """Sentences in the order of their usefulness."""
    found = [*_of_query(facts), *_of_files(facts)]
    return found or ["No advice: the files are suitable for this query."]


def _of_query(facts: Facts) -> Iterator[str]:
    if facts.explanation.where is None:
        yield "Give a condition (--where) to see what a query would read from these files, and why."
        return
    share = facts.share
    more = ""
    if share <= _LITTLE_SHARE:
        read = size_text(facts.explanation.read_bytes)
        more = ", so the indexes are effective" if facts.reads_little else f", but the scan reads {read}"
    yield f"The query needs {100 * share:.3g} % of the bytes of its columns{more}."
    if share <= _LITTLE_SHARE:
        return
    scattered = {
        column: ranges.overlap / len(ranges.groups)
        for column in facts.asked
        if (ranges := facts.ranges.get(column)) is not None
        and len(ranges.groups) > 1
        and ranges.overlap > _MUCH_OVERLAP
    }
    for column, equality in facts.asked.items():
        ranges = facts.ranges.get(column)
        if ranges is not None and column == max(scattered, key=lambda name: scattered[name], default=None):
            yield (
                f"The rows are not sorted by {column}: its row groups have an overlap depth of "
                f"{rounded(ranges.overlap)} of {len(ranges.groups):,}. If the file is sorted by {column} "
                f"(orcidx rewrite IN OUT --sort-by {column}), statistics alone rule out most row groups."
            )
        overlaps = ranges is not None and ranges.overlap > _MUCH_OVERLAP and not ranges.of_few_values
        if equality and overlaps and not facts.has_bloom(column):
            yield (
                f"The query looks up single values of {column}, which has no bloom filter. With write_table(..., "
                f"bloom_filter_columns=[{column!r}]) row groups without these values are skipped."
            )
    if share > _MUCH_SHARE and not facts.asked:
        yield "The condition computes with its columns, so no index can be used. If possible, add a plain comparison."


def _of_files(facts: Facts) -> Iterator[str]:
    whole, files = sum(one.bytes for one in facts.sizes), facts.explanation.files
    stored = sum(file.size for file in files)
    if len(files) > 10 and stored / len(files) < _SMALL_FILE:
        yield (
            f"The files are small, {size_text(stored // len(files))} on average, and each needs at least one request. "
            "Use orcidx merge to make fewer files."
        )
    blooms = sum(column.bloom_filters for one in facts.sizes for column in one.columns)
    if whole and blooms > 0.2 * whole:
        yield f"Bloom filters take {100 * blooms / whole:.0f} % of the bytes: keep only those of queried columns."
    largest = max(((column.bytes, column.column) for one in facts.sizes for column in one.columns), default=(0, ""))
    if whole and largest[0] > _MUCH_SHARE * whole and len(facts.sizes) == 1:
        yield f"The column {largest[1]} takes more than half of the bytes: leave it out of queries that do not need it."
