"""Runs a few of the random histories of ``histories.py``."""

from __future__ import annotations

from collections.abc import Callable

from conftest import SEED
from index_directory.histories import run


def test_two_jobs_on_a_store_that_fails(saves: Callable[..., bool]) -> None:
    tally, wrong = run(range(SEED, SEED + 30))
    assert wrong == []
    assert tally["reads right"] > 40
    if saves("catalog", "indexes in the catalog", "file statistics"):
        assert tally["files ruled out"] > 0
    assert tally["faults"] > 20
    assert tally["build"] + tally["refresh"] > 40
