"""Benchmarks: ``python -m benchmarks.compare`` beside pyarrow, and asv suites in ``suite/``.

Run from the checkout. An installed orcidx is preferred to the sources beside this folder, whose extensions may not be
built; an editable or in-place build is found as well.
"""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parent.parent)
sys.path[:] = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != _ROOT] + [_ROOT]
