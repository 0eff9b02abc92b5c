"""Versions of files as tables. This module compares a listing with the versions of the same paths in a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.storage import Source
from orcidx.storage.folder import Folder, Stored

__all__ = ["FRESH", "LISTING", "STALE", "UNKNOWN", "has_later_version", "has_same_version", "mode_sources", "states"]

LISTING = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime", pa.int64()), ("etag", pa.string())])
"""Columns of a listing: paths below a directory, with the version of each file."""
UNKNOWN, FRESH, STALE = 0, 1, 2
"""States of a listed file: it is not in the catalog, it has the version in the catalog, or it has another version."""
_NANOS_PER_SECOND = 1_000_000_000
Bools = npt.NDArray[np.bool_]


def states(
    listing: pa.Table, known: pa.Table, present: npt.NDArray[np.bool_], *, unit: int | None = None
) -> npt.NDArray[np.int8]:
    """Computes the states of all listed files at once. A file is ``FRESH`` if its listed version matches the known
    version as in ``Fingerprint.matches``. In addition, the etag or the time must be known in both versions.

    ``unit`` is the number of nanoseconds to which the listing rounds its times down."""
    same_size = _is_true(pc.equal(listing["size"], known["size"]))
    same_etag = pc.equal(listing["etag"], known["etag"])
    ours, theirs = listing["mtime"], known["mtime"]
    both = [pc.fill_null(times, 0).to_numpy() for times in (ours, theirs)]
    whole = (
        (both[1] % _NANOS_PER_SECOND == 0)
        if unit
        else (both[0] % _NANOS_PER_SECOND == 0) | (both[1] % _NANOS_PER_SECOND == 0)
    )
    same_time = both[0] // (unit or 1) == both[1] // (unit or 1)
    same_time |= whole & (both[0] // _NANOS_PER_SECOND == both[1] // _NANOS_PER_SECOND)
    same_time &= _is_true(pc.is_valid(ours)) & _is_true(pc.is_valid(theirs))
    has_etag = _is_true(pc.is_valid(same_etag))
    fresh = present & same_size & np.where(has_etag, _is_true(same_etag), same_time)
    return np.where(fresh, FRESH, np.where(present, STALE, UNKNOWN)).astype(np.int8)


def has_same_version(files: pa.Table, others: pa.Table) -> Bools:
    """For each row of ``files``, whether ``others`` has a row with the same path and the same version."""
    place = pc.index_in(files["path"].combine_chunks(), value_set=others["path"].combine_chunks())
    found = others.take(place)
    same = np.asarray(place.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    for name in LISTING.names[1:]:
        both_null = pc.and_(pc.is_null(files[name]), pc.is_null(found[name]))
        same &= _is_true(pc.equal(files[name], found[name])) | _is_true(both_null)
    return same


def has_later_version(files: pa.Table, others: pa.Table) -> Bools:
    """For each row of ``files``, whether ``others`` has a row with the same path and a later modification time."""
    place = pc.index_in(files["path"].combine_chunks(), value_set=others["path"].combine_chunks())
    return _is_true(pc.greater(others["mtime"].take(place), files["mtime"]))


def _is_true(values: Any) -> npt.NDArray[np.bool_]:
    return pc.fill_null(values, False).to_numpy().astype(np.bool_)  # type: ignore[no-any-return]


def mode_sources(root: Source, news: pa.Table, folder: Folder, catalogs: Sequence[Stored]) -> list[Source]:
    """The files whose permissions determine the mode of a new catalog. They are the files of ``news`` and the earlier
    catalogs, because the new catalog contains values from them."""
    below = Folder(root)
    return [
        *(below.source(path) for path in news["path"].to_pylist()),
        *(folder.source(catalog.name) for catalog in catalogs),
    ]
