"""Lists the objects of a scan of many files. Files, directories, globs and prefixes become ``Source``s in a fixed
order.

Directories are listed recursively and sorted by path. Names that Spark hides are skipped: names that begin with "." or
"_" (but not ``_key=value``), and names that end with "._COPYING_", which Hadoop gives to incomplete copies. Empty files
are kept. Files that an unfinished rewrite has already replaced are left out, with a warning (``unfinished_swaps``)."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from orcidx.errors import StorageError
from orcidx.frozen import with_fields
from orcidx.storage.failures import translating
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.sources import describe_source
from orcidx.storage.stores import AT_HAND, Found, Source, Store, of_object, store_of
from orcidx.storage.unfinished_swaps import is_mark, settled_listing
from orcidx.threads.tasks import side_by_side

__all__ = [
    "expand_objects",
    "glob_base",
    "is_hidden",
    "is_pattern",
    "is_visible",
    "list_sources",
    "names_in",
    "of_version",
]

_MAGIC = re.compile(r"[*?\[]")
_LISTED_AT_ONCE = 16
"""The maximum number of directories in stores that are listed at the same time."""


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards."""
    return _MAGIC.search(path) is not None


def list_sources(
    sources: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> list[Source]:
    """Lists all objects of one source, or of several sources in the order of the iterable.

    Parameters
    ----------
    sources
        The same as for ``describe_source``. A path or URL may also name a directory, a prefix, or a glob (``*``, ``?``,
        ``[a-z]``, ``**``). If a file has exactly this name, with these characters, the file is used.
    storage_options, filesystem
        As for ``describe_source``.

    Returns
    -------
    list of Source
        Each source has a ``root``: the directory that was listed, or the part of the glob before its first wildcard.
        If a glob has no matches, the list is empty.

    Raises
    ------
    FileNotFoundError
        A path does not exist.

    Examples
    --------
    >>> from orcidx.storage import list_sources
    >>> [source.name for source in list_sources("no-such-*.orc")]
    []
    """
    if isinstance(sources, (list, set, frozenset)) or _is_many(sources):
        described = [describe_source(one, storage_options=storage_options, filesystem=filesystem) for one in sources]
    else:
        described = [describe_source(sources, storage_options=storage_options, filesystem=filesystem)]
    remote = [source for source in described if source.kind not in AT_HAND]
    if len(remote) < 2:
        return [found for source in described for found in _expand(source)]
    return [
        found for expanded in side_by_side(_expand, described, min(_LISTED_AT_ONCE, len(remote))) for found in expanded
    ]


def names_in(directory: Source) -> list[str]:
    """The names of the files in a directory. Their versions are not read. Raises the errors of ``list_sources``."""
    if directory.kind != "path":
        return [source.name.replace("\\", "/").rpartition("/")[2] for source in list_sources(directory)]
    try:
        with os.scandir(directory.location) as entries:
            return [entry.name for entry in entries if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        raise
    except OSError as error:
        raise StorageError(f"the list of files cannot be read: {error}", file=directory.name) from error


def _is_many(sources: Any) -> bool:
    if isinstance(sources, tuple):
        return of_object(sources) is None  # a pair of a store and a path in it is one source
    plain = (str, bytes, bytearray, memoryview, os.PathLike, Source)
    if isinstance(sources, plain) or hasattr(sources, "read") or hasattr(sources, "read_ranges"):
        return False
    try:
        memoryview(sources)
    except TypeError:
        return isinstance(sources, Iterable)
    return False


def is_hidden(name: str) -> bool:
    """Whether Spark hides files with this name. The rule is that of ``HadoopFSUtils.shouldFilterOutPathName``."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def is_visible(path: str, base: str, pattern: str = "") -> bool:
    """Whether all names in the path below ``base`` are visible. If a name in the pattern begins with "." or "_", names
    that begin with the same character are not hidden."""
    spelled = {part[0] for part in pattern.removeprefix(base).split("/") if part[:1] in ("_", ".")}
    below = path.removeprefix(base).strip("/")
    return not any(is_hidden(part) and part[0] not in spelled for part in below.split("/"))


def glob_base(pattern: str) -> str:
    """The part of a pattern up to the last slash before the first wildcard. Empty if there is no such slash."""
    match = _MAGIC.search(pattern)
    assert match is not None
    return pattern[: pattern.rfind("/", 0, match.start()) + 1]


def _glob_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression that matches the paths of a glob and everything below them."""
    *outer, last = pattern.strip("/").split("/")
    before = "".join("(?:[^/]+/)*" if part == "**" else _part_regex(part) + "/" for part in outer)
    return re.compile(before + ("[^/]+" if last == "**" else _part_regex(last)) + "(?:/.*)?", re.DOTALL)


def _part_regex(part: str) -> str:
    out, at = [], 0
    while at < len(part):
        close = part.find("]", at + 2) if part[at] == "[" else -1
        if close > 0:
            inside = part[at + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            out.append(f"(?!/)[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = close + 1
            continue
        out.append({"*": "[^/]*", "?": "[^/]"}.get(part[at]) or re.escape(part[at]))
        at += 1
    return "".join(out)


def _expand(source: Source) -> list[Source]:
    if not source.in_store or source.root is not None:
        return [source]
    if source.kind in AT_HAND:
        store, path = store_of(source)
        try:
            return store.expand(source, path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            raise
        except OSError as error:  # e.g. a name that is too long, a cycle of links, or a disk that fails
            raise StorageError(f"the list of files cannot be read: {error}", file=source.name) from error
    with translating(source.name, what="the list of files", doing="reading"):
        store, path = store_of(source)
        found = store.expand(source, path)
    return [replace(one, ships_secrets=True) for one in found] if source.ships_secrets else found


def expand_objects(store: Store, source: Source, path: str) -> list[Source]:
    """Implements ``Store.expand``: lists the path, or the part of the path before its first wildcard."""
    one = store.file(path)
    if one is not None:
        return [of_version(source, one.version)]
    if is_pattern(path):
        base, wanted = glob_base(path), _glob_regex(path)
        found = [one for one in _objects(store, base, source.name) if wanted.fullmatch(one.path.strip("/"))]
        return _sorted(store, (one for one in found if is_visible(one.path, base, path)), base)
    found = _objects(store, path, source.name)
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no such object, directory or prefix", source.name)
    return _sorted(store, (one for one in found if is_visible(one.path, path)), path)


def _objects(store: Store, path: str, name: str) -> list[Found]:
    def list_once() -> tuple[list[Found], list[str]]:
        found = [one for one in store.walk(path) if not one.path.endswith("/")]
        return found, [one.path for one in found if is_mark(one.path)]

    return settled_listing(list_once, store.read, name)


def _sorted(store: Store, found: Iterable[Found], root: str) -> list[Source]:
    ordered = sorted(found, key=lambda one: one.path)
    return [replace(store.source(one.path), root=root, size=one.size, listed=one.version) for one in ordered]


def of_version(source: Source, version: Fingerprint | None) -> Source:
    """The same source with the version from a listing."""
    return with_fields(source, size=None if version is None else version.size, listed=version)
