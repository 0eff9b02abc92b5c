"""Stripes that are read at the same time. Batches, counts, errors and counters are the same for any number of
threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx.errors import CorruptFile, OrcidxError
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.planner.stripe_pruning import FilePruner
from orcidx.scanner import column_group, span_plan, span_reader, stripes_together
from orcidx.scanner.chains import Chains
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.stripes_together import StripesTogether
from orcidx.storage import local, open_reader

ROWS = 30_000
THREADS = (1, 2, 3, 8)
AMPLE: dict[str, Any] = {"ahead_bytes": 1 << 30, "io_bytes": 1 << 30}
"""Enough memory for eight stripes at the same time."""


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)
    monkeypatch.setattr(stripes_together, "LEAST_ROWS", 1)
    monkeypatch.setattr(span_plan, "EQUAL_ROWS", 1)
    monkeypatch.setattr(local, "SMALL_FILE_BYTES", 0)
    before = pa.cpu_count()
    yield
    pa.set_cpu_count(before)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(11)
    words = np.array(["", "a", "bc", "words of several lengths", "xyz"])
    return pa.table(
        {
            "key": np.arange(ROWS),
            "noise": random.integers(0, 1000, ROWS),
            "word": words[random.integers(0, len(words), ROWS)],
            "text": [f"{number:x}" * (number % 5) for number in random.integers(0, 1 << 60, ROWS)],
            "price": pa.array(random.integers(0, 10_000, ROWS)).cast(pa.decimal128(21, 0)).cast(pa.decimal128(12, 0)),
            "nulls": pa.array(random.random(ROWS), mask=random.random(ROWS) < 0.2),
        }
    )


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Writes a file of several stripes."""
    path = tmp_path_factory.mktemp("together") / "file.orc"
    sizes = {"row_index_stride": 1000, "stripe_size": 150_000, "compression_block_size": 1 << 12}
    orcidx.write_table(table, path, compression="zstd", **sizes)
    with orcidx.open(path) as file:
        assert len(file.stripes) > 5
    # The metadata of a file that was just written is not cached, so a scan would need more requests.
    while open_reader(str(path)).identity is None:
        time.sleep(0.05)
    return str(path)


class Made:
    """Records the ``StripesTogether`` objects that scans make, and the largest number of stripes that were begun and
    not yet finished."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[StripesTogether] = []
        self.most = 0
        begin = StripesTogether._begin

        def counted(together: StripesTogether, number: int) -> Any:
            reading = begin(together, number)
            if together not in self.found:
                self.found.append(together)
            self.most = max(self.most, len(together._begun) + 1)
            return reading

        monkeypatch.setattr(StripesTogether, "_begin", counted)


Outcome = tuple[list[pa.RecordBatch], str, dict[str, Any]]


def outcome(path: str, threads: int, *, rows: int = 1, for_table: bool = True, **options: Any) -> Outcome:
    """Returns the batches of a scan, the error that ended the scan, and its counters. If ``for_table`` is True, the
    scan makes the batches of a table. If it is False, the scan makes batches for an engine that takes all of them."""
    options = {**AMPLE, **options}
    pa.set_cpu_count(threads)
    forget_metadata()
    batches: list[pa.RecordBatch] = []
    metrics = ScanMetrics()
    failed = ""
    try:
        with orcidx.open(path) as file:
            scan = file.scan(**options)
            request = scan._limited
            request = request.as_table(rows) if for_table else request.in_large_batches(rows)
            batches.extend(scan._batches(request, metrics))
    except OrcidxError as error:
        failed = f"{type(error).__name__}: {error}"
    counted = metrics.to_dict()
    del counted["seconds"]
    return batches, failed, {} if failed else counted


def same_for_all(path: str, *, counters: bool = True, **options: Any) -> Outcome:
    first = outcome(path, 1, **options)
    for threads in THREADS[1:]:
        other = outcome(path, threads, **options)
        assert [batch.num_rows for batch in other[0]] == [batch.num_rows for batch in first[0]]
        assert all(map(pa.RecordBatch.equals, other[0], first[0]))
        assert other[1] == first[1]
        assert other[2] == first[2] or not counters
    return first


QUERIES: list[dict[str, Any]] = [
    {"where": "noise > 20"},
    {"where": "noise > 980", "columns": ["text", "price"]},
    {"where": "word = 'bc' OR key > 25000"},
    {"where": "price < 100 AND noise < 500", "columns": ["key", "word"]},
    {"where": "key = 17000"},
    {"where": "noise < 0"},
    {"where": "noise >= 0", "row_range": (500, 21_000)},
    {"where": "text LIKE '%ab%'", "columns": ["text", "nulls"], "selection": list(range(5, ROWS, 7))},
    {"where": "word IN ('a', 'xyz')", "strings": "dictionary"},
    {"where": "nulls < 0.5", "row_numbers": "at", "columns": ["word"]},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("batch_size", [300, 1 << 20])
def test_any_number_of_threads(path: str, query: dict[str, Any], batch_size: int) -> None:
    batches, failed, _ = same_for_all(path, batch_size=batch_size, **query)
    assert failed == ""
    others, failed, _ = same_for_all(path, batch_size=batch_size, for_table=False, **query)
    assert failed == ""
    assert sum(len(one) for one in others) == sum(len(one) for one in batches)
    if batches:
        assert pa.Table.from_batches(others).equals(pa.Table.from_batches(batches))
    with orcidx.open(path) as file:
        scan = file.scan(**query)
        for threads in THREADS:
            pa.set_cpu_count(threads)
            assert scan.count_rows() == sum(batch.num_rows for batch in batches)


def test_stripes_are_read_together(path: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    pa.set_cpu_count(3)
    with orcidx.open(path) as file:
        found = file.scan(where="noise > 20", **AMPLE).to_table()
        assert len(made.found) == 1
        assert made.most == 3
        assert file.scan(where="noise > 20", **AMPLE).count_rows() == len(found)
    assert len(made.found) == 2
    assert found.equals(table.filter(pc.field("noise") > 20))


def test_random_conditions(path: str, table: pa.Table, rng: np.random.Generator) -> None:
    for _ in range(6):
        first, last = sorted(rng.integers(0, 1000, 2).tolist())
        options: dict[str, Any] = {"batch_size": int(rng.choice([700, 5000, 1 << 20]))}
        if rng.random() < 0.5:
            options["batch_bytes"] = int(rng.choice([30_000, 200_000]))
        counters = "batch_bytes" not in options  # with a limit of bytes, some chunks may be counted twice
        if rng.random() < 0.5:
            options["columns"] = rng.permutation(table.column_names)[:3].tolist()
        where = (orcidx.col("noise") >= first) & (orcidx.col("noise") <= last)
        options["for_table"] = bool(rng.random() < 0.5)
        batches, failed, _ = same_for_all(path, counters=counters, where=where, **options)
        assert failed == ""
        expected = table.filter((pc.field("noise") >= first) & (pc.field("noise") <= last))
        assert sum(batch.num_rows for batch in batches) == len(expected)
        if batches:
            assert pa.Table.from_batches(batches).equals(expected.select(batches[0].schema.names))


def test_damaged_files(path: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """The scan raises the error that a single thread finds first. All rows before this error are returned."""
    data = Path(path).read_bytes()
    failures = 0
    for _ in range(12):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), 4).tolist():
            damaged[at] ^= 1 << int(rng.integers(0, 8))
        file = tmp_path / "damaged.orc"
        file.write_bytes(damaged)
        _, failed, _ = same_for_all(str(file), counters=False, where="noise > 100", batch_size=500)
        failures += bool(failed)
        same_for_all(str(file), counters=False, where="noise > 100", rows=1 << 20, for_table=bool(rng.random() < 0.5))
    assert failures > 2


def test_rows_before_an_error_in_a_later_stripe(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = span_reader.SpanReader._read

    def failing(reader: Any, start: int, stop: int) -> Any:
        if reader.groups.first.stripe.number == 2 and start > 0:
            raise CorruptFile("made up", stripe=reader.groups.first.stripe.number)
        return read(reader, start, stop)

    whole, _, _ = same_for_all(path, where="noise > 20", batch_size=500)
    monkeypatch.setattr(span_reader.SpanReader, "_read", failing)
    batches, failed, _ = same_for_all(path, where="noise > 20", batch_size=500)
    assert "made up" in failed
    assert 5 < len(batches) < len(whole)
    assert all(map(pa.RecordBatch.equals, batches[:-1], whole))


def test_a_decision_that_fails(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the decision about the rows of a stripe fails, the error is raised after the rows of the earlier stripes were
    returned."""
    decide = FilePruner.decide

    def failing(pruner: FilePruner, stripe: int) -> Any:
        if stripe == 1:
            raise CorruptFile("made up", stripe=stripe)
        return decide(pruner, stripe)

    monkeypatch.setattr(FilePruner, "decide", failing)
    batches, failed, _ = same_for_all(path, where="noise > 20", batch_size=500)
    assert "made up" in failed
    with orcidx.open(path) as file:
        first = file.scan(stripes=[0], where="noise > 20").count_rows()
        assert 0 < sum(batch.num_rows for batch in batches) <= first
        with pytest.raises(CorruptFile, match="made up"):
            file.scan(where="noise > 20").count_rows()


def test_closing_early_waits_for_the_threads(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pa.set_cpu_count(2)
    made = Made(monkeypatch)
    begun, go_on, order = threading.Event(), threading.Event(), []
    caller = threading.current_thread()
    read = span_reader.SpanReader._read

    def slow(reader: Any, start: int, stop: int) -> Any:
        # The first stripe is not delayed, because the caller waits for its rows.
        if threading.current_thread() is not caller and reader.filter.rows.first_row > 0:
            begun.set()
            assert go_on.wait(60)
            order.append("read")
        return read(reader, start, stop)

    monkeypatch.setattr(span_reader.SpanReader, "_read", slow)
    with orcidx.open(path) as file:
        scan = file.scan(where="noise > 20", batch_size=300)
        with closing(scan._batches(scan._limited.as_table(1), ScanMetrics())) as batches:
            next(batches)
            assert begun.wait(60)
            threading.Timer(0.1, go_on.set).start()
        order.append("closed")
    assert order[-1] == "closed"
    assert not made.found[0]._begun


def test_results_for_an_engine_fit_into_the_memory(path: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that the engine has not taken yet have at most ``ahead_bytes``. In addition, each stripe that was begun
    may have one result."""
    made = Made(monkeypatch)
    monkeypatch.setattr(stripes_together, "LEAST_STEP_BYTES", 1)
    pa.set_cpu_count(3)
    most, held, rows = 100_000, 0, 0
    options = {"batch_size": 500, "ahead_bytes": most, "io_bytes": 1 << 30, "batch_bytes": 30_000}
    with orcidx.open(path) as file:
        scan = file.scan(where="noise >= 0", **options)
        for batch in scan._batches(scan._limited.in_large_batches(1), ScanMetrics()):
            rows += batch.num_rows
            time.sleep(0.001)  # meanwhile the threads finish all possible steps
            (together,) = made.found
            rounds = [one for reading in together._begun.values() for one in reading.rounds]
            waiting = sum(result.nbytes for one in rounds for result in one.results if result is not None)
            held = max(held, waiting)
            assert waiting <= most or len(rounds) <= len(together._begun)
    assert rows == len(table)
    assert held > 20_000


def test_a_slow_caller_of_batches_holds_one_stripe(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If batches are taken one by one, or if there is a limit, the scan reads one stripe after the other. The same is
    true without threads, and with little memory."""
    made = Made(monkeypatch)
    pa.set_cpu_count(2)
    with orcidx.open(path) as file:
        for batch in file.scan(where="noise > 20", batch_size=1000):
            assert batch.num_rows
            time.sleep(0.001)
        assert file.scan(where="noise > 20").limit(500).to_table().num_rows == 500
        assert file.scan(where="noise > 20", use_threads=False).to_table().num_rows
        assert file.scan(where="noise > 20", ahead_bytes=0).to_table().num_rows
        assert file.scan(where="noise > 20", io_bytes=1 << 16).to_table().num_rows
    assert not made.found


def test_the_last_stripes_end_together(path: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """For three stripes and two threads, all stripes are begun, and their steps are added in turn. For an engine, whose
    memory is limited, only two stripes are begun."""
    made = Made(monkeypatch)
    added: list[int] = []

    class Recorded(Chains):  # type: ignore[misc]
        def add(self, chains: Any, tasks: Any, *, urgent: bool = False) -> Any:
            added.extend(chains)
            return super().add(chains, tasks, urgent=urgent)

    monkeypatch.setattr(stripes_together, "Chains", Recorded)
    pa.set_cpu_count(2)
    with orcidx.open(path) as file:
        rows = [one.rows for one in file.stripes][:3]
        scan = file.scan(stripes=[0, 1, 2], where="noise > 20", batch_size=300, **AMPLE)
        wanted = table.slice(0, sum(rows)).filter(pc.field("noise") > 20)
        assert scan.to_table().equals(wanted)
        assert made.most == 3
        for stop in range(3, 3 * stripes_together.STEPS_AHEAD):
            shares = [added[:stop].count(chain) / rows[chain] for chain in range(3)]
            assert max(shares) - min(shares) <= 1 / min(rows)
        assert scan.count_rows() == len(wanted)
        made.most = 0
        batches = scan._batches(scan._limited.in_large_batches(1), ScanMetrics())
        assert sum(batch.num_rows for batch in batches) == len(wanted)
        assert made.most == 2
        more = file.scan(stripes=[0, 1, 2], where="noise > 20", **{**AMPLE, "io_bytes": 3 << 20})
        made.most = 0
        assert more.to_table().num_rows == len(wanted)
        assert made.most < 3, "the bytes of three stripes do not fit into the memory"


def test_the_stripes_after_the_last_full_round() -> None:
    first = partial(stripes_together._first_together, all_end_together=False)
    assert first([100, 100], 2, 5) == 2
    assert first([100, 100, 100], 2, 5) == 2
    assert first([100, 100, 100, 100], 2, 5) == 4
    assert first([100, 5], 2, 5) == 0
    assert first([100, 100, 100, 5], 2, 5) == 2
    assert first([100] * 15, 8, 7) == 15
    assert first([100, 100], 8, 7) == 0


def test_stripes_that_end_together() -> None:
    first = partial(stripes_together._first_together, all_end_together=True)
    assert first([100, 100, 100], 2, 5) == 3
    assert first([100, 100, 100, 5], 2, 5) == 4
    assert first([200, 5, 5], 2, 5) == 0
    assert first([100] * 9, 8, 7) == 9
    assert first([100, 100, 100], 8, 7) == 0


def test_a_condition_whose_columns_cannot_be_planned(path: str) -> None:
    for threads in THREADS:
        pa.set_cpu_count(threads)
        with orcidx.open(path) as file, pytest.raises(orcidx.InvalidQuery):
            file.scan(["missing"], where="noise > 20").to_table()
