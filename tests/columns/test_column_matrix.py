"""Columns of every type, null pattern, nesting, encoding and framing are read in pieces, with skips and seeks back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from columns.column_encoder import Encoded, Layout, Stored, encode_column, expected_array, node, numbered

from orcidx.orc.column_readers import ColumnReader
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import OrcType

ROWS = 90

WORDS = ("", "a", "Oslo", "Köln", "東京", "x" * 17, "tail ", "\U0001f600 smile", "y" * 40)
LAYOUTS = {
    "v1": Layout(version=1),
    "v2": Layout(version=2, keep_present=True),
    "v1 chunks": Layout(version=1, framing="MIXED", chunk=5, piece=11),
    "v2 chunks": Layout(version=2, framing="ZLIB", chunk=3, keep_present=True),
    "v2 pieces": Layout(version=2, framing="NONE", piece=3, stride=13),
}


def integers(bits: int) -> Callable[[Random], int]:
    def make(random: Random) -> int:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return random.choice((0, 1, 7, 7, 7, low, high, random.randint(low, high), random.randint(-9, 9)))

    return make


def decimals(digits: int) -> Callable[[Random], Stored]:
    def make(random: Random) -> Stored:
        scale = random.choice((0, 1, 2, 2, 2))  # writers strip trailing zeros
        most = 10 ** (digits - 2 + scale) - 1
        number = random.choice((0, 1, -1, most, -most, random.randint(-most, most), random.randint(-99, 99)))
        return Stored(number, scale)

    return make


def timestamps(random: Random) -> Stored:
    seconds = random.choice((0, 1, -1420070400, 77, random.randint(-3_000_000_000, 5_000_000_000)))
    return Stored(seconds, random.choice((0, 0, 8, random.randrange(10**9) << 3, 9 << 3 | 7)))


def texts(random: Random) -> str:
    return random.choice(WORDS)


def blobs(random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 3, 16, 40)))


LEAVES: dict[str, tuple[OrcType, Callable[[Random], Any]]] = {
    "boolean": (node(TypeKind.BOOLEAN), lambda random: random.random() < 0.4),
    "byte": (node(TypeKind.BYTE), integers(8)),
    "short": (node(TypeKind.SHORT), integers(16)),
    "int": (node(TypeKind.INT), integers(32)),
    "long": (node(TypeKind.LONG), integers(64)),
    "float": (node(TypeKind.FLOAT), lambda random: random.choice((0.0, -0.0, 1.5, -2.25, float("inf")))),
    "double": (node(TypeKind.DOUBLE), lambda random: random.choice((0.0, -0.0, 1e300, random.random()))),
    "string": (node(TypeKind.STRING), texts),
    "char": (node(TypeKind.CHAR, max_length=40), texts),
    "varchar": (node(TypeKind.VARCHAR, max_length=40), texts),
    "binary": (node(TypeKind.BINARY), blobs),
    "geometry": (node(TypeKind.GEOMETRY), blobs),
    "geography": (node(TypeKind.GEOGRAPHY), blobs),
    "date": (node(TypeKind.DATE), integers(32)),
    "timestamp": (node(TypeKind.TIMESTAMP), timestamps),
    "instant": (node(TypeKind.TIMESTAMP_INSTANT), timestamps),
    "decimal 12": (node(TypeKind.DECIMAL, precision=12, scale=2), decimals(12)),
    "decimal 18": (node(TypeKind.DECIMAL, precision=18, scale=2), decimals(18)),
    "decimal 38": (node(TypeKind.DECIMAL, precision=38, scale=2), decimals(38)),
}

NULLS: dict[str, Callable[[int], bool]] = {
    "none": lambda row: False,
    "every 5th": lambda row: row % 5 == 2,
    "all": lambda row: True,
    "halves": lambda row: row >= ROWS // 2,
}

Values = list[Any]


def plain(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    return leaf, values


def in_struct(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    """Puts the values into a struct in a struct. Both are sometimes null, and both have a second field."""
    inner = node(TypeKind.STRUCT, leaf, node(TypeKind.BYTE), names=("x", "n"))
    rows: Values = []
    for row, value in enumerate(values):
        deep = None if row % 7 == 3 else {"x": value, "n": row % 100}
        rows.append(None if row % 11 == 5 else {"s": deep})
    return node(TypeKind.STRUCT, inner, names=("s",)), rows


def in_list(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    return node(TypeKind.LIST, leaf), _cut(values, random)


def in_lists(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    """Puts the values into lists of structs of lists."""
    inner = [None if random.random() < 0.1 else {"l": items} for items in _cut(values, random)]
    return node(TypeKind.LIST, node(TypeKind.STRUCT, node(TypeKind.LIST, leaf), names=("l",))), _cut(inner, random)


def in_map(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    pairs = [(f"k{number % 4}", value) for number, value in enumerate(values)]
    return node(TypeKind.MAP, node(TypeKind.STRING), leaf), _cut(pairs, random)


def in_union(leaf: OrcType, values: Values, random: Random) -> tuple[OrcType, Values]:
    rows: Values = []
    for row, value in enumerate(values):
        other = (0, None if row % 9 == 1 else row)
        rows.append(None if row % 13 == 6 else (1, value) if random.random() < 0.6 else other)
    return node(TypeKind.UNION, node(TypeKind.LONG), leaf), rows


NESTINGS = {
    "plain": plain,
    "struct": in_struct,
    "list": in_list,
    "lists": in_lists,
    "map": in_map,
    "union": in_union,
}


def _cut(values: Values, random: Random) -> Values:
    """Cuts the values into lists of 0 to 4 elements, with null lists in between. There are about as many lists as
    values."""
    rows: Values = []
    at = 0
    while at < len(values):
        size = random.choice((0, 0, 1, 1, 2, 4))
        rows.append(values[at : at + size])
        at += size
        if random.random() < 0.15:
            rows.append(None)
    return rows


def build(leaf: str, nulls: str, nesting: str, layout: Layout) -> tuple[Encoded, Values]:
    column, make = LEAVES[leaf]
    random = Random(f"{leaf} {nulls} {nesting}")
    values = [None if NULLS[nulls](row) else make(random) for row in range(ROWS)]
    root, rows = NESTINGS[nesting](column, values, random)
    root = numbered(root)
    return encode_column(root, rows, layout, writer_timezone="UTC"), rows


def truth(encoded: Encoded, rows: Values, reader: ColumnReader) -> pa.Array:
    return expected_array(encoded.node, in_arrow_form(encoded.node, rows), reader.arrow_type)


def in_arrow_form(column: OrcType, values: Sequence[Any]) -> Values:
    """Returns timestamps as nanoseconds since 1970, and other values unchanged."""
    if column.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return [None if value is None else nanoseconds(value) for value in values]
    if column.kind is TypeKind.STRUCT:
        columns = {
            name: iter(in_arrow_form(child, [value[name] for value in values if value is not None]))
            for name, child in zip(column.names, column.children)
        }
        return [None if value is None else {name: next(found) for name, found in columns.items()} for value in values]
    if column.kind is TypeKind.LIST:
        return [None if value is None else in_arrow_form(column.children[0], value) for value in values]
    if column.kind is TypeKind.MAP:
        keys, items = column.children
        return [
            None
            if value is None
            else list(zip(in_arrow_form(keys, [k for k, _ in value]), in_arrow_form(items, [v for _, v in value])))
            for value in values
        ]
    if column.kind is TypeKind.UNION:
        return [
            None if value is None else (value[0], in_arrow_form(column.children[value[0]], [value[1]])[0])
            for value in values
        ]
    return list(values)


def nanoseconds(stored: Stored) -> int:
    """Returns the nanoseconds since 1970 of a stored timestamp, in the zone UTC. They are computed by ORC's rule with
    Python integers."""
    second, fraction, zeros = stored.first + 1420070400, stored.second >> 3, stored.second & 7
    if zeros:
        fraction *= 10 ** (zeros + 1)
    if second < 0 and fraction > 999999:
        second -= 1
    return second * 10**9 + fraction


def check(found: pa.Array, expected: pa.Array) -> None:
    found.validate(full=True)
    assert found.type == expected.type
    assert found.equals(expected), f"\n{found}\n{expected}"
    if not pa.types.is_union(found.type):
        assert found.null_count == expected.null_count


def read_in_pieces(encoded: Encoded, rows: Values, size: int) -> None:
    reader = encoded.open()
    expected = truth(encoded, rows, reader)
    for start in range(0, len(rows), size):
        check(reader.read(min(size, len(rows) - start)), expected.slice(start, size))


def skip_at_random(encoded: Encoded, rows: Values) -> None:
    reader = encoded.open()
    expected = truth(encoded, rows, reader)
    random, row = Random(len(rows)), 0
    while row < len(rows):
        for _ in range(random.randint(0, 2)):
            step = min(random.choice((0, 1, 2, 9)), len(rows) - row)
            reader.skip(step)
            row += step
        step = min(random.choice((0, 1, 4, 15)), len(rows) - row)
        check(reader.read(step), expected.slice(row, step))
        row += step


def seek_backwards(encoded: Encoded, rows: Values) -> None:
    reader = encoded.open()
    expected = truth(encoded, rows, reader)
    stride = encoded.layout.stride
    for group in reversed(range(len(encoded.entries[1]))):
        start = group * stride
        reader.skip(3)  # has no effect on the seek that follows
        reader.seek(encoded.positions(group))
        reader.skip(2)
        rest = min(stride + 3, len(rows) - start - 2)
        if rest > 0:
            check(reader.read(rest), expected.slice(start + 2, rest))


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_every_value_comes_back(leaf: str, nesting: str) -> None:
    for number, nulls in enumerate(NULLS):
        for turn, layout in enumerate(LAYOUTS.values()):
            if nesting != "plain" and (number + turn) % 2:
                continue
            encoded, rows = build(leaf, nulls, nesting, layout)
            for size in (1, 7, len(rows)) if nesting == "plain" else (5, len(rows)):
                read_in_pieces(encoded, rows, size)
            skip_at_random(encoded, rows)
            seek_backwards(encoded, rows)


def variants() -> list[tuple[str, Layout]]:
    dictionary = [
        (leaf, Layout(version=version, dictionary=True, framing=framing, chunk=4))
        for leaf in ("string", "char", "varchar")
        for version in (1, 2)
        for framing in ("NONE", "MIXED")
    ]
    narrow = [
        (leaf, Layout(version=version, decimal64=True))
        for leaf in ("decimal 12", "decimal 18", "decimal 38")
        for version in (1, 2)
    ]
    return dictionary + narrow


@pytest.mark.parametrize(("leaf", "layout"), variants())
def test_other_encodings(leaf: str, layout: Layout) -> None:
    for nesting in NESTINGS:
        for nulls in NULLS:
            encoded, rows = build(leaf, nulls, nesting, layout)
            read_in_pieces(encoded, rows, 9)
            skip_at_random(encoded, rows)
            seek_backwards(encoded, rows)
