"""``orcidx report`` makes one page about files. With a condition, the page also describes a query of these files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from orcidx.errors import FileGone
from orcidx.explain.explanation import Explanation
from orcidx.explain.page import PagePart, explanation_parts, facts_table, page, subtitle_of, title_of
from orcidx.explain.pictures import RangeBand, Tile, range_bands, treemap
from orcidx.inspection.column_facts import Ranges, column_ranges
from orcidx.inspection.report_advice import Facts, advice
from orcidx.inspection.sizes import FILE_PARTS, FileSizes, file_sizes
from orcidx.scanner.file import OrcFile
from orcidx.scanner.scan import Scan
from orcidx.spellings import counted, size_text
from orcidx.storage import Source

__all__ = ["report_page"]

MOST_BANDS = 12
"""The maximum number of bands in a picture, because the picture must fit on a page."""
MOST_LOOKED_INTO = 200
"""The maximum number of files whose footers and row indexes are read. The footers give the bytes of the columns, and
the row indexes give the ranges of the row groups. The first files are used."""
MOST_TIMED_BYTES = 256 << 20
"""The maximum number of bytes of a query that is run to measure its time."""
_PARTS = {"ROW_INDEX": "index", "BLOOM_FILTER": "bloom", "BLOOM_FILTER_UTF8": "bloom", "PRESENT": "nulls"}
_LEGEND = {
    "data": "values",
    "nulls": "nulls",
    "index": "row indexes",
    "bloom": "bloom filters",
    "footers": "footers",
}


def report_page(
    scan: Scan,
    files: Sequence[Source],
    *,
    typed: str | None = None,
    run: bool = True,
    on_file: Callable[[int], Any] = lambda count: None,
) -> str:
    """Returns the page about the files of a scan. ``typed`` is the condition as the user wrote it. ``run`` says whether
    the scan is run to measure its time. ``on_file`` is called after each file that was examined."""
    began = time.perf_counter()
    explanation = scan.explain() if typed is None else replace(scan.explain(), where=typed)
    explained = time.perf_counter() - began
    gone = {file.file for file in explanation.files if any(note.kind == "gone" for note in file.notes)}
    if gone:
        files = [source for source in files if source.name not in gone]
        scan = replace(scan, jobs=tuple(job for job in scan.jobs if job.source.name not in gone))
        if not files:
            raise FileGone("all files of the report were deleted after they were listed", file=min(gone))
    sizes: list[FileSizes] = []
    ranges: dict[str, list[Ranges]] = {}
    for source in files[:MOST_LOOKED_INTO]:
        with OrcFile(source) as file:
            sizes.append(file_sizes(file.reader))
            repeated = file.reader.root.repeated_ids
            nodes = [node for node in file.reader.root.walk() if node.path and node.id not in repeated]
            for column, found in column_ranges(file.reader, nodes).items():
                name = next(node.dotted for node in nodes if node.id == column)
                ranges.setdefault(name, []).append(found)
        on_file(1)
    facts = Facts.of(explanation, sizes, {name: _joined(found) for name, found in ranges.items()}, scan)
    parts = _picture_parts(explanation, facts)
    parts.append(PagePart("Each index alone", _alone(scan), half=True))
    parts.append(PagePart("Time", _timings(scan, explanation, explained, run=run), half=True))
    words = "".join(f"<li>{escape(line)}</li>" for line in advice(facts))
    parts.insert(0, PagePart("In words", _lead(explanation) + f"<ul class=words>{words}</ul>"))
    return page(title_of([source.name for source in files]), subtitle_of(explanation), parts)


def _lead(explanation: Explanation) -> str:
    """The totals of all files, at the top of the page. Files that were not examined are included."""
    before = {stage.name: stage.before for stage in explanation.funnel}
    figures = (
        (f"{before['rows']:,}", "rows"),
        (size_text(sum(file.size for file in explanation.files)), "stored"),
        (f"{before['stripes']:,}", "stripe" if before["stripes"] == 1 else "stripes"),
    )
    shown = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
    return f"<div class=lead>{shown}</div>"


def _picture_parts(explanation: Explanation, facts: Facts) -> list[PagePart]:
    legend = "".join(f"<li><i class='t-{kind}'></i>{name}</li>" for kind, name in _LEGEND.items())
    # ``order`` is None for a column with fewer than two row groups.
    several = [(name, found, found.order) for name, found in facts.ordered()]
    bands = [RangeBand(name, order, _unit(found)) for name, found, order in several[:MOST_BANDS] if order is not None]
    more = max(0, len(facts.ranges) - MOST_BANDS) if bands else 0
    hint = f"<p class=hint>The ranges of {more:,} more columns are not shown.</p>" if more > 0 else ""
    first = len(facts.sizes) < len(explanation.files)
    of_first = (
        f"<p class=hint>This shows the first {len(facts.sizes):,} of {len(explanation.files):,} files.</p>" * first
    )
    help_text = (
        "<p class=hint>From left to right: row groups. From bottom to top: the values that each may contain.</p>"
    )
    return [
        *explanation_parts(explanation),
        PagePart(
            "Bytes by column and stream", treemap(_tiles(facts.sizes)) + f"<ul class=legend>{legend}</ul>" + of_first
        ),
        PagePart("How sorted the columns are", range_bands(bands) + help_text + hint + of_first if bands else ""),
    ]


def _tiles(sizes: Sequence[FileSizes]) -> list[Tile]:
    by_column: dict[str, Counter[str]] = {}
    whole = sum(one.bytes for one in sizes) or 1
    for file in sizes:
        for column in file.columns:
            for stream, size in column.streams.items():
                by_column.setdefault(column.column or "(rows)", Counter())[_PARTS.get(stream, "data")] += size
        footers = sum(getattr(file, part) for part in FILE_PARTS)
        by_column.setdefault("(footers)", Counter())["footers"] += footers
    return [
        Tile(name, size := sum(parts.values()), f"{size_text(size)}, {100 * size / whole:.1f} %", tuple(parts.items()))
        for name, parts in by_column.items()
    ]


def _joined(found: Sequence[Ranges]) -> Ranges:
    """Concatenates the ranges of one column in several files. The bounds of all files are ranked together."""
    if len(found) == 1:
        return found[0]
    lows = [value for one in found for value in one.lows]
    highs = [value for one in found for value in one.highs]
    return Ranges.of(range(len(lows)), lows, highs)


def _unit(found: Ranges) -> list[tuple[float, float]]:
    most = max(found.high_ranks) or 1
    return [(low / most, high / most) for low, high in zip(found.low_ranks, found.high_ranks)]


def _alone(scan: Scan) -> str:
    """Returns a table of the rows that remain with no index, with only the statistics, with only the bloom filters, and
    with all indexes."""
    if scan.request.where is None:
        return ""
    choices: tuple[tuple[str, dict[str, Any]], ...] = (
        ("no index", {"row_index": False, "bloom_filters": False}),
        ("statistics only", {"bloom_filters": False}),
        ("bloom filters only", {"row_index": False}),
        ("all together", {}),
    )
    rows = []
    for name, off in choices:
        options = scan.options.override(**off)
        alone = replace(scan, request=replace(scan.request, options=options, rereads=False)).explain()
        stages = {stage.name: stage for stage in alone.funnel}
        left = stages["rows"]
        share = f"{100 * left.after / left.before:.3g} %" if left.before else ""
        rows.append((name, left.after, share, size_text(stages["bytes"].after)))
    return facts_table(("evidence", "rows left", "share", "bytes left"), rows)


def _timings(scan: Scan, explanation: Explanation, explained: float, *, run: bool) -> str:
    """Returns a table of times. The query is run as in a new process: it reads tails and indexes even though they are
    in memory now. So the bytes that it reads can be compared with the explanation."""
    rows: list[tuple[str, str]] = [("deciding what to read", f"{1000 * explained:,.1f} ms")]
    left = {stage.name: stage.after for stage in explanation.funnel}["bytes"]
    if run and left <= MOST_TIMED_BYTES:
        query = replace(scan, request=replace(scan.request, rereads=True))
        began = time.perf_counter()
        with query.to_batches() as batches:
            found = sum(batch.num_rows for batch in batches)
            metrics = batches.metrics
        rows += [
            ("reading it", f"{1000 * (time.perf_counter() - began):,.1f} ms"),
            ("rows found", f"{found:,}"),
            ("bytes read", f"{size_text(metrics.bytes_read)} in {counted(metrics.requests, 'request')}"),
        ]
    elif run:
        rows.append(("reading it", f"not timed: more than {size_text(MOST_TIMED_BYTES)}"))
    return facts_table(("", ""), rows)
