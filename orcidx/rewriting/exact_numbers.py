"""Tests whether a double preserves the text of a number."""

from __future__ import annotations

import decimal
import math

__all__ = ["is_exact_double"]


def is_exact_double(text: str) -> bool:
    """Whether the text of the number can be restored from a double, by its shortest digits or by the 17 digits that C's
    ``%.17g`` prints. This is true for 0.1 and 0.10000000000000001, and false for 12345678901234567890."""
    try:
        value, wanted = float(text), decimal.Decimal(text.strip())
    except (ValueError, decimal.InvalidOperation):
        return False
    if not wanted.is_finite():
        return True  # the text is nan or inf
    if not math.isfinite(value):
        return False
    return decimal.Decimal(repr(value)) == wanted or decimal.Decimal(f"{value:.17g}") == wanted
