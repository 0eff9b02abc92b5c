"""Explains what a query would read from a directory of ORC files. The explanation says which evidence rules out the
other files and rows, and what each kind of evidence would rule out if it were used alone.

A file that the catalog rules out is not opened. Of the other files, the tails, row indexes and bloom filters are read.
File indexes are read for all files. Data is never read.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, OrcidxError
from orcidx.explain.explanation import Explanation
from orcidx.explain.model import Stage
from orcidx.explain.summary import Section, Summary
from orcidx.index_directory.directory_partitions import Partitions
from orcidx.index_directory.file_pruning import FilePlan
from orcidx.paimon.body import Body
from orcidx.paimon.container import Container, read_container
from orcidx.paimon.file_index import FileIndex
from orcidx.planner.index_evidence import StoredIndex, bind_to_index
from orcidx.planner.request import FileJob, ScanRequest, as_spelled
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import last_evaluated
from orcidx.scanner.scan import Scan
from orcidx.spellings import counted, share_text, size_text
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["EXAMINED", "Alone", "DirectoryExplanation", "DirectoryQuestion", "Pruned", "assemble", "examine"]

ORC_EVIDENCE = "ORC statistics and bloom filters"
CATALOG_STATISTICS = "file statistics (catalog)"
NO_ROWS = "no rows in the file"
_SHOWN_TEXTS = 10
"""At most this many errors are listed one by one, and at most this many notes."""

_COUNTED = ("rows", "kept_rows", "stripes", "kept_stripes", "groups", "kept_groups")
_BYTES = ("bytes", "kept_bytes", "index_bytes")
_COUNTS = pa.list_(pa.struct([("name", pa.string()), ("rows", pa.int64())]))
EXAMINED = pa.schema(
    [
        ("path", pa.string()),
        *((name, pa.int64()) for name in (*_COUNTED, *_BYTES)),
        ("alone", _COUNTS),
        ("skipped", _COUNTS),
        ("notes", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)
"""The result for one file. For each kind of evidence, ``alone`` has the number of rows that remain if only this
evidence is used. ``skipped`` has the number of rows in the row groups that this evidence ruled out first. For a file
that the catalog rules out, only the indexes are examined, and the other numbers are null."""


@dataclass(frozen=True)
class DirectoryQuestion:
    """The arguments that are the same for all examined files. ``request`` is like the request of a scan, with the
    schema of all files. ``folder`` is the directory ``_orcidx/``."""

    request: ScanRequest
    folder: Folder


def examine(question: DirectoryQuestion, source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of ``EXAMINED`` for one file. An error is stored in the row and not raised.

    ``row`` has these fields. ``path``: the path of the file. ``kept``: whether the catalog keeps the file.
    ``constants``: the pickled partition values, or None. ``known_rows``, ``index``, ``embedded``, ``indexes`` and
    ``tail`` are as in the catalog.
    """
    found: dict[str, Any] = {**dict.fromkeys(EXAMINED.names), "path": row["path"]}
    found |= {"alone": [], "skipped": [], "notes": []}
    try:
        stored, data = _read_index(question.folder, row)
        found["index_bytes"] = len(data or b"")
        if stored is not None and data is not None:
            found["alone"] = _rows_by_index(stored, data, question.request, row["known_rows"])
        if row["kept"]:
            constants = {} if row["constants"] is None else pickle.loads(row["constants"])
            job = FileJob(source, file_index=stored, fingerprint=source.listed, constants=constants)
            _examine_file(question.request, job, found)
    except (OrcidxError, OSError) as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return found


def _read_index(folder: Folder, row: Mapping[str, Any]) -> tuple[StoredIndex | None, bytes | None]:
    """The index and its bytes. The bytes are read only once. They are None if the index is missing."""
    hidden = Partitions.of(pa.array([row["path"]], pa.string()), pa.schema([]))
    types = {one["column"]: one["type"] for one in row["indexes"] or () if not hidden.hides(one["column"])}
    if row["embedded"] is not None:
        return StoredIndex(row["embedded"], row["tail"], types), row["embedded"]
    if row["index"] is None:
        return None, None
    data = folder.read(row["index"])
    return StoredIndex(folder.source(row["index"]) if data is None else data, row["tail"], types), data


def _rows_by_index(stored: StoredIndex, data: bytes, request: ScanRequest, rows: int) -> list[dict[str, Any]]:
    """For each index, the number of rows that would remain if only this index were used."""
    try:
        entries = read_container(Body.of(data)).entries
    except CorruptFile:
        return []
    request = as_spelled(request)
    assert request.where is not None
    asked = bind_to_index(request.where, stored.types, request.options)
    found = []
    for entry in entries:
        verdict = FileIndex(Container((entry,)), stored.types, rows=rows).evaluate(asked)
        kept = rows if verdict.rows is None else len(verdict.rows)
        found.append({"name": f"{entry.kind} index of {entry.column}", "rows": kept})
    return found


def _examine_file(request: ScanRequest, job: FileJob, found: dict[str, Any]) -> None:
    explanation = Scan((job,), request, None).explain()
    stages = {stage.name: stage for stage in explanation.funnel}
    found |= {
        "rows": stages["rows"].before,
        "kept_rows": stages["rows"].after,
        "stripes": stages["stripes"].before,
        "kept_stripes": stages["stripes"].after,
        "groups": stages["row groups"].before,
        "kept_groups": stages["row groups"].after,
        "bytes": stages["bytes"].before,
        "kept_bytes": stages["bytes"].after,
        "index_bytes": found["index_bytes"] + sum(file.index_bytes for file in explanation.files),
    }
    found["skipped"] = [{"name": name, "rows": rows} for name, rows in _skipped(explanation).items()]
    found["notes"] = [_note_text(note) for note in explanation.notes if note.stripe is None]
    own = explanation
    if job.file_index is not None:
        own = Scan((replace(job, file_index=None),), replace(request, rereads=False), None).explain()
    kept = {stage.name: stage.after for stage in own.funnel}["rows"]
    found["alone"] = [*found["alone"], {"name": ORC_EVIDENCE, "rows": kept}]


def _note_text(note: Note) -> str:
    return f"{note.kind}: {note.source}: {note.text}"


def _skipped(explanation: Explanation) -> dict[str, int]:
    """For each kind of evidence, the number of rows in the row groups that it ruled out. If the file was ruled out as a
    whole, all its rows are counted."""
    counts = Counter(explanation.skipped_by)
    for file in explanation.files:
        if not file.kept and file.reasons and not counts:
            counts[last_evaluated(file.reasons).source] += file.rows
    return dict(counts)


# ---------------------------------------------------------------------- explaining the whole directory


@dataclass(frozen=True)
class Alone:
    """The effect of one kind of evidence alone. ``files`` is the number of files that have this evidence.
    ``skipped_files`` is the number of files that this evidence rules out completely. ``kept_rows`` is the number of
    rows that would remain in all files together."""

    name: str
    files: int
    skipped_files: int
    kept_rows: int


@dataclass(frozen=True)
class DirectoryExplanation(Summary):
    """What a query would read from a directory, and why the rest is skipped.

    ``funnel`` has the numbers of files, rows, stripes, row groups and bytes before and after pruning. Bytes are the
    bytes of the columns that are read. Stripes, row groups and bytes are counted only in files that were opened. A file
    that the catalog rules out is not opened. ``skipped_by`` has, for each kind of evidence, the number of rows that it
    ruled out first. ``alone`` has the effect that each kind of evidence would have alone. This helps to choose indexes.
    ``files`` has a row (path, size, rows, kept_rows, opened, skipped_by, error) for each file.
    """

    directory: str
    where: str | None
    funnel: tuple[Stage, ...]
    skipped_by: Mapping[str, int]
    alone: tuple[Alone, ...]
    notes: tuple[str, ...]
    index_bytes: int
    files: pa.Table = field(repr=False)

    @property
    def headline(self) -> str:
        files, rows = self.funnel[:2]
        return (
            f"where {self.where or 'everything'}: {files.after:,} of {files.before:,} files, {rows.after:,} of "
            f"{rows.before:,} rows may match in {self.directory}"
        )

    def sections(self) -> Iterator[Section]:
        stages = [(one.name, one.before, one.after, share_text(one.after, one.before), one.of) for one in self.funnel]
        yield Section("funnel", stages, ("", "before", "after", "left", "of"))
        rows = self.funnel[1].before
        skipped = [(name, count, share_text(count, rows)) for name, count in self.skipped_by.items()]
        yield Section(
            "skipped rows, by the evidence that ruled them out first", skipped, ("evidence", "rows", "of all")
        )
        alone = [
            (one.name, one.files, one.skipped_files, one.kept_rows, share_text(one.kept_rows, rows))
            for one in self.alone
        ]
        headers = ("evidence", "files with it", "files skipped", "rows left", "of all")
        yield Section("each evidence alone", alone, headers)
        failed = self.files["error"].drop_null().to_pylist()
        title = "errors" if len(failed) <= _SHOWN_TEXTS else f"errors, the first {_SHOWN_TEXTS} of {len(failed):,}"
        yield Section(title, [(error,) for error in failed[:_SHOWN_TEXTS]])
        read = [f"{size_text(self.index_bytes)} of indexes and metadata were read for this explanation"]
        count, stored = self.unopened
        if count:
            was = "was" if count == 1 else "were"
            read.append(f"{counted(count, 'file')} of {size_text(stored)} {was} not opened")
        yield Section("notes", [(note,) for note in (*self.notes, *read)])

    @property
    def unopened(self) -> tuple[int, int]:
        """The number and the bytes of the files that were not opened, because the catalog rules them out or because
        they cannot be read."""
        left = self.files.filter(pc.invert(self.files["opened"]))
        return left.num_rows, _sum(left["size"])

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        count, stored = self.unopened
        return {
            "directory": self.directory,
            "where": self.where,
            "unopened": {"files": count, "bytes": stored},
            "funnel": [asdict(stage) for stage in self.funnel],
            "skipped_by": dict(self.skipped_by),
            "alone": [asdict(one) for one in self.alone],
            "notes": list(self.notes),
            "index_bytes": self.index_bytes,
            "files": self.files.to_pylist(),
        }


@dataclass(frozen=True)
class Pruned:
    """The files of a listing that remain after pruning: with all evidence of the catalog, with partitions only, and
    with statistics only."""

    listing: pa.Table
    plan: FilePlan
    by_partition: FilePlan
    by_statistics: FilePlan

    def mask(self, plan: FilePlan) -> npt.NDArray[np.bool_]:
        """Which files a plan keeps."""
        kept = np.zeros(len(self.listing), np.bool_)
        kept[plan.kept] = True
        return kept


def assemble(directory: str, where: str | None, pruned: Pruned, examined: pa.Table) -> DirectoryExplanation:
    """Makes the explanation from the files that the catalog keeps and the rows that the tasks returned."""
    found = {row["path"]: row for row in examined.to_pylist()}
    paths, sizes = pruned.listing["path"].to_pylist(), pruned.listing["size"].to_pylist()
    kept, in_partition = pruned.mask(pruned.plan), pruned.mask(pruned.by_partition)
    skipped: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    files = []
    for i, path in enumerate(paths):
        one = found.get(path) or dict.fromkeys(EXAMINED.names)
        rows = max(0, int(pruned.plan.rows[i])) if one["rows"] is None else one["rows"]
        row = {"path": path, "size": sizes[i], "rows": rows, "kept_rows": 0, "error": one["error"]}
        row["opened"] = one["stripes"] is not None
        if not kept[i]:
            row["skipped_by"] = _skipped_by(pruned, i, in_partition[i])
            skipped[row["skipped_by"]] += rows
        else:
            row["kept_rows"] = rows if one["kept_rows"] is None else one["kept_rows"]
            counts = {part["name"]: part["rows"] for part in one["skipped"] or ()}
            skipped.update(counts)
            if not row["kept_rows"] and counts:
                row["skipped_by"] = max(counts, key=lambda name: counts[name])
        notes.update(one["notes"] or ())
        files.append(row)
    table = pa.Table.from_pylist(files, schema=_FILES)
    shown = [f"{text} ({count:,} files)" if count > 1 else text for text, count in notes.most_common(_SHOWN_TEXTS)]
    return DirectoryExplanation(
        directory=directory,
        where=where,
        funnel=_funnel(table, examined),
        skipped_by=dict(skipped.most_common()),
        alone=_effects(pruned, table, found),
        notes=(*map(_note_text, pruned.plan.notes), *shown),
        index_bytes=_sum(examined["index_bytes"]),
        files=table,
    )


def _skipped_by(pruned: Pruned, file: int, in_partition: bool) -> str:
    """The evidence that rules out a file that is not opened."""
    if pruned.plan.rows[file] == 0:
        return NO_ROWS
    if in_partition:
        return CATALOG_STATISTICS
    return "partition" if pruned.by_partition.known.partitions.values else "the condition itself"


_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("kept_rows", pa.int64()),
        ("opened", pa.bool_()),
        ("skipped_by", pa.string()),
        ("error", pa.string()),
    ]
)


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _funnel(files: pa.Table, examined: pa.Table) -> tuple[Stage, ...]:
    left = pc.or_(pc.greater(files["kept_rows"], 0), pc.is_valid(files["error"]))
    of = "all files" if pc.all(files["opened"]).as_py() else "opened files"
    return (
        Stage("files", len(files), _sum(pc.cast(left, pa.int64()))),
        Stage("rows", _sum(files["rows"]), _sum(files["kept_rows"])),
        Stage("stripes", _sum(examined["stripes"]), _sum(examined["kept_stripes"]), of),
        Stage("row groups", _sum(examined["groups"]), _sum(examined["kept_groups"]), of),
        Stage("bytes", _sum(examined["bytes"]), _sum(examined["kept_bytes"]), of),
    )


def _effects(pruned: Pruned, files: pa.Table, found: Mapping[str, Mapping[str, Any]]) -> tuple[Alone, ...]:
    """The effect of each kind of evidence on all files. If a file does not have the evidence, all its rows are kept."""
    rows = files["rows"].to_numpy()
    total = int(rows.sum())
    alone = []
    for name, plan in (("partition", pruned.by_partition), (CATALOG_STATISTICS, pruned.by_statistics)):
        out = ~pruned.mask(plan) & (pruned.plan.rows != 0)
        if out.any() and (plan is not pruned.by_partition or plan.known.partitions.values):
            having = len(files) if plan is pruned.by_partition else int(pruned.plan.fresh.sum())
            alone.append(Alone(name, having, int(out.sum()), total - int(rows[out].sum())))
    by_statistics = pruned.mask(pruned.by_statistics)
    counts: dict[str, list[int]] = {}
    for i, path in enumerate(files["path"].to_pylist()):
        parts = {one["name"]: one["rows"] for one in (found.get(path) or {}).get("alone") or ()}
        if not by_statistics[i]:
            parts[ORC_EVIDENCE] = 0
        for name, kept in parts.items():
            count = counts.setdefault(name, [0, 0, 0])
            count[0] += 1
            count[1] += kept == 0
            count[2] += int(rows[i]) - kept
    order = sorted(counts, key=lambda name: (name != ORC_EVIDENCE, -counts[name][2]))
    return (*alone, *(Alone(name, counts[name][0], counts[name][1], total - counts[name][2]) for name in order))
