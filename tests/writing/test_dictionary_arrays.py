"""Arrow's dictionary arrays and plain texts are written as the same bytes, with and without a dictionary in the
file."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.orc_writer.array_layouts import decoded_dictionary

ROWS = 25_000
KINDS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
}


def written(array: pa.Array, pieces: int = 1, **options: object) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"x": array})
    step = -(-len(array) // pieces)
    with orcidx.OrcWriter(sink, table.schema, row_index_stride=10_000, **options) as writer:  # type: ignore[arg-type]
        for at in range(0, len(array), step):
            writer.write(table.slice(at, step))
    return sink.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distinct", [3, 7_000, 40_000])
@pytest.mark.parametrize("nulls", [False, True])
def test_the_same_bytes_as_plain(rng: np.random.Generator, kind: str, distinct: int, nulls: bool) -> None:
    texts = [f"{i:x}" * int(rng.integers(0, 9)) + f"-{i}" for i in range(distinct)] + ["", "x" * 100]
    values = pa.array(texts, pa.string()).cast(KINDS[kind])
    mask = rng.random(ROWS) < 0.1 if nulls else None
    indexes = pa.array(rng.integers(0, len(texts), ROWS).astype(np.int32), mask=mask)
    array = pa.DictionaryArray.from_arrays(indexes, values)
    for part in (array, array.slice(3, 20_001)):
        plain = decoded_dictionary(part)
        wanted = written(plain, bloom_filter_columns=["x"])
        assert written(part, bloom_filter_columns=["x"]) == wanted
        assert written(part, pieces=7, bloom_filter_columns=["x"]) == wanted
        assert (
            orcidx.read_table(wanted)["x"]
            .combine_chunks()
            .equals(plain.cast(pa.binary() if "binary" in kind else pa.string()))
        )


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    "lengths", [1, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, (0, 31), (1, 32), (0, 63), (9, 64)]
)
def test_short_texts_lie_in_slots(rng: np.random.Generator, lengths: int | tuple[int, int], nulls: bool) -> None:
    """If all texts have the same length, they are used in place. Other short texts are copied to slots of equal size.
    The tests cover the shortest and longest texts, bytes that are not letters, both ends of the dictionary, and slices
    of a larger dictionary."""
    least, most = lengths if isinstance(lengths, tuple) else (lengths, lengths)
    alphabet = np.frombuffer(b"\x00\x01ABCabcz~\x7f", np.uint8)
    texts = [alphabet[rng.integers(0, len(alphabet), k)].tobytes() for k in rng.integers(least, most + 1, 5_003)]
    values = pa.array(texts, pa.binary()).cast(pa.string())[2:5_001]
    rows = np.concatenate([rng.integers(0, len(values), ROWS), [0, len(values) - 1]]).astype(np.int32)
    mask = rng.random(len(rows)) < 0.1 if nulls else None
    array = pa.DictionaryArray.from_arrays(pa.array(rows, mask=mask), values)
    for kind in (pa.string(), pa.large_string(), pa.binary()):
        part = array.cast(pa.dictionary(pa.int32(), kind)) if kind != pa.string() else array
        for threshold in (0, "auto"):
            wanted = written(part.dictionary_decode(), dictionary_key_size_threshold=threshold)
            assert written(part, dictionary_key_size_threshold=threshold) == wanted
            assert written(part, pieces=3, dictionary_key_size_threshold=threshold) == wanted
        assert orcidx.read_table(wanted)["x"].combine_chunks().cast(kind).equals(part.dictionary_decode())


def test_batches_with_dictionaries_of_their_own(rng: np.random.Generator) -> None:
    parts = []
    for first in (0, 100, 100, 90_000):
        values = pa.array([f"customer-{first + i:08d}" for i in range(9_000)])
        for rows in (100, 14_000):
            indexes = pa.array(rng.integers(0, 9_000, rows).astype(np.int32))
            parts.append(pa.DictionaryArray.from_arrays(indexes, values))
    sinks = [io.BytesIO(), io.BytesIO()]
    for sink, arrays in zip(sinks, (parts, [part.dictionary_decode() for part in parts]), strict=True):
        orcidx.write_table(pa.table({"x": pa.chunked_array(arrays)}), sink, dictionary_key_size_threshold=0)
    assert sinks[0].getvalue() == sinks[1].getvalue()


@pytest.mark.parametrize("length", [8, 40])
def test_texts_in_slots_are_checked(length: int) -> None:
    raw = pa.array([b"%0*d" % (length, i) for i in range(8_000)] + [b"\xff" * length], pa.binary())
    values = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    rows = np.arange(ROWS, dtype=np.int32) % 8_000
    rows[20_017] = 8_000
    array = pa.DictionaryArray.from_arrays(pa.array(rows), values)
    with pytest.raises(orcidx.ValueOutOfRange, match=r"20017.*not UTF-8"):
        written(array, dictionary_key_size_threshold=0)
    rows[20_017] = 8_001
    array = pa.DictionaryArray.from_arrays(pa.array(rows), values, safe=False)
    with pytest.raises((IndexError, orcidx.InvalidQuery), match=r"dictionary|index"):
        written(array, dictionary_key_size_threshold=0)


@pytest.mark.parametrize("distinct", [5, 30_000])
def test_bytes_that_are_no_text_are_refused(distinct: int) -> None:
    raw = pa.array([b"%d" % i for i in range(distinct)] + [b"\xff"], pa.binary())
    values = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    rows = np.arange(ROWS, dtype=np.int32) % distinct
    rows[20_017] = distinct
    array = pa.DictionaryArray.from_arrays(pa.array(rows), values)
    with pytest.raises(orcidx.ValueOutOfRange, match=r"20017.*not UTF-8"):
        written(array)


@pytest.mark.parametrize("distinct", [5, 30_000])
@pytest.mark.parametrize("index", [-1, 1 << 30])
def test_an_index_outside_is_an_error(distinct: int, index: int) -> None:
    rows = np.arange(ROWS, dtype=np.int32) % distinct
    rows[20_017] = index
    values = pa.array(map(str, range(distinct)))
    array = pa.DictionaryArray.from_arrays(pa.array(rows), values, safe=False)
    with pytest.raises((IndexError, orcidx.InvalidQuery), match=r"dictionary|index"):
        written(array)
