"""``rewrite``: sorts, clusters and merges the ORC files of a directory, and gives them bloom filters, in one Spark job.

The driver lists the files once and packs the files of each directory into groups. Each task makes one staged file from
a group, under a hidden name beside the final name. When all staged files exist, the driver writes a manifest, which
says which file replaces which files. The replacement is called a swap. Once the manifest is written, the swap is always
completed. If this call is killed, its lease expires, and then ``recover`` or the next call completes the swap. In each
directory, a small file (the mark) says which files are already replaced. orcidx's listings read this file. If the files
of a group change in the meantime, the group is not replaced."""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery, OrcidxError, Unsupported
from orcidx.index_directory.store import IndexStore, listing_table
from orcidx.keywords import lists_options
from orcidx.orc_writer.memory import WriterMemory
from orcidx.orc_writer.options import EncodingOptionsByName, WriteOptions
from orcidx.rewriting.ordering import asked_order
from orcidx.rewriting.rewrite import rewrite as rewrite_files
from orcidx.spark.jobs.build_index import is_table, refresh
from orcidx.spark.jobs.file_jobs import TASK_OPTIONS, TaskFailure, rows_of_tasks
from orcidx.spark.jobs.leases import Lease
from orcidx.spark.jobs.swaps import SwapGroup, Swaps
from orcidx.spark.query.placement import place
from orcidx.spark.sessions.arrow_tables import frame_of
from orcidx.spark.sessions.hadoop_files import reached, shipped
from orcidx.spark.sessions.progress import Counters, Progress
from orcidx.spark.types.argument_types import ClusterBy, OnePath, SortBy
from orcidx.storage import Source, describe_source, list_sources
from orcidx.storage.folder import Folder
from orcidx.storage.secrets import with_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["REWRITE_RESULT", "recover", "rewrite"]


SMALL_SHARE = 0.75
"""Files below this share of the target size are merged with other files. Merging two larger files would only make one
file of the target size and one small file."""

REWRITE_RESULT = pa.schema(
    [
        ("path", pa.string()),
        ("sources", pa.list_(pa.string())),
        ("status", pa.string()),
        ("way", pa.string()),
        ("rows", pa.int64()),
        ("bytes_before", pa.int64()),
        ("bytes_after", pa.int64()),
        ("error", pa.string()),
    ]
)
"""One row for each file that was made, or in a dry run would be made. ``status``: "rewritten"; "planned"; "fresh" (an
earlier call with the same options made the file, and it has not changed); "changed" (its sources changed in the
meantime, so nothing was replaced); "error"."""

_TASK = pa.schema(
    [("group", pa.int64()), ("way", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("error", pa.string())]
)


class _RewriteOptions(EncodingOptionsByName, total=False):
    max_memory: int | WriterMemory | None


@lists_options(WriteOptions, stay_as_they_are=True, but=("bloom_filter_columns",))
def rewrite(
    spark: SparkSession,
    path: OnePath,
    *,
    sort_by: SortBy | None = None,
    cluster_by: ClusterBy | None = None,
    bloom_filters: Sequence[str | int] = (),
    target_bytes: int = 256 << 20,
    keep_old: timedelta | float = 0,
    dry_run: bool = False,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[_RewriteOptions],
) -> pa.Table:
    """Rewrites the ORC files below a directory in one job. Files that the same call made before are not rewritten.

    Rows are sorted within each file. Files of one directory that are much smaller than ``target_bytes`` are merged.
    Indexes of the directory (``build_file_index``) are refreshed at the end. Options of the writer that are not given
    are taken from the old files.

    Readers see the old files until all new files exist. Then the files are swapped according to a manifest in
    ``_orcidx_rewrite/``. If a call is killed during the swap, ``recover`` or the next call completes the swap, whatever
    the options of that call. This is possible once the lease of the killed call has expired, a minute after its last
    renewal. Before that time, a call raises an error. During a swap, and after a kill, orcidx's reads return each row
    once, with a warning. Spark's own reader and other readers may read both the new and the old files, so they may
    return rows twice. No row is missing. A second call at the same time raises an error.

    Parameters
    ----------
    spark
        A classic session, or one of Spark Connect.
    path
        A directory or URL prefix that the driver and the tasks can reach.
    sort_by, cluster_by, bloom_filters
        As for ``orcidx.rewrite``.
    target_bytes
        The target size of merged files in bytes.
    keep_old
        How long the replaced files are kept, in seconds or as a timedelta. This gives running queries time to finish.
        While the files are kept, readers other than orcidx see rows twice, and a new call raises an error. After that
        time, the next call or ``recover`` deletes the files.
    dry_run
        Report what would be done, and write nothing.
    progress
        Show a progress bar on standard error. None: only if standard error is a terminal.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.
    **options
        Options of ``orcidx.rewrite`` by name.

    Returns
    -------
    pyarrow.Table
        A row for each new file.

    Raises
    ------
    Unsupported
        The directory is a Paimon table, or the storage cannot rename.
    StorageError
        Another call is running.
    OrcidxError
        The error of the first file that fails. Then nothing was replaced.

    Examples
    --------
    >>> orcidx.spark.rewrite(spark, "events", sort_by=["user_id"])  # doctest: +SKIP
    """
    asked_order(sort_by, cluster_by, 1 << 30)
    asked = {"sort_by": sort_by, "cluster_by": cluster_by, "bloom_filters": tuple(bloom_filters), **options}
    if target_bytes < 1 << 20:
        raise InvalidQuery(f"target_bytes is {target_bytes!r}, but must be at least 1 MiB")
    kept = keep_old.total_seconds() if isinstance(keep_old, timedelta) else keep_old
    if not 0 <= kept <= 366 * 86_400:
        raise InvalidQuery(
            f"keep_old is {keep_old!r}, but must be a number of seconds or a timedelta, from 0 to 366 days"
        )
    storage_options = with_secrets(storage_options)
    found = reached(spark, path, storage_options)
    root = _directory(found, storage_options)
    swaps = Swaps(Folder(root))
    if not dry_run:
        swaps.finish_earlier()
    job = _Job.plan(root, found, asked, target_bytes, swaps, storage_options)
    if dry_run:
        return frame_of(spark, job.result({}, "planned"))
    reported, swapped = job.run(spark, progress, kept)
    if reported and IndexStore.open(found, storage_options=storage_options) is not None:
        refresh(spark, path, progress=False, storage_options=storage_options)
    return frame_of(spark, job.result(reported, "rewritten", swapped))


def recover(
    spark: SparkSession | None, path: OnePath, *, storage_options: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Completes or undoes what killed calls of ``rewrite`` left in a directory. It runs only on the driver.

    A swap that had started is completed. If the swap had not started, the staged files are deleted and the old files
    stay. Old files that a call keeps (``keep_old``) are deleted if the time of ``keep_old`` is over. Otherwise a
    sentence in the result says how long they are still kept.

    Parameters
    ----------
    spark
        A session, or None.
    path
        The directory that was rewritten.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.

    Returns
    -------
    tuple of str
        One sentence for each call that was completed or undone, or whose old files are still kept.

    Raises
    ------
    StorageError
        The lease of the call has not expired. A lease expires a minute after its call was killed. Before that time, the
        call may still be running.

    Examples
    --------
    >>> orcidx.spark.recover(spark, "events")  # doctest: +SKIP
    """
    return Swaps(Folder(_directory(reached(spark, path, storage_options), storage_options))).finish_earlier(
        kept_stop=False
    )


def _directory(path: OnePath | Source, storage_options: Mapping[str, Any] | None) -> Source:
    root = describe_source(path, storage_options=storage_options)
    if root.kind not in ("path", "url", "hadoop"):
        raise InvalidQuery(
            f"{path!r:.80} is neither a directory nor a URL; Spark's tasks open the files, so they need a directory or "
            "a URL"
        )
    return root


@dataclass(frozen=True)
class _Task:
    """For ``mapInArrow``: makes the staged file of each group in its input."""

    groups: Mapping[int, SwapGroup]
    folder: Folder
    asked: Mapping[str, Any]
    counters: Counters

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("group").to_pylist():
                group = self.groups[number]
                yield pa.RecordBatch.from_pylist([self._make(group)], schema=_TASK)

    def _make(self, group: SwapGroup) -> dict[str, Any]:
        target = self.folder.source(group.staged)
        try:
            done = rewrite_files(
                list(group.sources), target, merge=True, overwrite=True, progress=False, read=TASK_OPTIONS, **self.asked
            )
        except (OrcidxError, OSError) as error:
            self.counters.add(bytes=0, failed=True)
            name = getattr(error, "file", None) or group.sources[0].name
            raise TaskFailure.of(f"{type(error).__name__}: {error}", name) from error
        self.counters.add(bytes=sum(group.sizes), failed=False)
        return {
            "group": group.number, "way": done.way, "rows": done.rows, "bytes": done.bytes_after, "error": None,
        }  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """The plan of a rewrite. ``groups``: the groups of files, each of which becomes one file. ``fresh``: the files that
    need no rewrite."""

    folder: Folder
    key: str
    asked: Mapping[str, Any]
    groups: tuple[SwapGroup, ...]
    fresh: tuple[tuple[str, int], ...]
    swaps: Swaps

    @staticmethod
    def plan(
        root: Source,
        path: OnePath | Source,
        asked: Mapping[str, Any],
        target_bytes: int,
        swaps: Swaps,
        storage_options: Mapping[str, Any] | None,
    ) -> _Job:
        sources = [one for one in list_sources(path, storage_options=storage_options) if one.size]
        if any(source.root is None for source in sources):
            raise InvalidQuery("the path is a file; give its directory", file=root.name)
        if is_table(path, storage_options):
            raise Unsupported(
                "this is a Paimon table, whose manifests list its files: rewrite the files with Paimon's compaction",
                file=root.name,
            )
        paths = listing_table(root, sources)["path"].to_pylist()
        key = hashlib.sha256(repr((sorted(asked.items()), target_bytes)).encode()).hexdigest()[:16]
        made = swaps.made_by(key)
        fresh, folders = [], defaultdict(list)
        for name, source in zip(paths, sources):
            listed = source.listed
            if listed is not None and made.get(name) == listed.size:
                fresh.append((name, listed.size))
            else:
                folders[name.rpartition("/")[0]].append((name, source))
        groups: list[SwapGroup] = []
        for folder in sorted(folders):
            for members in _packed(folders[folder], target_bytes):
                if len(members) == 1 and not any(
                    asked.values()
                ):  # the file cannot be merged, and no other change is requested
                    fresh.append((members[0][0], members[0][1].size or 0))
                    continue
                token = uuid.uuid4().hex
                base = f"{folder}/" if folder else ""
                groups.append(
                    SwapGroup(
                        number=len(groups),
                        sources=tuple(source for _, source in members),
                        paths=tuple(name for name, _ in members),
                        sizes=tuple(source.size or 0 for _, source in members),
                        staged=f"{base}.rewritten-{token}.orc",
                        final=f"{base}rewritten-{token}.orc",
                    )
                )
        return _Job(Folder(root), key, asked, tuple(groups), tuple(fresh), swaps)

    def run(self, spark: SparkSession, progress: bool | None, kept: float) -> tuple[dict[int, Any], set[int]]:
        """Makes the staged files and replaces the old files by them. Returns the reports of the tasks, and the groups
        that were replaced."""
        if not self.groups:
            return {}, set()
        first = self.groups[0]  # an impossible request raises its error here, not in every task
        rewrite_files(first.sources[0], self.folder.source(first.staged), dry_run=True, **self.asked)
        with self.swaps.lease() as lease:
            return self._run(spark, progress, lease, kept)

    def _run(
        self, spark: SparkSession, progress: bool | None, lease: Lease, kept: float
    ) -> tuple[dict[int, Any], set[int]]:
        sizes = [sum(group.sizes) for group in self.groups]
        manifest = self.swaps.begin(self.key, self.groups)
        rows = pa.table({"group": pa.array([group.number for group in self.groups], pa.int64())})
        with Progress(spark, "rewriting", files=len(sizes), bytes=sum(sizes), shown=progress) as shown:
            task = _Task({g.number: g for g in self.groups}, self.folder, self.asked, shown.counters)
            try:
                found = _collect(spark, rows, task)
            except BaseException:
                self.swaps.discard_staged(manifest)
                raise
        lease.check()
        reported = {row["group"]: row for row in found.to_pylist()}
        swapped = self.swaps.commit(manifest, self.groups, reported, kept)
        return reported, swapped

    def result(self, reported: Mapping[int, Any], status: str, swapped: set[int] | None = None) -> pa.Table:
        rows: list[dict[str, Any]] = [
            {"path": name, "sources": [name], "status": "fresh", "bytes_before": size, "bytes_after": size}
            for name, size in self.fresh
        ]
        for group in self.groups:
            one = reported.get(group.number, {})
            made = swapped is None or group.number in swapped
            rows.append(
                {
                    "path": group.final if made else group.paths[0],
                    "sources": list(group.paths),
                    "status": status if made else "changed",
                    "way": one.get("way"),
                    "rows": one.get("rows"),
                    "bytes_before": sum(group.sizes),
                    "bytes_after": one.get("bytes"),
                }
            )
        return pa.Table.from_pylist(rows, schema=REWRITE_RESULT)


def _packed(files: Sequence[tuple[str, Source]], target_bytes: int) -> Iterator[list[tuple[str, Source]]]:
    """Yields groups of files. Each large file forms its own group. Small files are grouped in the order of their
    names."""
    waiting: list[tuple[str, Source]] = []
    size = 0
    for name, source in files:
        bytes_ = source.size or 0
        if bytes_ >= SMALL_SHARE * target_bytes:
            yield [(name, source)]
            continue
        if waiting and size + bytes_ > target_bytes:
            yield waiting
            waiting, size = [], 0
        waiting.append((name, source))
        size += bytes_
    if waiting:
        yield waiting


def _collect(spark: SparkSession, rows: pa.Table, task: _Task) -> pa.Table:
    placed = place(spark, rows, list(range(rows.num_rows)), rows.num_rows)
    return rows_of_tasks(placed, shipped(task, task.folder.source("")), _TASK)
