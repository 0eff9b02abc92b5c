"""Where the golden files are: a frozen part of them in ``fixtures/``, all of them beside the checkout.

A test takes them from the fixtures ``golden_orc`` and ``golden_paimon``, or from the parameters that are made here.
These skip where the files are absent, before anything is opened; ``test_golden_files.py`` checks that.
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
    """Why a test skips: the golden files are not beside the checkout."""
    return f"no golden files at ../shared/golden/{folder.name}"


def needs(folder: Path, *values: object, id: str | None = None) -> object:
    """A parameter of a test that needs golden files, and skips without them."""
    absent_here = pytest.mark.skipif(not folder.is_dir(), reason=absent(folder))
    return pytest.param(*values, id=id, marks=[pytest.mark.golden, absent_here])


def names_of(folder: Path, pattern: str) -> list[object]:
    """Parameters for a test that runs over each golden file of a pattern: where none is, one that skips."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob(pattern))
    return [*found] or [needs(folder, "", id="absent")]


def roots(fixture: str, golden: Path) -> list[object]:
    """Parameters for a test that runs over the frozen part, and over all files where they are."""
    return [pytest.param(FIXTURES / fixture, id="fixtures"), needs(golden, golden, id="golden")]
