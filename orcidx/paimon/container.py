"""The container of file indexes. A container has all indexes of one data file. It is stored in a sidecar file or
embedded in a manifest.

    magic           i64   1493475289347502
    version         i32   1
    head length     i32   from the magic to the end of the redundant bytes; the first payload starts there
    columns         i32
    per column:     name UTF, i32 indexes
      per index:    kind UTF, i32 start, i32 length
    redundant       i32 length (0), and this number of bytes, for later versions
    payloads        back to back

Integers are big-endian. UTF is Java's ``writeUTF``: a u16 length and modified UTF-8. ``start`` counts from the magic. A
start of -1 (with length 0) marks an EMPTY index, which has no payload. Each indexed key of a map is a separate column,
``map[key]``. Columns and kinds can have any order. Unknown kinds are kept unchanged.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orcidx.errors import CorruptFile, InvalidQuery, ValueOutOfRange
from orcidx.paimon.body import Body
from orcidx.paimon.keys import INT, LARGEST_INT

__all__ = [
    "Container",
    "Entry",
    "decode_modified_utf8",
    "encode_modified_utf8",
    "read_container",
    "split_map_key",
    "write_container",
]

MAGIC = 1493475289347502
VERSION = 1
HEAD = struct.Struct(">qiii")  # magic, version, head length, columns
PLACE = struct.Struct(">ii")  # start, length
TEXT = struct.Struct(">H")
EMPTY = -1  # stored as the start of an index that has no payload
NO_REDUNDANT_BYTES = INT.pack(0)

_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Entry:
    """One index. ``payload`` is None if the index is EMPTY. ``start`` is the position of the payload in the container.
    It is -1 if the index is EMPTY or was not read from a container."""

    column: str
    kind: str
    payload: Body | None
    start: int = EMPTY

    @property
    def length(self) -> int:
        """The number of bytes of the payload."""
        return self.payload.length if self.payload is not None else 0


@dataclass(frozen=True)
class Container:
    """The contents of a container: its entries in file order, and the redundant bytes at the end of its head."""

    entries: tuple[Entry, ...]
    redundant: bytes = NO_REDUNDANT_BYTES


# ---------------------------------------------------------------------- modified UTF-8


def decode_modified_utf8(data: bytes) -> str:
    """Decodes Java's modified UTF-8. U+0000 is stored as the bytes C0 80. A character above U+FFFF is stored as two
    surrogates of three bytes each."""
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        if _SUPPLEMENTARY.search(text):
            raise CorruptFile("a name has a character of four bytes, which modified UTF-8 does not have")
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeError as error:
        raise CorruptFile(f"a name is not valid modified UTF-8: {error}") from None


def encode_modified_utf8(text: str) -> bytes:
    """The inverse of ``decode_modified_utf8``. Raises ``InvalidQuery`` if the result has more than 65535 bytes."""
    paired = _SUPPLEMENTARY.sub(_surrogates, text)
    data = paired.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > 0xFFFF:
        raise InvalidQuery(f"the name {text[:40]!r}... has {len(data)} bytes; a file index allows at most 65535")
    return data


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 | code >> 10) + chr(0xDC00 | code & 0x3FF)


# ---------------------------------------------------------------------- read


class _Head:
    """A cursor over the head."""

    def __init__(self, data: memoryview, at: int) -> None:
        self.data = data
        self.at = at

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        if self.at + layout.size > len(self.data):
            raise CorruptFile("the header of a file index is cut off", offset=self.at)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def count(self, what: str, smallest: int) -> int:
        (count,) = self.unpack(INT)
        if not 0 <= count <= (len(self.data) - self.at) // smallest:
            raise CorruptFile(f"{count} {what} do not fit into the header of a file index", offset=self.at - INT.size)
        return count

    def text(self) -> str:
        (length,) = self.unpack(TEXT)
        if self.at + length > len(self.data):
            raise CorruptFile("a name in the header of a file index is cut off", offset=self.at)
        self.at += length
        return decode_modified_utf8(bytes(self.data[self.at - length : self.at]))


def read_container(body: Body) -> Container:
    """Reads the head of a container. A payload is read when its index is used. A truncated payload is found only at
    that time.

    Raises ``CorruptFile`` for anything that is not a file index of version 1 with a valid head. Overlapping payloads
    are also an error. If they were allowed, thousands of entries could name the same payload of some kilobytes, and the
    payload would be read once for each entry.
    """
    if body.length < HEAD.size:
        raise CorruptFile(f"a file index has only {body.length} bytes, but its header has at least {HEAD.size} bytes")
    magic, version, head_length, _ = body.unpack(HEAD, 0)
    if magic != MAGIC:
        raise CorruptFile(f"this is not a file index: it starts with {magic}, not with {MAGIC}", offset=0)
    if version != VERSION:
        raise CorruptFile(f"the file index has version {version}; orcidx supports only version {VERSION}", offset=8)
    if not HEAD.size <= head_length <= body.length:
        raise CorruptFile(
            f"the header of the file index has the stored length {head_length}, but its length must be from "
            f"{HEAD.size} to {body.length} bytes",
            offset=12,
        )
    head = _Head(body.read(0, head_length), HEAD.size - INT.size)
    found: dict[tuple[str, str], Entry] = {}
    for _ in range(head.count("columns", TEXT.size + INT.size)):
        column = head.text()
        for _ in range(head.count("indexes", TEXT.size + PLACE.size)):
            kind = head.text()
            start, length = head.unpack(PLACE)
            payload = None
            if start != EMPTY:
                if start < head_length or length < 0:
                    raise CorruptFile(
                        f"the {kind} index of {column} has {length} bytes at byte {start}; it must begin at byte "
                        f"{head_length} or later, and its length must not be negative",
                        column=column,
                    )
                payload = body.part(start, length)
            found[column, kind] = Entry(column, kind, payload, start)
    placed = sorted((entry.start, entry.length, entry.column) for entry in found.values() if entry.length)
    for (start, length, column), (following, _, other) in pairwise(placed):
        if start + length > following:
            raise CorruptFile(f"the indexes of {column} and {other} overlap", offset=following)
    return Container(tuple(found.values()), bytes(head.data[head.at :]))


# ---------------------------------------------------------------------- write


def write_container(container: Container) -> bytes:
    """The bytes of a container. The entries of one column are written together."""
    columns: dict[str, list[tuple[str, bytes | None]]] = {}
    for entry in container.entries:
        payload = None if entry.payload is None else bytes(entry.payload.all())
        columns.setdefault(entry.column, []).append((entry.kind, payload))
    sizes = [len(_text(column)) + INT.size for column in columns]
    sizes += [len(_text(entry.kind)) + PLACE.size for entry in container.entries]
    at = head_length = HEAD.size + sum(sizes) + len(container.redundant)
    out = [HEAD.pack(MAGIC, VERSION, head_length, len(columns))]
    payloads: list[bytes] = []
    for column, indexes in columns.items():
        out += [_text(column), INT.pack(len(indexes))]
        for kind, payload in indexes:
            out.append(_text(kind))
            out.append(PLACE.pack(EMPTY, 0) if payload is None else PLACE.pack(at, len(payload)))
            if payload is not None:
                payloads.append(payload)
                at += len(payload)
            if at > LARGEST_INT:
                raise ValueOutOfRange("the indexes take more than 2 GiB, the limit of a file index")
    return b"".join([*out, container.redundant, *payloads])


def _text(text: str) -> bytes:
    data = encode_modified_utf8(text)
    return TEXT.pack(len(data)) + data


def split_map_key(column: str, names: Collection[str]) -> tuple[str, str | None]:
    """Splits ``m[key]`` into the column ``m`` and the key. If ``names`` has a column ``m[key]``, this column is
    returned without a key."""
    if column in names or not column.endswith("]") or "[" not in column:
        return column, None
    name, _, key = column[:-1].partition("[")
    return name, key


def entry_names(entries: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """The kinds of the indexes of each column, in file order."""
    columns: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        columns[entry.column] = (*columns.get(entry.column, ()), entry.kind)
    return columns
