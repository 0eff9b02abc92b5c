"""Small stripes decoded at once: the arrays and errors of column readers, who read what is not plain."""

from __future__ import annotations

import datetime
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

import orcidx
from orcidx import OrcidxError
from orcidx.scanner import small_stripes

ROWS = 300


def columns(rng: np.random.Generator, *, nulls: bool) -> pa.Table:
    """One column of each plain type; texts direct and by dictionary, in ASCII and not."""
    made = {
        "short": pa.array(rng.integers(-(1 << 15), 1 << 15, ROWS), pa.int16()),
        "int": pa.array(rng.integers(0, 50, ROWS), pa.int32()),
        "long": pa.array(rng.integers(-(1 << 62), 1 << 62, ROWS), pa.int64()),
        "float": pa.array(rng.random(ROWS), pa.float32()),
        "double": pa.array(rng.random(ROWS)),
        "byte": pa.array(rng.integers(-128, 128, ROWS), pa.int8()),
        "bool": pa.array(rng.random(ROWS) < 0.3),
        "date": pa.array(rng.integers(-700_000, 30_000, ROWS).astype(np.int32), pa.date32()),
        "word": pa.array([f"w{i % 7}" for i in range(ROWS)]),
        "wörd": pa.array([f"ä{i}" * (i % 5) for i in range(ROWS)]),
        "bytes": pa.array([bytes([i % 256, 200]) for i in range(ROWS)], pa.binary()),
    }
    if nulls:
        valid = rng.random(ROWS) < 0.7
        mask = pa.array(valid)
        made = {name: pc.if_else(mask, column, pa.scalar(None, column.type)) for name, column in made.items()}
        made["none"] = pa.nulls(ROWS, pa.string())
    return pa.table(made)


def written(table: pa.Table, writer: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    if writer == "pyarrow":
        orc.write_table(table, sink, **options)
    else:
        orcidx.write_table(table, sink, **options)
    return sink.getvalue()


class Ways:
    """Reads with column readers, and at once; ``taken`` says how often that gave an answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.taken = 0
        self._decode = small_stripes.read_stripe

    def at_once(self, *args: Any, **options: Any) -> Any:
        found = self._decode(*args, **options)
        self.taken += found is not None
        return found

    def read(self, data: bytes, way: Any, **options: Any) -> Any:
        self.monkeypatch.setattr(small_stripes, "read_stripe", way)
        try:
            return orcidx.open(data).read(**options)
        except OrcidxError as error:
            return type(error), str(error)

    def both(self, data: bytes, **options: Any) -> tuple[Any, Any]:
        return self.read(data, lambda *args, **kwargs: None, **options), self.read(data, self.at_once, **options)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    ("writer", "options"),
    [
        ("pyarrow", {"compression": "zstd", "dictionary_key_size_threshold": 0.5}),
        ("pyarrow", {"compression": "uncompressed"}),
        ("pyarrow", {"compression": "snappy", "file_version": "0.11", "dictionary_key_size_threshold": 0.5}),
        ("orcidx", {"compression": "zlib"}),
    ],
)
def test_arrays_are_those_of_column_readers(
    ways: Ways, rng: np.random.Generator, writer: str, options: dict[str, Any], nulls: bool
) -> None:
    table = columns(rng, nulls=nulls)
    data = written(table, writer, **options)
    by_readers, at_once = ways.both(data)
    assert ways.taken == 1
    assert at_once.equals(by_readers)
    assert at_once.equals(table)
    at_once.validate(full=True)
    assert ways.both(data, columns=["word", "int"])[1].equals(table.select(["word", "int"]))


def test_what_is_not_plain_goes_to_the_readers(ways: Ways) -> None:
    day = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    plain = pa.table({"x": [1, 2, 3]})
    for table in (pa.table({"x": [1], "t": [day]}), pa.table({"l": [[1]]}), pa.table({"s": [{"a": 1}]})):
        one, other = ways.both(written(table, "pyarrow"))
        assert one.equals(other)
    data = written(plain, "pyarrow")
    for options in ({"where": "x > 1"}, {"limit": 2}, {"row_numbers": True}, {"columns": []}):
        one, other = ways.both(data, **options)
        assert one.equals(other), options
    batches = orcidx.open(data).scan(batch_size=2).to_batches()
    assert [batch.num_rows for batch in batches] == [2, 1]
    views = ways.both(written(pa.table({"s": ["a"]}), "pyarrow"), strings="view")[1]
    assert views.schema.types == [pa.string_view()]
    assert ways.taken == 0


def test_texts_that_are_not_utf8(ways: Ways) -> None:
    data = bytearray(written(pa.table({"s": ["aaaa", "bbbb"]}), "pyarrow", compression="uncompressed"))
    data[data.index(b"aaaabbbb")] = 0xFF
    for utf8 in ("strict", "replace", "unchecked"):
        one, other = ways.both(bytes(data), utf8=utf8)
        assert one == other, utf8
        assert isinstance(other, tuple) is (utf8 == "strict")


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_damage_is_told_as_by_column_readers(ways: Ways, rng: np.random.Generator, compression: str) -> None:
    table = columns(rng, nulls=True).select(["int", "long", "bool", "byte", "word", "wörd"])
    data = written(table, "pyarrow", compression=compression, dictionary_key_size_threshold=0.5)
    stripe = orcidx.open(data).stripes[0]
    start = stripe.offset + stripe.index_length
    damaged = 0
    for at in rng.choice(np.arange(start, start + stripe.data_length), 60, replace=False).tolist():
        broken = bytearray(data)
        broken[at] ^= int(rng.integers(1, 256))
        one, other = ways.both(bytes(broken))
        assert one == other, at
        damaged += isinstance(one, tuple)
    assert damaged
    assert ways.taken
