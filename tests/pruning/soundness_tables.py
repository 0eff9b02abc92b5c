"""Random tables of every type, with blocks of rows that indexes can distinguish, and the oracle, which evaluates
predicates on them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from predicate_oracle import meaning_of, truth
from predicate_strategies import COMPARISONS, INTS, MOMENTS, NUMBERS, STAMPS, column
from predicate_strategies import KINDS as SHARED_KINDS
from pruning.converted_values import CONVERTED, FULL, LENGTH, NARROW, unconverted

from orcidx.predicate import And, External, Leaf, Op, Or

LONG = ["x" * 1500 + "a", "x" * 1500 + "b", "é" * 700, "\U0001f600" * 400, "\uffff" * 500]
LONG += ["x" * 1024, "x" * 1023 + "y", "é" * 512, "é" * 511 + "ê", "\U0010ffff" * 300, "\ufffe" * 400, "x\ufffdy"]
"""Java stores cut bounds of 1,024 bytes for these texts. Some cut bounds are values of the column, and some are not
valid UTF-8."""
LONG_LITERALS = [*LONG, "x" * 1024, "x" * 1023 + "y", "é" * 512, "\U0001f600" * 256, "\U0001f600" * 255 + "\U0001f601"]
OLD_DAYS = [datetime.date(1, 1, 3), datetime.date(1500, 2, 28), datetime.date(1582, 10, 4), datetime.date(1582, 10, 15)]
HALF_SECONDS = [-1_500_000_000, -500_000_000, 500_000_000, -86_400 * 10**9 - 250_000_000, -3 * 10**17 - 999_000]
AWARE = [m.replace(tzinfo=datetime.UTC) for m in MOMENTS if isinstance(m, datetime.datetime)]
STAMP_LITERALS = [np.datetime64(value, "ns") for value in (*STAMPS, *HALF_SECONDS)]
KINDS = SHARED_KINDS | {
    f"int{bits}": (
        pa.from_numpy_dtype(f"int{bits}"),
        [x for x in (*INTS, 4464, -(1 << bits - 1), (1 << bits - 1) - 1) if -(1 << bits - 1) <= x < 1 << bits - 1],
        [*NUMBERS, 4464, 70_000, (1 << 32) + 5, 1 << bits - 1, -(1 << bits - 1)],
        [Op.IS_NAN],
    )
    for bits in NARROW.values()
}
KINDS["varchar"] = KINDS["string"]
ORC_TYPES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float64": "double",
    "float32": "float", "decimal": "decimal(10,2)", "wide": "decimal(38,2)", "string": "string",
    "char": f"char({LENGTH})", "varchar": f"varchar({LENGTH})", "binary": "binary", "bool": "boolean",
    "date": "date", "timestamp": "timestamp", "instant": "timestamp with local time zone",
}  # fmt: skip
NAMES = tuple(ORC_TYPES)
TEXT_TYPES = ("char", "varchar")
"""Text types that pyarrow and Spark cannot write."""
INSTANT = pa.timestamp("ns", "UTC")


def arrow_type(name: str) -> pa.DataType:
    return INSTANT if name == "instant" else KINDS[name][0]


def meaning_type(name: str) -> Any:
    """Returns the type in the form that the oracle takes."""
    return ("char", LENGTH) if name == "char" else arrow_type(name)


def values_of(name: str) -> list[Any]:
    if name in ("timestamp", "instant"):
        return [*STAMPS, *HALF_SECONDS]
    extra = {"string": LONG, "date": OLD_DAYS, "char": FULL, "varchar": FULL}.get(name, [])
    return [*KINDS[name][1], *extra]


def literals_of(name: str) -> list[Any]:
    if name == "instant":
        return AWARE
    cut = [*FULL, *(text + "x" for text in FULL)]
    texts = {"string": LONG_LITERALS, "char": cut, "varchar": cut}
    extra = {**texts, "date": OLD_DAYS, "timestamp": STAMP_LITERALS}.get(name, [])
    return [*KINDS[name][2], *extra]


def operators_of(name: str) -> list[Op]:
    extra = [] if name == "instant" else KINDS[name][3]
    return [*COMPARISONS, Op.EQ, Op.IN, Op.BETWEEN, Op.IS_NULL, *extra]


def array_of(name: str, values: list[Any]) -> pa.Array:
    if name == "instant":
        return pa.array(values, pa.int64()).cast(INSTANT)
    return (
        pa.array(values, arrow_type(name))
        if name in NARROW
        else column("string" if name == "varchar" else name, values)
    )


@dataclass(frozen=True)
class Column:
    """``codes[row]`` is an index into ``pool`` and into ``given``, the values that the writer gets. The last value of
    ``pool`` is None."""

    name: str
    pool: list[Any]
    codes: np.ndarray
    given: list[Any] | None = None

    def extremes(self) -> list[Any]:
        """Returns the smallest and largest value as literals. The list is empty for types without an order or without
        literals."""
        if not self.name.startswith("int") and self.name not in ("date", "string"):
            return []
        found = sorted({self.pool[code] for code in np.unique(self.codes).tolist()} - {None})
        return [found[0], found[-1]] if found else []

    def array(self) -> pa.Array:
        indices = pa.array(self.codes, mask=self.codes == len(self.pool) - 1)
        return array_of(self.name, self.pool[:-1]).take(indices)


@dataclass(frozen=True)
class Table:
    """Columns by path: (name,), or ("s", name) in the struct ``s``. The struct is null in rows where ``no_struct`` is
    True."""

    columns: dict[tuple[str, ...], Column]
    no_struct: np.ndarray
    rows: int

    def arrow(self) -> pa.Table:
        arrays = {path[0]: item.array() for path, item in self.columns.items() if len(path) == 1}
        if inner := {path[1]: item.array() for path, item in self.columns.items() if len(path) == 2}:
            fields = [pa.field(name, array.type) for name, array in inner.items()]
            arrays["s"] = pa.StructArray.from_arrays(list(inner.values()), fields=fields, mask=pa.array(self.no_struct))
        lists = pa.array([[row] * (row % 3) if row % 5 else None for row in range(self.rows)], pa.list_(pa.int64()))
        return pa.table({"before": lists, **arrays})

    def matching(self, predicate: Any, nan: str) -> np.ndarray:
        """Returns for which rows the predicate is TRUE. The oracle evaluates each distinct value only once."""
        return self._truth(predicate, nan) == 1

    def _truth(self, predicate: Any, nan: str) -> np.ndarray:
        if isinstance(predicate, (And, Or)):
            parts = np.stack([self._truth(child, nan) for child in predicate.children])
            # FALSE is 0, NULL 0.5 and TRUE 1. So AND is the minimum and OR the maximum.
            return parts.min(axis=0) if isinstance(predicate, And) else parts.max(axis=0)
        if isinstance(predicate, External):
            return self._compared(predicate, nan)
        assert isinstance(predicate, Leaf)
        item = self.columns[predicate.path]
        schema = {predicate.path: meaning_type(item.name)}
        answers = [truth(predicate, lambda _, value=value: value, schema, nan) for value in item.pool]
        return np.array([0.5 if answer is None else float(answer) for answer in answers])[item.codes]

    def _compared(self, predicate: External, nan: str) -> np.ndarray:
        """Evaluates a computed comparison once for each combination of values that occurs in a row."""
        paths = meaning_of(predicate).paths
        codes = np.stack([self.columns[path].codes for path in paths], axis=1)
        pairs, places = np.unique(codes, axis=0, return_inverse=True)
        answers = []
        for pair in pairs.tolist():
            row = {path: self.columns[path].pool[code] for path, code in zip(paths, pair)}
            answer = truth(predicate, row.__getitem__, {}, nan)
            answers.append(0.5 if answer is None else float(answer))
        return np.array(answers)[places.reshape(-1)]


def make_column(rng: np.random.Generator, name: str, rows: int, *, micros: bool, converted: bool = False) -> Column:
    """Makes a column of blocks that indexes can exclude. A block has one value, neighbouring values, all values, or
    only nulls."""
    pool = values_of(name)
    if micros and name in ("timestamp", "instant"):
        # Writers lose the sign of a time in the last second before 1970.
        pool = sorted({value // 1000 * 1000 for value in pool if not -(10**9) < value < 0})
    pool = pool if name in ("float64", "float32") else sorted(pool)
    codes = np.empty(rows, np.int64)
    at = 0
    while at < rows:
        size = int(rng.integers(1, max(2, rows // 3)))
        part = codes[at : at + size]
        first = int(rng.integers(len(pool)))
        width = int(rng.choice([1, 1, 2, 4, len(pool)]))
        part[:] = np.minimum(first + rng.integers(0, width, len(part)), len(pool) - 1)
        part[rng.random(len(part)) < rng.choice([0, 0, 0, 0.1, 0.6, 1])] = len(pool)
        at += size
    converts = converted and name in CONVERTED
    given = [*(unconverted(name, value, rng) for value in pool), None] if converts else None
    return Column(name, [*pool, None], codes, given)


def make_table(
    rng: np.random.Generator, rows: int, names: tuple[str, ...], *, micros: bool, converted: bool = False
) -> Table:
    chosen = [str(name) for name in rng.permutation(names)[: int(rng.integers(3, 8))]]
    columns = {(name,): make_column(rng, name, rows, micros=micros, converted=converted) for name in chosen}
    inner = [str(name) for name in rng.permutation([name for name in names if name not in TEXT_TYPES])[:2]]
    none = np.repeat(rng.random(-(-rows // 40)) < 0.3, 40)[:rows] | (rng.random(rows) < 0.02)
    for name in inner:
        made = make_column(rng, name, rows, micros=micros, converted=converted)
        columns["s", name] = replace(made, codes=np.where(none, len(made.pool) - 1, made.codes))
    return Table(columns, none, rows)
