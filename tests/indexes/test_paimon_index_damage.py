"""Damaged index bodies cause only errors of orcidx, in bounded time and memory. No row is lost without an error."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from goldens import FIXTURES
from paimon_goldens import KINDS, Golden, goldens

from orcidx import paimon
from orcidx.errors import CorruptFile

EXTREMES = (-(1 << 31), -2, -1, 0, 1, 1 << 30, (1 << 31) - 1)
SECONDS = 2.0
MEGABYTES = 64
MOST_BYTES = 20_000  # larger bodies are not damaged, because they only repeat the same structures


def mutations(body: bytes, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """Yields the body cut off, with flipped bits, and with extreme numbers, ``count`` times each."""
    size = len(body)
    for cut in rng.integers(0, size, min(count, size)):
        yield body[:cut]
    for _ in range(count):
        changed = bytearray(body)
        for at in rng.integers(0, size, rng.integers(1, 4)):
            changed[at] ^= 1 << int(rng.integers(0, 8))
        yield bytes(changed)
    # Lengths and counts are near the start, so all offsets there are tried. The other offsets are random.
    for at in [*range(min(size - 3, count // 2)), *rng.integers(0, max(size - 3, 1), count // 2)]:
        if at + 4 <= size:
            yield body[:at] + struct.pack(">i", EXTREMES[int(rng.integers(len(EXTREMES)))]) + body[at + 4 :]
    yield body + b"\0"


def ask(index: Any, golden: Golden) -> None:
    """Evaluates some comparisons on the index, and calls ``top_k`` if the index has it."""
    some = next((value for value in golden.values if value is not None), None)
    literal = None if some is None else golden.literal(some)
    for op in ("eq", "neq", "lt", "gte", "in", "isnull"):
        try:
            verdict = index.evaluate(op, [] if op == "isnull" else [literal])
            assert verdict.rows is None or not verdict.rows or verdict.rows.max() < index.rows
        except CorruptFile:
            pass
    if index.kind == "range-bitmap":
        try:
            found = index.top_k(3, descending=True, nulls_first=False)
            assert not found or found.max() < index.rows
        except CorruptFile:
            pass
    try:
        index.check()
    except CorruptFile:
        pass


def check(golden: Golden, rng: np.random.Generator, count: int) -> None:
    body = golden.body
    if body is None or len(body) > MOST_BYTES:
        return
    for changed in mutations(body, rng, count):
        start = time.thread_time()
        try:
            ask(paimon.read_index(golden.kind, changed, golden.sidecar["type"]), golden)
        except CorruptFile:
            pass
        assert time.thread_time() - start < SECONDS, golden.path.stem


@pytest.mark.parametrize("folder", list(KINDS))
def test_damaged_bodies(folder: str, rng: np.random.Generator) -> None:
    tracemalloc.start()
    try:
        for golden in goldens(FIXTURES / "paimon", folder):
            check(golden, rng, 15)
        assert tracemalloc.get_traced_memory()[1] < MEGABYTES << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("folder", list(KINDS))
def test_damaged_bodies_all(folder: str, golden_paimon: Path, rng: np.random.Generator) -> None:
    for golden in goldens(golden_paimon, folder):
        check(golden, rng, 60)


def test_damaged_containers(rng: np.random.Generator) -> None:
    types = {"f0": "INT", "f1": "STRING", "f2": "BIGINT", "m": "MAP<VARCHAR(20), INT>"}
    body = (FIXTURES / "paimon" / "container" / "everything.bin").read_bytes()
    whole = paimon.read_file_index(body, types=types, strict=True)
    where = "f0 = 3 AND f1 IN ('s1', 's2') OR f2 > 100 OR f2 IS NULL"
    for changed in mutations(body, rng, 150):
        try:
            index = paimon.read_file_index(changed, types=types, rows=500)
            verdict = index.evaluate(where)
            if index.notes:
                assert verdict.kind in ("remain", "rows", "skip")
            index.top_k("f0", 5, descending=False, nulls_first=False)
        except CorruptFile:
            continue
    assert not whole.notes


HEAD_ATTACKS = {
    "bitmap of two milliards of values": ("bitmap", struct.pack(">BiiB", 1, (1 << 31) - 1, (1 << 31) - 1, 0)),
    "bitmap v2 of two milliards of blocks": (
        "bitmap",
        struct.pack(">BiiBi", 2, (1 << 31) - 1, (1 << 31) - 1, 0, (1 << 31) - 1) + bytes(40),
    ),
    "more values than rows": ("bitmap", struct.pack(">BiiB", 1, 1, 2, 0) + bytes(40)),
    "range-bitmap of two milliards of values": (
        "range-bitmap",
        struct.pack(">iBiiiii", 21, 1, (1 << 31) - 1, (1 << 31) - 1, 0, 5, 17)
        + struct.pack(">iBiii", 13, 1, 0, 0, 0)
        + struct.pack(">iBBii", 10, 1, 0, 8, 0)
        + bytes(8),
    ),
    "bloom filter of two milliards of functions": ("bloom-filter", struct.pack(">i", (1 << 31) - 1) + bytes(8)),
    "bloom filter without bits": ("bloom-filter", struct.pack(">i", 3)),
    "bsi of a version to come": ("bsi", struct.pack(">BiBB", 2, 5, 0, 0)),
    "bsi of fewer than no rows": ("bsi", struct.pack(">BiBB", 1, -5, 0, 0)),
    "nothing": ("bsi", b""),
}


@pytest.mark.parametrize("name", list(HEAD_ATTACKS))
def test_heads_that_promise_too_much(name: str) -> None:
    kind, body = HEAD_ATTACKS[name]
    start = time.thread_time()
    with pytest.raises(CorruptFile):
        paimon.read_index(kind, body, "INT").check()
    assert time.thread_time() - start < SECONDS


def test_rows_past_the_end_of_the_file() -> None:
    import pyarrow as pa

    body = bytearray(paimon.build_index("bitmap", pa.array([1, 1, 2], pa.int32()), "INT").to_bytes())
    body[1:5] = struct.pack(">i", 2)
    index = paimon.read_index("bitmap", bytes(body), "INT")
    assert list(index.evaluate("eq", [1]).rows) == [0, 1]
    with pytest.raises(CorruptFile, match="row 2, but the file has only 2 rows"):
        index.evaluate("eq", [2])


def frames_of(error: BaseException) -> Iterator[Any]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def test_an_error_that_is_kept_holds_no_buffer(rng: np.random.Generator) -> None:
    """CPython 3.11 crashes when it collects a reference cycle that contains an exported memoryview. An error that is
    kept causes such a cycle.

    The fuzzer found this in case 1262 of seed 20261121 (a container). The process crashed later, in other code.
    """
    seen = 0
    for golden in goldens(FIXTURES / "paimon", "range"):
        if golden.body is None or len(golden.body) > MOST_BYTES:
            continue
        for changed in mutations(golden.body, rng, 20):
            try:
                paimon.read_index(golden.kind, changed, golden.sidecar["type"]).check()
            except CorruptFile as error:
                for frame in list(frames_of(error))[1:]:
                    for value in list(frame.f_locals.values()):
                        if isinstance(value, memoryview):
                            value.release()
                            seen += 1
    assert seen


def test_strict_errors_leave_nothing_to_the_collector() -> None:
    import pyarrow as pa

    body = bytearray(paimon.build_file_index(pa.table({"a": [1, 2, 3]}), {"range-bitmap": {"a": {}}}).to_bytes())
    body[-40:] = bytes(40)
    index = paimon.read_file_index(bytes(body), types={"a": "BIGINT"}, strict=True)

    def kept() -> weakref.ref[Any]:
        try:
            index.evaluate("a = 2")
        except CorruptFile as error:
            return weakref.ref(error)
        raise AssertionError("nothing was damaged")

    gc.collect()
    gc.disable()
    try:
        assert kept()() is None
    finally:
        gc.enable()
