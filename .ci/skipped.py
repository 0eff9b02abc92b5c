"""After a run without Java and golden files, prints the tests that must run again with Java and golden files.

    python .ci/skipped.py REPORT        the report that pytest --junitxml wrote for the first run

These tests are the skipped tests, and all modules that search for golden files, because such a module has fewer tests
without golden files. All other tests have already run with the same interpreter and the same package. If there is no
report, the whole directory of tests is printed.
"""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

GOLDEN = re.compile(r"^from (goldens|bad\.corpus|bad\.fuzz_targets\.seeds) import", re.MULTILINE)
PLAIN = re.compile(r"[ -~]+")
"""Names that a report does not escape. pytest does not know escaped names, so for a test with another name the whole
module is printed."""


def test_of(case: ET.Element) -> tuple[str, str]:
    """Returns the file and the node id of a test. If the whole module was skipped, the node id is the file."""
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
