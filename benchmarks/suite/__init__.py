"""The asv suites. Each file answers one question. On a shared machine only ratios are meaningful. The figures of
``track_`` functions are exact."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
