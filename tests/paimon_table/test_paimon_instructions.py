"""The cost of reading and changing a small Paimon table, and of writing an ORC file of one row, in machine
instructions. valgrind's callgrind counts the instructions.

The number of instructions depends on how Python was built. So it is divided by the number of instructions of a fixed
piece of plain Python (the yardstick), which the same process runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

VALGRIND = shutil.which("valgrind")
RECORDED = {"lookup": 0.265, "append": 0.505, "delete": 0.49, "write": 0.089}
"""Instructions of each step divided by those of the yardstick, with Python 3.11. In commit 145d4f3, before the steps
were made cheaper, these numbers were 0.870, 1.432, 1.634 and 0.233."""
MARGIN = 1.05 if sys.version_info[:2] == (3, 11) else 1.25
"""A step may have at most the number in ``RECORDED`` times this factor. Two runs of one code differ by up to 0.5 %.
With other versions of Python, the yardstick and the steps have other numbers of instructions."""

_MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(VALGRIND is None, reason="valgrind is not installed (Debian: valgrind)"),
]


@pytest.fixture(scope="module")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Returns the number of instructions of each step in the main thread."""
    folder = tmp_path_factory.mktemp("instructions")
    source, marks, out = folder / "marks.c", folder / "marks.so", folder / "out"
    source.write_text(_MARKS)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    subprocess.run([compiler, "-shared", "-fPIC", "-o", marks, source], check=True)
    counting = [VALGRIND, "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    script = Path(__file__).with_name("counted_steps.py")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [*counting, sys.executable, script, marks, folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    counts = {}
    for number, name in enumerate(run.stdout.split(), 1):
        found = re.search(r"^summary: (\d+)$", Path(f"{out}.{number}").read_text(), re.MULTILINE)
        assert found is not None
        counts[name] = int(found[1])
    return counts


@pytest.mark.parametrize("step", RECORDED)
def test_instructions(instructions: dict[str, int], step: str) -> None:
    found = instructions[step] / instructions["yardstick"]
    assert found <= RECORDED[step] * MARGIN, f"{step}: {found:.2f} times the yardstick; the record is {RECORDED[step]}"
