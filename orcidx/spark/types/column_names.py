"""Names of columns in Spark's SQL."""

from __future__ import annotations

__all__ = ["quoted"]


def quoted(name: str) -> str:
    """Returns the name in backquotes, so that Spark reads dots and other special characters as parts of the name."""
    return "`" + name.replace("`", "``") + "`"
