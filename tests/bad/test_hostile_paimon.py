"""Small Paimon files that claim to contain much data can be read and queried at a bounded cost."""

import os
import re

import bad.hostile_tables  # noqa: F401 - adds to ATTACKS
import pytest
from bad.hostile import LARGEST_FILE
from bad.hostile_paimon import ATTACKS
from bad.measure import measure

SLOWER = 5 if os.environ.get("ORCIDX_SANITIZE") else 1
SECONDS = 2 * SLOWER
MEGABYTES = 300 * SLOWER


@pytest.mark.parametrize("name", ATTACKS)
def test_small_files_cost_little(name: str) -> None:
    attack = ATTACKS[name]
    data = attack.make()
    assert len(data) <= LARGEST_FILE
    took = measure(lambda: attack.ask(data))
    assert re.search(attack.answer, took["answer"]), took
    assert took["seconds"] <= SECONDS, took
    assert took["megabytes"] <= MEGABYTES, took
