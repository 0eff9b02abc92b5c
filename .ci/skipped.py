"""Prints the test modules that say more with Java and golden files than they did in a run without them.

    python .ci/skipped.py REPORT        the run's report, of pytest --junitxml

These are the modules in which a test skipped, and those that search the golden files. A module that is not named ran
all of its tests, with the same interpreter and the same package. Without a report all modules are named.
"""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

GOLDEN = re.compile(r"^from (goldens|bad\.corpus|bad\.fuzz_targets\.seeds) import", re.MULTILINE)


def module_of(case: ET.Element) -> str:
    """The file of a test: its dotted name, less the class and the name of the test."""
    parts = f"{case.get('classname')}.{case.get('name')}".split(".")
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if path.is_file():
            return path.as_posix()
    raise SystemExit(f"no module of the test {parts}")


def modules(report: Path) -> set[str]:
    if not report.is_file():
        return {"tests"}
    cases = ET.parse(report).iter("testcase")
    skipped = {module_of(case) for case in cases if case.find("skipped") is not None}
    return skipped | {path.as_posix() for path in Path("tests").rglob("test_*.py") if GOLDEN.search(path.read_text())}


print(*sorted(modules(Path(sys.argv[1]))), sep="\n")
