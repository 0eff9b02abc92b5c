"""Planning on the driver, without Spark: which tasks a read has, and which go together.

A task is a pickled scan of some stripes of an ORC file, or of one data file of a Paimon table, pruned by everything
that is known without reading data.
"""

from __future__ import annotations

import heapq
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.many_files import scan
from orcidx.options import ReadOptions
from orcidx.paimon.table import Table, open_table

__all__ = ["Format", "ReadPlan", "Task", "pack", "plan_read"]

Format = Literal["orc", "paimon"]


@dataclass(frozen=True)
class Task:
    """A pickled ``Scan`` or ``TableScan`` of a part, and its size in stored bytes."""

    payload: bytes
    size: int


@dataclass(frozen=True)
class ReadPlan:
    """The tasks of a read and the schema of their batches."""

    schema: pa.Schema
    tasks: tuple[Task, ...]


def pack(sizes: Sequence[int], target: int) -> list[int]:
    """The bin of each task, numbered from 0: the longest first, each into the emptiest bin (LPT).

    There are as many bins as targets in all bytes together, at most one for each task.
    """
    if target < 1:
        raise InvalidQuery(f"target_bytes must be at least 1, and is {target}")
    count = min(len(sizes), max(1, -(-sum(sizes) // target)))
    loads = [(0, number) for number in range(count)]
    bins = [0] * len(sizes)
    for task in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        load, number = loads[0]
        bins[task] = number
        heapq.heapreplace(loads, (load + max(1, sizes[task]), number))
    return bins


def plan_read(
    path: Any,
    columns: Sequence[str] | None,
    where: Any,
    *,
    format: Format | None,
    target_bytes: int,
    storage_options: Mapping[str, Any] | None,
    options: ReadOptions,
) -> ReadPlan:
    """Lists, opens metadata, prunes files and stripes, and cuts the rest into tasks of about ``target_bytes``.

    A directory with the layout of a Paimon table is one unless ``format`` says otherwise. Raises as ``orcidx.scan``
    and ``paimon.open_table`` do, and ``InvalidQuery`` for another format.
    """
    if format not in (None, "orc", "paimon"):
        raise InvalidQuery(f"format is 'orc' or 'paimon', not {format!r}")
    if target_bytes < 1:
        raise InvalidQuery(f"target_bytes must be at least 1, and is {target_bytes}")
    table = None if format == "orc" else _table(path, storage_options, required=format == "paimon")
    if table is None:
        rows = scan(path, columns, where, storage_options=storage_options, options=options)
        parts = [(part.scan(), part.estimated_bytes) for part in rows.splits(target_bytes)]
        return ReadPlan(rows.schema, tuple(Task(pickle.dumps(one), size) for one, size in parts))
    whole = table.scan(columns, where, options=options)
    tasks = []
    for task in whole.plan.tasks:
        one = replace(whole, plan=replace(whole.plan, tasks=(task,), skipped=(), notes=()))
        tasks.append(Task(pickle.dumps(one), task.file.size))
    return ReadPlan(whole.schema, tuple(tasks))


def _table(path: Any, storage_options: Mapping[str, Any] | None, *, required: bool) -> Table | None:
    if not required and not isinstance(path, (str, os.PathLike)):
        return None
    try:
        return open_table(path, storage_options=storage_options)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise
        return None
