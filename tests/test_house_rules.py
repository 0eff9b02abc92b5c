"""Rules of the project that a test can check. CONTRIBUTING.md gives their reasons."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from test_layers import forget_trees, graph, nodes_of, short, tree_of  # noqa: F401 (pytest uses the fixture)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "orcidx"
MODULE_LINES, FUNCTION_LINES, CLASS_LINES = 450, 60, 250
"""Limits in lines without docstrings. If code is longer than a limit, check whether it does only one thing. Longer code
that does only one thing is listed in ``LONG``. The limits are alarms, and not sizes that code should reach."""
PARAMETERS = 7
FIELDS, METHODS = 10, 12
"""Limits for a class. ``LARGE_CLASSES`` lists the exceptions."""
FAN_OUT = 20
"""The most modules of the package that a module imports at run time. ``WIDE_MODULES`` lists the exceptions."""
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "core"}
TEXT_SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".json", ".java", ".sh", ".cfg", ".txt", ""}
SKIPPED_FOLDERS = {"build", "dist", "env", "results", "html", "data", "__pycache__", "fixtures"}

ANYTHING_LEFT = {
    "cli": 2,
    "engines": 5,
    "index_directory": 1,
    "inspection": 1,
    "orc": 1,
    "orc_writer": 2,
    "paimon": 4,
    "paimon_table": 3,
    "planner": 4,
    "predicate": 27,
    "rewriting": 1,
    "scanner": 3,
    "storage": 4,
}
"""The number of parameters and results of public functions that are Any, for each subpackage."""

LARGE_CLASSES: dict[str, dict[str, tuple[int, int]]] = {
    "records: a field for each fact of a format, an option or a result": {
        "inspection/runs.StreamReport": (11, 1),
        "orc/bounds.StatisticsColumn": (11, 1),
        "orc/metadata.Footer": (11, 3),
        "orc/statistics.ColumnStatistics": (22, 1),
        "orc/types.OrcType": (11, 7),
        "orc_writer/arrow_types.WriteNode": (13, 2),
        "orc_writer/options.EncodingOptionsByName": (18, 0),
        "orc_writer/options.WriteOptions": (20, 2),
        "paimon_table/commit/changed.Changed": (14, 1),
        "paimon_table/data_files/data_file_writing.WrittenFile": (11, 0),
        "paimon_table/metadata/manifest.FileEntry": (20, 1),
        "planner/request.ScanRequest": (11, 9),
        "rewriting/dataset._Partition": (12, 1),
        "rewriting/plan.RewritePlan": (13, 1),
        "scanner/arguments.FilesArguments": (15, 0),
        "scanner/metrics.ScanMetrics": (13, 4),
        "spark/query/read_query.Query": (23, 10),
    },
    "protocols: a method for each thing that every store, reader, file or stream of the kind can do": {
        "orc_writer/column_tree.ColumnWriter": (10, 13),
        "paimon_table/metadata/files.TableFiles": (2, 13),
        "pruning/selection.RowSelection": (0, 17),
        "spark/sessions/hadoop_files.SessionFiles": (5, 18),
        "storage/arrow_backend.ArrowStore": (2, 17),
        "storage/fsspec_backend.FsspecStore": (4, 20),
        "storage/hadoop_store.HadoopStore": (1, 21),
        "storage/local.LocalReader": (7, 15),
        "storage/local.LocalStore": (0, 17),
        "storage/obstore_backend.ObstoreStore": (1, 18),
        "storage/remote.RemoteReader": (11, 19),
        "storage/stores.Store": (0, 17),
    },
    "public classes: a method for each operation that users call": {
        "orc_writer/writer.OrcWriter": (11, 12),
        "paimon/file_index.FileIndex": (9, 16),
        "paimon_table/table.Table": (1, 18),
        "scanner/file.OrcFile": (4, 19),
        "scanner/scan.Scan": (5, 22),
    },
    "kernels in Cython: a method for each step that readers or writers of every type take": {
        "orc/chunks_ahead.ChunksAhead": (0, 18),
        "orc/int_rle.IntRle": (0, 15),
        "orc/stored_stream.StoredStream": (0, 15),
        "orc/window.Window": (0, 18),
        "orc_writer/chunks.ChunkedStream": (0, 18),
        "orc_writer/columns.BaseColumn": (0, 24),
        "orc_writer/text.TextColumn": (0, 15),
        "scanner/chains.Chains": (0, 15),
    },
    "visitors of a tree: a method for each kind of node": {
        "predicate/binding._Column": (5, 17),
        "predicate/sql_text._Translator": (4, 19),
    },
}
"""Why a class has more fields or methods than allowed, and its numbers of both. The list and its numbers may only
shrink. If a class has become smaller, reduce its numbers here, or remove its entry."""

WIDE_MODULES: dict[str, dict[str, int]] = {
    "public classes: another module does the work of each method": {
        "paimon_table.table": 26,
        "scanner.file": 27,
        "scanner.scan": 24,
    },
    "jobs: the steps of one job, each of which another module does": {
        "paimon_table.commit.index_rewriting": 26,
        "spark.jobs.table_changes": 27,
        "spark.jobs.explaining": 21,
        "spark.jobs.totals": 21,
        "spark.query.plan": 23,
        "spark.reading": 29,
    },
    "passes over a file or a directory, which use every level of evidence": {
        "index_directory.file_pruning": 22,
        "scanner.aggregate_pass": 22,
        "scanner.key_search": 23,
    },
}
"""Why a module imports more modules of the package than ``FAN_OUT``, and how many. As with ``LARGE_CLASSES``, the list
and its numbers may only shrink."""

LONG: dict[str, int] = {}
"""Modules, functions (``module.function``) and classes (``module.Class``) that have more lines than allowed. The list
and its numbers may only shrink."""

_CYTHON_DEF = re.compile(r"^( *)(?:def|cdef|cpdef) (?!class |extern |struct |enum |packed |union )[^=]*?\w+\(")
_DOCSTRING = re.compile(r'^ *r?"""(?:[^"\\]|\\.|"(?!""))*"""\n', re.MULTILINE)
_WORKPLACE = re.compile(r"(?<![\w./~*-])/(?:work|root)/\w")


def sources(*suffixes: str) -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in suffixes)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Returns the number of lines without docstrings, so that longer docstrings do not count as longer code."""
    lines = (node.end_lineno or 0) - node.lineno + 1
    for inner in definitions_in(node):
        first = inner.body[0]
        if ast.get_docstring(inner) is not None:
            lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def definitions_in(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yields a node and the nodes below it that are functions or classes. Does not visit expressions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(node, name, ())
        for inner in below if isinstance(below, list) else ():
            yield from definitions_in(inner)


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yields name, lines and positional parameters (without self) of each function of a Python module."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [a.arg for a in node.args.posonlyargs + node.args.args]
            yield node.name, lines_of(node), len([name for name in given if name not in ("self", "cls")])


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def undocumented(path: Path) -> str:
    """Returns the text of a module without its docstrings."""
    return _DOCSTRING.sub("", path.read_text())


def cython_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yields first line and length of each function of a Cython module, found by indentation."""
    lines = undocumented(path).splitlines()
    for start, line in enumerate(lines):
        if match := _CYTHON_DEF.match(line):
            indent, end, last = len(match[1]), start + 1, start
            opened = line.count("(") - line.count(")")
            while end < len(lines):
                text = lines[end]
                if text.strip() and opened <= 0 and len(text) - len(text.lstrip()) <= indent:
                    break
                opened += text.count("(") - text.count(")")
                last = end if text.strip() else last
                end += 1
            yield line.strip(), last - start + 1


def cython_classes(path: Path) -> Iterator[tuple[str, int]]:
    """Yields name and length of each class of a Cython module, found by indentation."""
    lines = undocumented(path).splitlines()
    for start, line in enumerate(lines):
        if match := re.match(r"(?:cdef )?class (\w+)", line):
            end = start + 1
            while end < len(lines) and (not lines[end].strip() or lines[end][0] in " )"):
                end += 1
            yield match[1], len("\n".join(lines[start:end]).rstrip().splitlines())


def lengths() -> Iterator[tuple[str, int, int]]:
    """Yields name, lines without docstrings, and limit of each module, function and class."""
    for path in sources(".py", ".pyx"):
        module = module_of(path)
        yield module, len(undocumented(path).splitlines()), MODULE_LINES
        if path.suffix == ".pyx":
            for line, lines in cython_functions(path):
                yield f"{module}.{line}", lines, FUNCTION_LINES
            for name, lines in cython_classes(path):
                yield f"{module}.{name}", lines, CLASS_LINES
            continue
        for name, lines, _ in python_functions(path):
            yield f"{module}.{name}", lines, FUNCTION_LINES
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                yield f"{module}.{node.name}", lines_of(node), CLASS_LINES


def test_modules_functions_and_classes_are_small() -> None:
    long = {name: lines for name, lines, alarm in lengths() if lines > alarm}
    grown = {name: lines for name, lines in long.items() if lines > LONG.get(name, 0)}
    assert not grown, f"{grown}: does it do only one thing?"
    assert long == LONG, f"{LONG} has become {long}: change the list to the smaller numbers"


def fields_of(node: ast.ClassDef) -> set[str]:
    """Returns the annotated names of a class, and the attributes that its methods set."""
    names = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.args.args:
            own = one.args.args[0].arg
            names |= {
                part.attr
                for part in ast.walk(one)
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
                if isinstance(part.value, ast.Name) and part.value.id == own == "self"
            }
    return names


def cython_methods(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yields the name and the methods of each class of a Cython module. Methods such as ``__init__`` are left out."""
    lines = undocumented(path).splitlines()
    for start, line in enumerate(lines):
        if match := re.match(r"(?:cdef )?class (\w+)", line):
            names = set()
            for inner in lines[start + 1 :]:
                if inner.strip() and inner[0] not in " )":
                    break
                if method := re.match(r"    (?:def|cdef|cpdef) [^=]*?\b(\w+)\(", inner):
                    names.add(method[1])
            yield match[1], {name for name in names if not re.fullmatch("__.*__", name)}


def test_classes_are_one_thing() -> None:
    """No class has more fields or methods than allowed. Of compiled classes, only the methods are counted, because the
    fields of a kernel are its local state."""
    found = {
        f"{module_of(path)}.{name}": (0, len(methods))
        for path in sources(".pyx")
        for name, methods in cython_methods(path)
        if len(methods) > METHODS
    }
    for path in sources(".py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                size = len(fields_of(node)), len({name for name in methods if not re.fullmatch("__.*__", name)})
                if size[0] > FIELDS or size[1] > METHODS:
                    found[f"{module_of(path)}.{node.name}"] = size
    known = {name: size for listed in LARGE_CLASSES.values() for name, size in listed.items()}
    grown = {
        name: size
        for name, size in found.items()
        if any(now > most for now, most in zip(size, known.get(name, (FIELDS, METHODS))))
    }
    assert not grown, f"{grown}: too many fields or methods; split the class"
    smaller = {name: found.get(name) for name, size in known.items() if found.get(name) != size}
    assert not smaller, f"{smaller}: change LARGE_CLASSES to the new numbers, or remove the classes from it"


def test_modules_import_few_modules() -> None:
    """Only the modules in ``WIDE_MODULES`` import more than ``FAN_OUT`` modules of the package. Imports inside of
    functions count, and so do modules that are cimported. Imports that are only for types do not count."""
    found = {short(module): len(targets) for module, targets in graph().items() if len(targets) > FAN_OUT}
    known = {name: count for listed in WIDE_MODULES.values() for name, count in listed.items()}
    grown = {name: count for name, count in found.items() if count > known.get(name, FAN_OUT)}
    assert not grown, f"{grown}: too many imported modules of the package; split the module"
    smaller = {name: found.get(name) for name, count in known.items() if found.get(name) != count}
    assert not smaller, f"{smaller}: change WIDE_MODULES to the new numbers, or remove the modules from it"


def test_functions_take_few_positional_parameters() -> None:
    wide = [
        f"{name_of(path)}: {name} takes {count}"
        for path in sources(".py")
        for name, _, count in python_functions(path)
        if count > PARAMETERS
    ]
    assert not wide, "\n".join(wide)


def test_modules_are_named_for_what_they_hold() -> None:
    assert not [name_of(path) for path in PACKAGE.rglob("*") if path.stem in VAGUE_NAMES]


def test_compiled_modules_have_stubs() -> None:
    assert not [name_of(path) for path in sources(".pyx") if not path.with_suffix(".pyi").is_file()]


def test_declarations_have_a_user() -> None:
    """A ``.pxd`` file exists only if another module cimports from it."""
    text = "\n".join(path.read_text() for path in sources(".pyx", ".pxd"))
    unused = [
        name_of(path)
        for path in sources(".pxd")
        if f"from {'.'.join(path.relative_to(ROOT).with_suffix('').parts)} cimport" not in text
    ]
    assert not unused, unused


def test_modules_say_what_they_are() -> None:
    """Every module starts with a docstring, except an empty package file."""
    trees = {path: tree_of(path) for path in sources(".py")}
    silent = [name_of(path) for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    silent += [name_of(p) for p in sources(".pyx") if not re.match(r'(?:\s*#.*\n)*\s*r?"""', p.read_text())]
    assert not silent, silent


def _keeps(node: ast.AST, name: str | None) -> bool:
    """Whether a statement stores the caught error."""
    return isinstance(node, ast.Assign) and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value))


def test_no_blanket_except() -> None:
    """``except Exception`` (or wider) hides bugs, unless it raises again or keeps the error for a later raise."""
    wrong = []
    for path in sources(".py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else "everything"
                raises = any(isinstance(inner, ast.Raise) or _keeps(inner, node.name) for inner in ast.walk(node))
                if re.search(r"\b(Exception|BaseException|everything)\b", caught) and not raises:
                    wrong.append(f"{name_of(path)}:{node.lineno} catches {caught}")
    for path in sources(".pyx"):
        bare = re.search(r"^\s*except(?: Exception| BaseException)?:", path.read_text(), re.MULTILINE)
        wrong += [f"{name_of(path)}: blanket except"] if bare else []
    assert not wrong, "\n".join(wrong)


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert not [name_of(path) for path in sources(".py", ".pyx", ".pyi", ".pxd") if marks.search(path.read_text())]


def test_the_library_does_not_print() -> None:
    printing = re.compile(r"(?<![\w.])print\(")
    wrong = [name_of(p) for p in sources(".py", ".pyx") if "cli" not in p.parts and printing.search(p.read_text())]
    assert not wrong, wrong


def project_files() -> Iterator[Path]:
    for path in ROOT.rglob("*"):
        parts = set(path.relative_to(ROOT).parts)
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if path.is_file() and not hidden and not parts & SKIPPED_FOLDERS and path.suffix in TEXT_SUFFIXES:
            yield path


def test_no_file_names_the_place_it_was_written_in() -> None:
    wrong = []
    for path in project_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{name_of(path)}: {match[0]}" for match in _WORKPLACE.finditer(text)]
    assert not wrong, wrong


def test_the_history_of_benchmarks_tells_nothing_of_machines() -> None:
    """asv stores the interpreter's path and facts about the machine in its results. ``benchmarks/history.py`` stores
    neither."""
    kept = sorted((ROOT / "benchmarks" / "results").glob("*/*.json"))
    assert kept
    for path in kept:
        found = json.loads(path.read_text())
        facts = found.get("params", found)
        assert re.fullmatch(r"\d+-core", facts["machine"]), path
        assert facts["cpu"] == facts["ram"] == "", path
        if path.name != "machine.json":
            assert path.name == f"{found['commit_hash'][:8]}-{found['env_name']}.json"
            assert re.fullmatch(r"existing-py3\.\d+", found["env_name"]), path
            assert found["python"] == facts["python"] == found["env_name"].removeprefix("existing-py")


def test_decision_records_are_numbered_once() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers)), sorted(numbers)


def is_number(value: ast.AST) -> bool:
    """Whether the expression consists only of numbers, without calls."""
    parts = list(ast.walk(value))
    constants = [part.value for part in parts if isinstance(part, ast.Constant)]
    is_plain = isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple)
    is_plain = is_plain and not any(isinstance(part, ast.Call) for part in parts)
    return is_plain and bool(constants) and all(type(one) in (int, float) for one in constants)


PLAIN_NUMBERS = {
    *(
        "FOUR_CENTURIES",
        "INT64_MAX",
        "INT64_MIN",
        "_INT64_MAX",
        "_INT64_MIN",
        "_KIB",
        "_MIB",
    ),
    *("_NANOS_PER_MILLI", "_NANOS_PER_SECOND", "MAGIC", "VERSION", "_MASK_64", "_LAST_CHARACTER", "_COMPRESSED_FOOTER"),
    *("DEFAULT_BLOCK_SIZE", "DEFAULT_CHUNK_SIZE", "DEFAULT_FPP", "DEFAULT_ITEMS", "_C1", "_C2", "MOST_ROWS"),
    *("LARGEST_BITS", "LARGEST_IDENTIFIER", "LARGEST_INT", "LARGEST_LONG", "LARGEST_PRECISION", "LARGEST_SUM"),
    *("_LARGEST_FIXED_DECIMAL", "_LARGEST_FIXED_TIMESTAMP", "_LARGEST_SUM", "MOST_SLICES"),
}
"""Constants of formats, units and widths of numbers, which were not chosen here. The list may only shrink."""


def unexplained_numbers(text: str) -> Iterator[str]:
    """Yields constants at the top of a module that are numbers and have neither a docstring nor a comment. A docstring
    or comment may explain several assignments that follow each other."""
    lines, body = text.splitlines(), ast.parse(text).body
    places = {node.lineno: at for at, node in enumerate(body)}

    def is_assignment(at: int) -> bool:
        return 0 <= at < len(body) and isinstance(body[at], ast.Assign | ast.AnnAssign)

    for at, node in enumerate(body):
        names = []
        for target in [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", []):
            given = getattr(node, "value", None)
            pairs = [(target, given)]
            if isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple):
                pairs = list(zip(target.elts, given.elts))
            names += [
                one.id
                for one, value in pairs
                if isinstance(one, ast.Name) and one.id.isupper() and value is not None and is_number(value)
            ]
        first = last = at
        while is_assignment(first - 1) and body[first - 1].end_lineno == body[first].lineno - 1:
            first -= 1
        while is_assignment(last + 1) and body[last + 1].lineno == (body[last].end_lineno or 0) + 1:
            last += 1
        behind = body[places.get((body[last].end_lineno or 0) + 1, last)]
        has_docstring = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
        has_comment = "# " in lines[node.lineno - 1] or any(
            lines[one.lineno - 2].startswith("# ") for one in body[first : at + 1]
        )
        if not has_docstring and not has_comment:
            yield from names


def test_numbers_say_what_they_are() -> None:
    """A docstring or comment beside a number at the top of a module says its unit and its reason
    (docs/decisions/0113)."""
    found = {str(path.relative_to(PACKAGE)): list(unexplained_numbers(path.read_text())) for path in sources(".py")}
    silent = [f"{path}: {name}" for path, names in found.items() for name in names if name not in PLAIN_NUMBERS]
    assert not silent, f"{silent}: say in a docstring what they are, and why they have this value"
    gone = PLAIN_NUMBERS - {name for names in found.values() for name in names}
    assert not gone, f"{gone}: remove them from PLAIN_NUMBERS"


def test_a_number_without_a_word_is_found() -> None:
    text = 'A = 1\n"""Said."""\nB, C = 2, 3 << 4\n\nD = 5  # said\n# Said.\nE = 6\nF = 7\n\nG = (8, 9)\n'
    assert list(unexplained_numbers(text)) == ["B", "C", "G"]


def test_the_index_of_decisions_is_whole() -> None:
    """Each decision has a row in the index, a title with its number, and a log of dates at its end."""
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(r"^\| \[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name in rows] == sorted(path.name for path in folder.glob("0*.md"))
    for number, name in rows:
        text = (folder / name).read_text()
        assert name[:4] == number, name
        assert text.startswith(f"# {number} "), name
        assert re.search(r"\n## Log\n\n\| date \| change \|\n\|---\|---\|\n(\| 20\d\d-\d\d-\d\d \| .+ \|\n)+$", text), (
            name
        )


def test_test_files_have_names_of_their_own() -> None:
    """Shared test code is imported by bare name, so two files of one name would shadow each other."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name not in ("__init__.py", "conftest.py")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_processes_of_tests_import_what_is_installed() -> None:
    """Tests that start Python must pass -P. Without -P, Python imports the checkout instead of the installed package,
    and the extensions in the checkout may not be built."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "sys.executable" in path.read_text()
        for node in nodes_of(path)
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1
        if ast.unparse(node.elts[0]) == "sys.executable" and ast.unparse(node.elts[1]) in ("'-c'", "'-m'")
    ]
    assert not wrong, wrong


def test_links_between_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    dead = [
        f"{name_of(document)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert not dead, dead


def test_modules_that_documents_name_are_there() -> None:
    """The modules that documents name exist. Decisions are not checked, because they describe the code of their time
    and may name modules that have moved since."""
    pages = [path for path in project_files() if path.suffix == ".md" and "decisions" not in path.parts]
    gone = {
        (name_of(page), named)
        for page in pages
        for named in re.findall(r"\borcidx/[a-z_/]+\.pyx?\b", page.read_text())
        if not (ROOT / named).exists()
    }
    assert not gone, gone


def anything_in(path: Path) -> int:
    """Returns the number of parameters and results of a module's public functions that are declared as Any."""
    count = 0
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            given = [a.annotation for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
            count += sum(isinstance(one, ast.Name) and one.id == "Any" for one in [*given, node.returns])
    return count


FACE = "spark/__init__"
"""Functions of this module have the names of functions without Spark: ``orcidx.spark.rewrite`` and
``orcidx.rewrite``."""

OF_EVERY_INDEX = {"Contents", "build", "check_type", "read", "write"}
"""Names that each module of an index format has."""


_CYTHON_NAME = re.compile(r"^(?:def|cpdef [^=]*?|(?:cdef |cpdef )?class) ?\b(\w+)(?=[(:])", re.MULTILINE)


def public_names(path: Path) -> set[str]:
    """Returns the functions and classes at the top of a module that Python code can import. Functions of Cython that
    are declared by ``cdef`` are not among them."""
    if path.suffix == ".pyx":
        names = {match[1] for match in _CYTHON_NAME.finditer(path.read_text())}
    else:
        body = tree_of(path).body
        names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {name for name in names if not name.startswith("_")}


def aliases_of(path: Path) -> dict[str, str]:
    """Returns the definition of each public type alias of a Python module."""
    found = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call | ast.Name):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            targets = [node.target]
        else:
            continue
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        assert node.value is not None
        found.update({name: ast.unparse(node.value) for name in names if re.match("[A-Z][A-Za-z]*[a-z]", name)})
    return found


def test_a_public_name_means_one_thing() -> None:
    """No two public functions or classes have the same name, except in ``cli``, whose functions have the names of
    commands. Type aliases may have the same name only if they have the same definition."""
    face = set(re.findall(r'"(\w+)"', (PACKAGE / f"{FACE}.py").read_text()))
    places: dict[str, set[str]] = {}
    for path in sources(".py", ".pyx"):
        room = path.relative_to(PACKAGE).parts[0]
        exempt = {"paimon": OF_EVERY_INDEX, "spark": face}.get(room, set())
        if room != "cli" and path.name != "__main__.py":
            for name in public_names(path) - exempt:
                places.setdefault(name, set()).add(name_of(path))
            for name, definition in aliases_of(path).items() if path.suffix == ".py" else ():
                places.setdefault(name, set()).add(definition)
    twice = sorted(name for name, found in places.items() if len(found) > 1)
    assert not twice, f"{twice}: give one another name"


def test_names_of_cython_are_found(tmp_path: Path) -> None:
    constants = ["A, B = 1, 2", "cdef int F = 3"]
    functions = ["def a(x):", "    def inner():", "cpdef int b(int x) except -1:", "cdef int e():"]
    made = tmp_path / "made.pyx"
    made.write_text("\n".join([*constants, *functions, "cdef class C(B):", "class D:", "cdef class _F:"]))
    assert public_names(made) == {"a", "b", "C", "D"}
    assert constants_of(made) == {"A", "B"}


CONSTANTS_ALIKE = {
    "one for each format or index, with the version and layout that the format defines": {
        *("DEFAULT_BLOCK_SIZE", "HEAD", "KIND", "LENGTH", "MAGIC", "MOST_ROWS", "VERSION"),
    },
    "one for each module of a kind, which others look up by this name": {"STORE"},
    "a switch for tests, which turns the module's short cut off": {"ENABLED"},
    "one thing, and its lower layer has no module that both may import": {"LARGEST_PRECISION"},
    "how much of the same thing a module examines before it stops": {"MOST_GROUPS"},
    "of type checkers": {"T", "TYPE_CHECKING"},
}
"""Public constants that several modules have under one name, and why. In the modules of commits, ``KIND`` is the kind
of the commit. The list may only shrink."""


_CYTHON_CONSTANTS = re.compile(r"^([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ", re.MULTILINE)


def constants_of(path: Path) -> set[str]:
    """Returns the public constants at the top of a module. Those that Cython declares by ``cdef`` are not among
    them."""
    if path.suffix == ".pyx":
        return {name for match in _CYTHON_CONSTANTS.finditer(path.read_text()) for name in match[1].split(", ")}
    found = set()
    for node in tree_of(path).body:
        for target in [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", []):
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {one.id for one in names if isinstance(one, ast.Name) and re.fullmatch("[A-Z][A-Z0-9_]*", one.id)}
    return found


def test_a_public_constant_means_one_thing() -> None:
    """No two modules have public constants of one name, except those in ``CONSTANTS_ALIKE``."""
    places: dict[str, list[str]] = {}
    for path in sources(".py", ".pyx"):
        for name in constants_of(path):
            places.setdefault(name, []).append(module_of(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    known = {name for names in CONSTANTS_ALIKE.values() for name in names}
    new = {name: found for name, found in twice.items() if name not in known}
    assert not new, f"{new}: give one another name, which says its unit or meaning"
    assert not (gone := known - set(twice)), f"{sorted(gone)}: remove them from CONSTANTS_ALIKE"


READ_AND_WRITTEN = {"bloom", "decimals", "dictionary", "int_runs", "numbers", "statistics", "text", "timestamps"}
"""Modules of ``orc`` that have a counterpart of the same name in ``orc_writer`` or ``paimon``."""

NAMED_ALIKE = {
    *("arguments", "bounds", "build", "container", "explaining", "file_pruning", "index_totals", "kept_tails"),
    *("options", "overlap", "plan", "progress", "ranges", "scan", "small_files", "sources", "survivors", "totals"),
}
"""Module names that two subpackages use for different things. The list may only shrink."""


def test_a_module_name_means_one_thing() -> None:
    """No two modules have the same name, except in ``cli``, whose modules have the names of commands."""
    places: dict[str, set[Path]] = {}
    for path in sources(".py", ".pyx"):
        if path.stem not in ("__init__", "__main__") and not ("cli" in path.parts and path.stem != "arguments"):
            places.setdefault(path.stem, set()).add(path)
    twice = {name for name, found in places.items() if len(found) > 1}
    assert not (new := twice - NAMED_ALIKE - READ_AND_WRITTEN), f"{sorted(new)}: give one another name"
    assert not (gone := (NAMED_ALIKE | READ_AND_WRITTEN) - twice), f"{sorted(gone)}: remove them from the list"


NAMED_BY_A_FORMAT = {"VERSION", "MAGIC", "ENABLED"}
"""Constants with names of one word that their module explains: constants of formats, and switches for tests."""


def test_a_constant_says_its_unit_and_meaning() -> None:
    """A number whose name is a single word has a docstring below it or a comment on its line. The docstring may also
    explain the constants above it."""
    silent = []
    for path in sources(".py"):
        lines = path.read_text().splitlines()
        told = False
        for node in reversed(tree_of(path).body):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(target, ast.Name) or not is_number(node.value):
                told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            elif not told and re.fullmatch("_?[A-Z]+", target.id) and target.id not in NAMED_BY_A_FORMAT:
                silent += [] if "#" in lines[node.lineno - 1] else [f"{name_of(path)}: {target.id}"]
    assert not silent, f"{silent}: say what the number means, and its unit"


def test_seams_have_types() -> None:
    """Counts the parameters and results that are declared as Any. The remaining ones are objects of pyspark, pyarrow
    and the storage libraries (which have no types), JSON, values of columns, and arguments that may have many forms
    (``sources``, ``where``). The numbers may only fall."""
    counts: dict[str, int] = {}
    for path in sources(".py"):
        room = path.relative_to(PACKAGE).parts[0]
        counts[room] = counts.get(room, 0) + anything_in(path)
    more = {room: count for room, count in counts.items() if count > ANYTHING_LEFT.get(room, 0)}
    assert not more, f"{more}: more parameters and results are Any than {ANYTHING_LEFT}"


def test_predicates_are_walked_in_one_place() -> None:
    """Only ``predicate/fold.py`` uses the children of AND and OR. Exceptions are ``json_form``, which builds them as
    they were stored, and ``predicate/__init__``, which has the names that users import."""
    allowed = {"nodes.py", "fold.py", "json_form.py", "__init__.py"}
    walkers = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources(".py")
        if not (path.parent == PACKAGE / "predicate" and path.name in allowed)
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orcidx")
        for name in node.names
        if name.name in ("And", "Or", "_Many") or name.name == "nodes"
    ]
    assert not walkers, f"{walkers} take AND and OR apart: use orcidx.predicate.fold"


def test_walk_throughs_name_what_is_there() -> None:
    """CONTRIBUTING follows one value and one leaf through the package. Each module and name in this text exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    walks = text[text.index("### One value") : text.index("### Adding one")]
    code = {path: path.read_text() for path in sources(".py", ".pyx")}
    gone = []
    for named in re.findall(r"`([^`]+)`", walks):
        module, _, member = named.partition(".") if "/" in named and not named.endswith(".pyx") else ("", "", named)
        places = [PACKAGE / f"{module}{end}" for end in (".py", ".pyx")] if module else []
        if "/" in named and named.endswith((".pyx", "/")):
            places, member = [PACKAGE / named], ""
        found = [path for path in places if path.exists()]
        if places and not found:
            gone.append(named)
        elif re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", member) and named != "price":  # the column of the example
            where = [code[path] for path in found] if found else list(code.values())
            last = member.split(".")[-1]
            if not any(re.search(rf"\b(?:def|class|import) {last}\b|\b{last}\b\s*[:=]", one) for one in where):
                gone.append(named)
    adding = text[text.index("### Adding one") : text.index("## House rules")]
    for named in re.findall(r"`([\w/]+/\w+\.py)`", adding):
        gone += [] if (PACKAGE / named).exists() or (ROOT / named).exists() else [named]
    assert not gone, f"CONTRIBUTING.md names {gone}"


def test_ci_finds_the_readme_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    for name, command in (("demo", "orcidx demo"), ("tests", "pytest")):
        block = re.search(rf"<!-- ci: {name} -->\n```\w*\n(.*?)```", readme, re.DOTALL)
        assert block, f".ci/run looks for a fenced block under <!-- ci: {name} -->"
        assert command in block[1]
