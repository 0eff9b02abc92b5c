"""Fixtures for every area."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import GOLDEN_ORC, GOLDEN_PAIMON


def _present(path: Path) -> Path:
    if not path.is_dir():
        pytest.skip(f"no golden files at ../shared/golden/{path.name}")
    return path


@pytest.fixture(scope="session")
def golden_orc() -> Path:
    """ORC's example files with their expected rows."""
    return _present(GOLDEN_ORC)


@pytest.fixture(scope="session")
def golden_paimon() -> Path:
    """Index files and tables that Paimon's Java wrote, with its answers."""
    return _present(GOLDEN_PAIMON)
