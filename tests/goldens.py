"""Where the golden files are: a frozen part of them in ``fixtures/``, all of them beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FIXTURES = TESTS / "fixtures"
_GOLDEN = TESTS.parent.parent / "shared" / "golden"
GOLDEN_PAIMON = _GOLDEN / "paimon"
GOLDEN_ORC = _GOLDEN / "orc-examples"


def roots(fixture: str, golden: Path) -> list[object]:
    """Parameters for a test that runs over the frozen part, and over all files where they are."""
    absent = pytest.mark.skipif(not golden.is_dir(), reason=f"no golden files at ../shared/golden/{golden.name}")
    return [
        pytest.param(FIXTURES / fixture, id="fixtures"),
        pytest.param(golden, id="golden", marks=[pytest.mark.golden, absent]),
    ]
