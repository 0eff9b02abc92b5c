"""Small files that claim much: what it takes to open, explain, count and read a batch of each is bounded."""

import os
import re

import pytest
from bad.hostile import LARGEST_FILE, MAKERS
from bad.measure import TASKS, measure, warm

SLOWER = 5 if os.environ.get("ORCIDX_SANITIZE") else 1
"""The sanitizers make every access a call: what is bounded there is that it ends, and that it is clean."""

SECONDS = 2 * SLOWER
MEGABYTES = 300 * SLOWER

REFUSED = {
    "empty_streams": r"5000001 streams for 2 columns|metadata_items",
    "empty_streams_of_unknown_kinds": r"300001 streams for 2 columns|metadata_items",
    "encodings": "metadata_items",
    "metadata_items": "metadata_items",
    "stripes_at_one_place": "metadata_items",
    "empty_stripes": "metadata_items",
    "stripes_without_bytes": "metadata_items",
    "unknown_field": "metadata_bytes",
    "unknown_numbers": "metadata_bytes",
    "statistics_of_the_file": "metadata_items",
    "columns": "metadata_columns",
    "columns_of_one_name": "metadata_columns",
    "subtypes": "metadata_items",
    "attributes": "metadata_items|metadata_bytes",
    "encryption_roots": "metadata_items|metadata_bytes",
    "software_version": "metadata_bytes",
}
"""What the errors name, for files that are not read."""

READ = {
    "statistics_of_stripes": "accepted",
    "statistics_of_absent_stripes": "accepted",
    "statistics_of_numbers": "accepted",
    "time_zone_of_many_letters": r"Unsupported: the writer's time zone 'A+\.\.\.' is unknown here",
    "tiny_groups_in_many_stripes": "accepted",
    "dictionary_of_one_entry": "accepted",
    "dictionary_of_a_gigabyte": "held_bytes",
    "dictionaries_of_columns": "held_bytes",
    "a_string_in_each_column": "held_bytes",
    "one_string": "held_bytes",
    "windows": "held_bytes",
}
"""What becomes of the first batch of files that open."""


@pytest.fixture(scope="module", autouse=True)
def warmed() -> None:
    """Modules load at the first use, which is no cost of a file."""
    warm()


@pytest.mark.parametrize("name", REFUSED | READ)
def test_small_files_cost_little(name: str) -> None:
    case = MAKERS[name]
    data = case.make(1)
    assert len(data) <= LARGEST_FILE
    answers = []
    for task in ("open", "explain", "explain where", "count", "batch"):
        took = measure(lambda task=task: TASKS[task](data, case))  # type: ignore[misc]
        assert took["seconds"] <= SECONDS, (task, took)
        assert took["megabytes"] <= MEGABYTES, (task, took)
        answers.append(took["answer"])
    assert re.search((REFUSED | READ)[name], answers[-1]), answers
