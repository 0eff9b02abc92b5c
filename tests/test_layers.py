"""The real imports of the package, compared with the picture of its layers (docs/decisions/0001-contracts.md).

Imports go downwards. Within a layer only the pairs named in ``WITHIN`` may meet; nothing goes round in a circle;
``orc`` and ``paimon`` never import each other; pyspark and Polars stay behind their one door. A new module is given its
place here. Imports under ``if TYPE_CHECKING`` cost nothing at run time and do not count.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "orcidx"

LAYERS = {
    8: ["orcidx"],
    7: ["cli spark engines report"],
    6: ["scan paimon paimon.table"],
    5: ["orc orc.reader orc.file_statistics paimon.registry paimon.build schema_mapping"],
    4: ["orc.row_index orc.stripe_plan orc.column_readers"],
    3: [
        "orc.statistics orc.bounds orc.bloom orc.bloom_keys orc.int_rle orc.byte_rle orc.buffers",
        "paimon.bloom paimon.bitmap paimon.bsi paimon.range_bitmap",
    ],
    2: [
        "pruning orc.window orc.metadata orc.types orc.streams",
        "paimon.container paimon.keys paimon.bit_slices paimon.deletion_vector paimon.puffin paimon.hash_index",
    ],
    1: [
        "predicate predicate_adapters selection storage options orc.wire orc.compression",
        "orc.kinds orc.calendars orc.decimal_text orc.spans",
        "paimon.data_types paimon.json_object paimon.roaring",
    ],
    0: ["errors"],
}
"""Layer to modules (without ``orcidx.``); a name covers the modules inside it, but for the packages of ``SPREAD``."""

SPREAD = {"orc", "paimon", ""}
"""Packages whose modules stand in several layers, each named above; the package file itself stands on top."""

WITHIN = """
predicate_adapters -> predicate
storage -> options
predicate -> options
orc.types -> orc.metadata
orc.streams -> orc.types
orc.streams -> orc.metadata
orc.stripe_plan -> orc.row_index
orc.bounds -> orc.statistics
orc.bloom_keys -> orc.bloom
orc.file_statistics -> orc.reader
paimon.build -> paimon.registry
paimon.registry -> paimon.build
paimon.puffin -> paimon.deletion_vector
paimon.deletion_vector -> paimon.puffin
"""
"""Imports between modules of one layer."""

ONE_DOOR = {"pyspark": "orcidx.spark", "polars": "orcidx.engines.polars", "fastavro": "orcidx.paimon"}
"""Library to the only module or package that may import it."""

_CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+\(?([^#\n)]*)|c?import\s+([\w., ]+))", re.MULTILINE)


def modules() -> dict[str, Path]:
    found = {}
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Dotted names that a module imports at run time, wherever in its text."""
    text = path.read_text()
    names: set[str] = set()
    if path.suffix == ".pyx":
        for package, members, plain in _CYTHON_IMPORT.findall(text):
            names |= {f"{package}.{member.split()[0]}" for member in members.split(",") if member.strip()}
            names |= {name.split()[0] for name in plain.split(",") if name.strip()}
        return names
    tree = ast.parse(text)
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for child in node.body
        for inner in ast.walk(child)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def graph() -> dict[str, set[str]]:
    """Module to the modules of this package that it imports."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for module, path in known.items():
        targets = set()
        for name in imports(path):
            if name.split(".")[0] != "orcidx":
                continue
            while name not in known:  # `from orcidx.errors import CorruptFile` names a member of orcidx.errors
                name = name.rpartition(".")[0]
            targets.add(name)
        edges[module] = targets - {module}
    return edges


def places() -> dict[str, int]:
    return {name: layer for layer, lines in LAYERS.items() for line in lines for name in line.split()}


def short(module: str) -> str:
    return module.removeprefix("orcidx.")


def place_of(module: str) -> str:
    """The name in ``LAYERS`` that covers a module, or ``""``."""
    name = short(module)
    while name not in places():
        name = name.rpartition(".")[0]
        if name in SPREAD:
            return ""
    return name


def layer_of(module: str) -> int | None:
    return places().get(place_of(module))


def test_every_module_has_a_place() -> None:
    homeless = sorted(short(module) for module in modules() if layer_of(module) is None)
    assert not homeless, f"give {homeless} a layer in {Path(__file__).name}"


def test_imports_go_downwards() -> None:
    allowed = {tuple(line.split(" -> ")) for line in WITHIN.split("\n") if line}
    wrong = []
    for module, targets in graph().items():
        above = layer_of(module)
        for target in targets:
            below = layer_of(target)
            if above is None or below is None or below < above:
                continue
            pair = (place_of(module), place_of(target))
            if pair[0] != pair[1] and pair not in allowed:
                wrong.append(f"{short(module)} ({above}) imports {short(target)} ({below})")
    assert not wrong, "\n".join(sorted(wrong))


def test_orc_and_paimon_never_meet_below_the_scan() -> None:
    wrong = [
        f"{short(module)} imports {short(target)}"
        for module, targets in graph().items()
        for target in targets
        if {short(module).partition(".")[0], short(target).partition(".")[0]} == {"orc", "paimon"}
        and layer_of(module) != 6
    ]
    assert not wrong, wrong


def test_no_circles() -> None:
    edges = graph()
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
