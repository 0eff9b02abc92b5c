"""Partition values in paths, as Hive and Spark write them: directories with names ``key=value``."""

from __future__ import annotations

import os
import urllib.parse

__all__ = ["hive_partition"]

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def hive_partition(path: str, root: str | None) -> dict[str, str | None]:
    """The ``key=value`` directories of ``path`` below ``root``, outermost first. The file's own name is ignored.

    Parameters
    ----------
    path : str
        The file.
    root : str or None
        The directory that was listed.

    Returns
    -------
    dict of str to str or None
        ``%XX`` is decoded in keys and values; ``__HIVE_DEFAULT_PARTITION__`` is None.

    Examples
    --------
    >>> from orcidx.storage import hive_partition
    >>> hive_partition("/t/day=1/city=Ulm/a.orc", "/t")
    {'day': '1', 'city': 'Ulm'}
    """
    path = path.replace(os.sep, "/")
    if root is not None:
        base = root.replace(os.sep, "/").rstrip("/") + "/"
        path = path.removeprefix(base)
    partition: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if key and equals:
            partition[_unescape(key)] = None if value == _NULL_PARTITION else _unescape(value)
    return partition


def _unescape(text: str) -> str:
    """Decodes ``%XX``. Hive escapes single characters below 128. pyarrow escapes the UTF-8 bytes of any character. If
    the decoded bytes are not UTF-8, the text is returned unchanged."""
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
