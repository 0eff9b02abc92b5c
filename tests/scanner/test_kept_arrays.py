"""The compiled loops that copy the matching rows return the same results as pyarrow's filter."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.orc.kept_rows import Mask
from orcidx.scanner import kept_arrays, kept_values
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.survivors import picked

ROUNDS = int(os.environ.get("ORCIDX_PREDICATES", "60"))

Make = Callable[[np.random.Generator, int], Any]


def texts(rng: np.random.Generator, rows: int) -> list[str]:
    longest = int(rng.choice([3, 15, 16, 17, 40, 200]))
    return ["é" * int(length // 2) + "x" * int(length % 2) for length in rng.integers(0, longest + 1, rows)]


def numbers(kind: pa.DataType) -> Make:
    return lambda rng, rows: pa.array(rng.integers(0, 100, rows)).cast(kind)


KINDS: dict[str, Make] = {
    **{
        str(kind): numbers(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
    },
    "date": lambda rng, rows: pa.array(rng.integers(0, 100, rows).astype(np.int32)).cast(pa.date32()),
    "timestamp": numbers(pa.timestamp("ns")),
    "decimal": numbers(pa.decimal128(38, 2)),
    "wide decimal": numbers(pa.decimal256(60, 2)),
    "bool": lambda rng, rows: pa.array(rng.random(rows) < 0.5),
    "string": lambda rng, rows: pa.array(texts(rng, rows)),
    "large string": lambda rng, rows: pa.array(texts(rng, rows), pa.large_string()),
    "binary": lambda rng, rows: pa.array([text.encode() for text in texts(rng, rows)], pa.binary()),
    "fixed": lambda rng, rows: pa.array([rng.bytes(16) for _ in range(rows)], pa.binary(16)),
    "dictionary": lambda rng, rows: pa.array(texts(rng, rows)).dictionary_encode(),
    "null": lambda rng, rows: pa.nulls(rows),
    "list": lambda rng, rows: pa.array([[int(n)] * int(n) for n in rng.integers(0, 3, rows)], pa.list_(pa.int64())),
}


def some(rng: np.random.Generator, make: Make) -> pa.Array:
    array = make(rng, int(rng.choice([0, 1, 7, 8, 9, 64, 300])))
    if rng.random() < 0.5 and not pa.types.is_null(array.type):
        nulls = pa.array(rng.random(len(array)) < rng.choice([0.1, 1.0]))
        places = pa.array(np.arange(len(array))).filter(pa.array(~np.asarray(nulls))) if len(array) else None
        at = pa.array([None if null else row for row, null in enumerate(nulls.to_pylist())], pa.int64())
        array = array if places is None else array.take(at)
    return array.slice(int(rng.integers(0, 1 + len(array))))


def mask_of(rng: np.random.Generator, rows: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    share = rng.choice([0.0, 0.01, 0.05, 0.3, 0.8, 0.95, 1.0])
    mask = rng.random(rows) < share
    if rows and rng.random() < 0.3:
        first, last = sorted(rng.integers(0, rows, 2))
        mask[first:last] = rng.random() < 0.5
    return mask


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_those_that_pyarrow_keeps(name: str, rng: np.random.Generator) -> None:
    for _ in range(ROUNDS):
        array = some(rng, KINDS[name])
        mask = mask_of(rng, len(array))
        (found,) = picked([array], KeptRows(mask))
        found.validate(full=True)
        expected = array.filter(pa.array(mask, pa.bool_()))
        assert found.equals(expected), (array, mask)
        assert found.null_count == expected.null_count


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("at", [0, 1, 1022, 1023, 1024, 2047, 2999])
def test_one_string_of_another_length_among_equal_ones(at: int, kind: pa.DataType) -> None:
    """If all strings have the same length, they are copied like numbers. The loop must detect one string of another
    length among them."""
    texts = ["abcd"] * 3000
    texts[at] = "other"
    array, mask = pa.array(texts, kind), np.arange(3000) % 5 != 3
    (found,) = picked([array], KeptRows(mask))
    assert found.equals(array.filter(pa.array(mask)))


def copied(array: pa.Array) -> pa.Array:
    """Returns a copy of the array with its own mutable buffers, such as those that a reader makes."""
    buffers = []
    for one in array.buffers():
        mine = None if one is None else pa.allocate_buffer(one.size)
        if mine is not None:
            memoryview(mine).cast("B")[:] = memoryview(one).cast("B")
        buffers.append(mine)
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


@pytest.mark.parametrize("name", ["int8", "int16", "date", "double", "decimal", "timestamp", "fixed"])
def test_values_are_moved_within_their_memory(name: str, rng: np.random.Generator) -> None:
    moved = 0
    for _ in range(ROUNDS * 3):
        array = some(rng, KINDS[name]) if rng.random() < 0.5 else KINDS[name](rng, int(rng.choice([8, 9, 64, 300])))
        array = copied(array)
        mask = rng.random(len(array)) < rng.choice([0.5, 0.97, 0.99, 1.0])
        kept = KeptRows(mask)
        expected = array.filter(pa.array(mask, pa.bool_()))
        place = array.buffers()[1].address if len(array) else 0
        (found,) = picked([array], kept, owned=True)
        found.validate(full=True)
        assert found.equals(expected), mask
        moved += bool(len(found)) and found.buffers()[1].address == place
    assert moved > ROUNDS // 4, "the memory of an array is reused if nearly all its rows are kept"


def test_which_are_carried(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = Mask(np.array([1, 0, 1], np.uint8))
    left = {name for name, make in KINDS.items() if kept_arrays.kept_array(make(rng, 3), mask) is None}
    assert left == {"wide decimal", "null", "list"}
    monkeypatch.setattr(kept_arrays, "ENABLED", False)
    assert kept_arrays.kept_array(pa.array([1, 2, 3]), mask) is None


def test_sizes_that_do_not_fit() -> None:
    values, out, mask = np.zeros(24, np.uint8), np.zeros(24, np.uint8), Mask(np.array([1, 0, 1], np.uint8))
    for wrong, message in (
        ((values, 3, mask, out), "3 bytes"),
        ((values[:-1], 8, mask, out), "as many"),
        ((values, 8, mask, out[:-1]), "room"),
    ):
        with pytest.raises(ValueError, match=message):
            kept_values.keep_fixed(*wrong)
        if message != "room":
            with pytest.raises(ValueError, match=message):
                kept_values.keep_here(*wrong[:3])


def test_masks() -> None:
    assert (Mask(np.zeros(0, np.uint8)).rows, Mask(np.zeros(0, np.uint8)).count) == (0, 0)
    for rows in (1, 31, 32, 40, 5000):
        for at in {0, 31, 32, rows - 1} & set(range(rows)):
            flags = np.ones(rows, np.uint8)
            flags[at] = 0
            assert (Mask(flags).rows, Mask(flags).count) == (rows, rows - 1)
            for other in (2, 128, 255):
                flags[at] = other
                with pytest.raises(ValueError, match="zeros and ones"):
                    Mask(flags)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_nothing_is_written_after_the_spare_value(width: int, rng: np.random.Generator) -> None:
    for rows in [*range(1, 80), 1000, 5000]:
        for share in (0.0, 0.02, 0.1, 0.5, 0.97, 1.0):
            mask = rng.random(rows) < share
            count = int(mask.sum())
            values = rng.integers(0, 256, (rows, width), np.uint8)
            memory = np.full((count + 9) * width, 0xA5, np.uint8)
            flags = Mask(mask.view(np.uint8))
            kept_values.keep_fixed(values.reshape(-1), width, flags, memory[: (count + 1) * width])
            assert np.array_equal(memory[: count * width], values[mask].reshape(-1))
            assert (memory[(count + 1) * width :] == 0xA5).all()
            moved = np.concatenate([values.reshape(-1), np.full(64, 0xA5, np.uint8)])
            kept_values.keep_here(moved[: rows * width], width, flags)
            assert np.array_equal(moved[: count * width], values[mask].reshape(-1))
            assert (moved[rows * width :] == 0xA5).all()


def test_strings_that_do_not_fit() -> None:
    offsets, mask = np.array([0, 2, 4, 6], np.int32), Mask(np.array([1, 0, 1], np.uint8))
    starts, places = np.zeros(3, np.int32), np.zeros(4, np.int32)
    for wrong in ((offsets[:-1], mask, starts, places), (offsets, mask, starts[:-1], places)):
        with pytest.raises(ValueError, match="room"):
            kept_values.keep_offsets(*wrong)
    assert kept_values.keep_offsets(offsets, mask, starts, places) == 4
    data, out = np.arange(6, dtype=np.uint8), np.zeros(36, np.uint8)
    kept_values.keep_bytes(data, starts, places, 2, False, out)
    assert out[:4].tolist() == [0, 1, 4, 5]
    with pytest.raises(ValueError, match="outside"):
        kept_values.keep_bytes(data[:5], starts, places, 2, False, out)
    with pytest.raises(ValueError, match="room"):
        kept_values.keep_bytes(data, starts, places, 2, False, out[:-1])
    with pytest.raises(ValueError, match="a start"):
        kept_values.keep_bytes(data, starts, places, 4, False, out)


def test_how_kept_rows_lie(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers and runs of the matching rows, and the first and last matching row, are compared with NumPy's
    results."""
    for _ in range(ROUNDS * 10):
        mask = mask_of(rng, int(rng.choice([0, 1, 7, 8, 31, 32, 33, 64, 300])))
        monkeypatch.setattr(kept_arrays, "ENABLED", True)
        compiled = KeptRows(mask)
        told = compiled.runs(), compiled.reach, compiled.are_scattered, compiled.numbers.tolist()
        monkeypatch.setattr(kept_arrays, "ENABLED", False)
        plain = KeptRows(mask)
        assert told == (plain.runs(), plain.reach, plain.are_scattered, plain.numbers.tolist()), mask
        narrowed = compiled.narrowed()
        first, stop = compiled.reach
        assert narrowed.mask.tolist() == mask[first:stop].tolist()
        assert (narrowed.numbers + first).tolist() == told[3]


def test_rows_that_are_not_there() -> None:
    values, rows, out = np.arange(24, dtype=np.uint8), np.array([0, 2], np.int32), np.zeros(16, np.uint8)
    for wrong, message in (
        ((values, 3, rows, out), "3 bytes"),
        ((values, 8, rows, out[:-1]), "room"),
        ((values, 8, np.array([0, 3], np.int32), out), "row 3 does not exist: there are 3"),
        ((values, 8, np.array([-1, 0], np.int32), out), "row -1 does not exist: there are 3"),
        ((values[:7], 8, rows, out), "row 0 does not exist: there are 0"),
    ):
        with pytest.raises(ValueError, match=message):
            kept_values.take_fixed(*wrong)
    kept_values.take_fixed(values, 8, rows, out)
    assert out.tolist() == [*range(8), *range(16, 24)]
    with pytest.raises(ValueError, match="room for at least one run"):
        kept_values.runs_of(np.ones(3, np.uint8), np.empty((0, 2), np.int64))


def test_row_numbers_are_complete_before_other_threads_see_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads may see the row numbers only after all of them were written. If other threads saw them earlier,
    they would copy wrong rows of other columns."""
    kept = KeptRows(np.arange(100) % 3 == 0)
    keep_rows = kept_values.keep_rows

    def checked(mask: Any, out: Any) -> None:
        assert kept._numbers is None
        keep_rows(mask, out)

    monkeypatch.setattr(kept_values, "keep_rows", checked)
    assert kept.numbers.tolist() == list(range(0, 100, 3))
