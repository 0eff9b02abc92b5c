"""Decides which bloom filters can be trusted, and computes the hashes that a value has in them.

Writers add hashes of the values to a filter. Integers and days are hashed as 64-bit numbers, and texts and binaries as
bytes. Floats are converted to double, and the bits of the double are hashed. Decimals are hashed as their text, and
timestamps as whole milliseconds. A literal may have several hashes, because writers differ, or because several stored
values are read as the same value. If none of its hashes is in a filter, the literal is absent.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.options import ValueOptions
from orcidx.orc.bloom import hash_byte_strings, hash_integers
from orcidx.orc.bound_values import Bools
from orcidx.orc.bounds import StatisticsColumn
from orcidx.orc.calendars import GREGORIAN_START, hybrid_days
from orcidx.orc.decimal_text import plain_text
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import StreamKind, TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts, is_own
from orcidx.orc.statistics import NANOS_PER_MILLI
from orcidx.orc.streams import is_decimal64
from orcidx.orc.timezones import CALM_FROM, CALM_UNTIL, FARTHEST_ZONE, Zone, clock_zone
from orcidx.orc.types import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    LONGEST_SIZED,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    OrcType,
    decimal_digits,
    reads_as_timestamp,
)
from orcidx.predicate.literals import scaled_floor

__all__ = ["MAY_WRAP", "distrust_bloom", "each_hash", "literal_hashes", "many_hashes", "may_wrap", "surely_fits"]

_FILTERED = frozenset({TypeKind.DATE, TypeKind.DECIMAL, TypeKind.BINARY}).union(
    INTEGER_KINDS, FLOAT_KINDS, STRING_KINDS, TIMESTAMP_KINDS
)

_NARROWED = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.DATE})
"""Types whose values writers hash as 64-bit numbers. A value that is too large for its type wraps around when it is
read, but its hash does not."""

# The C++ writer hashes CHAR values with the wrong length. It packs BYTE values in place before it hashes them. The
# packed bytes overwrite the first eighth of every batch, so the hashes of these values are wrong (observed in 2.3.1).
_WRONG_IN_CPP = frozenset({TypeKind.CHAR, TypeKind.BYTE})
_FIRST_BAD_VERSION, _LAST_BAD_VERSION = (1, 6, 0), (1, 6, 11)
_ALSO_BAD_VERSION = (1, 7, 0)

OLD_CLOCKS_MILLIS = -2_145_916_800_000
"""1902-01-01 in milliseconds. For earlier times libraries disagree on time zones, and some also on the calendar."""
REPLACEMENT = "\ufffd".encode()


def distrust_bloom(
    kind: int, node: OrcType, encoding: ColumnEncoding, facts: FileFacts, options: ValueOptions
) -> str | None:
    """The reason why a bloom filter stream (kind BLOOM_FILTER or BLOOM_FILTER_UTF8) cannot be trusted. None if it can
    be used."""
    if node.kind not in _FILTERED:
        return f"bloom filters of type {node.kind.name.lower()} are not used"
    of_cpp = facts.writer == WriterKind.CPP and not is_own(facts.software_version)
    if of_cpp and _is_bad_version(facts.software_version):
        return "this version of the C++ writer computed wrong hashes (ORC-1024)"
    if of_cpp and node.kind in _WRONG_IN_CPP:
        return f"the C++ writer hashes {node.kind.name} values wrongly"
    if of_cpp and node.kind is TypeKind.FLOAT:
        return "the C++ writer hashes FLOAT values as the doubles that it received, before it rounds them"
    if kind == StreamKind.BLOOM_FILTER and node.kind not in INTEGER_KINDS | {TypeKind.DATE}:
        return "filters of the original kind are used for integers and dates only"
    if encoding.bloom_encoding > 1:
        return f"bloom encoding {encoding.bloom_encoding} is unknown"
    if node.kind in TIMESTAMP_KINDS and encoding.bloom_encoding != 1:
        return "the filter has timestamps in the writer's local time (ORC-135)"
    if node.kind is TypeKind.DECIMAL and not _as_stored(node, facts, options):
        return f"with decimal_rounding={options.decimal_rounding!r} values may differ from the digits in the filter"
    return None


def _as_stored(node: OrcType, facts: FileFacts, options: ValueOptions) -> bool:
    """Whether every decimal is read with the digits that the writer received."""
    return options.decimal_rounding == "error" or facts.by_spark or is_decimal64(node, decimal64=facts.decimal64)


def _is_bad_version(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return True
    numbers = tuple(map(int, found.groups()))
    return _FIRST_BAD_VERSION <= numbers <= _LAST_BAD_VERSION or numbers == _ALSO_BAD_VERSION


MAY_WRAP = (
    "no statistics show that the values are in the range of their type: larger values wrap around, but their hashes "
    "do not"
)


def may_wrap(node: OrcType, facts: FileFacts) -> bool:
    """Whether values of the column may have been too large for their type. In that case a filter may be used only for
    row groups for which ``surely_fits`` is true.

    The result is False for BYTE columns in files of ORC Java, because ORC Java converts values to BYTE before the
    values are hashed."""
    return node.kind in _NARROWED and not (node.kind is TypeKind.BYTE and facts.writer == WriterKind.JAVA)


def surely_fits(column: StatisticsColumn) -> Bools:
    """For each unit (file, stripe or row group): whether the minimum and the maximum are in the range of the type. If
    so, no value was too large, because the writer computes both before it stores the values."""
    return column.all_null | (column.lower.valid & column.upper.valid)


def literal_hashes(
    node: OrcType, literal: Any, facts: FileFacts, options: ValueOptions, *, zone: Zone | None
) -> list[int] | None:
    """All hashes that a value equal to ``literal`` may have in the filters. None if the filters cannot be used for this
    literal.

    ``literal``: a value of the physical domain of predicates. ``zone``: the writer's zone (``zone_of_statistics``). An
    empty list means that no value of the column can equal the literal.
    """
    if node.kind in INTEGER_KINDS:
        return _integer_hashes(node, literal, options)
    if node.kind is TypeKind.DATE:
        return _of_integers(hybrid_days(literal) if facts.moves_days(options) and abs(literal) < 1 << 40 else [literal])
    if node.kind in FLOAT_KINDS:
        return _float_hashes(literal)
    if node.kind in TIMESTAMP_KINDS:
        return _timestamp_hashes(node, literal, facts, options, zone)
    if node.kind is TypeKind.DECIMAL:
        return _decimal_hashes(node, literal, facts, options)
    if node.kind in STRING_KINDS:
        if options.utf8 == "replace" and REPLACEMENT in literal:
            return None
        texts = _char_forms(literal, node.max_length) if node.kind is TypeKind.CHAR else [literal]
        return None if texts is None else _of_texts(texts)
    return _of_texts([literal]) if node.kind is TypeKind.BINARY else None


def many_hashes(node: OrcType, literals: Sequence[Any], options: ValueOptions) -> npt.NDArray[np.int64] | None:
    """The hashes of many literals, for types whose values have one hash each. None for other types, where the hashes
    must be computed one literal at a time."""
    if node.kind in INTEGER_KINDS and not reads_as_timestamp(node, options):
        return hash_integers(np.array([value for value in literals if -(1 << 63) <= value < 1 << 63], np.int64))
    if node.kind is TypeKind.DATE and all(GREGORIAN_START <= day < 1 << 40 for day in literals):
        return hash_integers(np.array(literals, np.int64))
    texts = node.kind in (TypeKind.STRING, TypeKind.VARCHAR) and options.utf8 != "replace"
    if not texts and node.kind is not TypeKind.BINARY:
        return None
    offsets = np.zeros(len(literals) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, literals), np.int64, len(literals)), out=offsets[1:])
    return hash_byte_strings(offsets, b"".join(literals))


def each_hash(
    node: OrcType, literals: Sequence[Any], facts: FileFacts, options: ValueOptions, *, zone: Zone | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Bools]:
    """Returns three arrays for many literals. The first array has the hashes. The second array has the index of the
    literal of each hash, in ascending order. The third array marks the literals for which the filters cannot be
    used."""
    at_once = many_hashes(node, literals, options)
    unknown = np.zeros(len(literals), np.bool_)
    if at_once is not None and len(at_once) == len(literals):
        return at_once, np.arange(len(literals)), unknown
    hashes: list[int] = []
    owners: list[int] = []
    for number, literal in enumerate(literals):
        keys = literal_hashes(node, literal, facts, options, zone=zone)
        if keys is None:
            unknown[number] = True
        else:
            hashes += keys
            owners += [number] * len(keys)
    return np.array(hashes, np.int64), np.array(owners, np.int64), unknown


def _of_integers(values: list[int]) -> list[int]:
    fitting = [value for value in values if -(1 << 63) <= value < 1 << 63]
    return [int(key) for key in hash_integers(np.array(fitting, np.int64))]


def _of_texts(texts: list[bytes]) -> list[int]:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return [int(key) for key in hash_byte_strings(offsets, b"".join(texts))]


def _integer_hashes(node: OrcType, literal: int, options: ValueOptions) -> list[int]:
    if reads_as_timestamp(node, options):
        micros, rest = divmod(literal, 1000)
        return [] if rest else _of_integers([micros])
    return _of_integers([literal])


def _float_hashes(literal: float) -> list[int] | None:
    if math.isnan(literal):
        return None
    zeros = (0.0, -0.0)
    bits = [struct.unpack("<q", struct.pack("<d", value))[0] for value in (zeros if literal == 0 else (literal,))]
    return _of_integers(bits)


def _timestamp_hashes(
    node: OrcType, literal: int, facts: FileFacts, options: ValueOptions, zone: Zone | None
) -> list[int] | None:
    """The hashes of a timestamp. A value less than a second before the epoch is read as one second later. So for a
    literal near the epoch, two values are looked up in the filters.

    The writer computed local times with its own time zone table, and orcidx reads them with another table. So orcidx
    also looks up the values that another table may have given. For years in which tables may differ by any amount, the
    filters are not used. Java rounds to milliseconds downwards. ORC C++ rounds towards zero if a value before 1970
    comes from Arrow, because such a value has negative nanoseconds. So in files of ORC C++, both millisecond values are
    looked up.
    """
    millis = literal // NANOS_PER_MILLI
    if node.kind is TypeKind.TIMESTAMP and (options.timezone is not None or zone is None):
        return None
    if millis < OLD_CLOCKS_MILLIS:
        return None
    walls = [millis]
    shifts: tuple[int, ...] = (0,)
    if node.kind is TypeKind.TIMESTAMP and zone is not None:
        clock = clock_zone(options)
        if clock is not None:
            walls = [millis + 1000 * offset for offset in clock.offsets_near(millis // 1000)]
        if not zone.is_fixed and not all(1000 * CALM_FROM <= wall < 1000 * CALM_UNTIL for wall in walls):
            return None
        shifts = zone.shifts
    keys = []
    for wall in {wall + 1000 * shift for wall in walls for shift in shifts}:
        keys += [wall, wall - 1000] if abs(wall) < 1000 * FARTHEST_ZONE else [wall]
        if facts.writer == WriterKind.CPP and wall < 0 and literal % NANOS_PER_MILLI:
            keys.append(wall + 1)
    return _of_integers(keys)


def _decimal_hashes(node: OrcType, literal: Decimal, facts: FileFacts, options: ValueOptions) -> list[int] | None:
    """The hashes of a decimal. Most writers remove trailing zeros from the text, but older C++ writers keep them. In
    files of version [1, 9999], short decimals may be hashed as unscaled numbers."""
    if node.precision == 0:
        return None
    _, scale = decimal_digits(node, options)
    unscaled, exact = scaled_floor(literal, scale)
    if not exact:
        return []
    kept = plain_text(unscaled, scale)
    stripped = kept.rstrip("0").rstrip(".") if scale else kept
    hashes = _of_texts([text.encode() for text in dict.fromkeys((stripped, kept))])
    return hashes + (_of_integers([unscaled]) if is_decimal64(node, decimal64=facts.decimal64) else [])


def _char_forms(literal: bytes, length: int) -> list[bytes] | None:
    """A CHAR value without trailing spaces, and the same value with spaces up to the length of its type in
    characters. None if too many spaces are missing to make the second value."""
    trimmed = literal.rstrip(b" ")
    missing = length - len(trimmed.decode("utf-8", "replace"))
    if missing > LONGEST_SIZED:
        return None
    return [trimmed, trimmed + b" " * missing] if missing > 0 else [trimmed]
