"""The memory of the cache of plans is limited. The literals of an IN list are counted with their size in memory."""

from __future__ import annotations

import datetime
import decimal
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import INDEXES, PLANS, forget_metadata
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_plan import PLAN_BYTES, PLANNED_COLUMN_BYTES, SchemaColumns
from orcidx.predicate import dictionary_answers, parse, weight_of
from orcidx.predicate.dictionary_answers import DictionaryAnswers
from orcidx.storage import IdentityCache

KEYS = 2_000
EPOCH = datetime.datetime(2020, 1, 1)
VALUES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int64(), lambda i: (1 << 40) + i),
    "float": (pa.float64(), lambda i: i + 0.5),
    "float for integers": (pa.int64(), lambda i: i * 4096.0),
    "string": (pa.string(), "{:030d}".format),
    "binary": (pa.binary(), lambda i: i.to_bytes(30, "big")),
    "decimal": (pa.decimal128(20, 2), lambda i: decimal.Decimal(i + (1 << 40)) / 4),
    "decimal for floats": (pa.float64(), lambda i: decimal.Decimal(i + (1 << 40)) / 4),
    "date": (pa.date32(), lambda i: EPOCH.date() + datetime.timedelta(i)),
    "timestamp": (pa.timestamp("us"), lambda i: EPOCH + datetime.timedelta(seconds=i)),
}


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    forget_metadata()
    yield
    forget_metadata()


def _written(folder: Path, kind: pa.DataType, value: Any) -> Path:
    path = folder / "one.orc"
    orcidx.write_table(pa.table({"key": pa.array([value]).cast(kind)}), path)
    return path


@pytest.mark.parametrize("name", VALUES)
def test_a_plan_weighs_what_its_literals_take(name: str, tmp_path: Path) -> None:
    kind, make = VALUES[name]
    path = _written(tmp_path, kind, make(0))
    assert orcidx.open(path).scan(where=col("key").is_in([make(1)])).count_rows() == 0
    known = PLANS.weight
    gc.collect()
    tracemalloc.start()
    try:
        scan = orcidx.open(path).scan(where=col("key").is_in([make(i) for i in range(KEYS)]))
        assert scan.count_rows() == 1
        del scan
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 * held <= PLANS.weight - known <= 2 * held


def test_plans_of_long_lists_leave_as_others_come(tmp_path: Path) -> None:
    path = _written(tmp_path, pa.string(), "x")
    with orcidx.open(path) as file:
        for number in range(12):
            assert file.scan(where=col("key").is_in([f"{number}{i:02000}" for i in range(2_000)])).count_rows() == 0
            assert PLANS.weight <= PLANS.capacity
    assert 1 < len(PLANS) < 12


def test_a_plan_that_outweighs_the_cache_serves_the_next_file(tmp_path: Path) -> None:
    where = col("key").is_in([f"{i}" + "x" * 400_000 for i in range(100)])
    for number in range(3):
        orcidx.write_table(pa.table({"key": ["a"]}), tmp_path / f"{number}.orc")
    assert weight_of(where) > PLANS.capacity
    hits = PLANS.hits
    for number in range(3):
        assert orcidx.open(tmp_path / f"{number}.orc").scan(where=where).count_rows() == 0
    assert PLANS.hits >= hits + 2
    assert len(PLANS) == 1
    assert orcidx.open(tmp_path / "0.orc").scan(where=col("key") == "a").count_rows() == 1
    assert PLANS.weight < 1 << 20


def test_expressions_weigh_what_their_arrays_hold() -> None:
    few, many = (parse(pc.field("key").isin(pa.array(range(n), pa.int32()))) for n in (10, KEYS))
    assert weight_of(many) - weight_of(few) > 4 * (KEYS - 10)
    cast = pc.field("key").cast(pa.int64())
    few, many = (parse(cast.isin(pa.array(range(n), pa.int64()))) for n in (10, KEYS))
    assert weight_of(many) - weight_of(few) > 8 * (KEYS - 10)


def test_parts_add_up() -> None:
    long = col("a").is_in(range(KEYS))
    assert weight_of(None) == 0
    assert weight_of((col("b") == 1) | (long & ~(col("c") > 2))) > weight_of(long) > 32 * KEYS


def test_the_newest_value_alone_may_outweigh_a_cache() -> None:
    cache: IdentityCache[str] = IdentityCache(100, keeps_newest=True)
    cache.put("a", "a", 40)
    cache.put("b", "b", 300)
    assert (cache.get("a"), cache.get("b"), cache.weight) == (None, "b", 300)
    cache.put("b", "c", 200)
    assert (cache.get("b"), cache.weight, len(cache)) == ("c", 200, 1)
    cache.put("d", "d", 60)
    assert (cache.get("b"), cache.get("d"), cache.weight) == (None, "d", 60)


def test_answers_of_dictionaries_weigh_the_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached answers keep their dictionaries in memory, and one entry of a dictionary can have a megabyte."""
    monkeypatch.setattr(dictionary_answers, "MOST_BYTES", 1 << 20)
    answers, leaf = DictionaryAnswers(), object()
    before = pa.total_allocated_bytes()
    for number in range(20):
        dictionary = pa.array([f"{number}" + "x" * 100_000, "y" * 100_000])
        for _ in range(2):
            asked = answers.asked
            answers.of(leaf, dictionary, lambda: pa.array([True, False]).to_numpy(zero_copy_only=False))  # type: ignore[arg-type]
        assert answers.asked == asked, "the newest answer is cached"
        del dictionary
        assert pa.total_allocated_bytes() - before < 2 << 20


def test_plans_weigh_by_the_columns_of_which_they_tell() -> None:
    root: Any = SimpleNamespace(names=("a", "b"))
    wanted = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    for schema, constants, columns in ((None, {}, 2), (None, {"p": pa.int32()}, 3), (wanted, {"p": pa.int32()}, 6)):
        made = SchemaColumns(root, ScanRequest(schema=schema), constants, frozenset())
        assert made.weight == PLAN_BYTES + PLANNED_COLUMN_BYTES * columns


def test_row_indexes_are_kept_by_the_bytes_that_they_were_made_of(tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"a": range(5_000)}), tmp_path / "f.orc", row_index_stride=100)
    time.sleep(0.2)  # nothing is cached for a file that was just written
    with orcidx.open(tmp_path / "f.orc") as file:
        (stripe,) = file.stripes
        assert "row-group statistics" in file.scan(["a"], "a = 777").explain().skipped_by
        assert INDEXES.weight > stripe.index_length > 500
