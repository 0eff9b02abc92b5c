"""While a span is filtered, threads decode the other columns of the span before it. Batches are returned in order, and
before an error is raised. They are the same for any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from streams import encoders

import orcidx
from orcidx.errors import CorruptFile
from orcidx.scanner import decode_ahead, row_width
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.span_behind import OtherColumns, SpanBehind
from orcidx.scanner.survivors import Survivors

ROWS = 300_000


def survivors(number: int, *, scattered: bool = True) -> Survivors:
    mask = np.arange(100) % 3 != 0 if scattered else np.arange(100) < 50
    return Survivors(100 * number, 100 * number + 100, KeptRows(mask), [], int(mask.sum()))


class Told:
    """Records the calls of a ``SpanBehind``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.behind = SpanBehind(cast("OtherColumns", self), self.batches)

    def begin(self, found: Survivors) -> None:
        self.calls.append(f"begin {found.start}")

    def batches(self, found: Survivors) -> Iterator[Any]:
        self.calls.append(f"read {found.start}")
        yield found.start


def test_a_span_is_given_after_the_next_one_has_begun() -> None:
    told = Told()
    assert list(told.behind.after(survivors(0))) == []
    second = told.behind.after(survivors(1))
    assert next(second) == 0
    assert told.calls == ["begin 0", "read 0", "begin 100"]
    assert list(second) == []
    assert list(told.behind.rest()) == [100]
    assert list(told.behind.rest()) == []


def test_spans_that_do_not_wait_come_after_the_one_that_does() -> None:
    told = Told()
    list(told.behind.after(survivors(0)))
    assert list(told.behind.after(survivors(1, scattered=False))) == [0, 100]
    assert told.calls == ["begin 0", "read 0", "read 100"]


def test_parts_of_a_span_are_given_before_its_error() -> None:
    class Failing(Told):
        def batches(self, found: Survivors) -> Iterator[Any]:
            yield found.start
            raise CorruptFile("a damaged part")

    told = Failing()
    list(told.behind.after(survivors(0)))
    found = told.behind.after(survivors(1))
    assert next(found) == 0
    with pytest.raises(CorruptFile, match="damaged"):
        next(found)


def test_a_span_is_given_before_the_error_of_the_next_one() -> None:
    told = Told()
    list(told.behind.after(survivors(0)))

    def failing() -> Iterator[Survivors]:
        raise CorruptFile("a damaged span")
        yield

    found = told.behind.before_an_error(failing())
    assert next(found) == 0
    with pytest.raises(CorruptFile, match="damaged"):
        next(found)


def decimals(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values).cast(pa.decimal128(38, 0)).cast(pa.decimal128(12, 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(27)
    names = {"asked": decimals(rng.integers(0, 1000, ROWS)), "x": decimals(np.arange(ROWS)), "y": rng.random(ROWS)}
    names["text"] = pa.array([f"text {number}" for number in rng.integers(0, 1 << 40, ROWS)])
    orcidx.write_table(pa.table(names), tmp_path / "rows.orc", compression="uncompressed")
    return tmp_path / "rows.orc"


def read(path: Path, *, threads: bool, **options: Any) -> tuple[list[pa.RecordBatch], str | None]:
    found: list[pa.RecordBatch] = []
    with orcidx.open(path) as file:
        try:
            for batch in file.scan(["x", "y", "text"], "asked < 900", use_threads=threads, **options):
                found.append(batch)
        except CorruptFile as error:
            return found, str(error)
    return found, None


@pytest.mark.parametrize("where", [0.3, 0.9])
@pytest.mark.parametrize("column", ["asked", "x"])
def test_batches_before_damage_do_not_depend_on_threads(path: Path, column: str, where: float) -> None:
    """The damage is in a column of the condition, or in another column."""
    whole, _ = read(path, threads=False, batch_size=10_000)
    with orcidx.open(path) as file:
        row = int(ROWS * where)
        values = file.read([column]).column(0)[row : row + 32].to_pylist()
    stored = bytearray(path.read_bytes())
    at = stored.index(b"".join(encoders.varint(2 * int(value)) for value in values))
    stored[at : at + 32] = b"\xff" * 32
    path.write_bytes(stored)
    one, error = read(path, threads=False, batch_size=10_000)
    two, other = read(path, threads=True, batch_size=10_000)
    assert error is not None
    assert error == other
    assert [batch.num_rows for batch in one] == [batch.num_rows for batch in two]
    assert all(map(pa.RecordBatch.equals, one, two))
    rows = sum(batch.num_rows for batch in one)
    assert 0.9 * row - 20_000 < rows < 0.9 * row
    expected = pa.Table.from_batches(whole).slice(0, rows)
    assert pa.Table.from_batches(one).equals(expected)


def test_columns_are_begun_before_they_are_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    plain = decode_ahead.DecodeAhead.begin

    def begin(self: Any, columns: Any, start: int, *rest: Any) -> None:
        plain(self, columns, start, *rest)
        begun.append(len(self._behind))

    monkeypatch.setattr(decode_ahead.DecodeAhead, "begin", begin)
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    monkeypatch.setattr(row_width, "ENABLED", False)  # each span has one batch, so there are many spans
    expected, _ = read(path, threads=False, batch_size=20_000)
    assert not begun
    found, _ = read(path, threads=True, batch_size=20_000)
    assert begun.count(1) > 8
    assert max(begun) == 1
    assert all(map(pa.RecordBatch.equals, found, expected))
    # With these limits, a thread begins a span of texts before it finds that the span is too large.
    for size in (1 << 18, 1 << 20):
        expected, _ = read(path, threads=False, batch_bytes=size)
        found, _ = read(path, threads=True, batch_bytes=size)
        assert [batch.num_rows for batch in found] == [batch.num_rows for batch in expected]
        assert all(map(pa.RecordBatch.equals, found, expected))


def test_a_scan_that_ends_early_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    for count in (1, 2, 5):
        with orcidx.open(path) as file:
            batches = iter(file.scan(["x", "text"], "asked < 900", batch_size=10_000))
            found = [next(batches) for _ in range(count)]
            del batches
        assert sum(batch.num_rows for batch in found) > 0
    with orcidx.open(path) as file:
        assert file.scan(["x"], "asked < 900").limit(7).to_table().num_rows == 7
