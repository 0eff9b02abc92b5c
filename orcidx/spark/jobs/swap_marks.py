"""Marks: small files that record an unfinished replacement of files by ``rewrite``. Each directory gets a mark for
orcidx's listings. Another mark, beside the manifest, is for reads in which Spark lists the files."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orcidx.errors import OrcidxError
from orcidx.storage import Fingerprint, describe_source
from orcidx.storage.folder import Folder
from orcidx.storage.unfinished_swaps import MARK, SWAP_FOLDER, UNDER_WAY, Swap, mark_of

__all__ = ["SWAP_FOLDER", "mark", "swap_under_way", "unmark"]


def mark(folder: Folder, manifest: str, groups: Sequence[Mapping[str, Any]], kept_until: float | None = None) -> None:
    """Writes a mark into each directory. A mark says which old files are replaced by which new file. The marks are
    written before the first new file gets its name. ``kept_until``: the time until which the old files are kept
    (seconds since 1970)."""
    swaps = defaultdict(list)
    for group in groups:
        old = {
            one["path"].rpartition("/")[2]: Fingerprint(one["size"], one["etag"], one["mtime"])
            for one in group["replaced"]
        }
        swaps[_beside(manifest, group)].append(Swap(group["final"].rpartition("/")[2], old))
    folder.put(_under_way(manifest), json.dumps({} if kept_until is None else {"kept_until": kept_until}).encode())
    for name, those in swaps.items():
        folder.put(name, mark_of(those, kept_until))


def unmark(folder: Folder, manifest: str, groups: Sequence[Mapping[str, Any]]) -> None:
    """Deletes the marks. Marks that are already gone are no error."""
    for name in sorted({_beside(manifest, group) for group in groups}):
        folder.delete(name)
    folder.delete(_under_way(manifest))


def _beside(manifest: str, group: Mapping[str, Any]) -> str:
    base, slash, _ = group["staged"].rpartition("/")
    token = manifest.rpartition("/")[2].removesuffix(".json")
    return f"{base}{slash}{MARK}{token}.json"


def _under_way(manifest: str) -> str:
    return manifest.removesuffix(".json") + UNDER_WAY


def swap_under_way(path: object, storage_options: Mapping[str, Any] | None) -> bool:
    """True if a rewrite of this directory has not finished the replacement of its files. For a local directory,
    rewrites of directories above it count as well. False if orcidx cannot list the directory."""
    try:
        return any(
            stored.name.endswith(UNDER_WAY)
            for one in _directories(path, storage_options)
            for stored in one.list(SWAP_FOLDER)
        )
    except (OrcidxError, OSError, ImportError):
        return False


def _directories(path: object, storage_options: Mapping[str, Any] | None) -> Iterator[Folder]:
    for one in path if isinstance(path, (list, tuple)) else [path]:
        source = describe_source(one, storage_options=storage_options)
        if source.kind != "path":
            yield Folder(source)
            continue
        place = os.path.abspath(source.location)
        while True:
            if os.path.isdir(os.path.join(place, SWAP_FOLDER)):
                yield Folder(describe_source(place))
            above = os.path.dirname(place)
            if above == place:
                break
            place = above
