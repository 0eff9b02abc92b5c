"""Converts decimals to and from the text form that statistics and bloom filters use."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

__all__ = ["plain_text", "read_decimal"]


def read_decimal(text: bytes) -> Decimal | None:
    """Parses a decimal in the form in which Java prints it. None if the value is not a finite decimal of reasonable
    size."""
    try:
        value = Decimal(text.decode("ascii").strip()) if len(text) <= 100 else Decimal("nan")
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return value if value.is_finite() and abs(value.adjusted()) <= 100 else None


def plain_text(unscaled: int, scale: int) -> str:
    """The number unscaled * 10**-scale as text without exponent, with exactly ``scale`` fraction digits."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return ("-" if unscaled < 0 else "") + whole + ("." + fraction if fraction else "")
