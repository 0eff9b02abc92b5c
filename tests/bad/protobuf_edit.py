"""Protobuf messages as plain lists of fields, which can be damaged and written again. This code does not use the reader
that is tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EXTREMES = (0, 1, 2, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass
class Field:
    number: int
    wire: int
    value: int | bytes
    padding: int = 0
    """The number of extra continuation bytes of a varint. They are legal, and a reader's loop must still end."""


@dataclass
class Message:
    fields: list[Field] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes) -> Message:
        """Raises ``ValueError`` if the bytes are no message."""
        fields, at = [], 0
        while at < len(data):
            tag, at = read_varint(data, at)
            wire = tag & 7
            if wire == VARINT:
                value, at = read_varint(data, at)
                fields.append(Field(tag >> 3, wire, value))
                continue
            if wire == BYTES:
                length, at = read_varint(data, at)
            elif wire in (FIXED64, FIXED32):
                length = 8 if wire == FIXED64 else 4
            else:
                raise ValueError(f"wire type {wire}")
            if at + length > len(data):
                raise ValueError("past the end")
            fields.append(Field(tag >> 3, wire, data[at : at + length]))
            at += length
        return cls(fields)

    def to_bytes(self) -> bytes:
        out = bytearray()
        for item in self.fields:
            out += varint(item.number << 3 | item.wire)
            if isinstance(item.value, int):
                out += varint(item.value, item.padding)
            else:
                out += (varint(len(item.value)) if item.wire == BYTES else b"") + item.value
        return bytes(out)

    def all(self, number: int) -> list[Field]:
        return [item for item in self.fields if item.number == number]

    def int(self, number: int, default: int = 0) -> int:
        found = [item.value for item in self.all(number) if isinstance(item.value, int)]
        return found[-1] if found else default

    def set(self, number: int, value: int) -> None:
        """Changes the last field with this number, or adds one."""
        if found := self.all(number):
            found[-1].value = value
        else:
            self.fields.append(Field(number, VARINT, value))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("bad varint")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def varint(value: int, padding: int = 0) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    if padding:
        out[-1] |= 128
        out += b"\x80" * (padding - 1) + b"\0"
    return bytes(out)


def damage(data: bytes, random: Random, depth: int = 0) -> bytes:
    """Changes one field somewhere in a message, or in a message inside it."""
    try:
        message = Message.parse(data)
    except ValueError:
        return data[: random.randrange(len(data) + 1)]
    if not message.fields:
        return varint(random.randrange(1, 16) << 3) + varint(random.choice(EXTREMES))
    item = random.choice(message.fields)
    if item.wire == BYTES and item.value and depth < 6 and random.random() < 0.7:
        assert isinstance(item.value, bytes)
        item.value = damage(item.value, random, depth + 1)
    else:
        _change(message, item, random)
    return message.to_bytes()


def _change(message: Message, item: Field, random: Random) -> None:
    kind = random.randrange(8)
    at = message.fields.index(item)
    if kind == 0:
        del message.fields[at]
    elif kind == 1:
        message.fields[at:at] = [item] * random.choice((1, 2, 1000))
    elif kind == 2:
        item.number = random.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 8000, 2**28))
    elif kind == 3:
        message.fields[at] = Field(item.number, VARINT, random.choice(EXTREMES))
    elif kind == 4:
        message.fields[at] = Field(item.number, BYTES, random.randbytes(random.choice((0, 1, 8, 100))))
    elif isinstance(item.value, int):
        near = max(0, item.value + random.choice((-1, 1, -2, 2, 100)))
        item.value = random.choice((random.choice(EXTREMES), near, item.value * 2 % 2**64))
        item.padding = random.choice((0, 0, 0, 1, 5))
    else:
        cut = random.randrange(len(item.value) + 1)
        item.value = item.value[:cut] if random.random() < 0.5 else item.value + item.value[:cut]
