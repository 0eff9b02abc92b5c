"""The streams of a stripe: their positions, their encodings, and their runs. Only the headers of the runs are read, and
no value is decoded. The notation is the notation of the specification (ORC v1, "Run Length Encoding"). If a stream ends
in the middle of a run, its earlier runs are reported, and ``damage`` describes the problem."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.kinds import STREAM_NAMES, EncodingKind, StreamKind
from orcidx.orc.metadata import unframe
from orcidx.orc.reader import OrcReader
from orcidx.orc.streams import PRESENT, StreamShape, StreamSpec, rle_version, stream_layout
from orcidx.orc.types import OrcType

__all__ = ["HeldBytes", "StreamReport", "stored_bytes", "stripe_streams"]

Walk = Callable[[bytes], Iterator[tuple[str, int]]]
"""A function that yields the kind and the number of values of each run of a stream."""

HeldBytes = tuple[int, memoryview]
"""An offset in the file, and the bytes that begin there."""

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""The number of bits of a value, by the five-bit code of this number. The code 0 means 1 bit, except in a delta run. In
a delta run it means 0 bits."""


@dataclass(frozen=True)
class StreamReport:
    """One stream. ``offset`` and ``length`` give its position in the file. ``bytes`` is the decompressed size, or None
    if the stream was not read. ``runs`` has the number of runs of each kind, and ``values`` is the number of values in
    all runs. ``damage`` says why the stream could not be read to its end."""

    stripe: int
    column: str
    column_id: int
    kind: str
    encoding: str
    offset: int
    length: int
    bytes: int | None = None
    runs: Mapping[str, int] = field(default_factory=dict, hash=False)
    values: int | None = None
    damage: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**self.__dict__, "runs": dict(self.runs)}


def stripe_streams(
    reader: OrcReader, stripe: int, columns: frozenset[int] | None = None, *, held: HeldBytes | None = None
) -> Iterator[StreamReport]:
    """Yields the streams of a stripe in the order of the file. ``columns`` has the ids of the columns whose streams are
    yielded. None means all columns. Only streams that consist of runs are read and decompressed. ``held`` has bytes of
    the stripe that were read before and are used again."""
    footer = reader.footer(stripe)
    nodes = {node.id: node for node in reader.root.walk()}
    placed = sorted(reader.extents(stripe).items(), key=lambda item: item[1])
    for (column, number), (offset, length) in placed:
        if columns is not None and column not in columns:
            continue
        kind, node = StreamKind(number), nodes[column]
        encoding = footer.encodings[column].kind
        place = (stripe, node.dotted if node.path else "", column, STREAM_NAMES[kind], encoding.name, offset, length)
        walk = _walk_of(node, kind, encoding, reader)
        yield StreamReport(*place) if walk is None else _walked(reader, place, walk, held)


def stored_bytes(reader: OrcReader, offset: int, length: int, held: HeldBytes | None) -> memoryview:
    """Returns bytes of the file. Bytes that are in ``held`` are not read again."""
    if held is not None and held[0] <= offset and offset + length <= held[0] + len(held[1]):
        return held[1][offset - held[0] : offset - held[0] + length]
    (stored,) = reader.storage.read_ranges([(offset, length)])
    return stored


def _walk_of(node: OrcType, kind: StreamKind, encoding: EncodingKind, reader: OrcReader) -> Walk | None:
    """Returns the function that reads the run headers of a stream. The result is None if the stream has no runs."""
    try:
        layout = stream_layout(node, encoding, decimal64=reader.facts.decimal64)
    except CorruptFile:
        return None
    spec: StreamSpec | None = next((one for one in (PRESENT, *layout) if one.kind is kind), None)
    if spec is None or spec.shape is StreamShape.BYTES:
        return None
    if spec.shape is not StreamShape.INT_RLE:
        return _byte_runs
    decimal64 = reader.facts.decimal64 and len(layout) == 1 and node.precision > 0
    return _integer_runs_2 if decimal64 or rle_version(encoding) == 2 else _integer_runs_1


def _walked(reader: OrcReader, place: tuple[Any, ...], walk: Walk, held: HeldBytes | None) -> StreamReport:
    runs: Counter[str] = Counter()
    values, size, damage = 0, None, None
    try:
        stored = stored_bytes(reader, place[-2], place[-1], held)
        data = unframe(stored, reader.tail.postscript, name=place[3], limits=reader.tail.limits)
        size = len(data)
        for kind, count in walk(data):
            runs[kind] += 1
            values += count
    except IndexError:
        damage = "the stream ends in the middle of a run"
    except (CorruptFile, Unsupported) as error:
        damage = error.message
    return replace(StreamReport(*place), bytes=size, runs=dict(runs), values=values, damage=damage)


def _byte_runs(data: bytes) -> Iterator[tuple[str, int]]:
    """Runs of bytes. A control byte of at least 0 repeats one byte, and a negative control byte precedes literals."""
    at, end = 0, len(data)
    while at < end:
        control = data[at]
        at += 2 if control < 128 else 257 - control
        if at > end:
            raise IndexError
        yield ("repeat", control + 3) if control < 128 else ("literals", 256 - control)


def _integer_runs_1(data: bytes) -> Iterator[tuple[str, int]]:
    """Runs of version 1. A control byte below 128 precedes a delta and a varint. Any other control byte gives the
    number of varints that follow."""
    at, end = 0, len(data)
    ends = np.flatnonzero(np.frombuffer(data, np.int8) >= 0)  # positions at which a varint may end
    last_bytes = memoryview(ends.data)
    while at < end:
        control = data[at]
        start, varints = (at + 2, 1) if control < 128 else (at + 1, 256 - control)
        at = last_bytes[bisect_left(last_bytes, start) + varints - 1] + 1
        yield ("repeat", control + 3) if control < 128 else ("literals", varints)


def _integer_runs_2(data: bytes) -> Iterator[tuple[str, int]]:
    """Runs of version 2. The two highest bits of the first byte give the kind of the run."""
    at, end = 0, len(data)
    while at < end:
        first = data[at]
        kind = first >> 6
        if kind == 0:
            name, count, after = "short repeat", (first & 7) + 3, at + 2 + (first >> 3 & 7)
        else:
            count = ((first & 1) << 8 | data[at + 1]) + 1
            code = first >> 1 & 31
            if kind == 1:
                name, after = "direct", at + 2 + _packed(count, _WIDTHS[code])
            elif kind == 2:
                name, after = "patched base", _after_patched(data, at, count, _WIDTHS[code])
            else:
                name, after = "delta", _after_varints(data, at + 2, 2)
                after += _packed(max(count - 2, 0), _WIDTHS[code] if code else 0)
        if after > end:
            raise IndexError
        yield name, count
        at = after


def _after_patched(data: bytes, at: int, count: int, width: int) -> int:
    third, fourth = data[at + 2], data[at + 3]
    base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    entry = next(bits for bits in _WIDTHS if bits >= min(gap_width + patch_width, 64))
    return at + 4 + base_bytes + _packed(count, width) + _packed(patches, entry)


def _packed(count: int, width: int) -> int:
    return (count * width + 7) // 8


def _after_varints(data: bytes, at: int, count: int) -> int:
    for _ in range(count):
        while data[at] >= 128:
            at += 1
        at += 1
    return at
