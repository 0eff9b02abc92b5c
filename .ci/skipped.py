"""Prints the tests that say more with Java and golden files than they did in a run without them.

    python .ci/skipped.py REPORT        the run's report, of pytest --junitxml

These are the tests that skipped, and all of the modules that search the golden files, which have fewer tests without
them. A test that is not named ran with the same interpreter and the same package. Without a report all are named.
"""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

GOLDEN = re.compile(r"^from (goldens|bad\.corpus|bad\.fuzz_targets\.seeds) import", re.MULTILINE)
PLAIN = re.compile(r"[ -~]+")
"""A report escapes other characters, so that such a name is not the one that pytest knows: its module is named."""


def test_of(case: ET.Element) -> tuple[str, str]:
    """The file of a test, and its node id; the file alone where all of the module skipped."""
    name = case.get("name") or ""
    dotted = [part for part in (case.get("classname") or "").split(".") if part]
    for end in range(len(dotted), 0, -1):
        path = Path(*dotted[:end]).with_suffix(".py")
        if path.is_file():
            module = path.as_posix()
            return module, "::".join([module, *dotted[end:], name]) if PLAIN.fullmatch(name) else module
    path = Path(*name.split(".")).with_suffix(".py")
    if not path.is_file():
        raise SystemExit(f"no module of the test {dotted} {name}")
    return path.as_posix(), path.as_posix()


def tests(report: Path) -> set[str]:
    if not report.is_file():
        return {"tests"}
    whole = {path.as_posix() for path in Path("tests").rglob("test_*.py") if GOLDEN.search(path.read_text())}
    skipped = [test_of(case) for case in ET.parse(report).iter("testcase") if case.find("skipped") is not None]
    whole |= {module for module, test in skipped if test == module}
    return whole | {test for module, test in skipped if module not in whole}


print(*sorted(tests(Path(sys.argv[1]))), sep="\n")
