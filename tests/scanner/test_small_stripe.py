"""One call decodes a small stripe. Arrays and errors are the same as with column readers. Columns of types that are not
plain, such as lists, are always decoded by column readers."""

from __future__ import annotations

import datetime
import io
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

import orcidx
from orcidx import OrcidxError, StorageError
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.orc.plain_columns import PLAIN_ROWS
from orcidx.scanner import small_files, small_stripes
from orcidx.storage import local

ROWS = 300


def columns(rng: np.random.Generator, *, nulls: bool) -> pa.Table:
    """Returns one column of each plain type. Texts are stored directly or in a dictionary, and some are not ASCII."""
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
        "price": pa.array([Decimal(i * 37 % 900 - 400) / 100 for i in range(ROWS)], pa.decimal128(12, 2)),
        "much": pa.array([Decimal(7 ** (i % 44) - 3) for i in range(ROWS)], pa.decimal128(38, 0)),
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
    """Reads a file with column readers, and with one call for each stripe. ``taken`` counts the calls that returned
    arrays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.taken = 0
        self._decode = small_stripes.read_stripes

    def at_once(self, *args: Any, **options: Any) -> Any:
        found = self._decode(*args, **options)
        self.taken += found is not None
        return found

    def read(self, data: bytes | str, way: Any, **options: Any) -> Any:
        self.monkeypatch.setattr(small_stripes, "read_stripes", way)
        try:
            return orcidx.open(data).read(**options)
        except OrcidxError as error:
            return type(error), str(error)

    def both(self, data: bytes | str, **options: Any) -> tuple[Any, Any]:
        return self.read(data, lambda *args, **kwargs: None, **options), self.read(data, self.at_once, **options)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


def damage(ways: Ways, rng: np.random.Generator, data: bytes) -> None:
    """Changes one byte in the data of the only stripe, and reads the file. This is repeated for sixty bytes. For each
    byte, both ways return the same rows or raise the same error."""
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


WRITERS = pytest.mark.parametrize(
    ("writer", "options"),
    [
        ("pyarrow", {"compression": "zstd", "dictionary_key_size_threshold": 0.5}),
        ("pyarrow", {"compression": "uncompressed"}),
        ("pyarrow", {"compression": "snappy", "file_version": "0.11", "dictionary_key_size_threshold": 0.5}),
        ("orcidx", {"compression": "zlib"}),
    ],
)


@pytest.mark.parametrize("nulls", [False, True])
@WRITERS
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


def others(rng: np.random.Generator, *, nulls: bool) -> pa.Table:
    """Returns one column of each type that is not plain, and plain columns between them."""
    start = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    made = {
        "time": pa.array([start.replace(tzinfo=None, microsecond=i) for i in range(ROWS)], pa.timestamp("ns")),
        "long": pa.array(rng.integers(0, 1 << 40, ROWS)),
        "instant": pa.array([start.replace(minute=i % 60) for i in range(ROWS)], pa.timestamp("ns", "UTC")),
        "word": pa.array([f"w{i % 7}" for i in range(ROWS)]),
        "list": pa.array([[f"ä{j}" for j in range(i % 4)] for i in range(ROWS)]),
        "map": pa.array([[(i, i / 4)] * (i % 3) for i in range(ROWS)], pa.map_(pa.int64(), pa.float64())),
        "struct": pa.array([{"a": i, "b": [{"c": start.replace(tzinfo=None)}] * (i % 2)} for i in range(ROWS)]),
    }
    if nulls:
        mask = pa.array(rng.random(ROWS) < 0.7)
        made = {name: pc.if_else(mask, column, pa.scalar(None, column.type)) for name, column in made.items()}
    return pa.table(made)


@pytest.mark.parametrize("nulls", [False, True])
@WRITERS
def test_what_is_not_plain_takes_its_reader_alone(
    ways: Ways, rng: np.random.Generator, writer: str, options: dict[str, Any], nulls: bool
) -> None:
    table = others(rng, nulls=nulls)
    data = written(table, writer, **options)
    by_readers, at_once = ways.both(data)
    assert ways.taken == 1
    at_once.validate(full=True)
    assert at_once.equals(by_readers)
    for kept in ({"columns": ["map", "word", "time"]}, {"columns": ["list"]}, {"columns": [("struct", "b")]}):
        one, other = ways.both(data, **kept)
        assert one.equals(other), kept
    for changed in ({"timestamp_unit": "us"}, {"timezone": "Europe/Oslo"}, {"strings": "view"}, {"calendar": "stored"}):
        one, other = ways.both(data, **changed)
        assert one.equals(other), changed
    assert ways.taken == 8
    small = ways.both(data, batch_bytes=20_000)
    assert small[0].equals(small[1])
    assert ways.taken == 9, "the plain columns alone, because all columns are too large"


def test_values_that_do_not_fit_are_told_by_the_readers(ways: Ways) -> None:
    table = pa.table({"x": [1, 2], "t": pa.array([0, 1 << 60], pa.timestamp("us"))})
    one, other = ways.both(written(table, "orcidx"))
    assert one == other
    assert one[0] is orcidx.ValueOutOfRange
    assert ways.both(written(table, "orcidx"), timestamp_unit="us")[1].equals(table)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_damage_of_what_is_not_plain(ways: Ways, rng: np.random.Generator, compression: str) -> None:
    data = written(others(rng, nulls=True), "pyarrow", compression=compression)
    damage(ways, rng, data)


def test_rows_that_are_chosen_go_to_the_readers(ways: Ways) -> None:
    plain = pa.table({"x": [1, 2, 3]})
    data = written(plain, "pyarrow")
    for options in ({"where": "x > 1"}, {"limit": 2}, {"row_numbers": True}, {"columns": []}):
        one, other = ways.both(data, **options)
        assert one.equals(other), options
    batches = orcidx.open(data).scan(batch_size=2).to_batches()
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert ways.taken == 0
    views = ways.both(written(pa.table({"s": ["a"]}), "pyarrow"), strings="view")[1]
    assert views.schema.types == [pa.string_view()]


def test_texts_that_are_not_utf8(ways: Ways) -> None:
    data = bytearray(written(pa.table({"s": ["aaaa", "bbbb"]}), "pyarrow", compression="uncompressed"))
    data[data.index(b"aaaabbbb")] = 0xFF
    for utf8 in ("strict", "replace", "unchecked"):
        one, other = ways.both(bytes(data), utf8=utf8)
        assert one == other, utf8
        assert isinstance(other, tuple) is (utf8 == "strict")


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_damage_is_told_as_by_column_readers(ways: Ways, rng: np.random.Generator, compression: str) -> None:
    table = columns(rng, nulls=True).select(["int", "long", "bool", "byte", "word", "wörd", "price"])
    data = written(table, "pyarrow", compression=compression, dictionary_key_size_threshold=0.5)
    damage(ways, rng, data)


@pytest.fixture
def by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes files and stripes of any size too large to be read at once."""
    for module, name in (
        (local, "SMALL_FILE_BYTES"),
        (small_files, "SMALL_FILE_BYTES"),
        (small_stripes, "SMALL_STRIPE_BYTES"),
    ):
        monkeypatch.setattr(module, name, 0)


@pytest.mark.usefixtures("by_column")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nulls", [False, True])
@WRITERS
def test_columns_of_a_file_come_with_one_read_each(
    ways: Ways,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writer: str,
    options: dict[str, Any],
    nulls: bool,
    threads: int,
) -> None:
    for module in ("small_stripes", "decode_pool"):
        monkeypatch.setattr(f"orcidx.scanner.{module}.thread_count", lambda *, use_threads: threads)
    table = columns(rng, nulls=nulls)
    path = str(tmp_path / "a.orc")
    Path(path).write_bytes(written(table, writer, **options))
    by_readers, at_once = ways.both(path)
    assert ways.taken == (1 if threads == 1 else 7), "parts of two columns each"
    assert at_once.equals(by_readers)
    assert at_once.equals(table)
    at_once.validate(full=True)
    # Without an identity, no metadata is cached, even if the file is old enough.
    monkeypatch.setattr(local.LocalReader, "identity", None)
    batches = orcidx.open(path).scan(["word", "int", "bytes"]).to_batches()
    assert pa.Table.from_batches(batches).equals(table.select(["word", "int", "bytes"]))
    assert batches.metrics.requests == 3 + 2, "three columns, the tail, and the stripe's footer"


def test_threads_share_a_stripe_of_bytes_that_is_large(
    ways: Ways, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the only stripe is small, one call decodes all columns. If it is large, several calls decode it, because a
    file that is given as bytes is in memory. If the large stripe also has a column that is not plain, readers decode
    all columns."""
    for module in ("small_stripes", "decode_pool"):
        monkeypatch.setattr(f"orcidx.scanner.{module}.thread_count", lambda *, use_threads: 2)
    table = columns(rng, nulls=True)
    data = written(table, "pyarrow", compression="zstd")
    for large, calls in ((False, 1), (True, 7)):
        monkeypatch.setattr(small_stripes, "SMALL_STRIPE_BYTES", 0 if large else 1 << 20)
        ways.taken = 0
        by_readers, at_once = ways.both(data)
        assert ways.taken == calls
        assert at_once.equals(by_readers)
        assert at_once.equals(table)
    mixed = written(table.append_column("at", pa.array(range(ROWS), pa.timestamp("ns"))), "pyarrow")
    ways.taken = 0
    by_readers, at_once = ways.both(mixed)
    assert ways.taken == 0
    assert at_once.equals(by_readers)


@pytest.mark.usefixtures("by_column")
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_damage_of_a_file_is_told_as_by_column_readers(
    ways: Ways, rng: np.random.Generator, tmp_path: Path, compression: str
) -> None:
    table = columns(rng, nulls=True).select(["int", "long", "bool", "byte", "word", "wörd"])
    data = written(table, "pyarrow", compression=compression, dictionary_key_size_threshold=0.5)
    stripe = orcidx.open(data).stripes[0]
    start = stripe.offset + stripe.index_length
    damaged = 0
    for at in rng.choice(np.arange(start, start + stripe.data_length), 60, replace=False).tolist():
        broken = bytearray(data)
        broken[at] ^= int(rng.integers(1, 256))
        path = tmp_path / f"{at}.orc"
        path.write_bytes(broken)
        one, other = ways.both(str(path))
        assert one == other, at
        damaged += isinstance(one, tuple)
    assert damaged
    assert ways.taken


@pytest.mark.usefixtures("by_column")
def test_a_file_that_changes_is_told_by_the_readers(ways: Ways, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(written(pa.table({"x": [1, 2, 3]}), "pyarrow"))
    with orcidx.open(path) as file:
        scan = file.scan().to_batches()

        def changed(*args: Any, **options: Any) -> Any:
            os.utime(path, ns=(1, 1))
            return ways.at_once(*args, **options)

        ways.monkeypatch.setattr(small_stripes, "read_stripes", changed)
        with pytest.raises(StorageError):
            next(scan)
    assert ways.taken == 0


@pytest.mark.usefixtures("by_column")
def test_more_than_a_batch_may_hold_is_left_to_the_readers(ways: Ways, tmp_path: Path) -> None:
    """One call decodes a stripe only if its rows fit into one batch. For a table, the limit is the bytes of four
    batches, because a table has few chunks, and all its rows must fit into memory in any case."""
    table = pa.table({f"c{i}": pa.array(np.arange(2000) * 0.37) for i in range(4)})
    path = tmp_path / "a.orc"
    path.write_bytes(written(table, "pyarrow"))
    ways.monkeypatch.setattr(small_stripes, "read_stripes", ways.at_once)
    with orcidx.open(path) as file:
        for batch_bytes, once in ((table.nbytes, True), (table.nbytes - 1, False)):
            ways.taken = 0
            batches = list(file.scan(batch_bytes=batch_bytes, use_threads=False))
            assert (ways.taken > 0, len(batches) == 1) == (once, once)
            assert pa.Table.from_batches(batches).equals(table)
        for batch_bytes, once in ((table.nbytes // 4, True), (table.nbytes // 4 - 1, False)):
            ways.taken = 0
            found = file.scan(batch_bytes=batch_bytes, use_threads=False).to_table()
            assert (ways.taken > 0, found["c0"].num_chunks == 1) == (once, once)
            assert found.equals(table)


@pytest.mark.usefixtures("by_column")
def test_what_a_file_has_in_vain_is_not_read(ways: Ways, tmp_path: Path) -> None:
    """If the bytes of the columns or the number of rows exceed a limit, column readers decode the stripe. In that case,
    the attempt to decode the stripe in one call reads nothing that is then read again."""
    ways.monkeypatch.setattr(small_stripes, "read_stripes", ways.at_once)
    path = tmp_path / "a.orc"
    random = np.random.default_rng(5).bytes
    for texts, tried in (([random(9_000)] * 50, True), ([random(9_000) for _ in range(100)], False)):
        table = pa.table({"b": pa.array(texts, pa.binary()), "x": range(len(texts))})
        path.write_bytes(written(table, "pyarrow", compression="zstd"))
        ways.taken = 0
        forget_metadata()
        batches = orcidx.open(path).scan(use_threads=False).to_batches()
        assert pa.Table.from_batches(batches).equals(table)
        assert (ways.taken > 0) == tried
        with ways.monkeypatch.context() as patch:
            patch.setattr(small_stripes, "PLAIN_ROWS", 0)
            forget_metadata()  # otherwise the footer may be cached from the first read
            readers = orcidx.open(path).scan(use_threads=False).to_batches()
            assert pa.Table.from_batches(readers).equals(table)
        assert batches.metrics.bytes_read == readers.metrics.bytes_read
    for column, tried in ((np.zeros(PLAIN_ROWS + 1), True), (["a"] * (PLAIN_ROWS + 1), False)):
        table = pa.table({"x": column})
        path.write_bytes(written(table, "pyarrow"))
        ways.taken = 0
        assert orcidx.open(path).read().equals(table)
        assert (ways.taken > 0) == tried, "the size of texts is not known before they are read"


MANY = PLAIN_ROWS + 5_000


def many(rng: np.random.Generator, *, nulls: bool) -> pa.Table:
    """Returns many rows with one column of each type of fixed width."""
    made = {
        "short": pa.array(rng.integers(-(1 << 15), 1 << 15, MANY), pa.int16()),
        "int": pa.array(np.arange(MANY) // 700, pa.int32()),
        "long": pa.array(rng.integers(-(1 << 62), 1 << 62, MANY), pa.int64()),
        "float": pa.array(rng.random(MANY), pa.float32()),
        "double": pa.array(rng.random(MANY)),
        "byte": pa.array(rng.integers(-128, 128, MANY), pa.int8()),
        "bool": pa.array(rng.random(MANY) < 0.3),
        "date": pa.array(rng.integers(-700_000, 30_000, MANY).astype(np.int32), pa.date32()),
    }
    if nulls:
        mask = pa.array(rng.random(MANY) < 0.7)
        made = {name: pc.if_else(mask, column, pa.scalar(None, column.type)) for name, column in made.items()}
    return pa.table(made)


def old(path: Path, data: bytes) -> str:
    """Writes a file, and makes it so old that its metadata is cached."""
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    while local.LocalReader(str(path)).identity is None:
        time.sleep(0.02)
    return str(path)


@pytest.mark.parametrize("io_bytes", [1 << 18, 64 << 20])
@pytest.mark.parametrize("nulls", [False, True])
@WRITERS
def test_many_rows_take_the_same_reads_as_column_readers(
    ways: Ways,
    rng: np.random.Generator,
    tmp_path: Path,
    writer: str,
    options: dict[str, Any],
    nulls: bool,
    io_bytes: int,
) -> None:
    table = many(rng, nulls=nulls)
    path = old(tmp_path / "a.orc", written(table, writer, **options))
    with orcidx.open(path) as file:
        assert [stripe.rows for stripe in file.stripes] == [MANY]
        for columns in (None, ["long"], ["double"], ["bool", "date"]):
            scan = file.scan(columns, use_threads=False, batch_size=1 << 20, io_bytes=io_bytes)
            for taken in (0, 1):
                ways.taken = 0
                put = ways.at_once if taken else lambda *args, **kwargs: None
                ways.monkeypatch.setattr(small_stripes, "read_stripes", put)
                batches = scan.to_batches()
                found = pa.Table.from_batches(batches)
                found.validate(full=True)
                assert ways.taken == taken
                assert found.equals(table if columns is None else table.select(columns))
                done = {name: getattr(batches.metrics, name) for name in vars(batches.metrics) if name != "seconds"}
                if not taken:
                    by_readers = done
                    continue
                assert done == by_readers
            few = scan.request.options.override(batch_bytes=table.nbytes // 3)
            ways.taken = 0
            assert file.scan(options=few).to_table().equals(table)
            assert ways.taken == 0


def test_damage_of_many_rows_is_told_as_by_column_readers(ways: Ways, rng: np.random.Generator, tmp_path: Path) -> None:
    """One byte is damaged: the first or the third byte of a stream, or any other byte of the data. The first three
    bytes of a stream are the header of a chunk."""
    data = written(many(rng, nulls=True).select(["int", "byte", "bool", "date"]), "pyarrow", compression="zstd")
    reader = orcidx.open(data).reader
    start = reader.stripes[0].offset + reader.stripes[0].index_length
    headers = [offset for _, (offset, length) in reader.extents(0).items() if length and offset >= start]
    others = rng.choice(np.arange(start, start + reader.stripes[0].data_length), 10, replace=False).tolist()
    path, damaged = tmp_path / "a.orc", 0
    for at in [*headers, *(offset + 2 for offset in headers), *others]:
        broken = bytearray(data)
        broken[at] ^= int(rng.integers(1, 256))
        one, other = ways.both(old(path, bytes(broken)), use_threads=False)
        assert one == other, at
        damaged += isinstance(one, tuple)
    assert damaged >= len(headers)
    assert ways.taken


def test_an_opened_file_that_changed_is_opened_again(ways: Ways, rng: np.random.Generator, tmp_path: Path) -> None:
    data = written(many(rng, nulls=False), "pyarrow", compression="zstd")
    path = old(tmp_path / "a.orc", data)
    ways.monkeypatch.setattr(small_stripes, "read_stripes", ways.at_once)
    with orcidx.open(path) as file:
        scan = file.scan(["long"], use_threads=False)
        first = scan.to_table()
        assert ways.taken == 1
    assert scan.to_table().equals(first), "the file was closed, and is opened again"
    with orcidx.open(path) as file:
        (tmp_path / "b.orc").write_bytes(bytes(len(data)))
        os.utime(tmp_path / "b.orc", ns=(1, 1))
        os.replace(tmp_path / "b.orc", path)
        with pytest.raises(orcidx.CorruptFile):  # the new file has the same size and time
            file.scan(["long"], use_threads=False).to_table()
        os.utime(path, ns=(2, 2))
        with pytest.raises(StorageError):
            file.scan(["long"], use_threads=False).to_table()
        os.unlink(path)
        with pytest.raises(FileNotFoundError):
            file.scan(["long"], use_threads=False).to_table()
