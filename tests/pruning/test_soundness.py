"""A short run of ``soundness``: scans of random files with random predicates return exactly the matching rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SEED
from pruning.levels import EVIDENCE
from pruning.soundness import Tally, run, run_java


def test_files_of_the_c_plus_plus_writers(saves: Callable[..., bool]) -> None:
    tally = Tally(Counter())
    assert run(range(10), 12, SEED, tally) == []
    assert tally.rows_returned > 0
    if saves(*EVIDENCE):
        assert tally.groups_skipped > tally.groups // 10
        assert tally.groups_proved > tally.groups // 50
    assert tally.counts == 40
    assert tally.levels.total() == 12


@pytest.mark.java
def test_files_of_the_java_writer(spark: Any, tmp_path: Path, saves: Callable[..., bool]) -> None:
    tally = Tally(Counter())
    assert run_java(spark, tmp_path, range(4), 12, SEED, tally) == []
    assert run_java(spark, tmp_path, range(10, 14), 12, SEED, tally) == []
    assert tally.files == {"java": 4, "vectors": 4}
    if saves(*EVIDENCE):
        assert tally.groups_skipped > tally.groups // 10
