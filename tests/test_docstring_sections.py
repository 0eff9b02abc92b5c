"""numpydoc sections of all public names: each parameter and result has a text, and the examples run.

Public names are those of the four modules that users import, of the engines, and everything in the reference.
"""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import orcidx
from orcidx import ReadOptions, WriteOptions
from orcidx.paimon import CommitOptions

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("orcidx", "orcidx.errors", "orcidx.paimon", "orcidx.storage")
"""The public modules without orcidx.spark, which needs pyspark. ``test_reference`` checks the sections of its
functions."""
ENGINES = ("arrow_dataset", "duckdb", "polars.lazy_scan")
OPTIONAL = {"scan_polars": "polars", "register_duckdb": "duckdb"}
"""Names whose example needs another library."""
WITHOUT_EXAMPLE: dict[str, set[str]] = {
    "they need a Paimon table": {
        "Changed",
        "CommitConflict",
        "CommitUncertain",
        "DeletionFile",
        "FileTask",
        "Table",
        "TableFile",
        "TablePlan",
    },
    "OrcidxError has one": {
        "CorruptFile",
        "FileGone",
        "InvalidQuery",
        "StorageError",
        "Unsupported",
        "ValueOutOfRange",
        "located",
    },
    "the function or class that makes them has one": {"MergedRange", "OrcFragment", "Range", "ReadMetrics", "Request"},
    "it has none yet": {"IdentityCache"},
}
"""Names without an example, by reason. The list can only become shorter."""
WITH_OTHER_OPTIONS: dict[str, set[str]] = {
    "options of pyarrow.Table.to_pandas": {
        "scanner.arrow_stream.ArrowStream.to_pandas",
        "scanner.file_shortcuts.FileShortcuts.to_pandas",
    },
    "options of a scanner of pyarrow, which have no effect": {
        f"engines.arrow_dataset._Scans.{name}"
        for name in ("count_rows", "head", "scanner", "take", "to_batches", "to_table")
    },
    "checked by the function itself": {"errors.OrcidxError.at"},
}
"""Functions whose signature has a ``**`` parameter, by reason. The list can only become shorter."""
SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Examples")


def of_modules() -> Iterator[Any]:
    for name in (*MODULES, *(f"orcidx.engines.{engine}" for engine in ENGINES)):
        module = importlib.import_module(name)
        for key in getattr(module, "__all__", vars(module)):
            yield getattr(module, key)


def of_the_reference() -> Iterator[Any]:
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
            module, _, last = name.rpartition(".")
            if module != "orcidx.spark":
                yield getattr(importlib.import_module(module), last)


def public() -> list[Any]:
    """Returns the public classes and functions of orcidx, each once."""
    found = {id(one): one for one in [*of_modules(), *of_the_reference()]}
    return [
        one
        for one in found.values()
        if (inspect.isclass(one) or inspect.isfunction(one)) and one.__module__.startswith("orcidx")
    ]


def members(cls: type) -> Iterator[Callable[..., Any]]:
    """Yields public methods of a class and of its base classes in the package. Properties need only a summary line."""
    for base in cls.__mro__:
        for name, value in vars(base).items() if base.__module__.startswith("orcidx") else ():
            plain = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) or is_bound(value) else value
            if not name.startswith("_") and inspect.isfunction(plain) and "<locals>" not in plain.__qualname__:
                yield plain


def is_bound(value: object) -> bool:
    return isinstance(value, classmethod | staticmethod) and not isinstance(value, property | cached_property)


def callables() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for one in public():
        for function in members(one) if inspect.isclass(one) else [inspect.unwrap(one)]:
            found[f"{function.__module__}.{function.__qualname__}".removeprefix("orcidx.")] = function
    return found


def sections(docstring: str | None) -> dict[str, str]:
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def told(text: str) -> set[str]:
    """Returns the parameters of a section. ``a, b : int`` has two."""
    lines = re.findall(r"^\S.*$", text, re.MULTILINE)
    return {name.strip().lstrip("*") for line in lines for name in line.partition(" : ")[0].split(",")}


def gaps(function: Callable[..., Any]) -> list[str]:
    """Returns the parts that numpydoc requires and that the docstring lacks."""
    texts = sections(function.__doc__)
    # The signature lists each option as a parameter. Parameters of the type Never exist only to be refused.
    never = {name for name, kind in function.__annotations__.items() if kind == "Never"}
    own = set(inspect.signature(function).parameters) - {"self", "cls"} - never
    lacking = sorted(own - told(texts.get("Parameters", "")))
    result = function.__annotations__.get("return")
    if result not in (None, "None", "NoReturn") and not {"Returns", "Yields"} & set(texts):
        lacking.append("Returns")
    if list(texts) != [name for name in SECTIONS if name in texts]:
        lacking.append("the order of the sections")
    return lacking


def test_parameters_and_results_have_their_text() -> None:
    found = callables()
    assert len(found) > 150
    assert not {name: lacking for name, function in found.items() if (lacking := gaps(function))}


def test_a_gap_is_found() -> None:
    def silent(rows: int, *more: int, **options: int) -> int:
        """Counts.

        Parameters
        ----------
        rows : int
            Of the file.
        """

    assert gaps(silent) == ["more", "options", "Returns"]


def examples(part: object) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder(recurse=False).find(part, getattr(part, "__qualname__", None), globs={})
    return [test for test in found if test.examples]


def parts(one: Any) -> list[Any]:
    """Returns a function, or a class with its methods."""
    return [one, *members(one)] if inspect.isclass(one) else [inspect.unwrap(one)]


def test_each_name_has_an_example() -> None:
    silent = {one.__qualname__ for one in public() if not any(examples(part) for part in parts(one))}
    exempt = set().union(*WITHOUT_EXAMPLE.values())
    new, gone = silent - exempt, exempt - silent
    assert not new, f"{new}: show how each is used"
    assert not gone, f"{gone}: remove them from WITHOUT_EXAMPLE"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, count = [], 0
    for test in [test for one in public() for part in parts(one) for test in examples(part)]:
        if test.name in OPTIONAL and importlib.util.find_spec(OPTIONAL[test.name]) is None:
            continue
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        monkeypatch.chdir(folder)
        failed += [test.name] if doctest.DocTestRunner().run(test).failed else []
    assert not failed
    assert count > 50


def test_signatures_list_their_options() -> None:
    """Signatures list options by name, so that ``help`` and completion show these names instead of ``**options``."""
    found = {
        name
        for name, function in callables().items()
        if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values())
    }
    assert found == set().union(*WITH_OTHER_OPTIONS.values()), "list the options with orcidx.keywords.lists_options"


def of_spark() -> list[Any]:
    if importlib.util.find_spec("pyspark") is None:
        return []
    module = importlib.import_module("orcidx.spark")
    return [inspect.unwrap(one) for name in module.__all__ if callable(one := getattr(module, name))]


def take_options() -> dict[str, Any]:
    """Returns the functions and classes that ``lists_options`` gave a signature."""
    constructors = {f"{one.__module__}.{one.__qualname__}": one for one in public() if inspect.isclass(one)}
    found = {**callables(), **constructors, **{f"spark.{one.__qualname__}": one for one in of_spark()}}
    return {
        name: one
        for name, one in found.items()
        if hasattr(one.__init__ if inspect.isclass(one) else one, "__signature__") and inspect.signature(one).parameters
    }


def entries(text: str) -> dict[str, tuple[str, str]]:
    """Returns the type and the text of each name of a section Parameters."""
    parts = re.split(r"^(\S.*)\n", text, flags=re.MULTILINE)
    found: dict[str, tuple[str, str]] = {}
    for head, body in zip(parts[1::2], parts[2::2]):
        names, _, kind = head.partition(" : ")
        found |= {name: (kind, inspect.cleandoc(body)) for name in names.split(", ")}
    return found


def test_help_has_a_text_for_each_option() -> None:
    found = take_options()
    assert len(found) >= 23
    for name, function in found.items():
        listed = inspect.signature(function).parameters
        shown = entries(sections(function.__doc__)["Parameters"])
        assert listed.keys() - {"self"} == shown.keys(), name
        assert not [option for option, (_, text) in shown.items() if not text.endswith(".")], name
        text = pydoc.plain(pydoc.render_doc(function))
        assert not re.search(r"^ *(\w+, )*\*\*\w+$", text, re.MULTILINE), name


@pytest.mark.parametrize("options", [ReadOptions, WriteOptions, CommitOptions])
def test_help_has_the_type_and_the_default_of_each_option(options: Any) -> None:
    users = [one for one in take_options().values() if fields_of(options) <= set(inspect.signature(one).parameters)]
    assert len(users) >= 3
    for function in users:
        shown = entries(sections(function.__doc__)["Parameters"])
        code = (function.__init__ if inspect.isclass(function) else function).__code__
        for name in fields_of(options).difference(code.co_varnames):  # a function may have a parameter of its own
            default = inspect.signature(function).parameters[name].default
            kind = shown[name][0]
            if default is None:
                assert kind.endswith(", optional"), name
            else:
                assert f", default {default!r}".replace("'", '"') in kind, name


def fields_of(options: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(options)}


def test_an_option_of_help_has_its_unit_and_what_none_means() -> None:
    shown = entries(sections(inspect.getdoc(orcidx.write_table))["Parameters"])
    assert shown["stripe_size"][0] == "int, default 67108864 (64 MiB)"
    assert "this many bytes" in shown["stripe_size"][1]
    assert shown["uint64"][0] == '{"error", "long", "decimal"}, default "error"'
    assert shown["max_memory"][0] == "int or WriterMemory, optional"
    assert "None means" in shown["max_memory"][1]
    kept = entries(sections(inspect.getdoc(orcidx.rewrite))["Parameters"])
    assert kept["compression_level"][0] == "int, optional"
    assert "None" not in kept["compression_level"][1]


def test_options_of_a_function_come_with_the_texts_of_that_function() -> None:
    of_scan = entries(sections(inspect.getdoc(orcidx.scan))["Parameters"])
    shown = entries(sections(inspect.getdoc(orcidx.read_table))["Parameters"])
    assert shown["match"][0] == of_scan["match"][0] + ', default "name"'
    assert of_scan["match"][1].startswith(shown["match"][1])
    assert shown["batch_bytes"] == of_scan["batch_bytes"]
    assert not {"limit", "top"} & set(inspect.signature(orcidx.aggregate).parameters)
