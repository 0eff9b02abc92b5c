"""Reads a written file without code of orcidx, and checks the rules of readers that the tests cannot run.

Rules of Trino: if a stream has bytes, no position is (end of the stream, 0) (trino#10113, #20164). Positions and
offsets are below 2**31. There is exactly one entry for each row group. A suppressed PRESENT stream has no positions.
Chunks are not larger than the block size.

Rule of all readers: each position is the start of a run. From this position to the end of the stream, there are as many
values as the statistics of the row groups count.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from bad.orc_parts import unframe
from bad.protobuf_edit import Message, read_varint
from streams.reference import decode

PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY, ROW_INDEX, BLOOM_UTF8 = 0, 1, 2, 3, 5, 6, 8
BOOLEAN, BYTE, FLOAT, DOUBLE, STRING, BINARY, TIMESTAMP, LIST, MAP, STRUCT, UNION, DECIMAL = (
    0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
)  # fmt: skip
VARCHAR, CHAR, INSTANT = 16, 17, 18
SEQUENCES = (2, 3, 4, 15)
"""Types whose runs may continue across row groups if the values are a sequence (decision 0041)."""
BITS, RUNS, BYTES = 2, 1, 0
"""How many numbers a position has in addition to its byte offset."""
TYPED = {BOOLEAN: 5, FLOAT: 3, DOUBLE: 3, STRING: 4, VARCHAR: 4, CHAR: 4, BINARY: 8, DECIMAL: 6, 15: 7, TIMESTAMP: 9}
TYPED |= {INSTANT: 9, LIST: 12, MAP: 12, BYTE: 2, 2: 2, 3: 2, 4: 2}
BOUNDS = {2: (1, 2), 3: (1, 2), 6: (1, 2), 7: (1, 2), 9: (3, 4), 12: (1, 2)}


@dataclass
class ReferenceStripe:
    """``streams`` maps (column, kind) to the stored bytes. ``entries`` maps each column to its row index."""

    rows: int
    streams: dict[tuple[int, int], bytes]
    dictionaries: frozenset[int]
    entries: dict[int, list[tuple[list[int], Message]]]
    statistics: list[Message]


class ReferenceFile:
    """A file that is read without code of orcidx. ``kinds`` has the kind of each column, by its id. ``check`` checks
    all rules."""

    def __init__(self, data: bytes) -> None:
        end = len(data) - 1 - data[-1]
        postscript = Message.parse(data[end:-1])
        self.codec, self.block = postscript.int(2), postscript.int(3)
        footer_at = end - postscript.int(1)
        self.footer = Message.parse(self._plain(data[footer_at:end]))
        metadata = Message.parse(self._plain(data[footer_at - postscript.int(5) : footer_at]))
        self.kinds = [Message.parse(item.value).int(1) for item in self.footer.all(4)]
        self.stride = self.footer.int(8)
        self.statistics = [Message.parse(item.value) for item in self.footer.all(7)]
        told = [[Message.parse(one.value) for one in Message.parse(item.value).all(1)] for item in metadata.all(1)]
        places = [Message.parse(item.value) for item in self.footer.all(3)]
        assert len(told) == len(places)
        self.stripes = [self._stripe(data, place, words) for place, words in zip(places, told)]

    def _plain(self, data: bytes) -> bytes:
        return unframe(data, self.codec, self.block)

    def _stripe(self, data: bytes, place: Message, statistics: list[Message]) -> ReferenceStripe:
        at, index, length, tail, rows = (place.int(number) for number in range(1, 6))
        footer = Message.parse(self._plain(data[at + index + length : at + index + length + tail]))
        streams, sizes, columns = {}, [0, 0], len(self.kinds)
        for item in footer.all(1):
            stream = Message.parse(item.value)
            kind, column, size = stream.int(1), stream.int(2), stream.int(3)
            assert (column, kind) not in streams
            assert column < columns
            streams[column, kind] = data[at : at + size]
            assert kind not in (ROW_INDEX, BLOOM_UTF8) or not sizes[1], "indexes come first"
            sizes[kind not in (ROW_INDEX, BLOOM_UTF8)] += size
            at += size
        assert sizes == [index, length]
        encodings = [Message.parse(item.value) for item in footer.all(2)]
        assert len(encodings) == columns == len(statistics), "C++ needs an encoding of each column"
        assert rows > 0, "C++ cannot read stripes without rows"
        zoned = any(kind == TIMESTAMP for kind in self.kinds)
        assert [item.value for item in footer.all(3)] == ([b"UTC"] if zoned else [])
        dictionaries = frozenset(i for i, item in enumerate(encodings) if item.int(1) == 3)
        entries = {column: self._entries(streams[column, ROW_INDEX]) for column in range(columns) if self.stride}
        return ReferenceStripe(rows, streams, dictionaries, entries, statistics)

    def _entries(self, stream: bytes) -> list[tuple[list[int], Message]]:
        found = []
        for item in Message.parse(self._plain(stream)).all(1):
            entry = Message.parse(item.value)
            numbers: list[int] = []
            for packed in entry.all(1):
                at = 0
                while at < len(packed.value):
                    value, at = read_varint(packed.value, at)
                    numbers.append(value)
            found.append((numbers, Message.parse(entry.all(2)[0].value)))
        return found

    # rules

    def check(self) -> None:
        for stripe in self.stripes:
            for column, kind in enumerate(self.kinds):
                self._check_column(stripe, column, kind)
        for column, message in enumerate(self.statistics):
            self._check_message(message, self.kinds[column])
            assert message.int(1) == sum(stripe.statistics[column].int(1) for stripe in self.stripes)

    def _check_column(self, stripe: ReferenceStripe, column: int, kind: int) -> None:
        message = stripe.statistics[column]
        self._check_message(message, kind)
        data = {key: raw for (owner, key), raw in stripe.streams.items() if owner == column and key < ROW_INDEX}
        assert message.int(11) == sum(map(len, data.values())), "bytesOnDisk"
        wanted = [key for key, _ in self._positioned(stripe, column, kind)]
        if column in stripe.dictionaries:
            wanted += [LENGTH, DICTIONARY_DATA]
        assert sorted(data) == sorted(wanted), "all streams exist, even those without bytes"
        for raw in data.values():
            self._check_chunks(raw)
        if self.stride:
            self._check_index(stripe, column, kind)

    def _check_message(self, message: Message, kind: int) -> None:
        count = message.int(1)
        assert message.all(1), "numberOfValues"
        assert message.all(10), "ORC C++ does not prune without hasNull (ORC-1813)"
        typed = [item for item in message.fields if 2 <= item.number <= 9 or item.number == 12]
        assert all(item.number == TYPED.get(kind) for item in typed)
        if count and typed and typed[0].number in BOUNDS:
            inner = Message.parse(typed[0].value)
            assert all(inner.all(number) for number in BOUNDS[typed[0].number]), "typed statistics have both bounds"
        if count and typed and typed[0].number == 4:
            inner = Message.parse(typed[0].value)
            assert inner.all(1) or inner.all(4), "no upper bound without a lower bound"
            assert inner.all(2) or inner.all(5), "no lower bound without an upper bound: Java raises an error"

    def _check_chunks(self, stream: bytes) -> None:
        if not self.codec:
            return
        at, sizes = 0, []
        while at < len(stream):
            length = int.from_bytes(stream[at : at + 3], "little")
            sizes.append(len(self._plain(stream[at : at + 3 + (length >> 1)])))
            at += 3 + (length >> 1)
        assert at == len(stream)
        assert all(size == self.block for size in sizes[:-1])
        assert all(0 < size <= self.block for size in sizes[-1:])

    def _positioned(self, stripe: ReferenceStripe, column: int, kind: int) -> list[tuple[int, int]]:
        """Returns a pair for each stream that has positions, in the order of the positions. The second element of a
        pair says how many numbers follow the byte offset in a position."""
        if kind == BOOLEAN:
            own = [(DATA, BITS)]
        elif kind in (FLOAT, DOUBLE):
            own = [(DATA, BYTES)]
        elif kind in (STRING, VARCHAR, CHAR, BINARY):
            own = [(DATA, RUNS)] if column in stripe.dictionaries else [(DATA, BYTES), (LENGTH, RUNS)]
        elif kind in (LIST, MAP):
            own = [(LENGTH, RUNS)]
        elif kind == STRUCT:
            own = []
        elif kind in (TIMESTAMP, INSTANT):
            own = [(DATA, RUNS), (SECONDARY, RUNS)]
        elif kind == DECIMAL:
            own = [(DATA, BYTES), (SECONDARY, RUNS)]
        else:
            own = [(DATA, RUNS)]
        return [(PRESENT, BITS), *own] if (column, PRESENT) in stripe.streams else own

    def _check_index(self, stripe: ReferenceStripe, column: int, kind: int) -> None:
        entries = stripe.entries[column]
        positioned = self._positioned(stripe, column, kind)
        assert len(entries) == -(-stripe.rows // self.stride)
        width = sum(more + (2 if self.codec else 1) for _, more in positioned)
        counts = [message.int(1) for _, message in entries]
        assert sum(counts) == stripe.statistics[column].int(1)
        has_null = stripe.statistics[column].int(10)
        assert has_null == any(message.int(10) for _, message in entries)
        assert (column, PRESENT) not in stripe.streams or has_null, "without nulls, PRESENT is suppressed"
        rest = [*accumulate(reversed(counts))][::-1]
        for group, (numbers, message) in enumerate(entries):
            self._check_message(message, kind)
            assert len(numbers) == width, "the first entry also has its zeros (ORC-569)"
            assert group or not any(numbers)
            at = 0
            for key, more in positioned:
                place = numbers[at : at + more + (2 if self.codec else 1)]
                at += len(place)
                where = f"column {column}, stream {key}, row group {group}"
                offset = self._offset(stripe.streams[column, key], place, where)
                if rest[group] and key != PRESENT:
                    self._check_values(stripe, column, kind, key, offset, place[-more:] if more else [], rest[group])

    def _offset(self, stream: bytes, place: list[int], where: str) -> int:
        """Returns the offset of a position in the decompressed bytes."""
        assert all(0 <= number < 1 << 31 for number in place), where
        if not stream:
            assert not any(place), where
            return 0
        assert place[0] < len(stream), f"{where}: Trino cannot seek to the end of a stream"
        if not self.codec:
            return place[0]
        before = at = 0
        while at < place[0]:
            length = 3 + (int.from_bytes(stream[at : at + 3], "little") >> 1)
            before += len(self._plain(stream[at : at + length]))
            at += length
        assert at == place[0], f"{where}: not the start of a chunk"
        length = 3 + (int.from_bytes(stream[at : at + 3], "little") >> 1)
        assert place[1] <= len(self._plain(stream[at : at + length])), where
        return before + place[1]

    def _check_values(
        self, stripe: ReferenceStripe, column: int, kind: int, key: int, offset: int, more: list[int], count: int
    ) -> None:
        """Checks that the stream has ``count`` values from this position to its end."""
        raw = self._plain(stripe.streams[column, key])[offset:]
        if kind in (FLOAT, DOUBLE):
            assert len(raw) == count * (4 if kind == FLOAT else 8)
        elif kind == DECIMAL and key == DATA:
            assert sum(byte < 128 for byte in raw) == count
        elif kind in (BYTE, UNION):
            values, whole = decode("bytes", raw)
            assert whole
            assert len(values) == count
        elif kind == BOOLEAN:
            values, whole = decode("bytes", raw)
            assert whole
            assert 0 <= 8 * (len(values) - more[0]) - more[1] - count < 8
        elif kind in (STRING, VARCHAR, CHAR, BINARY) and key == DATA and column not in stripe.dictionaries:
            # Not checked here. Tests that read the file with other readers fail if the lengths of the strings do not
            # fit these bytes.
            pass
        else:
            assert more == [0] or (kind in SEQUENCES and more[0] <= 512), "runs end where row groups end"
            values, whole = decode("v2", raw, signed=False)
            assert whole
            assert len(values) - more[0] == count
