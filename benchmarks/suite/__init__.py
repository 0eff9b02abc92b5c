"""asv suites, one question a file. Only ratios count on a shared machine; ``track_`` figures are exact."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
