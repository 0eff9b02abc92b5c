"""Small files are read without being opened. The results are the same as if each file were opened."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from work_done import small_reads

import orcidx
from orcidx import CorruptFile, StorageError, col
from orcidx.orc.metadata_cache import KINDS, forget_metadata
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_file import FoundFile
from orcidx.orc.small_tails import SmallTails
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner import file_queue, small_filter
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.schema_reads import count_schema_reads
from orcidx.scanner.small_files import SmallFiles
from orcidx.storage import describe_source
from orcidx.storage.local_file import read_small

FILES, ROWS = 6, 100


def table_of(number: int) -> pa.Table:
    keys = range(number * ROWS, (number + 1) * ROWS)
    words = [None if key % 11 == 0 else f"w{key % 7}" for key in keys]
    return pa.table({"key": list(keys), "price": [key / 4 for key in keys], "word": words})


@pytest.fixture(params=["uncompressed", "zstd", "zlib", "snappy", "lz4"])
def paths(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    for number in range(FILES):
        orc.write_table(table_of(number), tmp_path / f"{number}.orc", compression=request.param)
    return sorted(map(str, tmp_path.iterdir()))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list of the files that were read without being opened."""
    names: list[str] = []
    real = SmallFiles.take

    def take(self: SmallFiles, job: Any, **options: Any) -> Any:
        found = real(self, job, **options)
        if found is not None:
            names.append(job.source.name)
        return found

    monkeypatch.setattr(SmallFiles, "take", take)
    return names


def pass_of(scan: orcidx.Scan) -> tuple[pa.Table, dict[str, Any]]:
    batches = scan.to_batches()
    table = pa.Table.from_batches(list(batches), scan.schema)
    metrics = batches.metrics.to_dict()
    del metrics["seconds"]
    return table, metrics


def opened(monkeypatch: pytest.MonkeyPatch, call: Any) -> Any:
    """Makes scans open every file, and returns the result of ``call``."""
    with monkeypatch.context() as patch:
        patch.setattr(file_queue.SmallFiles, "take", lambda *_, **__: None)
        forget_metadata()
        return call()


@pytest.mark.parametrize(
    "where",
    [
        None,
        col("key") == 317,
        (col("key") < 50) | (col("key") >= 580),
        col("word") == "w3",
        col("word").like("%4%"),
        col("word").is_null(),
        ~(col("price") > 1e9),
        (col("word") == "w33") | (col("key") == 317),
    ],
)
def test_rows_and_work_are_those_of_opened_files(
    paths: list[str], where: Any, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = orcidx.scan(paths, where=where)
    assert scan.schema.names == ["key", "price", "word"]
    count_schema_reads(scan, ScanMetrics())  # otherwise only the first scan would count the read that finds the schema
    table, metrics = opened(monkeypatch, lambda: pass_of(scan))
    count = opened(monkeypatch, scan.count_rows)
    assert not taken
    forget_metadata()
    found = scan.to_table()
    found.validate(full=True)
    assert found.equals(table)
    taken.clear()
    forget_metadata()
    found, work = pass_of(scan)
    assert found.equals(table)
    if where is None:
        assert taken == paths[1:], "the first file is opened for the shared metadata"
        assert work == metrics
    else:  # the tail of an opened file is read once if the file is ruled out, and otherwise twice
        different = ("requests", "bytes_read")
        assert {name: work[name] for name in work if name not in different} == {
            name: metrics[name] for name in metrics if name not in different
        }
    assert scan.count_rows() == count == table.num_rows


@pytest.mark.levels("small files filtered")
@pytest.mark.parametrize("columns", [["key", "word"], []])
def test_numbered_rows_under_a_condition(
    paths: list[str], columns: list[str], taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = (col("word") == "w3") | (col("key") == 205) | (col("key") >= 500)
    scan = orcidx.scan(paths, columns, where=where, row_numbers="number")
    wanted = opened(monkeypatch, scan.to_table)
    forget_metadata()
    found = scan.to_table()
    assert found.equals(wanted)
    numbers = found["number"].to_pylist()
    assert found.num_rows > 100
    assert numbers[-1] == ROWS - 1
    assert taken == paths[1:]


def test_which_files_are_opened(paths: list[str], taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for is_on in (False, True):
        forget_metadata()
        with monkeypatch.context() as patch:
            patch.setattr(small_filter, "ENABLED", is_on)
            assert orcidx.scan(paths, where=col("key") == 317).count_rows() == 1
        assert taken == [path for path in paths if is_on or not path.endswith("3.orc")]
        taken.clear()
    assert orcidx.scan(paths, limit=150).to_table().num_rows == 150
    assert orcidx.scan(paths, mmap=True).to_table().num_rows == FILES * ROWS
    assert not taken
    assert orcidx.scan(paths, file_path=True).to_table().num_rows == FILES * ROWS
    assert taken == paths


def test_files_whose_indexes_may_spare_rows_are_opened_under_a_condition(tmp_path: Path, taken: list[str]) -> None:
    """With a condition, a file is opened if it has several row groups or a bloom filter, or if the condition is on a
    timestamp."""
    table = table_of(0).append_column("at", pa.array([1_000_000] * ROWS, pa.timestamp("us")))
    made = {"groups": {"row_index_stride": 1000}, "bloom": {"bloom_filter_columns": [3]}, "plain": {}}
    for name, options in made.items():
        rows = pa.concat_tables([table] * (20 if name == "groups" else 1))
        orc.write_table(rows, tmp_path / f"{name}.orc", **options)
    paths = [str(tmp_path / f"{name}.orc") for name in made]
    for where, wanted in ((col("word") == "w3", paths[2:]), (col("at").is_not_null(), [])):
        for path in paths:
            orcidx.open(path).scan(where=where).to_table()  # the metadata is cached from here on
        taken.clear()
        found = orcidx.scan(paths, where=where).to_table()
        assert taken == wanted
        assert found == pa.concat_tables([orcidx.open(path).scan(where=where).to_table() for path in paths])


def test_a_split_of_a_whole_file_opens_none(tmp_path: Path, taken: list[str]) -> None:
    """A split names the stripes of its file. If a split names all of these stripes, the file is read without being
    opened. Spark's tasks read splits of whole files in this way."""
    path = str(tmp_path / "a.orc")
    with orcidx.OrcWriter(path, table_of(0).schema) as writer:
        for number in range(3):
            writer.write(table_of(number))
            writer.end_stripe()
    (whole,) = orcidx.scan([path]).splits(1 << 30)
    assert whole.scan().to_table().equals(pa.concat_tables(map(table_of, range(3))))
    assert taken == [path]
    parts = orcidx.scan([path]).splits(1)
    assert [part.scan().to_table() for part in parts] == [table_of(number) for number in range(3)]
    assert taken == [path]
    one = orcidx.open(path).scan(stripes=[2, 0])
    assert one.to_table().equals(pa.concat_tables([table_of(0), table_of(2)]))
    with pytest.raises(orcidx.InvalidQuery):
        orcidx.open(path).scan(stripes=[0, 1, 2, 3]).to_table()
    assert taken == [path]


def test_tries_without_success_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        orc.write_table(table_of(number), tmp_path / f"{number:02}.orc")
    reads = small_reads(monkeypatch, fail=True)
    assert orcidx.scan(tmp_path).count_rows() == 40 * ROWS
    assert len(reads) == 8


def test_every_damaged_byte_is_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: Any) -> None:
    """The second of two similar files has a flipped byte, or is truncated. A scan raises the same error, or returns the
    same rows, as if the files were opened."""
    for number in range(2):
        orc.write_table(table_of(number), tmp_path / f"{number}.orc", compression="zstd")
    paths = sorted(map(str, tmp_path.iterdir()))
    sound = Path(paths[1]).read_bytes()

    def outcome() -> Any:
        try:
            return orcidx.scan(paths).to_table()
        except orcidx.OrcidxError as error:
            return type(error), str(error)

    for at in sorted(rng.choice(len(sound), 60, replace=False).tolist()):
        for damaged in (sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :], sound[:at]):
            Path(paths[1]).write_bytes(damaged)
            expected = opened(monkeypatch, outcome)
            forget_metadata()
            found = outcome()
            assert found.equals(expected) if isinstance(found, pa.Table) else found == expected, at


def test_another_version_than_the_one_that_was_opened(paths: list[str]) -> None:
    with orcidx.open(paths[0]) as file:
        scan = file.scan()
        assert scan.to_table().num_rows == ROWS
    os.utime(paths[0], ns=(1, 1))
    with pytest.raises(StorageError, match="changed"):
        scan.to_table()


def test_what_cannot_be_read_so(tmp_path: Path) -> None:
    most = 100
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(bytes(most + 1))
    (tmp_path / "small").write_bytes(bytes(range(most)))
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "large", "pipe", "nowhere", ".", "a\0b"):
        assert read_small(str(tmp_path / name), most, most) is None, name
    status = (tmp_path / "small").stat()
    assert read_small(str(tmp_path / "small"), most, 7) == (bytes(range(93, 100)), most, status.st_mtime_ns)
    held = memoryview(bytes(range(most)))
    assert SmallTails(MetadataLimits(), KINDS.get).split(FoundFile(held, most, 0)) is None


def test_an_open_file_is_not_read_again(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the bytes nor the tail of a file are read again if the file is open and was not replaced."""
    reads = small_reads(monkeypatch)
    with orcidx.open(paths[0]) as file:
        scan, key = file.scan(), file.scan(where=col("key") == 17)
        assert scan.to_table().equals(table_of(0))
        assert key.count_rows() == 1
        copy = pickle.loads(pickle.dumps(scan))
        assert copy.jobs == scan.jobs
        assert not reads
        assert copy.to_table().equals(table_of(0))
        assert reads == paths[:1]
    assert scan.to_table().equals(table_of(0)), "the file is closed"
    assert reads == paths[:1] * 2
    with orcidx.open(paths[1]) as file:
        os.replace(paths[2], paths[1])
        os.utime(paths[1], ns=(1, 1))
        with pytest.raises(StorageError, match="changed"):
            file.read()


def test_a_scan_holds_no_file_open(paths: list[str]) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    scans = [orcidx.open(path).scan() for path in paths]
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    assert sum(scan.count_rows() for scan in scans) == FILES * ROWS


def test_no_descriptor_stays_open(paths: list[str]) -> None:
    Path(paths[2]).write_bytes(b"no ORC file")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    with pytest.raises(CorruptFile, match=r"2\.orc"):
        orcidx.scan(paths).to_table()
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)


def test_similar_files_with_and_without_constants(tmp_path: Path) -> None:
    """Files of one kind share a plan only if they have the same constant columns."""
    paths = [str(tmp_path / f"{number}.orc") for number in range(4)]
    for number, path in enumerate(paths):
        orcidx.write_table(pa.table({"key": [number]}), path)
        orcidx.open(path).close()
    schema = pa.schema([("key", pa.int64()), ("part", pa.int64())])
    for where in (None, orcidx.col("key") >= 0):
        small = SmallFiles(ScanRequest(schema=schema, where=where), ScanMetrics(), tails_alone=False)
        found = []
        for number, path in enumerate(paths):
            constants = {"part": pa.scalar(7)} if number % 2 else {}
            rows = small.take(FileJob(describe_source(path), constants=constants), together=True)
            assert rows is not None
            assert rows.waiting is not None
            found.append(rows.waiting.reader)
        assert found[0] is not found[1]
        assert found[2] is not found[1]
