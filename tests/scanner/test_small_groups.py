"""The rows of several small files are decoded and tested together. The results are the same as if each file was read
alone."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from java_footers import as_java_writes
from pyarrow import orc
from rows_together import rows_of_each_test, separately

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.planner import schema_mapping
from orcidx.scanner import decode_pool, file_queue, small_groups
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.small_filter import SmallFilter
from orcidx.scanner.small_groups import SmallGroup, WantedColumns

FILES, ROWS = 40, 100


def written(folder: Path, *, files: int = FILES) -> list[str]:
    """Writes files whose rows have the keys 0, 1, 2, and so on, and returns their paths."""
    for number in range(files):
        keys = np.arange(number * ROWS, (number + 1) * ROWS)
        columns: dict[str, Any] = {
            "key": keys,
            "price": keys / 4,
            "word": [None if key % 11 == 0 else f"w{key % 7}" for key in keys.tolist()],
            "parts": [list(range(key % 3)) for key in keys.tolist()],
        }
        orcidx.write_table(pa.table(columns), folder / f"{number:02}.orc", compression="zstd")
    return sorted(map(str, folder.glob("*.orc")))


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list of the numbers of rows that were tested in one call."""
    return rows_of_each_test(monkeypatch)


def test_rows_of_many_files_are_tested_in_one_call(
    tmp_path: Path, tests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = orcidx.scan(written(tmp_path), where=col("word") == "w3")
    table = separately(monkeypatch, scan.to_table)
    assert len(tests) >= FILES - 1
    assert table.num_rows > FILES * 10
    for read in (lambda: scan.to_table().num_rows, scan.count_rows):
        tests.clear()
        assert read() == table.num_rows
        assert tests == [FILES * ROWS]
        with monkeypatch.context() as patch:
            patch.setattr(small_groups, "GROUP_ROWS", 250)
            tests.clear()
            assert read() == table.num_rows
            assert max(tests) == 3 * ROWS
        with monkeypatch.context() as patch:
            patch.setattr(small_groups, "BATCHES_A_TURN", 4)
            tests.clear()
            assert read() == table.num_rows
            assert max(tests) == 4 * ROWS, "rows of files with few rows do not wait for ever"
        with monkeypatch.context() as patch:
            patch.setattr(small_groups, "GROUP_STORED_BYTES", 1)
            tests.clear()
            assert read() == table.num_rows
            assert tests == [ROWS] * FILES
    assert scan.to_table().equals(table)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns a list of the numbers of columns and of files that were decoded together."""
    found: list[tuple[int, int]] = []
    real = SmallGroup.columns

    def columns(self: SmallGroup[Any], wanted: WantedColumns, parts: int) -> Any:
        found.append((len(wanted.columns.columns), len(self.files if wanted.places is None else wanted.places)))
        return real(self, wanted, parts)

    monkeypatch.setattr(SmallGroup, "columns", columns)
    return found


def test_other_columns_of_files_without_matching_rows_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 4 * ROWS)
    paths = written(tmp_path)
    for number, path in enumerate(paths):  # statistics do not show which files have an "x"
        words = ["a", *["x" if number % 4 == 3 or number < 8 else "y"] * (ROWS - 2), "z"]
        orcidx.write_table(orcidx.read_table(path).append_column("mark", pa.array(words)), path)
    scan = orcidx.scan(paths, where=col("mark") == "x")
    decoded.clear()
    found = scan.to_table()
    assert found.num_rows == 16 * (ROWS - 2)
    # All files of the first two groups have matching rows, and then one file of each group has. The other columns of a
    # group are decoded while the columns of the condition are decoded for the groups after it.
    alone, others, few = (1, 4), (4, 4), (4, 1)
    assert decoded == [*[alone] * 4, others, others, *[alone, few] * 6, few, few]
    assert found.equals(separately(monkeypatch, scan.to_table))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("where", [None, col("word") == "w3", col("key") >= FILES * ROWS, col("word") == "w9"])
def test_threads_decode_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, where: Any, decoded: list[tuple[int, int]]
) -> None:
    paths = written(tmp_path)
    scan = orcidx.scan(paths, where=where)
    expected = separately(monkeypatch, scan.to_table)
    for module in (decode_pool, small_groups):
        monkeypatch.setattr(module, "thread_count", lambda *, use_threads: threads)
    for rows in (150, 1000, 1 << 16):
        monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
        decoded.clear()
        assert scan.to_table().equals(expected)
        assert scan.count_rows() == expected.num_rows
        assert bool(decoded) == (where is None or "key" not in repr(where))


def test_the_metrics_are_those_of_files_that_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path)
    for where in (None, col("word") == "w3", col("key") < 250):
        scan = orcidx.scan(paths, ["key", "word"], where)

        def work(scan: orcidx.Scan = scan) -> dict[str, Any]:
            batches = scan.to_batches()
            rows = sum(batch.num_rows for batch in batches)
            return {"rows": rows, **{name: value for name, value in vars(batches.metrics).items() if name != "seconds"}}

        scan.to_table()
        assert work() == separately(monkeypatch, work)


def test_a_file_that_cannot_be_decoded_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of its group are decoded one by one, and so are all later files. Each file is returned once."""
    paths = written(tmp_path)
    for condition in (None, col("key") >= 0):
        scan = orcidx.scan(paths, ["key"], condition)
        monkeypatch.setattr(small_groups, "GROUP_ROWS", 1000)
        real, calls = small_groups.begin_stripes, []

        def read(*given: Any, stripes: Any, real: Any = real, calls: Any = calls, **options: Any) -> Any:
            calls.append(len(stripes))
            return None if len(calls) == 3 else real(*given, stripes=stripes, **options)

        with monkeypatch.context() as patch:
            patch.setattr(small_groups, "begin_stripes", read)
            patch.setattr(small_groups, "thread_count", lambda *, use_threads: 1)
            table = scan.to_table()
        assert table["key"].to_pylist() == list(range(FILES * ROWS))
        assert calls == [10, 10, 10, 10], "the fourth group was started before the third one was taken"


def test_an_error_of_the_next_file_comes_after_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path)
    real = SmallFiles.take

    def take(self: SmallFiles, job: Any, **options: Any) -> Any:
        if job.source.name == paths[25]:
            raise orcidx.InvalidQuery("made up")
        return real(self, job, **options)

    monkeypatch.setattr(SmallFiles, "take", take)
    for rows in (250, 1000, 1 << 16):
        monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
        for where in (None, col("key") >= 0):
            scan, batches = orcidx.scan(paths, ["key"], where), []
            with pytest.raises(orcidx.InvalidQuery, match="made up"):
                batches.extend(scan.to_batches())
            assert pa.Table.from_batches(batches)["key"].to_pylist() == list(range(25 * ROWS))
            if where is not None:
                with pytest.raises(orcidx.InvalidQuery, match="made up"):
                    scan.count_rows()


def test_files_between_those_that_are_decoded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files have two stripes or no row, and are read alone. The order of the rows is that of the files."""
    paths = written(tmp_path)
    for number in (3, 4, 17, 39):
        table = orcidx.read_table(paths[number])
        if number == 4:
            orcidx.write_table(table.slice(0, 0), paths[number])
            continue
        with orcidx.OrcWriter(paths[number], table.schema, compression="zstd") as writer:
            writer.write(table.slice(0, 40))
            writer.end_stripe()
            writer.write(table.slice(40))
    keys = [key for key in range(FILES * ROWS) if not 400 <= key < 500]
    for where, wanted in ((None, keys), (col("word") == "w3", [key for key in keys if key % 7 == 3 and key % 11])):
        scan = orcidx.scan(paths, where=where)
        assert scan.to_table()["key"].to_pylist() == wanted
        assert scan.count_rows() == len(wanted)
        for rows in (150, 250, 1000):
            monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
            assert scan.to_table()["key"].to_pylist() == wanted


def test_no_later_file_is_read_before_the_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = SmallFiles.take
    monkeypatch.setattr(
        SmallFiles, "take", lambda self, job, **given: read.append(job.source.name) or real(self, job, **given)
    )
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 4 * ROWS)
    paths = written(tmp_path)
    with orcidx.scan(paths, where=col("word") == "w3", batch_size=60).to_batches() as batches:
        next(batches)
        assert len(read) <= 5
    read.clear()
    assert orcidx.scan(paths, where=col("word") == "w3").limit(3).to_table().num_rows == 3
    assert len(read) == 1


def kinds(number: int, *, nulls: bool) -> pa.Table:
    """Returns one column of each type that is decoded without column readers. Texts are stored directly in some files,
    and in a dictionary in others."""
    keys = range(number * ROWS, (number + 1) * ROWS)
    start = -142_000 - 30 * number
    columns = {
        "key": pa.array(keys, pa.int64()),
        "small": pa.array([key % 300 - 150 for key in keys], pa.int16()),
        "int": pa.array([key * 7 % 1000 for key in keys], pa.int32()),
        "byte": pa.array([key % 100 for key in keys], pa.int8()),
        "float": pa.array([key / 7 for key in keys], pa.float32()),
        "flag": pa.array([key % 3 == 0 for key in keys]),
        "day": pa.array(range(start, start + ROWS), pa.int32()).cast(pa.date32()),
        "word": pa.array([f"wörd {key if number % 2 else key % 7}" for key in keys]),
        "bytes": pa.array([bytes([key % 256] * (key % 4)) for key in keys], pa.binary()),
        "price": pa.array([Decimal(key * 37 % 900 - 400) / 100 for key in keys], pa.decimal128(12, 2)),
        "much": pa.array([Decimal(7 ** (key % 40)) for key in keys], pa.decimal128(38, 0)),
        "at": pa.array([key * 1_000_000 for key in keys], pa.timestamp("us")),
        "list": pa.array([[key] * (key % 3) for key in keys]),
    }
    if nulls and number % 3:  # other files have no nulls, so their columns have no PRESENT stream
        valid = pa.array([key * 7 % 10 > number % 4 for key in keys])
        columns = {name: pc.if_else(valid, one, pa.scalar(None, one.type)) for name, one in columns.items()}
    return pa.table(columns)


@pytest.mark.parametrize("compression", ["none", "zstd", "zlib", "snappy", "lz4"])
@pytest.mark.parametrize("nulls", [False, True])
def test_all_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str, nulls: bool) -> None:
    """The rows of a file begin at any bit of the bitmaps, because files have different numbers of rows."""
    paths, tables = [], []
    for number in range(12):
        tables.append(kinds(number, nulls=nulls).slice(0, ROWS - 5 * (number % 3)))
        paths.append(str(tmp_path / f"{number:02}.orc"))
        if number % 4 == 3:
            orc.write_table(tables[-1], paths[-1], compression=compression.replace("none", "uncompressed"))
            continue
        orcidx.write_table(tables[-1], paths[-1], compression=compression)
    table = pa.concat_tables(tables)
    for options in ({}, {"calendar": "stored"}, {"strings": "view"}, {"utf8": "unchecked"}):
        scan = orcidx.scan(paths, **options)
        expected = separately(monkeypatch, scan.to_table)
        for rows in (1, 250, 1 << 16):
            monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
            found = scan.to_table()
            found.validate(full=True)
            assert found.equals(expected)
    assert orcidx.scan(paths, ["much", "flag"]).to_table().equals(table.select(["much", "flag"]))
    assert orcidx.scan(paths, timestamp_unit="us").to_table().equals(table)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_matching_rows_of_all_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: bool, compression: str
) -> None:
    """Values of fixed width without nulls are moved together while they are decoded, and others afterwards."""
    paths = [str(tmp_path / f"{number:02}.orc") for number in range(12)]
    for number, path in enumerate(paths):
        table = kinds(number, nulls=nulls).slice(0, ROWS - 5 * (number % 3))
        tested = pa.array([(row * 31 + number) % 100 if number != 5 else -1 for row in range(table.num_rows)])
        orcidx.write_table(table.append_column("tested", tested), path, compression=compression)
    for where in (
        col("tested") < 100,  # all rows
        col("tested") != 17,  # nearly all rows
        col("tested") < 50,
        col("tested") < 3,
        (col("tested") == 17) & (col("key") < 600),  # no row of most files
        col("tested") == 200,
        (col("tested") < 40) | col("flag").is_null(),
    ):
        scan = orcidx.scan(paths, where=where)
        expected = separately(monkeypatch, scan.to_table)
        for rows, threads in ((1, True), (250, True), (1 << 16, False)):
            monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
            found = orcidx.scan(paths, where=where, use_threads=threads).to_table()
            found.validate(full=True)
            assert found.equals(expected), where


def test_an_error_of_a_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition of a group is tested while earlier groups are decoded. Its error is raised, and the threads end."""
    paths, tested = written(tmp_path), []
    real = SmallFilter.test

    def test(self: SmallFilter, asked: Any, rows: int) -> Any:
        tested.append(rows)
        if len(tested) == 3:
            raise ArithmeticError("made up")
        return real(self, asked, rows)

    monkeypatch.setattr(SmallFilter, "test", test)
    monkeypatch.setattr(small_groups, "GROUP_ROWS", 4 * ROWS)
    scan = orcidx.scan(paths, ["key", "word"], col("word") == "w3")
    with pytest.raises(ArithmeticError, match="made up"):
        scan.to_table()
    assert tested == [4 * ROWS] * 4, "the error is raised after the rows of the groups before it"
    monkeypatch.undo()
    assert scan.to_table().num_rows == scan.count_rows() > 0


@pytest.mark.parametrize("where", [None, col("key") >= 0, (col("price") > 1) | col("flag").is_null()], ids=str)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_damaged_file_is_the_same_error_or_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, where: Any, compression: str
) -> None:
    """Before an error, the rows of earlier files are returned."""
    paths = [str(tmp_path / f"{number}.orc") for number in range(6)]
    for number, path in enumerate(paths):
        orcidx.write_table(kinds(number, nulls=True).drop_columns(["at", "list"]), path, compression=compression)
    sound = Path(paths[4]).read_bytes()

    def outcomes() -> list[Any]:
        forget_metadata()
        scan = orcidx.scan(paths, where=where)
        found: list[Any] = []
        try:
            found.extend(scan.to_batches())
        except orcidx.OrcidxError as error:
            found = [pa.Table.from_batches(found), type(error), str(error)]
        else:
            found = [pa.Table.from_batches(found)]
        if where is not None:
            try:
                found.append(scan.count_rows())
            except orcidx.OrcidxError as error:
                found.append((type(error), str(error)))
        return found

    different = 0
    for at in sorted(rng.choice(len(sound), 60, replace=False).tolist()):
        Path(paths[4]).write_bytes(sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :])
        expected = separately(monkeypatch, outcomes)
        assert outcomes() == expected, at
        different += len(expected) > 1 + (where is not None)
        if different:
            assert expected[0].num_rows >= ROWS
    assert different > 6


def test_files_of_another_schema_have_their_own_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        kind = pa.int64() if number % 4 < 2 else pa.int32()
        keys = pa.array(range(number * ROWS, (number + 1) * ROWS), kind)
        orcidx.write_table(
            pa.table({"key": keys, "even": [key % 2 == 0 for key in range(ROWS)]}), tmp_path / f"{number:02}.orc"
        )
    schema = pa.schema([("key", pa.int64()), ("even", pa.bool_())])
    scan = orcidx.scan(sorted(map(str, tmp_path.iterdir())), where=col("even") == True, schema=schema)  # noqa: E712
    found = scan.to_table()
    assert found["key"].to_pylist() == list(range(0, 12 * ROWS, 2))
    assert found.equals(separately(monkeypatch, scan.to_table))
    assert scan.count_rows() == 6 * ROWS


@pytest.mark.parametrize("options", [{}, {"calendar": "stored"}, {"strings": "view"}, {"strings": "dictionary"}])
def test_options_of_the_columns(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of the condition are decoded in the proleptic calendar, whatever the calendar of the others is."""
    for number in range(8):  # files of the hybrid calendar
        days = pa.array(range(-142_000 - ROWS * number, -142_000 - ROWS * (number - 1)), pa.int32()).cast(pa.date32())
        table = pa.table({"day": days, "word": [f"w{row % 7}" for row in range(ROWS)], "other": days})
        path = tmp_path / f"{number}.orc"
        orcidx.write_table(table, path, compression="none")
        path.write_bytes(as_java_writes(path.read_bytes()))
    paths = sorted(map(str, tmp_path.iterdir()))
    assert orcidx.read_table(paths[0]) != orcidx.read_table(paths[0], calendar="stored")
    for where in (col("word") == "w3", col("day") != days[7].as_py(), col("word") > "w3"):
        for columns in (None, ["day", "word"], ["other"], []):
            scan = orcidx.scan(paths, columns, where, **options)
            found = scan.to_table()
            assert found.equals(separately(monkeypatch, scan.to_table))
            assert scan.count_rows() == found.num_rows > 100


def test_strings_as_views(tmp_path: Path, tests: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars reads strings as views. pyarrow cannot filter views, so strings are converted after the rows are tested.
    Without a condition, strings are converted after a file is decoded."""
    paths = written(tmp_path, files=12)
    opened: list[str] = []
    real = file_queue.open_job
    monkeypatch.setattr(file_queue, "open_job", lambda job, *given: opened.append(job.source.name) or real(job, *given))
    for where, rows in ((col("word") == "w3", 156), (col("word").is_null(), 110), (None, 1200), (col("key") < 0, 0)):
        plain = orcidx.scan(paths, ["word", "key"], where).to_table()
        opened.clear()
        scan = orcidx.scan(paths, ["word", "key"], where, strings="view")
        found = scan.to_table()
        found.validate(full=True)
        assert found.schema.field("word").type == pa.string_view()
        assert found["word"].cast(pa.string()).combine_chunks() == plain["word"].combine_chunks()
        assert found["key"] == plain["key"]
        assert found.num_rows == scan.count_rows() == rows
        assert set(opened) <= {paths[0]}, "only the first file is opened, to find the schema"
    assert max(tests) == 12 * ROWS


@pytest.mark.parametrize("batch_size", [1, 30, 250, 1000, 65536])
def test_batches(tmp_path: Path, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more rows than the caller wants. Before the first batch is returned, at most half a batch of rows is
    read in addition to the rows that are read if each file is tested alone."""
    scan = orcidx.scan(written(tmp_path), where=col("word") == "w3", batch_size=batch_size)

    def read() -> tuple[int, list[pa.RecordBatch]]:
        with scan.to_batches() as batches:
            first = next(batches)
            return batches.metrics.files, [first, *batches]

    files, found = read()
    alone, expected = separately(monkeypatch, read)
    assert files <= alone + batch_size // 2 // ROWS
    assert max(batch.num_rows for batch in found) <= batch_size
    assert pa.Table.from_batches(found) == pa.Table.from_batches(expected)
    limited = scan.limit(3).to_batches()
    assert sum(batch.num_rows for batch in limited) == 3
    assert limited.metrics.files == 1


def test_a_condition_that_pyarrow_evaluates(tmp_path: Path, tests: list[int]) -> None:
    """pyarrow evaluates this condition, and one word is not a number. The rows of the file are tested alone, because an
    index could rule out the word if the file was opened."""
    for number in range(8):
        words = [str(key) for key in range(ROWS)]
        words[50] = "no number" if number == 4 else "50"
        orcidx.write_table(pa.table({"word": words}), tmp_path / f"{number}.orc")
    where = pc.field("word").cast(pa.int64()) >= 20
    paths = sorted(map(str, tmp_path.iterdir()))
    assert orcidx.scan(paths[:4], where=where).count_rows() == 4 * 80
    assert tests == [ROWS] * 4
    for read in (orcidx.scan(paths, where=where).to_table, orcidx.scan(paths, where=where).count_rows):
        with pytest.raises(orcidx.InvalidQuery, match="no number"):
            read()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list of the names of the files that are opened."""
    names: list[str] = []
    real = file_queue.open_job
    monkeypatch.setattr(file_queue, "open_job", lambda job, *given: names.append(job.source.name) or real(job, *given))
    return names


def partitioned(folder: Path) -> str:
    """Writes files to ``key=value`` directories. The files also have a column of the name of a directory, with other
    values. In half of the files a column is narrower, and another one is missing."""
    for number in range(24):
        below = (
            folder
            / f"day=2024-01-{1 + number // 8:02}"
            / ("n=__HIVE_DEFAULT_PARTITION__" if number % 5 == 4 else f"n={number % 5}")
        )
        below.mkdir(parents=True, exist_ok=True)
        keys = np.arange(number * ROWS, (number + 1) * ROWS)
        columns: dict[str, Any] = {"key": pa.array(keys, pa.int32() if number % 2 else pa.int64()), "n": keys + 7}
        columns["word"] = [f"w{key % 7}" for key in keys.tolist()]
        if number % 2 == 0:
            columns["price"] = keys / 4
        orcidx.write_table(pa.table(columns), below / f"{number:02}.orc", compression="zstd")
    return str(folder)


CONSTANT_CONDITIONS = [
    None,
    col("word") == "w3",
    col("day") == "2024-01-02",
    col("n") == 3,
    col("n").is_null(),
    (col("n") == 2) | (col("price") < 120),
    (col("n") == 2) & (col("key") % 1 == 0)
    if hasattr(type(col("key")), "__mod__")
    else (col("n") == 2) & (col("key") > 5),
    (col("day") > "2024-01-01") & col("word").is_in(["w1", "w2"]) & ~(col("n") == 1),
    col("price").is_null(),
    col("key") >= 1700,
]


@pytest.mark.parametrize("where", CONSTANT_CONDITIONS, ids=str)
def test_files_in_directories_of_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], where: Any
) -> None:
    folder = partitioned(tmp_path / "t")
    schema = pa.schema(
        [("key", pa.int64()), ("word", pa.string()), ("price", pa.float64()), ("day", pa.date32()), ("n", pa.int64())]
    )
    for columns in (None, ["n", "key"], ["day"], ["price", "word"]):
        for wanted in (None, schema):
            scan = orcidx.scan(folder, columns, where, schema=wanted, file_path="path")
            expected = separately(monkeypatch, scan.to_table)
            count = separately(monkeypatch, scan.count_rows)
            for rows in (150, 1 << 16):
                monkeypatch.setattr(small_groups, "GROUP_ROWS", rows)
                opened.clear()
                found = scan.to_table()
                found.validate(full=True)
                assert found.schema.equals(expected.schema, check_metadata=True)
                assert found.equals(expected)
                assert scan.count_rows() == count == expected.num_rows
                assert len(set(opened)) <= 4, "the first file of each schema"


def test_an_error_of_a_conversion_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of earlier files are returned before the error."""
    paths = []
    for number in range(6):
        paths.append(str(tmp_path / f"{number}.orc"))
        keys = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int32())
        orcidx.write_table(pa.table({"key": keys, "word": ["a"] * ROWS}), paths[-1])
    real = schema_mapping.widen

    def widen(array: pa.Array, kind: pa.DataType) -> pa.Array:
        if 4 * ROWS + 7 in array.to_pylist():
            raise orcidx.ValueOutOfRange("407 is too large")
        return real(array, kind)

    monkeypatch.setattr(schema_mapping, "widen", widen)
    schema = pa.schema([("key", pa.int64()), ("word", pa.string())])

    def outcome(where: Any) -> tuple[str, int]:
        batches: list[pa.RecordBatch] = []
        with pytest.raises(orcidx.ValueOutOfRange) as raised:
            batches.extend(orcidx.scan(paths, where=where, schema=schema).to_batches())
        return str(raised.value), sum(batch.num_rows for batch in batches)

    for where in (None, col("word") == "a"):
        expected = separately(monkeypatch, partial(outcome, where))
        assert outcome(where) == expected
        assert "4.orc" in expected[0]
        assert expected[1] == 4 * ROWS
