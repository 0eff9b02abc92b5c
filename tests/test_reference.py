"""The reference has all public names, options, commands and errors. Plots show the recorded numbers."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import click
import pytest

import orcidx
from orcidx import errors, paimon, spark, storage

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = {page.name: page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")}
DIRECTIVES = set(re.findall(r"^::: (\S+)", "\n".join(REFERENCE.values()), re.MULTILINE))


def loaded(path):
    """Loads a script that is not part of the package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", ["orcidx", "orcidx.paimon", "orcidx.spark", "orcidx.storage"])
def test_every_public_name_stands_in_the_reference(module):
    names = set(importlib.import_module(module).__all__) - {"paimon"} - set(errors.__all__)
    assert not {f"{module}.{name}" for name in names} - DIRECTIVES


def test_the_reference_names_nothing_that_is_not_there():
    for name in DIRECTIVES - {"orcidx.errors"}:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


def test_every_option_has_its_text():
    for options in (orcidx.ReadOptions, orcidx.WriteOptions):
        source = Path(sys.modules[options.__module__].__file__).read_text()
        for name in options.__dataclass_fields__:
            assert re.search(rf'^    {name}: .*\n    """\S', source, re.MULTILINE), f"{options.__name__}.{name}"


def test_every_error_stands_in_the_catalogue():
    raised = {
        name
        for path in (ROOT / "orcidx").rglob("*.py")
        for name in re.findall(r"^class ([A-Z]\w+)\((?:OrcidxError|_CommitError)\b", path.read_text(), re.MULTILINE)
    }
    assert {"CorruptFile", "CommitUncertain"} <= raised
    missing = [name for name in raised | {"OrcidxError"} if f"`{name}`" not in REFERENCE["errors.md"]]
    assert not missing
    rows = set(re.findall(r"^\| `(\w+)` \|", REFERENCE["errors.md"], re.MULTILINE))
    assert rows == set(errors.__all__) - {"located"}


def test_every_command_and_option_stands_on_its_page():
    pages = loaded(ROOT / "docs" / "site" / "command_pages.py")
    page, seen = pages.page(), 0
    for name, command in pages.commands():
        assert f"\n## {name}\n" in page
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for option in command.get_params(click.Context(command)):
            if isinstance(option, click.Option) and not option.hidden:
                seen += 1
                assert any(word in section for word in option.opts), (name, option.name)
    assert seen > 100


def test_the_page_of_records_is_made_from_their_data():
    records = loaded(ROOT / "benchmarks" / "records.py")
    found = records.records()
    assert found == records.records_of(records.page_of(found))
    assert records.PAGE.read_text() == records.page_of(found), "run python -m benchmarks.records (take)"
    assert all(one["heading"] and one["body"] for one in found)


def test_plots_show_what_was_recorded():
    plots = loaded(ROOT / "benchmarks" / "plots.py")
    records = plots.RECORDS.read_text()
    for rows in (plots.columns(), plots.lookups(), plots.parquet(), plots.spark()):
        assert len(rows) >= 3
        assert all(number > 0 for _, sides in rows for number in sides.values())
    for name, drawn in plots.plots().items():
        assert (plots.OUT / name).read_text() == drawn, f"{name}: python -m benchmarks.plots draws it again"
    for figure in ("2.62", "6,001,215", "29,411,764", "| ORC of orcidx | 147.6 |", "| Parquet of pyarrow | 162.2 |"):
        assert figure in records
        assert figure in (ROOT / "docs" / "performance.md").read_text()


@pytest.mark.parametrize("module", ["orcidx", "orcidx.paimon", "orcidx.spark", "orcidx.storage", "orcidx.errors"])
def test_every_public_name_says_what_it_is(module):
    """Every name has a docstring of its own. An inherited one, or the one that dataclasses generate, does not count."""
    silent = []
    for name in importlib.import_module(module).__all__:
        thing = getattr(importlib.import_module(module), name)
        if inspect.ismodule(thing) or not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        if not (thing.__doc__ or "").strip() or (thing.__doc__ or "").startswith(f"{name}("):
            silent.append(name)
        # The classes of orcidx.storage implement protocols, which document the methods.
        if inspect.isclass(thing) and module != "orcidx.storage":
            silent += [
                f"{name}.{key}"
                for key, value in vars(thing).items()
                if not key.startswith("_")
                and (inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod)))
                and not inspect.getdoc(getattr(thing, key))
            ]
    assert not silent, silent


FUNCTIONS = [
    getattr(orcidx, name) for name in orcidx.__all__ if inspect.isfunction(getattr(orcidx, name)) and name != "col"
]


OF_INDEXES = [
    getattr(paimon, name)
    for name in ("build_file_index", "build_index", "key_hash", "open_table", "read_deletion_vector")
] + [paimon.read_deletion_vectors, paimon.read_file_index, paimon.read_index, paimon.write_deletion_vectors]
OF_STORAGE = [
    getattr(storage, name)
    for name in ("describe_source", "hive_partition", "list_sources", "merge_ranges", "open_reader", "options_of_text")
]
OF_TABLES = [paimon.Table.plan, paimon.Table.scan, paimon.Table.aggregate, paimon.Table.rewrite_file_index]
OF_TABLES += [paimon.Table.delete, paimon.Table.append]


@pytest.mark.parametrize(
    "function",
    [*FUNCTIONS, *OF_INDEXES, *OF_STORAGE, *OF_TABLES, orcidx.OrcFile.scan, orcidx.OrcWriter],
    ids=lambda one: one.__qualname__,
)
def test_functions_have_a_section_for_each_parameter(function):
    """Docstrings have numpydoc's sections in numpydoc's order. ``a, b`` documents two parameters, and ``**options`` all
    fields of a class."""
    sections = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(function.__doc__), flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2]))
    assert list(texts) == [name for name in ("Parameters", "Returns", "Raises", "Examples") if name in texts]
    told = {
        name.strip("* ")
        for line in re.findall(r"^\S.*$", texts["Parameters"], re.MULTILINE)
        for name in line.partition(" : ")[0].split(",")
    }
    code = function.__init__ if inspect.isclass(function) else function
    names = code.__code__.co_varnames[: code.__code__.co_argcount + code.__code__.co_kwonlyargcount]
    own = set(names) - {"self"}
    assert not own - told, f"without a text: {own - told}"
    gives_none = function.__annotations__.get("return") == "None"
    assert "Returns" in texts or inspect.isclass(function) or gives_none


@pytest.mark.parametrize("name", spark.__all__)
def test_functions_of_spark_have_a_section_for_each_parameter(name):
    pytest.importorskip("pyspark")
    test_functions_have_a_section_for_each_parameter(inspect.unwrap(getattr(spark, name)))


@pytest.mark.parametrize(
    "function",
    [*FUNCTIONS, *OF_STORAGE, paimon.build_file_index, orcidx.OrcWriter],
    ids=lambda one: one.__qualname__,
)
def test_examples_of_docstrings_run(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "scan_polars" in function.__qualname__:
        pytest.importorskip("polars")
    tests = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs={})
    assert any(test.examples for test in tests), "no example"
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
