"""Checks whether an untrusted path or URL is inside a directory."""

from __future__ import annotations

import os
import re
import urllib.parse

from orcidx.storage.local import local_path_of
from orcidx.storage.stores import is_url

__all__ = ["in_one_store", "is_inside"]

_CLIMBS = re.compile(r"(^|[/\\])\.\.($|[/\\])")


def is_inside(place: str, directory: str) -> bool:
    """Whether ``place`` is below ``directory``. Both are paths or URLs. The result is False if ``place`` contains
    ``..``.

    Symbolic links of local paths are resolved. If ``place`` contains ``::``, which chains file systems, the result is
    False.
    """
    if "::" in place or "\x00" in place or _CLIMBS.search(place) or _CLIMBS.search(urllib.parse.unquote(place)):
        return False
    here, base = _local(place), _local(directory)
    if here is not None and base is not None:
        return _below(here.replace(os.sep, "/"), base.replace(os.sep, "/"))
    if here is not None or base is not None:
        return False
    return _below(_without_case(place), _without_case(directory))


def in_one_store(place: str, other: str) -> bool:
    """Whether two paths or URLs have the same scheme and the same bucket or host. All local paths are in one store."""
    if "::" in place or "\x00" in place:
        return False
    here, there = _local(place), _local(other)
    if here is not None or there is not None:
        return here is not None and there is not None
    one, two = (urllib.parse.urlsplit(_without_case(url)) for url in (place, other))
    return (one.scheme, one.netloc) == (two.scheme, two.netloc)


def _below(place: str, base: str) -> bool:
    base = base.rstrip("/") + "/"
    return place.startswith(base) and len(place) > len(base)


def _local(text: str) -> str | None:
    path = local_path_of(text) if is_url(text) else text
    return None if path is None else os.path.realpath(path)


def _without_case(url: str) -> str:
    """The URL with its scheme in lower case, because schemes are compared without regard to case."""
    scheme, colon, rest = url.partition(":")
    return f"{scheme.lower()}{colon}{rest}"
