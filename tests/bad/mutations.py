"""Ways to damage bytes. Each function takes the bytes, another sample of the same kind, and a random generator with a
seed."""

from __future__ import annotations

import zlib
from random import Random

from bad.orc_parts import damage_inside
from bad.protobuf_edit import EXTREMES, varint


def flip_bits(data: bytes, other: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8, 64))):
        changed[_place(len(changed), random)] ^= 1 << random.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, other: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = _place(len(changed), random)
        width = min(random.choice((1, 1, 2, 4, 8)), len(changed) - at)
        changed[at : at + width] = bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF))]) * width
    return bytes(changed)


def truncate(data: bytes, other: bytes, random: Random) -> bytes:
    """Cuts off the end, or cuts a piece out of the middle so that the tail stays complete."""
    start = random.randrange(len(data))
    if random.random() < 0.4:
        return data[:start]
    return data[:start] + data[start + random.choice((1, 2, 16, 1000)) :]


def splice(data: bytes, other: bytes, random: Random) -> bytes:
    """Inserts a piece of another sample, or overwrites bytes of ``data`` with the piece."""
    start = random.randrange(len(other)) if other else 0
    piece = other[start : start + random.choice((1, 4, 64, 4096))]
    at = _place(len(data), random)
    return data[:at] + piece + data[at + (len(piece) if random.random() < 0.7 else 0) :]


def extreme_length(data: bytes, other: bytes, random: Random) -> bytes:
    """Puts an extreme number at a random place, as a varint or a fixed-width integer, because a length may be stored
    there."""
    number = random.choice(EXTREMES)
    width = random.choice((2, 4, 8))
    order = random.choice(("little", "big"))
    fixed = (number % (1 << 8 * width)).to_bytes(width, order)
    piece = random.choice((varint(number), varint(number, 5), fixed, fixed))
    at = _place(len(data), random)
    return data[:at] + piece + data[at + (len(piece) if random.random() < 0.7 else 1) :]


def inside_orc(data: bytes, other: bytes, random: Random) -> bytes:
    try:
        return damage_inside(data, random)
    except ValueError:
        return flip_bits(data, other, random)


def inside_deletion_vector(data: bytes, other: bytes, random: Random) -> bytes:
    """Damages the body of the first deletion vector in a file, and corrects the size and checksum of this vector."""
    size = int.from_bytes(data[1:5], "big")
    body = data[5 : 5 + size]
    if not body or len(body) < size:
        return flip_bits(data, other, random)
    body = random.choice(ANY)(body, other, random)
    sealed = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return data[:1] + sealed + data[9 + size :]


ANY = (flip_bits, set_bytes, truncate, splice, extreme_length)
OF_KIND = {
    "orc": (*ANY, *(inside_orc,) * 5),
    "deletion-vector": (*ANY, *(inside_deletion_vector,) * 5),
}


def mutate(kind: str, data: bytes, other: bytes, random: Random) -> tuple[str, bytes]:
    """Returns the name of the damage and the damaged bytes. Sometimes there are two damages."""
    names = []
    for _ in range(random.choice((1, 1, 1, 2))):
        if not data:
            data = random.randbytes(random.choice((1, 3, 20)))
        mutation = random.choice(OF_KIND.get(kind, ANY))
        data = mutation(data, other, random)
        names.append(mutation.__name__)
    return "+".join(names), data


def _place(length: int, random: Random) -> int:
    """Returns a random place. In half of the cases it is near the end, where the tail is, or near the start, where
    headers are."""
    near = random.random()
    if near < 0.35:
        return max(0, length - 1 - random.randrange(min(length, 600)))
    if near < 0.5:
        return random.randrange(min(length, 64))
    return random.randrange(length)
