"""Random scans: a scan reads at most the bytes that ``explain()`` plans, and ``explain()`` plans at most the bytes that
a scan without indexes reads. Small reads, such as headers of chunks, are not compared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from indexed_directory import index_here

import orcidx
from orcidx import col
from orcidx.orc.compression import CHUNK_HEADER
from orcidx.orc.metadata import TAIL_REQUEST_BYTES
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.predicate.fold import leaves
from orcidx.storage import RecordingReader, open_reader
from orcidx.storage.local import SMALL_FILE_BYTES, LocalReader, hold

SCANS = int(os.environ.get("ORCIDX_READ_BYTES_SCANS", "24"))
ROWS = 24_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Writes a file with small chunks, one with large chunks, and two without compression. The first three files have
    several stripes of few row groups. The last file has one stripe with all row groups."""
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
        {"compression": "uncompressed", "stripe_size": 10 << 20},
    ]
    paths = []
    for number, form in enumerate(forms):
        paths.append(folder / f"{number}.orc")
        options = {"row_index_stride": 1000, "stripe_size": 300_000, "bloom_filter_columns": ["key"], **form}
        orcidx.write_table(table, paths[-1], **options)
        assert paths[-1].stat().st_size > SMALL_FILE_BYTES
    # The tail of a file that was just written is read twice, because the file may have changed.
    time.sleep(0.2)
    return paths


def far_ranges(low: int) -> orcidx.Predicate:
    """Returns a condition for three short ranges of ids, in row groups that are far from each other."""
    starts = [(low + distance) % ROWS for distance in (0, ROWS // 3, 2 * ROWS // 3)]
    first, second, third = (col("id").between(start, start + 100) for start in starts)
    return first | second | third


def random_query(rng: np.random.Generator) -> tuple[list[str], Any, bool]:
    """Returns columns, a condition, and whether some column is read only after the rows are filtered."""
    names = ["id", "key", "word", "text", "price"]
    columns = [names[i] for i in sorted(rng.choice(5, int(rng.integers(1, 6)), replace=False))]
    low = int(rng.integers(0, ROWS))
    where: Any = [
        col("id").between(low, low + int(rng.integers(0, 4000))),
        col("key") == low,
        col("word") == f"word {low % 50}",
        (col("id") < low) & (col("price") > rng.random()),
        col("text") > "80",
        far_ranges(low),
        None,
        col("text") >= "",
        (col("id") >= ROWS // 2) & (col("price") >= 0),
    ][int(rng.integers(0, 9))]
    asked = set() if where is None else {leaf.column for leaf in leaves(where)}
    return columns, where, bool(where is not None and set(columns) - set(asked))


def are_all_proved(told: orcidx.Explanation) -> bool:
    """Whether statistics and indexes prove that all rows that are read match the condition. Then no column is read only
    after filtering."""
    stripes = [stripe for file in told.files for stripe in file.stripes]
    return all(stripe.proved_rows == stripe.kept_rows for stripe in stripes)


def data_sections(file: orcidx.OrcFile) -> list[tuple[int, int]]:
    return [(one.offset + one.index_length, one.footer_offset) for one in file.stripes]


def of_data(ranges: list[tuple[int, int]], sections: list[tuple[int, int]]) -> int:
    """Returns how many bytes of these (offset, length) ranges are in the data sections of stripes."""
    return sum(
        max(0, min(offset + length, stop) - max(offset, start)) for offset, length in ranges for start, stop in sections
    )


@pytest.mark.parametrize("number", range(SCANS))
def test_no_more_is_counted_than_planned(files: list[Path], rng: np.random.Generator, number: int) -> None:
    """If no column is read after filtering, a scan of remote storage reads exactly the planned bytes. A scan of a local
    file reads the headers of chunks in addition."""
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
    evidence = told.files[0].index_bytes  # ``index_bytes`` includes dictionaries, which are in the data sections
    assert counted <= planned + evidence
    asks_dictionary = where is not None and "word" in {leaf.column for leaf in leaves(where)}
    waits = waits and not are_all_proved(told)
    assert waits or asks_dictionary or counted == planned, (columns, where)

    forget_metadata()
    near = open_reader(path)
    near.metrics.log = []
    with orcidx.open(near) as file, file.scan(columns, where, use_threads=False, merge_gap=0).to_batches() as batches:
        assert pa.Table.from_batches(list(batches), rows.schema).num_rows == rows.num_rows
        metrics = batches.metrics
    # The first request reads the tail, so it is left out.
    counted = of_data([(one.offset, one.length) for one in near.metrics.log[1:]], sections)
    over_read = CHUNK_HEADER * len(near.metrics.log)
    assert counted <= planned + evidence + over_read
    assert metrics.bytes_read <= told.read_bytes + over_read + indexes + evidence


def test_skipped_stripes_are_counted_by_the_columns_that_are_read(files: list[Path]) -> None:
    """For a skipped stripe, ``explain()`` counts only the bytes of the columns that the scan reads, not those of all
    columns."""
    with orcidx.open(files[0]) as file:
        told = file.scan(["id"], "id = 77").explain()
        whole = file.scan(["id"]).explain()
    assert len(told.files[0].stripes) > 1
    assert next(one for one in told.funnel if one.name == "bytes").before == whole.funnel[-1].before


def pass_of(scan: orcidx.Scan) -> tuple[int, int]:
    """Returns the number of requests and of bytes of one iteration over the scan."""
    with scan.to_batches() as batches:
        list(batches)
        return batches.metrics.requests, batches.metrics.bytes_read


QUERIES: dict[str, tuple[list[str], Any]] = {
    "all rows": (["id", "word", "price"], None),
    "a range": (["id"], col("id").between(9100, 9200)),
    "ranges far apart": (["id"], far_ranges(100)),
    "a key with bloom filters": (["key"], col("key") == 4711),
    "a dictionary": (["word"], (col("word") == "word 7") & (col("word") != "word 8")),
    "a word that no dictionary has": (["word"], col("word") == "word 25b"),
    "no row group": (["id"], col("id") == -1),
    "all rows are proved": (["id"], col("text") >= ""),
    "all rows are proved, some columns returned": (["id", "price"], (col("id") >= 0) & (col("text") >= "")),
}


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", QUERIES)
def test_an_explanation_says_what_is_read(files: list[Path], name: str, number: int) -> None:
    """``explain()`` gives the bytes that a scan reads. No column of these scans is read after filtering. The
    explanation does not change when the tail and the indexes are cached."""
    columns, where = QUERIES[name]
    path, options = files[number], orcidx.ReadOptions(use_threads=False, merge_gap=0)
    forget_metadata()
    told = orcidx.scan(path, columns, where, options=options).explain()
    assert orcidx.scan(path, columns, where, options=options).explain() == told
    forget_metadata()
    requests, size = pass_of(orcidx.scan(path, columns, where, options=options))
    headers = CHUNK_HEADER * requests * (number < 2)  # the last two files are uncompressed, without headers
    assert told.read_bytes <= size <= told.read_bytes + headers
    assert orcidx.scan(path, columns, where, options=options).explain() == told


def test_files_that_a_scan_does_not_open_are_not_read(files: list[Path], tmp_path: Path) -> None:
    for number, path in enumerate(files[:3]):
        (tmp_path / f"part={number}").mkdir()
        (tmp_path / f"part={number}" / "a.orc").symlink_to(path)
    for options in ({"where": col("part") == 1}, {"limit": 10}, {"limit": ROWS}):
        told = orcidx.scan(tmp_path, ["id"], **options).explain()  # type: ignore[arg-type]
        opened = 1 if "where" in options else 0
        read = [number in (0, opened) for number in range(3)]  # the schema is read from the first file
        assert [bool(file.read_bytes) for file in told.files] == read
        assert [bool(file.rows) for file in told.files] == [True] * 3


def test_the_text_says_whether_the_number_is_exact(files: list[Path]) -> None:
    texts = [
        str(orcidx.scan(files[0], ["id"], where).explain()).partition("the scan reads ")[2].split("\n")[0]
        for where in ("id = -1", "id = 77", None)
    ]
    assert [text.startswith("about ") for text in texts] == [False, True, True]
    assert ["it may be less" in text for text in texts] == [False, True, False]
    reasons = [
        str(orcidx.scan(files[3], ["word"], where).explain()).partition("it may be less")[2].split("\n")[0]
        for where in ("text >= ''", "id = 77", "id < 77")
    ]
    assert ["where rows match" in text for text in reasons] == [False, True, True]
    assert ["where rows are not proved" in text for text in reasons] == [False, False, False]
    partly = orcidx.scan(files[3], ["word"], "id < 7077").explain()
    assert "where rows are not proved" in str(partly)


def test_remote_scans_do_not_read_columns_of_a_proved_condition(files: list[Path]) -> None:
    """The statistics prove that all rows match the condition, so the scan must not fetch the column of the condition.
    Earlier, it fetched this column."""
    for path in files:
        with orcidx.open(path) as file:
            sections = data_sections(file)
        sizes = []
        for where in (None, "text >= ''"):
            far = RecordingReader(open_reader(path.read_bytes()))
            far.is_local = False
            with orcidx.open(far) as file:
                assert file.scan(["id"], where, use_threads=False).to_table().num_rows == ROWS
            sizes.append(of_data(far.ranges, sections))
        assert sizes[0] == sizes[1]


def test_a_remote_file_in_one_request_is_counted_once(tmp_path: Path) -> None:
    """The request for the tail returns the whole small file. Earlier, ``explain()`` counted the bytes of the data
    again."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    options = orcidx.ReadOptions(use_threads=False, merge_gap=0)
    for rows in (100, 2000, 20_000):
        rng = np.random.default_rng(1)
        words = [f"word {value % 3}" for value in range(rows)]
        table = pa.table({"id": np.arange(rows), "x": rng.permutation(rows), "word": words})
        orcidx.write_table(table, tmp_path / "a.orc", compression="uncompressed", row_index_stride=1000)
        memory.pipe("/read-bytes/one.orc", (tmp_path / "a.orc").read_bytes())
        for where in (None, "id = 5", "id = -1", "word = 'word 2'", "word <> 'no'"):
            forget_metadata()
            told = orcidx.scan("memory://read-bytes/one.orc", ["id", "word"], where, options=options).explain()
            forget_metadata()
            _, size = pass_of(orcidx.scan("memory://read-bytes/one.orc", ["id", "word"], where, options=options))
            assert told.read_bytes == size, (rows, where)


def test_explanations_of_a_remote_file_are_equal(files: list[Path]) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/read-bytes/a.orc", files[0].read_bytes())
    forget_metadata()
    told = orcidx.scan("memory://read-bytes/a.orc", ["id"], far_ranges(100)).explain()
    assert told.files[0].read_bytes > told.files[0].index_bytes > 0
    assert orcidx.scan("memory://read-bytes/a.orc", ["id"], far_ranges(100)).explain() == told


@pytest.mark.parametrize("columns", [None, ["id"], ["id", "text", "price"]])
@pytest.mark.parametrize("where", [None, "id < 100", "key = 77", "text > '80'"])
def test_bytes_between_footers_are_not_fetched_again(
    files: list[Path], columns: list[str] | None, where: str | None
) -> None:
    """The footers of small stripes are fetched together with the data between them, and this data is kept for later
    reads. Earlier, a scan of all rows fetched 1.7 times the bytes of the file. Now, only bytes of the tail are fetched
    twice."""
    fsspec = pytest.importorskip("fsspec")
    for number, path in enumerate(files):
        url = f"memory://read-bytes/between-{number}.orc"
        fsspec.filesystem("memory").pipe(f"/read-bytes/between-{number}.orc", path.read_bytes())
        forget_metadata()
        told = orcidx.scan(url, columns, where).explain().read_bytes
        forget_metadata()
        requests, size = pass_of(orcidx.scan(url, columns, where))
        assert size <= path.stat().st_size + TAIL_REQUEST_BYTES
        assert requests <= 4
        if columns is None and where is None:
            assert size == told


@pytest.mark.parametrize("rows", [50, 20_000])
@pytest.mark.parametrize("where", [None, "key = 77"])
@pytest.mark.parametrize("place", ["local", "remote", "indexed"])
@pytest.mark.parametrize("more", [{}, {"limit": 5}, {"limit": 5, "top": ["key"]}], ids=["all", "limit", "top"])
def test_explanations_count_every_read_of_a_file(
    tmp_path: Path, rows: int, where: str | None, place: str, more: dict[str, Any]
) -> None:
    """The sort keys of ``top`` are read even if they are not selected. Small files, index files, and the first file of
    a scan without a schema may be opened twice. Earlier, the explanation counted these reads only once, or not at
    all."""
    rng = np.random.default_rng(3)
    for number in range(4):
        ids = np.arange(number * rows, (number + 1) * rows)
        orcidx.write_table(pa.table({"id": ids, "key": rng.permutation(rows)}), tmp_path / f"{number}.orc")
    source: Any = tmp_path
    if place == "remote":
        memory = pytest.importorskip("fsspec").filesystem("memory")
        for path in tmp_path.iterdir():
            memory.pipe(f"/every-read/{rows}/{path.name}", path.read_bytes())
        source = f"memory://every-read/{rows}"
    if place == "indexed":
        index_here(tmp_path, {"bitmap": {"key": {}}}, embedded_bytes=0)
    time.sleep(0.2)
    forget_metadata()
    told = orcidx.scan(source, ["id"], where, **more).explain().read_bytes
    forget_metadata()
    _, read = pass_of(orcidx.scan(source, ["id"], where, use_threads=False, **more))
    # A read of a small file from a remote store includes the bytes between the ranges.
    over_read = 4 * rows * 4 if place == "remote" and "top" in more else 0
    assert read <= 1.02 * told + over_read  # row indexes of sort keys and headers of chunks are not in ``told``
    assert told == read or more or where


def test_explanations_of_a_catalog_and_of_a_listing_are_equal(tmp_path: Path) -> None:
    for number in range(3):
        ids = np.arange(number * 50, number * 50 + 50)
        orcidx.write_table(pa.table({"id": ids, "city": ["a"] * 50}), tmp_path / f"{number}.orc")
    index_here(tmp_path)
    time.sleep(0.2)
    for more in ({}, {"where": "id >= 60"}, {"limit": 2, "top": ["id"]}):
        listed, kept = (
            [one.read_bytes for one in orcidx.scan(tmp_path, fresh=fresh, **more).explain().files]
            for fresh in ("listing", "catalog")
        )
        assert listed[1:] == kept[1:]
        # With fresh="listing" and a condition, the bytes of the first file include the reads of the catalog.
        assert listed == kept or "where" in more
        assert all(listed)


@pytest.mark.parametrize("more", [{}, {"where": "a > 1"}, {"limit": 5}, {"limit": 5, "top": ["a"]}])
def test_a_scan_without_files_is_explained(tmp_path: Path, more: dict[str, Any]) -> None:
    told = orcidx.scan(tmp_path, schema=pa.schema([("a", pa.int64())]), **more).explain()
    assert (told.files, told.read_bytes) == ((), 0)


@pytest.mark.parametrize("more", [{}, {"where": "id > 1"}, {"limit": 15}, {"limit": 5, "top": ["id"]}])
def test_a_first_file_that_is_gone_is_not_read(tmp_path: Path, more: dict[str, Any]) -> None:
    paths = [tmp_path / f"{number}.orc" for number in range(3)]
    for path in paths:
        orcidx.write_table(pa.table({"id": range(10)}), path)
    scan = orcidx.scan(paths, **more)
    assert scan.schema.names == ["id"]
    paths[0].unlink()
    told = scan.explain()
    assert told.files[0].read_bytes == 0
    assert told.files[1].read_bytes == told.files[1].size


def test_a_scan_counts_the_read_that_finds_its_schema(files: list[Path], tmp_path: Path) -> None:
    """If the schema is requested before the first scan, the tail is read then and cached. The first scan counts this
    read, and later scans do not."""
    forget_metadata()
    without = pass_of(orcidx.scan(files[0], where="id = -1"))
    assert without[0] == 1
    forget_metadata()
    scan = orcidx.scan(files[0], where="id = -1")
    assert scan.schema.names[0] == "id"
    assert pass_of(scan) == without
    assert pass_of(scan) == (0, 0), "the tail is cached"
    forget_metadata()
    both = orcidx.scan(files[:2], where="id = -1")  # the first file determines the schema
    assert pass_of(both) == pytest.approx((2, 2 * without[1]), rel=0.01)
    forget_metadata()
    dataset = orcidx.dataset(files[0])
    assert dataset.to_table(filter=pc.field("id") == -1).num_rows == 0
    assert dataset.last_metrics is not None
    assert (dataset.last_metrics.requests, dataset.last_metrics.bytes_read) == without
    forget_metadata()
    top = orcidx.scan(files[0], ["id"], limit=1, top=["id"])
    forget_metadata()
    told = orcidx.scan(files[0], ["id"], limit=0)
    assert pass_of(top)[1] > without[1]
    assert told.schema.names == ["id"]


def read_calls(call: Callable[[], Any]) -> int:
    """Returns how many bytes ``call`` reads with system calls of this process."""
    counts = Path("/proc/self/io")
    if not counts.exists():
        pytest.skip("the system has no /proc/self/io")

    def read() -> int:
        return int(counts.read_text().split()[1])

    first, second = read(), read()
    call()
    return read() - second - (second - first)


@pytest.mark.parametrize("where", ["id = 5", "id = -1", "id > 7 and x > 0.5"])
@pytest.mark.parametrize("rows", [1000, 20_000])
def test_reads_of_a_small_file_are_counted(tmp_path: Path, rows: int, where: str) -> None:
    """A small file is read by one request, and all bytes that the process reads from it are counted."""
    rng = np.random.default_rng(1)
    path = tmp_path / "a.orc"
    table = pa.table({"id": rng.permutation(rows), "x": rng.random(rows)})
    orcidx.write_table(table, path, compression="uncompressed", row_index_stride=5000)
    size = path.stat().st_size
    assert size < SMALL_FILE_BYTES
    found: list[tuple[int, int]] = []
    for _ in range(2):  # in the first round, modules are imported
        forget_metadata()
        asked = read_calls(lambda: found.append(pass_of(orcidx.scan(path, where=where))))
    assert found[-1] == (1, size)
    assert asked == size
    forget_metadata()
    assert orcidx.scan(path, where=where).explain().read_bytes == size


def test_reads_of_many_small_files_are_counted(tmp_path: Path) -> None:
    """A scan of several small files counts all bytes that the process reads. The tail of a file may be read before the
    rest, because statistics may rule out the file."""
    rng = np.random.default_rng(1)
    for number in range(6):
        table = pa.table({"id": number * 1000 + rng.permutation(1000), "x": rng.random((1000, 4)).tolist()})
        orcidx.write_table(table, tmp_path / f"{number}.orc", compression="uncompressed")
    found: list[tuple[int, int]] = []
    for where in ("id = 1005", "id between 900 and 3100", "id >= 0", "id = -1"):
        for _ in range(2):
            forget_metadata()
            asked = read_calls(lambda: found.append(pass_of(orcidx.scan(tmp_path, where=where))))  # noqa: B023
        assert found[-1][1] == asked, where


@pytest.mark.parametrize("rows", [500, 5000])
def test_reads_of_many_small_files_are_explained(tmp_path: Path, rows: int) -> None:
    """``explain()`` gives the bytes that a scan of several small files reads. Earlier, ``explain()`` counted each file
    once and said "by one read each", but the scan read fewer or more bytes."""
    rng = np.random.default_rng(1)
    for number in range(6):
        table = pa.table({"id": number * rows + rng.permutation(rows), "x": rng.random(rows)})
        orcidx.write_table(table, tmp_path / f"{number}.orc", compression="uncompressed")
    for where in (None, "id = 1005", f"id between {rows - 1} and {3 * rows}", "id >= 0", "id = -1"):
        forget_metadata()
        told = orcidx.scan(tmp_path, where=where).explain()
        forget_metadata()
        assert told.read_bytes == pass_of(orcidx.scan(tmp_path, where=where))[1], where
        text = str(told).partition("the scan reads ")[2].split("\n")[0]
        assert text.startswith("about "), where
        assert "one read" not in text


def test_bytes_that_were_read_before_are_not_used_for_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"id": [1, 2, 3]}), path)
    data, mtime = path.read_bytes(), path.stat().st_mtime_ns
    for held, time_of, reads in ((data, mtime, 0), (data, mtime + 1, 1), (data[1:], mtime, 1)):
        reader = LocalReader(str(path))
        hold(reader, held, time_of)
        assert bytes(reader.whole() or b"") == data
        assert reader.metrics.requests == reads
        reader.close()


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
