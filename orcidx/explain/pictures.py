"""Pictures as HTML without scripts or other files: the pruning map, the treemap of bytes, and the ranges of row groups.

The elements of a picture wrap and stretch with the page, and take their colours from the style of the page. So the
same picture works on a telephone and a wide screen, in light and in dark mode. A picture has at most ``MOST_CELLS``
marks. If there are more row groups, each mark represents several row groups. The text of the mark gives their
number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape

from orcidx.explain.model import ExplainedScan, FileExplanation, RowGroupExplanation
from orcidx.pruning.reasons import last_evaluated

__all__ = ["EVIDENCE", "RangeBand", "Tile", "look_of", "pruning_map", "range_bands", "rows_ruled_out", "treemap"]

EVIDENCE = {
    "kept": ("k", "kept"),
    "constant": ("c", "a constant column"),
    "file statistics": ("f", "file statistics"),
    "index": ("p", "an index beside the file"),
    "stripe statistics": ("s", "stripe statistics"),
    "row-group statistics": ("g", "row-group statistics"),
    "bloom filter": ("b", "a bloom filter"),
    "dictionary": ("d", "a dictionary"),
    "selection": ("x", "not requested"),
    "predicate": ("n", "the condition itself"),
}
"""The kinds of evidence. Each key is a part of the names of such evidence. Each value has the CSS class of the colour,
and the name in the legend."""
_OTHER = ("o", "other evidence")
_ORDER = [*EVIDENCE.values(), _OTHER]
"""The kinds of evidence from coarse to fine."""

MOST_CELLS = 1500
MOST_SHOWN_ROWS = 40
MOST_TILES = 40
MOST_BUCKETS = 240
"""The maximum number of cells, rows, tiles and buckets of a picture, because the picture must fit on a page. If there
are more row groups or columns, one mark of the picture shows several of them."""


def look_of(group: RowGroupExplanation) -> tuple[str, str]:
    """Returns the CSS class of the colour and the name of a row group. A skipped row group has the class and the name
    of the evidence that was evaluated last. Without this evidence the row group would be read."""
    if group.kept:
        return EVIDENCE["kept"]
    return _look_of_source(last_evaluated(group.reasons).source) if group.reasons else EVIDENCE["selection"]


@cache
def _look_of_source(source: str) -> tuple[str, str]:
    return next((look for name, look in EVIDENCE.items() if name != "kept" and name in source), _OTHER)


def rows_ruled_out(explanation: ExplainedScan) -> dict[str, int]:
    """For each kind of evidence, the number of rows in the row groups that it ruled out. If several kinds were needed
    to rule out a row group, as under OR, its rows count for the kind that was evaluated last. Without this kind the row
    group would have been read. All rows of a file that was not opened are counted."""
    counts: Counter[str] = Counter()
    if explanation.unlisted is not None and explanation.unlisted.rows:
        counts[_look_of_source("partition range")[1]] += explanation.unlisted.rows
    for file in explanation.files:
        if not file.opened:
            counts[look_of(_unread(file))[1]] += file.rows
        for stripe in file.stripes:
            for group in stripe.row_groups:
                if not group.kept:
                    counts[look_of(group)[1]] += group.rows
    return dict(counts.most_common())


# ---------------------------------------------------------------------- the pruning map


def pruning_map(explanation: ExplainedScan) -> str:
    """Draws a cell for each row group and a line for each stripe. For several files there is a line for each file. If
    there are too many lines, all cells are in one line. The legend is below the map."""
    lines = _lines(explanation.files)
    total = sum(len(groups) for _, groups in lines)
    size = max(1, -(-total // MOST_CELLS))
    if len(lines) > MOST_SHOWN_ROWS:
        lines = [("", [group for _, groups in lines for group in groups])]
    used: Counter[tuple[str, str]] = Counter()
    rows = []
    for label, groups in lines:
        cells = []
        for start in range(0, len(groups), size):
            part = groups[start : start + size]
            looks = Counter(map(look_of, part))
            used.update(looks)
            cells.append(_cell(part, looks))
        name = f"<span class='row-name'>{escape(label)}</span>" if label else ""
        rows.append(f"<div class='map-row'>{name}<div class='cells'>{''.join(cells)}</div></div>")
    keys = "".join(
        f"<li><i class='c-{look[0]}'></i>{'' if look[0] in 'kx' else 'skipped by '}{look[1]} <b>{used[look]:,}</b></li>"
        for look in _ORDER
        if look in used
    )
    each = f"{size:,} row groups; the height of its green part is the share of kept rows" if size > 1 else "a row group"
    return f"<div class='map'>{''.join(rows)}</div><ul class='legend'>{keys}</ul><p class='hint'>A cell is {each}.</p>"


def _lines(files: Sequence[FileExplanation]) -> list[tuple[str, list[RowGroupExplanation]]]:
    if len(files) == 1:
        return [(f"stripe {stripe.stripe}", list(stripe.row_groups)) for stripe in files[0].stripes]
    return [
        (_tail(file.file), [group for stripe in file.stripes for group in stripe.row_groups] or [_unread(file)])
        for file in files
    ]


def _unread(file: FileExplanation) -> RowGroupExplanation:
    return RowGroupExplanation(0, 0, file.rows, file.kept_rows, 0, file.reasons)


def _tail(name: str) -> str:
    short = name.rsplit("/", 1)[-1]
    return short if len(short) <= 24 else f"…{short[-23:]}"


def _cell(part: Sequence[RowGroupExplanation], looks: Counter[tuple[str, str]]) -> str:
    first, last = part[0], part[-1]
    skipped = looks.copy()
    kept = skipped.pop(EVIDENCE["kept"], 0)
    if kept == len(part):
        look, share = EVIDENCE["kept"], 100.0
    else:
        look, share = skipped.most_common(1)[0][0], 100.0 * kept / len(part)
    if len(part) > 1:
        title = f"row groups {first.row_group:,} to {last.row_group:,}: {kept:,} kept" + "".join(
            f", {count:,} by {name}" for (_, name), count in skipped.most_common()
        )
    else:
        why = "; ".join(map(str, first.reasons[:3]))
        rows = f"{first.kept_rows:,} of {first.rows:,} rows"
        title = f"row group {first.row_group:,}: {rows}{f' · {why}' if why else ''}"
        if first.kept and first.rows:
            share = 100.0 * first.kept_rows / first.rows
            look = EVIDENCE["kept"]
    style = "" if share in (0.0, 100.0) else f" style='--share:{max(share, 8):.0f}%'"
    partly = " part" if style else ""
    return f"<i class='c-{look[0]}{partly}'{style} title='{escape(title[:400], quote=True)}'></i>"


# ---------------------------------------------------------------------- the treemap


@dataclass(frozen=True)
class Tile:
    """A rectangle of the treemap. It has a name, bytes, and the parts that it consists of, as (kind, bytes)."""

    name: str
    size: int
    shown: str
    parts: tuple[tuple[str, int], ...]


def treemap(tiles: Sequence[Tile]) -> str:
    """Draws a rectangle for each tile. The area of a rectangle is proportional to the bytes of its tile. The largest
    rectangle comes first. Each rectangle is divided into the parts of its tile."""
    ordered = sorted((tile for tile in tiles if tile.size > 0), key=lambda tile: -tile.size)
    if len(ordered) > MOST_TILES:
        rest = ordered[MOST_TILES:]
        ordered = [*ordered[:MOST_TILES], _merged(rest)]
    if not ordered:
        return "<p class='hint'>nothing is stored</p>"
    drawn = []
    places = _squarified([tile.size for tile in ordered], 0.0, 0.0, 100.0, 42.0)
    for tile, (left, top, width, height) in zip(ordered, places):
        style = f"left:{left:.3f}%;top:{top / 0.42:.3f}%;width:{width:.3f}%;height:{height / 0.42:.3f}%"
        parts, at = [], 0.0
        for kind, size in sorted(tile.parts, key=lambda part: -part[1]):
            share = 100 * size / tile.size
            parts.append(f"<i class='t-{kind}' style='left:{at:.2f}%;width:{share:.2f}%'></i>")
            at += share
        title = escape(f"{tile.name}: {tile.shown}", quote=True)
        label = f"<span>{escape(tile.name)}<small>{escape(tile.shown)}</small></span>"
        drawn.append(f"<div class='tile' style='{style}' title='{title}'>{''.join(parts)}{label}</div>")
    return f"<div class='treemap'>{''.join(drawn)}</div>"


def _merged(tiles: Sequence[Tile]) -> Tile:
    parts: Counter[str] = Counter()
    for tile in tiles:
        parts.update(dict(tile.parts))
    return Tile(f"{len(tiles):,} smaller columns", sum(tile.size for tile in tiles), "together", tuple(parts.items()))


def _squarified(
    sizes: Sequence[int], left: float, top: float, width: float, height: float
) -> list[tuple[float, float, float, float]]:
    """Returns the positions of rectangles of these sizes, which must be descending. The rectangles are as square as
    possible (Bruls, Huizing, van Wijk 2000)."""
    places: list[tuple[float, float, float, float]] = []
    scale = width * height / sum(sizes)
    areas = [size * scale for size in sizes]
    at = 0
    while at < len(areas):
        side = min(width, height)
        count = 1
        while at + count < len(areas) and _worst(areas[at : at + count + 1], side) <= _worst(
            areas[at : at + count], side
        ):
            count += 1
        row = areas[at : at + count]
        thick = sum(row) / side if side else 0.0
        along = 0.0
        for area in row:
            long = area / thick if thick else 0.0
            if width >= height:
                places.append((left, top + along, thick, long))
            else:
                places.append((left + along, top, long, thick))
            along += long
        if width >= height:
            left, width = left + thick, width - thick
        else:
            top, height = top + thick, height - thick
        at += count
    return places


def _worst(row: Sequence[float], side: float) -> float:
    total = sum(row)
    return max(side * side * max(row) / total**2, total**2 / (side * side * min(row)))


# ---------------------------------------------------------------------- ranges of row groups


@dataclass(frozen=True)
class RangeBand:
    """The ranges of one column's row groups, as pairs (low, high). 0 stands for the smallest bound of the column, and 1
    for the largest bound. ``order`` is a text about the order of the column, such as "ascending"."""

    name: str
    order: str
    ranges: Sequence[tuple[float, float]]


def range_bands(bands: Iterable[RangeBand]) -> str:
    """Draws a strip for each column. Row groups go from left to right, and values go from bottom to top. A sorted
    column is a thin rising line, and a column without order fills the strip."""
    drawn = []
    for band in bands:
        size = max(1, -(-len(band.ranges) // MOST_BUCKETS))
        buckets = [band.ranges[start : start + size] for start in range(0, len(band.ranges), size)]
        marks = []
        wide = 0.86 if len(buckets) > 1 else 1
        for place, bucket in enumerate(buckets):
            low, high = min(one[0] for one in bucket), max(one[1] for one in bucket)
            tall = max(100 * (high - low), 2.5)
            marks.append(f"<rect x='{place}' y='{100 - 100 * low - tall:.1f}' width='{wide}' height='{tall:.1f}'/>")
        svg = f"<svg viewBox='0 -1 {len(buckets)} 102' preserveAspectRatio='none' role='img'>{''.join(marks)}</svg>"
        drawn.append(
            f"<div class='band'><span class='band-name'>{escape(band.name)}</span>{svg}"
            f"<span class='band-order'>{escape(band.order)}</span></div>"
        )
    return f"<div class='bands'>{''.join(drawn)}</div>"
