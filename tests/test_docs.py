"""Runs every Python and shell block of the documentation. The blocks of a page run one after another.

Some blocks are not run: the sketches in decisions, blocks under ``<!-- not run: why -->``, and blocks under
``<!-- needs: MODULE -->`` if the module is not installed. Blocks that need Spark run in ``spark/test_spark_guide.py``,
and the shell blocks of README.md in ``test_front_page.py``.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import warnings
from glob import glob
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from orcidx.cli import main

ROOT = Path(__file__).resolve().parent.parent
MARK = r"(?:<!-- (not run|needs|runnable with Spark|runnable)(?:: ([^>]*))? -->\n+)?"
BLOCK = re.compile(MARK + r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_SPARK = (ROOT / "docs/tutorials/spark.md", ROOT / "docs/guides/spark-lookups.md")
"""Pages that need Java. ``spark/test_spark_guide.py`` runs them."""


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def blocks(page: Path, *, spark: bool = False) -> list[tuple[str, str]]:
    """Returns the language and the text of each block of a page that is run. With ``spark``, these are the blocks that
    need Spark."""
    found = []
    for mark, said, language, text in BLOCK.findall(page.read_text()):
        needs_spark = (
            mark == "runnable with Spark"
            or (mark, said) == ("needs", "spark")
            or (page in WITH_SPARK and mark != "not run")
        )
        left_out = mark == "not run" or (mark == "needs" and not needs_spark and not installed(said))
        if needs_spark == spark and not left_out:
            found.append((language, text))
    return found


PAGES = {page: [text for language, text in blocks(page, spark=True) if language == "python"] for page in FILES}
"""The blocks that need Spark."""
RUNNABLE = [page for page in FILES if page.parent.name != "decisions" and blocks(page)]


@pytest.fixture
def example_files(tmp_path, monkeypatch):
    """Makes the files that the examples name."""
    from orcidx import paimon

    events = pa.table({"id": range(100), "city": ["Oslo", "Rom"] * 50, "price": [float(i * 3) for i in range(100)]})
    for name in ("events.orc", "data-1.orc", "events/part-0.orc", "more/part-0.orc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        orc.write_table(events, tmp_path / name)
    (tmp_path / "data-1.orc.index").write_bytes(paimon.build_file_index(events, {"bitmap": {"city": {}}}).to_bytes())
    paimon.write_deletion_vectors(tmp_path / "index-0", {"data-1.orc": paimon.DeletionVector([1, 5])})
    table = ROOT / "tests/fixtures/paimon/tables/db.db/append_dv32"
    shutil.copytree(table, tmp_path / "warehouse/db.db/orders")
    orc.write_table(pa.table({"id": pa.array([3001], pa.int32()), "s": ["new"]}), tmp_path / "new-rows.orc")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page, example_files, capsys):
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # warnings of other libraries do not fail the test
                exec(compile(text, str(page), "exec"), names)
        elif page.name != "README.md":
            run_commands(text)


def run_commands(text):
    for line in text.replace("\\\n", " ").splitlines():
        name, *words = shlex.split(line, comments=True)
        assert name == "orcidx", f"{line}: only orcidx's own commands run; mark the block <!-- not run: why -->"
        with pytest.raises(SystemExit) as done:
            main([path for word in words for path in (sorted(glob(word)) or [word])])
        assert not done.value.code, line


def test_pages_with_examples_are_found():
    assert {"first-file", "paimon-file-index", "paimon-deletion-vectors", "engines"} <= {page.stem for page in RUNNABLE}


@pytest.mark.parametrize("page", FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page):
    """Every code block in these pages names a language, because a block without one is never run as a test."""
    text = page.read_text()
    fences = re.findall(r"^```(\S*)$", text, re.MULTILINE)
    assert len(fences) % 2 == 0
    if page.parent.name in ("tutorials", "guides", "reference"):
        assert all(fences[::2]), "name the language of each code block: ```python, ```sh or ```text"
