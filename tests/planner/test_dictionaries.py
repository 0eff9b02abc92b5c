"""A dictionary that is read to test whether a stripe can be skipped is also used to decode the column."""

import io
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx import col
from orcidx.orc.kinds import StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.storage import open_reader
from orcidx.storage.recording import RecordingReader

ROWS = 150_000


@pytest.fixture(scope="module")
def data() -> bytes:
    """Makes two stripes whose words have the same range, so that statistics cannot rule out either stripe. The file is
    larger than one read."""
    out = io.BytesIO()
    schema = pa.schema({"word": pa.string(), "noise": pa.int64()})
    random = np.random.default_rng(7)
    options = {"compression": "zstd", "dictionary_key_size_threshold": 0.9, "stripe_size": 1, "batch_size": ROWS}
    with pyarrow.orc.ORCWriter(out, **options) as writer:
        for stripe in range(2):
            words = [f"word {2 * number + stripe:04}" for number in random.integers(0, 300, ROWS).tolist()]
            writer.write(pa.table([words, random.integers(0, 1 << 60, ROWS)], schema=schema))
    return out.getvalue()


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("threads", [True, False])
def test_a_dictionary_is_fetched_once(data: bytes, local: bool, threads: bool) -> None:
    tail = OrcReader(open_reader(data))
    places = [
        place
        for stripe in range(len(tail.stripes))
        for kind in (StreamKind.LENGTH, StreamKind.DICTIONARY_DATA)
        if (place := tail.extents(stripe).get((1, kind)))
    ]
    assert len(tail.stripes) == 2
    assert len(places) == 4
    reader = RecordingReader(open_reader(data))
    reader.is_local = local
    with orcidx.open(reader) as file:
        found = file.scan(where=col("word") == "word 0100", use_threads=threads).to_table()
    assert set(found["word"].to_pylist()) == {"word 0100"}
    read = Counter(place for place in places for offset, length in reader.ranges if overlap(place, (offset, length)))
    assert read == dict.fromkeys(places, 1)


def overlap(place: tuple[int, int], other: tuple[int, int]) -> bool:
    return place[0] < other[0] + other[1] and other[0] < place[0] + place[1]
