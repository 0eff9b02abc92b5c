"""A selective scan reads and decompresses only what the file's layout requires. Some tests damage the indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from bad.orc_parts import OrcParts
from bad.protobuf_edit import BYTES, Message

import orcidx
from orcidx import col
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import TAIL_REQUEST_BYTES
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.storage import RecordingReader, open_reader

DEMO = Path(orcidx.__file__).with_name("cli") / "demo" / "lineitem.orc"
INDEXES = (StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
ROWS, STRIDE = 60_000, 1_000


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("work") / "big.orc", "zstd")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a file without compression, so that the positions of the index also match damaged streams."""
    return write(tmp_path_factory.mktemp("work") / "plain.orc", "uncompressed")


def write(path: Path, compression: str) -> Path:
    """Writes a file with a clustered key, a key that is spread over all rows and has a bloom filter, and other
    columns."""
    spread = np.random.default_rng(5).permutation(ROWS) * 2
    random = np.random.default_rng(6)
    table = pa.table(
        {
            "key": np.arange(ROWS),
            "spread": spread,
            "text": [f"comment {value:08x}" for value in random.integers(0, 1 << 32, ROWS)],
            "price": random.random(ROWS),
            "amount": random.integers(0, 1 << 60, ROWS),
            "flag": pa.array([None if row % 7 == 0 else "ABC"[row % 3] for row in range(ROWS)]),
        }
    )
    options = {"bloom_filter_columns": [2], "bloom_filter_fpp": 0.001, "dictionary_key_size_threshold": 0.5}
    pyarrow.orc.write_table(table, path, compression=compression, row_index_stride=STRIDE, **options)
    return path


def scan_log(path: Path, where: Any, **options: Any) -> tuple[pa.Table, RecordingReader, Any]:
    reader = RecordingReader(open_reader(path))
    with orcidx.open(reader) as file, file.scan(where=where, **options).to_batches() as batches:
        rows = pa.Table.from_batches(list(batches), file.schema)
        return rows, reader, batches.metrics


def chunks(raw: bytes) -> list[tuple[int, int]]:
    """Returns (start, stop) of each compressed chunk of a stream."""
    found, at = [], 0
    while at < len(raw):
        stop = at + 3 + (int.from_bytes(raw[at : at + 3], "little") >> 1)
        found.append((at, stop))
        at = stop
    return found


def needed(path: Path, groups: dict[int, list[int]]) -> tuple[int, int]:
    """Returns how many bytes and how many chunks contain these row groups, for all data streams. Both are computed from
    the layout. ``groups`` maps the number of a stripe to the numbers of its row groups."""
    raw = path.read_bytes()
    size = count = 0
    with orcidx.open(path) as file:
        reader = file._reader
        for stripe, wanted in groups.items():
            nodes = list(reader.root.walk())
            index = read_row_index(reader, stripe, nodes)
            for (column, kind), (offset, length) in reader.extents(stripe).items():
                if kind in INDEXES:
                    continue
                positions = index.stream_positions(column, StreamKind(kind))
                places = chunks(raw[offset : offset + length])
                hit = set(range(len(places))) if positions is None else set()
                for group in wanted if positions is not None else ():
                    start, stop = int(positions.offsets[group]), length
                    if group + 1 < index.groups:
                        assert positions.within is not None
                        shared = bool(positions.within[group + 1] or positions.mid_run[group + 1])
                        stop = int(positions.offsets[group + 1]) + shared
                    hit |= {number for number, (first, _) in enumerate(places) if start <= first < stop}
                size += sum(places[number][1] - places[number][0] for number in hit)
                count += len(hit)
    return size, count


def index_bytes(path: Path, blooms: set[str]) -> int:
    """Returns how many bytes the row indexes of all columns and the bloom filters of some columns have."""
    with orcidx.open(path) as file:
        names = {node.id: node.dotted for node in file._reader.root.walk()}
        return sum(
            length
            for (column, kind), (_, length) in file._reader.extents(0).items()
            if kind == StreamKind.ROW_INDEX or (kind in INDEXES and names[column] in blooms)
        )


@pytest.mark.parametrize(("name", "value"), [("key", 31_234), ("spread", 31_234), ("key", 0), ("key", ROWS - 1)])
def test_a_point_lookup_reads_the_chunks_of_its_row_group_and_little_more(big: Path, name: str, value: int) -> None:
    rows, reader, metrics = scan_log(big, col(name) == value)
    assert rows.num_rows == 1
    with orcidx.open(big) as file:
        assert len(file.stripes) == 1
        footer = file.stripes[0].footer_length
        kept = file.scan(where=col(name) == value).explain().files[0].stripes[0].row_groups
    groups = [group.row_group for group in kept if group.kept]
    assert len(groups) <= 2
    size, count = needed(big, {0: groups})
    tails = [kind for kind, _ in reader.asked].count("tail")  # 0 if the tail is cached
    must = tails * TAIL_REQUEST_BYTES + footer + index_bytes(big, {name}) + size
    assert metrics.bytes_read <= 1.05 * must, (metrics.bytes_read, must)
    data = metrics.bytes_read - tails * TAIL_REQUEST_BYTES - index_bytes(big, {name})  # assumes that no index is cached
    assert data < big.stat().st_size / 4
    assert metrics.chunks_decompressed <= count
    assert metrics.row_groups_kept == len(groups)


def test_an_absent_key_that_the_bloom_filter_denies_reads_no_data(big: Path) -> None:
    rows, reader, metrics = scan_log(big, col("spread") == 31_235)
    assert rows.num_rows == 0
    assert metrics.row_groups_kept == 0
    assert metrics.chunks_decompressed == 0
    assert reader.ranges
    with orcidx.open(big) as file:
        stripe = file.stripes[0]
    first, last = stripe.offset + stripe.index_length, stripe.offset + stripe.index_length + stripe.data_length
    assert not [pair for pair in reader.ranges if pair[0] < last and sum(pair) > first]


def test_a_key_outside_the_statistics_reads_nothing_but_the_tail(big: Path) -> None:
    rows, reader, _ = scan_log(big, col("key") > ROWS)
    assert rows.num_rows == 0
    assert reader.ranges == []


def test_skipped_row_groups_are_not_decompressed(big: Path) -> None:
    everything = scan_log(big, None)[2]
    part = scan_log(big, col("key").between(10_000, 11_999))[2]
    assert part.row_groups_kept == 2
    assert part.chunks_decompressed <= needed(big, {0: [10, 11]})[1] < everything.chunks_decompressed


def test_row_groups_count_where_no_index_was_needed(big: Path) -> None:
    for where in (None, col("key") >= 0):
        assert scan_log(big, where)[2].row_groups_kept == ROWS // STRIDE


def test_a_stripe_that_its_bloom_filters_deny_has_one_row_index_read(big: Path) -> None:
    with orcidx.open(big) as file:
        extents = file._reader.extents(0)
        nodes = {node.dotted: node.id for node in file._reader.root.walk()}
    forget_metadata()
    _, reader, _ = scan_log(big, col("spread") == 31_237)
    mine = extents[nodes["spread"], StreamKind.ROW_INDEX]
    others = [extents[nodes[name], StreamKind.ROW_INDEX] for name in ("key", "text", "price", "amount", "flag")]
    assert mine in reader.ranges
    assert not set(others) & set(reader.ranges)


def test_a_lookup_in_the_file_that_spark_wrote() -> None:
    with orcidx.open(DEMO) as file:
        order = file.read(["l_orderkey"])["l_orderkey"][1234].as_py()
        expected = file.read().filter(pa.compute.field("l_orderkey") == order)
        groups = file.scan(where=col("l_orderkey") == order).explain().files[0].stripes[0].row_groups
        footer = sum(stripe.footer_length for stripe in file.stripes)
    rows, _, metrics = scan_log(DEMO, col("l_orderkey") == order)
    assert rows.equals(expected)
    size, count = needed(DEMO, {0: [group.row_group for group in groups if group.kept]})
    assert metrics.chunks_decompressed <= count
    tail = min(TAIL_REQUEST_BYTES, DEMO.stat().st_size)
    assert metrics.bytes_read <= 1.05 * (tail + footer + index_bytes(DEMO, {"l_orderkey"}) + size)


def test_an_absent_key_in_the_file_that_spark_wrote() -> None:
    rows, reader, metrics = scan_log(DEMO, col("l_orderkey") == 1000)
    assert rows.num_rows == 0
    assert metrics.chunks_decompressed == 0
    with orcidx.open(DEMO) as file:
        stripe = file.stripes[0]
    first = stripe.offset + stripe.index_length
    assert not [pair for pair in reader.ranges if pair[0] < first + stripe.data_length and sum(pair) > first]


# ---------------------------------------------------------------------- damaged indexes

BLOOM, INDEX = StreamKind.BLOOM_FILTER_UTF8, StreamKind.ROW_INDEX


def damaged(path: Path, kind: StreamKind, column: int, change: Callable[[Message], None]) -> bytes:
    parts = OrcParts.parse(path.read_bytes())
    for stripe in parts.stripes:
        for place, record in enumerate(stripe.footer.all(1)):
            assert isinstance(record.value, bytes)
            stream = Message.parse(record.value)
            if (stream.int(1), stream.int(2)) == (kind, column):
                message = Message.parse(stripe.streams[place])
                change(message)
                stripe.streams[place] = message.to_bytes()
    return parts.to_bytes()


def inside(message: Message, number: int, change: Callable[[Message], None]) -> None:
    for item in message.all(number):
        assert isinstance(item.value, bytes)
        inner = Message.parse(item.value)
        change(inner)
        item.value = inner.to_bytes()


def drop_one(message: Message) -> None:
    del message.fields[-1]


def one_more(message: Message) -> None:
    message.fields.append(message.fields[0])


def nothing(message: Message) -> None:
    message.fields.clear()


def far_positions(message: Message) -> None:
    def far(entry: Message) -> None:
        for item in entry.all(1):
            item.wire, item.value = BYTES, b"\xff\xff\xff\xff\x07" * 3

    inside(message, 1, far)


def no_positions(message: Message) -> None:
    def forget(entry: Message) -> None:
        entry.fields = [item for item in entry.fields if item.number != 1]

    inside(message, 1, forget)


def upside_down(message: Message) -> None:
    """Makes the minimum larger than the maximum."""

    def turn(numbers: Message) -> None:
        for item in numbers.fields:
            item.number = {1: 2, 2: 1}.get(item.number, item.number)

    inside(message, 1, lambda entry: inside(entry, 2, lambda statistics: inside(statistics, 2, turn)))


def no_hashes(message: Message) -> None:
    inside(message, 1, lambda one: one.set(1, 0))


def empty_bits(message: Message) -> None:
    def empty(one: Message) -> None:
        for item in one.all(3):
            item.value = b""

    inside(message, 1, empty)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(INDEX, change) for change in (drop_one, one_more, nothing, far_positions, no_positions, upside_down)]
    + [(BLOOM, change) for change in (drop_one, one_more, no_hashes, empty_bits)],
    ids=lambda item: getattr(item, "__name__", getattr(item, "name", item)),
)
def test_a_damaged_index_loses_no_row_and_says_so(plain: Path, kind: StreamKind, change: Any) -> None:
    data = damaged(plain, kind, 2, change)
    with orcidx.open(data) as file:
        for value in (31_234, 2, 0, 31_235):
            wanted = 1 - value % 2
            assert file.read(where=col("spread") == value).num_rows == wanted
            assert file.scan(where=col("spread") == value).count_rows() == wanted
        assert file.scan(where=col("spread") >= ROWS).count_rows() == ROWS // 2
        assert file.read(["key"], (col("spread") == 31_234) & (col("key") >= 0)).num_rows == 1
        explained = file.scan(where=col("spread") == 31_234).explain()
    assert {note.kind for note in explained.notes} & {"damaged", "distrusted", "absent"}, explained.notes


@pytest.mark.parametrize("local", [True, False])
def test_a_limit_reads_the_row_groups_of_its_rows_alone(big: Path, local: bool) -> None:
    """A limit reads only the row groups of the first rows. Deleted rows, or rows outside the selection, may precede
    these rows."""
    whole = pyarrow.orc.read_table(big)
    for options, rows in (
        ({}, range(10)),
        ({"deletion_vector": range(5_000)}, range(5_000, 5_010)),
        ({"selection": [7, 30_000, 30_001, *range(40_000, 60_000)]}, [7, 30_000, 30_001, *range(40_000, 40_007)]),
    ):
        reader = RecordingReader(open_reader(big))
        reader.is_local = local
        with orcidx.open(reader) as file:
            batches = file.scan(limit=10, **options).to_batches()
            assert pa.Table.from_batches(batches).cast(whole.schema) == whole.take(list(rows))
        touched = len({row // STRIDE for row in rows})
        assert batches.metrics.row_groups_kept == touched
        assert 0 < batches.metrics.bytes_decompressed < 10 * touched * whole.nbytes * STRIDE // ROWS
