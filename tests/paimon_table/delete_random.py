"""Random Paimon tables and random predicates. A delete and a scan must find exactly the rows for which the predicate is
true.

Tables have columns of every type and precision, ORC and Parquet files, partitions, file indexes, deletion vectors,
columns that were renamed, widened or added between two files, and fields of rows. Run the long check by hand, for
example ``PYTHONPATH=.:tests python tests/paimon_table/delete_random.py --count 20000 --seed 1``.
``test_paimon_delete_random`` runs a short check. ``predicate_oracle`` defines the meaning of predicates.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
from paimon_empty import empty_table
from paimon_tables import PaimonTable
from predicate_oracle import truth
from predicate_strategies import COMPARISONS, KINDS, PATTERNS, STAMPS
from pruning.levels import LEVELS, alone, edges, without
from pruning.soundness_tables import AWARE, HALF_SECONDS, STAMP_LITERALS, literals_of, values_of

import orcidx
from orcidx.options import ReadOptions
from orcidx.paimon import open_table
from orcidx.paimon_table.commit.row_deleting import plan_delete
from orcidx.predicate import And, Leaf, Op, Or

TIMES = [datetime.time(0), datetime.time(0, 0, 0, 1000), datetime.time(12, 30), datetime.time(23, 59, 59, 999_000)]
TIME_LITERALS = [*TIMES, datetime.time(0, 0, 0, 500), datetime.time(12, 30, 0, 1)]


@dataclass(frozen=True)
class Kind:
    """A type of Paimon: its text, its Arrow type, the values of its columns, and the literals and operators of
    conditions. ``older`` has pairs of a type that can be widened to this type, and a function that returns whether that
    type can hold a value."""

    text: str
    arrow: pa.DataType
    pool: tuple[Any, ...]
    literals: tuple[Any, ...]
    operators: tuple[Op, ...]
    meaning: Any
    older: tuple[tuple[str, Callable[[Any], bool]], ...] = ()


def _kind(text: str, name: str, older: tuple[tuple[str, Callable[[Any], bool]], ...] = ()) -> Kind:
    arrow, _, _, extra = KINDS[name]
    meaning = ("char", 5) if name == "char" else arrow
    pool = values_of(name)
    if name == "char":  # longer texts do not fit CHAR(5)
        pool = [text for text in pool if len(text) <= 5]
    operators = (*COMPARISONS, Op.IN, Op.BETWEEN, Op.IS_NULL, *extra)
    return Kind(text, arrow, tuple(pool), tuple(literals_of(name)), operators, meaning, older)


def _bits(count: int) -> Callable[[Any], bool]:
    return lambda value: -(1 << count - 1) <= value < 1 << count - 1


def _times(precision: int, *, zoned: bool) -> Kind:
    unit, step = ("s", "ms", "us", "ns")[(precision + 2) // 3], 10 ** (9 - precision)
    cut = dict.fromkeys(value // step * step for value in (*STAMPS, *HALF_SECONDS))
    pool = tuple(value for value in cut if not -(10**9) < value < 0)  # ORC cannot store the last second before 1970
    operators = (*COMPARISONS, Op.IN, Op.BETWEEN, Op.IS_NULL)
    zone = " WITH LOCAL TIME ZONE" if zoned else ""
    older = tuple(
        (f"TIMESTAMP({less}){zone}", lambda value, step=10 ** (9 - less): value % step == 0)
        for less in range(0, precision, 2)
    )
    literals = (*KINDS["timestamp"][2], *STAMP_LITERALS)
    if zoned:
        seconds = [datetime.timedelta(microseconds=value // 1000) for value in HALF_SECONDS]
        literals = (*AWARE, *(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + one for one in seconds))
    arrow = pa.timestamp(unit, "UTC" if zoned else None)
    return Kind(f"TIMESTAMP({precision}){zone}", arrow, pool, literals, operators, pa.timestamp("ns"), older)


TYPES: dict[str, Kind] = {
    "int8": _kind("TINYINT", "int8"),
    "int64": _kind("BIGINT", "int64", (("INT", _bits(32)), ("TINYINT", _bits(8)))),
    "float32": _kind("FLOAT", "float32"),
    "float64": _kind("DOUBLE", "float64", (("FLOAT", lambda value: _fits_float(value)),)),
    "decimal": _kind("DECIMAL(10, 2)", "decimal", (("DECIMAL(6, 2)", lambda value: abs(value) < 1000),)),
    "wide": _kind("DECIMAL(38, 2)", "wide", (("DECIMAL(10, 2)", lambda value: abs(value) < 10_000_000),)),
    "string": _kind("STRING", "string", (("VARCHAR(20)", lambda value: len(value) <= 20),)),
    "char": _kind("CHAR(5)", "char"),
    "binary": _kind("BYTES", "binary"),
    "bool": _kind("BOOLEAN", "bool"),
    "date": _kind("DATE", "date"),
    "time": Kind(
        "TIME(3)",
        pa.time32("ms"),
        tuple(TIMES),
        tuple(TIME_LITERALS),
        (*COMPARISONS, Op.IN, Op.BETWEEN, Op.IS_NULL),
        pa.time32("ms"),
    ),
    **{f"ts{precision}": _times(precision, zoned=False) for precision in range(10)},
    **{f"ltz{precision}": _times(precision, zoned=True) for precision in range(10)},
}
PARTITIONS = ("int8", "int64", "string", "char", "bool", "date", "decimal", "ts0", "ts3", "ts6")
INDEXES = {"bitmap": ("int8", "string", "date"), "bsi": ("int64", "date", "decimal", "ts3", "ts6")}
INDEXES |= {"bloom-filter": ("int64", "string", "char", "float64", "ts9", "ts3"), "range-bitmap": ("int64", "string")}
OF_TABLES = [level for level in LEVELS if level not in ("catalog", "indexes in the catalog", "partition")]
"""The levels that scans of tables can use."""
MANIFESTS = "manifests' statistics"
LEVELLED = 4
"""One in ``LEVELLED`` cases is also run with one level turned off, and with this level alone."""
ROWS = 120
PREDICATES = 60


def _fits_float(value: float) -> bool:
    if not math.isfinite(value):
        return True
    return abs(value) < 1e38 and float(np.float32(value)) == value


def array_of(kind: Kind, values: list[Any]) -> pa.Array:
    if not pa.types.is_timestamp(kind.arrow):
        return pa.array(values, kind.arrow)
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.arrow.unit]
    return pa.array([None if value is None else value // scale for value in values], pa.int64()).cast(kind.arrow)


@dataclass
class Column:
    """``codes[row]`` is an index into ``pool``, whose last value is None."""

    kind: Kind
    pool: list[Any]
    codes: np.ndarray

    def values(self, rows: slice) -> list[Any]:
        return [self.pool[code] for code in self.codes[rows].tolist()]

    def ends(self) -> list[Any]:
        """Returns the smallest and the largest value as literals. The list is empty for floats, bytes and booleans."""
        if pa.types.is_floating(self.kind.arrow) or self.kind.text in ("BYTES", "BOOLEAN"):
            return []
        found = sorted({self.pool[code] for code in np.unique(self.codes).tolist()} - {None})
        if pa.types.is_timestamp(self.kind.arrow):
            start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if self.kind.arrow.tz else None)
            years = (-(60 * 10**18), 250 * 10**18)
            found = [value for value in found if value % 1000 == 0 and years[0] < value < years[1]]
            found = [start + datetime.timedelta(microseconds=value // 1000) for value in found]
        return [found[0], found[-1]] if found else []


@dataclass
class Made:
    """A table, its columns by path, and a text for messages that says how the table was made."""

    folder: Path
    columns: dict[tuple[str, ...], Column]
    rows: int
    how: str
    deleted: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.deleted = np.zeros(self.rows, bool)

    def matching(self, predicate: Any, nan: str) -> np.ndarray:
        return self._truth(predicate, nan) == 1

    def _truth(self, predicate: Any, nan: str) -> np.ndarray:
        """Returns 0 for FALSE, 0.5 for NULL and 1 for TRUE. So AND is the minimum, and OR is the maximum."""
        if isinstance(predicate, (And, Or)):
            parts = np.stack([self._truth(child, nan) for child in predicate.children])
            return parts.min(axis=0) if isinstance(predicate, And) else parts.max(axis=0)
        column = self.columns[predicate.path]
        schema = {predicate.path: column.kind.meaning}
        answers = [truth(predicate, lambda _, value=value: value, schema, nan) for value in column.pool]
        return np.array([0.5 if answer is None else float(answer) for answer in answers])[column.codes]


def make_codes(rng: np.random.Generator, allowed: list[int], null: int, rows: int) -> np.ndarray:
    """Returns blocks of rows that indexes can rule out. A block has one value, neighbouring values, all values or only
    nulls."""
    codes, at = np.empty(rows, np.int64), 0
    while at < rows:
        size = int(rng.integers(1, max(2, rows // 2)))
        width = min(int(rng.choice([1, 1, 3, len(allowed)])), len(allowed))
        first = int(rng.integers(len(allowed) - width + 1))
        part = np.array(allowed)[first + rng.integers(0, width, len(codes[at : at + size]))]
        part[rng.random(len(part)) < rng.choice([0, 0, 0.1, 0.6, 1])] = null
        codes[at : at + size] = part
        at += size
    return codes


def _is_plain(value: Any) -> bool:
    """Whether every file system can have a directory for a partition with this value."""
    return not isinstance(value, str) or (len(value) < 100 and "\0" not in value)


def make_appended(rng: np.random.Generator, folder: Path) -> Made:
    """Makes a table of two files that orcidx appends. The second file has a newer schema, which may have the same
    columns."""
    form = str(rng.choice(["orc", "parquet"]))
    names = [str(name) for name in rng.permutation(list(TYPES))[: int(rng.integers(3, 7))]]
    if form == "parquet":
        names = [name for name in names if not (name[:2] in ("ts", "lt") and int(name[-1]) > 6)] or ["int64"]
    keys = [name for name in names if name in PARTITIONS][:1] if rng.random() < 0.4 else []
    counts = [int(rng.integers(1, ROWS)), int(rng.integers(1, ROWS))]
    first, columns, old = {"id": "BIGINT"}, {}, {}
    for name in names:
        kind = TYPES[name]
        pool = [value for value in kind.pool if _is_plain(value)] if name in keys else list(kind.pool)
        if name in keys:
            pool = [pool[place] for place in sorted(rng.permutation(len(pool))[:3].tolist())]
        allowed = list(range(len(pool)))
        change = str(rng.choice(["none", "none", "wider", "renamed", "added"])) if name not in keys else "none"
        before = allowed
        if change == "added":
            before = []
        else:
            text, then = kind.text, name
            if change == "wider" and kind.older:
                text, holds = kind.older[int(rng.integers(len(kind.older)))]
                before = [place for place in allowed if holds(pool[place])]
            if change == "renamed":
                then = f"{name}_then"
            first[then] = text
            old[name] = then
        null = len(pool)
        parts = [
            make_codes(rng, some, null, count) if some else np.full(count, null, np.int64)
            for some, count in zip((before, allowed), counts)
        ]
        columns[(name,)] = Column(kind, [*pool, None], np.concatenate(parts))
    options = {"file__format": form}
    for index, types in INDEXES.items():
        indexed = [name for name in types if name in names and old.get(name) == name and rng.random() < 0.5]
        if index == "bsi":  # a BSI cannot store this value, so an append would be refused
            indexed = [name for name in indexed if -(2**63) not in columns[name,].values(slice(None))]
        if indexed:
            options[f"file_index__{index.replace('-', '_')}__columns"] = ",".join(indexed)
    if rng.random() < 0.5:
        options["orc__row__index__stride"] = "10"
    if rng.random() < 0.5 and (asked := [name for name in names if old.get(name) == name]):
        options["orc__bloom__filter__columns"] = ",".join(asked)
    empty_table(folder, first, partition_keys=keys, **options)
    document = json.loads((folder / "schema" / "schema-0").read_text())
    at = 0
    for number, count in enumerate(counts):
        if number:
            _newer(folder, document, {name: TYPES[name].text for name in names}, old)
        rows = slice(at, at + count)
        arrays = {"id": pa.array(range(at, at + count))}
        for name in names:
            if number or name in old:
                values = columns[name,].values(rows)
                arrays[name if number else old[name]] = array_of(TYPES[name], values)
        schema = None if number else open_table(folder).schema
        given = pa.table(arrays)
        open_table(folder).append(given if schema is None else given.cast(schema), jvm_zone="UTC")
        at += count
    said = f"appended {form} {names} by {keys} from {first} with {options}"
    return Made(folder, columns, sum(counts), said)


def _newer(folder: Path, document: dict[str, Any], texts: dict[str, str], old: dict[str, str]) -> None:
    """Writes the second schema. It has the newest names and types of all columns, and the columns that were added."""
    ids = {entry["name"]: entry["id"] for entry in document["fields"]}
    fields, following = [{"id": ids["id"], "name": "id", "type": "BIGINT"}], document["highestFieldId"] + 1
    for name, text in texts.items():
        number = ids[old[name]] if name in old else following
        following += name not in old
        fields.append({"id": number, "name": name, "type": text})
    options = {key: value for key, value in document["options"].items() if not key.startswith("orc.bloom")}
    newer = {**document, "id": 1, "fields": fields, "highestFieldId": following, "options": options}
    (folder / "schema" / "schema-1").write_text(json.dumps(newer))


def make_nested(rng: np.random.Generator, folder: Path) -> Made:
    """Makes a table of one file that pyarrow writes. It has fields inside a ROW, which an append does not support."""
    form = str(rng.choice(["orc", "parquet"]))
    usable = [name for name in TYPES if not name.startswith("ltz") and name not in ("time", "char")]
    if form == "parquet":  # Paimon stores nanoseconds as INT96, which pyarrow does not write by default
        usable = [name for name in usable if not (name.startswith("ts") and int(name[-1]) > 6)]
    names = [str(name) for name in rng.permutation(usable)[:5]]
    count = int(rng.integers(1, 2 * ROWS))
    none = rng.random(count) < 0.2
    columns = {}
    for place, name in enumerate(names):
        pool = list(TYPES[name].pool)
        codes = make_codes(rng, list(range(len(pool))), len(pool), count)
        path = (name,) if place < 2 else ("s", name)
        columns[path] = Column(TYPES[name], [*pool, None], codes if place < 2 else np.where(none, len(pool), codes))
    flat = {name: array_of(TYPES[name], columns[name,].values(slice(None))) for name in names[:2]}
    inner = [array_of(TYPES[name], columns["s", name].values(slice(None))) for name in names[2:]]
    row = pa.StructArray.from_arrays(inner, names=names[2:], mask=pa.array(none))
    made = PaimonTable(folder)
    kind = {
        "type": "ROW",
        "fields": [{"id": 10 + i, "name": name, "type": TYPES[name].text} for i, name in enumerate(names[2:])],
    }
    fields = {0: ("id", "BIGINT"), **{1 + i: (name, TYPES[name].text) for i, name in enumerate(names[:2])}}
    made.schema({**fields, 3: ("s", kind)}, options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    without = {"_VALUE_STATS": made._stats(pa.table({}), {}), "_VALUE_STATS_COLS": []}
    made.add(f"data-0.{form}", pa.table({"id": range(count), **flat, "s": row}), **without)
    made.commit()
    return Made(folder, columns, count, f"nested {form} {names}")


# ---------------------------------------------------------------------- predicates


def make_leaf(rng: np.random.Generator, made: Made) -> Leaf:
    paths = list(made.columns)
    path = paths[int(rng.integers(len(paths)))]
    kind = made.columns[path].kind
    op, negated = kind.operators[int(rng.integers(len(kind.operators)))], bool(rng.random() < 0.3)

    def one() -> Any:
        return None if rng.random() < 0.04 else kind.literals[int(rng.integers(len(kind.literals)))]

    if op is Op.LIKE:
        return Leaf(path, op, (PATTERNS[int(rng.integers(len(PATTERNS)))], "\\"), negated)
    if op in (Op.IS_NULL, Op.IS_NAN):
        return Leaf(path, op, (), negated)
    count = {Op.IN: int(rng.choice([1, 2, 3, 20])), Op.BETWEEN: 2}.get(op, 1)
    return Leaf(path, op, tuple(one() for _ in range(count)), negated)


def make_predicate(rng: np.random.Generator, made: Made, leaves: int | None = None) -> Any:
    leaves = int(rng.choice([1, 1, 1, 2, 2, 3, 4])) if leaves is None else leaves
    if leaves == 1:
        return make_leaf(rng, made)
    left = int(rng.integers(1, leaves))
    one, other = make_predicate(rng, made, left), make_predicate(rng, made, leaves - left)
    joined = one & other if rng.random() < 0.5 else one | other
    return ~joined if rng.random() < 0.2 else joined


# ---------------------------------------------------------------------- the check


@dataclass
class Tally:
    """Counts the cases of a run, so that a record can state them exactly."""

    tables: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    edges: int = 0
    rows: int = 0


def check_edges(made: Made, tally: Tally) -> Iterator[str]:
    """Yields the errors in comparisons with the smallest and the largest value of each column. Scans use all levels, or
    only the statistics of manifests."""
    table = open_table(made.folder)
    for path, column in made.columns.items():
        for leaf in edges(path, column.ends()):
            wanted = int(made.matching(leaf, "ieee").sum())
            for name, how in (("all levels", nullcontext()), (MANIFESTS, alone(MANIFESTS))):
                with how:
                    found = table.scan([], leaf, jvm_zone="UTC").to_table().num_rows
                if found != wanted:
                    yield f"{name}: {leaf!r} gives {found} rows, not {wanted}"
            tally.edges += 1


def ids_of(path: str) -> np.ndarray:
    read = pyarrow.orc.read_table if path.endswith(".orc") else pyarrow.parquet.read_table
    return read(path, columns=["id"])["id"].to_numpy()


def check(made: Made, predicate: Any, nan: Any, ids: dict[str, np.ndarray], *, dry_run: bool) -> int:
    """Raises ``AssertionError`` unless a delete, a scan and a count find the rows for which the predicate is true.
    Returns the number of these rows."""
    expected = made.matching(predicate, nan)
    table = open_table(made.folder)
    options = ReadOptions(nan=nan)
    plan = plan_delete(table.view, predicate, everything=False, given={"jvm_zone": "UTC"}, options=options)
    found = np.zeros(made.rows, bool)
    for task in plan.tasks:
        path = task.file.file.path
        if path not in ids:
            ids[path] = ids_of(path)
        found[ids[path][task.find().positions]] = True
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), f"a delete removes {found.sum()} rows, not {expected.sum()}: first {wrong[:5]}"
    scan = table.scan(["id"], predicate, jvm_zone="UTC", nan=nan)
    scanned = np.sort(scan.to_table()["id"].to_numpy())
    left = np.flatnonzero(expected & ~made.deleted)
    assert np.array_equal(scanned, left), f"a scan returns {len(scanned)} rows, not {len(left)}"
    assert scan.count_rows() == len(left), "count_rows disagrees"
    mixed = int(expected.sum()) + made.rows + len(repr(predicate))
    if mixed % LEVELLED == 0:
        level = OF_TABLES[mixed // LEVELLED % len(OF_TABLES)]
        for name, how in ((f"without {level}", without(level)), (f"{level} alone", alone(level))):
            with how:
                asked = table.scan(["id"], predicate, jvm_zone="UTC", nan=nan).to_table()["id"].to_numpy()
                assert np.array_equal(np.sort(asked), left), f"{name}: other rows"
    if dry_run and nan == "ieee":
        assert table.delete(predicate, jvm_zone="UTC", dry_run=True).rows == len(left), "a dry run disagrees"
    return int(expected.sum())


def run(count: int, seed: int, tally: Tally, *, seconds: float = float("inf")) -> list[str]:
    """Makes tables and runs ``PREDICATES`` cases on each, until all are done or the time is over. Returns the
    errors."""
    wrong: list[str] = []
    end, number = time.monotonic() + seconds, 0
    while tally.cases < count and time.monotonic() < end:
        rng = np.random.default_rng([seed, number])
        folder = Path(tempfile.mkdtemp())
        try:
            try:
                made = (make_nested if number % 4 == 3 else make_appended)(rng, folder / "t")
            except orcidx.ValueOutOfRange as error:
                if "BSI" not in str(error):  # a BSI cannot store the smallest int64 value, so the append is refused
                    raise
                tally.tables["refused"] += 1
                continue
            tally.tables[" ".join(made.how.split()[:2])] += 1
            ids: dict[str, np.ndarray] = {}
            for text in check_edges(made, tally):
                wrong.append(f"table {number}: {made.how}\n  {text}")
                print(wrong[-1], file=sys.stderr, flush=True)
            for case in range(min(PREDICATES, count - tally.cases)):
                predicate = make_predicate(rng, made)
                if case == PREDICATES // 2 and rng.random() < 0.5:
                    open_table(made.folder).delete(predicate, jvm_zone="UTC")
                    made.deleted |= made.matching(predicate, "ieee")
                nan = "ieee" if rng.random() < 0.6 else "largest"
                try:
                    tally.rows += check(made, predicate, nan, ids, dry_run=case % 10 == 0)
                except (AssertionError, orcidx.OrcidxError) as error:
                    said = f"{repr(predicate)[:600]}\n  {type(error).__name__}: {str(error)[:300]}"
                    wrong.append(f"table {number}: {made.how}\n  nan={nan} {said}")
                    print(wrong[-1], file=sys.stderr, flush=True)
                tally.cases += 1
        finally:
            number += 1
            shutil.rmtree(folder)
    return wrong


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument(
        "--count", type=int, default=20_000, help="the number of cases; each case is a table and a predicate"
    )
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--seconds", type=float, default=float("inf"))
    asked = words.parse_args()
    tally, start = Tally(), time.monotonic()
    wrong = run(asked.count, asked.seed, tally, seconds=asked.seconds)
    print(f"seed {asked.seed}: {tally}, {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
