"""``Explanation`` has data that says what a scan will read and why it can skip the rest. ``render`` shows this data. An
explanation contains only numbers, texts and tuples, so it can be pickled, compared, and converted to JSON by
``to_dict``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.explain.overlap import ColumnDepth
from orcidx.pruning.evaluate import Outcome
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import UNASKED, Reason, last_evaluated
from orcidx.pruning.selection import RowSelection
from orcidx.spellings import counted

__all__ = [
    "ExplainedScan",
    "FileExplanation",
    "RowGroupExplanation",
    "Stage",
    "StripeExplanation",
    "UnlistedFiles",
    "explain_row_groups",
]


@dataclass(frozen=True)
class Stage:
    """One step of the funnel: the number of files, stripes, row groups, rows or bytes ``before`` and ``after``
    pruning. ``of`` says what is counted: "all files" or "opened files". The stripes and the bytes of columns are not
    known for files that were not opened."""

    name: str
    before: int
    after: int
    of: str = "all files"


@dataclass(frozen=True, slots=True)
class RowGroupExplanation:
    """One row group. A row group is kept if any of its rows may match. ``first_row`` is a row number in the file.
    ``kept_rows`` is the number of rows that may match. ``proved_rows`` is the number of rows that surely match. These
    rows need no residual filter. ``reasons`` has the evidence that ruled out the row group or a part of it. ``proofs``
    has the evidence that some rows surely match."""

    row_group: int
    first_row: int
    rows: int
    kept_rows: int
    proved_rows: int
    reasons: tuple[Reason, ...]
    proofs: tuple[Reason, ...] = ()

    @property
    def kept(self) -> bool:
        return self.kept_rows > 0


@dataclass(frozen=True)
class StripeExplanation:
    """One stripe. ``bytes`` is the size of the data streams of the columns of the query. ``kept_bytes`` is the part of
    these streams that the scan plans to read. If all kept rows are proved, the columns that only the condition uses are
    not read."""

    stripe: int
    first_row: int
    rows: int
    kept_rows: int
    bytes: int
    kept_bytes: int
    row_groups: tuple[RowGroupExplanation, ...]
    notes: tuple[Note, ...] = ()

    @property
    def kept(self) -> bool:
        return self.kept_rows > 0

    @property
    def proved_rows(self) -> int:
        """The number of rows that surely match."""
        return sum(group.proved_rows for group in self.row_groups)


@dataclass(frozen=True)
class FileExplanation:
    """One file of ``size`` bytes. ``reasons`` says why the whole file is skipped, if one piece of evidence was
    sufficient. ``index_bytes`` is the size of the reads of footers and indexes for the decision. For a remote file,
    bytes between neighbouring footers and indexes that are fetched together are included. ``read_bytes`` is
    the size of all reads that the scan requests from storage in a new process: the planned data, and the file's tail,
    footers and indexes. Tails and indexes that this process has in memory are included. A small local file is read at
    once, so the number is the size of the file. The number is 0 for a file that the scan does not open. Data that is
    read in addition to the planned ranges is not included (see ``planner.read_bytes``)."""

    file: str
    rows: int
    stripes: tuple[StripeExplanation, ...]
    notes: tuple[Note, ...] = ()
    reasons: tuple[Reason, ...] = ()
    index_bytes: int = 0
    read_bytes: int = 0
    size: int = 0
    opened: bool = True
    """Whether the file was opened for the explanation. If a manifest rules out the file, it is not opened, and
    ``stripes`` is empty."""

    @property
    def kept_rows(self) -> int:
        return sum(stripe.kept_rows for stripe in self.stripes)

    @property
    def kept(self) -> bool:
        return self.kept_rows > 0

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Notes of the file and its stripes, without repetitions."""
        notes = (*self.notes, *(note for stripe in self.stripes for note in stripe.notes))
        return tuple(dict.fromkeys(notes))


@dataclass(frozen=True)
class UnlistedFiles:
    """Files of a table that are in no list, because their manifests were not read: the partition ranges of the
    manifests rule these files out. ``files`` and ``rows`` come from the manifest list and from the snapshot. They are
    None if they are not known."""

    manifests: int
    files: int | None
    rows: int | None

    @property
    def note(self) -> Note:
        files = "their files" if self.files is None else counted(self.files, "file")
        if self.files is not None and self.rows is not None:
            files += f" of {counted(self.rows, 'row')}"
        known = self.files is not None and self.rows is not None
        lost = "" if known else ", and the counts above lack some of these files or their rows"
        text = (
            f"{counted(self.manifests, 'manifest')} with {files} {'was' if self.manifests == 1 else 'were'} not read, "
            f"because the condition rules out all partitions of these files{lost}"
        )
        return Note("partition range", "off", text)


@dataclass(frozen=True)
class ExplainedScan:
    """What a scan will read, and by which evidence the rest is skipped.

    ``where`` is the predicate as text, or None without a predicate. ``columns`` are the columns that are read."""

    where: str | None
    columns: tuple[str, ...]
    files: tuple[FileExplanation, ...]
    overlap: tuple[ColumnDepth, ...] = ()
    """How much the ranges of row groups overlap, for the columns of the predicate. Without a predicate, this field has
    all columns that are read."""
    unlisted: UnlistedFiles | None = None
    """Files of a table whose manifests were not read. They are counted in the funnel, but they are not in ``files``."""

    @property
    def funnel(self) -> tuple[Stage, ...]:
        """Files, stripes, row groups, rows and bytes before and after pruning. Bytes are the bytes of the data streams
        of the columns that are read. Stripes, row groups and bytes are counted in the opened files (see
        ``unopened``)."""
        stripes = [stripe for file in self.files for stripe in file.stripes]
        groups = [group for stripe in stripes for group in stripe.row_groups]
        bytes_before, bytes_after = sum(one.bytes for one in stripes), sum(one.kept_bytes for one in stripes)
        of = "opened files" if self.unopened or self.unlisted else "all files"
        more, rows = (0, 0) if self.unlisted is None else (self.unlisted.files or 0, self.unlisted.rows or 0)
        return (
            Stage("files", len(self.files) + more, sum(file.kept for file in self.files)),
            Stage("stripes", len(stripes), sum(stripe.kept for stripe in stripes), of),
            Stage("row groups", len(groups), sum(group.kept for group in groups), of),
            Stage("rows", sum(file.rows for file in self.files) + rows, sum(file.kept_rows for file in self.files)),
            Stage("bytes", bytes_before, bytes_after, of),
        )

    @property
    def unopened(self) -> tuple[FileExplanation, ...]:
        """The files that were not opened, because evidence in a manifest rules them out."""
        return tuple(file for file in self.files if not file.opened)

    @property
    def read_bytes(self) -> int:
        """Bytes that the scan requests from storage in a new process: stream data left after pruning, tails, footers
        and indexes."""
        return sum(file.read_bytes for file in self.files)

    @property
    def skipped_by(self) -> dict[str, int]:
        """For each kind of evidence, the number of rows in the row groups that it ruled out. If several pieces of
        evidence were needed to rule out a row group, its rows count for the evidence that was evaluated last. All
        rows of a file that was not opened are counted."""
        # Thousands of row groups have the same few reasons, so each combination of reasons is examined only once.
        decided: dict[tuple[str, ...], str] = {}
        counts: Counter[str] = Counter()
        if self.unlisted is not None and self.unlisted.rows:
            counts["partition range"] += self.unlisted.rows
        for file in self.files:
            if not file.opened and file.reasons:
                counts[last_evaluated(file.reasons).source] += file.rows
            for stripe in file.stripes:
                for group in stripe.row_groups:
                    if not group.kept_rows and group.reasons:
                        sources = tuple([reason.source for reason in group.reasons])
                        if sources not in decided:
                            decided[sources] = last_evaluated(group.reasons).source
                        counts[decided[sources]] += group.rows
        return dict(counts.most_common())

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on evidence that was missing, not trusted, out of date, damaged or without a result. Each note occurs
        once."""
        unlisted = () if self.unlisted is None else (self.unlisted.note,)
        return (*unlisted, *dict.fromkeys(note for file in self.files for note in file.all_notes))

    def to_dict(self) -> dict[str, Any]:
        """Converts the explanation to dicts, lists, texts and numbers, which can be written as JSON.

        Returns
        -------
        dict
        """
        return {
            "where": self.where,
            "columns": self.columns,
            "files": tuple(map(_file_dict, self.files)),
            "read_bytes": self.read_bytes,
            "unopened": {
                "files": len(self.unopened),
                "rows": sum(file.rows for file in self.unopened),
                "bytes": sum(file.size for file in self.unopened),
            },
            "unlisted": None if self.unlisted is None else asdict(self.unlisted),
            "funnel": [asdict(stage) for stage in self.funnel],
            "skipped_by": self.skipped_by,
            "overlap": tuple(asdict(depth) for depth in self.overlap),
        }


# Fields are named one by one, because dataclasses.asdict copies every number of every row group and takes ten times as
# long.


def _file_dict(file: FileExplanation) -> dict[str, Any]:
    return {
        "file": file.file,
        "rows": file.rows,
        "stripes": tuple(map(_stripe_dict, file.stripes)),
        "notes": tuple(map(asdict, file.notes)),
        "reasons": _reason_dicts(file.reasons),
        "index_bytes": file.index_bytes,
        "read_bytes": file.read_bytes,
        "size": file.size,
        "opened": file.opened,
        "kept_rows": file.kept_rows,
    }


def _stripe_dict(stripe: StripeExplanation) -> dict[str, Any]:
    return {
        "stripe": stripe.stripe,
        "first_row": stripe.first_row,
        "rows": stripe.rows,
        "kept_rows": stripe.kept_rows,
        "bytes": stripe.bytes,
        "kept_bytes": stripe.kept_bytes,
        "row_groups": tuple(map(_row_group_dict, stripe.row_groups)),
        "notes": tuple(map(asdict, stripe.notes)),
    }


def _row_group_dict(group: RowGroupExplanation) -> dict[str, Any]:
    return {
        "row_group": group.row_group,
        "first_row": group.first_row,
        "rows": group.rows,
        "kept_rows": group.kept_rows,
        "proved_rows": group.proved_rows,
        "reasons": _reason_dicts(group.reasons),
        "proofs": _reason_dicts(group.proofs),
    }


def _reason_dicts(reasons: tuple[Reason, ...]) -> tuple[dict[str, str], ...]:
    return tuple([{"source": one.source, "leaf": one.leaf, "detail": one.detail} for one in reasons])


def explain_row_groups(
    bounds: npt.NDArray[np.int64],
    *,
    first_row: int,
    may: RowSelection,
    must: RowSelection,
    outcome: Outcome | None,
) -> tuple[RowGroupExplanation, ...]:
    """Returns one ``RowGroupExplanation`` for each row group of a stripe.

    ``bounds`` has the first row of each group and the end of the last group, counted from the start of the stripe. It
    is an int64 array, and has one more element than there are groups. ``first_row`` is the first row of the stripe in
    the file. ``may`` selects the rows that may match, and ``must`` the rows that surely match. ``outcome`` is the
    result of pruning the stripe, or None without a predicate.
    """
    kept, rows = may.count_in(bounds), np.diff(bounds)
    numbers = range(len(rows))
    if outcome is not None:
        reasons, proofs = outcome.reasons_in(bounds), outcome.proofs_in(bounds)
    else:
        unasked = ((kept == 0) & (rows > 0)).tolist()
        reasons, proofs = [(UNASKED,) if none else () for none in unasked], [() for _ in numbers]
    facts = (numbers, (bounds + first_row).tolist(), rows.tolist(), kept.tolist(), must.count_in(bounds).tolist())
    return tuple(map(RowGroupExplanation, *facts, reasons, proofs))
