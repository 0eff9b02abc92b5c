"""Finds unfinished swaps. A swap replaces files of a directory with a new file that has the same rows. If the new file
exists, the old files are removed from a listing.

A job that makes a swap first writes a mark into the directory. A mark is a JSON file with the name
``_orcidx_swap-….json``, which readers do not take for data. The job then gives the new file its name, deletes the old
files, and at the end deletes the mark. A mark contains:

    {"version": 1, "swaps": [{"final": name, "replaced": [{"path": name, "size", "mtime", "etag"}]}], "kept_until"}

If the mark has ``kept_until`` (seconds since 1970), the old files are kept until that time, for readers that still use
these files.

A reader may list the directory before the swap has ended, or after the job was killed. If the new file already has its
final name, the reader leaves out the old files that the new file replaces. Readers without this rule, such as Spark's
own, read the rows of the old files and of the new file."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orcidx.errors import CorruptFile, StorageError
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.stores import Found

__all__ = ["MARK", "SWAP_FOLDER", "UNDER_WAY", "Swap", "is_mark", "mark_of", "settled_listing"]

SWAP_FOLDER = "_orcidx_rewrite"
"""The directory with the manifests of rewrites, inside the directory that was rewritten."""
UNDER_WAY = ".swap"
"""The suffix of a file in the directory ``SWAP_FOLDER``. The file exists while a swap is running."""
MARK = "_orcidx_swap-"
_MOST_LISTINGS = 20
_PAUSE_SECONDS = 0.05
"""How often a directory is listed while a swap changes it, and the seconds between two listings. Together the listings
take about one second. This is enough, because the swap of a file is a rename and a few deletions."""


@dataclass(frozen=True)
class Swap:
    """One swap. ``final``: the name of the new file. ``replaced``: the versions of the old files, by name. The names
    are relative to the directory of the mark."""

    final: str
    replaced: Mapping[str, Fingerprint]


def is_mark(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(MARK) and name.endswith(".json")


def mark_of(swaps: Sequence[Swap], kept_until: float | None = None) -> bytes:
    """The contents of a mark."""
    body = [
        {"final": one.final, "replaced": [{"path": name, **old.to_dict()} for name, old in one.replaced.items()]}
        for one in swaps
    ]
    kept = {} if kept_until is None else {"kept_until": kept_until}
    return json.dumps({"version": 1, "swaps": body, **kept}).encode()


def _swaps_in(data: bytes, place: str) -> tuple[list[Swap], float]:
    """The swaps that a mark lists, and the time until which the replaced files are intentionally kept."""
    try:
        found = json.loads(data)
        if found["version"] != 1:
            raise StorageError(
                f"this record of an unfinished rewrite has version {found['version']!r}, which only later versions of "
                "orcidx support; update orcidx",
                file=place,
            )
        swaps = [
            Swap(
                str(one["final"]),
                {str(old["path"]): Fingerprint(old["size"], old["etag"], old["mtime"]) for old in one["replaced"]},
            )
            for one in found["swaps"]
        ]
        return swaps, float(found.get("kept_until", 0))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(
            "this record of an unfinished rewrite is damaged, so the directory has some rows twice: call "
            "orcidx.spark.recover to finish the rewrite",
            file=place,
        ) from error


def settled_listing(
    list_once: Callable[[], tuple[list[Found], list[str]]],
    read: Callable[[str], bytes],
    name: str,
    *,
    exists: Callable[[str], bool] | None = None,
) -> list[Found]:
    """The files of a listing, without the files that a swap has replaced. Warns if there are replaced files that are
    not kept intentionally.

    ``list_once()`` lists the directory, and returns files and the paths of marks. ``list_once`` is called again if a
    swap has changed the directory since the last call. ``exists`` is a function that tells whether a new file exists.
    Such a function is needed for the listing of a pattern, because the pattern may not match the name of the new file.
    Raises ``CorruptFile`` for a damaged mark.
    """
    for _ in range(_MOST_LISTINGS):
        found, marks = list_once()
        if not marks:
            return found
        try:
            hidden, due = _replaced({one.path: one for one in found}, marks, read, exists)
        except FileNotFoundError:  # the swap has ended or advanced since the directory was listed
            time.sleep(_PAUSE_SECONDS)
            continue
        if due:
            warnings.warn(
                f"{name}: a rewrite has not finished replacing its files; {due} files are left out, because their rows "
                "are already in new files. Readers other than orcidx see these rows twice; orcidx.spark.recover ends "
                "the rewrite",
                RuntimeWarning,
                stacklevel=2,
            )
        return [one for one in found if one.path not in hidden]
    raise StorageError(
        "the directory changed while it was listed: a file that a rewrite replaces is gone, and the new file does "
        "not exist yet. Try again, and call orcidx.spark.recover if the error occurs again",
        file=name,
    )


def _replaced(
    found: Mapping[str, Found],
    marks: Sequence[str],
    read: Callable[[str], bytes],
    exists: Callable[[str], bool] | None,
) -> tuple[set[str], int]:
    """The paths of replaced files, and how many of these files are not kept intentionally."""
    hidden: set[str] = set()
    kept: set[str] = set()
    for mark in marks:
        base = mark[: -len(mark.rpartition("/")[2])]
        swaps, kept_until = _swaps_in(read(mark), mark)
        for swap in swaps:
            old = {base + name: version for name, version in swap.replaced.items()}
            final = base + swap.final
            if final in found or (exists is not None and exists(final)):
                there = {path: (found[path].version, version) for path, version in old.items() if path in found}
                # A new file with the same name has another version, so it is not hidden.
                those = {path for path, (now, then) in there.items() if now is None or then.matches(now)}
                hidden |= those
                kept |= those if kept_until > time.time() else set()
            elif exists is None and not old.keys() <= found.keys():
                raise FileNotFoundError(final)
    return hidden, len(hidden - kept)
