"""The notes of a rewrite about what became worse: a larger file, or lookups that read more. Also, the chunk size of
sorted rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx.errors import InvalidQuery, StorageError
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.rewriting import counted_reads, lookup_cost
from orcidx.rewriting.counted_reads import CountedReads
from orcidx.rewriting.lookup_growth import LookupCost
from orcidx.storage import open_reader

ROWS = 100_000
"""The file has more than 256 KiB. A smaller local file is read at once."""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    table = pa.table({"id": np.arange(ROWS), "user": rng.integers(0, 500, ROWS), "price": rng.random(ROWS)})
    orcidx.write_table(table, tmp_path / "a.orc", row_index_stride=5000, compression_block_size=4096)
    return tmp_path / "a.orc"


def test_a_lookup_that_reads_more_is_told(stored: Path) -> None:
    (one,) = orcidx.rewrite(stored, stored.with_name("b.orc"), sort_by="user").files
    (told,) = [note for note in one.notes if note.startswith("a lookup by")]
    assert told.startswith("a lookup by id reads more: about ")
    assert "the overlap depth was 1 and is now 20" in told
    (back,) = orcidx.rewrite(stored.with_name("b.orc"), stored.with_name("c.orc"), sort_by="id").files
    assert any(note.startswith("a lookup by user reads more") for note in back.notes)


def test_a_small_file_is_read_at_once_in_any_order(tmp_path: Path) -> None:
    """A lookup in a small file reads the whole file. So the lookup reads more only because the file is larger, and the
    note does not name the overlap depth."""
    rng = np.random.default_rng(2)
    table = pa.table({"id": np.arange(5000), "user": rng.integers(0, 500, 5000)})
    orcidx.write_table(table, tmp_path / "a.orc", row_index_stride=1000)
    (one,) = orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", sort_by="user").files
    (told,) = [note for note in one.notes if note.startswith("a lookup by")]
    assert "in 1 request, before" in told
    assert "; a file of this size is read completely" in told
    assert "overlap depth" not in told


def test_larger_stripes_take_more_requests(tmp_path: Path) -> None:
    """A small stripe of a local file is read by one request. This rewrite makes a larger stripe, so a lookup takes
    several requests, and the note says so."""
    rng = np.random.default_rng(2)
    table = pa.table({name: rng.random(300_000) for name in "abcdef"} | {"id": np.arange(300_000)})
    orcidx.write_table(table, tmp_path / "a.orc", stripe_size=256 << 10)
    (one,) = orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", stripe_size=64 << 20).files
    (told,) = [note for note in one.notes if note.startswith("a lookup by")]
    assert "; stripes of up to 1.0 MiB are read by one request, and larger stripes by several" in told


def test_a_file_without_row_groups_has_no_bloom_filters(stored: Path) -> None:
    orcidx.write_table(orcidx.read_table(stored), stored, bloom_filter_columns=["user"])
    target = stored.with_name("b.orc")
    (one,) = orcidx.rewrite(stored, target, row_index_stride=0).files
    assert one.reasons == ("a file without row groups is requested",)
    assert "the bloom filters of 'user' are left out, because a file without row groups has none" in one.notes
    assert orcidx.open(target).reader.facts.row_index_stride == 0
    with pytest.raises(InvalidQuery, match="bloom_filters needs row groups"):
        orcidx.rewrite(stored, target, row_index_stride=0, bloom_filters=["user"], overwrite=True)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stripe_size": 65_536}, r"(takes more requests|reads more): .*; there are \d+ stripes, before 1"),
        ({"row_index_stride": 0}, r"reads more.*; row groups have 100,000 rows, before 5,000"),
        ({"row_index_stride": 1_000_000}, r"reads more.*; row groups have 100,000 rows, before 5,000"),
        ({"row_index_stride": 100}, r"reads more.*; tails, footers and indexes take .*, before "),
        (
            {"compression_block_size": 262_144, "compression": "zlib"},
            r"reads more.*; a chunk of up to 256\.0 KiB is decompressed as a whole, before up to 4\.0 KiB",
        ),
    ],
)
def test_the_cause_is_told(stored: Path, changes: dict[str, Any], told: str) -> None:
    """The note names the cause, such as more stripes or larger row groups. It does not name the overlap depth, which is
    1 before and after the rewrite."""
    (one,) = orcidx.rewrite(stored, stored.with_name("b.orc"), **changes).files
    (note,) = [note for note in one.notes if note.startswith("a lookup by")]
    assert re.search(told, note), note
    assert "overlap depth" not in note


def test_merged_files_are_compared_together(stored: Path) -> None:
    """A lookup in the merged file is compared with a lookup in both sources, because the keys of the sources overlap.
    It reads more than a lookup in one source, but not more than a lookup in both, so there is no note."""
    other = stored.with_name("other.orc")
    orcidx.write_table(orcidx.read_table(stored), other, row_index_stride=5000, compression_block_size=4096)
    (one,) = orcidx.rewrite([stored, other], stored.with_name("m.orc"), merge=True, sort_by="id").files
    assert not [note for note in one.notes if note.startswith("a lookup by id")]


def test_remote_files_are_compared_as_local_files_are(stored: Path) -> None:
    """A remote source gets the same notes as a local source. The blocks that the comparison reads are cached."""
    changes: dict[str, Any] = {"row_index_stride": 0, "stripe_size": 1 << 17}
    (local,) = orcidx.rewrite(stored, stored.with_name("b.orc"), **changes).files
    memory = fsspec.filesystem("memory")
    memory.pipe("/lookups/a.orc", stored.read_bytes())
    (remote,) = orcidx.rewrite("memory://lookups/a.orc", stored.with_name("c.orc"), **changes).files
    assert remote.notes == local.notes
    assert any(note.startswith("a lookup by") for note in local.notes)


def test_blocks_of_remote_files_are_read_once_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 1024 * 5
    memory = fsspec.filesystem("memory")
    memory.pipe("/lookups/b", data)
    beneath = open_reader("memory://lookups/b")
    reads = CountedReads(beneath)
    place = (1 << 20) - 10, 20
    assert [bytes(one) for one in reads.read_ranges([place])] == [data[place[0] : sum(place)]]
    fetched = beneath.metrics.bytes_fetched
    assert fetched == len(data)
    reads.read_ranges([(5, 100)])
    assert beneath.metrics.bytes_fetched == fetched
    assert (reads.metrics.requests, reads.metrics.bytes_fetched) == (2, 120)
    monkeypatch.setattr(counted_reads, "MOST_READ", 1)
    with pytest.raises(StorageError, match="at most 1 blocks of the file"):
        CountedReads(open_reader("memory://lookups/b")).read_ranges([place])


def test_files_beyond_the_limit_are_extrapolated(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [stored, stored.with_name("other.orc")]
    twice[1].write_bytes(stored.read_bytes())
    notes = []
    for most in (16, 1):
        monkeypatch.setattr(lookup_cost, "MOST_FILES", most)
        (one,) = orcidx.rewrite(twice, stored.with_name(f"{most}.orc"), merge=True, row_index_stride=0).files
        notes.append(one.notes)
    assert notes[0] == notes[1] != ()


WORDS = np.array([f"word {number:05}" for number in range(3000)])


def random_table(rng: np.random.Generator, rows: int) -> pa.Table:
    """A table of columns whose values are sorted, nearly sorted and unsorted, with many and with few distinct
    values."""
    near = np.arange(rows) + rng.integers(0, rows // 8, rows)
    price = pa.array(rng.random(rows), mask=rng.random(rows) < 0.1)
    return pa.table(
        {
            "id": np.arange(rows),
            "ts": pa.array(near * 1_000_000, pa.timestamp("us")),
            "user": rng.integers(0, rows // 40, rows),
            "word": WORDS[rng.integers(0, 3000, rows)],
            "inner": pa.StructArray.from_arrays([price, pa.array(rng.integers(0, 4, rows))], ["price", "kind"]),
        }
    )


def random_changes(rng: np.random.Generator) -> dict[str, Any]:
    """Returns random options of a rewrite. They change the sizes of stripes, row groups or chunks, the order, the
    compression, or the indexes."""
    every: list[dict[str, Any]] = [
        {"stripe_size": int(rng.choice([1 << 16, 1 << 18, 1 << 26]))},
        {"row_index_stride": int(rng.choice([0, 500, 2000, 10_000, 1_000_000]))},
        {"compression_block_size": int(rng.choice([4096, 65_536, 262_144]))},
        {"sort_by": str(rng.choice(["id", "ts", "user", "word"]))},
        {"compression": str(rng.choice(["zstd", "uncompressed"]))},
        {"bloom_filters": ["word", "user"]},
    ]
    chosen = rng.choice(len(every), int(rng.integers(1, 3)), replace=False)
    return {name: value for place in chosen for name, value in every[place].items()}


def counted_lookups(path: Path, name: str, values: list[pa.Scalar]) -> tuple[float, float]:
    """Returns the average numbers of bytes and requests of lookups with empty caches."""
    sizes, requests = [], []
    for value in values:
        forget_metadata()
        with orcidx.scan(path, None, orcidx.col(*name.split(".")) == value).to_batches() as batches:
            assert sum(batch.num_rows for batch in batches) > 0
            sizes.append(batches.metrics.bytes_read)
            requests.append(batches.metrics.requests)
    return float(np.mean(sizes)), float(np.mean(requests))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_what_is_told_is_what_lookups_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The bytes and requests that a rewrite estimates for lookups are compared with those that scans count. The scans
    look up other values than the estimate, so the numbers may differ a little."""
    rng = np.random.default_rng(seed)
    table = random_table(rng, 50_000)
    source, target = tmp_path / "a.orc", tmp_path / "b.orc"
    stride = int(rng.choice([0, 1000, 10_000]))
    stripe = int(rng.choice([1 << 18, 1 << 26]))
    orcidx.write_table(table, source, row_index_stride=stride, stripe_size=stripe, compression_block_size=16_384)
    estimates: dict[str, tuple[LookupCost, LookupCost]] = {}
    real = lookup_cost._costs

    def seen(*arguments: Any) -> dict[str, tuple[LookupCost, LookupCost]]:
        estimates.update(real(*arguments))
        return estimates

    monkeypatch.setattr(lookup_cost, "_costs", seen)
    changes = random_changes(rng)
    (one,) = orcidx.rewrite(source, target, **changes).files
    told = [note for note in one.notes if note.startswith("a lookup by")]
    if one.way == "copy":
        assert not told
        return
    assert sorted(estimates) == ["id", "inner.kind", "inner.price", "ts", "user", "word"]
    grown: dict[str, float] = {}
    for name, (was, now) in estimates.items():
        first, *below = name.split(".")
        column = table.column(first)
        column = pc.struct_field(column, below) if below else column
        values = [column[row] for row in range(1500, len(table), 5000)]
        values = [value for value in values if value.is_valid]
        (bytes_before, requests_before), (bytes_after, requests_after) = (
            counted_lookups(path, name, values) for path in (source, target)
        )
        assert was.bytes == pytest.approx(bytes_before, rel=0.2), (name, changes)
        assert now.bytes == pytest.approx(bytes_after, rel=0.2), (name, changes)
        assert was.requests == pytest.approx(requests_before, rel=0.2, abs=3), (name, changes)
        assert now.requests == pytest.approx(requests_after, rel=0.2, abs=3), (name, changes)
        grown[name] = max(bytes_after / bytes_before / 1.1, requests_after / requests_before / 1.5)
    if max(grown.values()) > 1.1:
        assert told, (grown, changes)
    if max(grown.values()) < 0.9:
        assert not told, (told, grown, changes)
    if told:
        assert grown[told[0].split()[3]] > 0.9


def test_a_larger_result_is_told(stored: Path) -> None:
    (one,) = orcidx.rewrite(stored, stored.with_name("b.orc"), compression="uncompressed").files
    assert one.bytes_after is not None
    assert one.bytes_after > one.bytes_before
    assert [note for note in one.notes if note.startswith("the result is larger: ")]
    (same,) = orcidx.rewrite(stored, stored.with_name("c.orc")).files
    assert same.notes == ()


def test_ordered_rows_get_small_chunks(stored: Path) -> None:
    """Sorted rows get chunks of 64 KiB. With chunks of 256 KiB, a row group would be a twelfth of a chunk, and a lookup
    reads whole chunks."""
    sizes = {}
    large = stored.with_name("large.orc")
    orcidx.write_table(orcidx.read_table(stored), large)
    every: list[dict[str, Any]] = [{}, {"sort_by": "user"}, {"sort_by": "user", "compression_block_size": 131_072}]
    for number, options in enumerate(every):
        target = stored.with_name(f"{number}.orc")
        orcidx.rewrite(large, target, **options)
        with orcidx.open(target) as file:
            sizes[number] = file.reader.facts.block_size
    assert list(sizes.values()) == [262_144, 65_536, 131_072]
