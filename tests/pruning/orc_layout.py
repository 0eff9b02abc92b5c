"""Finds the places of stripes, streams, and the chunks of row groups in an ORC file, without code of orcidx.

It supports flat, compressed files of Java with numbers, decimals, dates and strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bad.orc_parts import unframe
from bad.protobuf_edit import Message, read_varint

PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY, ROW_INDEX, BLOOM_UTF8 = 0, 1, 2, 3, 5, 6, 8
STRING, DECIMAL = 7, 14
BYTES, RUNS, BITS = 2, 3, 4
"""The number of positions of a compressed stream of bytes, of runs of numbers, and of bits."""


@dataclass(frozen=True)
class Stripe:
    """``streams`` maps (column, kind) to (offset, length) in the file."""

    rows: int
    footer: tuple[int, int]
    data: tuple[int, int]
    streams: dict[tuple[int, int], tuple[int, int]]
    dictionaries: frozenset[int]


class OrcLayout:
    """The layout of one file. Columns have their numbers in the file. The root is column 0."""

    def __init__(self, path: Path) -> None:
        self.raw = path.read_bytes()
        end = len(self.raw) - 1 - self.raw[-1]
        postscript = Message.parse(self.raw[end:-1])
        self.codec, self.block = postscript.int(2), postscript.int(3)
        footer_at = end - postscript.int(1)
        footer = Message.parse(self._plain(footer_at, postscript.int(1)))
        types = [Message.parse(item.value) for item in footer.all(4)]
        self.kinds = [item.int(1) for item in types]
        self.names = [item.value.decode() for item in types[0].all(3)]
        self.stride = footer.int(8)
        self.tail = len(self.raw) - footer_at + postscript.int(5)
        self.stripes = [self._stripe(Message.parse(item.value)) for item in footer.all(3)]

    def _plain(self, offset: int, length: int) -> bytes:
        return unframe(self.raw[offset : offset + length], self.codec, self.block)

    def _stripe(self, information: Message) -> Stripe:
        at, index, data, length, rows = (information.int(number) for number in range(1, 6))
        footer = Message.parse(self._plain(at + index + data, length))
        streams = {}
        place = at
        for item in footer.all(1):
            stream = Message.parse(item.value)
            streams[stream.int(2), stream.int(1)] = place, stream.int(3)
            place += stream.int(3)
        encodings = [Message.parse(item.value).int(1) for item in footer.all(2)]
        dictionaries = frozenset(column for column, kind in enumerate(encodings) if kind in (1, 3))
        return Stripe(rows, (at + index + data, length), (at + index, data), streams, dictionaries)

    def column(self, name: str) -> int:
        return self.names.index(name) + 1

    def _positioned(self, stripe: Stripe, column: int) -> list[tuple[int, int]]:
        """Returns the kind and the number of positions of each stream of a column, in order. Dictionary streams have no
        positions."""
        kind = self.kinds[column]
        if kind == DECIMAL:
            found = [(DATA, BYTES), (SECONDARY, RUNS)]
        elif kind == STRING and column not in stripe.dictionaries:
            found = [(DATA, BYTES), (LENGTH, RUNS)]
        else:
            found = [(DATA, RUNS)]
        return [(PRESENT, BITS), *found] if (column, PRESENT) in stripe.streams else found

    def _entries(self, stripe: Stripe, column: int) -> list[list[int]]:
        entries = []
        for item in Message.parse(self._plain(*stripe.streams[column, ROW_INDEX])).all(1):
            numbers: list[int] = []
            for packed in Message.parse(item.value).all(1):
                at = 0
                while at < len(packed.value):
                    value, at = read_varint(packed.value, at)
                    numbers.append(value)
            entries.append(numbers)
        return entries

    def _chunks(self, offset: int, length: int) -> list[tuple[int, int]]:
        """Returns (start, stop) of each chunk of a stream, relative to its start."""
        found, at = [], 0
        while at < length:
            header = int.from_bytes(self.raw[offset + at : offset + at + 3], "little")
            found.append((at, at + 3 + (header >> 1)))
            at = found[-1][1]
        return found

    def data_bytes(self, number: int, groups: set[int], columns: list[int]) -> int:
        """Returns how many bytes the chunks of these row groups have, in all streams of these columns. Dictionaries are
        counted as a whole."""
        if not groups:
            return 0
        stripe = self.stripes[number]
        total = 0
        for column in columns:
            entries = self._entries(stripe, column)
            positioned = self._positioned(stripe, column)
            at = 0
            for kind, width in positioned:
                offset, length = stripe.streams.get((column, kind), (0, 0))
                hit: set[tuple[int, int]] = set()
                for group in groups:
                    start, stop = entries[group][at], length
                    if group + 1 < len(entries):
                        following = entries[group + 1][at : at + width]
                        stop = following[0] + any(following[1:])
                    hit |= {chunk for chunk in self._chunks(offset, length) if start <= chunk[0] < stop}
                total += sum(stop - start for start, stop in hit)
                at += width
            if column in stripe.dictionaries:
                total += stripe.streams.get((column, DICTIONARY_DATA), (0, 0))[1]
                total += stripe.streams.get((column, LENGTH), (0, 0))[1]
        return total

    def index_bytes(self, number: int, kind: int, columns: list[int]) -> int:
        streams = self.stripes[number].streams
        return sum(streams[column, kind][1] for column in columns if (column, kind) in streams)
