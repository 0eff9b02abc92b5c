"""Packaging: the version is in one place, releases are in the change log, and workflows are valid."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import orcidx

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_stands_in_one_place():
    assert project()["project"]["dynamic"] == ["version"]
    assert project()["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "orcidx.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", orcidx.__version__)


def test_every_dependency_has_a_floor():
    extras = project()["project"]["optional-dependencies"]
    every = [*project()["project"]["dependencies"], *(item for items in extras.values() for item in items)]
    without = [item for item in every if ">=" not in item and not item.startswith("orcidx[")]
    assert not without


def test_the_change_log_is_cut_into_releases():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:])
    released = [heading.split()[0] for heading in headings[1:]]
    assert re.sub(r"(\.dev|rc)\d+$", "", orcidx.__version__) == released[0], "the release workflow needs this heading"
    assert released == sorted(released, key=lambda one: [-int(part) for part in one.split(".")])


def test_the_conda_recipe_asks_for_what_pip_asks_for():
    """The conda recipe requires the same packages as pip. They have the same names in conda. The recipe has no Windows
    build, so it does not need packages for Windows."""
    text = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text()
    sections = dict(re.findall(r"^  (\w+):\n((?:    .*\n)+)", text, re.MULTILINE))
    items = {name: re.findall(r"^    - ([\w-]+(?: >=\S+)?)$", body, re.MULTILINE) for name, body in sections.items()}
    wanted = [item.replace(">=", " >=") for item in project()["project"]["dependencies"] if ";" not in item]
    assert items["run"] == ["python", *wanted]
    built = [item.replace(">=", " >=").lower() for item in project()["build-system"]["requires"]]
    assert items["host"] == ["python", "pip", *built]
    (script,) = project()["project"]["scripts"].items()
    assert f"- {script[0]} = {script[1]}" in text
    assert re.search(r"^  version: (\S+)", text, re.MULTILINE)[1] == re.sub(r"(\.dev|rc)\d+$", "", orcidx.__version__)


def test_the_sdist_holds_what_a_build_needs():
    """MANIFEST.in names every file that setup.py reads."""
    manifest = (ROOT / "MANIFEST.in").read_text()
    suffixes = {path.suffix for path in (ROOT / "orcidx").rglob("*") if path.suffix in (".pyx", ".pxd", ".pyi")}
    assert suffixes == {".pyx", ".pxd", ".pyi"}
    assert all(f"*{suffix}" in manifest for suffix in suffixes)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_sound(path):
    """Workflows declare their permissions, and no text from outside reaches a shell without quotes."""
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(path.read_text())
    assert found["permissions"] == {"contents": "read"}, "only single jobs may have more permissions"
    for job in found["jobs"].values():
        assert "runs-on" in job
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "${{" not in step.get("run", ""), "pass the text in env"
            assert step.get("uses") is None or re.search(r"@[0-9a-f]{40}$", step["uses"]), "pinned by a hash"
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert all(re.search(r" # v\d+\.\d+\.\d+$", one) for one in uses), "a comment has the version of the hash"


def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} == {"checks", "codeql", "docs", "links", "nightly", "release"}


def test_every_page_names_one_repository():
    urls = project()["project"]["urls"]
    assert all(url.startswith(urls["Repository"]) for url in urls.values())
    assert f"repository-code: {urls['Repository']}\n" in (ROOT / "CITATION.cff").read_text()
    assert urls["Repository"] + "/security/advisories/new" in (ROOT / "SECURITY.md").read_text()


def test_the_citation_is_of_the_newest_release():
    version, day = re.search(r"^## (\d\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).groups()
    assert f"version: {version}\ndate-released: {day}\n" in (ROOT / "CITATION.cff").read_text()


def test_core_tests_import_nothing_else() -> None:
    """Modules of the core tests import only packages of the extra ``test-core``. Other packages must be optional
    (``pytest.importorskip``). pyorc is optional, too, because it is not installed on every platform."""
    script = (ROOT / ".ci" / "core-tests").read_text()
    assert "pip install -q '.[test-core]'" in script
    words = script.partition("\npytest -q ")[2].replace("\\", " ").split()
    waiting = [path for word in words if word != "$few" for path in (ROOT / word).glob("test_*.py")]
    few = subprocess.run([ROOT / ".ci" / "core-tests", "--few"], capture_output=True, text=True, check=True).stdout
    waiting += [ROOT / path for path in few.split()]
    assert len(waiting) > 100
    packages = project()["project"]
    extras = packages["optional-dependencies"]
    asked = [
        *packages["dependencies"],
        *(item for one in ("sql", "remote", "paimon", "test-core") for item in extras[one]),
    ]
    names = " ".join(item for item in asked if not item.startswith("pyorc")).lower()
    seen: dict[Path, set[str]] = {}
    while waiting:
        path = waiting.pop()
        text = path.read_text()
        tree = ast.parse(text)
        found = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (ROOT / "tests" / (node.module or "")).is_dir():
                found += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found.append(node.module or "")
        seen[path] = set()
        for module in found:
            if f'importorskip("{module.split(".")[0]}' in text:
                continue
            own = (ROOT / "tests" / module.replace(".", "/")).with_suffix(".py")
            if own.exists():
                waiting += [own] if own not in seen else []
            else:
                seen[path].add(module.split(".")[0])
    known = {"orcidx", "pytest", "hypothesis"} | set(sys.stdlib_module_names)
    other = {path.name: {one for one in names_ - known if one.lower() not in names} for path, names_ in seen.items()}
    assert not {name: found for name, found in other.items() if found}
