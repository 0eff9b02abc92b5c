"""``orcidx.rewrite``: makes ORC files from ORC files in the cheapest way."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, located
from orcidx.keywords import lists_options
from orcidx.options import ReadOptions
from orcidx.orc_writer.options import WriteOptions, WriteOptionsByName
from orcidx.rewriting.drafts import Draft, exists
from orcidx.rewriting.encoding import encode_rows
from orcidx.rewriting.indexing import bloom_nodes
from orcidx.rewriting.lookup_cost import lookup_cost, lookup_notes, size_notes
from orcidx.rewriting.ordering import asked_order
from orcidx.rewriting.patching import patch_files
from orcidx.rewriting.plan import RewritePlan, RewriteRequest, encoded, plan_rewrite, unions_without_nulls
from orcidx.rewriting.progress import RowProgress
from orcidx.rewriting.sources import InputFile, find_sources, open_inputs, read_options, same_schema
from orcidx.rewriting.stripes import CannotPatch
from orcidx.rewriting.verifying import verify_patched, verify_rows, verify_sources
from orcidx.spellings import counted
from orcidx.storage import OneSource, Source, Sources
from orcidx.storage.sources import describe_target

__all__ = ["Rewritten", "RewrittenFile", "rewrite"]

SORT_MEMORY = 1 << 30
"""The default of the option: bytes that sorting may take before another engine has to sort."""
_NOT_FOR_REWRITE = frozenset({"bloom_filter_columns"})


@dataclass(frozen=True)
class RewrittenFile:
    """One file of the result. ``way``: "copy", "recompress", "index", "recompress and index" or "encode"; ``reasons``:
    why no cheaper way was possible; ``bytes_after`` and ``stripes``: None in a dry run; ``writer``: the writer that the
    file names."""

    target: str
    sources: tuple[str, ...]
    way: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    rows: int
    bytes_before: int
    bytes_after: int | None = None
    stripes: int | None = None
    writer: str = ""

    def __str__(self) -> str:
        after = "" if self.bytes_after is None else f" → {self.bytes_after:,}"
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.target}: {self.way}{why} ({counted(self.rows, 'row')}, {self.bytes_before:,}{after} bytes)"


@dataclass(frozen=True)
class Rewritten:
    """What ``rewrite`` did or (``dry_run``) would do. ``str()`` has a line for each file.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> _ = orcidx.write_table(pa.table({"id": [3, 1, 2]}), "ids.orc")
    >>> orcidx.rewrite("ids.orc", "sorted.orc", sort_by="id").way
    'encode'
    """

    files: tuple[RewrittenFile, ...]
    dry_run: bool = False

    @property
    def way(self) -> str:
        """The ways of all files, joined by commas."""
        return ", ".join(dict.fromkeys(one.way for one in self.files))

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(one.rows for one in self.files)

    @property
    def bytes_before(self) -> int:
        """Bytes of the files that were read."""
        return sum(one.bytes_before for one in self.files)

    @property
    def bytes_after(self) -> int | None:
        """Bytes of the files that were written; None in a dry run."""
        return None if self.dry_run else sum(one.bytes_after or 0 for one in self.files)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values.

        Returns
        -------
        dict
        """
        return {"dry_run": self.dry_run, "files": [asdict(one) for one in self.files]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))


@lists_options(WriteOptions, stay_as_they_are=True, but=_NOT_FOR_REWRITE)
def rewrite(
    sources: Sources,
    target: OneSource,
    *,
    sort_by: str | Sequence[str | tuple[str, str]] | None = None,
    cluster_by: str | Sequence[str] | None = None,
    bloom_filters: Sequence[str | int] = (),
    merge: bool = False,
    schema: pa.Schema | None = None,
    verify: bool = True,
    overwrite: bool = False,
    dry_run: bool = False,
    sort_memory: int = SORT_MEMORY,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    read: ReadOptions | None = None,
    **options: Unpack[WriteOptionsByName],
) -> Rewritten:
    """Writes ORC files anew: sorted, clustered, with bloom filters, recompressed or merged. It takes the cheapest way.

    Parameters
    ----------
    sources : path, directory, glob, or a list of them
        One file becomes the file ``target``. Several become one with ``merge``; else each becomes a file of the
        directory ``target``, under its path below the directory that was given.
    target : path or URL
        May be a source: it is replaced at the end.
    sort_by : str or sequence of str or (str, "descending"), optional
        Nulls come last, NaN after all numbers.
    cluster_by : str or sequence of str, optional
        Up to eight names. Rows that are near in all of them come together (Z-order).
    bloom_filters : sequence of str or int
        Columns that get bloom filters, as ``bloom_filter_columns`` of ``write_table``. Filters that are there stay.
    merge : bool
        Several sources become one file.
    schema : pyarrow.Schema, optional
        All files are read into it.
    verify : bool
        The result is read, before it gets its name, and compared with the sources. The sources are decoded once more,
        too: a value that contradicts their statistics is an error.
    overwrite : bool
        A target that is there is replaced.
    dry_run : bool
        Only says what would be done.
    sort_memory : int
        Bytes of rows that are sorted in memory. More go through DuckDB (``pip install "orcidx[sort]"``).
    progress : bool, optional
        A bar on standard error. None: if that is a terminal.
    storage_options : dict, optional
        Given to fsspec for URLs.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        ``sources`` and ``target`` are paths in it.
    read : ReadOptions, optional
        How rows are read, where they are: ``ReadOptions(timestamp_unit="us")`` for years that nanoseconds do not reach,
        without finer digits.
    **options
        Fields of ``WriteOptions`` by name. What is left out stays as in the sources.

    Returns
    -------
    Rewritten
        What was done, or would be, for each file.

    Raises
    ------
    CorruptFile
        For a damaged source; of one whose stripes are copied also where its values are not what its statistics say.
    InvalidQuery
        If files have different columns, if the target is there, and for unknown columns.
    Unsupported
        For files of Hive ACID tables and encrypted ones.
    StorageError
        If what was written is not what was read. Nothing is left behind.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [3, 1, 2]}), "ids.orc")
    >>> result = orcidx.rewrite("ids.orc", "sorted.orc", sort_by="id")
    >>> orcidx.read_table("sorted.orc").column("id").to_pylist()
    [1, 2, 3]
    """
    request = _request(options, sort_by, cluster_by, sort_memory, bloom_filters, schema)
    found = find_sources(sources, storage_options, filesystem)
    where = describe_target(target, storage_options=storage_options, filesystem=filesystem)
    groups = [(where, found)] if merge or _is_one(found, where) else _spread(found, where)
    if not overwrite:
        _refuse_existing(groups)
    job = _Job(request, read or ReadOptions(), verify, dry_run, progress, dict(storage_options or {}))
    return Rewritten(tuple([job.run(place, files) for place, files in groups]), dry_run)


def _request(
    options: Mapping[str, Any],
    sort_by: Any,
    cluster_by: Any,
    sort_memory: int,
    bloom_filters: Sequence[str | int],
    schema: pa.Schema | None,
) -> RewriteRequest:
    if wrong := sorted(_NOT_FOR_REWRITE & options.keys()):
        raise InvalidQuery(f"{wrong[0]} is called bloom_filters here")
    if isinstance(bloom_filters, str):
        raise InvalidQuery("bloom_filters is a list of names or column ids")
    given = {name: value for name, value in options.items() if value is not None}
    WriteOptions().override(**given)
    return RewriteRequest(asked_order(sort_by, cluster_by, sort_memory), given, tuple(bloom_filters), schema)


def _is_one(found: Sequence[Source], target: Source) -> bool:
    if len(found) != 1:
        return False
    name = str(target.location)
    return not (name.endswith(("/", os.sep)) or target.name.endswith("/") or (found[0].root and not _has_suffix(name)))


def _has_suffix(name: str) -> bool:
    return "." in name.replace(os.sep, "/").rpartition("/")[2]


def _spread(found: Sequence[Source], target: Source) -> list[tuple[Source, list[Source]]]:
    """A file of the target directory for each source."""
    places = []
    for source in found:
        path = str(source.location).replace(os.sep, "/")
        below = path.removeprefix(str(source.root).replace(os.sep, "/").rstrip("/") + "/") if source.root else path
        name = below if source.root and below != path else path.rpartition("/")[2]
        joined = f"{str(target.location).rstrip('/')}/{name}"
        places.append(replace(target, name=f"{target.name.rstrip('/')}/{name}", location=joined))
    repeated = [name for name, count in Counter(place.name for place in places).items() if count > 1]
    if repeated:
        raise InvalidQuery(f"two sources would become {repeated[0]}; give merge=True, or rewrite their directory")
    return [(place, [source]) for place, source in zip(places, found)]


def _refuse_existing(groups: Sequence[tuple[Source, Sequence[Source]]]) -> None:
    for place, files in groups:
        itself = len(files) == 1 and (place.kind, str(place.location)) == (files[0].kind, str(files[0].location))
        if not itself and exists(place):
            raise InvalidQuery("the target is there already; overwrite=True replaces it", file=place.name)


@dataclass(frozen=True)
class _Job:
    """How each file is made."""

    request: RewriteRequest
    read: ReadOptions
    verify: bool
    dry_run: bool
    progress: bool | None
    storage_options: Mapping[str, Any]

    def run(self, target: Source, files: Sequence[Source]) -> RewrittenFile:
        with open_inputs(files, self.read) as inputs:
            if self.request.schema is None:
                same_schema(inputs)
            plan = plan_rewrite(inputs, self.request)
            if plan.way == "encode":
                unions_without_nulls(inputs, self.request)
            if self.dry_run:
                return self._summary(target, inputs, plan)
            if target.kind == "path":
                os.makedirs(os.path.dirname(target.location), exist_ok=True)
            try:
                return self._write(target, inputs, plan)
            except CannotPatch as error:
                unions_without_nulls(inputs, self.request)
                return self._write(target, inputs, encoded(plan, (str(error),)))

    def _write(self, target: Source, inputs: Sequence[InputFile], plan: RewritePlan) -> RewrittenFile:
        options = read_options(inputs, self.read)
        rows = sum(one.rows for one in inputs)
        with (
            Draft(target, [one.source for one in inputs]) as draft,
            RowProgress(target.name, rows, self.progress) as shown,
        ):
            sink = draft.open_sink()
            try:
                if plan.way == "encode":
                    if self.verify:
                        verify_sources(inputs)
                    seen = encode_rows(inputs, plan, self.request, sink, options=options, advance=shown.advance)
                else:
                    fpp = self.request.option("bloom_filter_fpp")
                    digests = patch_files(inputs, plan, sink, options=options, fpp=fpp, advance=shown.advance)
                    sink.close()
            except BaseException:
                sink.abort()
                raise
            if self.verify and plan.way == "encode":
                ordered = not self.request.order
                verify_rows(draft.source, target.name, seen, ordered=ordered, options=options)
            elif self.verify:
                names = {node.id: node.dotted for node in bloom_nodes(inputs[0].reader.root, ("*",))}
                added = [names[id] for id in sorted(plan.blooms)]
                verify_patched(draft.source, target.name, inputs, digests, blooms=added, options=options)
            summary = self._summary(target, inputs, plan, draft.source)
            draft.publish()
        return summary

    def _summary(
        self, target: Source, inputs: Sequence[InputFile], plan: RewritePlan, draft: Source | None = None
    ) -> RewrittenFile:
        summary = RewrittenFile(
            target=target.name,
            sources=tuple(one.name for one in inputs),
            way=plan.way,
            reasons=plan.reasons,
            notes=(*plan.notes, *(unions_without_nulls(inputs, self.request) if plan.way == "encode" else ())),
            rows=sum(one.rows for one in inputs),
            bytes_before=sum(one.reader.tail.size for one in inputs),
            writer=plan.identity.software_version or str(plan.identity.writer),
        )
        if draft is None:
            return summary
        with open_inputs([draft], self.read) as written, located(file=target.name):
            tail = written[0].reader.tail
            if tail.footer.rows != summary.rows:
                raise CorruptFile(f"{tail.footer.rows} rows were written of {summary.rows}")
            notes = size_notes(summary.bytes_before, tail.size)
            if plan.way == "encode":
                readers = [one.reader for one in inputs]
                notes += lookup_notes(lookup_cost(readers), lookup_cost([written[0].reader]))
            return replace(
                summary, bytes_after=tail.size, stripes=len(tail.footer.stripes), notes=summary.notes + notes
            )
