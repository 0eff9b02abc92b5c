"""String views are made from dictionaries and from lengths, and filtered by conditions. They equal strings that are
cast to views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.orc.columns import text
from orcidx.orc.string_views import make_uniform_views, make_views
from orcidx.scanner import column_group

LENGTHS = {"empty": (0, 0), "one": (1, 1), "inline": (0, 12), "around 12": (8, 17), "long": (13, 40), "all": (0, 60)}


def random_texts(rng: np.random.Generator, count: int, shortest: int, longest: int) -> list[str]:
    letters = np.array(list("abcdefghij äöß€😀"))
    sizes = rng.integers(shortest, longest + 1, count)
    return ["".join(rng.choice(letters, size)) for size in sizes.tolist()]


def views_of(array: pa.Array) -> pa.Array:
    """Returns the views that the kernel makes of ``array``. The kernel's buffers have no bytes behind the data."""
    _, offsets, data = array.buffers()
    out = bytearray(len(array) * 16)
    places = np.frombuffer(offsets, np.int32, len(array) + 1)
    content = b"" if data is None else data.to_pybytes()
    longest = make_views(places, content, out)
    lengths = np.diff(places)
    assert longest == (lengths.max() if len(lengths) else 0)
    return pa.Array.from_buffers(pa.string_view(), len(array), [None, pa.py_buffer(bytes(out)), pa.py_buffer(content)])


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_views_are_those_of_arrow(rng: np.random.Generator, lengths: tuple[int, int]) -> None:
    for count in (0, 1, 2, 3, 7, 100, 5000):
        array = pa.array(random_texts(rng, count, *lengths), pa.string())
        made = views_of(array)
        made.validate(full=True)
        assert made.equals(array.cast(pa.string_view()))


@pytest.mark.parametrize("length", range(13))
def test_views_of_equal_lengths(rng: np.random.Generator, tmp_path: Path, length: int) -> None:
    for count in (0, 1, 2, 3, 13, 1000):
        data = rng.integers(97, 123, count * length, np.uint8).tobytes()
        expected, found = bytearray(16 * count), bytearray(b"\x07" * 16 * count)
        make_views(np.arange(count + 1, dtype=np.int32) * length, data, expected)
        make_uniform_views(data, length, found)
        assert found == expected
    texts = pa.array([data[row * length : (row + 1) * length].decode() for row in range(count)])
    orcidx.write_table(pa.table({"text": texts}), tmp_path / "a.orc", dictionary_key_size_threshold=0)
    read = orcidx.read_table(tmp_path / "a.orc", strings="view")["text"].chunk(0)
    read.validate(full=True)
    assert read.equals(texts.cast(pa.string_view()))


def test_views_of_equal_lengths_that_do_not_fit() -> None:
    for data, length, size in ((b"abc", 2, 32), (b"a" * 26, 13, 32), (b"abc", -1, 16)):
        with pytest.raises(ValueError, match="do not fit"):
            make_uniform_views(data, length, bytearray(size))


def test_offsets_outside_of_the_data_are_refused() -> None:
    for offsets in ([0, 4], [-1, 2], [0, 2, 9]):
        with pytest.raises(ValueError, match="do not fit"):
            make_views(np.array(offsets, np.int32), b"abc", bytearray(64))
    with pytest.raises(ValueError, match="do not fit"):
        make_views(np.array([0, 1, 2], np.int32), b"abc", bytearray(16))
    make_views(np.array([0, 90, 1 << 30, 0, 2], np.int32), b"abc", bytearray(64))  # must not read outside of the data


@pytest.mark.parametrize(
    ("shared_bytes", "with_content"), [(0, True), (1 << 16, True), (1 << 16, False)], ids=["apart", "shared", "cast"]
)
@pytest.mark.parametrize("entries", [1, 20, 4000])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_scans_with_views(
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    lengths: tuple[int, int],
    entries: int,
    shared_bytes: int,
    with_content: bool,
) -> None:
    """Reads direct columns and dictionaries, with and without nulls. Reads all rows, and the rows of conditions that
    keep many or few rows."""
    monkeypatch.setattr(text, "SHARED_BYTES", shared_bytes)
    monkeypatch.setattr(text, "VIEWS_WITH_CONTENT", with_content)
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)
    rows = 6000
    words = random_texts(rng, entries, *lengths)
    column = [words[number] for number in rng.integers(0, entries, rows).tolist()]
    table = pa.table(
        {
            "id": np.arange(rows),
            "noise": rng.integers(0, 100, rows),
            "s": column,
            "n": pa.array(column, mask=rng.random(rows) < 0.3),
            "direct": random_texts(rng, rows, *lengths),
            "null": pa.array([None] * rows, pa.string()),
        }
    )
    path = tmp_path / "file.orc"
    orcidx.write_table(table, path, row_index_stride=1000)
    names = ["s", "n", "direct", "null"]
    for where in (None, "noise < 3", "noise >= 50", "id BETWEEN 1500 AND 4200", f"s <> '{words[0]}' OR noise > 90"):
        for batch_size in (700, 1 << 20):
            with orcidx.open(path) as file:
                views = file.scan(names, where, strings="view", batch_size=batch_size).to_table()
                strings = file.scan(names, where, batch_size=batch_size).to_table()
            assert views.schema.types == [pa.string_view()] * 4
            views.validate(full=True)
            assert views.cast(strings.schema).equals(strings)


def test_a_small_dictionary_is_shared_by_all_batches(tmp_path: Path) -> None:
    words = [f"a rather long word {number}" for number in range(20)]
    path = tmp_path / "file.orc"
    orcidx.write_table(pa.table({"s": words * 1000}), path)
    with orcidx.open(path) as file:
        batches = list(file.scan(strings="view", batch_size=1000).to_batches())
    contents = {buffer.address for batch in batches for buffer in batch.column(0).buffers()[2:]}
    assert len(batches) == 20
    assert len(contents) == (1 if text.VIEWS_WITH_CONTENT else 20)
