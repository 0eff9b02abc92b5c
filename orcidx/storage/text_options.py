"""Options of a storage that come as text: from a command line, or through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["options_of_text"]

_TRUTH = {"true": True, "false": False}


def options_of_text(texts: Mapping[str, str]) -> dict[str, Any]:
    """The options as fsspec takes them: "true" and "false" are truth values, since a text is true whatever it says."""
    return {name: _TRUTH.get(text.strip().lower(), text) for name, text in texts.items()}
