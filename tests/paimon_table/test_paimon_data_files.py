"""Data files of appends: the effect of options, and what is refused before anything is written."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_empty import empty_table
from paimon_invariants import check_table
from paimon_soak import rows

import orcidx
from orcidx import CorruptFile, InvalidQuery, OrcidxError, Unsupported, ValueOutOfRange
from orcidx.paimon import open_table
from orcidx.paimon.data_types import DataType
from orcidx.paimon_table.read.parquet_rows import read_parquet
from orcidx.pruning.selection import RowSelection
from orcidx.storage import describe_source


def appended(tmp_path: Path, **options: str) -> orcidx.OrcFile:
    """Appends 5,000 rows to a table with these options, and opens its single data file."""
    folder = empty_table(tmp_path / "t", **options)
    open_table(folder).append(rows(0, 5000))
    check_table(folder)
    (found,) = folder.rglob("data-*.orc")
    return orcidx.open(str(found))


def test_orc_files_are_as_paimon_writes_them(tmp_path: Path) -> None:
    with appended(tmp_path) as file:
        assert file.compression == "ZSTD"
        assert file.tail.postscript.block_size == 256 << 10
        assert [dict(t.attributes).get("paimon.id") for t in file.tail.footer.types] == [None, "0", "1"]
        assert file.tail.footer.row_index_stride == 10_000


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"file__compression": "snappy"}, "SNAPPY"),
        ({"file__compression": "snappy", "orc__compress": "ZLIB"}, "ZLIB"),
        ({"orc__compress": "none"}, "NONE"),
    ],
)
def test_codecs(tmp_path: Path, options: dict[str, str], codec: str) -> None:
    with appended(tmp_path, **options) as file:
        assert file.compression == codec


def test_layout_options_of_orc_are_honoured(tmp_path: Path) -> None:
    given = {"orc__row__index__stride": "1000", "orc__compress__size": "4096", "orc__stripe__size": "8192"}
    blooms = {"orc__bloom__filter__columns": "id, city", "orc__bloom__filter__fpp": "0.05"}
    with appended(tmp_path, **given, **blooms) as file:
        assert file.tail.footer.row_index_stride == 1000
        assert file.tail.postscript.block_size == 4096
        assert len(file.stripes) > 1
        assert "bloom filter" in str(file.scan(["id"], "city = 'city 33'").explain())


def test_no_index_and_dictionaries(tmp_path: Path) -> None:
    with appended(tmp_path, orc__create__index="false", orc__dictionary__key__threshold="0") as file:
        assert file.tail.footer.row_index_stride == 0
        assert len(file.scan().to_table()) == 5000


def test_zstd_levels(tmp_path: Path) -> None:
    sizes = []
    levels = {"file__compression__zstd_level": "19"}, {"orc__compression__zstd__level": "19"}
    for number, options in enumerate(({}, *levels)):
        with appended(tmp_path / str(number), **options) as file:
            sizes.append(sum(stripe.data_length for stripe in file.stripes))
    assert sizes[1] == sizes[2] < sizes[0]


@pytest.mark.parametrize(
    "options",
    [
        {"orc__compress": "lzo"},
        {"orc__row__index__stride": "-1"},
        {"orc__stripe__size": "1"},
        {"orc__compress__size": "much"},
        {"orc__dictionary__key__threshold": "2"},
        {"orc__bloom__filter__columns": "id", "orc__create__index": "false"},
        {"orc__write__format": "0.11"},
        {"orc__bloom__filter__columns": "nobody"},
    ],
)
def test_options_that_cannot_be_honoured_write_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    folder = empty_table(tmp_path / "t", **options)
    with pytest.raises(OrcidxError) as caught:
        open_table(folder).append(rows(0, 10))
    assert isinstance(caught.value, Unsupported | InvalidQuery)
    assert not list(folder.rglob("data-*"))


def test_times_before_1970_with_parts_of_milliseconds(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", {"at": "TIMESTAMP(9)", "clock": "TIME(3)", "fixed": "CHAR(5)"})
    moments = [datetime.datetime(1955, 3, 4, 5, 6, 7, 891_001), datetime.datetime(1969, 12, 31, 23, 59, 58, 999_999)]
    given: dict[str, Any] = {"at": pa.array(moments, pa.timestamp("us")), "fixed": ["a", "b c"]}
    given["clock"] = pa.array([1, 86_399_999], pa.time32("ms"))
    open_table(folder).append(pa.table(given))
    found = open_table(folder).scan().to_table()
    assert found["at"].cast(pa.timestamp("us")).to_pylist() == moments
    assert [text.rstrip() for text in found["fixed"].to_pylist()] == ["a", "b c"]
    assert found["clock"].cast(pa.int32()).to_pylist() == [1, 86_399_999]
    check_table(folder)


@pytest.mark.parametrize("given", [pa.int8(), pa.int64(), pa.uint64()])
def test_integers_are_stored_in_decimals_that_can_hold_them(tmp_path: Path, given: pa.DataType) -> None:
    """Integers are stored if their values fit the column, even if the column cannot hold every integer of their
    type."""
    folder = empty_table(tmp_path / "t", {"price": "DECIMAL(3, 1)"})
    open_table(folder).append(pa.table({"price": pa.array([99, None], given)}))
    assert open_table(folder).scan().to_table()["price"].to_pylist() == [99, None]
    with pytest.raises(ValueOutOfRange, match=r"does not fit DECIMAL\(3, 1\)"):
        open_table(folder).append(pa.table({"price": pa.array([100], given)}))


def test_what_orc_has_no_value_for_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", {"at": "TIMESTAMP(6)"})
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    with pytest.raises(ValueOutOfRange, match="ORC-763"):
        open_table(folder).append(pa.table({"at": pa.array([moment], pa.timestamp("us"))}))
    assert not list(folder.rglob("data-*"))


@pytest.mark.parametrize("bit", [7, 15])
def test_a_parquet_footer_with_names_that_are_no_text_is_damage(tmp_path: Path, bit: int) -> None:
    """The error is ``CorruptFile``, not ``UnicodeDecodeError``. Every bit of three footers was flipped once
    (benchmarks/RECORDS.md), and no flip crashed the process."""
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    at = data.index(b"id", len(data) - 8 - length)
    data[at + bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptFile, match=r"Parquet|lacks"):
        list(read_parquet(describe_source(bytes(data)), {"id": DataType("INT")}, RowSelection.all(10), batch_size=5))


@pytest.mark.slow
def test_every_bit_of_a_parquet_footer(tmp_path: Path) -> None:
    """After any flip, the scan returns all rows or raises ``CorruptFile``. A flip can also give a row group
    a wrong number of rows."""
    pq.write_table(pa.table({"id": range(50)}), tmp_path / "a.parquet", row_group_size=20, store_schema=False)
    good = (tmp_path / "a.parquet").read_bytes()
    length = int.from_bytes(good[-8:-4], "little")
    for bit in range((len(good) - 8 - length) * 8, len(good) * 8):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        try:
            found = list(
                read_parquet(describe_source(bytes(data)), {"id": DataType("INT")}, RowSelection.all(50), batch_size=7)
            )
        except CorruptFile:
            continue
        assert sum(batch.num_rows for batch in found) == 50


def test_a_filter_of_booleans_in_the_options_is_left_out(tmp_path: Path) -> None:
    """Java writes a bloom filter for each named column. orcidx writes no bloom filter for a boolean column, and does
    not refuse the append."""
    columns = {"id": "BIGINT", "flag": "BOOLEAN"}
    folder = empty_table(tmp_path / "t", columns, file__format="orc", orc__bloom__filter__columns="flag,id")
    open_table(folder).append(pa.table({"id": [1, 2], "flag": [True, None]}))
    assert open_table(folder).scan(where="flag AND id = 1").count_rows() == 1


def test_each_column_is_read_in_its_own_unit(tmp_path: Path) -> None:
    """If one column has nanoseconds, only this column is read as nanoseconds. Years after 2262 can still be read from
    the other columns.
    """
    kinds = {"id": "BIGINT", "s": "TIMESTAMP(0)", "us": "TIMESTAMP(6)", "ns": "TIMESTAMP(9)"}
    table = empty_table(tmp_path / "t", kinds, file_index__bloom_filter__columns="us,ns")
    far = pa.array([253_402_300_799_000_001, -60_000_000_000_000_001, None], pa.timestamp("us"))
    given = pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array([253_402_300_799, None, -60_000_000_000], pa.timestamp("s")),
            "us": far,
            "ns": pa.array([1_700_000_000_123_456_789, -1_500_000_001, 0], pa.timestamp("ns")),
        }
    )
    open_table(table).append(given)
    opened = open_table(table)
    assert opened.scan().to_table() == given
    assert opened.scan(where="id = 2").to_table() == given.slice(1, 1)
    moment = far[0].as_py()
    where = (orcidx.col("us") == moment) & orcidx.col("ns").is_not_null()
    assert opened.scan(where=where).to_table() == given.slice(0, 1)
    assert opened.scan(where=where).count_rows() == 1
    assert opened.rewrite_file_index(spec={"bloom-filter": {"us": None, "ns": None}}, only_missing=False).files["done"]
    opened = open_table(table)
    assert opened.scan(where=where).to_table() == given.slice(0, 1)
    assert opened.delete(where).rows == 1
    assert open_table(table).scan().to_table() == given.slice(1)
