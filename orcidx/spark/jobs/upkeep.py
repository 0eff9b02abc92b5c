"""``describe`` shows what is indexed, ``clean`` deletes leftover files, and ``summarize`` summarizes a job's result.

All three functions run only on the driver. For ``describe`` and ``clean``, ``spark`` may be None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.explain.summary import Section, Summary
from orcidx.index_directory.clean import Cleaning, clean_indexes
from orcidx.index_directory.describe import IndexDescription, describe_indexes
from orcidx.spark.jobs.build_index import BUILD_RESULT
from orcidx.spark.sessions.arrow_tables import table_of
from orcidx.spark.sessions.hadoop_files import reached
from orcidx.spark.types.argument_types import OnePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from orcidx.spellings import size_text

__all__ = ["BuildSummary", "clean", "describe", "summarize"]

_SHOWN_ROWS = 10
"""How many slowest files, and how many errors, are listed one by one."""


def describe(
    spark: SparkSession | None, path: OnePath, *, verify: bool = False, storage_options: Mapping[str, Any] | None = None
) -> IndexDescription:
    """Shows which files of a directory are indexed. For each indexed file, the result shows its indexes, whether they
    are stale, and their sizes.

    Listings of the files and of the indexes are compared with the catalog. No data file is opened.

    Parameters
    ----------
    spark
        A session, or None.
    path
        The directory, as for ``build_file_index``.
    verify
        Read and check every index file, on the driver.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.

    Returns
    -------
    IndexDescription
        ``str()`` returns a text. ``files`` is the underlying table, which ``spark.createDataFrame`` converts to a
        DataFrame.

    Raises
    ------
    InvalidQuery
        There are no indexes.

    Examples
    --------
    >>> orcidx.spark.describe(spark, "events")  # doctest: +SKIP
    """
    return describe_indexes(reached(spark, path, storage_options), verify=verify, storage_options=storage_options)


def clean(
    spark: SparkSession | None,
    path: OnePath,
    *,
    older_than: timedelta | float = timedelta(days=1),
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Cleaning:
    """Deletes leftover files of jobs in a directory's ``_orcidx/``: temporary files, replaced catalogs, and indexes
    that no catalog names.

    Parameters
    ----------
    spark
        A session, or None.
    path
        The directory, as for ``build_file_index``.
    older_than
        Seconds, or a timedelta. Younger files are kept.
    dry_run
        Report what would be deleted, and delete nothing.
    storage_options
        Options of the file system of a URL, which are passed to fsspec.

    Returns
    -------
    Cleaning
        The files, with the reason for each. ``str()`` returns a text.

    Raises
    ------
    FileNotFoundError
        There is no such directory.
    InvalidQuery
        ``older_than`` is negative.

    Examples
    --------
    >>> orcidx.spark.clean(spark, "events", dry_run=True)  # doctest: +SKIP
    """
    return clean_indexes(
        reached(spark, path, storage_options), older_than=older_than, dry_run=dry_run, storage_options=storage_options
    )


@dataclass(frozen=True)
class BuildSummary(Summary):
    """A summary of a job of ``build_file_index`` or ``refresh``. ``result`` has the job's rows."""

    result: pa.Table = field(repr=False)

    @property
    def statuses(self) -> dict[str, int]:
        """How many rows have each status."""
        counts = {one["values"]: one["counts"] for one in pc.value_counts(self.result["status"]).to_pylist()}
        return dict(sorted(counts.items()))

    @property
    def headline(self) -> str:
        files = len(pc.unique(self.result["path"]))
        counts = ", ".join(f"{count:,} {status}" for status, count in self.statuses.items()) or "nothing"
        return f"{files:,} files: {counts}; {size_text(int(pc.sum(self.result['bytes']).as_py() or 0))} of indexes"

    def sections(self) -> Iterator[Section]:
        by = self.result.group_by(["column", "kind", "status"]).aggregate([("path", "count"), ("bytes", "sum")])
        order = [("column", "ascending"), ("kind", "ascending"), ("status", "ascending")]
        rows = [
            (row["column"], row["kind"], row["status"], row["path_count"], row["bytes_sum"])
            for row in by.sort_by(order).to_pylist()
        ]
        yield Section("indexes", rows, ("column", "kind", "status", "files", "bytes"))
        made = self.result.filter(pc.is_in(self.result["status"], pa.array(["built", "rebuilt"])))
        slow = made.group_by(["path"]).aggregate([("millis", "max"), ("rows", "max"), ("bytes", "sum")])
        slowest = slow.sort_by([("millis_max", "descending")]).slice(0, _SHOWN_ROWS).to_pylist()
        shown = [(row["path"], row["rows_max"], row["bytes_sum"], row["millis_max"]) for row in slowest]
        yield Section("slowest files", shown, ("path", "rows", "bytes", "ms"))
        failed = self.result.filter(pc.equal(self.result["status"], "error"))["error"].unique().to_pylist()
        title = "errors" if len(failed) <= _SHOWN_ROWS else f"errors, the first {_SHOWN_ROWS} of {len(failed):,}"
        yield Section(title, [(error,) for error in failed[:_SHOWN_ROWS]])

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return {"statuses": self.statuses, "rows": self.result.to_pylist()}


def summarize(result: pa.Table) -> BuildSummary:
    """Summarizes the result of ``build_file_index`` or ``refresh``.

    Parameters
    ----------
    result
        The table that was returned.

    Returns
    -------
    BuildSummary
        ``str()`` returns a text, and ``save(path)`` writes a page.

    Examples
    --------
    >>> orcidx.spark.summarize(result).save("job.html")  # doctest: +SKIP
    """
    return BuildSummary(result if isinstance(result, pa.Table) else table_of(result, BUILD_RESULT))
