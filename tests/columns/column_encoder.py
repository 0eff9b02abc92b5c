"""Encodes Python values of any type tree as ORC columns in memory: streams, encodings and row-index positions.

``encode_column`` is the writer that the readers are tested against. It follows the format's specification only: which
streams a type has, which rows each stream covers, and what a row-index entry holds.

Values: None; bool, int, float, str (written as UTF-8), bytes; ``Stored`` for a decimal or timestamp, with the two
numbers that the streams hold; dicts by field name for structs; lists; lists of pairs for maps; ``(tag, value)`` for
unions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
from streams.encoders import (
    Run,
    Stream,
    delta,
    direct,
    encode_bytes,
    fixed_delta,
    pack,
    short_repeat,
    v1_literals,
    v1_run,
    varint,
    zigzag,
)
from streams.framing import Chopped, chop

from orcidx.options import ReadOptions
from orcidx.orc.column_readers import ColumnReader, Limits, open_column
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import CompressionKind, EncodingKind, StreamKind, TypeKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.streams import PositionIterator
from orcidx.orc.types import OrcType
from orcidx.orc.window import Window

INTEGERS = {TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DATE}
TEXTS = {TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR}
BLOBS = TEXTS | {TypeKind.BINARY, TypeKind.GEOMETRY, TypeKind.GEOGRAPHY}
TIMES = {TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT}
PLENTY = 1 << 30


@dataclass(frozen=True)
class Stored:
    """The two stored numbers of a decimal (unscaled, scale) or a timestamp (seconds since 2015, coded nanoseconds)."""

    first: int
    second: int


@dataclass(frozen=True)
class Layout:
    """How columns are written. ``stride``: rows of a row group. ``chunk``: bytes of a compression chunk. ``piece``:
    bytes that the storage delivers at a time. ``keep_present``: write a PRESENT stream even if no value is null."""

    version: int = 2
    dictionary: bool = False
    decimal64: bool = False
    keep_present: bool = False
    framing: str = "NONE"
    chunk: int = 64
    piece: int | None = None
    stride: int = 7
    seed: int = 1


def node(kind: TypeKind, *children: OrcType, names: Sequence[str] = (), **more: Any) -> OrcType:
    """Returns a type without column ids and paths, which ``numbered`` fills in."""
    default = {TypeKind.LIST: ("item",), TypeKind.MAP: ("key", "value")}.get(kind)
    named = tuple(names) or default or tuple(f"f{i}" for i in range(len(children)))
    return OrcType(id=-1, kind=kind, children=children, names=named, **more)


def numbered(root: OrcType, *, first: int = 1, path: tuple[str, ...] = ("c",)) -> OrcType:
    """Returns the tree with column ids in pre-order, which start at ``first``."""
    children, following = [], first + 1
    for name, child in zip(root.names, root.children, strict=True):
        children.append(numbered(child, first=following, path=(*path, name)))
        following += len(child.ids) if -1 not in child.ids else sum(1 for _ in child.walk())
    return replace(root, id=first, path=path, children=tuple(children))


# --- streams --------------------------------------------------------------------------------------------------------


def encode_integers(values: Sequence[int], *, version: int, signed: bool, random: Random) -> Stream:
    """Encodes integers as runs. The form of each run is chosen at random among those that can hold the values."""
    runs: list[Run] = []
    at = 0
    while at < len(values):
        rest = values[at : at + random.choice((1, 2, 5, 20, 130))]
        run = _repeat(rest, version=version, signed=signed) or _ascent(rest, version=version, signed=signed)
        if run is None or random.random() < 0.3:
            run = v1_literals(rest[:128], signed=signed) if version == 1 else direct(rest, signed=signed)
        runs.append(run)
        at += len(run.values)
    return Stream(tuple(runs))


def _repeat(values: Sequence[int], *, version: int, signed: bool) -> Run | None:
    same = next((i for i, value in enumerate(values) if value != values[0]), len(values))
    if same < 3:
        return None
    if version == 1:
        return v1_run(values[0], 0, min(same, 130), signed=signed)
    if same <= 10:
        return short_repeat(values[0], same, signed=signed)
    return fixed_delta(values[0], 0, same, signed=signed)


def _ascent(values: Sequence[int], *, version: int, signed: bool) -> Run | None:
    steps = [b - a for a, b in pairwise(values)]
    if version == 1 or len(values) < 3 or any(step < 0 for step in steps) or max(steps) >> 62:
        return None
    return delta(values[0], steps[0], steps[1:], signed=signed)


@dataclass
class _Written:
    """A stream, and the position of each of its values. A position has the numbers of a row-index entry without the
    byte offset."""

    data: bytes
    places: list[tuple[int, ...]]


def _runs(stream: Stream, count: int) -> _Written:
    return _Written(stream.data, [stream.place(i) for i in range(count + 1)])


def _bits(values: Sequence[bool]) -> _Written:
    stream = encode_bytes(pack(map(int, values), 1))
    return _Written(stream.data, [(*stream.place(i // 8), i % 8) for i in range(len(values) + 1)])


def _raw(items: Iterable[bytes]) -> _Written:
    data, places = bytearray(), [(0,)]
    for item in items:
        data += item
        places.append((len(data),))
    return _Written(bytes(data), places)


# --- columns --------------------------------------------------------------------------------------------------------


@dataclass
class Encoded:
    """A column in memory. It implements ``StripeStreams``, from which the readers read. ``positions(group)`` returns
    positions to seek to."""

    node: OrcType
    layout: Layout
    rows: int
    streams: dict[tuple[int, int], Chopped] = field(default_factory=dict)
    encodings: dict[int, ColumnEncoding] = field(default_factory=dict)
    entries: dict[int, list[list[int]]] = field(default_factory=dict)
    writer_timezone: str | None = None
    limits: Limits = field(default_factory=lambda: Limits(PLENTY))
    dictionaries: frozenset[int] = frozenset()

    def window(self, column: int, kind: StreamKind) -> Window:
        found = self.streams.get((column, kind))
        return (found or chop(b"", 1, self.layout.framing)).window(StreamKind(kind).name)

    def has(self, column: int, kind: StreamKind) -> bool:
        return (column, kind) in self.streams

    def encoding(self, column: int) -> ColumnEncoding:
        return self.encodings[column]

    def positions(self, group: int) -> Mapping[int, PositionIterator]:
        return {column: PositionIterator(entries[group]) for column, entries in self.entries.items()}

    def open(self, *, exact_times: bool = False, hybrid: bool = False, **options: Any) -> ColumnReader:
        facts = FileFacts(
            writer=0,
            writer_version=9,
            software_version="",
            compression=CompressionKind.NONE if self.layout.framing == "NONE" else CompressionKind.ZLIB,
            block_size=1 << 18,
            row_index_stride=self.layout.stride,
            hybrid_calendar=hybrid,
            decimal64=self.layout.decimal64,
        )
        return open_column(self.node, self, ReadOptions(**options), file=facts, exact_times=exact_times)

    def read(self, **options: Any) -> pa.Array:
        """Reads all rows at once."""
        return self.open(**options).read(self.rows)


def encode_column(root: OrcType, values: Sequence[Any], layout: Layout = Layout(), **more: Any) -> Encoded:
    """Encodes ``values``, one per row, as a column. ``more``: further fields of ``Encoded``."""
    encoded = Encoded(root, layout, len(values), **more)
    _Writer(encoded, Random(layout.seed)).write(root, list(values), list(range(0, len(values), layout.stride)))
    return encoded


class _Writer:
    def __init__(self, encoded: Encoded, random: Random) -> None:
        self.out = encoded
        self.layout = encoded.layout
        self.random = random

    def write(self, column: OrcType, values: list[Any], marks: list[int]) -> None:
        """Writes one column. ``marks``: the number of this column's rows before each row group."""
        present = [value is not None for value in values]
        dense = [value for value in values if value is not None]
        written: list[tuple[StreamKind, _Written, list[int]]] = []
        if not all(present) or self.layout.keep_present:
            written.append((StreamKind.PRESENT, _bits(present), marks))
        inner = [sum(present[:mark]) for mark in marks]
        for kind, stream in self._values(column, dense, inner):
            written.append((kind, stream, inner))
        entries: list[list[int]] = [[] for _ in marks]
        for kind, stream, at in written:
            chopped = chop(stream.data, self.layout.chunk, self.layout.framing, piece=self.layout.piece)
            if self.layout.framing == "NONE":
                chopped = replace(chopped, piece=self.layout.piece)
            if stream.data or kind is StreamKind.PRESENT:
                self.out.streams[column.id, kind] = chopped
            for entry, mark in zip(entries, at, strict=True):
                if stream.places:
                    offset, *rest = stream.places[mark]
                    entry += [*(chopped.position(offset) if stream.data else _start(self.layout)), *rest]
        self.out.entries[column.id] = entries

    def _values(self, column: OrcType, dense: list[Any], marks: list[int]) -> Iterable[tuple[StreamKind, _Written]]:
        layout, kind = self.layout, column.kind
        is_dictionary = kind in TEXTS and layout.dictionary
        first = EncodingKind.DICTIONARY if is_dictionary else EncodingKind.DIRECT
        self.out.encodings[column.id] = ColumnEncoding(EncodingKind(first + 2 * (layout.version == 2)))
        if kind is TypeKind.BOOLEAN:
            yield StreamKind.DATA, _bits(dense)
        elif kind is TypeKind.BYTE:
            yield StreamKind.DATA, _runs(encode_bytes(bytes(value % 256 for value in dense)), len(dense))
        elif kind in INTEGERS:
            yield StreamKind.DATA, self._integers(dense, signed=True)
        elif kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
            form = "<f" if kind is TypeKind.FLOAT else "<d"
            yield StreamKind.DATA, _raw(struct.pack(form, value) for value in dense)
        elif is_dictionary:
            yield from self._dictionary(column, dense)
        elif kind in BLOBS:
            texts = [value.encode() if isinstance(value, str) else value for value in dense]
            yield StreamKind.DATA, _raw(texts)
            yield StreamKind.LENGTH, self._integers([len(text) for text in texts], signed=False)
        elif kind is TypeKind.DECIMAL:
            yield from self._decimal(column, dense)
        elif kind in TIMES:
            yield StreamKind.DATA, self._integers([value.first for value in dense], signed=True)
            yield StreamKind.SECONDARY, self._integers([value.second for value in dense], signed=False)
        else:
            yield from self._nested(column, dense, marks)

    def _integers(self, values: list[int], *, signed: bool) -> _Written:
        stream = encode_integers(values, version=self.layout.version, signed=signed, random=self.random)
        return _runs(stream, len(values))

    def _dictionary(self, column: OrcType, dense: list[Any]) -> Iterable[tuple[StreamKind, _Written]]:
        texts = [value.encode() if isinstance(value, str) else value for value in dense]
        entries = sorted(set(texts))
        number = {text: i for i, text in enumerate(entries)}
        kind = self.out.encodings[column.id].kind
        self.out.encodings[column.id] = ColumnEncoding(kind, dictionary_size=len(entries))
        yield StreamKind.DATA, self._integers([number[text] for text in texts], signed=False)
        lengths = self._integers([len(text) for text in entries], signed=False)
        yield StreamKind.LENGTH, replace(lengths, places=[])
        yield StreamKind.DICTIONARY_DATA, _Written(b"".join(entries), [])

    def _decimal(self, column: OrcType, dense: list[Any]) -> Iterable[tuple[StreamKind, _Written]]:
        if self.layout.decimal64 and 0 < column.precision <= 18:
            stream = encode_integers(
                [at_scale(value, column.scale) for value in dense], version=2, signed=True, random=self.random
            )
            yield StreamKind.DATA, _runs(stream, len(dense))
            return
        yield StreamKind.DATA, _raw(varint(big_zigzag(value.first)) for value in dense)
        yield StreamKind.SECONDARY, self._integers([value.second for value in dense], signed=True)

    def _nested(self, column: OrcType, dense: list[Any], marks: list[int]) -> Iterable[tuple[StreamKind, _Written]]:
        if column.kind is TypeKind.STRUCT:
            for name, child in zip(column.names, column.children, strict=True):
                self.write(child, [value[name] for value in dense], marks)
        elif column.kind is TypeKind.UNION:
            tags = [tag for tag, _ in dense]
            yield StreamKind.DATA, _runs(encode_bytes(bytes(tags)), len(tags))
            for number, child in enumerate(column.children):
                inner = [tags[:mark].count(number) for mark in marks]
                self.write(child, [value for tag, value in dense if tag == number], inner)
        else:
            yield StreamKind.LENGTH, self._integers([len(value) for value in dense], signed=False)
            inner = [sum(len(value) for value in dense[:mark]) for mark in marks]
            items = [item for value in dense for item in value]
            if column.kind is TypeKind.LIST:
                self.write(column.children[0], items, inner)
            else:
                self.write(column.children[0], [key for key, _ in items], inner)
                self.write(column.children[1], [item for _, item in items], inner)


def _start(layout: Layout) -> tuple[int, ...]:
    return (0,) if layout.framing == "NONE" else (0, 0)


def at_scale(value: Stored, scale: int) -> int:
    """Returns the unscaled number of a decimal at ``scale``, which is not less than the decimal's scale."""
    return value.first * 10 ** (scale - value.second)


def big_zigzag(value: int) -> int:
    """Zigzag code of a number of any size, as in the DATA stream of decimals."""
    return zigzag(value) if -(1 << 62) < value < 1 << 62 else (value << 1 if value >= 0 else (-value << 1) - 1)


# --- the expected arrays --------------------------------------------------------------------------------------------


def expected_array(column: OrcType, values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Returns the Arrow array of these values. Decimals and timestamps must already fit ``arrow_type``."""
    if column.kind is TypeKind.STRUCT:
        children = [
            expected_array(child, [None if value is None else value[name] for value in values], field_.type)
            for name, child, field_ in zip(column.names, column.children, arrow_type, strict=True)
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        if not children:
            return pa.array([None if value is None else {} for value in values], arrow_type)
        return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=mask)
    if column.kind is TypeKind.UNION:
        tags = pa.array([0 if value is None else value[0] for value in values], pa.int8())
        variants = [
            expected_array(
                child,
                [value[1] if value is not None and value[0] == number else None for value in values],
                arrow_type.field(number).type,
            )
            for number, child in enumerate(column.children)
        ]
        return pa.UnionArray.from_sparse(tags, variants, [f"_union_{number}" for number in range(len(variants))])
    if column.kind in (TypeKind.LIST, TypeKind.MAP):
        return _expected_lists(column, values, arrow_type)
    if column.kind is TypeKind.DECIMAL:
        unscaled = [None if value is None else at_scale(value, arrow_type.scale) for value in values]
        return pa.array(unscaled, pa.decimal128(38, 0)).view(arrow_type)
    return pa.array(values, arrow_type)


def _expected_lists(column: OrcType, values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    offsets: list[int | None] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        items += value or []
    places = pa.array([*offsets, len(items)], pa.int32())
    if column.kind is TypeKind.LIST:
        return pa.ListArray.from_arrays(
            places, expected_array(column.children[0], items, arrow_type.value_type), type=arrow_type
        )
    keys = expected_array(column.children[0], [key for key, _ in items], arrow_type.key_type)
    values_ = expected_array(column.children[1], [value for _, value in items], arrow_type.item_type)
    return pa.MapArray.from_arrays(places, keys, values_, type=arrow_type)
