"""Tests that mutants match their names, and that ``judged.toml`` names only code and tests that exist."""

from __future__ import annotations

import tomllib
from pathlib import Path

from mutants.changes import mutants_of

ROOT = Path(__file__).resolve().parent.parent.parent

SOURCE = '''
TABLE = {1: 2}

def f(a: int = 3) -> int:
    """Says 4."""
    if a < 5 and not a:
        raise ValueError
    return a + 6
'''


def test_a_function_has_a_mutant_for_each_small_mistake() -> None:
    found = {(mutant.before, mutant.after) for mutant in mutants_of("m", SOURCE)}
    assert {
        ("a < 5", "a <= 5"),
        ("a < 5 and (not a)", "a < 5 or not a"),
        ("not a", "a"),
        ("raise ValueError", "pass"),
        ("a + 6", "a - 6"),
        ("return a + 6", "return None"),
        ("5", "6"),
    } <= found
    assert not {"1", "2", "3", "4"} & {before for before, _ in found}, "code outside of functions is not changed"


def judged_as_it_says(one: dict[str, str]) -> None:
    """Checks one entry: a test that exists kills the mutant, or the mutant is equivalent and a reason is given."""
    if one["verdict"] == "killed":
        file, _, test = one["by"].partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), one
    else:
        assert one["verdict"] == "equivalent", one
        assert one["why"], one


def test_the_mutants_of_cython_are_there() -> None:
    mutants = tomllib.loads((Path(__file__).parent / "cython.toml").read_text())["mutant"]
    assert len({(one["place"], one["before"], one["after"]) for one in mutants}) == len(mutants) >= 30
    for one in mutants:
        source = (ROOT / "orcidx" / one["place"]).read_text()
        assert source.count(one["before"]) == 1, f"{one}: the code has changed; remove or change the entry"
        assert one["after"] != one["before"]
        judged_as_it_says(one)


def test_the_judged_mutants_are_there() -> None:
    judged = tomllib.loads((Path(__file__).parent / "judged.toml").read_text())["mutant"]
    modules = {one["name"].partition(": ")[0] for one in judged}
    known = {m.name for name in modules for m in mutants_of(name, (ROOT / "orcidx" / f"{name}.py").read_text())}
    for one in judged:
        assert one["name"] in known, f"{one['name']}: the code has changed; remove or change the entry"
        judged_as_it_says(one)
