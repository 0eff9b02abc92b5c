"""Tests whether a double keeps the text of a number."""

from __future__ import annotations

import decimal
import math

__all__ = ["is_exact_double"]


def is_exact_double(text: str) -> bool:
    """Whether a double gives the text of the number back, by its shortest digits or by the 17 that C's ``%.17g``
    prints. 0.1 and 0.10000000000000001 are such numbers, 12345678901234567890 is not."""
    try:
        value, wanted = float(text), decimal.Decimal(text.strip())
    except (ValueError, decimal.InvalidOperation):
        return False
    if not wanted.is_finite():
        return True  # it says nan or inf itself
    if not math.isfinite(value):
        return False
    return decimal.Decimal(repr(value)) == wanted or decimal.Decimal(f"{value:.17g}") == wanted
