"""The objects of a many-file scan: files, directories, globs and prefixes become ``Source``s in a fixed order.

Directories are listed recursively and sorted by path; names that Spark hides are skipped: those that begin with "."
or "_" (but not ``_key=value``) and unfinished copies. Empty files are kept.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from orcidx.storage.failures import classify, translate
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.sources import Source, describe_source, filesystem_of, is_obstore, is_url
from orcidx.storage.stores import Found, Lister

__all__ = ["is_pattern", "list_sources"]

_MAGIC = re.compile(r"[*?\[]")
_LISTERS = 16


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards."""
    return _MAGIC.search(path) is not None


def list_sources(
    sources: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> list[Source]:
    """Every object of one source or of an iterable of sources, those of an iterable in its order.

    A source is what ``describe_source`` takes; a path or URL may also name a directory, a prefix, or a glob (``*``,
    ``?``, ``[a-z]``, ``**``; a file whose name has these characters wins). Each found file knows its ``root``: the
    directory listed, or the part of the glob before its first wildcard. Raises ``FileNotFoundError`` for what is not
    there; a glob without matches gives nothing.
    """
    if isinstance(sources, (list, set, frozenset)) or _is_many(sources):
        described = [describe_source(one, storage_options=storage_options, filesystem=filesystem) for one in sources]
    else:
        described = [describe_source(sources, storage_options=storage_options, filesystem=filesystem)]
    remote = [source for source in described if source.kind in ("url", "fsspec", "obstore", "arrow")]
    if len(remote) < 2:
        return [found for source in described for found in _expand(source)]
    with ThreadPoolExecutor(min(_LISTERS, len(remote)), thread_name_prefix="orcidx-list") as pool:
        return [found for expanded in pool.map(_expand, described) for found in expanded]


def _is_many(sources: Any) -> bool:
    if isinstance(sources, tuple):
        return not (len(sources) == 2 and is_obstore(sources[0]))
    plain = (str, bytes, bytearray, memoryview, os.PathLike, Source)
    if isinstance(sources, plain) or hasattr(sources, "read") or hasattr(sources, "read_ranges"):
        return False
    try:
        memoryview(sources)
    except TypeError:
        return isinstance(sources, Iterable)
    return False


def _hidden(name: str) -> bool:
    """Spark's rule (HadoopFSUtils.shouldFilterOutPathName)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _visible(path: str, base: str, pattern: str = "") -> bool:
    """Nothing below ``base`` is hidden, but for names that begin as a part of the pattern spells it out."""
    spelled = {part[0] for part in pattern.removeprefix(base).split("/") if part[:1] in ("_", ".")}
    below = path.removeprefix(base).strip("/")
    return not any(_hidden(part) and part[0] not in spelled for part in below.split("/"))


def _glob_base(pattern: str) -> str:
    """The directory before the first wildcard, with the slash at its end; empty when there is none."""
    match = _MAGIC.search(pattern)
    assert match is not None
    return pattern[: pattern.rfind("/", 0, match.start()) + 1]


def _glob_regex(pattern: str) -> re.Pattern[str]:
    """Matches the paths of a glob and everything below them."""
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
    if source.kind in ("bytes", "object", "reader") or source.root is not None:
        return [source]
    if source.kind == "path":
        return _expand_local(source)
    try:
        return _expand_remote(source)
    except Exception as error:  # storage libraries raise what they like; classify() sorts it
        known = translate(error, classify(error), name=source.name, what="the list of files")
        if known is error:
            raise
        raise known from error


def _expand_local(source: Source) -> list[Source]:
    """Files below a relative path get relative names, as the caller began them."""
    status = _status(source.location)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        return [_version(source, _stat_version(status))]
    relative = not is_url(source.name) and os.path.abspath(source.name) == source.location
    path = source.name if relative else source.location
    if _MAGIC.search(path) and not os.path.lexists(path):
        found: dict[str, Found] = {}  # ** gives directories and the files in them
        for match in glob.iglob(path, recursive=True, include_hidden=True):
            found.update((one.path, one) for one in (_walk(match) if os.path.isdir(match) else [_local_file(match)]))
        base = _glob_base(path.replace(os.sep, "/"))
        kept = [one for one in found.values() if _visible(one.path.replace(os.sep, "/"), base, path)]
        return _local(kept, base)
    if status is None:  # FileNotFoundError here, not in the middle of the scan
        return [_version(source, _stat_version(os.stat(path)))]
    return _local(_walk(path), path)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _local(found: Iterable[Found], root: str) -> list[Source]:
    root = os.path.abspath(root)
    ordered = sorted(found, key=lambda one: one.path)
    return [
        Source(one.path, "path", os.path.abspath(one.path), root=root, size=one.size, listed=one.version)
        for one in ordered
    ]


def _sorted(source: Source, found: Iterable[Found], root: str) -> list[Source]:
    ordered = sorted(found, key=lambda one: one.path)
    return [
        replace(source, name=one.path, location=one.path, root=root, size=one.size, listed=one.version)
        for one in ordered
    ]


def _version(source: Source, version: Fingerprint | None) -> Source:
    return replace(source, size=None if version is None else version.size, listed=version)


def _stat_version(status: os.stat_result) -> Fingerprint:
    return Fingerprint(status.st_size, None, status.st_mtime_ns)


def _local_file(path: str) -> Found:
    try:
        return Found(path, _stat_version(os.stat(path)))
    except FileNotFoundError:  # a dangling link, or gone since it was listed: opening it says so
        return Found(path, None)


def _walk(root: str) -> list[Found]:
    found: list[Found] = []
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            for entry in entries:
                if _hidden(entry.name):
                    continue
                if entry.is_dir():
                    waiting.append(entry.path)
                elif entry.is_file() or entry.is_symlink():
                    found.append(_local_file(entry.path))
    return found


def _expand_remote(source: Source) -> list[Source]:
    filesystem, path = source.filesystem, source.location
    web = False
    if source.kind in ("url", "fsspec"):
        directory = path.endswith("/")  # fsspec takes the slash away
        if source.kind == "url":
            filesystem, path = filesystem_of(path, source.storage_options)
        web = "http" in filesystem.protocol
        if web and not directory and "*" not in path:
            return [source]  # "?" begins a query, and asking whether it is a file would cost a request each
    lister = _lister(source.kind, filesystem)
    one = None if web else lister.file(path)
    if one is not None:
        return [_version(source, one.version)]
    if source.kind == "url":
        source = replace(source, kind="fsspec", filesystem=filesystem, storage_options={})
    if _MAGIC.search(path):
        base, wanted = _glob_base(path), _glob_regex(path)
        found = [f for f in lister.walk(base) if wanted.fullmatch(f.path.strip("/")) and _visible(f.path, base, path)]
        return _named(_sorted(source, found, base), filesystem)
    found = lister.walk(path)
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no such object, directory or prefix", source.name)
    return _named(_sorted(source, (f for f in found if _visible(f.path, path)), path), filesystem)


def _lister(kind: str, filesystem: Any) -> Lister:
    if kind == "obstore":
        from orcidx.storage.obstore_backend import ObstoreLister

        return ObstoreLister(filesystem)
    if kind == "arrow":
        from orcidx.storage.arrow_backend import ArrowLister

        return ArrowLister(filesystem)
    from orcidx.storage.fsspec_backend import FsspecLister

    return FsspecLister(filesystem)


def _named(sources: list[Source], filesystem: Any) -> list[Source]:
    """Sources in fsspec are named by their URL, as the caller named what was listed."""
    if not sources or sources[0].kind != "fsspec":
        return sources
    return [replace(source, name=filesystem.unstrip_protocol(source.location)) for source in sources]
