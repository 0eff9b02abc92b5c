"""The real imports of the package, compared with the picture of its layers (docs/decisions/0001-contracts.md).

Imports go downwards; nothing goes round in a circle; ``orc`` and ``paimon`` never import each other; pyspark and Polars
stay behind their one door. A new module is given its place here. Imports under ``if TYPE_CHECKING`` cost nothing at run
time and do not count.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "orcidx"

PICTURE = """
8  orcidx
7  __main__
7  cli
7  spark engines
7  index_description index_cleaning directory_explanation
7  sections
7  report
6  paimon
6  paimon.table
6  paimon.table_scan paimon.build_file
6  indexing
6  index_store
6  file_pruning
6  many_files
6  file
6  scanner
6  split
6  explaining file_queue
6  file_run
6  stripe_requests
6  judge constant_evidence index_evidence scan_request held_range rollup
6  stripe_scan stripe_indexes
5  orc orc.lane orc.dictionary paimon.build schema_mapping
5  orc.reader paimon.file_index paimon.file_index_options paimon.table_plan
5  paimon.registry
4  orc.stripe_plan orc.column_readers orc.file_statistics orc.evidence
4  orc.columns
4  orc.row_index orc.stripe_streams
3  orc.bloom_keys orc.bounds paimon.file_pruning paimon.bucket_pruning paimon.raw_files paimon.table_files
3  paimon.evolution paimon.parquet_rows
3  orc.statistics orc.bloom orc.metadata_cache paimon.bloom_filter paimon.bitmap paimon.bsi paimon.range_bitmap
3  paimon.bloom paimon.range_dictionary
3  orc.buffers orc.decimals orc.timestamps orc.timezones
3  orc.int_rle orc.byte_rle
2  explanation paimon.index
2  paimon.questions paimon.key_arrays paimon.container
2  orc.streams paimon.bit_slices paimon.hash_index paimon.deletion_vector paimon.body paimon.manifest
2  orc.int_runs
2  orc.types orc.window orc.bit_unpack pruning paimon.keys paimon.puffin paimon.small_files paimon.key_columns
2  orc.metadata paimon.avro_file paimon.binary_row paimon.partition_path paimon.snapshot paimon.table_schema
1  predicate
1  io_loop
1  storage selection orc.wire orc.compression orc.decode_pool paimon.data_types
1  arrow_stream
1  batches byte_budget metrics options orc.native_codec orc.far_copy paimon.json_object paimon.roaring paimon.row_hash
1  orc.kinds orc.spans orc.calendars orc.decimal_text paimon.top_rows paimon.roaring_writer
0  errors
"""
"""A line a rank, from the top; modules of one line do not import each other. A name (without ``orcidx.``) covers the
modules inside it, but for the packages of ``SPREAD``. The number is the layer of the contracts."""

SPREAD = {"orc", "paimon", ""}
"""Packages whose modules stand in several layers, each named above; the package file itself stands on top."""

PUBLIC_USERS = {"cli", "spark", "__main__"}
"""They may import the public names from ``orcidx`` itself, as any caller does."""

MEETING = {"scanner", "index_evidence", "file", "file_run", "scan_request", "judge", "split"}
MEETING |= {"file_pruning", "index_store", "indexing", "paimon.table", "paimon.table_scan", "paimon.build_file"}
"""Where the two formats come together."""

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
    lines = [line.split()[1:] for line in PICTURE.strip().splitlines()]
    return {name: rank for rank, names in enumerate(reversed(lines)) for name in names}


def short(module: str) -> str:
    return module.removeprefix("orcidx.")


def place_of(module: str) -> str:
    """The name in the picture that covers a module, or ``""``."""
    name = short(module)
    while name not in places():
        name = name.rpartition(".")[0]
        if name in SPREAD:
            return ""
    return name


def rank_of(module: str) -> int | None:
    return places().get(place_of(module))


def test_every_module_has_a_place() -> None:
    homeless = sorted(short(module) for module in modules() if rank_of(module) is None)
    assert not homeless, f"give {homeless} a layer in {Path(__file__).name}"


def test_imports_go_downwards() -> None:
    wrong = []
    for module, targets in graph().items():
        above = rank_of(module)
        for target in targets:
            below = rank_of(target)
            inside = place_of(module) == place_of(target)
            public = target == "orcidx" and place_of(module) in PUBLIC_USERS
            if above is not None and below is not None and below >= above and not inside and not public:
                wrong.append(f"{short(module)} imports {short(target)}")
    assert not wrong, "\n".join(sorted(wrong))


def test_orc_and_paimon_never_meet_below_the_scan() -> None:
    wrong = [
        f"{short(module)} imports {short(target)}"
        for module, targets in graph().items()
        for target in targets
        if {short(module).partition(".")[0], short(target).partition(".")[0]} == {"orc", "paimon"}
        and place_of(module) not in MEETING
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
