"""Small Paimon files that claim to contain much data: bodies of indexes, containers, deletion vectors, Puffin files.

A function makes each file. ``Attack`` says what a user does with it and what the result is: "accepted", or a pattern of
the error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cramjam

from orcidx import col, paimon
from orcidx.paimon.file_index import read_file_index
from orcidx.paimon.puffin import deletion_blobs

MOST_ROWS = (1 << 31) - 1


@dataclass(frozen=True)
class Attack:
    """``ask`` is what a user does with the bytes of ``make``. ``answer`` is "accepted" or a pattern of the error."""

    name: str
    make: Callable[[], bytes]
    ask: Callable[[bytes], object]
    answer: str


ATTACKS: dict[str, Attack] = {}


def attack(ask: Callable[[bytes], object], answer: str) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    def register(make: Callable[[], bytes]) -> Callable[[], bytes]:
        ATTACKS[make.__name__] = Attack(make.__name__, make, ask, answer)
        return make

    return register


# ---------------------------------------------------------------------- roaring bitmaps and bodies


def full_runs(containers: int) -> bytes:
    """Returns a bitmap that claims 65,536 rows in every 14 bytes."""
    head = struct.pack("<I", 12347 | (containers - 1) << 16) + b"\xff" * ((containers + 7) // 8)
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    offsets = bytes(4 * containers) if containers >= 4 else b""
    return head + keys + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * containers


def full_bitsets(containers: int) -> bytes:
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    return struct.pack("<II", 12346, containers) + keys + bytes(4 * containers) + b"\xff" * 8192 * containers


def ask_index(kind: str) -> Callable[[bytes], object]:
    """Returns a function that evaluates every operator on the index and reads all of it."""

    def ask(body: bytes) -> None:
        index = paimon.read_index(kind, body, "INT")
        for op, literals in (("eq", [5]), ("notin", [5, 7]), ("lt", [5]), ("isnull", []), ("isnotnull", [])):
            index.evaluate(op, literals)
        if kind == "range-bitmap":
            index.top_k(10, descending=True, nulls_first=False)
        index.check()

    return ask


@attack(ask_index("bitmap"), "overlap")
def bitmap_values_that_share_a_bitmap() -> bytes:
    values = 50_000
    entries = b"".join(struct.pack(">ii", value, 0) for value in range(values))
    return struct.pack(">BiiB", 1, MOST_ROWS, values, 0) + entries + full_runs(32_000)


@attack(ask_index("bitmap"), "overlap")
def bitmap_values_that_share_a_bitset() -> bytes:
    values = 50_000
    entries = b"".join(struct.pack(">ii", value, 0) for value in range(values))
    return struct.pack(">BiiB", 1, MOST_ROWS, values, 0) + entries + full_bitsets(61)


@attack(ask_index("bitmap"), "overlap")
def bitmap_blocks_that_share_a_bitmap() -> bytes:
    values, stored = 30_000, full_runs(30_000)
    block = struct.pack(">i", values) + b"".join(struct.pack(">iii", v, 0, len(stored)) for v in range(values))
    head = struct.pack(">BiiB", 2, MOST_ROWS, values, 0) + struct.pack(">iiii", 1, 0, 0, len(block))
    return head + block + stored


@attack(ask_index("bitmap"), "must be in exactly one bitmap")
def bitmap_of_billions_of_nulls() -> bytes:
    return struct.pack(">BiiBi", 1, MOST_ROWS, 0, 1, 0) + full_runs(32_767)


@attack(ask_index("bitmap"), "do not fit")
def bitmap_of_claimed_values() -> bytes:
    return struct.pack(">BiiB", 1, MOST_ROWS, MOST_ROWS, 0) + bytes(900_000)


@attack(ask_index("bitmap"), "blocks")
def bitmap_of_claimed_blocks() -> bytes:
    return struct.pack(">BiiB", 2, MOST_ROWS, 5, 0) + struct.pack(">i", MOST_ROWS) + bytes(900_000)


def range_bitmap(places: Sequence[tuple[int, int]], stored: bytes) -> bytes:
    """Returns a range-bitmap with a single value, 5."""
    dictionary = struct.pack(">iBiii", 13, 1, 1, 4, 25) + struct.pack(">iBiiiiii", 0, 1, 5, 0, 0, 0, 0, 4)
    head = struct.pack(">iBiiiii", 21, 1, MOST_ROWS, 1, 5, 5, len(dictionary)) + dictionary
    indexes = b"".join(struct.pack(">ii", *place) for place in places)
    existence = full_runs(32_767)
    head += struct.pack(">iBBii", 10 + len(indexes), 1, len(places), len(existence), len(indexes)) + indexes
    return head + existence + stored


@attack(ask_index("range-bitmap"), "overlap")
def range_bitmap_slices_that_share_a_bitmap() -> bytes:
    stored = full_runs(32_767)
    return range_bitmap([(0, len(stored))] * 64, stored)


@attack(ask_index("range-bitmap"), "overlap")
def range_bitmap_of_claimed_sizes() -> bytes:
    return range_bitmap([(0, MOST_ROWS)] * 64, b"")


@attack(ask_index("range-bitmap"), "chunks")
def range_bitmap_of_claimed_chunks() -> bytes:
    dictionary = struct.pack(">iBiii", 13, 1, 1 << 29, 1 << 28, 25) + bytes(800_000)
    return struct.pack(">iBiiiii", 21, 1, MOST_ROWS, MOST_ROWS, 5, 9, len(dictionary)) + dictionary


@attack(ask_index("bsi"), "accepted")
def bsi_of_billions_of_rows() -> bytes:
    stored = full_runs(32_767)
    part = struct.pack(">BBqq", 1, 1, 0, 0) + stored + struct.pack(">i", 1) + stored
    return struct.pack(">Bi", 1, MOST_ROWS) + part + b"\0"


@attack(ask_index("bsi"), "cut off")
def bsi_of_claimed_slices() -> bytes:
    part = struct.pack(">BBqq", 1, 1, 0, (1 << 63) - 1) + full_runs(32_767) + struct.pack(">i", 64)
    return struct.pack(">Bi", 1, MOST_ROWS) + part


@attack(ask_index("bloom-filter"), "accepted")
def bloom_of_many_functions() -> bytes:
    return struct.pack(">i", 1_100) + b"\xff" * 990_000


@attack(ask_index("bloom-filter"), "hash functions")
def bloom_of_claimed_functions() -> bytes:
    return struct.pack(">i", MOST_ROWS) + b"\xff" * 990_000


def _container(entries: int, place: Callable[[int, int], tuple[int, int]], payload: bytes) -> bytes:
    """Returns a container. ``place(entry, start of the payloads)`` returns the start and length of an entry's
    payload."""
    heads = [struct.pack(">H", 6) + b"%06d" % i + struct.pack(">iH", 1, 6) + b"bitmap" for i in range(entries)]
    start = 20 + sum(len(head) + 8 for head in heads) + 4
    placed = b"".join(head + struct.pack(">ii", *place(i, start)) for i, head in enumerate(heads))
    return struct.pack(">qiii", 1493475289347502, 1, start, entries) + placed + bytes(4) + payload


def ask_container(data: bytes) -> None:
    index = read_file_index(data, types={"000001": "INT", "000002": "INT"})
    index.evaluate((col("000001") == 5) | col("000002").is_null())
    index.to_bytes()


@attack(ask_container, "overlap")
def container_of_indexes_that_share_bytes() -> bytes:
    payload = struct.pack(">BiiBi", 1, MOST_ROWS, 0, 1, 0) + full_runs(20_000)
    return _container(25_000, lambda i, start: (start, len(payload)), payload)


@attack(ask_container, "overlap")
def container_of_indexes_that_overlap() -> bytes:
    payload = struct.pack(">BiiBi", 1, MOST_ROWS, 0, 1, 0) + full_runs(20_000)
    return _container(25_000, lambda i, start: (start + i, len(payload) - i), payload)


@attack(ask_container, "accepted")
def container_of_many_empty_indexes() -> bytes:
    return _container(30_000, lambda i, start: (-1, 0), b"")


# ---------------------------------------------------------------------- deletion vectors, hash index, Puffin


def entry(magic: bytes, body: bytes) -> bytes:
    checked = magic + body
    return struct.pack(">i", len(checked)) + checked + zlib.crc32(checked).to_bytes(4, "big")


MAGIC32, MAGIC64 = struct.pack(">i", 1581511376), struct.pack("<i", 1681511377)


def ask_vector(data: bytes) -> None:
    vector = paimon.DeletionVector.from_bytes(data)
    assert len(vector) >= 1
    assert str(vector)
    assert (vector | vector) & vector == vector
    vector.to_bytes()


@attack(ask_vector, "accepted")
def vector_of_billions_of_rows() -> bytes:
    return entry(MAGIC32, full_runs(32_767))


@attack(ask_vector, "accepted")
def vector_of_billions_of_rows_in_64_bits() -> bytes:
    part = full_runs(32_767)
    return entry(MAGIC64, struct.pack("<qi", 2, 0) + part + struct.pack("<i", 1) + part)


@attack(ask_vector, "accepted")
def vector_of_a_far_row() -> bytes:
    return entry(MAGIC64, struct.pack("<qi", 1, (1 << 22) - 1) + struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 5))


@attack(ask_vector, "bitmaps do not fit")
def vector_of_claimed_keys() -> bytes:
    return entry(MAGIC64, struct.pack("<q", 1 << 62) + bytes(900_000))


@attack(lambda data: paimon.HashIndex.from_bytes(data).to_bytes(), "accepted")
def hashes() -> bytes:
    return bytes(1_000_000)


def _puffin(footer: bytes, flags: int, blobs: bytes = b"") -> bytes:
    return b"PFA1" + blobs + b"PFA1" + footer + struct.pack("<iI", len(footer), flags) + b"PFA1"


def ask_puffin(data: bytes) -> None:
    for blob in deletion_blobs(memoryview(data)):
        paimon.DeletionVector.from_bytes(data[blob.offset : blob.offset + blob.length])


@attack(ask_puffin, "after decompression")
def puffin_footer_of_much_json() -> bytes:
    text = b'{"blobs":[' + b"[]," * 20_000_000 + b"[]]}"
    return _puffin(bytes(cramjam.lz4.compress(text)), 1)


@attack(ask_puffin, "overlap")
def puffin_blobs_that_share_bytes() -> bytes:
    vector = entry(MAGIC64, struct.pack("<qi", 1, 0) + full_runs(32_767))
    blob = f'{{"type":"deletion-vector-v1","offset":4,"length":{len(vector)}}}'
    text = f'{{"blobs":[{",".join([blob] * 8_000)}]}}'.encode()
    return _puffin(bytes(cramjam.lz4.compress(text)), 1, vector)


@attack(ask_puffin, "not a JSON object")
def puffin_footer_of_lists() -> bytes:
    return _puffin(b'{"blobs":[' + b"[]," * 330_000 + b"[]]}", 0)
