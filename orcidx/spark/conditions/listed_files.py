"""Stores the files of a scan in columns. There may be many thousands of files, so there is no object for each file.

``SparkFiles`` are files that Spark has listed. Their directories are not listed a second time: orcidx skips files in
the listing that Spark has made, and Spark reads the remaining files of this listing. ``ClientFiles`` are sources that
orcidx has listed itself because Spark does not give its listing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.index_directory.file_versions import LISTING
from orcidx.index_directory.listed_paths import listing_table, place_below
from orcidx.index_directory.lookup import stores_of
from orcidx.index_directory.store import IndexStore, Match
from orcidx.spark.sessions.served import items_of, parts_of
from orcidx.spark.types.hive_columns import partition_types
from orcidx.storage import Fingerprint, Source
from orcidx.storage.fingerprint import plain_etag
from orcidx.storage.hadoop_store import hadoop_source
from orcidx.storage.listing import glob_base, is_pattern

__all__ = ["ClientFiles", "ListedFiles", "Listing", "SparkFiles", "listing_of", "local_name"]

Int64s = npt.NDArray[np.int64]
_NANOS_PER_MILLI = 1_000_000
_LOCAL = re.compile("^file:/+")


@dataclass(frozen=True)
class Listing:
    """The files of a relation, as Spark listed them: names in Hadoop's spelling, sizes in bytes, times in milliseconds,
    and the tags of object stores that have tags."""

    names: tuple[str, ...]
    sizes: Int64s
    times: Int64s
    etags: tuple[str, ...] = ()


def local_name(name: str) -> str:
    """The path of a local file, from its name in Hadoop's spelling. Other names do not change."""
    return _LOCAL.sub("/", name)


def listing_of(text: str) -> Listing:
    """Reads the text of a listing that Java has written (``Served.java``)."""
    if not text:
        return Listing((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    names, sizes, times, etags = parts_of(text, 4)
    return Listing(
        tuple(items_of(names)),
        np.array(sizes.split(","), np.int64),
        np.array(times.split(","), np.int64),
        tuple(items_of(etags)) if etags else (),
    )


@dataclass(frozen=True)
class ClientFiles:
    """Files that orcidx has listed. A file's number is its position in ``sources``."""

    sources: Sequence[Source]

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def sizes(self) -> Int64s:
        """The sizes in bytes. 0 means unknown."""
        return np.array([one.size or 0 for one in self.sources], np.int64)

    def stores(self) -> list[tuple[IndexStore, Int64s]]:
        """The stores of the indexed directories that contain these files. Each store comes with the numbers of its
        files."""
        return [(store, np.array(numbers, np.int64)) for store, numbers in stores_of(self.sources)]

    def some(self, numbers: Int64s) -> ClientFiles:
        """Returns only the files with these numbers."""
        return ClientFiles([self.sources[number] for number in numbers.tolist()])

    def match(self, store: IndexStore) -> tuple[pa.Table, Match]:
        """Returns two values: a table of the files with their names below the store's directory, and the rows of the
        store's catalog that belong to these files."""
        table = listing_table(store.root, self.sources)
        return table, store.match(table)

    def partition_types(self, *, infer: bool) -> dict[str, str]:
        """Spark's type of each partition key in the names of the files' directories."""
        return partition_types(self.sources, infer=infer)


@dataclass(frozen=True)
class SparkFiles:
    """Files of this machine, or of one session's file systems, that Spark has listed. ``given``: the directories, globs
    or files that Spark had to list."""

    listing: Listing
    given: Sequence[Source]

    def __len__(self) -> int:
        return len(self.listing.names)

    @property
    def sizes(self) -> Int64s:
        return self.listing.sizes

    @cached_property
    def _roots(self) -> list[str]:
        """The directories that were listed, innermost first."""
        return sorted({_root_of(one) for one in self.given}, key=len, reverse=True)

    @cached_property
    def _places(self) -> pa.Array:
        names = pa.array(self.listing.names, pa.string())
        return pc.replace_substring_regex(names, _LOCAL.pattern, "/") if self._is_local else names

    @property
    def _is_local(self) -> bool:
        return self.given[0].kind == "path"

    @cached_property
    def _directories(self) -> tuple[Int64s, list[Source]]:
        """Returns two values: the number of each file's directory, and one file of each directory. All files of one
        directory have the same root and the same partition values."""
        codes = pc.replace_substring_regex(self._places, "[^/]*$", "").dictionary_encode().indices
        of_file = codes.to_numpy().astype(np.int64)
        _, first = np.unique(of_file, return_index=True)
        return of_file, [self._source(number) for number in first.tolist()]

    def _source(self, number: int) -> Source:
        place = self._places[number].as_py()
        etag = plain_etag(self.listing.etags[number]) if self.listing.etags else None
        size = int(self.listing.sizes[number])
        version = Fingerprint(size, etag, int(self.listing.times[number]) * _NANOS_PER_MILLI)
        root = next((one for one in self._roots if place.startswith(one + "/")), None)
        made = Source(place, "path", place) if self._is_local else hadoop_source(place, self.given[0].filesystem)
        return replace(made, root=root, size=size, listed=version)

    def stores(self) -> list[tuple[IndexStore, Int64s]]:
        if not len(self):
            return []
        of_file, examples = self._directories
        return [(store, np.flatnonzero(np.isin(of_file, numbers))) for store, numbers in stores_of(examples)]

    def some(self, numbers: Int64s) -> SparkFiles:
        if len(numbers) == len(self):
            return self
        one = self.listing
        names = tuple(one.names[number] for number in numbers.tolist())
        etags = tuple(one.etags[number] for number in numbers.tolist()) if one.etags else ()
        part = Listing(names, one.sizes[numbers], one.times[numbers], etags)
        return SparkFiles(part, self.given)

    def match(self, store: IndexStore) -> tuple[pa.Table, Match]:
        """Returns the same as ``ClientFiles.match``. The times of local files are compared in milliseconds, because
        Hadoop gives no finer times."""
        etags = [plain_etag(one) for one in self.listing.etags] or pa.nulls(len(self), pa.string())
        columns = [
            place_below(store.root, self._places),
            pa.array(self.listing.sizes),
            pa.array(self.listing.times * _NANOS_PER_MILLI),
            pa.array(etags, pa.string()),
        ]
        table = pa.table(columns, schema=LISTING)
        return table, store.match(table, unit=_NANOS_PER_MILLI if self._is_local else None)

    def partition_types(self, *, infer: bool) -> dict[str, str]:
        return partition_types(self._directories[1] if len(self) else [], infer=infer)


ListedFiles: TypeAlias = SparkFiles | ClientFiles


def _root_of(source: Source) -> str:
    location = str(source.location)
    is_glob = is_pattern(location) and not (source.kind == "path" and os.path.lexists(location))
    return (glob_base(location) if is_glob else location).rstrip("/")
