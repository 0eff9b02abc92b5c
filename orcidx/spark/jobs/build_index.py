"""``build_file_index`` and ``refresh``: a Spark job builds the indexes of a directory of ORC files.

The driver lists the files once, compares them with the catalog, and packs the missing indexes into tasks. The tasks
write index files and report them. The driver commits one catalog. If a process dies before this commit, the indexes
that existed before stay valid.
"""

from __future__ import annotations

import fnmatch
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, Unsupported
from orcidx.index_directory.build import INDEXED, IndexSpec, index_file, present_part
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.index_checks import damaged_indexes
from orcidx.index_directory.kept_tails import keep_tails
from orcidx.index_directory.store import IndexStore, listing_table
from orcidx.paimon.build import FileIndexBuilder, Spec, columns_of
from orcidx.paimon.file_index_options import FileIndexOptions
from orcidx.paimon_table.table import open_table
from orcidx.scanner.file import open_file
from orcidx.spark.jobs.file_jobs import (
    TASK_OPTIONS,
    FileJobTask,
    TaskFailure,
    error_from,
    listed_sources,
    run_over_files,
    weigh,
)
from orcidx.spark.jobs.whole_files import run_over_whole_files
from orcidx.spark.sessions.arrow_tables import frame_of
from orcidx.spark.sessions.hadoop_files import access_problem, reached
from orcidx.spark.sessions.progress import Counters, Progress
from orcidx.spark.sessions.spark_session import facts_of
from orcidx.spark.types.argument_types import OnePath
from orcidx.storage import Source, list_sources
from orcidx.storage.folder import Folder
from orcidx.storage.secrets import with_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BUILD_RESULT", "build_file_index", "is_table", "refresh"]

Bools = npt.NDArray[np.bool_]
FileFilter = str | Callable[[str], bool] | None

BUILD_RESULT = pa.schema(
    [
        ("path", pa.string()),
        ("column", pa.string()),
        ("kind", pa.string()),
        ("status", pa.string()),
        ("index", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("millis", pa.int64()),
        ("error", pa.string()),
    ]
)
"""One row per file, column and kind of index. ``status``: "built"; "rebuilt" (the file or the spec has changed);
"fresh" (the index existed); "planned" (in a dry run); "skipped" (the file has no such column, or is empty); "error".
``index``: the path of the index, or null if it is embedded in the catalog. ``rows``: the rows of the file. ``millis``:
the time for the file."""


def build_file_index(
    spark: SparkSession,
    path: OnePath,
    spec: Spec | FileIndexOptions,
    *,
    types: Mapping[str, str] | None = None,
    dry_run: bool = False,
    on_error: Literal["record", "raise"] = "record",
    target_bytes: int | None = None,
    file_filter: FileFilter = None,
    embedded_bytes: int | None = None,
    rebuild: bool = False,
    single_writer: bool = False,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Builds indexes of a directory's ORC files, in its folder ``_orcidx/``. Files that already have all of these
    indexes are not indexed again.

    A missing or truncated index file is built again. A damaged catalog is replaced, with a warning. After a failure,
    call the function again: index files that were already written are used.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    path
        A directory or URL prefix that the driver and the tasks can reach.
    spec
        The indexes by kind and column, as for ``paimon.build_file_index``. If the spec differs from the last spec, the
        indexes of the new spec replace the old indexes.
    types
        The columns' Paimon types, as for ``paimon.build_file_index``.
    dry_run
        Report what would be done, and write nothing.
    on_error
        "raise" stops at the first file that fails, with an error that names the file. "record" adds a row with the
        error to the result.
    target_bytes
        Stored bytes of data for each task.
    file_filter
        A glob for the files' names or paths, or a function of the path below the directory.
    embedded_bytes
        Indexes of up to this many bytes (default 500) are stored in the catalog, so planning needs no request for each
        of these indexes.
    rebuild
        Build all indexes again, including existing indexes.
    single_writer
        The caller guarantees that no other job writes to this directory at the same time. This is required for a
        storage that cannot create a file exclusively.
    progress
        Show a progress bar on standard error. None: only if standard error is a terminal.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.

    Returns
    -------
    pyarrow.Table
        One row for each file and index: path, column, kind, status, index, bytes, rows, millis, error. An index has the
        same bytes as an index that ``paimon.build_file_index`` makes.

    Raises
    ------
    InvalidQuery
        The spec cannot be used for any file.
    Unsupported
        The directory is a Paimon table, or the storage needs ``single_writer``.
    FileNotFoundError, StorageError
        The directory cannot be listed.

    Examples
    --------
    >>> orcidx.spark.build_file_index(spark, "events", {"bloom-filter": {"user_id": {}}})  # doctest: +SKIP
    """
    if on_error not in ("record", "raise"):
        raise InvalidQuery(f"on_error must be 'record' or 'raise', not {on_error!r}")
    wanted = IndexSpec.of(spec, types, embedded_bytes=embedded_bytes)
    storage_options = with_secrets(storage_options)
    found = reached(spark, path, storage_options)
    job = _Job.open(found, wanted, file_filter, storage_options, rebuild=rebuild, single_writer=single_writer)
    return job.run(spark, dry_run=dry_run, on_error=on_error, target_bytes=target_bytes, progress=progress)


def refresh(
    spark: SparkSession,
    path: OnePath,
    *,
    dry_run: bool = False,
    on_error: Literal["record", "raise"] = "record",
    target_bytes: int | None = None,
    file_filter: FileFilter = None,
    rebuild: bool = False,
    single_writer: bool = False,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Indexes new and changed files with the spec of the last build, and removes deleted files from the catalog.

    Parameters
    ----------
    spark, path, dry_run, on_error, target_bytes, file_filter, rebuild, single_writer, progress, storage_options
        As for ``build_file_index``.

    Returns
    -------
    pyarrow.Table
        As from ``build_file_index``.

    Raises
    ------
    InvalidQuery
        The directory was never indexed.
    CorruptFile
        The catalog, which contains the spec, is damaged. ``build_file_index`` replaces it.

    Examples
    --------
    >>> orcidx.spark.refresh(spark, "events")  # doctest: +SKIP
    """
    storage_options = with_secrets(storage_options)
    found = reached(spark, path, storage_options)
    store = IndexStore.open(found, storage_options=storage_options)
    if store is None:
        raise InvalidQuery("the directory has no indexes yet; build them with build_file_index", file=str(path))
    wanted = IndexSpec(**store.catalogs.listing.spec)
    job = _Job.open(found, wanted, file_filter, storage_options, rebuild=rebuild, single_writer=single_writer)
    return job.run(spark, dry_run=dry_run, on_error=on_error, target_bytes=target_bytes, progress=progress)


@dataclass(frozen=True)
class BuildTask:
    """Builds the indexes of one file in a task."""

    folder: Folder
    spec: IndexSpec
    on_error: str
    counters: Counters

    def __call__(self, source: Source, listed: Mapping[str, Any]) -> dict[str, Any]:
        row = index_file(self.folder, source, listed["path"], self.spec, TASK_OPTIONS, reuse=listed["reuse"])
        if row["error"] is not None and self.on_error == "raise":
            raise TaskFailure.of(row["error"], source.name)
        self.counters.add(bytes=row["size"] or 0, failed=row["error"] is not None)
        return row


def is_table(path: object, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether a path is the directory of a Paimon table."""
    if not isinstance(path, (str, os.PathLike, Source)):
        return False
    try:
        open_table(path, storage_options=storage_options)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@dataclass(frozen=True)
class _Job:
    """A listing that was compared with a catalog. The following attributes select files of the listing. ``chosen``:
    files that ``file_filter`` accepts. ``build``: files to index. ``again``: files that the catalog already contains.
    ``doubted``: files whose existing index file must not be used."""

    store: IndexStore
    spec: IndexSpec
    listing: pa.Table
    chosen: Bools
    build: Bools
    again: Bools
    doubted: Bools
    single_writer: bool

    @staticmethod
    def open(
        path: OnePath | Source,
        spec: IndexSpec,
        file_filter: FileFilter,
        storage_options: Mapping[str, Any] | None,
        *,
        rebuild: bool,
        single_writer: bool,
    ) -> _Job:
        store = IndexStore.open(path, storage_options=storage_options, create=True)
        if store is None:
            raise InvalidQuery(
                f"{_shown(path)!r:.80} is neither a directory nor a URL; Spark's tasks open the files, so they need a "
                "directory or a URL"
            )
        sources = list_sources(path, storage_options=storage_options)
        if any(source.root is None for source in sources):
            raise InvalidQuery(
                "the path is a file; give the path of its directory, in which the index is stored as well",
                file=_shown(path),
            )
        if is_table(path, storage_options):
            raise Unsupported(
                "this is a Paimon table, which uses only the index files in its manifests: build and commit index "
                "files with orcidx.spark.rewrite_file_index",
                file=_shown(path),
            )
        listing = listing_table(store.root, sources)
        chosen = np.array([_accepts(file_filter, one) for one in listing["path"].to_pylist()], np.bool_)
        try:
            match = store.match(listing)
            keys = store.catalogs.read(files=("spec",), columns=()).files["spec"]
            keys = keys.take(pa.array(match.entry, mask=match.entry < 0))
            damaged = np.append(damaged_indexes(store), False)[match.entry]
        except CorruptFile as error:
            warnings.warn(f"the catalog is damaged and will be replaced: {error}", RuntimeWarning, stacklevel=3)
            store = store.forgotten()
            match, keys = store.match(listing), pa.nulls(len(listing), pa.string())
            damaged = np.zeros(len(listing), np.bool_)
        current = pc.fill_null(pc.equal(keys, spec.key), False).to_numpy(zero_copy_only=False)
        doubted = damaged | rebuild
        return _Job(
            store=store,
            spec=spec,
            listing=listing,
            chosen=chosen,
            build=chosen & (~match.fresh | ~current | doubted),
            again=match.known,
            doubted=doubted,
            single_writer=single_writer,
        )

    def run(
        self, spark: SparkSession, *, dry_run: bool, on_error: str, target_bytes: int | None, progress: bool | None
    ) -> pa.Table:
        facts = facts_of(spark)
        files = self.listing.append_column("reuse", pa.array(~self.doubted)).filter(pa.array(self.build))
        if files.num_rows:
            self._check_spec(files)
        result = self._result(None)
        if dry_run:
            return frame_of(spark, result)
        if on_error == "raise":
            self._raise_known(result)
        sizes = files["size"].to_pylist()
        with Progress(spark, "indexing", files=len(sizes), bytes=sum(sizes), shown=progress) as shown:
            make = BuildTask(self.store.folder, self.spec, on_error, shown.counters)
            task = FileJobTask(self.store.root, INDEXED, make, partial(keep_tails, self.store.folder))
            if (problem := access_problem(self.store.root)) is not None:
                found = run_over_whole_files(spark, files, task, problem)
            else:
                found = run_over_files(spark, files, weigh(self._bytes(files), facts.slots, target_bytes), task)
        self._commit(found)
        return frame_of(spark, self._result(found))

    def _bytes(self, files: pa.Table) -> list[int]:
        """Returns how many bytes a task will read of each file. This is the number of bytes that the last build with
        this spec read. For a file without such a number, the result is estimated from the file's size."""
        known = self.store.catalogs.read(files=("size", "read_bytes", "spec"), columns=()).files
        known = known.filter(pc.and_(pc.equal(known["spec"], self.spec.key), pc.is_valid(known["read_bytes"])))
        sizes = files["size"].to_numpy()
        if not len(known):
            return [int(size) for size in sizes]
        share = pc.sum(known["read_bytes"]).as_py() / max(1, pc.sum(known["size"]).as_py())
        last = known["read_bytes"].take(pc.index_in(files["path"], known["path"].combine_chunks()))
        found = pc.fill_null(last, -1).to_numpy()
        return [int(size) for size in np.where(found >= 0, found, sizes * share)]

    def _check_spec(self, files: pa.Table) -> None:
        """Opens a few files on the driver. A spec that cannot work then raises one error, instead of an error for each
        file."""
        missing: InvalidQuery | None = None
        places = sorted({0, files.num_rows // 2, files.num_rows - 1})
        for _, source in listed_sources(self.store.root, files.take(pa.array(places))):
            try:
                with open_file(source, options=TASK_OPTIONS) as file:
                    schema = file.schema
            except (OrcidxError, OSError):  # the task that reads this file reports the error
                continue
            types = {name: kind for name, kind in self.spec.types.items() if name in schema.names}
            try:
                FileIndexBuilder(present_part(self.spec.spec, schema.names), schema, types)
                FileIndexBuilder(self.spec.spec, schema, types)
                return
            except InvalidQuery as error:
                if set(columns_of(self.spec.spec, schema.names)) <= set(schema.names):
                    raise
                missing = error
        if missing is not None:
            raise missing

    def _raise_known(self, result: pa.Table) -> None:
        """Raises the first error that an earlier run recorded for a file, if that file has not changed since then."""
        failed = result.filter(pc.equal(result["status"], "error")).slice(0, 1).to_pylist()
        if failed:
            raise error_from(failed[0]["error"], self.store.root.name.rstrip("/") + "/" + failed[0]["path"])

    def _commit(self, found: pa.Table) -> None:
        news = found.filter(found["is_final"])
        listed = self.listing["path"].combine_chunks()
        known = self.store.catalogs.read(files=("path",), columns=()).files["path"]
        gone = len(known) - (pc.sum(pc.is_in(known, value_set=listed)).as_py() or 0)
        if news.num_rows or gone or self.store.catalogs.listing.spec_key != self.spec.key:
            statistics = news["statistics"].combine_chunks()
            catalog = Catalog.observed(news, statistics, self.spec.to_dict(), self.spec.key)
            self.store.commit(catalog, listed=listed, single_writer=self.single_writer)

    def _result(self, found: pa.Table | None) -> pa.Table:
        """The rows of ``BUILD_RESULT``. ``found`` is None if no task was run."""
        names = ["path", "rows", "error", "index", "indexes", "millis"]
        known = self.store.catalogs.read(files=names, columns=()).files.to_pylist()
        fresh = {row["path"]: row for row in known}
        made = {} if found is None else {row["path"]: row for row in found.select(names).to_pylist()}
        rows: list[dict[str, Any]] = []
        for file in np.flatnonzero(self.chosen).tolist():
            path = self.listing["path"][file].as_py()
            if not self.build[file]:
                rows += self._rows(fresh[path], "fresh")
            elif found is None:
                rows += [{"path": path, "column": c, "kind": k, "status": "planned"} for c, k in self.spec.pairs()]
            else:
                rows += self._rows(made[path], "rebuilt" if self.again[file] else "built")
        return pa.Table.from_pylist(rows, schema=BUILD_RESULT)

    def _rows(self, row: Mapping[str, Any], status: str) -> Iterator[dict[str, Any]]:
        sizes = {(one["column"], one["kind"]): one["bytes"] for one in row["indexes"] or ()}
        index = None if row["index"] is None else self.store.folder.source(row["index"]).name
        for column, kind in self.spec.pairs():
            known = {"path": row["path"], "column": column, "kind": kind, "rows": row["rows"], "millis": row["millis"]}
            if row["error"] is not None:
                yield {**known, "status": "error", "error": row["error"]}
            elif (column, kind) in sizes:
                yield {**known, "status": status, "index": index, "bytes": sizes[column, kind]}
            else:
                yield {
                    **known,
                    "status": "skipped",
                    "error": "the file is empty" if not row["rows"] else "no such column",
                }


def _shown(path: OnePath | Source) -> str:
    return path.name if isinstance(path, Source) else os.fspath(path)


def _accepts(file_filter: FileFilter, path: str) -> bool:
    if file_filter is None:
        return True
    if callable(file_filter):
        return bool(file_filter(path))
    return fnmatch.fnmatchcase(path if "/" in file_filter else path.rpartition("/")[2], file_filter)
