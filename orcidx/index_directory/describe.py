"""Describes which files of a directory are indexed, by which indexes, and whether these indexes are still valid."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.explain.summary import Section, Summary
from orcidx.index_directory.index_checks import broken_indexes, damaged_indexes
from orcidx.index_directory.store import FRESH, STALE, IndexStore, listing_table
from orcidx.spellings import size_text
from orcidx.storage import OneSource, list_sources
from orcidx.storage.folder import Folder
from orcidx.storage.unfinished_swaps import SWAP_FOLDER, UNDER_WAY

__all__ = ["IndexDescription", "describe_indexes"]

_SHOWN_FILES = 10
"""At most this many files of each state are listed one by one."""
STATES = ("fresh", "stale", "new", "error", "damaged", "gone")

_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("state", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("index", pa.string()),
        ("index_size", pa.int64()),
        ("indexes", pa.list_(pa.string())),
        ("current", pa.bool_()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True)
class IndexDescription(Summary):
    """The indexes of a directory.

    ``files`` has a row for each file. Its ``state`` is "fresh"; "stale" (the file has changed since it was indexed);
    "new" (not indexed yet); "error" (it could not be indexed); "damaged" (its index file is missing, truncated or
    broken); or "gone" (the file was deleted). ``indexes`` has texts such as "bitmap of city". ``index`` is null if the
    indexes are embedded in the catalog. ``spec`` is the spec of the last build. ``current`` is False if the indexes of
    the file were built with another spec. ``rewrites`` has a sentence for each rewrite (``orcidx.spark.rewrite``) whose
    old files still exist. The sentence says who still reads these files, and until when.
    """

    directory: str
    generation: int
    spec: Mapping[str, Any]
    files: pa.Table = field(repr=False)
    rewrites: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, int]:
        """The number of files in each state that occurs."""
        counts = {one["values"]: one["counts"] for one in pc.value_counts(self.files["state"]).to_pylist()}
        return {state: counts[state] for state in STATES if state in counts}

    @property
    def index_bytes(self) -> int:
        """Bytes of all index files and embedded indexes of fresh files."""
        return int(pc.sum(self._fresh["index_size"]).as_py() or 0)

    @property
    def _fresh(self) -> pa.Table:
        return self.files.filter(pc.equal(self.files["state"], "fresh"))

    @property
    def headline(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items()) or "no files"
        return f"{self.directory}: {states}; indexes of {size_text(self.index_bytes)}, catalog {self.generation}"

    def sections(self) -> Iterator[Section]:
        yield Section("rewrites", [(text,) for text in self.rewrites])
        given = self.spec.get("spec", {})
        rows = [
            (column, kind, ", ".join(f"{name}={value}" for name, value in options.items()), self._count(kind, column))
            for kind, columns in given.items()
            for column, options in columns.items()
        ]
        yield Section("indexes", rows, ("column", "kind", "options", "files"))
        for state in STATES[1:]:
            found = self.files.filter(pc.equal(self.files["state"], state)).slice(0, _SHOWN_FILES).to_pylist()
            count = self.states.get(state, 0)
            title = (
                f"{state} files" if count <= _SHOWN_FILES else f"{state} files, the first {_SHOWN_FILES} of {count:,}"
            )
            yield Section(title, [(_line(row),) for row in found])

    def _count(self, kind: str, column: str) -> int:
        return int(pc.sum(pc.equal(pc.list_flatten(self._fresh["indexes"]), f"{kind} of {column}")).as_py() or 0)

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON values."""
        return {
            "directory": self.directory,
            "generation": self.generation,
            "spec": dict(self.spec),
            "states": self.states,
            "index_bytes": self.index_bytes,
            "rewrites": list(self.rewrites),
            "files": self.files.to_pylist(),
        }


def _line(row: Mapping[str, Any]) -> str:
    if row["state"] == "damaged":
        return f"{row['path']}: {row['error']}"
    return str(row["error"] or row["path"])


def _rewrites(folder: Folder) -> tuple[str, ...]:
    """Sentences about rewrites whose old files still exist."""
    told = []
    for name in (one.name for one in folder.list(SWAP_FOLDER) if one.name.endswith(UNDER_WAY)):
        try:
            until = float(json.loads(folder.read(name) or b"{}").get("kept_until", 0))
        except (ValueError, TypeError, AttributeError):
            until = 0.0
        kept = until > time.time()
        how = "keeps the files that it replaced" if kept else "has not deleted the files that it replaced"
        when = f" until {datetime.datetime.fromtimestamp(until, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC" if kept else ""
        told.append(
            f"{name}: a rewrite {how}{when}. orcidx returns each row once, but other readers see rows of old and "
            f"new files; {'earlier queries can still finish' if kept else 'orcidx.spark.recover deletes the old files'}"
        )
    return tuple(told)


def describe_indexes(
    path: OneSource, *, verify: bool = False, storage_options: Mapping[str, Any] | None = None
) -> IndexDescription:
    """Lists the directory and its indexes, and compares both with the catalog. No data file is opened.

    With ``verify``, every index file is also read and checked. Raises ``InvalidQuery`` if there are no indexes, and
    ``CorruptFile`` for a damaged catalog.
    """
    store = IndexStore.open(path, storage_options=storage_options)
    if store is None:
        raise InvalidQuery(
            "the directory has no indexes; build them with orcidx.spark.build_file_index", file=str(path)
        )
    listing = listing_table(store.root, list_sources(path, storage_options=storage_options))
    match = store.match(listing)
    catalogs = store.catalogs
    known = catalogs.read(files=["size", "rows", "error", "index", "index_size", "indexes", "spec"], columns=()).files
    gone = np.setdiff1d(np.arange(len(known)), match.entry)
    entries = np.concatenate([match.entry, gone])
    rows = known.take(pa.array(entries, mask=entries < 0))
    error = pc.is_valid(rows["error"]).to_numpy()
    state = np.where(match.state == FRESH, "fresh", np.where(match.state == STALE, "stale", "new"))
    state = np.concatenate([state, np.full(len(gone), "gone")])
    state = np.where(error & (state == "fresh"), "error", state).astype(object)
    broken = broken_indexes(store) if verify else dict.fromkeys(np.flatnonzero(damaged_indexes(store)).tolist(), "")
    errors = rows["error"].to_pylist()
    for place in np.flatnonzero(state == "fresh").tolist():
        if (entry := int(entries[place])) in broken:
            state[place] = "damaged"
            errors[place] = broken[entry] or "the index file is missing or truncated"
    columns = {
        "path": pa.concat_arrays(
            [listing["path"].combine_chunks(), known["path"].combine_chunks().take(pa.array(gone))]
        ),
        "state": pa.array(state, pa.string()),
        "size": pc.coalesce(pa.chunked_array([_padded(listing["size"], len(gone))]), rows["size"]),
        "indexes": _texts(rows["indexes"].combine_chunks()),
        "current": pc.equal(rows["spec"], catalogs.listing.spec_key),
        "error": pa.array(errors, pa.string()),
        **{name: rows[name] for name in ("rows", "index", "index_size")},
    }
    files = pa.table([columns[name] for name in _FILES.names], names=_FILES.names).cast(_FILES).sort_by("path")
    rewrites = _rewrites(Folder(store.root))
    return IndexDescription(store.root.name, catalogs.generation, catalogs.listing.spec, files, rewrites)


def _padded(values: pa.ChunkedArray, count: int) -> pa.Array:
    return pa.concat_arrays([values.combine_chunks(), pa.nulls(count, values.type)])


def _texts(indexes: pa.Array) -> pa.Array:
    """Texts of the form ``kind of column``, one for each index of each file."""
    indexes = indexes.fill_null([])
    items = indexes.flatten()
    texts = pc.binary_join_element_wise(items.field("kind"), items.field("column"), " of ")
    return pa.ListArray.from_arrays(indexes.offsets, texts)
