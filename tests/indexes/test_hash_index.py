"""The dynamic-bucket hash index: key hashes of every type, files and bucket assignment are compared with Java's."""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from binary_row_reference import binary_row, murmur
from goldens import GOLDEN_PAIMON, roots
from hypothesis import given, settings
from hypothesis import strategies as st

from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import DataType, parse_type
from orcidx.paimon.hash_index import BucketAssigner, HashIndex, bucket_of_hash, key_hash

NANOS = pa.decimal128(38, 0)


def arrow_key(text: str, values: list[Any]) -> pa.Array:
    """Returns an Arrow array of values that have the form of ``binary_row_reference``."""
    kind = parse_type(text)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        nanos = [None if value is None else value[0] * 1_000_000 + value[1] for value in values]
        return timestamps(kind, nanos)
    if kind.root == "DECIMAL":
        with decimal.localcontext(prec=60):
            scaled = [None if value is None else decimal.Decimal(value).scaleb(-kind.scale) for value in values]
        return pa.array(scaled, kind.arrow_type)
    if kind.root == "DATE":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if kind.root == "TIME":
        return pa.array(values, pa.int32()).cast(pa.time32("ms"))
    return pa.array(values, kind.arrow_type)


def timestamps(kind: DataType, nanos: list[int | None]) -> pa.Array:
    """Converts nanoseconds to the type's unit, or to decimals if the values do not fit int64 nanoseconds."""
    per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.arrow_type.unit]
    if any(value is not None and not -(2**63) <= value // per_unit < 2**63 for value in nanos):
        return pa.array([None if value is None else decimal.Decimal(value) for value in nanos], NANOS)
    return pa.array([None if value is None else value // per_unit for value in nanos], pa.int64()).cast(kind.arrow_type)


def golden_value(text: str, value: Any) -> Any:
    root = parse_type(text).root
    if value is None:
        return None
    if root in ("FLOAT", "DOUBLE"):
        return struct.unpack(">f" if root == "FLOAT" else ">d", bytes.fromhex(value))[0]
    if root in ("BINARY", "VARBINARY"):
        return bytes.fromhex(value)
    return int(value) if root == "DECIMAL" else value


def batch_of(types: list[str], rows: list[list[Any]]) -> pa.RecordBatch:
    columns = [arrow_key(text, [row[i] for row in rows]) for i, text in enumerate(types)]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, [f"k{i}" for i in range(len(types))])


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_hashes_of_java_keys(root: Path) -> None:
    by_types: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for key in json.loads((root / "hash" / "key_hashes.json").read_text())["keys"]:
        by_types.setdefault(tuple(key["types"]), []).append(key)
    for types, keys in by_types.items():
        rows = [[golden_value(text, value) for text, value in zip(types, key["values"])] for key in keys]
        hashes = key_hash(batch_of(list(types), rows), types)
        assert hashes.dtype == np.int32
        assert hashes.tolist() == [key["hash"] for key in keys], types
        assert bucket_of_hash(hashes, 5).tolist() == [key["bucket_5"] for key in keys]
        assert bucket_of_hash(hashes, 128).tolist() == [key["bucket_128"] for key in keys]
        for row, key in zip(rows, keys):
            assert binary_row(list(types), row).hex() == key["row_hex"]


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "STRING": st.text(max_size=40),
    "CHAR(3)": st.text(max_size=3),
    "BYTES": st.binary(max_size=40),
    "DECIMAL(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1),
    "DECIMAL(18, 0)": st.integers(-(10**18) + 1, 10**18 - 1),
    "DECIMAL(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-70000, 70000),
    "TIMESTAMP(0)": st.tuples(st.integers(-(10**9), 10**9).map(lambda s: s * 1000), st.just(0)),
    "TIMESTAMP(3)": st.tuples(st.integers(-(10**15), 10**15), st.just(0)),
    "TIMESTAMP(6)": st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 999).map(lambda us: us * 1000)),
    "TIMESTAMP(9)": st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 999_999)),
    "TIMESTAMP_LTZ(9)": st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 999_999)),
}


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6))
    if draw(st.booleans()):
        types = types * draw(st.integers(9, 25))  # so many types need more than one word of null bits
    row = st.tuples(*(st.none() | VALUES[text] for text in types)).map(list)
    return types, draw(st.lists(row, max_size=3))


@settings(max_examples=60, deadline=None)
@given(keys(), st.integers(0, 2))
def test_key_hash_is_the_murmur_hash_of_the_row(drawn: tuple[list[str], list[list[Any]]], skip: int) -> None:
    types, rows = drawn
    expected = [murmur(binary_row(types, row)) for row in rows]
    batch = batch_of(types, rows)
    assert key_hash(batch, types).tolist() == expected
    assert key_hash(batch.slice(skip), types).tolist() == expected[skip:]


def test_forms_of_arrow_values() -> None:
    text = pa.array(["a", None, "longer than seven"])
    expected = key_hash(pa.record_batch([text], ["k"]), ["STRING"]).tolist()
    for arrow in (pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string())):
        assert key_hash(pa.record_batch([text.cast(arrow)], ["k"]), ["STRING"]).tolist() == expected
    table = pa.table({"k": pa.chunked_array([text.slice(0, 1), text.slice(1)])})
    assert key_hash(table, ["STRING"]).tolist() == expected
    empty = pa.table({"k": pa.chunked_array([], pa.string())})
    assert key_hash(empty, ["STRING"]).tolist() == []
    noon = pa.array([datetime.time(12, 0, 0, 1999)], pa.time64("us"))
    wanted = [murmur(binary_row(["TIME(3)"], [43_200_001]))]
    for form in (noon, pa.array([43_200_001], pa.int32())):
        assert key_hash(pa.record_batch([form], ["k"]), ["TIME(3)"]).tolist() == wanted
    fixed = pa.array([b"1234"], pa.binary(4))
    assert key_hash(pa.record_batch([fixed], ["k"]), ["BINARY(4)"])[0] == murmur(binary_row(["BYTES"], [b"1234"]))


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array(["a"]), "INT"),
        (pa.array([300]), "TINYINT"),
        (pa.array([1]), "STRING"),
        (pa.array([0], pa.timestamp("ms")), "TIMESTAMP_LTZ(3)"),
        (pa.array([0], pa.timestamp("ms", "UTC")), "TIMESTAMP(3)"),
        (pa.array([2**62], pa.timestamp("s")), "TIMESTAMP(3)"),
        (pa.array([decimal.Decimal("1.23")]), "DECIMAL(5, 1)"),
        (pa.array([decimal.Decimal(10**37)], NANOS), "TIMESTAMP(9)"),
        (pa.array([[1]]), "ARRAY<INT>"),
        (pa.array([1]), "INTT"),
    ],
)
def test_values_that_are_no_key_of_the_type(array: pa.Array, text: str) -> None:
    with pytest.raises(InvalidQuery):
        key_hash(pa.record_batch([array], ["k"]), [text])


def test_as_many_types_as_columns() -> None:
    with pytest.raises(InvalidQuery, match="keys has 1 columns, but key_types has 2 types"):
        key_hash(pa.record_batch([pa.array([1])], ["k"]), ["INT", "INT"])


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_files(root: Path) -> None:
    for file in json.loads((root / "hash" / "files.json").read_text())["files"]:
        path = root / "hash" / file["file"]
        if not path.exists():
            continue
        index = HashIndex.from_bytes(path.read_bytes())
        if "hashes" in file and file["file"] == "fastutil_order.bin":
            assert sorted(index) == sorted(file["hashes"])
        elif "hashes" in file:
            assert list(index) == file["hashes"]
            assert HashIndex(file["hashes"]).to_bytes() == path.read_bytes()[: 4 * len(index)]
        assert len(index) == file.get("row_count", len(index))
        assert HashIndex(index.hashes) == index
    assert not index.hashes.flags.writeable


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_assignment(root: Path) -> None:
    recorded = json.loads((root / "hash" / "assigners.json").read_text())
    for case in recorded["cases"]:
        for column in ("simple_assigner_buckets", "partition_index_buckets"):
            assigner = BucketAssigner(
                case["target_rows"],
                max_buckets=case["max_buckets"],
                assigners=case["num_assigners"],
                assigner=case["assign_id"],
            )
            half = len(case["hashes"]) // 2
            buckets = [*assigner.assign(case["hashes"][:half]), *assigner.assign(np.array(case["hashes"][half:]))]
            assert buckets == case[column]


def test_restored_buckets_keep_their_keys_and_fill_up_first() -> None:
    """Buckets are filled in the order of Java's HashMap. In a hash table with 16 places, bucket 17 is at place 1,
    before bucket 5."""
    restored = {5: [1, 2], 17: np.array([3]), 0: [4, 5, 6]}
    assigner = BucketAssigner(3, restored=restored)
    assert assigner.assign([3, 1, 5]).tolist() == [17, 5, 0]
    assert assigner.assign([10, 11, 12, 13, 14, 15, 16, 10]).tolist() == [17, 17, 5, 1, 1, 1, 2, 17]


def test_full_buckets() -> None:
    bounded = BucketAssigner(1, max_buckets=2)
    buckets = bounded.assign(range(10))
    assert set(buckets.tolist()) == {0, 1}
    assert bounded.assign(range(10)).tolist() == buckets.tolist()
    with pytest.raises(InvalidQuery, match="no bucket is left"):
        BucketAssigner(1, max_buckets=1, assigners=2, assigner=1).assign([7])
    with pytest.raises(InvalidQuery, match="no bucket is left"):
        BucketAssigner(1, assigners=30000).assign([1, 2, 3])
    for wrong in ({"target_rows": 0}, {"max_buckets": 0}, {"assigners": 0}, {"assigner": -1}):
        with pytest.raises(InvalidQuery):
            BucketAssigner(**({"target_rows": 1} | wrong))
