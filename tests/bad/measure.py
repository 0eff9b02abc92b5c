"""Reads hostile files in this process and prints the cost of each task as a line of JSON.

    python tests/bad/measure.py columns windows --tasks open explain count batch --scale 1

The cost is the processor time of all threads, and the growth of the peak of resident memory. Both are measured in a
process that has read a small file before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bad.hostile import DATA, DIRECT, MAKERS, Hostile, Stripe, constant_rle, orc, row_type

import orcidx
from orcidx import OrcidxError


def open_file(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        _ = file.num_rows, file.schema, file.stripes, file.user_metadata, file.writer


def explain(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        str(file.scan().explain())


def explain_where(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        str(file.scan(where=case.where).explain())


def count(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        file.scan().count_rows()


def batch(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        for _ in itertools.islice(file.scan(), 1):
            pass


def batch_of_range(data: bytes, case: Hostile) -> None:
    with orcidx.open(data) as file:
        scan = file.scan(row_range=case.row_range)
        scan.count_rows()
        for _ in itertools.islice(scan, 1):
            pass
        str(scan.explain())


TASKS: dict[str, Callable[[bytes, Hostile], None]] = {
    "open": open_file,
    "explain": explain,
    "explain where": explain_where,
    "count": count,
    "batch": batch,
    "range": batch_of_range,
}


def measure(task: Callable[[], None]) -> dict[str, Any]:
    before = _peak(reset=True)
    began = time.process_time()
    try:
        task()
        answer = "accepted"
    except OrcidxError as error:
        answer = f"{type(error).__name__}: {error.message}"
    except MemoryError:
        answer = "MemoryError"
    took = time.process_time() - began
    return {"seconds": round(took, 2), "megabytes": round(_peak() - before), "answer": answer[:300]}


def _peak(*, reset: bool = False) -> float:
    """Returns the peak of resident memory in MB. ``reset`` starts a new peak at the current memory."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def warm() -> None:
    data = orc(row_type("bigint"), [Stripe(100, [(DATA, 1, constant_rle(1, 130))], [DIRECT] * 2)])
    case = Hostile("", lambda scale: data, "a > 5", (0, 10))
    for task in TASKS.values():
        task(data, case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=MAKERS)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--scale", type=float, default=1)
    given = parser.parse_args()
    warm()
    for case in (MAKERS[name] for name in given.names):
        data = case.make(given.scale)
        for task in given.tasks:
            if task == "range" and case.row_range is None:
                continue
            result = measure(lambda task=task, data=data, case=case: TASKS[task](data, case))
            print(json.dumps({"name": case.name, "task": task, "bytes": len(data), **result}), flush=True)


if __name__ == "__main__":
    main()
