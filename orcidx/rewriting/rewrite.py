"""``orcidx.rewrite`` makes ORC files from ORC files in the cheapest way."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange, located
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.orc_writer.options import WriteOptions, WriteOptionsByName
from orcidx.rewriting.drafts import Draft, exists
from orcidx.rewriting.encoding import encode_rows
from orcidx.rewriting.indexing import bloom_nodes
from orcidx.rewriting.lookup_cost import lookup_notes, size_notes
from orcidx.rewriting.ordering import asked_order
from orcidx.rewriting.patching import patch_files
from orcidx.rewriting.plan import RewritePlan, RewriteRequest, encoded, plan_rewrite, unions_without_nulls
from orcidx.rewriting.progress import RowProgress
from orcidx.rewriting.sources import (
    InputFile,
    find_sources,
    open_inputs,
    read_options,
    same_partition,
    same_schema,
    stored_value_options,
)
from orcidx.rewriting.stripes import CannotPatch
from orcidx.rewriting.verifying import verify_patched, verify_rows, verify_sources
from orcidx.spellings import counted, size_text
from orcidx.storage import OneSource, Source, Sources
from orcidx.storage.sources import describe_target

__all__ = ["Rewritten", "RewrittenFile", "rewrite"]

SORT_MEMORY_BYTES = 1 << 30
"""The default of ``sort_memory``: the maximum number of bytes that are sorted in memory. If the rows have more bytes,
DuckDB sorts them."""
_NOT_FOR_REWRITE = frozenset({"bloom_filter_columns"})


@dataclass(frozen=True)
class RewrittenFile:
    """One file of the result. ``way`` is "copy", "recompress", "index", "recompress and index" or "encode". ``reasons``
    says why no cheaper way was possible. ``bytes_after`` and ``stripes`` are None in a dry run. ``writer`` is the
    writer that the file names."""

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
        after = "" if self.bytes_after is None else f" → {size_text(self.bytes_after)}"
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.target}: {self.way}{why} ({counted(self.rows, 'row')}, {size_text(self.bytes_before)}{after})"


@dataclass(frozen=True)
class Rewritten:
    """The result of ``rewrite``. It describes what was done or, with ``dry_run``, what would be done. ``str()`` has a
    line for each file.

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
        """How the files were made: the ``way`` of each file, each once, joined by commas."""
        return ", ".join(dict.fromkeys(one.way for one in self.files))

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(one.rows for one in self.files)

    @property
    def bytes_before(self) -> int:
        """Bytes of the files that were read."""
        return sum(one.bytes_before for one in self.files)

    @property
    def bytes_after(self) -> int | None:
        """Bytes of the files that were written. The value is None in a dry run."""
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
    sort_memory: int = SORT_MEMORY_BYTES,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    read: ReadOptions | None = None,
    **options: Unpack[WriteOptionsByName],
) -> Rewritten:
    """Rewrites ORC files in the cheapest possible way. It can sort and cluster rows, recompress and merge files, and
    add bloom filters. Options of the writer that are not given are taken from the sources.

    Parameters
    ----------
    sources : path, directory, glob, or a list of them
        One file becomes the file ``target``. With ``merge``, several files become one. Otherwise each file is written
        below the directory ``target``, under its path relative to the given directory.
    target : path or URL
        May be one of the sources, which is then replaced at the end.
    sort_by : str or sequence of str or (str, "descending"), optional
        Columns to sort by. Nulls come last, and NaN comes after all numbers.
    cluster_by : str or sequence of str, optional
        Up to eight names. Rows with near values in all of these columns are stored together (Z-order).
    bloom_filters : sequence of str or int
        Columns that get bloom filters, as in ``bloom_filter_columns`` of ``write_table``. Existing filters stay.
    merge : bool
        Whether several sources become one file.
    schema : pyarrow.Schema, optional
        The schema into which all files are read.
    verify : bool
        Whether the result is read and compared with the sources before it gets its name. The sources are also decoded
        once more: a value that contradicts their statistics is an error.
    overwrite : bool
        Whether an existing target is replaced.
    dry_run : bool
        Only returns what would be done.
    sort_memory : int
        Maximum bytes of rows that are sorted in memory. If the rows have more bytes, DuckDB sorts them (``pip install
        "orcidx[sort]"``).
    progress : bool, optional
        Shows a bar on standard error. None: only if standard error is a terminal.
    storage_options : dict, optional
        Options that are given to fsspec for URLs.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system in which ``sources`` and ``target`` are paths.
    read : ReadOptions, optional
        How rows are read, if they must be read. For example, ``ReadOptions(timestamp_unit="us")`` is for years beyond
        the range of nanoseconds, and drops digits below microseconds. If streams are kept, new indexes describe the
        stored values. Options that change values are not used for these indexes.
    **options
        Fields of ``WriteOptions`` by name.

    Returns
    -------
    Rewritten
        What was done, or would be done, for each file.

    Raises
    ------
    CorruptFile
        For a damaged source. If stripes of a source are copied, values that contradict its statistics are damage, too.
    InvalidQuery
        If files have different columns, if files of different partitions are merged, if the target exists, or if a
        column is unknown.
    Unsupported
        For files of Hive ACID tables and encrypted files.
    StorageError
        If the written rows are not the rows that were read. Then no file is left behind.

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
    job = _Job(request, read or USUAL_OPTIONS, verify, dry_run, progress)
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
        raise InvalidQuery(f"{wrong[0]} is not an option of rewrite; use bloom_filters=")
    if isinstance(bloom_filters, str):
        raise InvalidQuery(f"bloom_filters must be a list of names or column ids, but is {bloom_filters!r}")
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
    """Returns each source, together with the file below the target directory to which the source is written."""
    places = []
    for source in found:
        path = str(source.location).replace(os.sep, "/")
        below = path.removeprefix(str(source.root).replace(os.sep, "/").rstrip("/") + "/") if source.root else path
        name = below if source.root and below != path else path.rpartition("/")[2]
        joined = f"{str(target.location).rstrip('/')}/{name}"
        places.append(replace(target, name=f"{target.name.rstrip('/')}/{name}", location=joined))
    repeated = [name for name, count in Counter(place.name for place in places).items() if count > 1]
    if repeated:
        raise InvalidQuery(
            f"two sources would be written to {repeated[0]}; give merge=True, or give their directory as source"
        )
    return [(place, [source]) for place, source in zip(places, found)]


def _refuse_existing(groups: Sequence[tuple[Source, Sequence[Source]]]) -> None:
    for place, files in groups:
        itself = len(files) == 1 and (place.kind, str(place.location)) == (files[0].kind, str(files[0].location))
        if not itself and exists(place):
            raise InvalidQuery("the target exists; give overwrite=True to replace it", file=place.name)


@contextmanager
def _encoded_if_changed(options: ReadOptions, kept: ReadOptions) -> Iterator[None]:
    """Raises ``CannotPatch`` if the stored values cannot be read with the options ``kept``, but the caller's
    ``options``, which change values, may avoid the error. Then the rows are encoded with the caller's options."""
    try:
        yield
    except (CorruptFile, Unsupported, ValueOutOfRange) as error:
        if kept == options or (isinstance(error, CorruptFile) and kept.utf8 == options.utf8):
            raise
        raise CannotPatch(f"the stored values cannot be indexed: {error.message}") from error


@dataclass(frozen=True)
class _Job:
    """Decides how each file is made, and makes it."""

    request: RewriteRequest
    read: ReadOptions
    verify: bool
    dry_run: bool
    progress: bool | None

    def run(self, target: Source, files: Sequence[Source]) -> RewrittenFile:
        with open_inputs(files, self.read) as inputs:
            same_partition(inputs)
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
                        verify_sources(inputs, options)
                    seen = encode_rows(inputs, plan, self.request, sink, options=options, advance=shown.advance)
                else:
                    kept = stored_value_options(inputs, self.read)
                    fpp = self.request.option("bloom_filter_fpp")
                    with _encoded_if_changed(options, kept):
                        digests = patch_files(inputs, plan, sink, options=kept, fpp=fpp, advance=shown.advance)
                    sink.close()
            except BaseException:
                sink.abort()
                raise
            if self.verify and plan.way == "encode":
                ordered = not self.request.order
                written = options.override(timezone=None)  # the new file contains the name of its time zone
                verify_rows(draft.source, target.name, seen, ordered=ordered, options=written)
            elif self.verify:
                names = {node.id: node.dotted for node in bloom_nodes(inputs[0].reader.root, ("*",))}
                added = [names[id] for id in sorted(plan.blooms)]
                verify_patched(draft.source, target.name, inputs, digests, blooms=added, options=kept, read=options)
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
                raise CorruptFile(f"the new file has {tail.footer.rows} rows, but must have {summary.rows}")
            notes = size_notes(summary.bytes_before, tail.size)
            if plan.way != "copy":
                notes += lookup_notes(inputs, written[0], read_options(inputs, self.read))
            return replace(
                summary, bytes_after=tail.size, stripes=len(tail.footer.stripes), notes=summary.notes + notes
            )
