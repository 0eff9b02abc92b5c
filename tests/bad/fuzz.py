"""Gives damaged input to orcidx, one case after the other. A seed determines the cases. A case may raise only orcidx's
own errors, and may take at most 5 seconds and 512 MB.

    python tests/bad/fuzz.py --count 20000            # the recorded run; prints findings, exit status 1 if any
    python tests/bad/fuzz.py --seed 1 --case 4711     # one case again, in this process, with its traceback
    .ci/sanitize python tests/bad/fuzz.py             # under the sanitizers

Workers are separate processes, so that a crash, a hang or a very large allocation is a finding and does not end the
run.
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bad.corpus import Sample, corpus
from bad.mutations import mutate
from bad.targets import TARGETS

from orcidx import OrcidxError

SANITIZED = os.environ.get("ORCIDX_SANITIZE", "") not in ("", "0")
SECONDS = 20 if SANITIZED else 5
"""The maximum processor time of one case in seconds."""
PATIENCE = 60
"""The maximum wall clock time of one case in seconds. This limit is higher than ``SECONDS``, because other processes
may use the machine."""
MEGABYTES = 512
"""The maximum memory that a case may take in addition to the memory that the worker held before."""
SHARE = {"orc": 0.7, "index": 0.13, "container": 0.08, "deletion-vector": 0.06, "hash": 0.03}


@dataclass(frozen=True)
class Number:
    """Identifies a case of a seed. With a kind, the case is made only from samples of this kind. So it differs from the
    case of the same number without a kind."""

    number: int
    kind: str | None = None

    def __str__(self) -> str:
        return f"{self.number} {self.kind or ''}".rstrip()


@dataclass(frozen=True)
class Case:
    sample: Sample
    mutation: str
    data: bytes


def build_case(samples: list[Sample], seed: int, number: int) -> Case:
    """Builds a case. The bytes are the same for the same seed and number, as long as the corpus is the same."""
    random = Random(f"{seed}:{number}")
    present = [kind for kind in SHARE if any(sample.kind == kind for sample in samples)]
    kind = random.choices(present, [SHARE[name] for name in present])[0]
    same = [sample for sample in samples if sample.kind == kind]
    sample = random.choice(same)
    mutation, data = mutate(kind, sample.data, random.choice(same).data, random)
    return Case(sample, mutation, data)


def run_case(case: Case) -> str:
    """Runs a case. Returns "accepted", the name of orcidx's error, or "!" and the finding."""
    before = _peak_megabytes(reset=True)
    began = time.process_time()
    try:
        TARGETS[case.sample.kind](case.data, case.sample.facts)
        answer = "accepted"
    except OrcidxError as error:
        answer = type(error).__name__
    except BaseException as error:
        return f"! {type(error).__name__}: {str(error)[:200]!r}"
    if (took := time.process_time() - began) > SECONDS:
        return f"! took {took:.1f} s"
    if (grown := _peak_megabytes() - before) > MEGABYTES and not SANITIZED:
        return f"! took {grown:.0f} MB"
    return answer


def _peak_megabytes(*, reset: bool = False) -> float:
    """Returns the peak of resident memory. ``reset`` starts a new peak at the current memory."""
    if reset:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return 0.0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def samples_of(kind: str | None = None) -> list[Sample]:
    return [sample for sample in corpus() if kind in (None, sample.kind)]


def work(seed: int) -> None:
    """Runs a worker. Each input line has the number of a case and, if the case has one, a kind. Each output line has a
    result."""
    corpus()  # loaded first, so that its memory is not counted as memory of a case
    if not SANITIZED:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 30),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print("ready", flush=True)
        for line in sys.stdin:
            number, *kind = line.split()
            case = build_case(samples_of(*kind), seed, int(number))
            print(f"{case.sample.kind}\t{case.sample.name}\t{case.mutation}\t{run_case(case)}", flush=True)


class Worker:
    def __init__(self, seed: int) -> None:
        command = [sys.executable, __file__, "--worker", "--seed", str(seed)]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1
        )
        self.case: Number | None = None
        self.since = time.monotonic()

    def give(self, case: Number) -> None:
        assert self.process.stdin
        self.case, self.since = case, time.monotonic()
        self.process.stdin.write(f"{case}\n")

    def hung(self) -> bool:
        return self.case is not None and time.monotonic() - self.since > PATIENCE

    def end(self) -> str:
        """Ends the process. Returns its exit status and its last errors."""
        self.process.kill()
        status = self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace").strip()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe:
                pipe.close()
        return f"exit {status}\n{words[-4000:]}"


def fuzz(seed: int, cases: Iterator[Number], *, workers: int) -> tuple[Counter[str], list[str]]:
    """Runs the cases. Returns how often each result occurred, by kind, and the findings."""
    results: Counter[str] = Counter()
    findings: list[str] = []
    selector = selectors.DefaultSelector()
    pool: set[Worker] = set()

    def start() -> None:
        worker = Worker(seed)
        pool.add(worker)
        selector.register(worker.process.stdout or sys.stdin, selectors.EVENT_READ, worker)

    def stop(worker: Worker) -> str:
        selector.unregister(worker.process.stdout or sys.stdin)
        pool.discard(worker)
        return worker.end()

    for _ in range(workers):
        start()
    while pool:
        ready = [key.data for key, _ in selector.select(timeout=1)]
        for worker in [worker for worker in pool if worker in ready or worker.hung()]:
            line = worker.process.stdout.readline() if worker in ready and worker.process.stdout else ""
            if not line:
                why = "hung" if worker.hung() else "crashed"
                number, words = worker.case, stop(worker)
                if number is None:
                    raise SystemExit(f"a worker process ended before its first case: {words}")
                findings.append(f"case {number}: {why}: {words}")
                start()
                continue
            if worker.case is not None:
                kind, name, mutation, result = line.rstrip("\n").split("\t")
                results[f"{kind}: {'finding' if result.startswith('!') else result}"] += 1
                if result.startswith("!"):
                    findings.append(f"case {worker.case} ({name}, {mutation}): {result[2:]}")
            if (case := next(cases, None)) is None:
                stop(worker)
            else:
                worker.give(case)
    return results, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="cases to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this number of seconds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", choices=sorted(SHARE), help="only samples of this kind, with cases of their own")
    parser.add_argument("--case", type=int, help="run this one case here")
    parser.add_argument("--save", type=Path, help="with --case: write the damaged bytes to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.seed)
        return 0
    if given.case is not None:
        case = build_case(samples_of(given.kind), given.seed, given.case)
        print(f"{case.sample.name}, {case.mutation}, {len(case.data)} bytes")
        if given.save:
            given.save.write_bytes(case.data)
        TARGETS[case.sample.kind](case.data, case.sample.facts)
        return 0
    end = time.monotonic() + given.seconds
    began = time.monotonic()
    cases = (Number(number, given.kind) for number in range(given.count) if time.monotonic() < end)
    results, findings = fuzz(given.seed, cases, workers=given.workers)
    for result, count in sorted(results.items()):
        print(f"{count:7d}  {result}")
    for finding in findings:
        print(f"FINDING seed {given.seed} {finding}")
    done = sum(results.values()) + sum(": crashed: " in text or ": hung: " in text for text in findings)
    print(f"{done} cases in {time.monotonic() - began:.0f} s, seed {given.seed}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
