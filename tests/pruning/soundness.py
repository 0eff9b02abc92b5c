"""Random files and random predicates: a scan returns exactly the matching rows of the table that was written.

Each scan runs with all levels (kinds of evidence and short cuts) on. For some predicates, the scan is repeated with one
level turned off, or with only one level on (``levels``). Half of the files are read as if they were large. Files are in
directories with a catalog and indexes. Rows, values, counts, totals and first rows must be those of the written
table.

In half of the files of pyorc and ORC Java, the writer must convert the values: doubles for FLOAT, integers outside
their type, texts that are too long or padded, and decimals of a larger scale. So the statistics of these files differ
from the stored values.

The long check is started by hand, for example ``PYTHONPATH=.:tests python tests/pruning/soundness.py --files 1500
--predicates 130 --seed 1``. ``test_soundness.py`` runs a short check. ``predicate_oracle`` defines the meaning of
predicates.
"""

from __future__ import annotations

import argparse
import datetime
import io
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet
import pytest
from predicate_strategies import BESIDE, BESIDE_VALUES, COMPUTED, PATTERNS, compared
from pruning.converted_values import VectorWriter, code_bytes, pool_bytes
from pruning.level_checks import Placed, Tally, Written, check_edges, check_level
from pruning.levels import as_if_large
from pruning.soundness_tables import (
    NAMES,
    ORC_TYPES,
    TEXT_TYPES,
    Column,
    Table,
    literals_of,
    make_column,
    make_table,
    operators_of,
)

import orcidx
from orcidx.orc.calendars import hybrid_days
from orcidx.planner import bloom_choice
from orcidx.predicate import Leaf, Op

pyorc = pytest.importorskip("pyorc")

BATCH = 10
"""Files of ORC Java that share a schema and writer options."""
COMPUTED_SHARE = 0.2
"""The share of leaves that compare an expression of a float column, in files with float columns."""
COUNTED = 3
"""One of ``COUNTED`` predicates is also asked with ``count_rows``."""
EDGED = 0.4
"""The share of files in which comparisons with the smallest and largest values are tested."""
EXTREMES = 0.25
"""The share of literals that are the smallest or largest value of the column, where ``<`` and ``<=`` differ."""


# ---------------------------------------------------------------------- predicates


Extremes = Mapping[tuple[str, ...], list[Any]]
"""The smallest and largest value of each column."""


def make_leaf(rng: np.random.Generator, path: tuple[str, ...], extremes: Extremes) -> Leaf:
    name = path[-1]
    op, negated = operators_of(name)[int(rng.integers(len(operators_of(name))))], bool(rng.random() < 0.3)
    literals = literals_of(name)

    ends = extremes.get(path, [])

    def one() -> Any:
        if ends and rng.random() < EXTREMES:
            return ends[int(rng.integers(len(ends)))]
        return None if rng.random() < 0.04 else literals[int(rng.integers(len(literals)))]

    if op is Op.LIKE:
        return Leaf(path, op, (PATTERNS[int(rng.integers(len(PATTERNS)))], "\\"), negated)
    if op in (Op.IS_NULL, Op.IS_NAN):
        return Leaf(path, op, (), negated)
    count = {Op.IN: int(rng.choice([1, 2, 3, 20])), Op.BETWEEN: 2}.get(op, 1)
    return Leaf(path, op, tuple(one() for _ in range(count)), negated)


def make_comparison(rng: np.random.Generator, floats: list[tuple[str, ...]], paths: list[tuple[str, ...]]) -> Any:
    """Returns a comparison of an expression of a float column with another column or with a value."""
    others: list[Any] = [path for path in paths if path[-1] in BESIDE] if rng.random() < 0.6 else BESIDE_VALUES
    op = [Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE][int(rng.integers(5))]
    how = list(COMPUTED)[int(rng.integers(len(COMPUTED)))]
    return compared(floats[int(rng.integers(len(floats)))], op, how, others[int(rng.integers(len(others)))])


def make_predicate(
    rng: np.random.Generator,
    paths: list[tuple[str, ...]],
    leaves: int | None = None,
    *,
    extremes: Extremes = MappingProxyType({}),
) -> Any:
    leaves = int(rng.choice([1, 1, 1, 2, 2, 3, 4])) if leaves is None else leaves
    if leaves == 1:
        floats = [path for path in paths if path[-1] in ("float64", "float32")]
        if floats and rng.random() < COMPUTED_SHARE:
            return make_comparison(rng, floats, paths)
        return make_leaf(rng, paths[int(rng.integers(len(paths)))], extremes)
    left = int(rng.integers(1, leaves))
    one, other = (make_predicate(rng, paths, count, extremes=extremes) for count in (left, leaves - left))
    joined = one & other if rng.random() < 0.5 else one | other
    return ~joined if rng.random() < 0.2 else joined


# ---------------------------------------------------------------------- files


def by_pyarrow(rng: np.random.Generator) -> Written:
    rows = int(rng.integers(1, 900))
    table = make_table(rng, rows, tuple(name for name in NAMES if name not in TEXT_TYPES), micros=False)
    arrow = table.arrow()
    # ``bloom_filter_columns`` takes numbers of ORC columns. These numbers also count nested columns. The writer
    # ignores unknown numbers.
    options = {
        "compression": str(rng.choice(["uncompressed", "zlib", "snappy", "zstd", "lz4"])),
        "compression_block_size": 1 << int(rng.integers(16, 19)),
        "row_index_stride": int(rng.choice([10, 50, 100, 333])),
        "batch_size": int(rng.choice([64, 256, 1024])),
        "stripe_size": int(rng.choice([1024, 1 << 16, 1 << 22])),
        "dictionary_key_size_threshold": float(rng.choice([0.0, 0.8])),
        "bloom_filter_columns": set(range(arrow.num_columns)) if rng.random() < 0.7 else None,
        "bloom_filter_fpp": float(rng.choice([0.01, 0.2])),
    }
    out = io.BytesIO()
    pyarrow.orc.write_table(arrow, out, **options)
    return Written(out.getvalue(), table, f"pyarrow {options}")


def by_pyorc(rng: np.random.Generator) -> Written:
    rows = int(rng.integers(1, 900))
    converted = bool(rng.random() < 0.5)
    table = make_table(rng, rows, NAMES, micros=True, converted=converted)
    inner = [f"{path[1]}:{ORC_TYPES[path[1]]}" for path in table.columns if len(path) == 2]
    parts = [f"{path[0]}:{ORC_TYPES[path[0]]}" for path in table.columns if len(path) == 1]
    schema = f"struct<before:array<bigint>,{','.join(parts)},s:struct<{','.join(inner)}>>"
    kinds = pyorc.CompressionKind
    options = {
        "compression": [kinds.NONE, kinds.ZLIB, kinds.SNAPPY, kinds.ZSTD, kinds.LZ4][int(rng.integers(5))],
        "compression_block_size": 1 << int(rng.integers(10, 17)),
        "row_index_stride": int(rng.choice([10, 50, 100, 333])),
        "batch_size": int(rng.choice([64, 256])),
        "stripe_size": int(rng.choice([1024, 1 << 16, 1 << 22])),
        "memory_block_size": 1 << 10,
        "dict_key_size_threshold": float(rng.choice([0.0, 1.0])),
        "bloom_filter_columns": [path[0] for path in table.columns if len(path) == 1] if rng.random() < 0.7 else None,
        "bloom_filter_fpp": float(rng.choice([0.01, 0.2])),
    }
    out = io.BytesIO()
    with pyorc.Writer(out, schema, **options) as writer:
        for row in pyorc_rows(table):
            writer.write(row)
    return Written(out.getvalue(), table, f"pyorc {options}{' from other values' if converted else ''}")


def pyorc_rows(table: Table) -> Iterator[tuple[Any, ...]]:
    arrow = table.arrow()
    columns = {}
    for path, item in table.columns.items():
        values = item.array()
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz))
        pool = None if item.name in ("decimal", "wide") else item.given  # pyorc rounds decimals itself
        columns[path] = values.to_pylist() if pool is None else [pool[code] for code in item.codes.tolist()]
    inner = [values for path, values in columns.items() if len(path) == 2]
    outer = [values for path, values in columns.items() if len(path) == 1]
    structs = [None if none else row for none, row in zip(table.no_struct.tolist(), zip(*inner), strict=True)]
    return zip(arrow["before"].to_pylist(), *outer, structs, strict=True)


def by_java(rng: np.random.Generator, spark: Any, folder: Path, count: int) -> list[Written]:
    """Writes a table as ``count`` files with ORC Java, by Spark. The number of a row is its number in its file."""
    # Spark writes timestamps with zone as ORC TIMESTAMP in the zone of its machine, and timestamps without zone as
    # BIGINT.
    names = tuple(name for name in NAMES if name not in (*TEXT_TYPES, "instant"))
    zone = "UTC" if rng.random() < 0.6 else None
    tables = []
    start = make_table(rng, 1, names, micros=True)
    for _ in range(count):
        rows = int(rng.integers(1000, 9000))
        columns = {path: make_column(rng, path[-1], rows, micros=True) for path in start.columns}
        none = np.repeat(rng.random(-(-rows // 500)) < 0.3, 500)[:rows] | (rng.random(rows) < 0.02)
        for path, item in columns.items():
            if len(path) == 2:
                columns[path] = replace(item, codes=np.where(none, len(item.pool) - 1, item.codes))
        tables.append(Table(columns, none, rows))
    folder.mkdir()
    for number, table in enumerate(tables):
        pa.parquet.write_table(_in_micros(table.arrow(), zone), folder / f"{number}.parquet")
    chosen = _java_options(rng, start.columns) | {"orc.stripe.row.count": str(rng.choice([2000, 100_000]))}
    chosen["compression"] = chosen.pop("orc.compress")
    made = []
    for number, table in enumerate(tables):
        target = folder / f"{number}.java"
        frame = spark.read.parquet(str(folder / f"{number}.parquet")).coalesce(1)
        frame.write.options(**chosen).orc(str(target))
        (path,) = target.glob("*.orc")
        made.append(Written(path, table, f"java {chosen}"))
    return made


def by_vectors(rng: np.random.Generator, writer: VectorWriter, folder: Path, count: int) -> list[Written]:
    """Writes files with ORC Java from vectors that are filled without any checks. No engine writes such files."""
    folder.mkdir()
    made = []
    for number in range(count):
        table = make_table(rng, int(rng.integers(1, 4000)), NAMES, micros=True, converted=True)
        columns = list(table.columns.items())
        inner = [(path, item) for path, item in columns if len(path) == 2]
        parts = [(path, item) for path, item in columns if len(path) == 1]
        given = [(_given_bytes(item), code_bytes(item.codes, len(item.pool) - 1)) for _, item in parts]
        given.append((b"", code_bytes(table.no_struct.astype(np.int64), 1)))
        given += [(_given_bytes(item), code_bytes(item.codes, len(item.pool) - 1)) for _, item in inner]
        fields = [f"{path[0]}:{ORC_TYPES[path[0]]}" for path, _ in parts]
        below = ",".join(f"{path[1]}:{ORC_TYPES[path[1]]}" for path, _ in inner)
        schema = f"struct<{','.join(fields)},s:struct<{below}>>"
        chosen = _java_options(rng, (path for path, _ in columns)) | {"orc.stripe.row.count": 1000}
        path = folder / f"{number}.orc"
        writer.write(path, schema, chosen, given)
        # With this option, the reader truncates digits beyond the scale.
        made.append(Written(path, table, f"vectors {chosen}", {"decimal_rounding": "truncate"}))
    return made


def _given_bytes(item: Column) -> bytes:
    # For decimals of at most 18 digits, Java's statistics do not accept digits beyond the scale, so ``given`` is not
    # used.
    values = (item.pool if item.given is None or item.name == "decimal" else item.given)[:-1]
    if item.name == "date":
        values = [hybrid_days((day - datetime.date(1970, 1, 1)).days)[0] for day in values]
    return pool_bytes(values)


def _java_options(rng: np.random.Generator, paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    chosen = {
        "orc.compress": str(rng.choice(["none", "zlib", "snappy", "zstd", "lz4"])),
        "orc.row.index.stride": str(rng.choice([1000, 1500])),
        "orc.write.format": str(rng.choice(["0.12", "0.12", "0.11"])),
        "orc.dictionary.key.threshold": str(rng.choice([0.0, 0.8])),
        "orc.bloom.filter.fpp": str(rng.choice([0.01, 0.2])),
    }
    if rng.random() < 0.7:
        chosen["orc.bloom.filter.columns"] = ",".join(".".join(path) for path in paths)
        chosen["orc.bloom.filter.write.version"] = str(rng.choice(["utf8", "original"]))
    return chosen


def _in_micros(table: pa.Table, zone: str | None) -> pa.Table:
    def coarse(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(f.name, coarse(f.type)) for f in kind])
        return pa.timestamp("us", zone) if pa.types.is_timestamp(kind) else kind

    return table.cast(pa.schema([pa.field(f.name, coarse(f.type)) for f in table.schema]))


# ---------------------------------------------------------------------- the check


def check_predicate(written: Written, file: orcidx.OrcFile, predicate: Any, nan: str, tally: Tally) -> None:
    """Raises ``AssertionError`` if a scan, an index or a count contradicts the oracle."""
    expected = written.table.matching(predicate, nan)
    scan = file.scan([], predicate, row_numbers=True, nan=nan, **written.options)
    found = []
    for stripe in scan.stripes():
        rows = stripe.decision.rows
        part = expected[rows.first_row : rows.first_row + rows.may.length]
        assert not (part & ~rows.may.mask()).any(), "an index rules out matching rows"
        assert not (rows.must.mask() & ~part).any(), "an index proves rows that do not match"
        tally.groups += len(rows.bounds) - 1
        tally.groups_skipped += int((~rows.may.any_in(rows.bounds)).sum())
        tally.groups_proved += int((rows.must.count_in(rows.bounds) == np.diff(rows.bounds)).sum())
        found += [batch.column(0).to_numpy() for batch in stripe]
    numbers = np.concatenate(found) if found else np.empty(0, np.int64)
    wanted = np.flatnonzero(expected)
    lost, invented = np.setdiff1d(wanted, numbers), np.setdiff1d(numbers, wanted)
    assert np.array_equal(numbers, wanted), f"missing {lost[:5]}, not matching {invented[:5]}"
    if tally.predicates % COUNTED == 0:
        assert file.scan(where=predicate, nan=nan, **written.options).count_rows() == len(wanted), (
            "count_rows disagrees"
        )
        tally.counts += 1
    tally.predicates += 1
    tally.rows_returned += len(wanted)


def check_keys(written: Written, file: orcidx.OrcFile, path: tuple[str, ...], rng: np.random.Generator) -> None:
    """Raises ``AssertionError`` if ``may_contain`` is False for a stored value. Also raises it if ``may_contain`` is
    True for a literal, but the plan for this literal has no rows."""
    try:
        values = file.read([path], **written.options).column(0).combine_chunks()
    except orcidx.ValueOutOfRange:  # a time is outside the range of nanoseconds
        values = file.read([path], **written.options, timestamp_unit="us").column(0).combine_chunks()
    for name in path[1:]:
        values = pc.struct_field(values, name)
    answers = file.explain_keys(path, values, **written.options)
    assert len(answers.reasons) == len(values)
    assert all(answers.may_contain.to_pylist()), "may_contain is False for a stored value"
    pool = literals_of(path[-1])
    literals = [pool[place] for place in rng.permutation(len(pool))[:3]]
    literals = [one for one in literals if one == one]
    answers = file.explain_keys(path, literals, **written.options)
    for literal, may, reason in zip(literals, answers.may_contain.to_pylist(), answers.reasons, strict=True):
        stripes = file.scan([], Leaf(path, Op.EQ, (literal,)), **written.options).stripes()
        assert may <= any(not stripe.decision.rows.may.is_empty for stripe in stripes), f"{literal!r}: {reason}"


def check_file(written: Written, rng: np.random.Generator, predicates: int, tally: Tally) -> list[str]:
    """Evaluates random predicates on one file. Returns the errors."""
    wrong = []
    paths = list(written.table.columns)
    extremes = {path: column.extremes() for path, column in written.table.columns.items()}
    # In small files, bloom filters are larger than the data, so they are not used by default.
    share = float("inf") if rng.random() < 0.7 else bloom_choice.BLOOM_SHARE
    with (
        as_if_large() if rng.random() < 0.5 else nullcontext(),
        tempfile.TemporaryDirectory() as folder,
        orcidx.open(written.source) as file,
        mock.patch.object(bloom_choice, "BLOOM_SHARE", share),
    ):
        assert file.num_rows == written.table.rows
        placed = Placed.of(written, Path(folder), rng)
        for path in paths:
            try:
                check_keys(written, file, path, rng)
            except (AssertionError, orcidx.OrcidxError) as error:
                wrong.append(f"{written.how}\n  keys of {'.'.join(path)} {type(error).__name__}: {str(error)[:500]}")
                print(wrong[-1], file=sys.stderr, flush=True)
        ordered = [path for path in paths if extremes[path]]
        for path in ordered[: 1 + predicates // 50 if rng.random() < EDGED else 0]:
            try:
                check_edges(placed, path, "ieee", rng)
            except (AssertionError, orcidx.OrcidxError) as error:
                wrong.append(f"{written.how}\n  {type(error).__name__}: {str(error)[:500]}")
                print(wrong[-1], file=sys.stderr, flush=True)
        for _ in range(predicates):
            predicate = make_predicate(rng, paths, extremes=extremes)
            nan = "ieee" if rng.random() < 0.6 else "largest"
            try:
                check_predicate(written, file, predicate, nan, tally)
                if tally.predicates % tally.levelled == 0:
                    check_level(placed, predicate, nan, rng, tally)
            except (AssertionError, orcidx.OrcidxError) as error:
                text = f"{repr(predicate)[:1000]}\n  {type(error).__name__}: {str(error)[:500]}"
                wrong.append(f"{written.how}\n  nan={nan} {text}")
                print(wrong[-1], file=sys.stderr, flush=True)
    tally.files[written.how.split()[0]] += 1
    return wrong


def run(files: range, predicates: int, seed: int, tally: Tally, *, seconds: float = float("inf")) -> list[str]:
    """Checks files of pyarrow and of pyorc, alternately, until all are done or the time is over. Returns the errors."""
    wrong: list[str] = []
    end = time.monotonic() + seconds
    for number in files:
        if time.monotonic() > end:
            break
        if number % 50 == 49:
            print(f"{number}: {tally}, {len(wrong)} wrong", file=sys.stderr, flush=True)
        rng = np.random.default_rng([seed, number])
        written = (by_pyarrow if number % 2 else by_pyorc)(rng)
        wrong += [f"file {number}: {text}" for text in check_file(written, rng, predicates, tally)]
    return wrong


def run_java(
    spark: Any, folder: Path, files: range, predicates: int, seed: int, tally: Tally, *, seconds: float = float("inf")
) -> list[str]:
    """Checks files of ORC Java until all are done or the time is over. Ten files by Spark and ten from vectors
    alternate."""
    wrong: list[str] = []
    vectors = VectorWriter(spark)
    end = time.monotonic() + seconds
    for number in files[::BATCH]:
        if time.monotonic() > end:
            break
        rng = np.random.default_rng([seed, 1 << 40, number])
        place = folder / str(number)
        count = min(BATCH, files.stop - number)
        converting = number // BATCH % 2 == 1
        made = by_vectors(rng, vectors, place, count) if converting else by_java(rng, spark, place, count)
        for written in made:
            wrong += [f"batch {number}: {text}" for text in check_file(written, rng, predicates, tally)]
        shutil.rmtree(place)
        print(f"Java {number}: {tally}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return wrong


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--files", type=int, default=1500)
    words.add_argument("--first", type=int, default=0, help="number of the first file of a partial run")
    words.add_argument("--predicates", type=int, default=130)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--seconds", type=float, default=float("inf"))
    words.add_argument("--levelled", type=int, default=3, help="one of this many predicates also tests one level")
    words.add_argument("--java", type=int, default=0, help="number of files of ORC Java, half of them by vectors")
    words.add_argument("--java-first", type=int, default=0, help="number of the first Java file, a multiple of ten")
    asked = words.parse_args()
    if asked.java_first % BATCH:
        words.error(f"--java-first must be a multiple of {BATCH}: so many files share a schema")
    tally = Tally(Counter(), levelled=asked.levelled)
    start = time.monotonic()
    wrong: list[str] = []
    if asked.java > asked.java_first:
        from pyspark.sql import SparkSession

        with tempfile.TemporaryDirectory() as folder:
            builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            quiet = builder.config("spark.ui.showConsoleProgress", "false")
            zone = quiet.config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
            spark = zone.config("spark.sql.session.timeZone", "UTC").getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            numbers = range(asked.java_first, asked.java)
            wrong += run_java(spark, Path(folder), numbers, asked.predicates, asked.seed, tally, seconds=asked.seconds)
            spark.stop()
        print(f"Java done: {tally}, {len(wrong)} wrong", flush=True)
    wrong += run(range(asked.first, asked.files), asked.predicates, asked.seed, tally, seconds=asked.seconds)
    for text in wrong[:40]:
        print(text, flush=True)
    print(f"seed {asked.seed}: {tally}, {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
