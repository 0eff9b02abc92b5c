"""Without short cuts, numbers are decoded to the same values, and the same values are kept. The tests run in separate
processes, because short cuts are selected when modules are loaded.

The short cuts are code for processors with AVX2 and BMI2, the compiler's 128-bit integers, and code for runs of equal
scales.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
DECIMALS = (
    "streams/test_decimals.py::test_every_size_under_every_run_of_scales",
    "streams/test_decimals.py::test_every_size_in_64_bits",
    "streams/test_decimals.py::test_the_largest_number_in_64_bits",
    "streams/test_decimals.py::test_the_largest_number_of_a_precision",
    "streams/test_decimals.py::test_streams_that_end_too_early",
    "streams/test_decimals.py::test_the_largest_integer_of_a_precision",
    "streams/test_kept_decoding.py::test_what_is_kept_is_what_a_mask_keeps_of_all",
)
INTEGERS = (
    "vectors/test_run_vectors.py::test_integers",
    "streams/test_int_rle.py::test_every_width_at_every_count",
    "streams/test_int_rle.py::test_runs_in_a_row_at_every_width",
    "streams/test_int_rle.py::test_runs_of_version_1_in_a_row",
)
KEPT = (
    "scanner/test_kept_arrays.py::test_nothing_is_written_after_the_spare_value",
    "scanner/test_kept_arrays.py::test_values_are_moved_within_their_memory",
    "scanner/test_kept_arrays.py::test_rows_are_those_that_pyarrow_keeps",
    "scanner/test_kept_arrays.py::test_masks",
)


@pytest.mark.parametrize(
    ("switch", "tests"),
    [("ORCIDX_SIMD", (*DECIMALS, *INTEGERS, *KEPT, "streams/test_wide_numbers.py")), ("ORCIDX_RUNS", DECIMALS)],
)
def test_without_a_short_cut(switch: str, tests: tuple[str, ...]) -> None:
    # With -P, Python imports the installed package, not the checkout.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-n0", *(str(TESTS / name) for name in tests)]
    environment = {**os.environ, switch: "none"}
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
