"""Storage options that are given as text, on a command line or through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["options_of_text"]

_TRUTH = {"true": True, "false": False}


def options_of_text(texts: Mapping[str, str]) -> dict[str, Any]:
    """Converts options of a file system that are given as text. "true" and "false" become booleans, because in Python
    every text that is not empty counts as true.

    Parameters
    ----------
    texts : mapping of str to str
        The options.

    Returns
    -------
    dict
        The options as fsspec takes them.

    Examples
    --------
    >>> from orcidx.storage import options_of_text
    >>> options_of_text({"anon": "true", "key": "k"})
    {'anon': True, 'key': 'k'}
    """
    return {name: _TRUTH.get(text.strip().lower(), text) for name, text in texts.items()}
