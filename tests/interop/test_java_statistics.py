"""Statistics of the example files equal what ORC Java reports for them: file, stripes and row groups."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import orcidx
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import TypeKind
from orcidx.orc.statistics import (
    ColumnStatistics,
    RawStatistics,
    file_statistics,
    stripe_statistics,
    unit_statistics,
)

pytestmark = pytest.mark.java

FILES = [
    "TestOrcFile.columnProjection",
    "TestOrcFile.emptyFile",
    "TestOrcFile.test1",
    "TestOrcFile.testDate1900",
    "TestOrcFile.testPredicatePushdown",
    "TestOrcFile.testSargSkipPickupGroupWithoutIndexJava",
    "TestOrcFile.testUnionAndTimestamp",
    "TestStringDictionary.testRowIndex",
    "TestVectorOrcFile.testLz4",
    "bad_bloom_filter_1.6.0",
    "decimal",
    "decimal64_v2",
    "orc-file-11-format",
    "orc_split_elim",
    "over1k_bloom",
]


def open_java(spark: Any, path: Path) -> Any:
    """Opens the file with ORC Java's reader, over py4j."""
    orc = spark._jvm.org.apache.orc.OrcFile
    location = spark._jvm.org.apache.hadoop.fs.Path(path.as_uri())
    return orc.createReader(location, orc.readerOptions(spark._jsc.hadoopConfiguration()))


def all_true(spark: Any, count: int) -> Any:
    array = spark._sc._gateway.new_array(spark._jvm.boolean, count)
    for i in range(count):
        array[i] = True
    return array


_NAME = re.compile(r"(?:^| )(count|hasNull|bytesOnDisk|true|min|max|sum|minUTC|maxUTC|minChildren|totalChildren): ")


def parse(text: str) -> dict[str, str]:
    """Parses Java's text of statistics: ``count: 5 hasNull: false min: a max: b sum: 9``. Values may contain spaces."""
    found = list(_NAME.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends)}


def compare(ours: ColumnStatistics, java: Any, kind: TypeKind, where: str) -> None:
    theirs = parse(java.toString())
    assert ours.count == java.getNumberOfValues(), where
    if ours.has_null is not None:
        assert ours.has_null == java.hasNull(), where
    assert (ours.bytes_on_disk or 0) == java.getBytesOnDisk(), where
    if ours.true_count is not None:
        assert ours.true_count == java.getTrueCount(), where
    if ours.minimum_children is not None:
        assert ours.minimum_children == java.getMinimumChildren(), where
        assert ours.maximum_children == java.getMaximumChildren(), where
        assert ours.total_children == java.getTotalChildren(), where
    for name, java_name in (("minimum", "min"), ("maximum", "max"), ("sum", "sum")):
        mine = getattr(ours, name)
        if mine is None or not ours.count or kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
            continue  # without values, Java's text has no bounds; times are compared below
        text = theirs.get(java_name)
        assert text is not None, f"{where} {name}: ours {mine!r}, Java has {java.toString()}"
        if isinstance(mine, float):
            assert mine == float(text.replace("Infinity", "inf")) or math.isnan(mine), f"{where} {name}"
        elif kind is TypeKind.DECIMAL:
            assert mine == type(mine)(text), f"{where} {name}"
        else:
            assert str(mine) == text.removeprefix("Hybrid AD "), f"{where} {name}"
    if kind is TypeKind.TIMESTAMP and ours.minimum_nanos is not None and ours.count:
        for nanos, stamp in ((ours.minimum_nanos, java.getMinimumUTC()), (ours.maximum_nanos, java.getMaximumUTC())):
            if stamp is not None:
                seconds, fraction = divmod(nanos or 0, 1_000_000_000)
                assert (stamp.getTime() // 1000, stamp.getNanos()) == (seconds, fraction), where


def units(raw: RawStatistics, hybrid: bool) -> list[ColumnStatistics | None]:
    starts, stops = raw.extents
    return [
        unit_statistics(raw, unit, hybrid=hybrid) if starts[unit] < stops[unit] else None for unit in range(len(raw))
    ]


@pytest.mark.parametrize("name", FILES)
def test_statistics_equal_java(spark: Any, golden_orc: Path, name: str) -> None:
    path = (golden_orc / f"{name}.orc").resolve()
    theirs = open_java(spark, path)
    file = orcidx.open(path)
    tail = file.tail
    nodes = list(file._reader.root.walk())
    # Java's statistics of the file, and of each stripe, are lists with one entry for each column.
    whole = list(theirs.getStatistics())
    stripes = [list(item.getColumnStatistics()) for item in theirs.getStripeStatistics()]
    compared = 0
    for node in nodes:
        for ours in units(file_statistics(tail, node), False):
            if ours is not None:
                compare(ours, whole[node.id], node.kind, f"{node.dotted} of the file")
                compared += 1
        for number_of, ours in enumerate(units(stripe_statistics(tail, node), False)):
            if ours is not None:
                compare(ours, stripes[number_of][node.id], node.kind, f"{node.dotted} of stripe {number_of}")
                compared += 1
    assert compared >= len(nodes)


@pytest.mark.parametrize("name", ["TestOrcFile.columnProjection", "TestStringDictionary.testRowIndex", "over1k_bloom"])
def test_row_group_statistics_and_positions_equal_java(spark: Any, golden_orc: Path, name: str) -> None:
    path = (golden_orc / f"{name}.orc").resolve()
    theirs = open_java(spark, path)
    reader = orcidx.open(path)._reader
    nodes = list(reader.root.walk())
    for stripe in range(min(2, len(reader.stripes))):
        rows = theirs.rows()
        everything = all_true(spark, len(nodes))
        index = rows.readRowIndex(stripe, everything, everything).getRowGroupIndex()
        ours = read_row_index(reader, stripe, nodes)
        for node in nodes:
            column = ours.columns[node.id]
            assert index[node.id].getEntryCount() == len(column.positions)
            for group in range(0, ours.groups, 3):
                theirs_at = index[node.id].getEntry(group)
                bounds = column.positions.bounds
                assert (
                    list(theirs_at.getPositionsList())
                    == column.positions.values[bounds[group] : bounds[group + 1]].tolist()
                )
                message = theirs_at.getStatistics()
                item = unit_statistics(column.statistics, group, hybrid=False)
                assert item.count == message.getNumberOfValues()
                if message.hasIntStatistics() and node.kind in (TypeKind.INT, TypeKind.LONG):
                    found = message.getIntStatistics()
                    assert (item.minimum, item.maximum) == (found.getMinimum(), found.getMaximum())
                if message.hasStringStatistics() and node.kind is TypeKind.STRING:
                    text = message.getStringStatistics()
                    assert (item.minimum or "", item.maximum or "") == (text.getMinimum(), text.getMaximum())
        rows.close()
