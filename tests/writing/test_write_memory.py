"""The memory of writers: the bytes of a stripe, slices of rows, and a limit that several writers share."""

from __future__ import annotations

import io
import pickle

import pyarrow as pa
import pytest

import orcidx
from orcidx import InvalidQuery
from orcidx.orc_writer.stripe_writer import StripeWriter

MIB = 1 << 20


@pytest.fixture
def peaks(monkeypatch):
    """Returns a list of the bytes that a writer holds after each slice."""
    found = []
    write = StripeWriter.write

    def spy(self, batch, first_row):
        write(self, batch, first_row)
        found.append(self.held)

    monkeypatch.setattr(StripeWriter, "write", spy)
    return found


def test_a_thousand_columns(peaks, rng):
    """The writer needs little memory for a column with little data. ORC C++ uses 0.4 MB for each column."""
    values = rng.integers(0, 2**62, 3000)
    table = pa.table({f"c{i}": values for i in range(1000)})
    result = orcidx.write_table(table, io.BytesIO(), stripe_size=16 * MIB)
    assert max(peaks) < 24 * MIB + 2**20
    assert len(result.stripes) > 1
    peaks.clear()
    orcidx.write_table(table.slice(0, 100), io.BytesIO())
    assert max(peaks) < 2 * MIB


def test_slices_get_small_when_the_stripe_is_nearly_full(peaks, rng):
    """The writer counts bytes that are not yet in a chunk twice. If it counted them once, the last slice of 4 MiB could
    make a stripe 8 MiB too large."""
    values = rng.integers(0, 2**62, 12_000)
    orcidx.write_table(pa.table({f"c{i}": values for i in range(200)}), io.BytesIO(), stripe_size=16 * MIB)
    assert max(peaks) < 19 * MIB


def test_rows_of_a_megabyte_end_stripes(peaks, rng):
    """orcidx checks the size of a stripe of long rows after a few rows. ORC C++ checks it every 1,024 rows, so 512 rows
    of 1 MB become a stripe of 512 MB."""
    table = pa.table({"b": [rng.bytes(1_000_000) for _ in range(24)]})
    result = orcidx.write_table(table, io.BytesIO(), stripe_size=4 * MIB)
    assert max(peaks) < 4 * MIB + 2 * MIB
    assert max(stripe.data_length for stripe in result.stripes) < 6 * MIB
    assert max(stripe.rows for stripe in result.stripes) <= 5


def test_writers_share_a_limit(rng):
    memory = orcidx.WriterMemory(2 * MIB)
    outs = [io.BytesIO() for _ in range(4)]
    schema = pa.schema({"n": pa.int64()})
    writers = [orcidx.OrcWriter(out, schema, max_memory=memory) for out in outs]
    written: list[list[int]] = [[] for _ in writers]
    for _ in range(60):
        which = int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))
        values = rng.integers(-(2**62), 2**62, 8_000)
        writers[which].write(pa.table({"n": values}))
        written[which] += values.tolist()
        assert memory.held <= memory.limit
    results = [writer.close() for writer in writers]
    assert memory.held == 0
    for out, values, result in zip(outs, written, results, strict=True):
        assert orcidx.open(out.getvalue()).read().column("n").to_pylist() == values
        assert len(result.stripes) > (2 if len(values) > 200_000 else 0)
    # Whenever the limit is exceeded, the largest stripe of all writers is ended. So the writers that get few rows keep
    # their stripes for long, and write few of them.
    assert min(len(result.stripes) for result in results) <= 2


def test_a_limit_of_one_writer(peaks, rng):
    result = orcidx.write_table(pa.table({"n": rng.integers(0, 2**62, 400_000)}), io.BytesIO(), max_memory=MIB)
    assert len(result.stripes) > 2
    for wrong in (0, 1000, -1, True, "1 GB", 2.5):
        with pytest.raises(InvalidQuery, match="max_memory"):
            orcidx.WriteOptions(max_memory=wrong)
    options = orcidx.WriteOptions(max_memory=orcidx.WriterMemory(5 * MIB))
    assert pickle.loads(pickle.dumps(options)).max_memory.limit == 5 * MIB


def test_an_error_of_another_writer_is_its_own(tmp_path, rng):
    class Full(io.RawIOBase):
        def write(self, data):
            raise OSError("no space left")

    memory = orcidx.WriterMemory(MIB)
    schema = pa.schema({"n": pa.int64()})
    broken = orcidx.OrcWriter(Full(), schema, max_memory=memory)
    broken.write(pa.table({"n": rng.integers(0, 2**62, 50_000)}))
    goods = [orcidx.OrcWriter(tmp_path / f"{i}.orc", schema, max_memory=memory) for i in range(3)]
    for good in goods:
        good.write(pa.table({"n": rng.integers(0, 2**62, 20_000)}))
    with pytest.raises(InvalidQuery, match="earlier error") as caught:
        broken.close()
    assert "no space left" in str(caught.value.__cause__)
    assert [good.close().rows for good in goods] == [20_000] * 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("shared", [True, False])
def test_a_with_block_ends_with_the_error_of_a_stripe_that_was_ended_for_memory(rng, shared):
    """A stripe is ended to free memory, and storing it fails. The ``with`` block of its writer raises this error at its
    end. Without the error, the caller would not know that there is no file."""

    class Full(io.RawIOBase):
        def write(self, data):
            raise OSError("no space left")

    memory = orcidx.WriterMemory(MIB) if shared else MIB
    rows = pa.table({"n": rng.integers(0, 2**62, 50_000 if shared else 200_000)})
    good = orcidx.OrcWriter(io.BytesIO(), rows.schema, max_memory=memory)

    def write():
        with orcidx.OrcWriter(Full(), rows.schema, max_memory=memory) as broken:
            broken.write(rows)
            good.write(rows if not shared else pa.concat_tables([rows] * 3))

    with pytest.raises(InvalidQuery, match="earlier error") as caught:
        write()
    assert "no space left" in str(caught.value.__cause__)
    good.close()


def test_a_writer_at_work_is_left_alone(rng):
    memory = orcidx.WriterMemory(MIB)
    schema = pa.schema({"n": pa.int64()})
    busy, other = (orcidx.OrcWriter(io.BytesIO(), schema, max_memory=memory) for _ in range(2))
    busy.write(pa.table({"n": rng.integers(0, 2**62, 60_000)}))
    before = busy.bytes_buffered

    def write_meanwhile():
        other.write(pa.table({"n": rng.integers(0, 2**62, 90_000)}))
        assert busy.bytes_buffered == before
        assert other.bytes_buffered == 0

    busy._at_work.run(write_meanwhile)
    other.write(pa.table({"n": rng.integers(0, 2**62, 70_000)}))
    assert memory.held <= memory.limit
