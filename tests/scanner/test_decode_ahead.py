"""Columns that threads decode ahead. Batches, errors and counters are the same for any number of threads, and threads
do not decode more ahead than is allowed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx.errors import CorruptFile, OrcidxError
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.planner import data_fetches
from orcidx.scanner import column_group, decode_ahead, decode_pool, row_width, small_stripes
from orcidx.scanner.column_cursor import ColumnCursor
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.storage import local, open_reader

ROWS = 3000
THREADS = (1, 2, 3, 8)
LARGEST = 1 << 18


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)
    monkeypatch.setattr(decode_ahead, "FEW_VALUES", 0)
    monkeypatch.setattr(decode_ahead, "LEAST_RESERVED_BYTES", 1000)
    monkeypatch.setattr(local, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(small_stripes, "SMALL_STRIPE_BYTES", 0)
    before = pa.cpu_count()
    yield
    pa.set_cpu_count(before)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(5)
    words = [f"word {number % 37}" if number % 11 else None for number in range(ROWS)]
    return pa.table(
        {
            "key": np.arange(ROWS),
            "noise": random.integers(0, 1 << 50, ROWS),
            "word": words,
            "text": [f"{number:x}" * (number % 23) for number in random.integers(0, 1 << 60, ROWS)],
            "list": [list(range(number % 5)) if number % 7 else None for number in range(ROWS)],
            "struct": [{"a": number / 3, "b": words[number]} for number in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Writes several stripes of many row groups, which are too large to be read at once."""
    path = tmp_path_factory.mktemp("ahead") / "file.orc"
    sizes = {"row_index_stride": 100, "stripe_size": 60_000, "compression_block_size": 1 << 10}
    orcidx.write_table(table, path, compression="zstd", **sizes)
    # The metadata of a file that was just written is not cached, so a scan would need more requests.
    while open_reader(str(path)).identity is None:
        time.sleep(0.05)
    return str(path)


Outcome = tuple[list[pa.RecordBatch], str, dict[str, Any]]


def outcome(path: str, threads: int, *, requests: bool = True, **options: Any) -> Outcome:
    """Returns the batches of a scan, the error that ended it, and its counters."""
    pa.set_cpu_count(threads)
    forget_metadata()
    batches: list[pa.RecordBatch] = []
    failed = ""
    counted: dict[str, Any] = {}
    try:
        with orcidx.open(path) as file:
            stream = file.scan(**options).to_batches()
            try:
                batches.extend(stream)
            finally:
                counted = stream.metrics.to_dict()
    except OrcidxError as error:
        failed = f"{type(error).__name__}: {error}"
    counted.pop("seconds", None)
    if failed:  # after an error, the counters may depend on the number of threads
        counted = {}
    if not requests:
        counted = {name: value for name, value in counted.items() if name not in ("requests", "bytes_read")}
    return batches, failed, counted


def same_for_all(path: str, **options: Any) -> Outcome:
    """Returns the outcome of a scan. It must not depend on the number of threads. If all rows are returned, the batches
    and the error must not depend either on whether several batches are read at once. Otherwise batches end where a read
    ends, so the rows are compared."""
    first = outcome(path, 1, **options)
    others = [outcome(path, threads, **options) for threads in THREADS[1:]]
    assert all(other[1:] == first[1:] for other in others)
    others += [outcome(path, 1, use_threads=False, **options)]
    with mock.patch.object(row_width, "ENABLED", False):
        single = outcome(path, 1, **options)
    if options.keys() & {"where", "selection"}:
        assert bool(single[1]) == bool(first[1])
        assert rows_alike(single[0], first[0], whole=not first[1])
    else:
        others.append(single)
    for other in others:
        assert [batch.num_rows for batch in other[0]] == [batch.num_rows for batch in first[0]]
        assert all(mine.equals(its) for mine, its in zip(other[0], first[0]))
        assert other[1] == first[1]
    return first


def rows_alike(one: list[pa.RecordBatch], other: list[pa.RecordBatch], *, whole: bool) -> bool:
    """Whether both have the same rows. If ``whole`` is False, one of them may end earlier."""
    if not one or not other:
        return not whole or len(one) == len(other)
    tables = pa.Table.from_batches(one), pa.Table.from_batches(other)
    rows = min(table.num_rows for table in tables)
    return tables[0].slice(0, rows).equals(tables[1].slice(0, rows)) and (not whole or len(tables[0]) == len(tables[1]))


QUERIES: list[dict[str, Any]] = [
    {},
    {"where": "noise > 500000000000000"},
    {"where": "word = 'word 5' OR key > 2500"},
    {"where": "key >= 700", "columns": ["text"]},
    {"limit": 1700},
    {"columns": ["text"], "selection": list(range(5, ROWS, 611))},
    {"strings": "dictionary"},
    {"row_index": False, "row_range": (777, 2600)},
]


@pytest.mark.parametrize("name", ["key", "noise", "text", "struct"])
def test_a_column_alone_in_many_pieces(path: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for limit in ("SMALLEST_PIECE_BYTES", "LOCAL_PIECE_BYTES", "LOCAL_BYTES"):
        monkeypatch.setattr(data_fetches, limit, 3000)
    for batch_size in (70, 400, 2000):
        same_for_all(path, columns=[name], batch_size=batch_size)


def test_a_caller_who_takes_his_time_with_a_column_alone(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the caller is slow, other threads begin the next spans. When the caller needs these spans, it uses their
    results."""
    monkeypatch.setattr(row_width, "ENABLED", False)  # each span has one batch, so there are many spans
    pa.set_cpu_count(2)
    begun = Begun(monkeypatch)
    with orcidx.open(path) as file:
        whole = file.scan(["text"], use_threads=False).to_table()
        batches = file.scan(["text"], batch_size=50).to_batches()
        found, spans = [], []
        for number, batch in enumerate(batches):
            found.append(batch)
            spans.append(begun.spans)
            if 10 <= number < 20:
                time.sleep(0.002)
    assert pa.Table.from_batches(found).equals(whole)
    assert spans[20] - spans[9] > 8
    assert spans[-1] < len(spans)


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("batch_size", [100, 400])
def test_any_number_of_threads(path: str, table: pa.Table, query: dict[str, Any], batch_size: int) -> None:
    batches, failed, _ = same_for_all(path, batch_size=batch_size, **query)
    assert failed == ""
    if not query:
        assert pa.Table.from_batches(batches).equals(table)


def test_batches_that_turn_out_too_large(path: str, table: pa.Table) -> None:
    """Later rows are larger than the first rows. So batches that were decoded ahead are larger than ``batch_bytes``,
    and each of them is read again in halves."""
    for batch_bytes in (9000, 20_000):
        first = outcome(path, 1, batch_bytes=batch_bytes)
        assert pa.Table.from_batches(first[0]).equals(table)
        for threads in THREADS[1:]:
            other = outcome(path, threads, batch_bytes=batch_bytes)
            assert other[0] == first[0]


def test_examples(golden_orc: Path) -> None:
    for path in sorted(golden_orc.rglob("*.orc")):
        if path.stat().st_size < LARGEST:
            same_for_all(str(path), batch_size=1000, row_range=(0, 10_000))


@pytest.mark.parametrize(
    ("seed", "count", "asked"),
    [
        (17, 10, {"batch_size": 100}),
        (23, 12, {"columns": ["text"], "batch_size": 400}),
        (31, 12, {"where": "noise > 100", "batch_size": 200}),
        (37, 12, {"where": "word = 'word 5' OR key > 700", "batch_size": 100}),
    ],
    ids=["all", "a column alone", "nearly all match", "first few match, then all"],
)
def test_damaged_files(path: str, tmp_path: Path, seed: int, count: int, asked: dict[str, Any]) -> None:
    """In a damaged file, threads that decode ahead may find an error in later rows first. The error that is raised is
    the one that a single thread would find first."""
    same_for_damaged(path, tmp_path, seed, count, **asked)


@pytest.mark.parametrize("where", [None, "key >= 0", "key > 100 AND noise <> 7"])
@pytest.mark.parametrize("batch_size", [30, 100])
def test_damaged_files_of_small_stripes(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, where: str | None
) -> None:
    """The columns of small stripes are read together. After a failure all of them must go back."""
    monkeypatch.setattr(column_group, "MANY_ROWS", 1 << 30)
    asked = {} if where is None else {"where": where}
    same_for_damaged(path, tmp_path, seed=41, count=12, batch_size=batch_size, **asked)


def same_for_damaged(path: str, tmp_path: Path, seed: int, count: int, **asked: Any) -> None:
    data = Path(path).read_bytes()
    random = np.random.default_rng(seed)
    failures = 0
    for _ in range(count):
        damaged = bytearray(data)
        for at in random.integers(0, len(data), 3).tolist():
            damaged[at] ^= 1 << int(random.integers(0, 8))
        file = tmp_path / "damaged.orc"
        file.write_bytes(damaged)
        _, failed, _ = same_for_all(str(file), requests=False, **asked)
        failures += bool(failed)
    assert failures > count // 6


class Begun:
    """Counts the spans that are begun in all stripes, and records the maximum of the bytes that are reserved for spans
    that are decoded ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans = 0
        self.most = 0
        begin = DecodeAhead._begin

        def counted(ahead: DecodeAhead, *arguments: Any) -> Any:
            span = begin(ahead, *arguments)
            self.spans += 1
            self.most = max(self.most, sum(one.reserved for one in list(ahead._spans)[1:]))
            return span

        monkeypatch.setattr(DecodeAhead, "_begin", counted)


@pytest.mark.parametrize("several", [False, True])
def test_nothing_is_ahead_before_the_second_batch_is_asked_for(
    path: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``several``: whether a span may have several batches."""
    monkeypatch.setattr(row_width, "ENABLED", several)
    pa.set_cpu_count(2)
    begun = Begun(monkeypatch)
    with orcidx.open(path) as file:
        batches = file.scan(["key", "noise"], batch_size=50).to_batches()
        next(batches)
        assert begun.spans == 1
        ahead = []
        for number in range(2, 9):
            next(batches)
            ahead.append(begun.spans - number)
        batches.close()
    assert max(ahead) == 1 if several else ahead == [1, 2, 3, 4, 5, 6, 7]


def test_ahead_is_bounded_in_bytes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pa.set_cpu_count(2)
    begun = Begun(monkeypatch)
    outcome(path, 2, batch_size=50, ahead_bytes=30_000)
    assert 10_000 < begun.most <= 30_000
    begun.most = 0
    outcome(path, 2, batch_size=50, ahead_bytes=0)
    assert begun.most == 0


def test_closing_waits_for_what_runs(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``close`` waits for the threads that decode ahead. A file descriptor is closed only when no thread reads from
    it."""
    pa.set_cpu_count(2)
    begun, go_on, order = threading.Event(), threading.Event(), []
    caller = threading.current_thread()
    read = ColumnCursor.read

    def slow(cursor: ColumnCursor, *arguments: Any) -> pa.Array:
        if threading.current_thread() is not caller:
            begun.set()
            assert go_on.wait(60)
            order.append("read")
        return read(cursor, *arguments)

    with orcidx.open(path) as file:
        batches = file.scan(batch_size=50).to_batches()
        next(batches)
        next(batches)
        monkeypatch.setattr(ColumnCursor, "read", slow)
        # The caller waits until another thread begins a column. If no thread begins a column, the caller reads the
        # next batch.
        for _ in range(3):
            if begun.wait(0.2):
                break
            threading.Timer(0.2, go_on.set).start()
            next(batches)
        threading.Timer(0.1, go_on.set).start()
        batches.close()
        order.append("closed")
    assert order[-1] == "closed"


def test_a_failure_ahead_waits_for_its_rows(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns ``text`` and ``list`` fail at row 400, and ``key`` fails at row 500. The scan returns 400 rows and
    raises the error of ``text``, although ``key`` is the first column."""
    read = ColumnCursor.read

    def failing(cursor: ColumnCursor, start: int, rows: int, *arguments: Any) -> pa.Array:
        name = cursor._reader.node.dotted
        row = {"key": 500, "text": 400, "list": 400}.get(name, -1)
        if start <= row < start + rows:
            raise CorruptFile("made up", column=name)
        return read(cursor, start, rows, *arguments)

    monkeypatch.setattr(ColumnCursor, "read", failing)
    batches, failed, _ = same_for_all(path, batch_size=100)
    assert sum(batch.num_rows for batch in batches) == 400
    assert "column text" in failed


class Asked:
    """Counts how often other threads are asked to decompress chunks, and stores the cursors of the columns that have
    these chunks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.cursors: list[ColumnCursor] = []
        decompress = ColumnCursor.decompress_ahead

        def kept(cursor: ColumnCursor, ask: Callable[[Any], None], **options: Any) -> None:
            def counted(chunks: Any) -> None:
                self.count += 1
                ask(chunks)

            self.cursors.append(cursor)
            decompress(cursor, counted, **options)

        monkeypatch.setattr(ColumnCursor, "decompress_ahead", kept)

    @property
    def held_bytes(self) -> int:
        return sum(chunks.held_bytes for cursor in self.cursors for chunks in cursor.chunks_ahead)


@pytest.mark.parametrize("name", ["text", "struct"])
def test_chunks_of_a_column_alone_are_decompressed_ahead(path: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """If a scan reads one column, threads that decode nothing decompress the next chunks for the threads that decode
    it."""
    asked = Asked(monkeypatch)
    for batch_size in (100, 400):
        same_for_all(path, columns=[name], batch_size=batch_size)
    assert asked.count > 3
    asked.count = 0
    outcome(path, 2, columns=[name, "key"], batch_size=400)
    outcome(path, 2, columns=[name], batch_size=400, ahead_bytes=0)
    assert not asked.count


def test_chunks_of_the_only_column_of_a_condition_are_decompressed_ahead(
    path: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the column of the condition is decoded, the other columns wait, so there is a thread that decodes
    nothing."""
    asked = Asked(monkeypatch)
    wanted = table["text"][1234].as_py()
    for columns in (["key"], ["key", "text"]):
        asked.count = 0
        same_for_all(path, columns=columns, where=orcidx.col("text") == wanted, batch_size=400)
        assert asked.count > 3
    asked.count = 0
    outcome(path, 2, columns=["key"], where=(orcidx.col("text") == wanted) & (orcidx.col("noise") >= 0), batch_size=400)
    assert not asked.count, "two columns are decoded by two threads"


def test_chunks_ahead_are_within_the_first_batch_and_bounded_in_bytes(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa.set_cpu_count(2)
    asked = Asked(monkeypatch)
    with orcidx.open(path) as file:
        size = file.scan(["text"], batch_size=10, limit=10).to_table().nbytes
        asked.cursors.clear()
        batches = file.scan(["text"], batch_size=10, ahead_bytes=160_000).to_batches()
        next(batches)
        assert asked.held_bytes <= 2 * (size + 1024)
        held = []
        for _ in range(50):
            next(batches)
            held.append(asked.held_bytes)
        assert 8 * 2048 < max(held) <= 40_000
        batches.close()
        assert asked.held_bytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("columns", [["key", "noise", "word", "text", "list", "struct"], ["text"]], ids=len)
def test_a_forked_child_goes_on_by_itself(path: str, table: pa.Table, columns: list[str]) -> None:
    pa.set_cpu_count(3)
    table = table.select(columns)
    with orcidx.open(path) as file:
        batches = file.scan(columns, batch_size=50).to_batches()
        found = [next(batches) for _ in range(6)]
        child = os.fork()
        if child == 0:
            whole = pa.Table.from_batches([*found, *batches]).equals(table)
            os._exit(0 if whole else 1)
        whole = pa.Table.from_batches([*found, *batches])
        assert whole.equals(table)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_runs_ahead_in_a_spark_task(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_pool, "_is_spark_task", lambda: True)
    begun = Begun(monkeypatch)
    outcome(path, 8, batch_size=50)
    assert begun.spans == 0


def test_a_small_stripe_is_left_to_the_caller(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    begun = Begun(monkeypatch)
    outcome(path, 8)
    assert begun.spans == 0
