"""Run sampled mutants against the tests that run the changed function.

``PYTHONPATH=.:tests python tests/mutants/run.py --count 500 --seed 1 --log build/mutants.jsonl``

The package and the tests are imported once. Each mutant is tried in a fork, in which the changed function gets the code
of the mutant; the tests that run the function follow, the shortest first, until one fails or their time is up. Which
tests run a function, and how long they take, is found once, and kept in the file ``--map``.

The log has a line of JSON for each mutant: ``killed`` (by which test), ``survived``, ``hung``, ``not run`` (no test
runs the function) or ``same code``. ``judged.toml`` has the verdict on each survivor.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from mutants.changes import Mutant, mutants_of

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
"""Pruning, planner, bounds, partition values and evidence, but for what words an explanation (``pruning/reasons``)."""

TESTS = [
    "tests/pruning",
    "tests/planner",
    "tests/orc",
    "tests/paimon_table/test_paimon_table_plan.py",
    "tests/paimon_table/test_paimon_table_scan.py",
    "tests/paimon_table/test_paimon_statistics.py",
    "tests/paimon_table/test_paimon_totals.py",
    "tests/index_directory/test_plan_many_files.py",
    "tests/index_directory/test_scan_with_indexes.py",
    "tests/index_directory/test_index_lookup.py",
    "tests/indexes/test_orc_bloom.py",
    "tests/indexes/test_orc_index_soundness.py",
    "tests/indexes/test_paimon_file_index.py",
    "tests/scanner/test_asking.py",
    "tests/scanner/test_conditions.py",
    "tests/scanner/test_may_contain.py",
    "tests/scanner/test_read_bytes.py",
    "tests/scanner/test_split.py",
    "tests/scanner/test_top_scan.py",
    "tests/fetching",
    "tests/columns/test_column_times.py",
    "tests/rewriting/test_write_dataset.py",
]
SUITE_SECONDS = 20.0
"""Of the processor: what a mutant's tests may take as measured without it."""


class MutantRun:
    """A plugin of pytest: in the place of running the tests, it tries the mutants."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.log = Path(given.log)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find what each test runs, then try each mutant."""
        items = {item.nodeid: item for item in session.items if not item.get_closest_marker("java")}
        if not Path(self.given.map).exists():
            find_what_tests_run(list(items.values()), Path(self.given.map))
        runs = [json.loads(line) for line in Path(self.given.map).read_text().splitlines()]
        done = {json.loads(line)["name"] for line in self.log.read_text().splitlines()} if self.log.exists() else set()
        sampled = sample(self.given.count, self.given.seed, self.given.modules or MODULES)
        if self.given.only:
            sampled = [one for one in sampled if one.name in set(Path(self.given.only).read_text().splitlines())]
        for mutant in sampled:
            if mutant.name in done:
                continue
            began = time.monotonic()
            suite = suite_of(mutant, runs, self.given.seconds)
            outcome, by = tried(mutant, [items[name] for name in suite if name in items], self.given.seconds)
            took = round(time.monotonic() - began, 1)
            line = {"name": mutant.name, "line": mutant.line, "kind": mutant.kind, "outcome": outcome, "by": by}
            with self.log.open("a") as out:
                out.write(json.dumps({**line, "tests": len(suite), "seconds": took}) + "\n")
        return True


def sample(count: int, seed: int, modules: list[str] | tuple[str, ...]) -> list[Mutant]:
    """``count`` mutants of all, by a seed, in an order of chance."""
    of_all = [
        mutant for module in modules for mutant in mutants_of(module, (ROOT / "orcidx" / f"{module}.py").read_text())
    ]
    return random.Random(seed).sample(of_all, min(count, len(of_all)))


def suite_of(mutant: Mutant, runs: list[dict[str, Any]], seconds: float) -> list[str]:
    """The tests that run the mutant's function, for so many seconds of the processor at most: the shortest of each
    file of tests, then the next of each, since tests of one file tell much the same."""
    at: dict[str, int] = {}
    turns = []
    for run in sorted(runs, key=lambda run: run["seconds"]):
        if f"{mutant.module}:{mutant.unit}" in run["units"]:
            file = run["test"].partition("::")[0]
            at[file] = at.get(file, -1) + 1
            turns.append((at[file], run["seconds"], run["test"]))
    chosen, left = [], seconds
    for _, took, test in sorted(turns):
        if took <= left or not chosen:
            chosen.append(test)
            left -= took
    return chosen


def find_what_tests_run(items: list[pytest.Item], kept: Path) -> None:
    """Write, for each test that passes, its seconds and the functions that it runs; a fork for each file of tests."""
    units = {}
    for module in MODULES:
        for mutant in mutants_of(module, (ROOT / "orcidx" / f"{module}.py").read_text()):
            units[module, mutant.unit] = mutant.unit
    of_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    with kept.open("w") as out:
        for group in of_file.values():
            for line in _in_a_fork(functools.partial(_recorded, group, list(units)), 600.0, 900.0)[0].splitlines():
                out.write(line + "\n")
            out.flush()


def _recorded(items: list[pytest.Item], units: list[tuple[str, int]], out: int) -> None:
    starts: dict[str, list[int]] = {}
    for module, first in sorted(units):
        starts.setdefault(str(ROOT / "orcidx" / f"{module}.py"), []).append(first)
    names = {str(ROOT / "orcidx" / f"{module}.py"): module for module in MODULES}
    hit: set[tuple[str, int]] = set()

    def called(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename in starts:
            hit.add((code.co_filename, code.co_firstlineno))

    for item in items:
        hit.clear()
        began = time.process_time()
        threading.setprofile(called)
        sys.setprofile(called)
        try:
            failed = _failure([item])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        if failed is None:
            found = {
                f"{names[file]}:{max((first for first in starts[file] if first <= at), default=0)}" for file, at in hit
            }
            line = {"test": item.nodeid, "seconds": round(time.process_time() - began, 3), "units": sorted(found)}
            os.write(out, (json.dumps(line) + "\n").encode())


def _failure(items: list[pytest.Item]) -> str | None:
    """The first test that fails, None where all pass."""
    for item, following in zip(items, [*items[1:], None]):
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
    return None


def tried(mutant: Mutant, items: list[pytest.Item], seconds: float) -> tuple[str, str]:
    """(outcome, the test that failed) of one mutant, in a fork."""
    if not items:
        return "not run", ""
    said, ended = _in_a_fork(functools.partial(_judged, mutant, items), 3 * seconds + 30, 20 * seconds + 300)
    if ended:
        return "hung", ""
    outcome, _, by = said.partition(" ")
    return outcome or "killed", by or ("" if outcome else "the process")


def _judged(mutant: Mutant, items: list[pytest.Item], out: int) -> None:
    if not changed(mutant):
        os.write(out, b"same code")
        return
    failed = _failure(items)
    os.write(out, b"survived" if failed is None else f"killed {failed}".encode())


def changed(mutant: Mutant) -> bool:
    """Give the function the code of the mutant, wherever it is held; False where that changes nothing."""
    path = str(ROOT / "orcidx" / f"{mutant.module}.py")
    old = list(_codes(compile(Path(path).read_text(), path, "exec")))
    new = list(_codes(compile(mutant.tree(), path, "exec")))
    pairs = [(a, b) for a, b in zip(old, new) if a != b]
    functions = [one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__code__.co_filename == path]
    found = False
    for a, b in pairs:
        for function in functions:
            if function.__code__ == a and a.co_freevars == b.co_freevars:
                function.__code__ = b
                found = True
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and of its classes; not what is inside of functions, which goes with them."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a class
                yield const
            else:
                yield from _codes(const)


def _in_a_fork(work: Any, processor: float, clock: float) -> tuple[str, bool]:
    """(what the work wrote, whether it was ended for its time)."""
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
    said, until, ended = b"", time.monotonic() + clock, False
    while True:
        if not select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
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
    """Try the mutants that the arguments ask for."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--count", type=int, default=20)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--seconds", type=float, default=SUITE_SECONDS, help="of tests for one mutant")
    asked.add_argument("--log", default=str(ROOT / "build" / "mutants.jsonl"))
    asked.add_argument("--map", default=str(ROOT / "build" / "mutants_map.jsonl"))
    asked.add_argument("--only", help="a file with the names of the mutants to try, a line each")
    asked.add_argument("--modules", nargs="*")
    asked.add_argument("--tests", nargs="*", default=TESTS)
    given = asked.parse_args()
    os.environ["CI"] = "1"  # Hypothesis draws the same examples for each mutant
    options = ["-n0", "-q", "--no-header", "-o", "timeout=0", f"--basetemp={ROOT}/build/mutants_temp"]
    return int(pytest.main([*options, *given.tests], plugins=[MutantRun(given)]))


if __name__ == "__main__":
    sys.exit(main())
