"""Runs sampled mutants against the tests that run the changed function.

``PYTHONPATH=.:tests python tests/mutants/run.py --count 500 --seed 1 --log build/mutants.jsonl``

The package and the tests are imported once. Each mutant is tried in a fork, in which the changed function gets the code
of the mutant. The tests of the function then run until one fails or their time is up. Tests that killed another mutant
of the function, or of its module, come first, then the shortest tests. Which tests run a function, and how long they
take, is measured once and kept in the folder ``--map``, in one file for each file of tests.

Two processes share the work: ``--part 1/2`` and ``--part 2/2``, each with a log of its own.

The log has a line of JSON for each mutant: ``killed`` (by which test), ``survived``, ``hung``, ``not run`` (no test
runs the function) or ``same code``. ``judged.toml`` has the verdict on each survivor.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from mutants.changes import Mutant, first_line, mutants_of

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = [
    "pruning/bounds",
    "pruning/evaluate",
    "pruning/findings",
    "pruning/row_forms",
    "pruning/selection",
    "planner/bloom_choice",
    "planner/column_plan",
    "planner/constant_evidence",
    "planner/data_fetches",
    "planner/fetch_policy",
    "planner/index_evidence",
    "planner/read_bytes",
    "planner/request",
    "planner/row_indexes",
    "planner/schema_mapping",
    "planner/schema_plan",
    "planner/stripe_pruning",
    "orc/bloom_keys",
    "orc/bound_values",
    "orc/bounds",
    "orc/evidence",
    "orc/integer_range",
    "orc/key_evidence",
    "paimon/questions",
    "paimon_table/metadata/partition_path",
    "paimon_table/read/bucket_pruning",
    "paimon_table/read/file_pruning",
    "index_directory/file_pruning",
]
"""The modules of pruning, planner, bounds, partition values and evidence, without the texts of explanations
(``pruning/reasons``)."""

TESTS = [
    "tests/pruning",
    "tests/planner",
    "tests/orc",
    "tests/paimon_table/test_paimon_refusals.py",
    "tests/paimon_table/test_paimon_table_plan.py",
    "tests/paimon_table/test_paimon_table_scan.py",
    "tests/paimon_table/test_paimon_statistics.py",
    "tests/paimon_table/test_paimon_totals.py",
    "tests/index_directory/test_fresh_catalog.py",
    "tests/index_directory/test_plan_many_files.py",
    "tests/index_directory/test_scan_with_indexes.py",
    "tests/index_directory/test_index_lookup.py",
    "tests/indexes/test_orc_bloom.py",
    "tests/indexes/test_orc_index_soundness.py",
    "tests/indexes/test_paimon_file_index.py",
    "tests/scanner/test_asking.py",
    "tests/scanner/test_conditions.py",
    "tests/scanner/test_constant_conditions.py",
    "tests/scanner/test_many_files.py",
    "tests/scanner/test_may_contain.py",
    "tests/scanner/test_read_bytes.py",
    "tests/scanner/test_span_plan.py",
    "tests/scanner/test_split.py",
    "tests/scanner/test_top_scan.py",
    "tests/fetching",
    "tests/columns/test_column_times.py",
    "tests/rewriting/test_write_dataset.py",
]
SUITE_SECONDS = 20.0
"""Processor time that the tests of a mutant may take, as measured without the mutant."""
FILE_SECONDS = 25.0
"""The processor time for measuring which functions the tests of one file run. The tests that remain are left out."""
NO_PROGRESS_SECONDS = 90.0
"""A mutant counts as hung if none of its tests ends within this wall clock time."""
SEEN = "__function_called__"


class MutantRun:
    """A plugin of pytest that tries the mutants instead of running the tests."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.log = Path(given.log)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Finds which functions each test runs, then tries each mutant."""
        items = {item.nodeid: item for item in session.items if not item.get_closest_marker("java")}
        code = Code()
        gc.freeze()
        runs = what_tests_run(list(items.values()), Path(self.given.map), code)
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        done = {(one["name"], one["line"]) for one in map(json.loads, lines)}
        sampled = sample(self.given.count, self.given.seed, self.given.modules or MODULES)
        if self.given.only:
            sampled = [one for one in sampled if one.name in set(Path(self.given.only).read_text().splitlines())]
        part, _, parts = self.given.part.partition("/")
        killers: dict[str, list[str]] = {}
        alone: dict[str, bool] = {}
        for mutant in sampled[int(part) - 1 :: int(parts)]:
            if (mutant.name, mutant.line) in done:
                continue
            began = time.monotonic()
            unit = f"{mutant.module}:{mutant.unit}"
            outcome = ""
            while not outcome:
                first = killers.get(unit, []) + killers.get(mutant.module, [])
                suite = suite_of(mutant, runs, self.given.seconds, first)
                seconds = sum(took for name, took in suite if name in items)
                outcome, by = tried(mutant, [items[name] for name, _ in suite if name in items], seconds, code)
                if by in items and by not in alone:
                    alone[by] = passes(items[by])
                if by in items and not alone[by]:  # without a mutant, the test fails, too
                    runs = [run for run in runs if run["test"] != by]
                    outcome = ""
            if by in items:
                for of in (unit, mutant.module):
                    killers[of] = [by, *(name for name in killers.get(of, []) if name != by)]
            took = round(time.monotonic() - began, 1)
            line = {"name": mutant.name, "line": mutant.line, "kind": mutant.kind, "outcome": outcome, "by": by}
            with self.log.open("a") as out:
                out.write(json.dumps({**line, "tests": len(suite), "suite": round(seconds, 1), "seconds": took}) + "\n")
        return True


def sample(count: int, seed: int, modules: list[str] | tuple[str, ...]) -> list[Mutant]:
    """Returns a random sample of ``count`` mutants in random order. The seed decides both."""
    of_all = [
        mutant for module in modules for mutant in mutants_of(module, (ROOT / "orcidx" / f"{module}.py").read_text())
    ]
    return random.Random(seed).sample(of_all, min(count, len(of_all)))


def suite_of(mutant: Mutant, runs: list[dict[str, Any]], seconds: float, killers: list[str]) -> list[tuple[str, float]]:
    """Returns the tests that run the mutant's function, with their seconds. Together they take at most ``seconds``.

    ``killers`` come first. Then come the shortest tests and those that run the fewest other functions. Later cases of
    one test function count as longer, because these cases are much alike.
    """
    at: dict[str, int] = {}
    turns = []
    for run in sorted(runs, key=lambda run: run["seconds"]):
        if f"{mutant.module}:{mutant.unit}" in run["units"]:
            function = run["test"].partition("[")[0]
            at[function] = at.get(function, -1) + 1
            cost = run["seconds"] * len(run["units"]) * (1 + at[function] / 4)
            first = killers.index(run["test"]) if run["test"] in killers else len(killers)
            turns.append((first, cost, run["seconds"], run["test"]))
    chosen, left = [], seconds
    for *_, took, test in sorted(turns):
        if took <= left or not chosen:
            chosen.append((test, took))
            left -= took
    return chosen


class Code:
    """The functions of the imported modules by their code objects, and all caches."""

    def __init__(self) -> None:
        self.modules = {name: importlib.import_module(f"orcidx.{name.replace('/', '.')}") for name in MODULES}
        self.caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        self.functions: dict[CodeType, list[FunctionType]] = {}
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(str(ROOT / "orcidx")):
                self.functions.setdefault(one.__code__, []).append(one)

    def change(self, module: str, tree: ast.Module) -> bool:
        """Gives each function the code that it has in the tree, wherever the function is held. Returns False if no code
        changes."""
        path = str(ROOT / "orcidx" / f"{module}.py")
        old = _codes(compile(Path(path).read_text(), path, "exec"))
        found = False
        for a, b in zip(old, _codes(compile(tree, path, "exec"))):
            for function in self.functions.get(a, []) if a != b and a.co_freevars == b.co_freevars else []:
                function.__code__ = b
                found = True
        for one in self.caches:
            one.cache_clear()
        return found


def what_tests_run(items: list[pytest.Item], folder: Path, code: Code) -> list[dict[str, Any]]:
    """Returns the seconds and the functions of each test that passes. Each file of tests runs in a fork.

    Processes with the same folder share its files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    found = {file: folder / file.replace("/", "-").replace(".py", ".jsonl") for file in of_file}
    for file, group in of_file.items():
        try:
            found[file].with_suffix(".taken").open("x").close()
        except FileExistsError:
            continue
        work = functools.partial(_recorded, group, code)
        said, _ = _in_a_fork(work, 2 * FILE_SECONDS, 10 * FILE_SECONDS)
        found[file].with_suffix(".part").write_text(said)
        found[file].with_suffix(".part").rename(found[file])
    while not all(path.exists() for path in found.values()):
        time.sleep(1)
    return [json.loads(line) for path in found.values() for line in path.read_text().splitlines()]


def _recorded(items: list[pytest.Item], code: Code, out: int) -> None:
    hit: set[str] = set()
    for name, module in code.modules.items():
        code.change(name, _telling(name, ast.parse((ROOT / "orcidx" / f"{name}.py").read_text())))
        setattr(module, SEEN, hit.add)
    began = time.process_time()
    for item, following in zip(items, [*items[1:], None]):
        hit.clear()
        before = sum(os.times()[:4])
        if _failure([item], following) is None:
            line = {"test": item.nodeid, "seconds": round(sum(os.times()[:4]) - before, 3), "units": sorted(hit)}
            os.write(out, (json.dumps(line) + "\n").encode())
        if time.process_time() - began > FILE_SECONDS:
            break


def _telling(module: str, tree: ast.Module) -> ast.Module:
    """Returns the module with a call at the start of each function, which notes that the function runs."""

    def below(node: ast.AST) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                unit = first_line(inner)
                call = ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(f"{module}:{unit}")], [])
                if isinstance(inner, ast.Lambda):
                    inner.body = ast.Subscript(ast.Tuple([call, inner.body], ast.Load()), ast.Constant(1), ast.Load())
                else:
                    inner.body.insert(0, ast.Expr(call))
            else:
                below(inner)

    below(tree)
    return ast.fix_missing_locations(tree)


def _failure(items: list[pytest.Item], last: pytest.Item | None = None, out: int | None = None) -> str | None:
    """Returns the first test that fails, or None if all pass. Writes a dot to ``out`` for each test that passes."""
    for item, following in zip(items, [*items[1:], last]):
        failed = []

        class Seen:
            def pytest_runtest_logreport(self, report: pytest.TestReport, failed: list[str] = failed) -> None:
                if report.failed:
                    failed.append(report.nodeid)

        seen = Seen()
        item.config.pluginmanager.register(seen)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item.config.pluginmanager.unregister(seen)
        if failed:
            return failed[0]
        if out is not None:
            os.write(out, b".")
    return None


def tried(mutant: Mutant, items: list[pytest.Item], seconds: float, code: Code) -> tuple[str, str]:
    """Tries one mutant in a fork and returns (outcome, failed test). ``seconds``: what the tests take without the
    mutant."""
    if not items:
        return "not run", ""
    said, ended = _in_a_fork(functools.partial(_judged, mutant, items, code), 3 * seconds + 10, NO_PROGRESS_SECONDS)
    if ended:
        return "hung", ""
    outcome, _, by = said.lstrip(".").partition(" ")
    return outcome or "killed", by or ("" if outcome else "the process")


def passes(item: pytest.Item) -> bool:
    """Whether a test passes alone, without a mutant."""
    return _in_a_fork(lambda out: os.write(out, b"" if _failure([item]) else b"passes"), 120.0, 300.0)[0] == "passes"


def _judged(mutant: Mutant, items: list[pytest.Item], code: Code, out: int) -> None:
    if not code.change(mutant.module, mutant.tree()):
        os.write(out, b"same code")
        return
    failed = _failure(items, out=out)
    os.write(out, b"survived" if failed is None else f"killed {failed}".encode())


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yields the code of each function and method of a module, but not of functions inside of functions."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a class
                yield const
            else:
                yield from _codes(const)


def _in_a_fork(work: Any, processor: float, clock: float) -> tuple[str, bool]:
    """Runs the work in a fork. Returns what the work wrote, and whether the fork was killed. The fork is killed if it
    takes too much processor time, or if it writes nothing for too long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(processor), int(processor)))
        try:
            work(write)
        finally:
            os._exit(0)
    os.close(write)
    said, ended = b"", False
    while True:
        if not select.select([read], [], [], clock)[0]:
            ended = True
            break
        part = os.read(read, 65536)
        if not part:
            break
        said += part
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.close(read)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        ended = True
    return said.decode(), ended


def main() -> int:
    """Tries the mutants that the arguments ask for."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--count", type=int, default=20)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--seconds", type=float, default=SUITE_SECONDS, help="processor time of the tests of one mutant")
    asked.add_argument("--log", default=str(ROOT / "build" / "mutants.jsonl"))
    asked.add_argument("--map", default=str(ROOT / "build" / "mutants_map"))
    asked.add_argument("--part", default="1/1", help="the part of the sample to try, such as 1/2 for the first half")
    asked.add_argument("--only", help="a file with the names of the mutants to try, a line each")
    asked.add_argument("--modules", nargs="*")
    asked.add_argument("--tests", nargs="*", default=TESTS)
    given = asked.parse_args()
    os.environ["CI"] = "1"  # with CI set, Hypothesis draws the same examples for each mutant
    options = ["-n0", "-q", "--no-header", "-o", "timeout=0", f"--basetemp={ROOT}/build/mutants_temp{given.part[0]}"]
    return int(pytest.main([*options, *given.tests], plugins=[MutantRun(given)]))


if __name__ == "__main__":
    sys.exit(main())
