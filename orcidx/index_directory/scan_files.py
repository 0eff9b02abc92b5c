"""``orcidx.scan`` and ``orcidx.read_table`` read the rows of many files as one table, and use the indexes beside the
files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.aggregation.known_units import TotalledColumn
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.frozen import with_fields
from orcidx.index_directory.catalog_listing import listed_by_catalog
from orcidx.index_directory.lookup import ListingPlan, plan_listing, unused_notes
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, OptionsByName, ReadOptions
from orcidx.planner.request import FileJob, KnownTotals, ScanRequest, as_spelled
from orcidx.predicate import Where
from orcidx.pruning.findings import Note
from orcidx.scanner.arguments import FilesArguments
from orcidx.scanner.file import make_scan
from orcidx.scanner.many_files import partition_values
from orcidx.scanner.scan import Scan
from orcidx.storage import Fingerprint, ReadMetrics, Source, Sources, list_sources

__all__ = ["DirectoryIndexes", "aggregate", "read_table", "scan"]


@lists_options(ReadOptions)
def scan(
    sources: Sources,
    columns: Sequence[str | Sequence[str]] | None = None,
    where: Where | None = None,
    *,
    limit: int | None = None,
    top: Sequence[Any] | None = None,
    row_numbers: bool | str = False,
    file_path: bool | str = False,
    selection: Mapping[Any, Any] | None = None,
    deletion_vector: Mapping[Any, Any] | None = None,
    file_index: Mapping[Any, Any] | None = None,
    schema: pa.Schema | None = None,
    match: Literal["name", "position", "field_id"] = "name",
    hive_partitions: bool = True,
    indexes: Literal["auto", "all", "none"] = "auto",
    fresh: Literal["listing", "catalog"] = "listing",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    options: ReadOptions | None = None,
    **option_overrides: Unpack[OptionsByName],
) -> Scan:
    """Makes a scan of one or more files. Files are listed now, and read when the scan is iterated.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        Files are read in the given order. Files of a directory are sorted by path. Hidden and empty files are left out.
    columns, where
        The same as in ``OrcFile.scan``.
    limit : int, optional
        The maximum number of rows that are returned, over all files.
    top : sequence, optional
        Returns the first ``limit`` rows in an order, such as ``[("score", "desc", "last"), "id"]``. See
        ``OrcFile.scan``.
    row_numbers : bool or str
        Adds the number of each row in its file as the last column, of type int64. A ``str`` is the name of this column.
        The default name is ``row_number``. The numbers start again in each file.
    file_path : bool or str
        Adds a column with the source of each row. Its name is ``file_path``, or the given name.
    selection, deletion_vector, file_index : dict, optional
        The same as in ``OrcFile.scan``, for each file by its path: ``{path: ...}``.
    schema : pyarrow.Schema, optional
        The schema into which every file is read. None means the schema of the first file.
    match : {"name", "position", "field_id"}
        How columns of a file are matched with the schema. Missing columns are null. Types are widened if no value can
        be lost.
    hive_partitions : bool
        Whether ``key=value`` directories become columns: integers if every value is an integer, otherwise strings.
        They replace columns of the files with the same names. Files that ``where`` rules out by these columns are not
        opened.
    indexes : {"auto", "all", "none"}
        Which indexes (``_orcidx/``) are used when there is a condition. "auto": the indexes beside and above local
        files, and the indexes in listed directories of remote storage. "all": also the indexes of remote files that
        are given by their own paths, in the directory of such a file or in the directories above it. Finding these
        indexes takes a few requests. "none": no indexes. Indexes of an older version of a file are not used.
    fresh : {"listing", "catalog"}
        How files are found. "listing": files are listed now. "catalog": the files are taken from the catalog of a
        directory, without a listing. In this case ``sources`` must be one directory, and ``explain`` and the metadata
        of totals show the time of the listing from which the catalog was made. If a file has been changed or deleted
        since that listing, an error is raised when the file is opened. Files that were added later are not seen.
    storage_options : dict, optional
        Options that are given to fsspec for URLs.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system in which ``sources`` are paths.
    options : ReadOptions, optional
        How files are read.
    **option_overrides
        Single fields of ``ReadOptions`` by name.

    Returns
    -------
    Scan
        An iterable of record batches. It also has the methods ``to_table``, ``count_rows`` and ``explain``.

    Raises
    ------
    FileNotFoundError
        If a named file does not exist.
    InvalidQuery
        If there is no file and no ``schema``. Also if files do not fit together. In this case the error names the file,
        the column and both types.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> for day in (1, 2):
    ...     result = orcidx.write_table(pa.table({"day": [day], "n": [10 * day]}), f"day{day}.orc")
    >>> orcidx.scan(["day1.orc", "day2.orc"], ["n"], where="day = 2").to_table().to_pylist()
    [{'n': 20}]
    """
    _check_listing(indexes, fresh, by_file=(selection, deletion_vector, file_index))
    options = (options or USUAL_OPTIONS).override(**option_overrides)
    rows = partial(
        make_scan,
        columns=columns,
        where=where,
        limit=limit,
        top=top,
        row_numbers=row_numbers,
        schema=schema,
        options=options,
        match=match,
        file_path=file_path,
    )
    if fresh == "catalog":
        listed_jobs, catalog_indexes = listed_by_catalog(
            sources,
            schema=schema,
            storage_options=storage_options,
            filesystem=filesystem,
            hive_partitions=hive_partitions,
            case_sensitive=options.case_sensitive,
        )
        return replace(rows(()), jobs=listed_jobs, indexes=catalog_indexes)
    listed = list_sources(sources, storage_options=storage_options, filesystem=filesystem)
    files = [source for source in listed if source.size != 0 or source.root is None]
    if not files and schema is None:
        raise InvalidQuery(f"there are no files to scan in {sources!r}; to get an empty result, give schema=")
    chosen = _arguments_of_files(files, selection=selection, deleted=deletion_vector, file_index=file_index)
    jobs = _jobs(files, chosen, schema, options, hive_partitions=hive_partitions)
    made = rows(jobs)
    return made if indexes == "none" else replace(made, indexes=DirectoryIndexes(everywhere=indexes == "all"))


def _check_listing(indexes: str, fresh: str, *, by_file: Sequence[object]) -> None:
    """Raises ``InvalidQuery`` for an unknown value of ``indexes`` or ``fresh``, and for arguments that cannot be
    combined. ``by_file`` has the arguments that are given for each file by its path."""
    if indexes not in ("auto", "all", "none"):
        raise InvalidQuery(f"indexes={indexes!r} is not supported; use 'auto', 'all' or 'none'")
    if fresh not in ("listing", "catalog"):
        raise InvalidQuery(f"fresh={fresh!r} is not supported; use 'listing' or 'catalog'")
    if fresh == "catalog" and (indexes == "none" or any(one is not None for one in by_file)):
        raise InvalidQuery(
            'fresh="catalog" cannot be combined with indexes="none", selection=, deletion_vector= or file_index=; '
            'use fresh="listing"'
        )


def _jobs(
    files: Sequence[Source],
    chosen: Sequence[Mapping[str, Any]],
    schema: pa.Schema | None,
    options: ReadOptions,
    *,
    hive_partitions: bool,
) -> list[FileJob]:
    constants: Sequence[Mapping[str, Any]] = [{} for _ in files]
    if hive_partitions:
        constants = partition_values(files, schema, case_sensitive=options.case_sensitive)
    if not files:
        return []
    first = FileJob(files[0])
    return [
        with_fields(first, source=one, constants=values, **given)
        for one, values, given in zip(files, constants, chosen)
    ]


@lists_options(scan)
def read_table(
    sources: Sources,
    columns: Sequence[str | Sequence[str]] | None = None,
    where: Where | None = None,
    **arguments: Unpack[FilesArguments],
) -> pa.Table:
    """Reads the rows of one or more files as one table: ``orcidx.scan(...).to_table()``.

    Parameters
    ----------
    sources, columns, where, **arguments
        The same as in ``orcidx.scan``.

    Returns
    -------
    pyarrow.Table
        All rows, in memory.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> orcidx.read_table("ids.orc", where=orcidx.col("id") >= 2).column("id").to_pylist()
    [2, 3]
    """
    return scan(sources, columns, where, **arguments).to_table()


@lists_options(scan, but=("limit", "top"))
def aggregate(
    sources: Sources,
    aggregates: Mapping[str, str],
    where: Where | None = None,
    by: str | Sequence[str] | None = None,
    **arguments: Unpack[FilesArguments],
) -> pa.Table:
    """Computes totals of the rows of one or more files. Statistics are used where they prove the totals.

    A file, stripe or row group is not read in two cases: all its rows match and its statistics prove every requested
    total, or it is certain that none of its rows matches. In the other files, stripes and row groups, only the columns
    of the aggregates, of ``by`` and of the condition are decoded.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        The same as in ``orcidx.scan``.
    aggregates : dict of str to str
        The columns of the result and their aggregates: ``"count(*)"``, ``"count(c)"``, ``"sum(c)"``, ``"min(c)"``,
        ``"max(c)"``, ``"avg(c)"`` or ``"quantile_disc(c, 0.5)"``. A field of a struct is ``"sum(a.b)"``. Names with
        other characters are quoted: ``'sum("a b")'``.
    where : str, Predicate, pyarrow.compute.Expression or list of tuples, optional
        The condition. Only rows for which it is true are included in the totals.
    by : str or sequence of str, optional
        Columns to group by. All groups are kept in memory.
    **arguments
        The arguments of ``orcidx.scan`` and the options of ``ReadOptions``, except ``limit`` and ``top``.

    Returns
    -------
    pyarrow.Table
        One row for each group, sorted by its key. Without ``by`` there is only one row. Counts are int64. Sums of
        integers are decimal128(38, 0), sums of decimals are decimal128(38, s), and sums of floats are double. Averages
        are double. Minima, maxima and quantiles have the column's type. A quantile is a value of the column. It is the
        smallest value v for which at least the given share of the values are less than or equal to v. If there are no
        values, counts are 0 and the other aggregates are null. Sums of floats are exact and rounded once. With
        ``nan="largest"`` NaN is the largest value. Otherwise minima, maxima and quantiles ignore NaN if there is
        another value. Equal values form one group: -0.0 equals 0.0, and CHAR values are returned without trailing
        spaces. The value of the key ``orcidx`` in the schema's metadata is JSON text. For each kind of
        evidence, such as statistics or an index, it gives the number of rows whose totals came from this evidence.

    Raises
    ------
    InvalidQuery
        For an unknown function or column, and for a function that the column's type does not have.
    ValueOutOfRange
        For a sum of more than 38 digits.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> orcidx.write_table(pa.table({"price": [3, 5, None]}), "prices.orc")  # doctest: +ELLIPSIS
    WriteResult(...)
    >>> orcidx.aggregate("prices.orc", {"n": "count(*)", "total": "sum(price)"}).to_pylist()
    [{'n': 3, 'total': Decimal('8')}]
    """
    return scan(sources, None, where, **arguments).aggregate(aggregates, by)


def _arguments_of_files(files: Sequence[Source], **given: Mapping[Any, Any] | None) -> list[dict[str, Any]]:
    """For each file, the values that the caller gave for the file's path. A file that is listed several times gets
    these values each time."""
    chosen: list[dict[str, Any]] = [{} for _ in files]
    if not any(given.values()):
        return chosen
    numbers: dict[str, int] = {}
    same: dict[Any, list[int]] = {}
    for number, source in enumerate(files):
        numbers.setdefault(source.name, number)
        if isinstance(source.location, str):
            numbers.setdefault(source.location, number)
            same.setdefault(source.location, []).append(number)
    for what, by_path in given.items():
        for key, value in (by_path or {}).items():
            path = os.fspath(key)
            number = numbers.get(path, numbers.get(os.path.abspath(path), -1))
            if number < 0:
                raise InvalidQuery(
                    f"{what} is given for {path!r}, which is not among the {len(files)} files of the scan"
                )
            location = files[number].location
            for one in same[location] if isinstance(location, str) else (number,):
                chosen[one][what] = value
    return chosen


# ---------------------------------------------------------------------- the indexes beside the files


@dataclass(frozen=True)
class DirectoryIndexes:
    """The indexes in ``_orcidx/`` of the files' directories (see ``planner.request.FileIndexes``).

    With ``everywhere``, indexes of remote files that were given by their own paths, and not by a directory, are also
    searched for: in the directory of such a file and in the directories above it (see ``stores_of``).
    """

    everywhere: bool = False

    @property
    def as_of(self) -> None:
        """Always None, because the files were listed for this scan and not taken from a catalog."""
        return None

    def plan(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        *,
        totalled: Collection[str] = (),
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> tuple[Sequence[FileJob], tuple[Note, ...]]:
        """The jobs of the files that the indexes do not rule out, and notes. With ``strict_index``, a damaged catalog
        raises ``CorruptFile``.

        A catalog identifies columns by name, so it is not used if columns are matched in another way. A catalog that
        cannot be read rules out no file.
        """
        found = self._planned(jobs, request, count, totalled=totalled)
        return (jobs, found.notes) if not found.covered else (_jobs_left(jobs, found), found.notes)

    def totals(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        columns: Mapping[str, TotalledColumn],
        *,
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> KnownTotals:
        """The totals that the catalog has for files in which every row matches. Also returns the jobs of the other
        files that the indexes do not rule out."""
        eligible = np.array([job.is_whole for job in jobs], np.bool_)
        found = self._planned(jobs, request, count, totalled=tuple(columns), totals=columns, eligible=eligible)
        if not found.covered:
            return KnownTotals(jobs, notes=found.notes)
        # In rare cases, a file has changed since it was listed. The totals are then computed without the catalog.
        if any(_was_replaced(jobs[one].source) for one in found.totalled):
            found = self._planned(jobs, request, count, totalled=tuple(columns))
        return KnownTotals(_jobs_left(jobs, found), found.units, found.notes)

    def _planned(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        count: Callable[[ReadMetrics], None] | None,
        *,
        totalled: Collection[str],
        totals: Mapping[str, TotalledColumn] | None = None,
        eligible: npt.NDArray[np.bool_] | None = None,
    ) -> ListingPlan:
        """Plans the listed files with their indexes, and counts the reads of catalogs. If the indexes cannot be used,
        the plan keeps every file."""
        everything = tuple(range(len(jobs)))
        request = as_spelled(request)
        if request.match != "name":
            return ListingPlan(everything, notes=unused_notes(request))
        sources = [job.source for job in jobs]
        # The schema has only the partition columns of the scan, in the scan's types. Other keys in directory names
        # exclude no file.
        values = jobs[0].constants if jobs else {}
        schema = pa.schema([(name, value.type) for name, value in values.items()])
        try:
            found = plan_listing(
                sources,
                request.where,
                schema=schema,
                options=request.options,
                everywhere=self.everywhere,
                totalled=totalled,
                totals=totals,
                eligible=eligible,
            )
        except (OSError, Unsupported) as error:
            note = Note("catalog", "silent", f"the indexes beside the files cannot be read: {error}")
            return ListingPlan(everything, notes=(note,))
        damaged = next((note for note in found.notes if note.kind == "damaged"), None)
        if damaged is not None and request.options.strict_index:
            raise CorruptFile(damaged.text)
        if count is not None:
            for reads in found.reads:
                count(reads)
        return found


def _jobs_left(jobs: Sequence[FileJob], found: ListingPlan) -> tuple[FileJob, ...]:
    kept = frozenset(found.kept) - found.totalled
    left = []
    for number, job in enumerate(jobs):
        if number in kept:
            index, tail = found.indexes.get(number), found.tails.get(number)
            if index is not None and job.file_index is None:
                job = replace(job, file_index=index)
            left.append(job if tail is None else replace(job, tail=tail, fingerprint=job.source.listed))
        elif number not in found.totalled and _was_replaced(job.source):
            left.append(job)
    return tuple(left)


def _was_replaced(source: Source) -> bool:
    """Whether a local file has changed since it was listed. For a remote file the result is always False, because
    checking it would take a request."""
    if source.kind != "path" or source.listed is None:
        return False
    try:
        now = os.stat(source.location)
    except OSError:  # opening the file later reports the error
        return True
    return not Fingerprint(now.st_size, None, now.st_mtime_ns).matches(source.listed)
