"""The cost of small files that claim to contain much data is bounded. The tests measure the cost of opening,
explaining, counting, and reading one batch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bad.hostile import LARGEST_FILE, MAKERS, orc
from bad.measure import TASKS, measure, warm
from orc_messages import type_message

import orcidx

SLOWER = 5 if os.environ.get("ORCIDX_SANITIZE") else 1
"""The factor of the limits below. With sanitizers, every memory access is a call, so the limits are higher. Then the
tests mainly check that the sanitizers report no error."""

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
    "long_names": "the names of all columns .* metadata_bytes",
    "subtypes": "metadata_items",
    "attributes": "metadata_items|metadata_bytes",
    "encryption_roots": "metadata_items|metadata_bytes",
    "software_version": "metadata_bytes",
}
"""Patterns of the errors, for files that are refused."""

READ = {
    "statistics_of_stripes": "accepted",
    "statistics_of_absent_stripes": "accepted",
    "statistics_of_numbers": "accepted",
    "time_zone_of_many_letters": r"Unsupported: the writer's time zone 'A+\.\.\.' is unknown on this machine",
    "tiny_groups_in_many_stripes": "accepted",
    "dictionary_of_one_entry": "accepted",
    "dictionary_of_a_gigabyte": "held_bytes",
    "dictionaries_of_columns": "held_bytes",
    "a_string_in_each_column": "held_bytes",
    "one_string": "held_bytes",
    "windows": "held_bytes",
}
"""The result of reading the first batch, for files that can be opened: "accepted", or a pattern of the error."""


ALONE = {
    "rows_of_nothing": "accepted",
    "rows_beyond_counting": "accepted",
    "rows_in_tiny_groups": "accepted",
    "columns_with_a_row": "accepted",
    "dictionary_of_no_letters": "held_bytes",
    "one_list": "held_bytes",
    "one_list_of_nothing": "accepted",
    "one_map": "accepted",
    "union_of_lists": "held_bytes",
    "nulls": "accepted",
    "empty_chunks": "accepted",
    "rows_to_pass_over": "accepted",
    "indexes_of_columns": "ends before its values do",
    "index_with_positions": "accepted",
    "bloom_of_words": "accepted",
    "blooms_without_number": "accepted",
    "statistics_of_long_strings": "accepted",
}
"""The results, as in ``READ``, for files that take longer to make or to read. Each of them is read in its own
process."""


@pytest.fixture(scope="module", autouse=True)
def warmed() -> None:
    """Loads all modules, because the time to load them must not count as the cost of a file."""
    warm()


def within_bounds(took: dict[str, Any]) -> None:
    assert took["seconds"] <= SECONDS, took
    assert took["megabytes"] <= MEGABYTES, took


SCALE = 0.1 if SLOWER > 1 else 1
"""The scale of files that can be opened. With sanitizers, a tenth of the size runs the same code."""


@pytest.mark.parametrize("name", REFUSED | READ)
def test_small_files_cost_little(name: str) -> None:
    case = MAKERS[name]
    data = case.make(SCALE if READ.get(name) == "accepted" else 1)
    assert len(data) <= LARGEST_FILE
    answers = []
    for task in ("open", "explain", "explain where", "count", "batch"):
        took = measure(lambda task=task: TASKS[task](data, case))  # type: ignore[misc]
        within_bounds(took)
        answers.append(took["answer"])
    assert re.search((REFUSED | READ)[name], answers[-1]), answers


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_small_files_cost_a_process_little(part: int) -> None:
    names = list(ALONE)[part::3]
    measuring = [sys.executable, str(Path(__file__).with_name("measure.py")), *names]
    told = subprocess.run(measuring, capture_output=True, text=True, timeout=280, check=True).stdout
    answers: dict[str, str] = {}
    for took in map(json.loads, told.splitlines()):
        within_bounds(took)
        answers[took["name"]] = took["answer"] if took["task"] == "batch" else answers.get(took["name"], "")
    assert list(answers) == names
    for name, answer in answers.items():
        assert re.search(ALONE[name], answer), (name, answer)


def test_every_maker_is_asked() -> None:
    assert (REFUSED | READ | ALONE).keys() == MAKERS.keys()
    assert len(REFUSED) + len(READ) + len(ALONE) == len(MAKERS)


def test_the_deepest_types_are_read_from_a_deep_stack() -> None:
    data = MAKERS["long_names"].make(0.0002)

    def read(frames: int) -> int:
        return read(frames - 1) if frames else len(orcidx.open(data).read())

    assert read(300) == 1


def test_deeper_types_are_refused() -> None:
    types = [type_message("struct", [level + 1], ["a"]) for level in range(101)] + [type_message("bigint")]
    with pytest.raises(orcidx.Unsupported, match="nested deeper than 100 levels"):
        orcidx.open(orc(types))
