"""Makes RECORDS.md from ``records.jsonl``:  python -m benchmarks.records

A line of ``records.jsonl`` is one record. It has the ``heading``, and the ``dates``, ``commits`` and ``commands`` that
the record names. The parts of its ``body`` are texts and tables (``columns``, ``align``, ``rows``). To add a record,
write a section with a heading into RECORDS.md, and run ``python -m benchmarks.records take``. This command adds the
record to ``records.jsonl`` and makes the page again. Run it again after a merge.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "RECORDS.md"
DATA = PAGE.with_name("records.jsonl")
INTRODUCTION = """# Records of long runs

This page lists long runs. `python -m benchmarks.records` makes it from `benchmarks/records.jsonl`.
"""

Record = dict[str, Any]

_DATE = re.compile(r"\b2\d{3}-\d\d-\d\d\b")
_COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7}\b")
_COMMAND = re.compile(r"`((?:python |ORCIDX_|benchmarks[./]|tests/|\.ci/)[^`]*)`")


def main() -> None:
    """Makes the page. With ``take``, first copies the sections of the page into ``records.jsonl``."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("step", nargs="?", choices=["make", "take"], default="make")
    if asked.parse_args().step == "take":
        DATA.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records_of(PAGE.read_text())))
    PAGE.write_text(page_of(records()))


def records() -> list[Record]:
    """Returns all records in the order of the page."""
    return [json.loads(line) for line in DATA.read_text().splitlines()]


def page_of(found: list[Record]) -> str:
    """Returns the page with these records."""
    return INTRODUCTION + "".join(f"\n## {one['heading']}\n\n{_written(one['body'])}" for one in found)


def _written(body: list[Any]) -> str:
    return "\n".join(part + "\n" if isinstance(part, str) else _table(part) for part in body)


def _table(table: Record) -> str:
    lines = [_row(table["columns"]), "|" + "|".join(table["align"]) + "|", *map(_row, table["rows"])]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def records_of(page: str) -> list[Record]:
    """Returns the records in the text of a page."""
    found = []
    for section in re.split(r"(?m)^## ", page)[1:]:
        heading, _, rest = section.partition("\n")
        found.append(
            {
                "heading": heading.strip(),
                "dates": sorted(set(_DATE.findall(section))),
                "commits": list(dict.fromkeys(_COMMIT.findall(section))),
                "commands": list(dict.fromkeys(_COMMAND.findall(section))),
                "body": _parts(rest),
            }
        )
    return found


def _parts(text: str) -> list[Any]:
    parts: list[Any] = []
    lines: list[str] = []

    def ended() -> None:
        if lines:
            parts.append(_read_table(lines) if lines[0].startswith("|") else "\n".join(lines))
            lines.clear()

    for line in map(str.rstrip, text.split("\n")):
        if not line or (lines and line.startswith("|") != lines[0].startswith("|")):
            ended()
        if line:
            lines.append(line)
    ended()
    return parts


def _read_table(lines: list[str]) -> Record:
    columns, align, *rows = map(_cells, lines)
    return {"columns": columns, "align": align, "rows": rows}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


if __name__ == "__main__":
    main()
