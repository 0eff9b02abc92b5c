"""Finds the golden files. ``fixtures/`` has a frozen part of them, and a folder beside the checkout has all of them.

A test takes them from the fixtures ``golden_orc`` and ``golden_paimon``, or from the parameters that this module makes.
The test is skipped before it opens a file if the files are absent; ``test_golden_files.py`` checks this.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FIXTURES = TESTS / "fixtures"
_GOLDEN = TESTS.parent.parent / "shared" / "golden"
GOLDEN_PAIMON = _GOLDEN / "paimon"
GOLDEN_ORC = _GOLDEN / "orc-examples"


def absent(folder: Path) -> str:
    """Returns the reason why a test is skipped if the golden files are not beside the checkout."""
    return f"no golden files at ../shared/golden/{folder.name}"


def needs(folder: Path, *values: object, id: str | None = None) -> object:
    """Returns a parameter of a test that needs golden files. The test is skipped without these files."""
    absent_here = pytest.mark.skipif(not folder.is_dir(), reason=absent(folder))
    return pytest.param(*values, id=id, marks=[pytest.mark.golden, absent_here])


def names_of(folder: Path, pattern: str) -> list[object]:
    """Returns parameters for a test that runs over each golden file of a pattern. Without files, the test is
    skipped."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob(pattern))
    return [*found] or [needs(folder, "", id="absent")]


def roots(fixture: str, golden: Path) -> list[object]:
    """Returns parameters for a test that runs over the frozen part, and over all golden files if they are present."""
    return [pytest.param(FIXTURES / fixture, id="fixtures"), needs(golden, golden, id="golden")]
