"""orcidx, pyarrow, pyorc and ORC Java read files with every type, null pattern, codec, block size and stride correctly.

The files are read as a whole, from every row group by its positions, and with predicates. No row is missing.
"""

from __future__ import annotations

import gc
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc
from spark_frames import collected
from writing.four_readers import Checker, check_many, group_starts, open_pyorc, pyorc_row, seekable
from writing.orc_java import OrcJava
from writing.plain_rows import arrow_rows, java_rows
from writing.random_tables import CODECS, random_table
from writing.written_tables import NULLS, check_readers, table, written

import orcidx


@pytest.fixture(scope="module")
def orc_java(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> OrcJava:
    return OrcJava(spark, tmp_path_factory.mktemp("orc"))


def check_matrix(java: OrcJava, rng: np.random.Generator, rows: int, points: Any) -> None:
    for nulls, group in itertools.groupby(points, key=lambda point: point[0]):
        data = table(rng, rows, nulls)
        expected = arrow_rows(data)
        for _, codec, block, stride, threshold in group:
            file = written(
                data,
                compression=codec,
                compression_block_size=block,
                row_index_stride=stride,
                dictionary_key_size_threshold=threshold,
            )
            check_readers(file, data)
            starts = group_starts(file)
            whole, sought = java.ask(file, ["all", "\t".join(("seek", *map(str, starts)))])
            where = (nulls, codec, block, stride)
            assert whole == java_rows(expected), where
            assert sought == [java_rows(expected)[start] for start in starts], where
            reader = open_pyorc(file)
            show = pyorc_row(reader)
            assert [show(row) for row in reader] == expected, where
            for start in starts if seekable(file) else ():
                reader.seek(start)
                assert show(next(reader)) == expected[start], (*where, start)


def test_the_matrix_in_short(orc_java, rng):
    points = zip(NULLS, CODECS[1:], (1 << 10, 1 << 18, 1 << 12, 1 << 10), (100, 300, 100, 150), ("auto", 0, 1, "auto"))
    check_matrix(orc_java, rng, 320, points)


@pytest.mark.slow
def test_the_whole_matrix(orc_java, rng):
    points = itertools.product(NULLS, CODECS, (1 << 10, 1 << 18), (100, 1000))
    thresholds = itertools.cycle(("auto", 0, 1))
    check_matrix(orc_java, rng, 1150, [(*point, next(thresholds)) for point in points])


def test_random_tables_in_three_readers(request):
    assert not check_many(Checker(None), range(5), 11, rows=200)


def test_random_tables_in_four_readers(orc_java):
    checker = Checker(orc_java)
    assert not check_many(checker, range(100, 106), 12, rows=300)
    assert checker.tally["predicates of ORC Java"] == 36


@pytest.mark.slow
def test_many_random_tables_in_four_readers(orc_java):
    checker = Checker(orc_java)
    assert not check_many(checker, range(40), 13)
    for who in ("pyorc", "ORC Java"):
        assert checker.tally[f"rows that {who} skipped"] > 1000


PATCHED = {
    "recompressed": {"compression": "lz4", "compression_block_size": 1500},
    "stored": {"compression": "uncompressed"},
    "indexed": {"bloom_filters": ["*"]},
    "both": {"bloom_filters": ["row"], "compression": "zlib", "compression_block_size": 4000},
    "merged": {"merge": True},
    "merged and recompressed": {"merge": True, "compression": "snappy"},
}


def rewritten(table: pa.Table, folder: Path, writer: str, how: str, options: dict[str, Any]) -> Path:
    """Writes the table to two files with pyarrow or orcidx. Rewrites the first file, or merges both. Returns the new
    file."""
    half = table.num_rows // 2 if "merge" in PATCHED[how] else table.num_rows
    sources = [folder / f"{how}.{i}.orc" for i in range(2)]
    for source, part in zip(sources, (table.slice(0, half), table.slice(half))):
        if writer == "orcidx":
            source.write_bytes(written(part, **options))
        else:
            orc.write_table(part, source, compression="zstd", row_index_stride=100, stripe_size=1 << 14)
    chosen = sources if "merge" in PATCHED[how] else sources[:1]
    target = folder / f"{how}.orc"
    done = orcidx.rewrite(chosen, target, overwrite=True, **PATCHED[how])
    assert done.way != "encode"
    return target


def of_pyarrow(rng: np.random.Generator, rows: int) -> pa.Table:
    """Returns a table of types that pyarrow can write. The first column has row numbers."""
    values = table(rng, rows, "some", 100).select(["int32", "int64", "double", "string"])
    days = pa.array(rng.integers(-9000, 20_000, rows).astype(np.int32), mask=rng.random(rows) < 0.2).cast(pa.date32())
    # These days are after 1582, so they are the same in the hybrid and the proleptic calendar.
    return values.add_column(0, "row", pa.array(range(rows))).append_column("date", days)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pyspark leaves sockets open
def test_what_was_not_encoded_anew(orc_java, spark, tmp_path):
    """The rewrites of this test do not encode rows again. They patch positions, add bloom filters, or copy stripes.
    Each reader reads the new files as a whole, from row groups, and with predicates. Spark also reads the new files of
    pyarrow's sources with pushed filters."""
    checker = Checker(orc_java)
    for seed, how in enumerate(PATCHED):
        rng = np.random.default_rng([17, seed])
        data = random_table(rng, 700, 4)
        options = {"row_index_stride": 100, "stripe_size": 1 << 14, "compression_block_size": 1 << 10}
        made = rewritten(data, tmp_path, "orcidx", how, options)
        checker.check_file(made.read_bytes(), data, rng)
        data = of_pyarrow(rng, 700)
        made = rewritten(data, tmp_path, "pyarrow", how, options)
        checker.check_file(made.read_bytes(), data, rng)
        frame = spark.read.orc(str(made))
        found = collected(frame).sort_by("row")
        assert found.to_pydict() == data.to_pydict(), how
        for name in ("int64", "string", "date"):
            value = data[name].drop_null()[150].as_py()
            wanted = data.filter(pc.equal(data[name], value))["row"].to_pylist()
            assert sorted(collected(frame.where(frame[name] == value))["row"].to_pylist()) == wanted, (how, name, value)
    gc.collect()
    assert checker.tally["predicates of ORC Java"] == 12 * len(PATCHED)


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_unions(orc_java, rng, mode):
    """orcidx and ORC Java return the tag of each union value. pyorc does not return tags, so this test does not use
    pyorc."""
    rows = 700
    tags = rng.integers(0, 3, rows).astype(np.int8)
    codes = pa.array(np.array([5, 0, 9], np.int8)[tags])
    lengths = np.full(3, rows) if mode == "sparse" else np.bincount(tags, minlength=3)
    numbers = pa.array(rng.integers(0, 99, lengths[0]), mask=rng.random(lengths[0]) < 0.3)
    texts = pa.array([f"t{i % 9}" for i in range(lengths[1])])
    pairs = pa.StructArray.from_arrays(
        [pa.array(rng.random(lengths[2]))], ["x"], mask=pa.array(rng.random(lengths[2]) < 0.2)
    )
    children = [numbers, texts, pairs]
    names = ["a", "b", "c"]
    if mode == "sparse":
        union = pa.UnionArray.from_sparse(codes, children, names, [5, 0, 9])
    else:
        places = np.zeros(rows, np.int32)
        for tag in range(3):
            places[tags == tag] = np.arange(lengths[tag])
        union = pa.UnionArray.from_dense(codes, pa.array(places), children, names, [5, 0, 9])
    data = pa.table({"row": np.arange(rows), "u": union}).slice(13)
    file = written(data, row_index_stride=100, compression_block_size=1 << 10)
    expected = arrow_rows(data)
    starts = group_starts(file)
    whole, sought = orc_java.ask(file, ["all", "\t".join(("seek", *map(str, starts)))])
    assert whole == java_rows(expected)
    assert sought == [java_rows(expected)[start] for start in starts]
    with orcidx.open(file) as opened:
        assert arrow_rows(opened.read()) == expected
        for start in starts:
            assert arrow_rows(opened.read(row_range=(start, start + 2))) == expected[start : start + 2]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_row_groups_without_values_at_the_end(orc_java, codec):
    """Java seeks to the start of each row group that a predicate does not exclude. This also works if a column has no
    values in the last row groups. If Java wrote such a file without compression, the seek fails."""
    rows = 400
    late = pa.array(np.arange(rows) >= 150)
    numbers = np.arange(rows)
    columns = {
        "double": numbers / 3,
        "int": numbers,
        "byte": (numbers % 99).astype(np.int8),
        "bool": numbers % 3 == 0,
        "text": [f"text {i}" for i in range(rows)],
        "time": pa.array(numbers).cast(pa.timestamp("s")),
        "decimal": pa.array(numbers).cast(pa.decimal128(20, 0)),
    }
    inside = pa.StructArray.from_arrays([pa.array(values) for values in columns.values()], list(columns), mask=late)
    lists = pa.array([[i] if i < 150 else None if i % 2 else [] for i in range(rows)])
    table = pa.table({"row": numbers, "inside": inside, "list": lists})
    file = written(table, row_index_stride=50, compression=codec)
    expected = arrow_rows(table)
    assert orc_java.ask(file, ["where\trow\t!<\tLONG\t220", "where\trow\t=\tLONG\t399"]) == [
        expected[200:],
        expected[350:],
    ]
    with orcidx.open(file) as opened:
        assert arrow_rows(opened.read(row_range=(220, 400))) == expected[220:]
    reader = open_pyorc(file)
    show = pyorc_row(reader)
    for start in (350, 200, 140):
        reader.seek(start)
        assert show(next(reader)) == expected[start]
