"""Defines questions: simple conditions on keys that an index can evaluate. This module also translates a leaf of a
predicate into questions.

A question selects rows by their keys. The module ``pruning.bounds`` has a different task: it compares a condition with
the minimum and the maximum of several rows (decision 0148). Every index evaluates the same few kinds of questions. So
the modules of the index formats do not handle operators and literals. A leaf is translated into one or more questions.
The result is the union of the rows that satisfy them. ``exact`` means that the union has exactly the rows for which the
leaf is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from orcidx.paimon.data_types import BINARIES, INTEGERS, TEXTS, TIMESTAMPS
from orcidx.paimon.keys import Key, KeyType, ordered_bits
from orcidx.predicate import BoundLeaf, Domain, Op
from orcidx.predicate.like import like_prefix
from orcidx.pruning.bounds import successor

__all__ = ["Alternatives", "NullTest", "Points", "Question", "Span", "questions_of"]


@dataclass(frozen=True)
class NullTest:
    """Selects the rows that are null. If ``negated``, selects the rows that are not null."""

    negated: bool = False


@dataclass(frozen=True)
class Points:
    """Selects the rows whose key is one of ``keys``. If ``negated``, selects the rows that are not null and whose key
    is not in ``keys``. ``keys`` must ascend without duplicates.

    If there are ``stems``, a row is also selected if its key consists of a stem and any number of trailing spaces. A
    bloom filter can look up only ``keys``. If ``negated``, there are no stems."""

    keys: tuple[Key, ...]
    negated: bool = False
    stems: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Span:
    """Selects the rows whose key is between ``low`` and ``high``. If ``low`` or ``high`` is None, there is no bound on
    that side."""

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False


Question = NullTest | Points | Span


@dataclass(frozen=True)
class Alternatives:
    """The rows that satisfy at least one of the questions. If ``exact``, the leaf is true for all of these rows. The
    leaf is never true for any other row, even without ``exact``."""

    questions: tuple[Question, ...]
    exact: bool = True


_ROOTS = {
    Domain.BOOL: ("BOOLEAN",),
    Domain.INT: (*INTEGERS, "TIME"),  # ORC stores a TIME as an integer of milliseconds
    Domain.DECIMAL: ("DECIMAL",),
    Domain.FLOAT: ("FLOAT", "DOUBLE"),
    Domain.STRING: TEXTS,
    Domain.BINARY: BINARIES,
    Domain.DATE: ("DATE",),
    Domain.TIME: ("TIME",),
    Domain.TIMESTAMP: TIMESTAMPS,
}
_MOST_SPACES = 64
"""The maximum number of trailing spaces with which a CHAR literal is looked up. If a value can have more trailing
spaces, the index is not used."""
_NANOS = {"TIME": 1_000_000, "TIMESTAMP": 1_000, "TIMESTAMP_LTZ": 1_000}
_BEYOND_EVERY_KEY = 1 << 140  # above the absolute value of every key


def questions_of(leaf: BoundLeaf, key_type: KeyType) -> Alternatives | None:
    """Translates a bound leaf into questions for an index whose keys have the type ``key_type``. Returns None if the
    leaf cannot be translated."""
    if leaf.op is Op.IS_NULL:
        return Alternatives((NullTest(leaf.negated),))
    if key_type.data_type.root not in _ROOTS.get(leaf.domain, ()):
        return None
    translate = _Translator(leaf, key_type)
    return translate.negated() if leaf.negated else translate.plain()


def floor_key(literal: Any, kind: KeyType, domain: Domain) -> tuple[Key, bool]:
    """The largest key that is not above a literal of a bound leaf, and whether this key is exactly the literal."""
    root = kind.data_type.root
    if isinstance(literal, bytes):
        return literal, True
    if kind.floating:
        return _float_key(literal, kind)
    if root == "DECIMAL":
        return _unscaled(literal, kind.data_type.scale)
    if domain in (Domain.TIME, Domain.TIMESTAMP):
        unit = _NANOS[root] if kind.data_type.precision > 3 else 1_000_000
        key, rest = divmod(int(literal), unit)
        return key, rest == 0 or kind.loses_digits
    return int(literal), True


def _float_key(literal: float, kind: KeyType) -> tuple[int, bool]:
    if kind.width == 8:
        return int(ordered_bits(np.array([literal]).view(np.int64), 8)[0]), True
    with np.errstate(over="ignore"):
        below = np.float32(literal)
    if float(below) > literal:
        below = np.nextafter(below, np.float32(-math.inf))
    bits = np.array([below]).view(np.int32).astype(np.int64)
    return int(ordered_bits(bits, 4)[0]), float(below) == literal


def _unscaled(literal: Decimal, scale: int) -> tuple[int, bool]:
    if not literal:
        return 0, True
    if literal.adjusted() > 80 or literal.adjusted() < -80:  # avoids writing out the digits of a malicious 1E+999999999
        beyond = _BEYOND_EVERY_KEY if literal.adjusted() > 0 else 0
        return (beyond, False) if literal > 0 else (min(-beyond, -1), False)
    exact = Context(prec=len(literal.as_tuple().digits) + 200)
    scaled = literal.scaleb(scale, exact)
    floor = scaled.to_integral_value(ROUND_FLOOR, exact)
    return int(floor), floor == scaled


class _Translator:
    """Translates one leaf. The type of the index's keys must fit the domain of the leaf's literals."""

    def __init__(self, leaf: BoundLeaf, kind: KeyType) -> None:
        self.leaf = leaf
        self.kind = kind
        self.is_char = leaf.char_length is not None

    def plain(self) -> Alternatives | None:
        leaf, op = self.leaf, self.leaf.op
        if op in (Op.EQ, Op.IN, Op.EQ_NULL_SAFE):
            return self._points()
        if op is Op.IS_NAN:
            return Alternatives((Points((self.kind.nan,)),) if self.kind.floating else ())
        if op in (Op.LT, Op.LE):
            return self._to(leaf.literals[0], open_end=op is Op.LT)
        if op in (Op.GT, Op.GE):
            return self._from(leaf.literals[0], open_end=op is Op.GT, nan=leaf.nan != "ieee")
        if op is Op.BETWEEN:
            low = self._from(leaf.literals[0], open_end=False, nan=False)
            high = self._to(leaf.literals[1], open_end=False)
            return None if low is None or high is None else _between(low, high)
        if op is Op.STARTS_WITH:
            return self._prefix(leaf.literals[0], exact=not self.is_char)
        if op is Op.LIKE:
            return self._prefix(like_prefix(leaf.literals[0]), exact=False)
        return None

    def negated(self) -> Alternatives | None:
        leaf, op = self.leaf, self.leaf.op
        if op in (Op.EQ, Op.IN):
            return self._points()
        if op is Op.EQ_NULL_SAFE:
            return _any(self._points(), Alternatives((NullTest(),)))
        if op is Op.IS_NAN:
            return Alternatives((Points((self.kind.nan,), True) if self.kind.floating else NullTest(True),))
        # No comparison with NaN is true, except > and >= with nan="largest". So the negations of all other comparisons
        # are true for NaN. The key of NaN is above all other keys.
        if op in (Op.LT, Op.LE):
            return self._from(leaf.literals[0], open_end=op is Op.LE, nan=True)
        if op in (Op.GT, Op.GE):
            return _any(self._to(leaf.literals[0], open_end=op is Op.GE), self._unordered())
        if op is Op.BETWEEN:
            below = self._to(leaf.literals[0], open_end=True)
            return _any(below, self._from(leaf.literals[1], open_end=True, nan=True))
        return None

    # ------------------------------------------------------------------ parts

    def _floor(self, literal: Any) -> tuple[Any, bool]:
        return floor_key(literal, self.kind, self.leaf.domain)

    def _points(self) -> Alternatives | None:
        negated = self.leaf.negated
        keys: set[Any] = set()
        stems: set[bytes] = set()
        for literal in self.leaf.literals:
            if self.is_char:
                # A comparison of CHAR(n) ignores trailing spaces, but the index contains each value with the trailing
                # spaces that were written. So the literal is looked up with each possible number of spaces. Values that
                # are stored as strings may have more than n characters. To find these values, the literal is also
                # used as a stem, which stands for the literal with any number of spaces (see ``Points``).
                stems.add(literal)
                spaces = (self.leaf.char_length or 0) - len(literal.decode(errors="replace"))
                if spaces > _MOST_SPACES and not negated:
                    return None
                keys.update(literal + b" " * n for n in range(min(max(spaces, 0), _MOST_SPACES) + 1))
                continue
            key, hits = self._floor(literal)
            if hits:
                keys.update(self._zeros(key))
        exact = not self.is_char and not self.kind.loses_digits
        return Alternatives((Points(tuple(sorted(keys)), negated, () if negated else tuple(sorted(stems))),), exact)

    def _zeros(self, key: Any) -> tuple[Any, ...]:
        """All keys whose value is equal to the value of ``key``. -0.0 and 0.0 are equal, but have two keys."""
        return (-1, 0) if self.kind.floating and key in (-1, 0) else (key,)

    def _from(self, literal: Any, *, open_end: bool, nan: bool) -> Alternatives | None:
        """Keys above a literal. The literal's own key is included unless ``open_end``. NaN is included if ``nan``."""
        if self.is_char:
            return _char_from(literal, open_end)
        low, hits = self._floor(literal)
        if hits:
            low = self._zeros(low)[-1] if open_end else self._zeros(low)[0]
        high = self.kind.infinity if self.kind.floating and not nan else None
        return Alternatives((Span(low, high, low_open=open_end or not hits),))

    def _to(self, literal: Any, *, open_end: bool) -> Alternatives | None:
        """Keys below a literal. The literal's own key is included unless ``open_end``. NaN is never included."""
        if self.is_char:
            return _char_to(literal, open_end)
        high, hits = self._floor(literal)
        if hits:
            high = self._zeros(high)[0] if open_end else self._zeros(high)[-1]
        return Alternatives((Span(None, high, high_open=open_end and hits),))

    def _unordered(self) -> Alternatives:
        """Returns the key of NaN if NaN is not ordered above every number. Otherwise returns no key."""
        return Alternatives((Points((self.kind.nan,)),) if self.kind.floating and self.leaf.nan == "ieee" else ())

    def _prefix(self, prefix: bytes, *, exact: bool) -> Alternatives | None:
        if not prefix:
            return Alternatives((NullTest(True),), exact)
        return Alternatives((Span(prefix, successor(prefix), high_open=True),), exact)


def _char_from(literal: bytes, open_end: bool) -> Alternatives | None:
    # A stored CHAR value is its trimmed form, followed by spaces. If the literal has no byte below the space, the
    # stored value and the trimmed form are on the same side of the literal. The only exception is the literal with
    # added spaces, which sorts after the literal, but is equal to it.
    if literal and min(literal) < 0x20:
        return None
    return Alternatives((Span(literal, None, low_open=open_end),), not open_end)


def _char_to(literal: bytes, open_end: bool) -> Alternatives | None:
    if literal and min(literal) < 0x20:
        return None
    if open_end:
        return Alternatives((Span(None, literal, high_open=True),))
    # "!" follows the space in ASCII. So ``literal + b"!"`` is above the literal with any number of spaces.
    return Alternatives((Span(None, literal + b"!", high_open=True),), False)


def _between(low: Alternatives, high: Alternatives) -> Alternatives:
    first, last = low.questions[0], high.questions[0]
    assert isinstance(first, Span)
    assert isinstance(last, Span)
    span = Span(first.low, last.high, first.low_open, last.high_open)
    return Alternatives((span,), low.exact and high.exact)


def _any(*parts: Alternatives | None) -> Alternatives | None:
    questions: list[Question] = []
    exact = True
    for part in parts:
        if part is None:
            return None
        questions += part.questions
        exact = exact and part.exact
    return Alternatives(tuple(questions), exact)
