"""The bytes that a query reads are consistent in random scans: bytes without evidence, planned bytes, counted bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx import col
from orcidx.orc.compression import CHUNK_HEADER
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.predicate.fold import leaves
from orcidx.storage import RecordingReader, open_reader
from orcidx.storage.local import SMALL_FILE

SCANS = int(os.environ.get("ORCIDX_READ_BYTES_SCANS", "24"))
ROWS = 24_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Writes files of several stripes with few row groups: with small chunks, with large chunks, and without
    compression."""
    folder = tmp_path_factory.mktemp("bytes")
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "key": rng.permutation(ROWS),
            "word": [f"word {value % 40}" for value in range(ROWS)],
            "text": [rng.bytes(12).hex() for _ in range(ROWS)],
            "price": rng.random(ROWS),
        }
    )
    forms: list[dict[str, Any]] = [
        {"compression": "zstd", "compression_block_size": 4096},
        {"compression": "zlib", "compression_block_size": 65_536},
        {"compression": "uncompressed"},
    ]
    paths = []
    for number, form in enumerate(forms):
        paths.append(folder / f"{number}.orc")
        options = {"row_index_stride": 1000, "stripe_size": 300_000, "bloom_filter_columns": ["key"]}
        orcidx.write_table(table, paths[-1], **options, **form)
        assert paths[-1].stat().st_size > SMALL_FILE
    # The tail of a file that was written a moment ago is read twice, because the file may have changed.
    time.sleep(0.2)
    return paths


def random_query(rng: np.random.Generator) -> tuple[list[str], Any, bool]:
    """Returns columns, a condition, and whether some column waits for the filter of its rows."""
    names = ["id", "key", "word", "text", "price"]
    columns = [names[i] for i in sorted(rng.choice(5, int(rng.integers(1, 6)), replace=False))]
    low = int(rng.integers(0, ROWS))
    where: Any = [
        col("id").between(low, low + int(rng.integers(0, 4000))),
        col("key") == low,
        col("word") == f"word {low % 50}",
        (col("id") < low) & (col("price") > rng.random()),
        col("text") > "80",
        None,
    ][int(rng.integers(0, 6))]
    asked = set() if where is None else {leaf.column for leaf in leaves(where)}
    return columns, where, bool(where is not None and set(columns) - set(asked))


def data_sections(file: orcidx.OrcFile) -> list[tuple[int, int]]:
    return [(one.offset + one.index_length, one.footer_offset) for one in file.stripes]


def of_data(ranges: list[tuple[int, int]], sections: list[tuple[int, int]]) -> int:
    """Returns how many bytes of these (offset, length) ranges lie in the data of stripes."""
    return sum(
        max(0, min(offset + length, stop) - max(offset, start)) for offset, length in ranges for start, stop in sections
    )


@pytest.mark.parametrize("number", range(SCANS))
def test_no_more_is_counted_than_planned(files: list[Path], rng: np.random.Generator, number: int) -> None:
    """From remote storage, a scan reads exactly the planned bytes if no column waits for a filter. From a local file,
    it also reads the headers of chunks."""
    rng = np.random.default_rng([number, int(rng.integers(1 << 30))])
    path = files[number % len(files)]
    columns, where, waits = random_query(rng)
    forget_metadata()
    told = orcidx.scan(path, columns, where).explain()
    with orcidx.open(path) as file:
        sections = data_sections(file)
        indexes = sum(one.index_length for one in file.stripes)  # a read of a whole stripe includes its indexes
    without, planned = next((one.before, one.after) for one in told.funnel if one.name == "bytes")
    assert planned <= without

    forget_metadata()
    far = RecordingReader(open_reader(path.read_bytes()))
    far.is_local = False
    with orcidx.open(far) as file:
        rows = file.scan(columns, where, use_threads=False).to_table()
    counted = of_data(far.ranges, sections)
    evidence = told.files[0].index_bytes  # the dictionaries that were asked are part of the data
    assert counted <= planned + evidence
    asks_dictionary = where is not None and "word" in {leaf.column for leaf in leaves(where)}
    assert waits or asks_dictionary or counted == planned, (columns, where)

    forget_metadata()
    near = open_reader(path)
    near.metrics.log = []
    with orcidx.open(near) as file, file.scan(columns, where, use_threads=False, merge_gap=0).to_batches() as batches:
        assert pa.Table.from_batches(list(batches), rows.schema).num_rows == rows.num_rows
        metrics = batches.metrics
    # The first request is the tail.
    counted = of_data([(one.offset, one.length) for one in near.metrics.log[1:]], sections)
    over_read = CHUNK_HEADER * len(near.metrics.log)
    assert counted <= planned + evidence + over_read
    assert metrics.bytes_read <= told.read_bytes + over_read + indexes + evidence


def test_skipped_stripes_are_counted_by_the_columns_that_are_read(files: list[Path]) -> None:
    """Skipped stripes counted with all columns before. So a scan of one of five columns seemed to save more than it
    did."""
    with orcidx.open(files[0]) as file:
        told = file.scan(["id"], "id = 77").explain()
        whole = file.scan(["id"]).explain()
    assert len(told.files[0].stripes) > 1
    assert next(one for one in told.funnel if one.name == "bytes").before == whole.funnel[-1].before


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"id": range(1000), "x": range(1000)}), tmp_path / "a.orc")
    forget_metadata()
    scan = orcidx.scan(tmp_path / "a.orc", ["id"], "id = 5")
    told = scan.explain()
    size = (tmp_path / "a.orc").stat().st_size
    assert told.read_bytes == size > told.funnel[-1].before
    assert "1 file read completely" in str(told)
    assert told.to_dict()["read_bytes"] == size
    with scan.to_batches() as batches:
        list(batches)
        assert batches.metrics.bytes_read == size
        assert batches.metrics.work == f"read 1 of 1 row group, {size} B in 1 request"


def test_a_damaged_footer_of_a_skipped_stripe_is_told(files: list[Path]) -> None:
    data = bytearray(files[0].read_bytes())
    with orcidx.open(bytes(data)) as file:
        last = file.stripes[-1]
    data[last.footer_offset : last.footer_offset + last.footer_length] = b"\xff" * last.footer_length
    with orcidx.open(bytes(data)) as file:
        told = file.scan(["id"], "id = 77").explain()
    assert told.files[0].stripes[-1].bytes == last.data_length
    assert any("1 footer of skipped stripes cannot be read" in note.text for note in told.notes)


def test_skipped_files_are_told_together(tmp_path: Path) -> None:
    for number in range(30):
        table = pa.table({"id": range(10 * number, 10 * number + 10)})
        orcidx.write_table(table, tmp_path / f"{number:02}.orc")
    told = orcidx.scan(tmp_path, where="id = 155").explain()
    for text in (str(told), told._repr_html_(), told.to_html()):
        assert "15 files, " in text
        assert "14 files, " in text
        assert "03.orc: " not in text
