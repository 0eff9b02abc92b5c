"""Statistics and positions in written files follow decision 0041. ``ReferenceFile`` reads these files, and uses no code
of orcidx."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from bad.protobuf_edit import Message
from writing.random_tables import random_options, random_table
from writing.reference_file import ReferenceFile
from writing.written_tables import NULLS, table, written

import orcidx
from orcidx import col
from orcidx.orc.kinds import TypeKind
from orcidx.orc_writer.messages import uint
from orcidx.orc_writer.statistics import ColumnSummary, statistics_message
from orcidx.planner import bloom_choice


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_every_type_keeps_the_rules(rng, nulls, codec):
    data = table(rng, 230, nulls, stride=50)
    options = {"compression": codec, "compression_block_size": 1024, "stripe_size": 1 << 16, "row_index_stride": 50}
    ReferenceFile(written(data, **options, bloom_filter_columns=["*"])).check()
    ReferenceFile(written(data, **options, dictionary_key_size_threshold=1)).check()


@pytest.mark.parametrize("number", range(12))
def test_random_tables_keep_the_rules(number):
    rng = np.random.default_rng([31, number])
    data = random_table(rng, int(rng.integers(0, 400)), 3)
    ReferenceFile(written(data, **random_options(rng, data))).check()


def entries(array: pa.Array, **options: object) -> list[Message]:
    """Returns the row-group statistics of a file with this column."""
    return [message for _, message in ReferenceFile(written(pa.table({"c": array}), **options)).stripes[0].entries[1]]


def typed(message: Message, number: int) -> Message:
    return Message.parse(message.all(number)[0].value)


def doubles(message: Message) -> tuple[float, ...]:
    inner = typed(message, 3)
    return tuple(struct.unpack("<d", inner.all(number)[0].value)[0] for number in (1, 2, 3))


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
def test_nan_and_zeros(width):
    nan = math.nan
    groups = [[nan, 1.0], [1.0, nan], [nan, nan], [0.0, -0.0], [-0.0, -0.0], [0.0, 5.0], [-3.0, 0.0], [-math.inf, nan]]
    values = pa.array([number for group in groups for number in group], width)
    found = [doubles(one) for one in entries(values, row_index_stride=2)]
    inf = math.inf
    expected = [(1.0, inf), (1.0, inf), (-inf, inf), (-0.0, 0.0), (-0.0, 0.0), (-0.0, 5.0), (-3.0, 0.0), (-inf, inf)]
    assert [str(one[:2]) for one in found] == [str(one) for one in expected]
    assert [math.isnan(one[2]) for one in found] == [True, True, True, False, False, False, False, True]
    whole = ReferenceFile(written(pa.table({"c": values}), row_index_stride=2)).statistics[1]
    assert str(doubles(whole)) == str((-inf, inf, nan))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_negative_milliseconds_are_lowered_to_the_second(unit):
    """ORC C++ divides negative milliseconds towards zero, so it would take the minimum for a later time. Therefore the
    writer lowers the minimum to a full second. The maximum is not changed."""
    per = {"ms": 1, "us": 1000, "ns": 10**6}[unit]
    message = entries(pa.array([-1500 * per, -2100 * per], pa.int64()).cast(pa.timestamp(unit)))[0]
    inner = typed(message, 9)
    assert [unzigzag(inner.int(number)) for number in (3, 4)] == [-3000, -1500]
    exact = typed(entries(pa.array([1500 * per + per - 1], pa.int64()).cast(pa.timestamp(unit)))[0], 9)
    assert [unzigzag(exact.int(number)) for number in (3, 4)] == [1500, 1500]
    assert exact.int(6) == {"ms": 1, "us": 999_001, "ns": 0}[unit]  # a missing field means that all digits are 9


def unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def test_a_null_struct_is_a_null_of_what_is_below():
    """A null struct is also counted as a null of its children, because Spark 4.3 uses the child's statistics for ``x.z
    IS NULL``."""
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4])], ["z"])
    outer = pa.StructArray.from_arrays([inner], ["y"], mask=pa.array([False, True, False, False]))
    file = ReferenceFile(written(pa.table({"x": outer}), row_index_stride=2))
    told = [[message.int(10) for _, message in file.stripes[0].entries[column]] for column in (1, 2, 3)]
    assert told == [[1, 0], [1, 0], [1, 0]]
    assert [message.int(10) for message in file.statistics] == [0, 1, 1, 1]
    assert file.statistics[3].int(1) == 3


def test_groups_without_values_have_nulls_and_no_bounds():
    for type_, number in ((pa.int64(), 2), (pa.string(), 4), (pa.float64(), 3), (pa.timestamp("us"), 9)):
        message = entries(pa.array([None, None], type_))[0]
        assert (message.int(1), message.int(10)) == (0, 1)
        assert not typed(message, number).all(1)
    # The child has no rows, so it has no nulls. But its ``has_null`` is true, because Java would otherwise skip the row
    # group (ORC-1553).
    file = ReferenceFile(written(pa.table({"l": pa.array([[], []], pa.list_(pa.int64()))})))
    assert [message.int(10) for message in file.statistics] == [0, 0, 1]


LONG = "x" * 1024


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (["b", "a"], {1: b"a", 2: b"b"}),
        ([LONG], {1: LONG.encode(), 2: LONG.encode()}),
        ([LONG + "a", "y"], {4: LONG.encode(), 2: b"y"}),
        (["a", LONG + "a"], {1: b"a", 5: (LONG[:-1] + "y").encode()}),
        (["a", "é" * 600], {1: b"a", 5: ("é" * 511 + "ê").encode()}),
        (["a", "\ud7ff" * 400], {1: b"a", 5: ("\ud7ff" * 340 + "\ue000").encode()}),
        (["a", "b" + "\U0010ffff" * 300], {1: b"a", 5: b"c"}),
        (["a", "\U0010ffff" * 300], {}),
        # An exact bound has priority over an equal truncated bound, because Java treats truncated bounds as exclusive.
        ([LONG, LONG + "a"], {1: LONG.encode(), 5: (LONG[:-1] + "y").encode()}),
    ],
)
def test_bounds_of_long_texts(values, fields):
    message = entries(pa.array(values))[0]
    if not fields:
        assert not message.all(4)
        return
    inner = typed(message, 4)
    assert {item.number: item.value for item in inner.fields if item.number != 3} == fields
    assert unzigzag(inner.int(3)) == sum(len(value.encode()) for value in values)


def test_sums_that_overflow_are_left_out():
    big = 2**62
    assert unzigzag(typed(entries(pa.array([big, big - 1]))[0], 2).int(3)) == 2**63 - 1
    inner = typed(entries(pa.array([big, big]))[0], 2)
    assert not inner.all(3)
    assert unzigzag(inner.int(2)) == big
    # Partial sums overflow, but the total does not.
    assert unzigzag(typed(entries(pa.array([big, big, -big, -big, 7]))[0], 2).int(3)) == 7
    most = Decimal(10**38 - 1)
    assert typed(entries(pa.array([most, most.copy_negate()], pa.decimal128(38, 0)))[0], 6).all(3)[0].value == b"0"
    assert not typed(entries(pa.array([most, most], pa.decimal128(38, 0)))[0], 6).all(3)


def edges_of_the_scan() -> dict[str, np.ndarray]:
    """Returns blocks of integers whose sums or differences are just below or just above the limit of 64 bits."""
    ramp, least, greatest = np.arange(512), -(2**63), 2**63 - 1
    found: dict[str, np.ndarray] = {}
    for bits in (53, 54, 55, 61, 62):
        for sign in (1, -1):
            top = sign * (2**bits - 1)
            found[f"all {top}, the last one less"] = np.append(np.full(511, top), top - sign)
            found[f"all {top + sign}, the last one more"] = np.append(np.full(511, top + sign), top)
            found[f"rising to {top}"] = top - 511 + ramp
            found[f"falling from {top}"] = top - ramp
    found["a step that overflows and seems to rise"] = np.array([greatest, least, least + 5])
    found["a step that overflows and seems to fall"] = np.array([least, greatest, greatest - 5])
    found["a first step that overflows and seems to rise"] = np.array([greatest, -5, -4])
    found["a first step that overflows and seems to fall"] = np.array([least, 5, 4])
    found["falling, and once up"] = np.concatenate([-ramp[:255], [3], -ramp[256:]])
    found["the least value in the second half"] = np.where(ramp == 400, -7, ramp % 5)
    found["the greatest value last"] = np.where(ramp == 511, 700, -(ramp % 5))
    return found


@pytest.mark.parametrize("name", edges_of_the_scan())
def test_integers_at_the_edges_of_the_scan(name: str) -> None:
    values = edges_of_the_scan()[name]
    for part in (values, values[1:], values[::-1], values[:2]):
        inner = typed(entries(pa.array(part))[0], 2)
        assert (unzigzag(inner.int(1)), unzigzag(inner.int(2))) == (part.min(), part.max())
        total = sum(part.tolist())
        if -(2**63) <= total < 2**63:
            assert unzigzag(inner.int(3)) == total
        else:
            assert not inner.all(3)
        assert orcidx.open(written(pa.table({"a": part}))).scan().to_table()["a"].to_pylist() == part.tolist()


def test_decimals_are_plain_and_without_zeros():
    values = [Decimal("12.30"), Decimal("-1.00"), Decimal("0.00")]
    inner = typed(entries(pa.array(values, pa.decimal128(20, 2)))[0], 6)
    assert [inner.all(number)[0].value for number in (1, 2, 3)] == [b"-1", b"12.3", b"11.3"]
    thousands = typed(entries(pa.array([Decimal(3000)], pa.decimal128(20, 0)))[0], 6)
    assert thousands.all(1)[0].value == b"3000"


def test_lists_count_the_children_of_rows_that_are_there():
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 5, 5]), pa.array([1, 2, 3, 4, 5]), mask=pa.array([0, 1, 0]).cast(pa.bool_())
    )
    inner = typed(entries(array)[0], 12)
    assert [inner.int(number) for number in (1, 2, 3)] == [0, 2, 2]


BLOOMED = {
    "byte": lambda n: pa.array((np.arange(n) % 256 - 128).astype(np.int8)),
    "short": lambda n: pa.array((np.arange(n) * 7 % 65536 - 32768).astype(np.int16)),
    "int": lambda n: pa.array((np.arange(n) * 7919).astype(np.int32)),
    "long": lambda n: pa.array(np.arange(n) * 7919),
    "float": lambda n: pa.array(np.arange(n).astype(np.float32) / 8),
    "double": lambda n: pa.array(np.arange(n) / 7),
    "string": lambda n: pa.array([f"text {i}" for i in range(n)]),
    "char": lambda n: pa.array([f"t{i}" for i in range(n)]),
    "varchar": lambda n: pa.array([f"v{i}" for i in range(n)]),
    "binary": lambda n: pa.array([b"%d" % i for i in range(n)]),
    "date": lambda n: pa.array(np.arange(n).astype(np.int32)).cast(pa.date32()),
    "decimal": lambda n: pa.array([Decimal(i).scaleb(-2) for i in range(n)], pa.decimal128(20, 2)),
    "time": lambda n: pa.array(np.arange(n) * 1000 - 86_400_000).cast(pa.timestamp("ms")),
    "instant": lambda n: pa.array(np.arange(n) * 1_001_000).cast(pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("name", BLOOMED)
def test_own_blooms_rule_out_row_groups_of_each_type(rng, name):
    """For each type, stored values are looked up. They are in random order, so the minimum and maximum of a row group
    exclude few row groups. Bloom filters exclude most of them."""
    groups, each = 20, 50
    array = BLOOMED[name](groups * each // (8 if name == "byte" else 1))
    picks = rng.permutation(len(array)) if name != "byte" else rng.integers(0, len(array), groups * each)
    array = array.take(pa.array(picks))
    options = {"types": {name: "char(6)" if name == "char" else "varchar(9)"}} if name in ("char", "varchar") else {}
    data = written(
        pa.table({name: array}), row_index_stride=each, bloom_filter_columns=[name], bloom_filter_fpp=0.001, **options
    )
    ruled_out = 0
    with orcidx.open(data) as file, mock.patch.object(bloom_choice, "BLOOM_SHARE", float("inf")):
        for row in rng.integers(0, len(array), 5).tolist():
            value = array[row].as_py()
            scan = file.scan(where=col(name) == value)
            assert scan.to_table().num_rows == array.to_pylist().count(value)
            ruled_out += scan.explain().skipped_by.get("bloom filter", 0)
    # ``ruled_out`` counts rows. Bounds also rule out some row groups, whose rows are not counted here.
    assert ruled_out > 5 * groups * each * (0.4 if name == "byte" else 0.6), ruled_out


def test_timestamps_beyond_64_bit_milliseconds_have_no_bounds():
    for bounds in ((-9_300_000_000_000_000, 5), (5, 9_300_000_000_000_000), (9_300_000_000_000_000,) * 2):
        summary = ColumnSummary(2, False, bounds)
        assert statistics_message(summary, TypeKind.TIMESTAMP, unit="s") == uint(1, 2) + uint(10, False)
