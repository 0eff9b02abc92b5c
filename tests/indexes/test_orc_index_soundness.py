"""In written files, every value lies within the bounds of its row group and is found in its bloom filter."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.options import ReadOptions
from orcidx.orc.bloom import BloomFilters
from orcidx.orc.bloom_keys import distrust_bloom, literal_hashes
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.metadata import unframe
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import file_statistics, stripe_statistics
from orcidx.orc.timezones import zone_of_statistics
from orcidx.orc.types import OrcType

pyorc = pytest.importorskip("pyorc")

OPTIONS = ReadOptions()
EPOCH = datetime.date(1970, 1, 1)


def physical(node: OrcType, array: pa.ChunkedArray) -> list[Any]:
    """Converts values to the forms of literals in predicates: None, int, float, bytes or Decimal."""
    if pa.types.is_timestamp(array.type):
        scale = {"us": 1000, "ns": 1}[array.type.unit]
        return [None if value is None else value * scale for value in array.cast(pa.int64()).to_pylist()]
    if node.kind is TypeKind.DATE:
        return array.cast(pa.int32()).to_pylist()
    values = array.to_pylist()
    if node.kind is TypeKind.CHAR:
        return [None if value is None else value.rstrip(" ").encode() for value in values]
    return [value.encode() if isinstance(value, str) else value for value in values]


def check_bounds(column: Any, values: list[Any], starts: np.ndarray) -> int:
    """Checks the bounds of each unit (file, stripe or row group) against its values, and whether values may be null.
    Returns the number of bounds."""
    for unit, (start, stop) in enumerate(pairwise(starts)):
        part = values[start:stop]
        assert column.may_null[unit] or None not in part
        assert not column.all_null[unit] or set(part) <= {None}
        known = [value for value in part if value is not None]
        assert column.may_nan[unit] or all(value == value for value in known)
        for value in {value for value in known if value == value}:
            assert not column.lower.valid[unit] or column.lower.compare(value)[unit] <= 0
            assert not column.upper.valid[unit] or column.upper.compare(value)[unit] >= 0
        for bound in (column.lower, column.upper):
            assert not bound.exact[unit] or 0 in [bound.compare(value)[unit] for value in known]
    return int(column.lower.valid.sum())


def check_file(file: orcidx.OrcFile) -> tuple[int, int]:
    """Checks the bounds and bloom filters of every top-level column, for the file, its stripes and row groups. Returns
    the number of bounds and of filters."""
    reader: OrcReader = file._reader
    table = file.read()
    bounds = blooms = 0
    for place, node in enumerate(reader.root.children):
        if node.children or node.kind is TypeKind.BINARY:
            continue
        values = physical(node, table.column(place))
        whole = np.array([0, len(values)])
        bounds += check_bounds(
            bound_statistics(file_statistics(reader.tail, node), reader.facts, OPTIONS), values, whole
        )
        stripes = bound_statistics(stripe_statistics(reader.tail, node), reader.facts, OPTIONS)
        bounds += check_bounds(stripes, values, reader.stripe_bounds)
        for stripe, first in enumerate(reader.stripe_bounds[:-1].tolist()):
            index = read_row_index(reader, stripe, [node])
            zone = zone_of_statistics(reader.footer(stripe).writer_timezone)
            if node.id in index.columns:
                column = bound_statistics(index.columns[node.id].statistics, reader.facts, OPTIONS, zone=zone)
                bounds += check_bounds(column, values, index.bounds + first)
                blooms += check_blooms(reader, stripe, node, values, index.bounds + first)
    return bounds, blooms


def check_blooms(reader: OrcReader, stripe: int, node: OrcType, values: list[Any], starts: np.ndarray) -> int:
    tested = 0
    zone = zone_of_statistics(reader.footer(stripe).writer_timezone)
    for kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8):
        place = reader.extents(stripe).get((node.id, kind))
        if place is None or distrust_bloom(kind, node, reader.footer(stripe).encodings[node.id], reader.facts, OPTIONS):
            continue
        (raw,) = reader.storage.read_ranges([place])
        filters = BloomFilters(unframe(raw, reader.tail.postscript, name=kind.name))
        assert len(filters) == len(starts) - 1
        for group, (start, stop) in enumerate(pairwise(starts)):
            for value in {value for value in values[start:stop] if value is not None}:
                keys = literal_hashes(node, value, reader.facts, OPTIONS, zone=zone)
                assert keys is None or filters.may_contain(keys)[group].any(), (node, value)
                tested += keys is not None
    return tested


@pytest.mark.parametrize(
    "name",
    [
        "TestOrcFile.columnProjection",
        "TestOrcFile.test1",
        "TestOrcFile.testPredicatePushdown",
        "TestStringDictionary.testRowIndex",
        "decimal",
        "decimal64_v2",
        "orc_split_elim",
        "over1k_bloom",
    ],
)
def test_examples(golden_orc: Path, name: str) -> None:
    with orcidx.open(golden_orc / f"{name}.orc") as file:
        assert check_file(file)[0] > 0 or name in ("decimal",)


COLUMNS = {
    "i": "int", "l": "bigint", "t": "tinyint", "b": "boolean", "d": "double", "f": "float", "s": "string",
    "v": "varchar(6)", "c": "char(4)", "n": "decimal(12,3)", "w": "decimal(30,6)", "day": "date", "ts": "timestamp",
    "at": "timestamp with local time zone",
}  # fmt: skip


def sample(rng: np.random.Generator, row: int) -> tuple[Any, ...]:
    """Returns a random row. Extreme values and nulls are frequent."""
    pick = lambda *values: values[int(rng.integers(len(values)))]  # noqa: E731
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(
        days=int(rng.integers(-90_000, 90_000)), microseconds=int(rng.integers(0, 86_400_000_000))
    )
    near = datetime.datetime(1969, 12, 31, 23, 59) + datetime.timedelta(microseconds=int(rng.integers(0, 58_000_000)))
    stamp = pick(day, near)
    text = pick("", "a", "ü" * 3, "zz", "\U0001f600", "\ufffd", f"k{row}", "x" * int(rng.integers(1, 2000)))
    short = pick("", "a", "b\x01", "ab", "zz")
    values = (
        int(rng.integers(-(2**31), 2**31)), pick(2**63 - 1, -(2**63), row), row % 256 - 128, row % 3 == 0,
        pick(0.0, -0.0, 1.5, float("inf"), float("-inf"), float(rng.normal()), *([float("nan")] if row > 500 else [])),
        float(np.float32(rng.normal())), text, text[:6], short,
        Decimal(int(rng.integers(-(10**11), 10**11))).scaleb(-3), Decimal(pick(0, 5, row) * 10**20 + row).scaleb(-6),
        stamp.date(), stamp, stamp.replace(tzinfo=datetime.UTC),
    )  # fmt: skip
    return tuple(None if rng.random() < (0.1 if row < 800 else 1) else value for value in values)


@pytest.mark.parametrize(
    ("compression", "zone"),
    [(pyorc.CompressionKind.NONE, "UTC"), (pyorc.CompressionKind.ZLIB, "America/Los_Angeles")],
)
def test_files_of_the_c_plus_plus_writer(rng: np.random.Generator, compression: Any, zone: str) -> None:
    out = io.BytesIO()
    schema = "struct<" + ",".join(f"{name}:{kind}" for name, kind in COLUMNS.items()) + ">"
    with pyorc.Writer(
        out,
        schema,
        compression=compression,
        row_index_stride=100,
        bloom_filter_columns=list(COLUMNS),
        timezone=ZoneInfo(zone),
    ) as writer:
        for row in range(1000):
            writer.write(sample(rng, row))
    with orcidx.open(out.getvalue()) as file:
        bounds, blooms = check_file(file)
    assert bounds > 10 * 10
    assert blooms > 3000


@pytest.mark.java
def test_files_of_the_java_writer(spark: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    from pyspark.sql import types as sql

    kinds = {
        "boolean": sql.BooleanType(), "tinyint": sql.ByteType(), "int": sql.IntegerType(), "bigint": sql.LongType(),
        "float": sql.FloatType(), "double": sql.DoubleType(), "string": sql.StringType(), "date": sql.DateType(),
        "decimal(12,3)": sql.DecimalType(12, 3), "decimal(30,6)": sql.DecimalType(30, 6),
        "timestamp": sql.TimestampNTZType(), "timestamp with local time zone": sql.TimestampType(),
    }  # fmt: skip
    names = [name for name in COLUMNS if name not in ("v", "c")]
    places = [list(COLUMNS).index(name) for name in names]
    schema = sql.StructType([sql.StructField(name, kinds[COLUMNS[name]]) for name in names])
    rows = [tuple(row[place] for place in places) for row in (sample(rng, number) for number in range(2000))]
    target = tmp_path / "java"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    options = {"orc.row.index.stride": "1000", "orc.bloom.filter.columns": ",".join(names), "compression": "zlib"}
    frame.write.options(**options).orc(str(target))
    (path,) = target.glob("*.orc")
    with orcidx.open(path) as file:
        bounds, blooms = check_file(file)
    assert bounds > 2 * len(names)
    assert blooms > 3000
