"""The number of bytes that a scan holds at a time is limited, although the stripe is many times larger than this
limit."""

import io
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx.orc import stripe_streams
from orcidx.orc.stripe_streams import PlannedStream, StreamReads
from orcidx.storage import open_reader
from orcidx.storage.recording import RecordingReader

COLUMNS = 6
ROWS = 400_000


@pytest.fixture(scope="module")
def stripe() -> bytes:
    """Makes one stripe of about 18 MiB, with numbers and strings that cannot be compressed."""
    random = np.random.default_rng(3)
    columns = {f"n{i}": random.integers(0, 1 << 60, ROWS) for i in range(COLUMNS - 2)}
    columns["s"] = pa.array(random.integers(0, 1 << 60, ROWS)).cast(pa.string())
    columns["t"] = pa.array(random.integers(1, 1 << 60, ROWS)).view(pa.timestamp("ns"))
    out = io.BytesIO()
    pa.orc.write_table(pa.table(columns), out, compression="zstd", stripe_size=1 << 40)
    return out.getvalue()


class Held:
    """Records the bytes that all streams hold. ``most`` is their maximum."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams: list[PlannedStream] = []
        self.most = 0
        put = PlannedStream.put

        def counted(stream: PlannedStream, start: int, data: object) -> None:
            put(stream, start, data)
            if stream not in self.streams:
                self.streams.append(stream)
            self.most = max(self.most, sum(one.held_bytes for one in self.streams))

        monkeypatch.setattr(PlannedStream, "put", counted)


@pytest.mark.parametrize("local", [True, False])
def test_a_large_stripe_is_held_in_pieces(stripe: bytes, local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    reader = RecordingReader(open_reader(stripe))
    reader.is_local = local
    io_bytes = 2 << 20
    with orcidx.open(reader) as file:
        (information,) = file.stripes
        assert information.data_length > 8 * io_bytes
        rows = sum(batch.num_rows for batch in file.scan(io_bytes=io_bytes, use_threads=False))
    assert rows == ROWS
    assert len(held.streams) == COLUMNS + 2
    assert 0 < held.most <= io_bytes
    assert len(reader.ranges) == len(set(reader.ranges))  # no range is fetched twice


def test_the_next_pieces_of_a_large_remote_stripe_are_fetched_ahead(
    stripe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next pieces of the streams are fetched ahead if they fit into a quarter of the budget."""
    waits: Counter[str] = Counter()
    ahead = stripe_streams.Ahead.start

    def counted(self: stripe_streams.Ahead, offset: int, length: int) -> object:
        future = ahead(self, offset, length)
        waits["ahead" if future is not None else "full"] += 1
        return future

    monkeypatch.setattr(stripe_streams.Ahead, "start", counted)
    reader = RecordingReader(open_reader(stripe))
    reader.is_local = False
    with orcidx.open(reader) as file:
        assert sum(batch.num_rows for batch in file.scan(io_bytes=4 << 20, use_threads=False)) == ROWS
    pieces = len(reader.ranges)
    assert waits["ahead"] > pieces // 2


@pytest.mark.parametrize("where", [None, "n1 < 100000000000000000"])
def test_what_is_held_does_not_grow_with_the_stripe(
    stripe: bytes, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the default budget, no stream holds more than one piece. This does not depend on the size of the stripe."""
    held = Held(monkeypatch)
    before = pa.total_allocated_bytes()
    with orcidx.open(stripe) as file:
        for batch in file.scan(where=where, use_threads=False, batch_size=4096):
            assert batch.num_rows <= 4096
            assert pa.total_allocated_bytes() - before < 12 << 20
    assert held.most <= len(held.streams) * (1 << 18)


def test_priming_leaves_half_the_budget_to_the_next_stripe() -> None:
    asked: list[tuple[int, int]] = []
    reads = StreamReads(lambda ranges: [b""], 1 << 19)
    streams = [PlannedStream(reads, offset=i << 24, length=1 << 24) for i in range(8)]
    for stream in streams:
        stream.plan([(0, stream.length)])
    for _, piece in stripe_streams.priming_request(streams, budget=32 << 20):
        asked.append(piece)
    assert sum(stop - start for start, stop in asked) == 8 << 19
