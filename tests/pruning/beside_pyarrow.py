"""Compares random predicates on random files with pyarrow's evaluation, for many encodings, nulls and densities.

    PYTHONPATH=.:tests python tests/pruning/beside_pyarrow.py --cases 20000 --seed 1

A case is a predicate for orcidx, the same predicate as an expression of pyarrow, and some columns. Its rows must equal,
bit by bit, the rows that pyarrow's filter of the whole table returns. Each case runs with all levels and one thread. It
also runs in another form: with two threads, as a count, or with one or all levels of ``LEVELS`` turned off. The rows
are in one file, or in many small files.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
from pruning import levels

import orcidx

LEVELS = (
    "compiled leaves",
    "columns compared by NumPy",
    "tested while decoded",
    "lengths of strings",
    "ends of a range at once",
    "decimals in 64 bits",
    "rows kept in one pass",
    "codes of dictionaries",
    "several batches at once",
    "proved rows",
    "small files filtered",
    "small files decoded together",
    "row-group statistics",
    "stripe statistics",
)
PREDICATES = 100
"""The number of predicates for each table."""
MOST_FILES = 30
"""The most files of a table."""

Rng = np.random.Generator
Pair = tuple[Any, pc.Expression]


# ---------------------------------------------------------------------- tables


def integers(rng: Rng, rows: int) -> Any:
    """Returns integers for the different encodings: few values, runs, ascending values, all widths, outliers."""
    shape = int(rng.integers(5))
    if shape == 0:
        return rng.integers(-3, 4, rows)
    if shape == 1:
        return np.repeat(rng.integers(0, 50, rows), rng.integers(1, 20, rows))[:rows]
    if shape == 2:
        return np.arange(rows) * int(rng.integers(1, 5)) - rows
    numbers = rng.integers(-(1 << int(rng.integers(3, 40))), 1 << int(rng.integers(3, 40)), rows)
    if shape == 3:
        numbers.sort()
    return numbers


def texts(rng: Rng, rows: int) -> list[str]:
    heads = ("", "a", "key-0000-", "a" * 20, "é")
    head = heads[int(rng.integers(len(heads)))]
    distinct = int(rng.choice([1, 3, 100, rows + 1]))
    return [f"{head}{number}" for number in rng.integers(0, distinct, rows)]


def arrays(rng: Rng, rows: int) -> Iterator[tuple[str, pa.Array]]:
    def some() -> Any:
        return integers(rng, rows)

    day = pa.array((some() % 20_000).astype(np.int32)).cast(pa.date32())
    doubles = some() / 4
    doubles[rng.random(rows) < 0.05] = np.nan
    doubles[rng.random(rows) < 0.05] = -0.0
    yield "i8", pa.array((some() % 100).astype(np.int8))
    yield "i32", pa.array((some() % (1 << 31)).astype(np.int32))
    yield "i64", pa.array(some())
    yield "other", pa.array(some())
    yield "day", day
    yield "later", pc.add(day.cast(pa.int32()), pa.array((some() % 5).astype(np.int32))).cast(pa.date32())
    yield "instant", pa.array(some() % (1 << 40)).cast(pa.timestamp("us"))
    yield "money", pa.array(some() % 10**10).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    yield (
        "cents",
        pa.array(some() % 10**10).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(14, 2)),
    )
    yield "f64", pa.array(doubles)
    yield "f32", pa.array(doubles.astype(np.float32))
    yield "flag", pa.array(some() % 2 == 0)
    yield "word", pa.array(texts(rng, rows))
    yield "bytes", pa.array([text.encode() for text in texts(rng, rows)], pa.binary())


def table_of(rng: Rng, rows: int) -> pa.Table:
    columns = {}
    for name, array in arrays(rng, rows):
        share = float(rng.choice([0.0, 0.0, 0.1, 0.9]))
        if share:
            places = [None if is_null else row for row, is_null in enumerate(rng.random(rows) < share)]
            array = array.take(pa.array(places, pa.int64()))
        columns[name] = array
    return pa.table(columns)


def write(rng: Rng, table: pa.Table, path: str) -> None:
    codec = str(rng.choice(["uncompressed", "zstd", "snappy", "zlib"]))
    threshold = float(rng.choice([0.0, 0.5, 1.0]))
    stride = int(rng.choice([500, 1000, 10_000]))
    if rng.random() < 0.5:
        stripe = int(
            rng.choice([1 << 14 if len(table) <= 3000 else 1 << 20, 64 << 20])
        )  # with hundreds of stripes, a case takes 0.5 s
        orcidx.write_table(
            table,
            path,
            compression=codec,
            row_index_stride=stride,
            dictionary_key_size_threshold=threshold,
            stripe_size=stripe,
        )
    else:
        version = str(rng.choice(["0.11", "0.12"]))
        pyarrow.orc.write_table(
            table,
            path,
            compression=codec,
            row_index_stride=max(stride, 1000),
            dictionary_key_size_threshold=threshold,
            file_version=version,
        )


# ---------------------------------------------------------------------- predicates


def literal(rng: Rng, column: pa.ChunkedArray) -> pa.Scalar:
    """Returns a value of the column, or a value next to it."""
    value = column[int(rng.integers(len(column)))]
    found = value.as_py()
    if found is None or (isinstance(found, float) and found != found):
        found = pc.min(pc.drop_null(column) if not pa.types.is_floating(column.type) else column).as_py()
    if found is None or (isinstance(found, float) and found != found):
        found = {"double": 0.0, "float": 0.0}.get(str(column.type))
    if found is None:
        return pa.scalar(None, column.type)
    if rng.random() < 0.2:
        if isinstance(found, str):
            found += "!"
        elif isinstance(found, bytes):
            found = found[:-1]
        elif isinstance(found, bool):
            found = not found
        elif isinstance(found, datetime.datetime):
            found += datetime.timedelta(microseconds=1)
        elif isinstance(found, datetime.date):
            found += datetime.timedelta(days=1)
        elif isinstance(found, decimal.Decimal):
            found += decimal.Decimal("0.01")
        elif not pa.types.is_int8(column.type) and found != 2**31 - 1:
            found += 1
    return pa.scalar(found, column.type)


COMPARED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda one, other: one == other,
    lambda one, other: one != other,
    lambda one, other: one < other,
    lambda one, other: one <= other,
    lambda one, other: one > other,
    lambda one, other: one >= other,
)


PAIRS = (("i64", "other"), ("other", "i64"), ("later", "day"), ("day", "later"), ("i32", "i64"), ("f64", "f32"))
"""Pairs of columns that are compared with each other."""


def leaf(rng: Rng, table: pa.Table) -> Pair:
    if rng.random() < 0.1:
        one, other = PAIRS[int(rng.integers(len(PAIRS)))]
        compare = COMPARED[int(rng.integers(len(COMPARED)))]
        return compare(orcidx.col(one), orcidx.col(other)), compare(pc.field(one), pc.field(other))
    name = str(rng.choice(table.column_names))
    column, mine, theirs = table.column(name), orcidx.col(name), pc.field(name)
    value = literal(rng, column)
    if not value.is_valid or rng.random() < 0.05:
        return mine.is_null(), theirs.is_null()
    kind = int(rng.integers(10))
    if kind == 0 and name == "word":
        start = value.as_py()[: int(rng.integers(0, 4))]
        return mine.starts_with(start), pc.starts_with(theirs, start)
    if kind == 1 and name == "word":
        part = value.as_py()[1:3]
        return mine.like(f"%{part}%"), pc.match_substring(theirs, part)
    if kind <= 3:
        other = literal(rng, column)
        low, high = sorted((value.as_py(), other.as_py()))
        last = theirs <= pa.scalar(high, column.type)
        if kind == 2:
            return mine.between(low, high), (theirs >= pa.scalar(low, column.type)) & last
        return (mine > low) & (mine <= high), (theirs > pa.scalar(low, column.type)) & last
    if kind == 4 and name not in ("f64", "f32"):
        keys = [literal(rng, column) for _ in range(int(rng.integers(1, 12)))]
        found = theirs == keys[0]
        for key in keys[1:]:
            found = found | (theirs == key)
        return mine.isin([key.as_py() for key in keys]), found
    compare = COMPARED[int(rng.integers(len(COMPARED)))]
    return compare(mine, value.as_py()), compare(theirs, value)


def predicate(rng: Rng, table: pa.Table, depth: int) -> Pair:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return leaf(rng, table)
    one = predicate(rng, table, depth - 1)
    if kind < 0.45:
        return ~one[0], ~one[1]
    other = predicate(rng, table, depth - 1)
    return (one[0] & other[0], one[1] & other[1]) if kind < 0.75 else (one[0] | other[0], one[1] | other[1])


# ---------------------------------------------------------------------- the run


def bits(table: pa.Table) -> pa.Table:
    """Returns the table with floats as their stored bits, so that NaN equals itself."""
    columns = []
    for column in table.columns:
        wide = {"double": pa.int64(), "float": pa.int32()}.get(str(column.type))
        columns.append(column if wide is None else pa.chunked_array([part.view(wide) for part in column.chunks], wide))
    return pa.table(columns, names=table.column_names)


def check(rng: Rng, paths: list[str], table: pa.Table, turn: int) -> None:
    where, expression = predicate(rng, table, int(rng.integers(0, 4)))
    chosen = rng.permutation(table.column_names)[: int(rng.integers(1, 4))]
    columns = [name for name in table.column_names if name in chosen]
    expected = bits(table.filter(expression).select(columns))
    off = ("", *LEVELS, "all")[turn % (len(LEVELS) + 2)]
    batch_size = int(rng.choice([1000, 65536]))
    with nullcontext() if len(paths) > 1 else orcidx.open(paths[0]) as file:
        scan_of = partial(orcidx.scan, paths) if file is None else file.scan
        for threads, ways in ((False, nullcontext()), (True, nullcontext()), (False, turned_off(off))):
            with ways:
                scan = scan_of(columns, where, use_threads=threads, batch_size=batch_size)
                found = bits(scan.to_table())
                assert found.equals(expected), f"{where!r} of {columns}, threads={threads}, without {off!r}"
        assert scan_of(columns, where).count_rows() == expected.num_rows, f"{where!r}, counted"


def turned_off(level: str) -> Any:
    if not level:
        return nullcontext()
    return levels.without(*(LEVELS if level == "all" else [level]))


def run(cases: int, rng: Rng, folder: Path, *, most_rows: int = 40_000) -> int:
    """Runs at least ``cases`` cases. Returns how many it ran."""
    done = 0
    while done < cases:
        rows = int(rng.choice([1, 50, 1000, 3000, 3000, most_rows]))
        table = table_of(rng, rows)
        most = rows if rows > 3000 or rng.random() < 0.5 else int(rng.integers(1, 400))
        paths = []
        for start in range(0, rows, max(most, rows // MOST_FILES)):
            paths.append(str(folder / f"rows-{done}-{start:06}.orc"))
            write(rng, table.slice(start, max(most, rows // MOST_FILES)), paths[-1])
        table = pa.concat_tables([orcidx.open(path).read() for path in paths])
        for _ in range(PREDICATES):
            check(rng, paths, table, done)
            done += 1
        for path in paths:
            Path(path).unlink()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after this number of seconds")
    asked = parser.parse_args()
    rng, begun, done = np.random.default_rng(asked.seed), time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        while done < asked.cases and time.monotonic() - begun < asked.seconds:
            done += run(PREDICATES, rng, Path(folder))
    print(f"{done} cases, seed {asked.seed}: no difference")


if __name__ == "__main__":
    main()
