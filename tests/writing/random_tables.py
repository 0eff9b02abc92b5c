"""Random tables of every Arrow type that can be written, random options for them, and random predicates on them."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from writing.plain_rows import PER_SECOND, plain_decimal

from orcidx.predicate import Leaf, Op

Rng = np.random.Generator
CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
FAR = 9_000_000_000
"""Every reader can return times in nanoseconds if they are at most this number of seconds before or after 1970."""


def integers(rng: Rng, n: int, bits: int, *, signed: bool = True) -> np.ndarray:
    """Returns random integers in one of eight forms: equal, random, sorted, falling, repeated, with outliers, few
    distinct and small. The encoder treats these forms differently."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    form = rng.integers(8)
    if form == 0:
        values = np.full(n, int(rng.integers(low, high, endpoint=True, dtype=dtype)), dtype)
    elif form == 1:
        values = rng.integers(low, high, n, endpoint=True, dtype=dtype)
    elif form == 2:
        values = np.sort(rng.integers(0, 100, n))
    elif form == 3:
        values = np.arange(n)[::-1] * int(rng.integers(1, 5))
    elif form == 4:
        values = np.repeat(rng.integers(0, 9, n), rng.integers(1, 30, n))[:n]
    elif form == 5:
        values = np.where(rng.random(n) < 0.03, high, rng.integers(0, 50, n).astype(dtype))
    elif form == 6:
        values = rng.choice(np.array([low, high, 0, 1, low + 1], dtype), n)
    else:
        values = rng.integers(0, 100, n) - (40 if signed else 0)
    return values.astype(dtype)


def floats(rng: Rng, n: int, type_: Any) -> pa.Array:
    odd = np.array([0.0, -0.0, np.inf, -np.inf, 5e-324, 1.5])
    values = rng.normal(size=n) if rng.random() < 0.5 else rng.choice(odd, n)
    if rng.random() < 0.4:
        values = np.where(rng.random(n) < rng.choice([0.02, 1.0]), np.nan, values)
    with np.errstate(over="ignore"):
        return pa.array(values.astype(type_.to_pandas_dtype()))


def texts(rng: Rng, n: int) -> list[str]:
    form = rng.integers(5)
    if form == 0:
        words = ["", "a", "ß", "𝄞"]
    elif form == 1:
        words = [f"value {i}" for i in range(max(1, n))]
    elif form == 2:
        words = ["x" * 1500 + end for end in ("", "a", "b", "\U0010ffff")] + ["\U0010ffff" * 300, "é" * 600]
    elif form == 3:
        letters = np.array(list(string.printable))
        words = ["".join(rng.choice(letters, int(rng.integers(0, 30)))) for _ in range(50)]
    else:
        words = [f"w{i}" for i in range(int(rng.integers(1, 40)))]
    return [words[i] for i in rng.integers(0, len(words), n)]


def moments(rng: Rng, n: int, unit: str, zone: str | None) -> pa.Array:
    per = PER_SECOND[unit]
    span = int(rng.choice([10, 10**6, FAR]))
    seconds = rng.integers(-span, span, n)
    within = rng.choice([0, 0, 1, per // 10, per - 1, int(rng.integers(0, per))], n)
    within = np.where(seconds == -1, 0, within % per)  # ORC cannot store fractions in the last second before 1970
    return pa.array(seconds * per + within, pa.int64()).cast(pa.timestamp(unit, zone))


def decimals(rng: Rng, n: int, precision: int, scale: int) -> pa.Array:
    size = int(rng.integers(1, precision + 1))
    values = [int("".join(map(str, row))) for row in rng.integers(0, 10, (n, size))]
    values = [value if sign else -value for value, sign in zip(values, rng.random(n) < 0.6)]
    for i, edge in zip(range(min(n, 2)), (10**precision - 1, 1 - 10**precision)):
        values[i] = edge
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(pa.decimal128(precision, scale), n, [None, pa.py_buffer(raw)])


def _decimal(rng: Rng, n: int) -> pa.Array:
    precision = int(rng.choice([1, 5, 12, 18, 19, 30, 38]))
    return decimals(rng, n, precision, int(rng.integers(0, precision + 1)))


SIMPLE: dict[str, Callable[[Rng, int], pa.Array]] = {
    "bool": lambda r, n: pa.array(r.random(n) < r.choice([0, 0.1, 0.5, 1])),
    "int8": lambda r, n: pa.array(integers(r, n, 8)),
    "int16": lambda r, n: pa.array(integers(r, n, 16)),
    "int32": lambda r, n: pa.array(integers(r, n, 32)),
    "int64": lambda r, n: pa.array(integers(r, n, 64)),
    "uint8": lambda r, n: pa.array(integers(r, n, 8, signed=False)),
    "uint16": lambda r, n: pa.array(integers(r, n, 16, signed=False)),
    "uint32": lambda r, n: pa.array(integers(r, n, 32, signed=False)),
    "float16": lambda r, n: floats(r, n, pa.float16()),
    "float32": lambda r, n: floats(r, n, pa.float32()),
    "float64": lambda r, n: floats(r, n, pa.float64()),
    "string": lambda r, n: pa.array(texts(r, n), pa.string()),
    "large_string": lambda r, n: pa.array(texts(r, n), pa.large_string()),
    "string_view": lambda r, n: pa.array(texts(r, n), pa.string_view()),
    "dictionary": lambda r, n: pa.array(texts(r, n), pa.string()).dictionary_encode(),
    "binary": lambda r, n: pa.array([r.bytes(int(k)) for k in r.integers(0, 9, n)], pa.binary()),
    "fixed": lambda r, n: pa.array([r.bytes(5) for _ in range(n)], pa.binary(5)),
    "date32": lambda r, n: pa.array(r.integers(-100_000, 100_000, n).astype(np.int32)).cast(pa.date32()),
    "date64": lambda r, n: pa.array(r.integers(0, 20_000, n).astype(np.int32)).cast(pa.date32()).cast(pa.date64()),
    "decimal": _decimal,
    "decimal64": lambda r, n: decimals(r, n, 15, 3).cast(pa.decimal64(15, 3)),
    "decimal256": lambda r, n: decimals(r, n, 38, 9).cast(pa.decimal256(38, 9)),
    "runs": lambda r, n: pc.run_end_encode(with_nulls(r, pa.array(integers(r, n, 64)))),
    "seconds": lambda r, n: moments(r, n, "s", None),
    "millis": lambda r, n: moments(r, n, "ms", None),
    "micros": lambda r, n: moments(r, n, "us", None),
    "nanos": lambda r, n: moments(r, n, "ns", None),
    "instant": lambda r, n: moments(r, n, "us", "UTC"),
}


def random_array(rng: Rng, n: int, depth: int) -> pa.Array:
    """Returns a column that is nested up to ``depth`` levels. Half of the columns are slices of longer columns."""
    before, behind = (int(rng.integers(0, 20)), int(rng.integers(0, 20))) if rng.random() < 0.5 else (0, 0)
    whole = _array(rng, before + n + behind, depth)
    return whole.slice(before, n)


def _array(rng: Rng, n: int, depth: int) -> pa.Array:
    nests = depth > 0 and rng.random() < 0.4
    if nests:
        form = rng.choice(["list", "large_list", "list_view", "fixed_list", "map", "struct", "struct"])
        return _nested(rng, n, depth, form)
    name = str(rng.choice(list(SIMPLE)))
    return with_nulls(rng, SIMPLE[name](rng, n))


def null_mask(rng: Rng, n: int) -> np.ndarray | None:
    form = rng.integers(6)
    if form < 2:
        return None
    if form == 2:
        return np.ones(n, bool)
    if form == 3:
        return (np.arange(n) // int(rng.integers(1, 150))) % 2 == 1
    return rng.random(n) < rng.choice([0.02, 0.5, 0.97])


def with_nulls(rng: Rng, array: pa.Array) -> pa.Array:
    mask = null_mask(rng, len(array))
    if mask is None or pa.types.is_run_end_encoded(array.type):
        return array
    if pa.types.is_dictionary(array.type):
        indices = pc.if_else(pa.array(mask), pa.scalar(None, array.indices.type), array.indices)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    if array.type == pa.string_view():
        return pc.if_else(pa.array(mask), None, array.cast(pa.string())).cast(pa.string_view())
    if array.type == pa.float16():
        return pa.array(array.to_numpy(zero_copy_only=False).astype(np.float16), mask=mask)
    return pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)


def _nested(rng: Rng, n: int, depth: int, form: str) -> pa.Array:
    mask = null_mask(rng, n)
    holes = None if mask is None else pa.array(mask)
    if form == "struct":
        names = [f"f{i}" for i in range(int(rng.integers(1, 4)))]
        return pa.StructArray.from_arrays([random_array(rng, n, depth - 1) for _ in names], names, mask=holes)
    if form == "fixed_list":
        size = int(rng.integers(1, 4))
        return pa.FixedSizeListArray.from_arrays(random_array(rng, n * size, depth - 1), size, mask=holes)
    lengths = rng.integers(0, int(rng.choice([1, 4, 20])) + 1, n)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    items = random_array(rng, int(bounds[-1]), depth - 1)
    if form == "map":
        keys = pa.array([f"k{i}" for i in range(len(items))], pa.string())  # the type is string even without items
        return pa.MapArray.from_arrays(pa.array(bounds.astype(np.int32)), keys, items, mask=holes)
    if form == "list_view":
        starts = rng.permutation(n)  # the values are not stored in the order of the rows
        begins, sizes = (pa.array(numbers[starts].astype(np.int32)) for numbers in (bounds[:-1], lengths))
        return pa.ListViewArray.from_arrays(begins, sizes, items, mask=holes)
    if form == "large_list":
        return pa.LargeListArray.from_arrays(pa.array(bounds), items, mask=holes)
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), items, mask=holes)


def random_table(rng: Rng, rows: int, columns: int) -> pa.Table:
    """Returns a table in random chunks. The first column has the row numbers, so tests can find missing rows."""
    arrays = {"row": pa.array(np.arange(rows))}
    for i in range(columns):
        arrays[f"c{i}"] = random_array(rng, rows, 2)
    table = pa.table(arrays)
    cuts = sorted({0, rows, *rng.integers(0, rows + 1, int(rng.integers(0, 4))).tolist()})
    parts = [table.slice(start, stop - start) for start, stop in itertools.pairwise(cuts)]
    return pa.concat_tables(parts) if parts else table


def random_options(rng: Rng, table: pa.Table) -> dict[str, Any]:
    names = [name for name in table.schema.names if not pa.types.is_nested(table.schema.field(name).type)]
    names = [name for name in names if table.schema.field(name).type != pa.bool_()]
    options: dict[str, Any] = {
        "compression": str(rng.choice(CODECS)),
        "compression_block_size": int(rng.choice([1 << 10, 1 << 12, 1 << 18])),
        "row_index_stride": int(rng.choice([1, 7, 100, 1000, 10_000], p=[0.05, 0.1, 0.5, 0.25, 0.1])),
        "stripe_size": int(rng.choice([1 << 12, 1 << 16, 64 << 20])),
        "dictionary_key_size_threshold": ["auto", 0, 0.5, 1][int(rng.integers(4))],
        "bloom_filter_columns": [name for name in names if rng.random() < 0.5],
        "bloom_filter_fpp": float(rng.choice([0.001, 0.05, 0.5])),
        "use_threads": bool(rng.random() < 0.5),
    }
    if options["compression"] in ("zlib", "zstd") and rng.random() < 0.5:
        options["compression_level"] = int(rng.integers(1, 10))
    return options


# ---------------------------------------------------------------------- predicates


def comparable_column(array: Any) -> tuple[str, Any] | None:
    """Returns the type of a search argument and the values for comparisons. Returns None if the column cannot be
    compared."""
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if types.is_run_end_encoded(kind):
        array, kind = pc.run_end_decode(array), kind.value_type
    if kind == pa.float16():
        array = array.cast(pa.float32())
    if types.is_boolean(kind):
        return "BOOLEAN", array.to_pylist()
    if types.is_integer(kind):
        return "LONG", array.to_pylist()
    if types.is_floating(kind):
        return "FLOAT", array.to_pylist()
    if types.is_decimal(kind):
        return "DECIMAL", array.to_pylist()
    if str(kind) in ("string", "large_string", "string_view"):
        return "STRING", array.to_pylist()
    if types.is_date32(kind) or types.is_date64(kind):
        return "DATE", array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if types.is_timestamp(kind):
        factor = 10**9 // PER_SECOND[kind.unit]
        values = array.cast(pa.int64()).to_pylist()
        return "TIMESTAMP", [None if value is None else value * factor for value in values]
    return None


def random_leaf(rng: Rng, name: str, kind: str, values: list[Any]) -> Leaf:
    """Returns a random leaf. Its literals are values of the column, and values near them."""
    here = [value for value in values if value is not None and value == value]
    op = [Op.EQ, Op.EQ, Op.LT, Op.LE, Op.IN, Op.BETWEEN, Op.IS_NULL][int(rng.integers(7))]
    if op is Op.IS_NULL or not here:
        return Leaf((name,), Op.IS_NULL, (), bool(rng.random() < 0.3))
    count = {Op.IN: 3, Op.BETWEEN: 2}.get(op, 1)
    literals = [_near(rng, kind, here[int(rng.integers(len(here)))]) for _ in range(count)]
    return Leaf((name,), op, tuple(sorted(literals)), bool(rng.random() < 0.25))


def _near(rng: Rng, kind: str, value: Any) -> Any:
    if rng.random() < 0.6:
        return value
    if kind == "LONG":
        return max(min(value + int(rng.integers(-2, 3)), (1 << 63) - 1), -(1 << 63))
    if kind == "FLOAT":
        return -value if rng.random() < 0.5 else float(np.nextafter(value, np.inf))
    if kind == "STRING":
        return value[:-1] if rng.random() < 0.5 else value + "a"
    if kind in ("DATE", "TIMESTAMP"):
        return value + int(rng.choice([-1, 1, -(10**6), 10**6] if kind == "TIMESTAMP" else [-1, 1]))
    return value


def java_question(leaf: Leaf, kind: str) -> str:
    """Returns the leaf as a line of text that ``OrcRows.java`` can evaluate."""
    op = {Op.EQ: "=", Op.LT: "<", Op.LE: "<=", Op.IN: "in", Op.BETWEEN: "between", Op.IS_NULL: "null"}[leaf.op]
    literals = [_java_literal(value, kind) for value in leaf.literals]
    return "\t".join(("where", leaf.path[0], ("!" if leaf.negated else "") + op, kind, *literals))


def _java_literal(value: Any, kind: str) -> str:
    if kind == "FLOAT":
        return f"{int(np.array(value, np.float64).view(np.uint64)):x}"
    if kind == "STRING":
        return str(value.encode().hex())
    if kind == "BOOLEAN":
        return str(int(value))
    return plain_decimal(value) if isinstance(value, Decimal) else str(value)


def matching(leaf: Leaf, values: list[Any]) -> list[int]:
    """Returns the rows for which the leaf is TRUE. Python compares the values, so a comparison with NaN is FALSE."""
    found = []
    for row, value in enumerate(values):
        answer = _is_true(leaf, value)
        if answer is not None and answer is not leaf.negated:
            found.append(row)
    return found


def _is_true(leaf: Leaf, value: Any) -> bool | None:
    if leaf.op is Op.IS_NULL:
        return value is None
    if value is None:
        return None
    if isinstance(value, str):
        value, literals = value.encode(), [text.encode() for text in leaf.literals]
    else:
        literals = list(leaf.literals)
    if leaf.op is Op.IN:
        return value in literals
    if leaf.op is Op.BETWEEN:
        return bool(literals[0] <= value <= literals[1])
    return {Op.EQ: value == literals[0], Op.LT: value < literals[0], Op.LE: value <= literals[0]}[leaf.op]
