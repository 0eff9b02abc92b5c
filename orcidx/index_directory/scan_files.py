"""``orcidx.scan`` and ``orcidx.read_table``: the rows of many files as one table, with the indexes beside the files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from orcidx.aggregation.known_units import TotalledColumn
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.index_directory.catalog_listing import listed_by_catalog
from orcidx.index_directory.lookup import ListingPlan, plan_listing
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, OptionsByName, ReadOptions
from orcidx.planner.request import FileJob, KnownTotals, ScanRequest
from orcidx.predicate import Where
from orcidx.pruning.findings import Note
from orcidx.scanner.arguments import FilesArguments
from orcidx.scanner.file import make_scan
from orcidx.scanner.many_files import partition_values
from orcidx.scanner.scan import Scan
from orcidx.storage import Fingerprint, Source, Sources, list_sources

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
    """A scan of one file or many. Files are listed now, and read when the scan is iterated.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        Read in the order given. Files of a directory are sorted by path; hidden and empty ones are left out.
    columns, where, limit, top, row_numbers
        As for ``OrcFile.scan``. ``row_numbers`` start again in each file.
    file_path : bool or str
        Adds the source of each row: ``file_path``, or the name given.
    selection, deletion_vector, file_index : dict, optional
        As for ``OrcFile.scan``, for each file by its path: ``{path: ...}``.
    schema : pyarrow.Schema, optional
        The schema into which every file is read; None means the first file's.
    match : {"name", "position", "field_id"}
        How columns of a file are found in the schema. Missing ones are null; types are widened where no value can be
        lost.
    hive_partitions : bool
        ``key=value`` directories become columns: integers where every value is one, else strings. Files that ``where``
        rules out by them are not opened.
    indexes : {"auto", "all", "none"}
        Which indexes (``_orcidx/``) are asked when there is a condition. "auto": those beside and above local files,
        and in listed directories of remote storage. "all": also those beside and above remote files that are named one
        by one, which takes a few requests. Indexes of an older version of a file are not used.
    fresh : {"listing", "catalog"}
        Which files there are. "listing": those that a listing finds now. "catalog": those of the one directory
        ``sources`` that its catalog knows, without a listing, as of the time that ``explain`` and the metadata of
        totals tell. If one of these was changed or deleted since, opening it is an error; files that were added later
        are not seen.
    storage_options : dict, optional
        Given to fsspec for URLs.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        ``sources`` are paths in it.
    options : ReadOptions, optional
        How files are read.
    **option_overrides
        Single fields of ``ReadOptions`` by name.

    Returns
    -------
    Scan
        Iterate it for record batches, or call ``to_table``, ``count_rows``, ``explain``.

    Raises
    ------
    FileNotFoundError
        If a file that is named is not there.
    InvalidQuery
        If there is no file and no ``schema``; and naming file, column and both types where files do not fit together.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> for day in (1, 2):
    ...     result = orcidx.write_table(pa.table({"day": [day], "n": [10 * day]}), f"day{day}.orc")
    >>> orcidx.scan(["day1.orc", "day2.orc"], ["n"], where="day = 2").to_table().to_pylist()
    [{'n': 20}]
    """
    if indexes not in ("auto", "all", "none"):
        raise InvalidQuery(f"indexes={indexes!r} is none of 'auto', 'all', 'none'")
    if fresh not in ("listing", "catalog"):
        raise InvalidQuery(f"fresh={fresh!r} is none of 'listing', 'catalog'")
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
        if indexes == "none" or any(one is not None for one in (selection, deletion_vector, file_index)):
            raise InvalidQuery('fresh="catalog" cannot be combined with indexes="none" or with options by file')
        known, asked = listed_by_catalog(
            sources,
            schema=schema,
            storage_options=storage_options,
            filesystem=filesystem,
            hive_partitions=hive_partitions,
            case_sensitive=options.case_sensitive,
        )
        return replace(rows(()), jobs=known, indexes=asked)
    listed = list_sources(sources, storage_options=storage_options, filesystem=filesystem)
    files = [source for source in listed if source.size != 0 or source.root is None]
    if not files and schema is None:
        raise InvalidQuery(f"no files to scan in {sources!r}; to get an empty result, give schema=")
    chosen = _by_file(files, selection=selection, deleted=deletion_vector, file_index=file_index)
    jobs = _jobs(files, chosen, schema, options, hive_partitions=hive_partitions)
    made = rows(jobs)
    return made if indexes == "none" else replace(made, indexes=DirectoryIndexes(everywhere=indexes == "all"))


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
    return [FileJob(one, constants=values, **given) for one, values, given in zip(files, constants, chosen)]


@lists_options(scan)
def read_table(
    sources: Sources,
    columns: Sequence[str | Sequence[str]] | None = None,
    where: Where | None = None,
    **arguments: Unpack[FilesArguments],
) -> pa.Table:
    """The rows of a file, or of many as one, as a table: ``orcidx.scan(...).to_table()``.

    Parameters
    ----------
    sources, columns, where, **arguments
        As for ``orcidx.scan``.

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


@lists_options(scan)
def aggregate(
    sources: Sources,
    aggregates: Mapping[str, str],
    where: Where | None = None,
    by: str | Sequence[str] | None = None,
    **arguments: Unpack[FilesArguments],
) -> pa.Table:
    """Totals of the rows of one file or many, from statistics where those prove them.

    A file, stripe or row group that matches whole, and whose statistics prove every total that is asked for, is not
    read. One in which surely no row matches is not read either. The rest is decoded, but only the columns of the
    aggregates, of ``by`` and of the condition.

    Parameters
    ----------
    sources : path, URL, directory, glob, or an iterable of them
        As ``orcidx.scan`` takes them.
    aggregates : dict of str to str
        A column of the result and what it holds: ``"count(*)"``, ``"count(c)"``, ``"sum(c)"``, ``"min(c)"``,
        ``"max(c)"``, ``"avg(c)"`` or ``"quantile_disc(c, 0.5)"``. A field of a struct is ``"sum(a.b)"``, another name
        is quoted: ``'sum("a b")'``.
    where : str, Predicate, pyarrow.compute.Expression or list of tuples, optional
        Only rows for which this is true.
    by : str or sequence of str, optional
        Columns to group by. The result holds every group in memory.
    **arguments
        Those of ``orcidx.scan`` and the options of ``ReadOptions``, except ``limit`` and ``top``.

    Returns
    -------
    pyarrow.Table
        One row a group, sorted by its key; one row in all where there is no ``by``. Counts are int64, sums of integers
        decimal128(38, 0), sums of decimals decimal128(38, s), sums of floats and averages double, minima, maxima and
        quantiles of the column's type. A quantile is a value of the column: the smallest one such that at least this
        share of the values are less than or equal to it. Where there are no values, counts are 0 and the other
        aggregates are null. Sums of floats are exact and rounded once. With ``nan="largest"`` NaN is the largest value;
        else minima, maxima and quantiles ignore it if there is another value. Equal values are one group: -0.0 equals
        0.0, and CHAR values are returned without trailing spaces. The metadata of the schema says under ``orcidx``, in
        JSON, how many rows came from which evidence.

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


def _by_file(files: Sequence[Source], **given: Mapping[Any, Any] | None) -> list[dict[str, Any]]:
    """The value that was given for the path of each file."""
    chosen: list[dict[str, Any]] = [{} for _ in files]
    if not any(given.values()):
        return chosen
    numbers: dict[str, int] = {}
    for number, source in enumerate(files):
        numbers.setdefault(source.name, number)
        if isinstance(source.location, str):
            numbers.setdefault(source.location, number)
    for what, by_path in given.items():
        for key, value in (by_path or {}).items():
            path = os.fspath(key)
            number = numbers.get(path, numbers.get(os.path.abspath(path), -1))
            if number < 0:
                raise InvalidQuery(f"{what} is given for {path!r}, which is none of the {len(files)} files of the scan")
            chosen[number][what] = value
    return chosen


# ---------------------------------------------------------------------- the indexes beside the files


@dataclass(frozen=True)
class DirectoryIndexes:
    """The ``_orcidx/`` of the files' directories; see ``planner.request.FileIndexes``.

    ``everywhere``: search also beside and above remote files that were named one by one.
    """

    everywhere: bool = False

    @property
    def as_of(self) -> None:
        """None: the files were listed now."""
        return None

    def plan(
        self, jobs: Sequence[FileJob], request: ScanRequest, *, totalled: Collection[str] = ()
    ) -> tuple[Sequence[FileJob], tuple[Note, ...]]:
        """The files that their indexes do not rule out. With ``strict_index``, raises ``CorruptFile`` for a damaged
        catalog.

        A catalog identifies columns by name, so it is not used if columns are matched differently. A catalog that
        cannot be reached rules nothing out.
        """
        found = self._asked(jobs, request, totalled=totalled)
        return (jobs, found.notes) if not found.covered else (_jobs_left(jobs, found), found.notes)

    def totals(
        self, jobs: Sequence[FileJob], request: ScanRequest, columns: Mapping[str, TotalledColumn]
    ) -> KnownTotals:
        """``plan``, and the totals that the catalog has of files in which every row matches."""
        eligible = np.array([job.is_whole for job in jobs], np.bool_)
        found = self._asked(jobs, request, totalled=tuple(columns), totals=columns, eligible=eligible)
        if not found.covered:
            return KnownTotals(jobs, notes=found.notes)
        # a rare case: the totals are computed without the catalog
        if any(_was_replaced(jobs[one].source) for one in found.totalled):
            found = self._asked(jobs, request, totalled=tuple(columns))
        return KnownTotals(_jobs_left(jobs, found), found.units, found.notes)

    def _asked(self, jobs: Sequence[FileJob], request: ScanRequest, **more: Any) -> ListingPlan:
        """What the indexes say. Nothing if they cannot be used."""
        everything = tuple(range(len(jobs)))
        if request.match != "name":
            return ListingPlan(everything)
        sources = [job.source for job in jobs]
        # Uses only the partition columns of the scan, in its types. Keys of other directories rule nothing out.
        values = jobs[0].constants if jobs else {}
        schema = pa.schema([(name, value.type) for name, value in values.items()])
        try:
            found = plan_listing(
                sources, request.where, schema=schema, options=request.options, everywhere=self.everywhere, **more
            )
        except (OSError, Unsupported) as error:
            note = Note("catalog", "silent", f"the indexes beside the files cannot be read: {error}")
            return ListingPlan(everything, notes=(note,))
        damaged = next((note for note in found.notes if note.kind == "damaged"), None)
        if damaged is not None and request.options.strict_index:
            raise CorruptFile(damaged.text)
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
    """Whether a local file has changed since it was listed. For a remote file this would take a request, so the answer
    is False."""
    if source.kind != "path" or source.listed is None:
        return False
    try:
        now = os.stat(source.location)
    except OSError:  # opening the file reports the error
        return True
    return not Fingerprint(now.st_size, None, now.st_mtime_ns).matches(source.listed)
