"""A rewrite says what it made worse: a larger file, or lookups that read more. Also, the chunk size of sorted rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcidx

ROWS = 20_000


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    table = pa.table({"id": np.arange(ROWS), "user": rng.integers(0, 500, ROWS), "price": rng.random(ROWS)})
    orcidx.write_table(table, tmp_path / "a.orc", row_index_stride=1000, compression_block_size=4096)
    return tmp_path / "a.orc"


def test_a_lookup_that_reads_more_is_told(stored: Path) -> None:
    (one,) = orcidx.rewrite(stored, stored.with_name("b.orc"), sort_by="user").files
    (told,) = [note for note in one.notes if note.startswith("a lookup by")]
    assert told.startswith("a lookup by id reads more: about ")
    assert "the overlap depth was 1 and is now 20" in told
    (back,) = orcidx.rewrite(stored.with_name("b.orc"), stored.with_name("c.orc"), sort_by="id").files
    assert any(note.startswith("a lookup by user reads more") for note in back.notes)


def test_a_larger_result_is_told(stored: Path) -> None:
    (one,) = orcidx.rewrite(stored, stored.with_name("b.orc"), compression="uncompressed").files
    assert one.bytes_after is not None
    assert one.bytes_after > one.bytes_before
    assert [note for note in one.notes if note.startswith("the result is larger: ")]
    (same,) = orcidx.rewrite(stored, stored.with_name("c.orc")).files
    assert same.notes == ()


def test_ordered_rows_get_small_chunks(stored: Path) -> None:
    """A row group was a twelfth of a chunk before, and a lookup reads the whole chunk."""
    sizes = {}
    large = stored.with_name("large.orc")
    orcidx.write_table(orcidx.read_table(stored), large)
    for number, options in enumerate(({}, {"sort_by": "user"}, {"sort_by": "user", "compression_block_size": 131_072})):
        target = stored.with_name(f"{number}.orc")
        orcidx.rewrite(large, target, **options)
        with orcidx.open(target) as file:
            sizes[number] = file.reader.facts.block_size
    assert list(sizes.values()) == [262_144, 65_536, 131_072]
