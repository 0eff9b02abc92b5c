"""Corner cases of reading: unusual types and stripes, projection of nested fields, batches limited by bytes,
encryption, and threads."""

import io
import multiprocessing
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import orc_messages as orc
import pyarrow as pa
import pyarrow.orc
import pytest
from columns.raw_column import DATA, LENGTH, PRESENT, file_of, single
from streams.encoders import direct, encode_bits, fixed_delta

import orcidx
from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.columns.base import ColumnReader
from orcidx.storage import open_reader
from orcidx.storage.recording import RecordingReader

pyorc = pytest.importorskip("pyorc")


def signed(*numbers: int) -> bytes:
    return direct(numbers, signed=True).data


def unsigned(*numbers: int) -> bytes:
    return direct(numbers, signed=False).data


def rows(data: bytes, **options: object) -> list[object]:
    with orcidx.open(data) as file:
        return file.read(**options).to_pylist()


# --- types and stripes ------------------------------------------------------------------------------------------------


def test_stripes_without_rows_need_no_streams() -> None:
    types = [orc.type_message("struct", [1], ["c"]), orc.type_message("bigint")]
    assert rows(file_of(types, [], 0, stripes=3)) == []
    with orcidx.open(file_of(types, [], 0)) as file:
        assert file.read().schema == pa.schema([("c", pa.int64())])


def test_a_struct_without_fields_has_rows() -> None:
    data = file_of([orc.type_message("struct")], [], 70_000, stripes=2)
    with orcidx.open(data) as file:
        table = file.read()
        assert (table.num_rows, table.num_columns) == (140_000, 0)
        assert file.scan().count_rows() == 140_000
        assert max(batch.num_rows for batch in file.scan(batch_size=1000)) == 1000


def test_a_top_level_primitive_is_one_unnamed_column() -> None:
    data = file_of([orc.type_message("bigint")], [(0, DATA, signed(4, 5))], 2, encodings={0: orc.uint(1, 2)})
    assert rows(data) == [{"": 4}, {"": 5}]
    with_null = [(0, PRESENT, encode_bits([True, False, True]).data), (0, DATA, signed(4, 5))]
    data = file_of([orc.type_message("bigint")], with_null, 3, encodings={0: orc.uint(1, 2)})
    assert rows(data) == [{"": 4}, {"": None}, {"": 5}]
    assert rows(data, row_range=(1, 3)) == [{"": None}, {"": 5}]


def test_a_top_level_list() -> None:
    types = [orc.type_message("list", [1]), orc.type_message("bigint")]
    streams = [(0, LENGTH, unsigned(2, 0, 1)), (1, DATA, signed(4, 5, 6))]
    assert rows(file_of(types, streams, 3, encodings={0: orc.uint(1, 2)})) == [{"": [4, 5]}, {"": []}, {"": [6]}]


def test_names_that_repeat_differ_in_case_or_are_empty() -> None:
    names = ["a", "a", "A", "a.b", ""]
    types = [orc.type_message("struct", range(1, 6), names), *[orc.type_message("bigint")] * 5]
    data = file_of(types, [(column, DATA, signed(column)) for column in range(1, 6)], 1)
    with orcidx.open(data) as file:
        table = file.read()
        assert table.schema.names == names
        assert [column.to_pylist() for column in table.columns] == [[1], [2], [3], [4], [5]]
        assert [column.to_pylist() for column in file.read(["a"]).columns] == [[1], [2]]
        assert file.read(["a.b", "A"]).to_pylist() == [{"a.b": 4, "A": 3}]


def test_streams_of_unknown_kind_are_passed_over() -> None:
    content = signed(7, 8)
    footer = orc.stripe_footer([(77, 1, 5), (1, 1, len(content))], [orc.uint(1, 0), orc.uint(1, 2)])
    types = [orc.type_message("struct", [1], ["c"]), orc.type_message("bigint")]
    assert rows(orc.orc_file(types, stripes=[(b"12345" + content, footer, 2)])) == [{"c": 7}, {"c": 8}]


def test_a_geometry_is_binary() -> None:
    for kind in ("geometry", "geography"):
        assert rows(single(kind, [(DATA, b"\x01\x02"), (LENGTH, unsigned(2))], 1)) == [{"c": b"\x01\x02"}]


def test_timestamp_ntz_of_spark_is_a_bigint_of_microseconds() -> None:
    attribute = orc.blob(7, orc.blob(1, "spark.sql.catalyst.type") + orc.blob(2, "timestamp_ntz"))
    types = [orc.type_message("struct", [1], ["c"]), orc.type_message("bigint") + attribute]
    data = file_of(types, [(1, DATA, signed(-1))], 1)
    with orcidx.open(data) as file:
        assert file.read().column("c").type == pa.timestamp("us")
        assert file.read().column("c").cast("int64").to_pylist() == [-1]
        assert file.read(timestamp_ntz=False).column("c").type == pa.int64()


def test_more_rows_than_values() -> None:
    data = single("bigint", [(DATA, signed(1, 2))], 3)
    with pytest.raises(CorruptFile) as caught:
        rows(data)
    error = caught.value
    assert (error.stripe, error.row_group, error.column, error.stream) == (0, 0, "c", "DATA")
    assert "ends before its values do" in str(error)


def test_a_few_bytes_that_claim_billions_of_rows() -> None:
    """The claimed number of rows is valid. The file is read batch by batch, until its data ends."""
    data = single("bigint", [(DATA, fixed_delta(7, 0, 512, signed=True).data * 200)], 1 << 40)
    with orcidx.open(data) as file:
        batches = iter(file.scan(batch_size=1000))
        assert next(batches).num_rows == 1000
        with pytest.raises(CorruptFile):
            list(batches)


@pytest.mark.parametrize("stride", [(1 << 63) - 1, (1 << 64) - 1, 1])
def test_absurd_row_index_strides(stride: int) -> None:
    data = single("bigint", [(DATA, signed(1, 2))], 2, stripes=2, footer_fields=orc.uint(8, stride))
    with orcidx.open(data) as file:
        assert file.read(where="c = 2").num_rows == 2
        assert file.read(row_range=(3, 4)).to_pylist() == [{"c": 2}]
        assert str(file.scan(where="c = 2", stripes=[0]).explain())


# --- projection of nested fields --------------------------------------------------------------------------------------

PAIR = "struct<x:bigint,y:string>"
NESTED = f"struct<a:{PAIR},l:array<{PAIR}>,m:map<string,{PAIR}>>"


def nested_file() -> bytes:
    out = io.BytesIO()
    with pyorc.Writer(out, NESTED, compression=pyorc.CompressionKind.NONE, row_index_stride=0) as writer:
        for i in range(2000):
            pair = (i * 7919 % 1000, str(i * 7919) * 3)
            writer.write((pair, [pair, pair], {"k" * (i % 9): pair}))
    return out.getvalue()


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("a.x", {1, 2}),
        ("l.item.y", {4, 5, 7}),
        ("m.value.x", {8, 9, 10, 11}),
        ("m.key", {8, 9, 10, 11, 12}),
        ("a", {1, 2, 3}),
    ],
)
def test_only_the_bytes_of_the_fields_asked_for_are_read(path: str, ids: set[int]) -> None:
    data = nested_file()
    reader = RecordingReader(open_reader(data))
    with orcidx.open(reader) as file:
        file.read([path])
        read = {place for start, length in reader.ranges for place in range(start, start + length)}
        extents = file._reader.extents(0)
        footer = file._reader.footer_range(0)
    wanted = [extent for (column, kind), extent in extents.items() if column in ids and kind not in (6, 7, 8)]
    assert read <= {place for start, length in [*wanted, footer] for place in range(start, start + length)}
    assert len(read) > 1000


def test_a_nested_projection_reads_like_the_whole() -> None:
    with orcidx.open(nested_file()) as file:
        whole = file.read().to_pylist()
        assert file.read(["a.x"]).to_pylist() == [{"a": {"x": row["a"]["x"]}} for row in whole]
        assert file.read(["l.item.y"]).to_pylist() == [{"l": [{"y": item["y"]} for item in row["l"]]} for row in whole]
        assert file.read(["m.value.x"]).to_pylist() == [
            {"m": [(key, {"x": value["x"]}) for key, value in row["m"]]} for row in whole
        ]


# --- batches limited by bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [0, 100])
@pytest.mark.parametrize("dictionary", [False, True])
def test_batches_are_cut_by_bytes(stride: int, dictionary: bool) -> None:
    values = [None if i % 50 == 3 else "x" * (i % 10) if i % 300 else "y" * 9000 for i in range(2000)]
    out = io.BytesIO()
    with pyorc.Writer(
        out, "struct<s:string,n:bigint>", row_index_stride=stride, dict_key_size_threshold=float(dictionary)
    ) as writer:
        for i, value in enumerate(values):
            writer.write((value, i))
    expected = pa.table({"s": values, "n": pa.array(range(2000), pa.int64())})
    with orcidx.open(out.getvalue()) as file:
        for where in (None, "n >= 0", "s IS NOT NULL", "n NOT IN (350, 351, 1150)", "n IN (3, 300, 301, 1999)"):
            batches = list(file.scan(where=where, batch_bytes=4000))
            assert len(batches) > 1 or where == "n IN (3, 300, 301, 1999)"
            whole = file.read(where=where)
            assert pa.Table.from_batches(batches).equals(whole)
        assert file.read(batch_bytes=4000).equals(expected)
        sizes = [len("".join(filter(None, batch["s"].to_pylist()))) for batch in file.scan(batch_bytes=4000)]
        assert sum(size > 9000 for size in sizes) <= 7
        assert max(sizes) < 13_000  # a batch may have one value of 9,000 bytes and 4,000 bytes of other values


def test_lists_beyond_the_bound_are_cut_too() -> None:
    table = pa.table({"l": [list(range(i % 100)) for i in range(500)]})
    pa.orc.write_table(table, out := io.BytesIO())
    with orcidx.open(out.getvalue()) as file:
        batches = list(file.scan(batch_bytes=2000))
        assert len(batches) > 50
        assert pa.Table.from_batches(batches).equals(table)


# --- encryption -------------------------------------------------------------------------------------------------------


def test_encrypted_columns_come_masked_or_raise(golden_orc: Path) -> None:
    with orcidx.open(golden_orc / "encrypted" / "sample1.orc") as file:
        masked = file.read()
        assert masked.num_rows == file.num_rows
        with pytest.raises(Unsupported, match="encrypted") as caught:
            file.read(encrypted="error")
        assert caught.value.column == "ssn"
        assert "pii" in str(caught.value)
        assert file.read(["name"], encrypted="error").equals(masked.select(["name"]))
        with pytest.raises(Unsupported, match="encrypted"):
            file.read(["name"], where="ssn IS NULL", encrypted="error")


# --- threads ----------------------------------------------------------------------------------------------------------


def wide_file(rows: int = 20_000) -> tuple[bytes, pa.Table]:
    rng = np.random.default_rng(5)
    columns = {f"i{n}": rng.integers(0, 1 << (8 * n + 8), rows) for n in range(5)}
    columns |= {f"s{n}": pa.array(rng.integers(0, 10 ** (n + 1), rows)).cast(pa.string()) for n in range(3)}
    columns["t"] = pa.array(rng.integers(0, 10**18, rows), pa.timestamp("ns"))
    columns["d"] = pa.array(rng.integers(0, 10**9, rows)).cast(pa.decimal128(20, 0))
    table = pa.table(columns)
    pa.orc.write_table(table, out := io.BytesIO(), compression="zstd")
    return out.getvalue(), table


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data, table = wide_file()
    monkeypatch.setattr(pa, "cpu_count", lambda: 4)
    with orcidx.open(data) as file:
        for options in ({}, {"batch_size": 777}, {"where": "i2 > 5000000"}, {"batch_bytes": 20_000}):
            alone = list(file.scan(**options, use_threads=False))
            together = list(file.scan(**options, use_threads=True))
            assert [batch.num_rows for batch in alone] == [batch.num_rows for batch in together]
            assert pa.Table.from_batches(alone).equals(pa.Table.from_batches(together))
        assert file.read(use_threads=True).equals(table)


def test_errors_are_the_same_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 4)
    types = [orc.type_message("struct", range(1, 5), "abcd"), *[orc.type_message("bigint")] * 4]
    whole = fixed_delta(0, 1, 512, signed=True).data * 8
    data = file_of(types, [(1, DATA, whole), (2, DATA, whole[:-4]), (3, DATA, whole), (4, DATA, b"")], 4096)
    messages = set()
    for use_threads in (False, True):
        with pytest.raises(CorruptFile) as caught:
            rows(data, use_threads=use_threads)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_one_thread_inside_a_spark_task(monkeypatch: pytest.MonkeyPatch) -> None:
    data, table = wide_file(70_000)  # so many rows, because a smaller stripe in memory is read by one thread
    monkeypatch.setattr(pa, "cpu_count", lambda: 4)
    used: set[str] = set()
    others = threading.Event()
    alone, reads = False, 0
    read = ColumnReader.read

    def noted(self: ColumnReader, *args: object) -> pa.Array:
        nonlocal reads
        used.add(threading.current_thread().name)
        if threading.current_thread() is not threading.main_thread():
            others.set()
        elif not alone and reads >= table.num_columns:  # the first batch is read by the calling thread alone
            others.wait(5)  # without this wait, this thread may read all columns before other threads start
        reads += 1
        return read(self, *args)

    monkeypatch.setattr(ColumnReader, "read", noted)
    with orcidx.open(data) as file:
        assert file.read().equals(table)
        assert len(used) > 1
        for task in (None, object()):
            used.clear()
            others.clear()
            alone, reads = task is not None, 0
            context = SimpleNamespace(TaskContext=SimpleNamespace(get=lambda task=task: task))
            monkeypatch.setitem(sys.modules, "pyspark.taskcontext", context)
            assert file.read().equals(table)
            assert (len(used) == 1) == alone


def _sum_in_child(data: bytes, answers: "multiprocessing.SimpleQueue[int]") -> None:
    pa.cpu_count = lambda: 4
    with orcidx.open(data) as file:
        answers.put(sum(file.read(["i3", "i2"]).column("i3").to_pylist()))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_decoding_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent process has a pool of threads. These threads do not exist in the child process, so the child must make
    its own pool.
    """
    data, table = wide_file()
    monkeypatch.setattr(pa, "cpu_count", lambda: 4)
    with orcidx.open(data) as file:
        half = iter(file.scan(batch_size=1000))
        next(half)
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        child = context.Process(target=_sum_in_child, args=(data, answers))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert answers.get() == sum(table.column("i3").to_pylist())
        assert sum(batch.num_rows for batch in half) == table.num_rows - 1000
