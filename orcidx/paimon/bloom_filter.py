"""The bloom filter index. A bloom filter can prove that a column does not have a value. This module reads, writes,
builds and evaluates bloom filters.

    hash functions   i32 big-endian, k
    bits             bit i is bit i % 8, least significant first, of byte i / 8

Each value has one 64-bit hash. For text and bytes it is XXH64 with seed 0. Values of other types are widened to int64,
and the hash is Thomas Wang's mix of this integer. FLOAT and DOUBLE are widened from their IEEE bits, which are the same
for every NaN. TIMESTAMP is in milliseconds up to precision 3, and in microseconds for higher precisions. Null is never
added.

h1 is the lower half of the hash and h2 the upper half, both as 32-bit integers. Hash function i = 1 .. k computes h1 +
i * h2 in wrapping 32-bit arithmetic. A negative result is complemented. The result modulo the number of bits is the
position of a bit in the filter.

The size is computed as in Java, from the expected number of distinct values (``items``) and the wanted rate of false
positives (``fpp``). The size is -items * ln(fpp) / ln(2)^2 bits. Then 1 to 8 bits are added, so that the filter ends at
a whole byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.paimon.bloom import add_bytes, add_integers, hash_bytes, hash_integer, may_hold
from orcidx.paimon.body import Body
from orcidx.paimon.data_types import DataType
from orcidx.paimon.index import BodyIndex
from orcidx.paimon.key_arrays import KeyColumn, byte_buffers
from orcidx.paimon.keys import INT, Key, KeyType, ordered_bits
from orcidx.paimon.questions import Points, Question
from orcidx.pruning.evaluate import Verdict

__all__ = ["BloomFilterBuilder", "BloomFilterIndex", "Contents", "filter_size", "write"]

KIND = "bloom-filter"
DEFAULT_ITEMS = 1_000_000
DEFAULT_FPP = 0.1
LARGEST_BITS = (1 << 31) - 1
# The smallest positive double is 5e-324, so -ln(fpp) is below 745. So a filter has at most 1550 bits for each item, and
# 8 bits for rounding up to whole bytes. The number of hash functions is at most 1080: 0.693 times the bits for an item.
MOST_FUNCTIONS = 1_100

_REFUSED = ("BOOLEAN", "DECIMAL")


@dataclass(frozen=True)
class Contents:
    """The contents of a body: the number of hash functions, and the bytes of the filter."""

    functions: int
    bits: bytes


# ---------------------------------------------------------------------- read


def read(data: memoryview) -> Contents:
    """Reads a whole body. Raises ``CorruptFile``."""
    if not INT.size < len(data) <= INT.size + LARGEST_BITS // 8:
        raise CorruptFile(
            f"a bloom filter has {len(data)} bytes, but must have {INT.size + 1} to {INT.size + LARGEST_BITS // 8} "
            "bytes"
        )
    (functions,) = INT.unpack_from(data, 0)
    if not 1 <= functions <= MOST_FUNCTIONS:
        raise CorruptFile(
            f"a bloom filter has {functions} hash functions, but must have 1 to {MOST_FUNCTIONS}", offset=0
        )
    return Contents(functions, bytes(data[INT.size :]))


# ---------------------------------------------------------------------- write


def write(contents: Contents) -> bytes:
    """Bytes of a body."""
    return INT.pack(contents.functions) + contents.bits


# ---------------------------------------------------------------------- build


def filter_size(items: int, fpp: float) -> tuple[int, int]:
    """The number of bits and the number of hash functions for ``items`` distinct values and the rate ``fpp`` of false
    positives.

    Raises ``InvalidQuery`` unless items >= 1, 0 < fpp < 1 and the filter has less than 2**31 bits.
    """
    if items < 1 or not 0 < fpp < 1:
        raise InvalidQuery(
            f"items must be at least 1 and fpp must be between 0 and 1, but items is {items} and fpp is {fpp}"
        )
    wanted = -items * math.log(fpp) / (math.log(2) * math.log(2))
    if wanted > LARGEST_BITS - 8:
        raise InvalidQuery(
            f"items={items} and fpp={fpp} need {wanted:.3g} bits, but a bloom filter has at most {LARGEST_BITS} bits"
        )
    bits = int(wanted) + 8 - int(wanted) % 8
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


class BloomFilterBuilder:
    """Builds a filter from the batches of a column. The size of the filter is fixed, so adding values takes no more
    memory."""

    def __init__(self, data_type: DataType, *, items: int = DEFAULT_ITEMS, fpp: float = DEFAULT_FPP) -> None:
        self.data_type = data_type
        bits, self._functions = filter_size(items, fpp)
        self._bytes = bytearray(bits // 8)

    def add(self, column: KeyColumn) -> None:
        """Adds the values that are not null."""
        values = column.present_values
        if isinstance(values, np.ndarray):
            kind = column.key_type
            bits = ordered_bits(values, kind.width) if kind.floating else values
            add_integers(self._bytes, self._functions, np.ascontiguousarray(bits))
        else:
            add_bytes(self._bytes, self._functions, *byte_buffers(values))
            if self.data_type.root == "CHAR" and len(longer := _of_char(values, self.data_type.length)):
                add_bytes(self._bytes, self._functions, *byte_buffers(longer))

    def finish(self) -> BloomFilterIndex:
        """The index of all added values."""
        return BloomFilterIndex(write(Contents(self._functions, bytes(self._bytes))), self.data_type)


def _of_char(values: pa.Array, length: int) -> pa.Array:
    """The values that have more than ``length`` characters and end with a space. The result does not have their
    trailing spaces after the first ``length`` characters. A filter has these values with and without the spaces,
    because a condition on CHAR(``length``) ignores trailing spaces and looks up values of at most this length."""
    longer = pc.and_(pc.greater(pc.binary_length(values), length), pc.ends_with(values, " "))
    texts = [value.decode(errors="surrogateescape") for value in values.filter(longer).to_pylist()]
    kept = [text[: max(length, len(text.rstrip(" ")))] for text in texts if len(text) > length]
    return pa.array([text.encode(errors="surrogateescape") for text in kept], pa.large_binary())


def check_type(data_type: DataType) -> None:
    """Raises ``Unsupported`` for a type that a bloom filter does not support."""
    if data_type.root in _REFUSED:
        raise Unsupported(f"a bloom-filter index does not support values of type {data_type}")


# ---------------------------------------------------------------------- evaluate


class BloomFilterIndex(BodyIndex):
    """A bloom filter. All its bytes are read when it is first used. The filter does not store which rows have a value,
    so the only verdicts are "skip" and "remain"."""

    kind = KIND
    answered = frozenset({"eq", "in"})

    def __init__(self, body: bytes | memoryview | Body, data_type: DataType | str) -> None:
        super().__init__(body, data_type)
        check_type(self.data_type)
        (functions,) = self._body.unpack(INT, 0)
        if self._body.length == INT.size or not 1 <= functions <= MOST_FUNCTIONS:
            raise CorruptFile(
                f"a bloom filter must have at least {INT.size + 1} bytes and 1 to {MOST_FUNCTIONS} hash functions, but "
                f"this filter has {self._body.length} bytes and {functions} hash functions",
                offset=0,
            )
        self._contents: Contents | None = None

    @property
    def rows(self) -> None:
        """None: the number of rows is not stored."""

    def contents(self) -> Contents:
        """The contents of the body."""
        if self._contents is None:
            self._contents = read(self._body.all())
        return self._contents

    def check(self) -> None:
        self.contents()

    def answer(self, question: Question) -> Verdict:
        if not isinstance(question, Points) or question.negated:
            return Verdict.remain()
        contents = self.contents()
        # Values of integer types fit in 64 bits. So a literal that does not fit cannot match.
        keys = (key for key in question.keys if isinstance(key, bytes) or -(1 << 63) <= key < 1 << 63)
        hashes = (hash_of(key, self.key_type) for key in keys)
        present = any(may_hold(contents.bits, contents.functions, value_hash) for value_hash in hashes)
        return Verdict.remain() if present else Verdict.skip()

    def _nothing(self) -> Verdict:
        return Verdict.skip()


def hash_of(key: Key, kind: KeyType) -> int:
    """The 64-bit hash of a key. If the key does not fit the type of the column, this is the hash of a value that was
    never added."""
    if isinstance(key, bytes):
        return hash_bytes(key)
    if kind.floating:
        key = int(ordered_bits(np.array([key], np.int64), kind.width)[0])
    return hash_integer(key)
