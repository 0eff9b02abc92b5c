"""Hooks of mkdocs. They add the page of all commands, and the pages that are not in docs/, to the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import command_pages
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
ELSEWHERE = {
    "README.md": "project/README.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "CHANGELOG.md": "project/CHANGELOG.md",
    "SECURITY.md": "project/SECURITY.md",
    "benchmarks/RECORDS.md": "project/RECORDS.md",
}
"""The pages that are not in docs/, and their paths in the site."""
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    for source, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    place = "reference/commands.md"
    stand_in = files.get_file_from_path(place)
    if stand_in is not None:
        files.remove(stand_in)
    files.append(File.generated(config, place, content=command_pages.page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Changes links between files of the repository into links between pages of the site."""
    place = page.file.src_uri
    at_home = {there: here for here, there in ELSEWHERE.items()}.get(place, f"docs/{place}")
    return LINK.sub(lambda link: link[1] + _moved(link[2], at_home, place) + link[3], markdown)


def _moved(target: str, at_home: str, place: str) -> str:
    meant = os.path.normpath(Path(at_home).parent / target)
    if (ROOT / meant).is_dir() and (ROOT / meant / "README.md").exists():
        meant += "/README.md"
    if meant in ELSEWHERE:
        there = ELSEWHERE[meant]
    elif meant.startswith("docs/"):
        there = meant.removeprefix("docs/")
    else:
        return target  # not a page of the site; mkdocs --strict reports the link
    return os.path.relpath(there, Path(place).parent)
