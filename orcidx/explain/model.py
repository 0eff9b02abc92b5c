"""``Explanation``: what a scan will read and why it can skip the rest, as data; ``report`` renders it.

Everything is plain: numbers, texts, tuples. It pickles, compares, and turns into JSON by ``to_dict``.
"""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.pruning.evaluate import Note, Outcome, Reason
from orcidx.pruning.selection import RowSelection

__all__ = [
    "Explanation",
    "FileExplanation",
    "RowGroupExplanation",
    "Stage",
    "StripeExplanation",
    "explain_row_groups",
]


@dataclass(frozen=True)
class Stage:
    """One step of the funnel: so many ``before``, so many left ``after``."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class RowGroupExplanation:
    """One row group: kept when any of its rows may match.

    ``first_row`` in the file; ``kept_rows`` may match, ``proved_rows`` surely do (they need no residual filter);
    ``reasons``: what ruled rows out, of the whole row group or of a part; ``proofs``: what proved rows.
    """

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
    """One stripe. ``bytes`` are those of the data streams of the columns that are read, ``kept_bytes`` of them those
    that the scan plans to read."""

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


@dataclass(frozen=True)
class FileExplanation:
    """One file. ``reasons``: why all of it is skipped, where one answer sufficed for the whole file;
    ``index_bytes``: bytes of indexes that were read to decide."""

    file: str
    rows: int
    stripes: tuple[StripeExplanation, ...]
    notes: tuple[Note, ...] = ()
    reasons: tuple[Reason, ...] = ()
    index_bytes: int = 0

    @property
    def kept_rows(self) -> int:
        return sum(stripe.kept_rows for stripe in self.stripes)

    @property
    def kept(self) -> bool:
        return self.kept_rows > 0

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Of the file and its stripes, each once."""
        notes = (*self.notes, *(note for stripe in self.stripes for note in stripe.notes))
        return tuple(dict.fromkeys(notes))


@dataclass(frozen=True)
class Explanation:
    """What a scan will read, and by which evidence the rest is skipped.

    ``where``: the predicate as text, None without one; ``columns`` that are read. ``str()`` gives a text for a
    terminal, ``to_html()`` a page that needs no other file; Jupyter shows that by itself.
    """

    where: str | None
    columns: tuple[str, ...]
    files: tuple[FileExplanation, ...]

    @property
    def funnel(self) -> tuple[Stage, ...]:
        """Files, stripes, row groups, rows and bytes, before and after pruning."""
        stripes = [stripe for file in self.files for stripe in file.stripes]
        groups = [group for stripe in stripes for group in stripe.row_groups]
        return (
            Stage("files", len(self.files), sum(file.kept for file in self.files)),
            Stage("stripes", len(stripes), sum(stripe.kept for stripe in stripes)),
            Stage("row groups", len(groups), sum(group.kept for group in groups)),
            Stage("rows", sum(file.rows for file in self.files), sum(file.kept_rows for file in self.files)),
            Stage("bytes", sum(stripe.bytes for stripe in stripes), sum(stripe.kept_bytes for stripe in stripes)),
        )

    @property
    def skipped_by(self) -> dict[str, int]:
        """Rows of skipped row groups by the evidence that ruled them out; where several did together, by the last."""
        counts: Counter[str] = Counter()
        for file in self.files:
            for stripe in file.stripes:
                for group in stripe.row_groups:
                    if not group.kept and group.reasons:
                        counts[group.reasons[-1].source] += group.rows
        return dict(counts.most_common())

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was absent, distrusted, stale, damaged or could not speak, each once."""
        return tuple(dict.fromkeys(note for file in self.files for note in file.all_notes))

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, texts and numbers, ready for JSON."""
        plain: dict[str, Any] = asdict(self)
        plain["funnel"] = [asdict(stage) for stage in self.funnel]
        plain["skipped_by"] = self.skipped_by
        for file, made in zip(self.files, plain["files"]):
            made["kept_rows"] = file.kept_rows
        return plain

    def to_html(self) -> str:
        """A self-contained page with the pruning map."""
        return str(_report().explanation_html(self))

    def __str__(self) -> str:
        return str(_report().explanation_text(self))

    def _repr_html_(self) -> str:
        return str(_report().explanation_html(self, page=False))


def _report() -> Any:
    # Rendering stands above the data: it is loaded by name when asked for, so that no import goes upwards.
    return importlib.import_module("orcidx.explain.render")


def explain_row_groups(
    bounds: npt.NDArray[np.int64],
    *,
    first_row: int,
    may: RowSelection,
    must: RowSelection,
    outcome: Outcome | None,
) -> tuple[RowGroupExplanation, ...]:
    """One ``RowGroupExplanation`` for each row group of a stripe.

    ``bounds``: first row of each group and the end, counted in the stripe (int64, one more than groups); ``first_row``
    of the stripe in the file; ``may`` and ``must`` over the stripe; ``outcome`` too, None without a predicate.
    """
    kept, proved = may.count_in(bounds).tolist(), must.count_in(bounds).tolist()
    edges = bounds.tolist()
    return tuple(
        RowGroupExplanation(
            group,
            first_row + start,
            stop - start,
            kept[group],
            proved[group],
            _reasons(outcome, start, stop, may),
            outcome.proofs(start, stop) if outcome is not None else (),
        )
        for group, (start, stop) in enumerate(pairwise(edges))
    )


def _reasons(outcome: Outcome | None, start: int, stop: int, may: RowSelection) -> tuple[Reason, ...]:
    if outcome is not None:
        return outcome.reasons(start, stop, partial=True)
    unasked = start < stop and may.slice(start, stop).is_empty
    return (Reason("selection", "", "none of these rows was asked for"),) if unasked else ()
