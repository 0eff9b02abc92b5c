"""Tests that need golden files are skipped without them. No code opens such a file before it checks that it exists.

The files are not part of the repository, so a fresh clone has none. ``golden_orc`` and ``golden_paimon`` skip a test,
and so do the parameters that ``goldens.py`` makes. But a path that a test makes from ``GOLDEN_ORC`` skips no test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = {"GOLDEN_ORC", "GOLDEN_PAIMON"}
MAKERS = {"roots", "needs", "names_of"}
"""Functions of ``goldens.py`` that make parameters. The parameters skip a test if the files are absent."""
SEARCHES = {"glob", "rglob", "is_dir", "relative_to"}
"""Methods that find nothing in an absent folder, and do not open files."""
KEEPERS = {"goldens.py", "conftest.py", "test_golden_files.py"}
TAKES_WHAT_IS_THERE = {"bad/corpus.py"}
"""The corpus of the fuzzer. It searches each folder, and also has other samples."""


def openings(source: str) -> Iterator[str]:
    """Yields uses of golden files in a test module that fail if there are no such files."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        named = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if named in FOLDERS and not only_searched(node, parents):
            yield f"line {node.lineno}: {named} is opened; ask for the fixture {named.lower()}"
        if named == "golden" and isinstance(node, ast.Attribute) and getattr(node.value, "attr", "") == "mark":
            yield f"line {node.lineno}: a marker alone does not skip; ask for a fixture, or use goldens.needs"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "shared/golden" in node.value:
            yield f"line {node.lineno}: only goldens.py may name the place of the golden files"


def only_searched(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a folder, or a subfolder of it, is only searched, or passed to a function that makes parameters."""
    above = parents[node]
    while isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div) and above.left is node:
        node, above = above, parents[above]
    if isinstance(above, ast.Call) and node in above.args:
        function = above.func
        return (isinstance(function, ast.Name) and function.id in MAKERS) or getattr(function, "attr", "") in SEARCHES
    return isinstance(above, ast.Attribute) and above.attr in SEARCHES


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("@pytest.mark.golden\ndef test(name):\n    checked(GOLDEN_ORC / name)", 2),
        ("DATA = (GOLDEN_ORC / 'a.orc').read_bytes()", 1),
        ("@pytest.fixture\ndef file():\n    return orcidx.open(goldens.GOLDEN_ORC / 'a.orc')", 1),
        ("PLACE = ROOT.parent / 'shared/golden'", 1),
        ("pytestmark = [pytest.mark.golden]", 1),
        ("def test(golden_orc):\n    checked(golden_orc / 'a.orc')", 0),
        ("NAMES = sorted(path.relative_to(GOLDEN_ORC) for path in (GOLDEN_ORC / 'expected').glob('*'))", 0),
        ("@pytest.mark.parametrize('root', roots('paimon', GOLDEN_PAIMON))\ndef test(root): ...", 0),
    ],
)
def test_the_rule_finds_what_fails_in_a_fresh_clone(source: str, count: int) -> None:
    assert len(list(openings(source))) == count


def test_nothing_opens_golden_files_before_it_skips() -> None:
    apart = {TESTS / name for name in KEEPERS | TAKES_WHAT_IS_THERE}
    found = {
        path.relative_to(TESTS).as_posix(): said
        for path in sorted(set(TESTS.rglob("*.py")) - apart)
        if (said := list(openings(path.read_text())))
    }
    assert not found, found
