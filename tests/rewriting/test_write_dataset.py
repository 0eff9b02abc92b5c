"""``orcidx.write_dataset``: all readers return the partitions, and files have similar sizes. If a call was killed, the
next call completes the dataset."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

import orcidx
from orcidx import col
from orcidx.errors import CorruptFile, InvalidQuery, StorageError, ValueOutOfRange
from orcidx.orc_writer.writer import OrcWriter
from orcidx.rewriting.partitions import hive_path
from orcidx.storage.folder import Folder

ROWS = 30_000


def table(rows: int = ROWS, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    cities = ["Oslo", "Rom", "a/b", "50%", "c=d", "é:x", None]
    return pa.table(
        {
            "id": range(rows),
            "city": [cities[i] for i in rng.integers(0, len(cities), rows)],
            "year": pa.array(rng.integers(2020, 2023, rows).astype(np.int32)),
            "x": rng.normal(size=rows),
        }
    )


TABLE = table()


def everything(directory: Path) -> pa.Table:
    found = orcidx.scan(directory).to_table().select(["id", "city", "year", "x"]).sort_by("id")
    return found.set_column(2, "year", found["year"].cast(pa.int32()))


def data_files(directory: Path) -> list[str]:
    files = [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]
    return sorted(str(path) for path in files if path.parts[0] != "_orcidx_write")


def test_partitions_come_back(tmp_path):
    done = orcidx.write_dataset(TABLE, tmp_path / "d", partition_by=["year", "city"])
    assert done.rows == ROWS
    assert everything(tmp_path / "d").equals(TABLE)
    assert sorted(done.files[0].partition) == ["city", "year"]
    folders = {str(Path(name).parent) for name in data_files(tmp_path / "d")}
    assert len(folders) == 21
    for name in ("year=2020/city=a%2Fb", "year=2021/city=50%25", "year=2022/city=c%3Dd", "year=2020/city=é%3Ax"):
        assert name in folders
    assert "year=2020/city=__HIVE_DEFAULT_PARTITION__" in folders
    assert "year" not in orcidx.open(tmp_path / "d" / done.files[0].path).schema.names


def test_a_dataset_prunes_by_partitions(tmp_path):
    orcidx.write_dataset(TABLE, tmp_path / "d", partition_by="city", bloom_filter_columns=["id"])
    dataset = orcidx.dataset(tmp_path / "d")
    found = dataset.to_table(filter=pa.dataset.field("city") == "a/b")
    assert found.num_rows == TABLE["city"].to_pylist().count("a/b")
    explained = orcidx.scan(tmp_path / "d", where=col("city") == "a/b").explain()
    assert [file.kept for file in explained.files].count(True) == 1
    assert orcidx.scan(tmp_path / "d", where="city IS NULL").count_rows() == TABLE["city"].null_count


def test_spark_and_hive_escape_alike():
    odd = "\x01\x1f\"#%'*/:=?\\\x7f{[]^ é|"
    assert hive_path(["k"], (odd,)) == "k=%01%1F%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%5B%5D%5E é|/"


VALUES = [
    (pa.array([True, False]), ["k=false", "k=true"]),
    (pa.array([Decimal("1.50"), Decimal("-2.00")]), ["k=-2.00", "k=1.50"]),
    (pa.array([datetime.date(2024, 2, 29), None]), ["k=2024-02-29", "k=__HIVE_DEFAULT_PARTITION__"]),
    (pa.array([0, 1_500_000], pa.timestamp("us")), ["k=1970-01-01 00%3A00%3A00", "k=1970-01-01 00%3A00%3A01.5"]),
    (pa.array(["b", "a"]).dictionary_encode(), ["k=a", "k=b"]),
]


@pytest.mark.parametrize(("values", "folders"), VALUES, ids=lambda value: str(getattr(value, "type", "")))
def test_values_of_every_type(tmp_path, values, folders):
    orcidx.write_dataset(pa.table({"k": values, "v": [1, 2]}), tmp_path, partition_by="k")
    assert sorted(str(Path(name).parent) for name in data_files(tmp_path)) == folders
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    back = orcidx.scan(tmp_path, schema=pa.schema([("v", pa.int64()), ("k", kind)])).to_table().sort_by("v")
    assert back["k"].to_pylist() == values.to_pylist()


LATE = [
    pa.array([0, 3_000_000], pa.date32()),
    pa.array([0, 86_400_000 * 3_000_000], pa.date64()),
    pa.array([0, 86_400 * 3_000_000], pa.timestamp("s")),
    pa.array([0, -86_400_000_000 * 800_000], pa.timestamp("us")),
    pa.array([0, -800_000], pa.date32()).dictionary_encode(),
]


@pytest.mark.parametrize("values", LATE, ids=lambda value: str(value.type))
def test_years_that_have_no_text(tmp_path, values):
    """A partition value before year 1 or after year 9999 raises ``ValueOutOfRange``, not Python's ``OverflowError``."""
    with pytest.raises(orcidx.errors.ValueOutOfRange, match="before year 1 or after year 9999") as caught:
        orcidx.write_dataset(pa.table({"k": values, "v": [1, 2]}), tmp_path, partition_by="k")
    assert caught.value.column == "k"
    assert data_files(tmp_path) == []


def test_files_of_a_table_are_of_even_size(tmp_path):
    rng = np.random.default_rng(1)
    data = pa.table({"x": rng.integers(0, 2**62, 100_000)})
    done = orcidx.write_dataset(data, tmp_path, max_file_bytes=250_000, stripe_size=64 << 10)
    sizes = [one.bytes for one in done.files]
    assert len(sizes) == 4
    assert max(sizes) <= 260_000
    assert min(sizes) > 0.85 * max(sizes)
    assert orcidx.scan(tmp_path).to_table().equals(data)
    streamed = orcidx.write_dataset(data.to_reader(), tmp_path / "s", max_file_bytes=250_000, stripe_size=64 << 10)
    assert max(one.bytes for one in streamed.files) <= 265_000
    assert orcidx.scan(tmp_path / "s").to_table().equals(data)


def test_a_second_call_writes_nothing(tmp_path):
    first = orcidx.write_dataset(TABLE, tmp_path, partition_by="city", job="monday")
    before = {name: os.stat(tmp_path / name).st_mtime_ns for name in data_files(tmp_path)}
    second = orcidx.write_dataset(TABLE, tmp_path, partition_by="city", job="monday")
    assert [one.written for one in first.files + second.files] == [True] * 7 + [False] * 7
    assert before == {name: os.stat(tmp_path / name).st_mtime_ns for name in data_files(tmp_path)}
    fewer, more = TABLE.slice(0, ROWS - 1), pa.concat_tables([TABLE, TABLE.slice(0, 9)])
    for other, words in ((fewer, "not all rows"), (more, "more"), (table(seed=3), "not the rows in this")):
        with pytest.raises(InvalidQuery, match=words):
            orcidx.write_dataset(other, tmp_path, partition_by="city", job="monday")
    with pytest.raises(InvalidQuery, match="other options"):
        orcidx.write_dataset(TABLE, tmp_path, partition_by="city", job="monday", compression="zlib")
    with pytest.raises(InvalidQuery, match="job="):
        orcidx.write_dataset(TABLE, tmp_path, partition_by="city")
    orcidx.write_dataset(TABLE, tmp_path, partition_by="city", job="tuesday", mode="append")
    assert orcidx.scan(tmp_path).count_rows() == 2 * ROWS


@pytest.mark.parametrize("after", [1, 3, 5])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_that_is_killed_is_completed(tmp_path, monkeypatch, after, when):
    """The call is killed between two files, or between a file and the manifest. The next call completes the dataset."""
    calls = 0
    right = OrcWriter.close

    def close(self):
        nonlocal calls
        calls += 1
        if calls == after and when == "before":
            raise KeyboardInterrupt
        result = right(self)
        if calls == after:
            raise KeyboardInterrupt
        return result

    given = {"partition_by": "year", "max_file_bytes": 65536, "stripe_size": 16384, "job": "monday"}
    with monkeypatch.context() as patched:
        patched.setattr(OrcWriter, "close", close)
        with pytest.raises(KeyboardInterrupt):
            orcidx.write_dataset(TABLE.to_reader(700), tmp_path, **given)
    left = len(data_files(tmp_path))
    assert left == after - (when == "before")
    done = orcidx.write_dataset(TABLE.to_reader(700), tmp_path, **given)
    assert everything(tmp_path).equals(TABLE)
    assert sum(not one.written for one in done.files) == after - 1
    assert data_files(tmp_path) == [one.path for one in done.files]


def test_a_process_that_is_killed_leaves_whole_files(tmp_path):
    code = (
        "import os, numpy, orcidx, pyarrow as pa\n"
        "xs = numpy.random.default_rng(0).integers(0, 2**62, 10**6)\n"
        "def rows():\n"
        "    for i in range(10**6):\n"
        "        if i == 30: os.kill(os.getpid(), 9)\n"
        "        yield pa.record_batch({'x': xs[i * 5000 : i * 5000 + 5000]})\n"
        "schema = pa.schema([('x', pa.int64())])\n"
        f"orcidx.write_dataset(pa.RecordBatchReader.from_batches(schema, rows()), {str(tmp_path)!r}, job='j',\n"
        "    max_file_bytes=65536, stripe_size=4096, compression='uncompressed', row_index_stride=100)\n"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == -9
    known = [name for name in data_files(tmp_path) if name.endswith(".orc")]
    assert known
    data = pa.table({"x": np.random.default_rng(0).integers(0, 2**62, 10**6)[:200_000]})
    options = {"stripe_size": 4096, "compression": "uncompressed", "row_index_stride": 100}
    orcidx.write_dataset(data.to_reader(5000), tmp_path, job="j", max_file_bytes=65536, **options)
    assert orcidx.scan(tmp_path).to_table().equals(data)


def test_the_manifest_of_many_files_is_written_less_often(tmp_path, monkeypatch):
    """The manifest names every file. If the manifest were written after each of 10,000 files, 5 GB would be written in
    total."""
    puts, put = [], Folder.put

    def counted(self, name, data):
        puts.append(name)
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", counted)
    rows = pa.table({"part": range(300), "id": range(300)})
    written = orcidx.write_dataset(rows, tmp_path, partition_by=["part"], job="j")
    assert len(written.files) == 300
    saved = [name for name in puts if name.endswith(".json")]
    assert 50 < len(saved) < 150
    assert not [
        one for one in orcidx.write_dataset(rows, tmp_path, partition_by=["part"], job="j").files if one.written
    ]


def test_memory_is_shared_by_the_open_files(tmp_path, monkeypatch):
    held = []
    right = OrcWriter.end_stripe
    monkeypatch.setattr(OrcWriter, "end_stripe", lambda self: (held.append(self.bytes_buffered), right(self))[1])
    rng = np.random.default_rng(2)
    data = pa.table({"k": rng.integers(0, 8, 300_000), "x": rng.integers(0, 2**62, 300_000)})
    orcidx.write_dataset(data.to_reader(5000), tmp_path, partition_by="k", max_memory=1 << 20, use_threads=False)
    assert 0 < max(held) < 1 << 20
    assert len(held) > 8, "some stripes end before their file ends"
    assert orcidx.scan(tmp_path).count_rows() == 300_000


def test_bad_input(tmp_path):
    for given, words in (
        ({"partition_by": "town"}, "no column 'town'"),
        ({"partition_by": "x"}, "some readers"),
        ({"partition_by": ["city", "city"]}, "twice"),
        ({"max_file_bytes": 1}, "64 KiB"),
        ({"max_memory": 1}, "1 MiB"),
        ({"max_partitions": 0}, "max_partitions must be at least 1"),
        ({"partition_by": "id", "max_partitions": 5}, "more than 5 partitions"),
    ):
        with pytest.raises(InvalidQuery, match=words):
            orcidx.write_dataset(TABLE.slice(0, 100), tmp_path / "d", **given)
    same_names = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["k", "k"])
    with pytest.raises(InvalidQuery, match="2 columns have the name 'k'"):
        orcidx.write_dataset(same_names, tmp_path / "d", partition_by="k")
    with pytest.raises(InvalidQuery, match="leaves no column for the files"):
        orcidx.write_dataset(pa.table({"k": ["a"]}), tmp_path / "d", partition_by="k")
    with pytest.raises(InvalidQuery, match="read back as null"):
        orcidx.write_dataset(pa.table({"k": [""], "v": [1]}), tmp_path / "d", partition_by="k")
    late = pa.table({"k": ["a", "b"], "at": pa.array([0, -500], pa.timestamp("ms"))})
    with pytest.raises(ValueOutOfRange):
        orcidx.write_dataset(late, tmp_path / "d", partition_by="k")
    assert data_files(tmp_path / "d") == [], "a call without a name cannot be resumed"
    with pytest.raises(ValueOutOfRange):
        orcidx.write_dataset(late, tmp_path / "d", partition_by="k", job="j")
    assert [str(Path(name).parent) for name in data_files(tmp_path / "d")] == ["k=a"], "finished files stay"


def test_a_directory_that_was_changed(tmp_path):
    done = orcidx.write_dataset(TABLE, tmp_path, job="j")
    (tmp_path / done.files[0].path).write_bytes(b"ORC")
    with pytest.raises(StorageError, match="has 3 bytes instead"):
        orcidx.write_dataset(TABLE, tmp_path, job="j")
    os.remove(tmp_path / done.files[0].path)
    with pytest.raises(StorageError, match="is gone"):
        orcidx.write_dataset(TABLE, tmp_path, job="j")
    (manifest,) = (tmp_path / "_orcidx_write").iterdir()
    manifest.write_text("{")
    with pytest.raises(CorruptFile, match="damaged"):
        orcidx.write_dataset(TABLE, tmp_path, job="j")


def test_to_a_url_and_without_rows():
    orcidx.write_dataset(TABLE, "memory://dataset", partition_by="year")
    assert orcidx.scan("memory://dataset").count_rows() == ROWS
    orcidx.write_dataset(TABLE.slice(0, 0), "memory://nothing")
    assert orcidx.scan("memory://nothing").to_table().equals(TABLE.slice(0, 0))


def test_partitions_keep_nanoseconds(tmp_path: Path) -> None:
    numbers = [1_000_000_001, 1_000_000_002, 1_000_001_000, -1, 0, None, 1_000_000_001, 1_500_000_000, -(2**63)]
    table = pa.table({"a": range(9), "t": pa.array(numbers, pa.timestamp("ns"))})
    done = orcidx.write_dataset(table, tmp_path, partition_by="t")
    assert {one.partition["t"]: one.rows for one in done.files} == {
        "1970-01-01 00:00:01.000000001": 2,
        "1970-01-01 00:00:01.000000002": 1,
        "1970-01-01 00:00:01.000001": 1,
        "1969-12-31 23:59:59.999999999": 1,
        "1970-01-01 00:00:00": 1,
        None: 1,
        "1970-01-01 00:00:01.5": 1,
        "1677-09-21 00:12:43.145224192": 1,
    }


def test_a_second_call_without_a_name_is_refused_or_does_what_its_mode_says(tmp_path):
    """A second call without ``job`` adds or replaces files, or raises an error. It never returns without writing."""
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    given = {"partition_by": "p"}
    first = orcidx.write_dataset(rows, tmp_path, **given)
    with pytest.raises(InvalidQuery, match="mode='append' to add rows, or mode='overwrite'"):
        orcidx.write_dataset(rows, tmp_path, **given)
    added = orcidx.write_dataset(rows, tmp_path, mode="append", **given)
    assert all(one.written for one in added.files)
    assert orcidx.scan(tmp_path).count_rows() == 4
    (tmp_path / "_notes.txt").write_text("kept")
    orcidx.write_dataset(rows, tmp_path, mode="append", job="named", **given)
    done = orcidx.write_dataset(pa.table({"id": [7], "p": ["c"]}), tmp_path, mode="overwrite", **given)
    assert orcidx.scan(tmp_path).to_table()["id"].to_pylist() == [7]
    assert sorted(data_files(tmp_path)) == sorted(["_notes.txt", done.files[0].path])
    assert first.files[0].path not in data_files(tmp_path)
    assert not list((tmp_path / "_orcidx_write").glob("*.json")), "no manifest of deleted files remains"
    with pytest.raises(InvalidQuery, match="mode must be one of"):
        orcidx.write_dataset(rows, tmp_path, mode="ignore", **given)


def test_files_of_hive_are_replaced_too(tmp_path):
    """Files of Hive have no suffix. An overwrite replaces these files too, because a scan reads them."""
    for name in ("000000_0", "x.ORC"):
        orcidx.write_table(pa.table({"id": [1, 2]}), tmp_path / name)
    (tmp_path / "notes.txt").write_text("kept")
    (tmp_path / "nothing").touch()
    orcidx.write_table(pa.table({"id": [3]}), tmp_path / "_hidden_0")
    new = pa.table({"id": [7]})
    with pytest.raises(InvalidQuery, match="already has other files, such as 000000_0"):
        orcidx.write_dataset(new, tmp_path)
    done = orcidx.write_dataset(new, tmp_path, mode="overwrite")
    assert sorted(data_files(tmp_path)) == sorted(["_hidden_0", "notes.txt", "nothing", done.files[0].path])


def test_a_job_without_rows_can_be_called_again(tmp_path):
    none = pa.table({"id": pa.array([], pa.int64())})
    for source in (none, none.to_reader(), none):
        assert orcidx.write_dataset(source, tmp_path, job="j").rows == 0
    with pytest.raises(InvalidQuery, match="more rows are given than the job wrote"):
        orcidx.write_dataset(pa.table({"id": [1]}), tmp_path, job="j")


@pytest.mark.parametrize("job", ["j", None])
def test_an_overwrite_that_is_cut_off_is_completed(tmp_path, monkeypatch, job):
    old, new = pa.table({"id": [1, 2, 3]}), pa.table({"id": [7]})
    for _ in range(3):
        orcidx.write_dataset(old, tmp_path, mode="append")
    right, calls = Folder.delete, []

    def delete(self, name):
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        right(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            orcidx.write_dataset(new, tmp_path, mode="overwrite", job=job)
    assert 7 in orcidx.scan(tmp_path).to_table()["id"].to_pylist(), "new rows are published before old rows are deleted"
    orcidx.write_dataset(new, tmp_path, mode="overwrite", job=job)
    assert orcidx.scan(tmp_path).to_table().equals(new)


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_finished_overwrite_keeps_files_that_were_added_later(tmp_path, monkeypatch, cut_off):
    """A second call of a finished job must not delete files, or manifests, that other jobs added in the meantime."""
    new, added = pa.table({"id": [7]}), pa.table({"id": [8]})
    orcidx.write_dataset(pa.table({"id": [1, 2, 3]}), tmp_path)
    if cut_off:
        with monkeypatch.context() as patched:
            patched.setattr(Folder, "delete", lambda self, name: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                orcidx.write_dataset(new, tmp_path, mode="overwrite", job="j")
    else:
        orcidx.write_dataset(new, tmp_path, mode="overwrite", job="j")
    orcidx.write_dataset(added, tmp_path, mode="append", job="other")
    for _ in range(2):
        again = orcidx.write_dataset(new, tmp_path, mode="overwrite", job="j")
        assert [one.written for one in again.files] == [False]
        assert sorted(orcidx.scan(tmp_path).to_table()["id"].to_pylist()) == [7, 8]
    assert not any(one.written for one in orcidx.write_dataset(added, tmp_path, mode="append", job="other").files)


def _killed_after_one_file(tmp_path, monkeypatch, rows):
    """Calls the job "j". The call is killed after its first file, before any old file is deleted."""
    right = OrcWriter.close

    def close(self):
        right(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(OrcWriter, "close", close)
        with pytest.raises(KeyboardInterrupt):
            orcidx.write_dataset(rows, tmp_path, mode="overwrite", job="j")


def test_a_resumed_overwrite_keeps_files_that_were_added_meanwhile(tmp_path, monkeypatch):
    """The first call of the job is killed. The second call must not delete files that another job added after the first
    call. In an earlier version, the second call deleted these files, because it listed the old files again."""
    new, added = pa.table({"id": [7]}), pa.table({"id": [8]})
    orcidx.write_dataset(pa.table({"id": [1, 2, 3]}), tmp_path)
    _killed_after_one_file(tmp_path, monkeypatch, new)
    orcidx.write_dataset(added, tmp_path, mode="append", job="other")
    for _ in range(2):
        orcidx.write_dataset(new, tmp_path, mode="overwrite", job="j")
        assert sorted(orcidx.scan(tmp_path).to_table()["id"].to_pylist()) == [7, 8]
    assert not any(one.written for one in orcidx.write_dataset(added, tmp_path, mode="append", job="other").files)


@pytest.mark.parametrize("way_out", ["move", "delete"])
@pytest.mark.parametrize("job", ["j", None])
@pytest.mark.parametrize("when", ["before the second call", "during the call"])
def test_an_overwrite_does_not_delete_a_file_that_changed(tmp_path, monkeypatch, when, job, way_out):
    new = pa.table({"id": [7]})
    orcidx.write_dataset(pa.table({"id": [1, 2, 3]}), tmp_path)
    orcidx.write_dataset(pa.table({"id": [4]}), tmp_path, mode="append")
    before = {one: one.read_bytes() for one in tmp_path.glob("*.orc")}
    changed = min(before)

    def change():
        orcidx.write_table(pa.table({"id": [5, 6]}), changed)

    def rows():
        yield new.to_batches()[0]
        if when == "during the call":
            change()

    if when == "before the second call":
        if job is None:
            return
        _killed_after_one_file(tmp_path, monkeypatch, new)
        change()
    reader = pa.RecordBatchReader.from_batches(new.schema, rows())
    with pytest.raises(StorageError, match=rf"{changed.name} has changed since this job began.*move it to another"):
        orcidx.write_dataset(reader, tmp_path, mode="overwrite", job=job)
    left = {one: one.read_bytes() for one in tmp_path.glob("*.orc")}
    assert left.keys() >= before.keys()
    assert all(left[one] == before[one] for one in before if one != changed)
    assert orcidx.read_table(changed)["id"].to_pylist() == [5, 6]
    if way_out == "move":
        changed.rename(tmp_path.with_suffix(".orc"))
    else:
        changed.unlink()
    orcidx.write_dataset(new, tmp_path, mode="overwrite", job=job)
    assert orcidx.scan(tmp_path).to_table().equals(new)


def test_an_overwrite_that_failed_before_its_first_file_can_have_other_options(tmp_path):
    orcidx.write_dataset(pa.table({"id": [1, 2, 3]}), tmp_path)
    broken = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), (1 // 0 for _ in range(1)))
    with pytest.raises(ZeroDivisionError):
        orcidx.write_dataset(broken, tmp_path, mode="overwrite", job="j")
    orcidx.write_dataset(pa.table({"n": ["a"]}), tmp_path, mode="overwrite", job="j", compression="zlib")
    assert orcidx.scan(tmp_path).to_table().to_pylist() == [{"n": "a"}]


def test_a_call_without_a_name_leaves_nothing_after_an_error(tmp_path):
    orcidx.write_dataset(TABLE, tmp_path)
    before = data_files(tmp_path)

    def rows():
        yield from TABLE.to_batches(1000)
        raise ZeroDivisionError

    for mode in ("append", "overwrite"):
        reader = pa.RecordBatchReader.from_batches(TABLE.schema, rows())
        with pytest.raises(ZeroDivisionError):
            orcidx.write_dataset(reader, tmp_path, mode=mode, max_file_bytes=1 << 16, stripe_size=1 << 14)
        assert data_files(tmp_path) == before
