"""Makes tables of listed files. The files have their paths below a directory, in the form that the catalog uses."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.index_directory.file_versions import LISTING
from orcidx.storage import Fingerprint, Source
from orcidx.storage.stores import store_of

__all__ = ["listing_table", "paths_below_root", "place_below"]


def listing_table(root: Source, sources: Iterable[Source]) -> pa.Table:
    """A table with the columns of ``LISTING``: the paths below ``root``, and the sizes and versions of listed files.

    The files may have been listed from ``root`` or a directory in it, or given one by one.
    """
    base = _base_of(root)
    rows = [(_place(source).removeprefix(base), source.listed or Fingerprint(-1)) for source in sources]
    columns = (
        [path for path, _ in rows],
        [version.size for _, version in rows],
        [version.mtime for _, version in rows],
        [version.etag for _, version in rows],
    )
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, LISTING.types)], schema=LISTING)


def place_below(root: Source, places: pa.Array) -> pa.Array:
    """The part of paths or URLs below the directory. The paths must be spelled like the directory's path."""
    base = _base_of(root)
    trimmed = pc.utf8_trim(places, "/")
    return pc.if_else(pc.starts_with(trimmed, base), pc.utf8_slice_codeunits(trimmed, start=len(base)), trimmed)


def _base_of(root: Source) -> str:
    """The path of a directory in its storage, spelled as in listings, with a slash at its end."""
    base = _place(root) + "/"
    return base if base != "/" else ""


def _place(source: Source) -> str:
    location = str(source.location)
    if source.kind == "url":  # listings have the names of objects without the URL's scheme
        location = store_of(source)[1]
    return _slashed(location, source)


def _slashed(location: str, source: Source) -> str:
    return (location.replace(os.sep, "/") if source.kind == "path" else location).strip("/")


def paths_below_root(sources: Iterable[Source]) -> pa.Array:
    """Paths below the listed directory. Only ``key=value`` folders in these paths are columns, not the folders above
    the directory."""
    found = []
    for source in sources:
        place = _place(source)
        base = place.rpartition("/")[0] if source.root is None else _slashed(source.root, source)
        found.append(place.removeprefix(base).lstrip("/"))
    return pa.array(found, pa.string())
