"""Draws the plots of docs/performance.md from the tables of RECORDS.md: ``python -m benchmarks.plots``.

This module has no measured numbers. Each bar shows a cell of a recorded table.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benchmarks" / "RECORDS.md"
OUT = ROOT / "docs" / "plots"
ORCIDX, OTHER = "#1f9d63", "#8a94a6"
LEFT, BARS, WIDTH, LINE, BAR = 16, 250, 480, 20, 14
"""Lengths in pixels. Names are above their bars, so a picture is narrow, and readable on a phone."""

Row = tuple[str, dict[str, float]]
"""The name of a measurement, and the number of each side."""


def table(heading: str, first_cell: str) -> list[list[str]]:
    """Returns the cells of the table whose header begins with ``first_cell``, in the section of RECORDS.md with this
    heading."""
    text = RECORDS.read_text(encoding="utf-8")
    section = text[text.index(heading) :].split("\n## ")[0]
    lines = section[section.index(f"| {first_cell} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def columns() -> list[Row]:
    """Nanoseconds per value with zstd, for pyarrow and orcidx."""
    rows = []
    for name, *cells in table("## Speed beside pyarrow.orc", "column"):
        theirs, _, ours = cells[2].partition(",")[0].partition(" / ")
        rows.append((name, {"pyarrow.orc": float(theirs), "orcidx": float(ours)}))
    return rows


def lookups() -> list[Row]:
    """Milliseconds of a lookup without cached metadata."""
    rows = []
    for name, ours, _, pyorc, _, pyarrow, *_ in table("## Selective reads beside", "lookup, all columns"):
        sides = {"pyarrow.orc": float(pyarrow), "pyorc": float(pyorc), "orcidx": float(ours)}
        rows.append((name.replace("`", "").partition(" (")[0], sides))
    return rows


def spark() -> list[Row]:
    """Seconds of a query, for Spark's reader and orcidx."""
    found = table("## `orcidx.spark.read` beside", "query")
    return [(name, {"spark.read.orc": float(a[:-2]), "orcidx.spark": float(b[:-2])}) for name, a, b, _ in found]


def parquet() -> list[Row]:
    """Milliseconds of processor time of five reads, for ORC and Parquet."""
    sides = ("orcidx, ORC", "orcidx, ORC of pyarrow", "pyarrow.orc, ORC", "pyarrow.parquet", "Polars, Parquet")
    found = table("## ORC beside Parquet", "read")
    return [(name.replace("`", ""), dict(zip(sides, map(float, cells), strict=True))) for name, *cells in found]


def engines() -> list[Row]:
    """Milliseconds by the clock of TPC-H's 22 queries together, for each engine and each source."""
    sides = ("Parquet, the engine's own reader", "orcidx", "Arrow in memory")
    found = table("## TPC-H at scale 1 by DuckDB and Polars, 2026-11-30", "engine")
    return [(name, dict(zip(sides, map(float, cells[:3]), strict=True))) for name, *cells in found]


def picture(title: str, rows: list[Row]) -> str:
    """Draws the bars. The longest bar has the same length in each group, because the numbers of the groups differ."""
    parts, y = [], 46
    for name, sides in rows:
        parts.append(f'<text x="{LEFT}" y="{y + 10}">{escaped(name)}</text>')
        y += LINE - 2
        longest = max(sides.values())
        for side, number in sides.items():
            colour, length = (ORCIDX if side.startswith("orcidx") else OTHER), max(1, BARS * number / longest)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
            parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 11}" class="d">{number:g} {side}</text>')
            y += LINE
        y += 8
    width, height = WIDTH, y + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escaped(title)}"><style>text{{font:14px system-ui,sans-serif;fill:#1a2130}}'
        ".d{font-size:13px;fill:#5d6778}.p{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e3e8f0}"
        f'.d{{fill:#97a3b5}}.p{{fill:#161b22}}}}</style><rect class="p" width="{width}" height="{height}" rx="12"/>'
        f'<text x="{LEFT}" y="28" font-weight="600" class="t">{escaped(title)}</text>{"".join(parts)}</svg>\n'
    )


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def plots() -> dict[str, str]:
    """Returns the pictures. The keys are the names of their files."""
    return {
        "columns.svg": picture("Nanoseconds a value, ZSTD, one thread, 2026-11-21", columns()),
        "engines.svg": picture("Milliseconds of TPC-H's 22 queries at scale 1, two threads, 2026-11-30", engines()),
        "lookups.svg": picture("Milliseconds of a lookup, 6 million rows, 2026-11-21", lookups()),
        "parquet.svg": picture("Milliseconds of a read, 6 million rows, 2026-11-23", parquet()),
        "spark.svg": picture("Seconds of a query over 29 million rows, 2026-11-21", spark()),
    }


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name, text in plots().items():
        (OUT / name).write_text(text, encoding="utf-8")
        print(OUT / name)
