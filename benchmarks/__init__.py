"""Benchmarks. ``python -m benchmarks.compare`` compares orcidx with pyarrow. ``suite/`` has the asv suites.

The benchmarks are run from the checkout. If orcidx is installed, they import the installed package, because the
extensions of the checkout may not be built. If it is not installed, they import the package of the checkout.
"""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parent.parent)
sys.path[:] = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != _ROOT] + [_ROOT]
