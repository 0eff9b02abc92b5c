"""Converts decimals to and from the text form that statistics and bloom filters use, and to integers with a scale."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

__all__ = ["plain_text", "read_decimal", "scaled_floor"]


def read_decimal(text: bytes) -> Decimal | None:
    """Parses a decimal in the form in which Java prints it. None if the value is not a finite decimal of reasonable
    size."""
    try:
        value = Decimal(text.decode("ascii").strip()) if len(text) <= 100 else Decimal("nan")
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return value if value.is_finite() and abs(value.adjusted()) <= 100 else None


def scaled_floor(literal: float | Decimal, scale: int) -> tuple[int, bool]:
    """The floor of literal * 10**scale, and whether the result is exact. Very large exponents are limited to
    10**100."""
    if isinstance(literal, int):
        return literal * 10**scale, True
    number = Decimal(literal)
    if number == 0:
        return 0, True
    if not number.is_finite() or number.adjusted() > 100:
        return (-(10**100) if number < 0 else 10**100), False
    sign, digits, exponent = number.as_tuple()
    whole = int(Decimal((sign, digits, 0)))
    shift = int(exponent) + scale
    if shift >= 0:
        return whole * 10**shift, True
    if -shift > len(digits) + 1:
        return (-1 if whole < 0 else 0), False
    floor, rest = divmod(whole, 10**-shift)
    return floor, rest == 0


def plain_text(unscaled: int, scale: int) -> str:
    """The number unscaled * 10**-scale as text without exponent, with exactly ``scale`` fraction digits."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return ("-" if unscaled < 0 else "") + whole + ("." + fraction if fraction else "")
