"""Arrow's dictionary arrays: the same bytes as plain texts, whether the file keeps a dictionary or not."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import orcidx

ROWS = 25_000
KINDS = {"string": pa.string(), "large_string": pa.large_string(), "binary": pa.binary()}


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
        wanted = written(part.dictionary_decode(), bloom_filter_columns=["x"])
        assert written(part, bloom_filter_columns=["x"]) == wanted
        assert written(part, pieces=7, bloom_filter_columns=["x"]) == wanted
        assert (
            orcidx.read_table(wanted)["x"]
            .combine_chunks()
            .equals(part.dictionary_decode().cast(pa.binary() if kind == "binary" else pa.string()))
        )


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
