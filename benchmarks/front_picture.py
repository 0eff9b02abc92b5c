"""Draws the pruning map of the front page, docs/pruning-map.svg: ``python -m benchmarks.front_picture``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import orcidx
from orcidx.explain.pictures import EVIDENCE, look_of, rows_ruled_out

WHERE = "user = 4242 or (at between 60000 and 61500 and city = 'city7')"
COLOURS = {"k": "#1f9d63", "s": "#3d7cb5", "g": "#8fb4d2", "b": "#e0a03c", "f": "#22477a", "d": "#cc5b42"}
CELL, GAP, WIDE = 12, 2, 60
OUT = Path(__file__).resolve().parent.parent / "docs" / "pruning-map.svg"


def explained() -> orcidx.Explanation:
    rng = np.random.default_rng(2)
    rows = 120_000
    events = {
        "at": np.arange(rows) + rng.integers(0, 3000, rows),
        "user": rng.integers(0, 10**6, rows),
        "city": [f"city{i}" for i in rng.integers(0, 50, rows)],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.orc")
        orcidx.write_table(
            pa.table(events), path, row_index_stride=200, stripe_size=1 << 19, bloom_filter_columns=["user"]
        )
        return orcidx.scan(path, where=WHERE).explain()


def picture(explanation: orcidx.Explanation) -> str:
    groups = [group for stripe in explanation.files[0].stripes for group in stripe.row_groups]
    looks = [look_of(group) for group in groups]
    step = CELL + GAP
    cells = "".join(
        f'<rect x="{20 + i % WIDE * step}" y="{64 + i // WIDE * step}" width="{CELL}" height="{CELL}" rx="3" '
        f'fill="{COLOURS[look[0]]}"/>'
        for i, look in enumerate(looks)
    )
    stages = {stage.name: stage for stage in explanation.funnel}
    read = f"reads {stages['row groups'].after} of {stages['row groups'].before} row groups, " + (
        f"{stages['rows'].after:,} of {stages['rows'].before:,} rows"
    )
    bottom = 64 + -(-len(groups) // WIDE) * step
    names = [EVIDENCE["kept"], *(look for look in EVIDENCE.values() if look[1] in rows_ruled_out(explanation))]
    keys, x = "", 20
    for letter, name in names:
        label = name if letter == "k" else f"skipped by {name}"
        keys += f'<rect x="{x}" y="{bottom + 12}" width="12" height="12" rx="3" fill="{COLOURS[letter]}"/>'
        keys += f'<text x="{x + 18}" y="{bottom + 22}" class="d">{label} {looks.count((letter, name))}</text>'
        x += 50 + 7 * len(label) + 20
    width, height = 40 + WIDE * step, bottom + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="pruning map">'
        "<style>text{font:14px system-ui,sans-serif;fill:#1a2130}.d{font-size:13px;fill:#5d6778}.p{fill:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#e3e8f0}.d{fill:#97a3b5}.p{fill:#161b22}}</style>"
        f'<rect class="p" width="{width}" height="{height}" rx="12"/>'
        f'<text x="20" y="28" font-family="monospace">where {WHERE}</text><text x="20" y="50" class="d">{read}</text>'
        f"{cells}{keys}</svg>\n"
    )


if __name__ == "__main__":
    OUT.write_text(picture(explained()), encoding="utf-8")
    print(f"{OUT}: {OUT.stat().st_size:,} bytes")
