"""Counts the Python calls, reads and plans that a file and a column need in addition to the decoding of values."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from work_done import check_calls, python_calls

import orcidx
from orcidx import CorruptFile, InvalidQuery, col
from orcidx.options import _CHANGED, MOST_CHANGED
from orcidx.orc.metadata_cache import PLANS, forget_metadata
from orcidx.planner import schema_plan
from orcidx.scanner.file_evidence import FileEvidence
from orcidx.scanner.file_scan import FileScan
from orcidx.storage.local import SMALL_FILE_BYTES, LocalReader

FILES = 20
ROWS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small")
    for number in range(FILES):
        keys = list(range(number * ROWS, (number + 1) * ROWS))
        table = pa.table({"key": keys, "price": [key / 4 for key in keys], "word": [f"w{key % 7}" for key in keys]})
        orc.write_table(table, path / f"{number:02}.orc", compression="zstd")
    return path


def per_file(folder: Path, call: Callable[[list[str]], Any]) -> float:
    """Returns the number of Python calls for each file after the first one. All files have the same schema, and each
    file is read for the first time."""
    paths = sorted(map(str, folder.iterdir()))
    call(paths[:2])  # a warm-up that is not counted: imports, and other work that a process does only once
    forget_metadata()
    one = python_calls(lambda: call(paths[:1]))
    forget_metadata()
    return (python_calls(lambda: call(paths)) - one) / (len(paths) - 1)


def test_python_calls_of_a_small_file(folder: Path) -> None:
    """A file is read completely, read by a key that it does not have, and counted. No threads are used, because only
    the calls of this thread are counted."""

    def scan(paths: list[str], where: Any = None) -> orcidx.Scan:
        return orcidx.scan(paths, where=where, use_threads=False)

    assert per_file(folder, lambda paths: scan(paths).to_table()) < 84
    assert per_file(folder, lambda paths: scan(paths, col("key") == -1).to_table()) < 77
    assert per_file(folder, lambda paths: scan(paths).count_rows()) < 56


def test_python_calls_of_a_file_that_is_opened(folder: Path) -> None:
    """Each file is opened, scanned and closed before the next file is opened. First, only the schema is cached. Then
    the metadata of the files is also cached."""

    def tables(paths: list[str]) -> None:
        for path in paths:
            with orcidx.open(path) as file:
                file.scan(use_threads=False).to_table()

    paths = sorted(map(str, folder.iterdir()))
    while any(LocalReader(path).identity is None for path in paths):  # files that were just written are not cached yet
        time.sleep(0.02)
    assert per_file(folder, tables) < 150
    tables(paths)
    assert python_calls(lambda: tables(paths)) / len(paths) < 110


def test_options_are_changed_once() -> None:
    """If options are changed twice in the same way within a short time, ``override`` returns the same object. The
    values 1 and True are different changes, although they are equal in Python."""
    options = orcidx.ReadOptions()
    changed = options.override(batch_size=7)
    assert changed is options.override(batch_size=7)
    assert changed is not options.override(batch_size=8)
    assert changed.batch_size == 7
    assert options.override(batch_size=1).batch_size == 1
    with pytest.raises(InvalidQuery):
        options.override(batch_size=True)
    assert options.override(use_threads=True) is not options.override(use_threads=False)
    for size in range(1, 100):
        assert options.override(batch_size=size).batch_size == size
        assert len(_CHANGED) <= MOST_CHANGED
        # the last two changed options remain cached, whatever was requested before
        lately = options.override(io_bytes=size), options.override(merge_gap=size)
        assert lately[0] is options.override(io_bytes=size)
        assert lately[1] is options.override(merge_gap=size)
    precision = [38, 6]
    assert options.override(decimal_zero_precision=precision).decimal_zero_precision == [38, 6]
    precision[:] = [1]
    with pytest.raises(InvalidQuery):
        options.override(decimal_zero_precision=precision)


def test_keys_of_options_follow_their_values() -> None:
    """A ``ReadOptions`` object stores a key of its values. A changed copy of the object must not have the key of the
    original."""
    options = orcidx.ReadOptions(batch_size=5, decimal_zero_precision=[38, 4])
    assert options.key == orcidx.ReadOptions(batch_size=5, decimal_zero_precision=(38, 4)).key
    changed = options.override(batch_size=6), replace(options, batch_size=6), options.override(strict_index=True)
    assert len({options.key, *(one.key for one in changed)}) == 3
    for one in (options, *changed):
        found = pickle.loads(pickle.dumps(one))
        assert found == one
        assert found.key == one.key
    with pytest.raises(InvalidQuery, match="key"):
        options.override(key="a")  # type: ignore[call-arg]


def test_counting_without_a_predicate_looks_at_tails_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting reads only tails. This is also true for a part of a file, and for a scan with a limit."""
    for owner, name in ((FileScan, "stripe_numbers"), (FileEvidence, "pruner")):
        monkeypatch.setattr(owner, name, property(lambda _: pytest.fail("a stripe was read")))
    paths = sorted(map(str, folder.iterdir()))
    assert orcidx.scan(paths, use_threads=False).count_rows() == FILES * ROWS
    assert orcidx.scan(paths, limit=250).count_rows() == 250
    with orcidx.open(paths[0]) as file:
        assert file.scan(selection=[1, 5, 7]).count_rows() == 3
        assert file.scan(row_range=(90, 200)).count_rows() == 10


def test_python_calls_of_a_column(tmp_path: Path) -> None:
    """Counts the calls for each column that is read, and for each column that is not requested."""
    calls = {}
    for columns in (10, 110):
        path = str(tmp_path / f"{columns}.orc")
        orc.write_table(pa.table({f"c{i}": [i, 2, 3] for i in range(columns)}), path, compression="zstd")
        for asked in (None, ["c3"]):
            forget_metadata()
            calls[columns, asked is None] = python_calls(
                lambda path=path, asked=asked: orcidx.scan(path, asked, use_threads=False).to_table()
            )
    assert (calls[110, True] - calls[10, True]) / 100 < 16
    assert (calls[110, False] - calls[10, False]) / 100 < 0.1


def test_python_calls_of_a_stripe_that_takes_readers(tmp_path: Path) -> None:
    """One call decodes a column of 300,000 rows. The lookup of a key reads one of 30 row groups. On Python 3.11 the
    column takes 56 calls in 20 modules, and the lookup 486 calls in 71 modules. Earlier versions took 388 and 1,188
    calls. The limits may only be lowered."""
    path = str(tmp_path / "keys.orc")
    keys = np.random.default_rng(1).integers(0, 1 << 40, 300_000)
    orcidx.write_table(pa.table({"k": keys, "v": keys / 4}), path, compression="zstd")
    while LocalReader(path).identity is None:  # a file that was just written is not cached yet
        time.sleep(0.02)
    with orcidx.open(path) as file:

        def column() -> None:
            assert file.scan(["k"], use_threads=False).to_table().num_rows == 300_000

        def lookup() -> None:
            assert file.scan(where=col("k") == int(keys[123_456]), use_threads=False).to_table().num_rows == 1

        for call, most, modules in ((column, 59, 20), (lookup, 486, 71)):
            call()  # a warm-up that is not counted: imports, and other work that a process does only once
            check_calls(call, most=most, modules=modules)


def test_python_calls_of_a_sum_over_a_range(tmp_path: Path) -> None:
    """The file is sorted, and its metadata is cached. Statistics are evaluated only once, and the file is opened only
    once. One row group at the upper end of the range is decoded. On Python 3.11 the sum takes 473 calls. An earlier
    version took 654 calls."""
    path = str(tmp_path / "sorted.orc")
    numbers = np.arange(300_000)
    orcidx.write_table(pa.table({"t": numbers, "v": numbers % 1000}), path, compression="zstd")
    while LocalReader(path).identity is None:  # a file that was just written is not cached yet
        time.sleep(0.02)

    def total() -> None:
        found = orcidx.aggregate(path, {"s": "sum(v)"}, "t between 20000 and 234567")
        assert found["s"][0].as_py() == int((numbers[20_000:234_568] % 1000).sum())

    total()
    total()  # a second warm-up, because the first call may remove changed options from the cache
    check_calls(total, most=480, modules=63)


def test_a_small_file_is_one_read(folder: Path, tmp_path: Path) -> None:
    batches = orcidx.scan(str(folder / "03.orc"), where=col("key") > 310).to_batches()
    assert sum(batch.num_rows for batch in batches) == 89
    assert (batches.metrics.requests, batches.metrics.bytes_read) == (1, (folder / "03.orc").stat().st_size)
    large = tmp_path / "large.orc"
    orc.write_table(pa.table({"x": list(range(60_000)), "y": [i * 0.37 for i in range(60_000)]}), large)
    assert large.stat().st_size > SMALL_FILE_BYTES
    batches = orcidx.scan(str(large), ["x"]).to_batches()
    assert sum(batch.num_rows for batch in batches) == 60_000
    assert batches.metrics.bytes_read < large.stat().st_size


def test_a_schema_is_planned_once(folder: Path) -> None:
    forget_metadata()
    assert orcidx.scan(folder, where=col("key") >= 0).to_table().num_rows == FILES * ROWS
    made = len(PLANS)
    assert made <= 4, "two plans for the first file alone, and two plans for all files with its schema"
    for path in sorted(folder.iterdir()):
        with orcidx.open(path) as file:
            assert file.read().num_rows == ROWS
    assert len(PLANS) <= made + 2


def test_what_does_not_depend_on_a_predicate_is_planned_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of a schema are mapped once for the rows, and once for the names that a predicate may use. Further
    predicates must not map them again."""
    forget_metadata()
    mapped: list[object] = []
    inner = schema_plan.map_columns
    monkeypatch.setattr(
        schema_plan, "map_columns", lambda *given, **more: mapped.append(given) or inner(*given, **more)
    )
    with orcidx.open(folder / "03.orc") as file:
        for key in range(300, 310):
            assert file.scan(where=col("key") == key).to_table()["key"].to_pylist() == [key]
        assert file.scan(where="key = 301 and price > 0").count_rows() == 1
    assert 0 < len(mapped) <= 4


def test_equal_literals_of_other_types_are_other_questions(folder: Path) -> None:
    """1, 1.0 and True are equal in Python. A plan that is cached for one of these literals must not be used for the
    other two."""
    with orcidx.open(folder / "00.orc") as file:
        assert file.scan(where=col("key") == 1).count_rows() == 1
        with pytest.raises(InvalidQuery):
            file.scan(where=col("key") == True).count_rows()  # noqa: E712
        assert file.scan(where=col("key") == 1.0).count_rows() == 1


def test_an_error_of_the_schema_names_each_file(folder: Path) -> None:
    for path in sorted(folder.iterdir())[:2]:
        with pytest.raises(InvalidQuery, match="nowhere") as caught:
            orcidx.scan(path, ["nowhere"]).to_table()
        assert caught.value.file == str(path)


def test_constants_stay_outside_the_plan(folder: Path, tmp_path: Path) -> None:
    for day in (1, 2, 3):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.orc").write_bytes((folder / "01.orc").read_bytes())
    table = orcidx.scan(tmp_path, ["day", "key"], col("key") == 150, file_path=True).to_table()
    assert table["day"].to_pylist() == [1, 2, 3]
    assert [Path(path).parent.name for path in table["file_path"].to_pylist()] == ["day=1", "day=2", "day=3"]
    assert orcidx.scan(tmp_path, where=col("day") == 2).count_rows() == ROWS


def test_a_damaged_file_behind_sound_ones_of_its_schema(folder: Path, tmp_path: Path) -> None:
    sound = (folder / "00.orc").read_bytes()
    with orcidx.open(folder / "00.orc") as file:
        stripe = file.stripes[0]
    data = stripe.offset + stripe.index_length
    damaged = bytearray(sound)
    damaged[data : data + 32] = b"\xff" * 32
    (tmp_path / "a.orc").write_bytes(sound)
    (tmp_path / "b.orc").write_bytes(bytes(damaged))
    with pytest.raises(CorruptFile) as caught:
        orcidx.scan(tmp_path).to_table()
    assert caught.value.file is not None
    assert caught.value.file.endswith("b.orc")


def test_two_numbers_rule_out_no_row_that_matches(folder: Path) -> None:
    """The file has the keys 100 to 199. Comparisons with keys near the smallest and the largest key are checked against
    a count in Python."""
    key = col("key")
    edges = (99, 100, 101, 198, 199, 200)
    with orcidx.open(folder / "01.orc") as file:
        for edge in edges:
            for where, matches in (
                (key == edge, lambda x, edge=edge: x == edge),
                (key != edge, lambda x, edge=edge: x != edge),
                (key < edge, lambda x, edge=edge: x < edge),
                (key <= edge, lambda x, edge=edge: x <= edge),
                (key > edge, lambda x, edge=edge: x > edge),
                (key >= edge, lambda x, edge=edge: x >= edge),
                (~(key < edge), lambda x, edge=edge: x >= edge),
                (key.is_in([edge, -5, 10_000]), lambda x, edge=edge: x == edge),
                (key.between(edge, 150), lambda x, edge=edge: edge <= x <= 150),
                (key.between(150, edge), lambda x, edge=edge: 150 <= x <= edge),
                ((key < 0) | (key == edge), lambda x, edge=edge: x == edge),
                ((key > 0) & (key < edge), lambda x, edge=edge: x < edge),
            ):
                expected = sum(map(matches, range(100, 200)))
                assert file.scan(where=where).count_rows() == expected, where
                assert file.scan(where=where).to_table().num_rows == expected, where
