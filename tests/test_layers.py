"""Compares the imports of the package with the diagram of its layers (docs/decisions/0001-contracts.md).

Imports go from higher to lower subpackages. There are no import cycles. Each library in ``ONE_DOOR`` is imported by
only one module or package. A new subpackage must be added to the diagram. Imports under ``if TYPE_CHECKING``, and
cimports in a ``.pxd`` file, count only for cycles. Modules that are named in strings to be loaded later
(``import_module``, tables of lazy names) must not lead upwards either, but may close a cycle inside their subpackage.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "orcidx"

PICTURE = """
orcidx paimon
__main__
spark cli
engines
index_directory paimon_table rewriting
inspection
scanner
planner orc_writer
orc paimon.*
fetching explain
pruning storage aggregation
predicate
options extras
spellings keywords frozen threads
errors
"""
"""Subpackages from the top down. Subpackages in one line do not import each other. A name stands for all modules of the
subpackage, but ``paimon`` is only the package itself, and ``paimon.*`` are its modules."""

HALLS = {
    "paimon_table": """
        table
        read_gates
        commit
        data_files
        read
        metadata
        avro
    """,
    "spark": """
        reading registering
        sql_queries
        choosing jobs
        query
        conditions
        sessions
        types
    """,
}
"""The subpackages inside the two large subpackages, from the top down, and the modules beside them."""

PUBLIC_USERS = {"cli", "spark", "__main__"}
"""These subpackages and modules may import the public names of ``orcidx`` and ``orcidx.paimon``, like any caller."""

ONE_DOOR = {"pyspark": "orcidx.spark", "polars": "orcidx.engines.polars", "fastavro": "orcidx.paimon_table"}
"""The only module or package that may import each library."""

_CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+\(?([^#\n)]*)|c?import\s+([\w., ]+))", re.MULTILINE)


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a Python file. ``forget_trees`` clears the cache, because the trees take much memory."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of ``tree_of(path)``."""
    return tuple(ast.walk(tree_of(path)))


def called(node: ast.Call) -> str:
    """The name of the function or method that is called, or "". ``ast.unparse`` takes much longer."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """Forgets the trees after the tests of a module."""
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()


@cache
def imports(path: Path, *, for_types: bool = False) -> set[str]:
    """Returns the dotted names that a module imports at run time, anywhere in its text. ``for_types``: also the names
    that it imports only for types."""
    text = path.read_text()
    names: set[str] = set()
    if path.suffix in (".pyx", ".pxd"):
        for package, members, plain in _CYTHON_IMPORT.findall(text):
            names |= {f"{package}.{member.split()[0]}" for member in members.split(",") if member.strip()}
            names |= {name.split()[0] for name in plain.split(",") if name.strip()}
        return names
    typing_only = {
        inner
        for node in nodes_of(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types
        for child in node.body
        for inner in ast.walk(child)
    }
    for node in nodes_of(path):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def named_later(path: Path) -> set[str]:
    """Returns modules of this package that are named in strings of a module, to be loaded when they are needed."""
    known = modules()
    texts = re.findall(r"""["'](orcidx(?:\.\w+)+)["']""", path.read_text())
    return {text for text in texts if text in known}


def test_names_of_modules_are_whole_texts() -> None:
    """A module whose name is put together at run time would be in no check of this file."""
    built = [
        f"{module}: {ast.unparse(node)}"
        for module, path in modules().items()
        if path.suffix == ".py"
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and called(node).endswith("import_module")
        if any(isinstance(one, ast.JoinedStr | ast.BinOp) for one in node.args)
    ]
    assert not built, f"{built}: give the whole name of the module"


@cache
def graph(*, for_types: bool = False) -> dict[str, set[str]]:
    """Returns for each module the modules of this package that it imports, or that Cython needs for its
    declarations."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for module, path in known.items():
        targets = set()
        declared = path.with_suffix(".pxd")
        for name in imports(path, for_types=for_types) | (imports(declared) if declared.exists() else set()):
            if name.split(".")[0] != "orcidx":
                continue
            while name not in known:  # `from orcidx.errors import CorruptFile` names a member of orcidx.errors
                name = name.rpartition(".")[0]
            targets.add(name)
        edges[module] = targets - {module}
    return edges


def places() -> dict[str, int]:
    lines = [line.split() for line in PICTURE.strip().splitlines()]
    return {name: rank for rank, names in enumerate(reversed(lines)) for name in names}


def short(module: str) -> str:
    return module.removeprefix("orcidx.")


def place_of(module: str) -> str:
    """Returns the name in the diagram to which a module belongs, or ``""``."""
    room, _, inside = short(module).partition(".")
    name = f"{room}.*" if inside and f"{room}.*" in places() else room
    return name if name in places() else ""


def rank_of(module: str) -> int | None:
    return places().get(place_of(module))


def test_the_contracts_show_this_picture() -> None:
    text = (PACKAGE.parent / "docs" / "decisions" / "0001-contracts.md").read_text()
    top = "{orcidx, orcidx.paimon: the public modules}"
    drawn = text[text.index(top) : text.index("Two subpackages contain further subpackages")]
    shown = [set(line.split()) for line in drawn.replace(top, "orcidx paimon").split("→")]
    real = [{name.removesuffix(".*") for name in line.split()} for line in PICTURE.strip().splitlines()]
    assert shown == real


def test_few_modules_stand_alone() -> None:
    """The only modules outside of subpackages are public names, errors, options, extras, the command line and small
    modules that know nothing of the others (docs/decisions/0001, 0010)."""
    alone = {path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".pyx")}
    assert alone == {
        "__init__.py",
        "__main__.py",
        "errors.py",
        "extras.py",
        "frozen.pyx",
        "keywords.py",
        "options.py",
        "spellings.py",
    }


def test_every_module_has_a_place() -> None:
    homeless = sorted(short(module) for module in modules() if rank_of(module) is None)
    assert not homeless, f"give {homeless} a layer in {Path(__file__).name}"


def test_imports_go_downwards() -> None:
    wrong = []
    known = modules()
    for module, targets in graph().items():
        above = rank_of(module)
        for target in targets | named_later(known[module]):
            below = rank_of(target)
            inside = place_of(module) == place_of(target)
            public = target in ("orcidx", "orcidx.paimon") and place_of(module) in PUBLIC_USERS
            if above is not None and below is not None and below >= above and not inside and not public:
                wrong.append(f"{short(module)} imports {short(target)}")
    assert not wrong, "\n".join(sorted(wrong))


def test_imports_go_downwards_inside_the_halls() -> None:
    wrong = []
    for hall, picture in HALLS.items():
        lines = reversed([line.split() for line in picture.strip().splitlines()])
        rank = {name: height for height, names in enumerate(lines) for name in names}
        drawn = {path.stem for path in (PACKAGE / hall).iterdir() if path.suffix == ".py" or path.is_dir()}
        assert drawn - {"__init__", "__pycache__"} == set(rank), (
            f"give each part of {hall}/ a layer in {Path(__file__).name}"
        )
        inside = {module: short(module).split(".")[1] for module in graph() if module.startswith(f"orcidx.{hall}.")}
        for module, room in inside.items():
            for target in graph()[module] & set(inside):
                if inside[target] != room and rank[inside[target]] >= rank[room]:
                    wrong.append(f"{short(module)} imports {short(target)}")
    assert not wrong, "\n".join(sorted(wrong))


def test_every_way_of_importing_is_seen() -> None:
    known = modules()
    declared = imports(known["orcidx.orc.stored_stream"].with_suffix(".pxd"))
    assert "orcidx.orc.native_codec.NativeCodec" in declared
    assert "orcidx.cli.rows" in named_later(known["orcidx.cli"])
    assert "orcidx.paimon_table.table" in named_later(known["orcidx.paimon"])


def test_no_circles() -> None:
    """No imports form a cycle. Imports for types count, too, because a person who reads one module of a cycle has to
    read the others."""
    edges = graph(for_types=True)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(edges[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def test_heavy_libraries_have_one_door() -> None:
    wrong = [
        f"{module} imports {library}"
        for module, path in modules().items()
        for library in {name.split(".")[0] for name in imports(path)}
        if (door := ONE_DOOR.get(library)) and module != door and not module.startswith(f"{door}.")
    ]
    assert not wrong, wrong


def test_the_table_of_tests_names_each_directory_and_each_package() -> None:
    """CONTRIBUTING says where the tests of a package lie. The modules in that directory import the package."""
    tests = PACKAGE.parent / "tests"
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    table = text[text.index("| directory below `tests/` |") :].partition("\n\n")[0].split("\n")
    assert len(table) <= 12
    tested: dict[str, set[str]] = {}
    for row in table[2:]:
        directories, packages = (re.findall(r"`(\w+)`", cell) for cell in row.strip("|").split("|"))
        for name in directories:
            tested[name] = set(packages or [name] if "same name" in row else packages)
    assert tested.keys() == {path.parent.name for path in tests.glob("*/test_*.py")}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set().union(*tested.values()) == rooms
    for name, packages in tested.items():
        code = "\n".join(path.read_text() for path in (tests / name).glob("*.py"))
        unused = {one for one in packages if not re.search(rf"orcidx\.{one}\b|from orcidx import .*\b{one}\b", code)}
        assert not unused, f"no module in tests/{name} imports {unused}"
