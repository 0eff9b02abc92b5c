"""``check_file`` passes valid files. It finds each kind of wrong content, and reports its place."""

from __future__ import annotations

import datetime
import io
import json
import re
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from bad.protobuf_edit import Message

import orcidx
from orcidx.cli import main
from orcidx.inspection import check
from orcidx.inspection.check import check_file
from orcidx.inspection.repair import write_whole
from orcidx.orc.kinds import StreamKind
from orcidx.orc.statistics import stripe_statistics as read
from orcidx.storage import describe_source
from orcidx.storage.local import LocalReader

ROWS, STRIDE = 5000, 1000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    days = rng.integers(-9999, 9999, ROWS).astype("i4")
    return pa.table(
        {
            "id": np.arange(ROWS),
            "v": rng.normal(size=ROWS),
            "n": pa.array(rng.normal(size=ROWS).astype("f4"), mask=rng.random(ROWS) < 0.2),
            "s": [None if i % 11 == 0 else f"name{i % 97}" for i in range(ROWS)],
            "d": pa.array(days).cast(pa.date32()),
            "t": pa.array(rng.integers(-(10**15), 10**15, ROWS), pa.timestamp("us")),
            "z": pa.array(rng.integers(0, 10**15, ROWS), pa.timestamp("us", "UTC")),
            "m": pa.array([Decimal(i - 50).scaleb(-2) for i in range(ROWS)], pa.decimal128(12, 2)),
            "b": pa.array(rng.random(ROWS) < 0.3),
            "l": [None if i % 7 == 0 else list(range(i % 4)) for i in range(ROWS)],
            "k": pa.array([[("a", i)] * (i % 3) for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
            "r": [None if i % 5 == 0 else {"x": i, "y": f"q{i}"} for i in range(ROWS)],
            "nan": pa.array([float("nan") if i % 3 else float(i) for i in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    """Writes an uncompressed file, so that tests can change its bytes in place."""
    path = tmp_path_factory.mktemp("check") / "a.orc"
    orcidx.write_table(
        table,
        path,
        compression="uncompressed",
        row_index_stride=STRIDE,
        stripe_size=200_000,
        bloom_filter_columns=["*"],
    )
    return path


def checked(path):
    return check_file(describe_source(path))


def of(path, column, kind, stripe=0):
    """Returns (offset, length) of a stream."""
    with orcidx.open(path) as file:
        (node,) = [node for node in file.columns if node.dotted == column]
        return file.reader.extents(stripe)[node.id, kind]


def changed(path, tmp_path, offset, new):
    data = bytearray(path.read_bytes())
    data[offset : offset + len(new)] = new
    (tmp_path / "b.orc").write_bytes(data)
    return tmp_path / "b.orc"


@pytest.mark.parametrize("writer", ["orcidx", "pyarrow"])
def test_a_sound_file_passes(path, table, writer, tmp_path):
    if writer == "pyarrow":
        path = tmp_path / "p.orc"
        pyarrow.orc.write_table(
            table, path, row_index_stride=STRIDE, bloom_filter_columns=[1, 2, 4], compression="zstd"
        )
    found = checked(path)
    assert found.problems == ()
    assert (found.rows, found.row_groups) == (ROWS, found.row_groups)
    assert found.row_groups >= ROWS // STRIDE
    assert found.to_dict()["ok"] is True


@pytest.mark.parametrize(
    "name",
    [
        "TestOrcFile.test1.orc",
        "TestOrcFile.testSnappy.orc",
        "TestOrcFile.testUnionAndTimestamp.orc",
        "TestOrcFile.testDate1900.orc",
        "TestOrcFile.testWithoutIndex.orc",
        "TestVectorOrcFile.testLzo.orc",
        "bad_bloom_filter_1.6.0.orc",
        "decimal64_v2.orc",
        "over1k_bloom.orc",
        "orc_split_elim.orc",
        "encrypted/sample1.orc",
    ],
)
def test_files_of_other_writers_pass(golden_orc, name):
    found = checked(golden_orc / name)
    assert found.problems == found.unowned == ()


def test_a_value_that_statistics_and_filters_deny(path, tmp_path):
    offset, _ = of(path, "v", StreamKind.DATA)
    found = checked(changed(path, tmp_path, offset + 8 * (STRIDE + 3), struct.pack("<d", 1e9)))
    kinds = {(problem.what, problem.stripe, problem.row_group, problem.column) for problem in found.problems}
    assert ("statistics", 0, 1, "v") in kinds
    assert ("statistics", 0, None, "v") in kinds
    assert ("statistics", None, None, "v") in kinds
    assert ("bloom filter", 0, 1, "v") in kinds
    assert not found.broken
    assert any("include 1000000000.0" in problem.text for problem in found.problems)


def test_statistics_of_each_stripe_are_compared(path, tmp_path, monkeypatch):
    """The statistics of every stripe are compared, not only those of the first stripe. One call compares the statistics
    of many stripes."""
    calls = []
    monkeypatch.setattr(check, "stripe_statistics", lambda *given, **more: calls.append(more) or read(*given, **more))
    offset, _ = of(path, "v", StreamKind.DATA, stripe=1)
    found = checked(changed(path, tmp_path, offset + 8 * (STRIDE // 2), struct.pack("<d", 1e9)))
    assert found.stripes > 2
    places = {(one.stripe, one.row_group) for one in found.problems if (one.what, one.column) == ("statistics", "v")}
    assert places == {(1, 0), (1, None), (None, None)}
    assert {tuple(more["stripes"]) for more in calls} == {tuple(range(found.stripes))}


def test_a_position_that_leads_elsewhere(path, tmp_path):
    offset, length = of(path, "v", StreamKind.ROW_INDEX)
    index = path.read_bytes()[offset : offset + length]
    at = index.index(b"\x0a\x02\xc0\x3e")  # positions [8000] of the second row group
    found = checked(changed(path, tmp_path, offset + at + 2, b"\xb8\x3e"))
    assert [(one.what, one.row_group, one.column) for one in found.problems] == [("positions", 1, "v")]


def test_a_null_that_nobody_counted(path, tmp_path):
    offset, _ = of(path, "n", StreamKind.PRESENT)
    data = path.read_bytes()
    found = checked(changed(path, tmp_path, offset + 1, bytes([data[offset + 1] ^ 0x80])))
    assert {problem.what for problem in found.problems} & {"statistics", "length", "data"}


def test_data_that_does_not_decode_is_placed_and_the_rest_is_repaired(path, table, tmp_path):
    offset, length = of(path, "s", StreamKind.LENGTH)
    broken = changed(path, tmp_path, offset, b"\xff" * length)
    found = checked(broken)
    assert ("data", "s") in {(problem.what, problem.column) for problem in found.problems}
    assert found.broken
    out = tmp_path / "whole.orc"
    written = write_whole(found, describe_source(broken), out)
    lost = {row for stripe, group in found.broken for row in rows_of(path, stripe, group)}
    assert written.rows == ROWS - len(lost) > 0
    whole = orcidx.read_table(out)
    kept = table.filter(pa.array([row not in lost for row in range(ROWS)]))
    assert whole.cast(kept.schema).drop_columns(["nan"]).equals(kept.drop_columns(["nan"]))
    assert checked(out).ok


def rows_of(path, stripe, group):
    with orcidx.open(path) as file:
        first = sum(one.rows for one in file.stripes[:stripe])
        rows = file.stripes[stripe].rows
    return range(first + group * STRIDE, first + min((group + 1) * STRIDE, rows))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: b"", "empty"),
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: b"PAR1" + bytes(100) + b"PAR1", "Parquet"),
    ],
    ids=["empty", "truncated", "parquet"],
)
def test_what_is_no_whole_file_is_a_problem(path, tmp_path, make, message):
    (tmp_path / "c.orc").write_bytes(make(path.read_bytes()))
    (problem,) = checked(tmp_path / "c.orc").problems
    assert message in problem.text
    with pytest.raises(orcidx.InvalidQuery, match="types of the columns are at the damaged end"):
        write_whole(checked(tmp_path / "c.orc"), describe_source(tmp_path / "c.orc"), tmp_path / "d.orc")
    assert not (tmp_path / "d.orc").exists()


@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "uncompressed"])
def test_a_hole_of_zeros_is_named(tmp_path, compression, capsys):
    """An upload that allocated the file but did not write all bytes leaves a hole of zeros. The message must name the
    hole, not only wrong encodings or chunks."""
    path, noise = tmp_path / "a.orc", np.random.default_rng(3)
    with orcidx.OrcWriter(path, pa.schema({"id": pa.int64()}), compression=compression) as writer:
        for _ in range(3):
            writer.write(pa.table({"id": noise.integers(0, 1 << 60, 8000)}))
            writer.end_stripe()
    data = path.read_bytes()
    with orcidx.open(path) as file:
        second = file.stripes[1]
    over_footer, inside = second.end - 20_480, second.offset + 20_000
    for start, told in (
        (over_footer, "all bytes of the stripe's footer are zeros, probably because a copy"),
        (inside, None),
    ):
        path.write_bytes(data[:start] + bytes(20_480) + data[start + 20_480 :])
        check = checked(path)
        hole = check.problems[-1]
        assert hole.what == "zeros"
        first, last = (int(number.replace(",", "")) for number in re.findall(r"[\d,]{4,}", hole.text))
        assert start <= first < start + 4096
        assert start + 12_288 < last <= start + 20_480
        # If the zeros are in the data (``told`` is None), uncompressed chunks can be decoded, and only the statistics
        # are wrong. Then the first problem is another one.
        if told is not None:
            assert told in check.problems[0].text
            assert write_whole(check, describe_source(path), tmp_path / "b.orc").rows == 16_000
            with pytest.raises(SystemExit) as exit:
                main(["cat", str(path)])
            assert exit.value.code == 3
            assert hole.text in capsys.readouterr().err.replace("; its", "its")
    path.write_bytes(data)
    assert checked(path).ok


def with_stretches(data: bytes, stretches: dict[int, bytes]) -> bytes:
    """Inserts bytes into an uncompressed file. The key in ``stretches`` is the number of the stripe before which the
    bytes are inserted. The number of stripes as key stands for the footer."""
    end = len(data) - 1 - data[-1]
    postscript = Message.parse(data[end:-1])
    start = end - postscript.int(1)
    footer = Message.parse(data[start:end])
    out, at = bytearray(), 0
    for number, record in enumerate(footer.all(3)):
        stripe = Message.parse(record.value)
        place, length = stripe.int(1), sum(stripe.int(one) for one in (2, 3, 4))
        out += data[at:place] + stretches.get(number, b"")
        stripe.set(1, len(out))
        record.value = stripe.to_bytes()
        out += data[place : place + length]
        at = place + length
    out += stretches.get(len(footer.all(3)), b"") + data[at:start]
    raw = footer.to_bytes()
    postscript.set(1, len(raw))
    return bytes(out) + raw + postscript.to_bytes() + data[-1:]


@pytest.mark.parametrize(
    ("stretches", "named"),
    [
        ({}, []),
        ({0: bytes(1 << 20), 1: bytes(5000)}, []),
        ({1: b"x" * 77}, [(1, 77)]),
        ({0: bytes(9000) + b"x", 2: bytes(3)}, [(0, 9001)]),
        ({3: bytes(3)}, [(None, 3)]),
        ({1: b"\1", 3: b"lost"}, [(1, 1), (None, 4)]),
    ],
)
def test_bytes_that_belong_to_nothing_are_named(tmp_path, capsys, stretches, named):
    """Bytes that belong to no stripe are reported. Zeros in front of a stripe are not reported, because they are the
    padding of ORC Java."""
    path = tmp_path / "a.orc"
    with orcidx.OrcWriter(path, pa.schema({"id": pa.int64()}), compression="none") as writer:
        for start in (0, 1000, 2000):
            writer.write(pa.table({"id": range(start, start + 1000)}))
            writer.end_stripe()
    path.write_bytes(with_stretches(path.read_bytes(), stretches))
    assert orcidx.read_table(path)["id"].to_pylist() == list(range(3000))
    found = checked(path)
    assert found.ok, "a remark is no problem"
    assert [(one.stripe, one.length) for one in found.unowned] == named
    with orcidx.open(path) as file:
        places = [one.offset for one in file.stripes]
        last = file.stripes[-1].end
    for one in found.unowned:
        assert one.offset + one.length == (last + one.length if one.stripe is None else places[one.stripe])
    with pytest.raises(SystemExit) as exit:
        main(["check", str(path), "--json"])
    assert exit.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["stripe"], one["length"]) for one in document["unowned"]] == named
    with pytest.raises(SystemExit) as exit:
        main(["check", str(path)])
    assert exit.value.code == 0
    out = capsys.readouterr().out
    assert out.count("remark: ") == len(named)
    assert all(f"{one.length:,} bytes from {one.offset:,} on" in out for one in found.unowned)


def test_repair_keeps_types_and_filters(tmp_path):
    table = pa.table({"c": ["ab", "c"], "when": [datetime.date(2024, 1, 1)] * 2})
    orcidx.write_table(table, tmp_path / "a.orc", types={"c": "varchar(5)"}, bloom_filter_columns=["when"])
    source = describe_source(tmp_path / "a.orc")
    write_whole(check_file(source), source, tmp_path / "b.orc")
    with orcidx.open(tmp_path / "b.orc") as file:
        assert file.orc_schema == "struct<c:varchar(5),when:date>"
        assert file.reader.extents(0).get((2, StreamKind.BLOOM_FILTER_UTF8))


def test_a_stripe_is_read_once_and_decoded_no_more_than_it_needs(table, tmp_path, monkeypatch):
    """The streams of a stripe are read and listed once, not once for each column. A stripe of one row group is opened
    once, because there are no other positions to compare."""
    few = tmp_path / "few.orc"
    with orcidx.OrcWriter(few, table.schema, bloom_filter_columns=["id", "s"]) as writer:
        for start in range(0, 1000, 200):
            writer.write(table.slice(start, 200))
            writer.end_stripe()
    read, opened = [], []
    fetch, column_group = LocalReader._fetch, check.ColumnGroup
    monkeypatch.setattr(LocalReader, "_fetch", lambda self, *place: read.append(place) or fetch(self, *place))
    monkeypatch.setattr(LocalReader, "whole", lambda self: None)
    monkeypatch.setattr(check, "ColumnGroup", lambda *args, **named: opened.append(1) or column_group(*args, **named))
    assert not checked(few).problems
    assert len(opened) == 5 * table.num_columns
    assert len(read) <= 1 + 5 * 3, "the tail, and for each stripe: the footer, the row index, and the whole stripe"


def test_values_that_python_lacks_beside_nan() -> None:
    """``check_file`` compares columns with NaN as Python values. Python has no days after the year 9999, and no structs
    in which two fields have the same name. Earlier, such columns raised Python's errors."""
    days = pa.array([0, 2_932_897, -719_163] * 20, pa.int32()).cast(pa.date32())
    numbers = pa.array([1.0, float("nan"), 2.0] * 20)
    for column in (
        pa.StructArray.from_arrays([days, numbers], names=["d", "f"]),
        pa.StructArray.from_arrays([numbers, numbers], names=["f", "f"]),
        pa.MapArray.from_arrays(range(61), days, numbers),
    ):
        out = io.BytesIO()
        orcidx.write_table(pa.table({"c": column}), out, row_index_stride=10)
        assert check_file(describe_source(out.getvalue())).ok
