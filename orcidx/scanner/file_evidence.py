"""``FileEvidence``: what is known about the rows of one file before they are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from orcidx.errors import OrcidxError
from orcidx.paimon.file_index import FileIndex
from orcidx.planner.constant_evidence import ConstantEvidence
from orcidx.planner.index_evidence import index_evidence, opened_index
from orcidx.planner.pruned_columns import PrunedColumns
from orcidx.planner.stripe_pruning import FilePruner
from orcidx.pruning.findings import Evidence, Note
from orcidx.scanner.file_request import FileColumns, WantedRows

__all__ = ["FileEvidence"]


class FileEvidence:
    """The evidence about the wanted rows of a file: its statistics, its indexes and its constant columns. ``notes``
    says why an index is not used."""

    def __init__(self, columns: FileColumns, rows: WantedRows) -> None:
        self.notes: list[Note] = []
        self._columns = columns
        self._rows = rows

    @cached_property
    def pruner(self) -> FilePruner:
        wanted = self._columns
        reader, request, plan = wanted.reader, wanted.request, wanted.schema_plan
        try:
            where, asked = plan.where, plan.asked
            places, nodes, stored = asked.places, asked.nodes, asked.stored
        except OrcidxError as error:
            error.at(file=reader.name)
            raise
        constant: Evidence | None = None
        indexes: Sequence[Evidence] = ()
        notes: list[Note] = []
        if where is not None:
            if asked.predicate_constants:
                constants = {path: wanted.valued(source) for path, source in asked.predicate_constants.items()}
                constant = ConstantEvidence(constants, reader.tail.footer.rows)
            # A condition has the wanted names, and an index has the file's names. With match="name" both are equal.
            if request.match != "name" and wanted.job.file_index is not None:
                text = f'the index is not used, because match="{request.match}" does not find columns by their names'
                notes.append(Note("Paimon file index", "off", text))
            elif wanted.job.file_index is not None and self.index is not None:
                indexes = index_evidence(self.index, reader.tail.footer.rows, request.options)
            notes += self.notes
        options = request.options
        if options.calendar != "proleptic":  # conditions always compare dates of the proleptic calendar
            options = options.override(calendar="proleptic")
        columns = PrunedColumns(reader, nodes, stored, options)
        return FilePruner(columns, where, self._rows.wanted, places, constant, indexes, notes)

    @cached_property
    def index(self) -> FileIndex | None:
        """The file's Paimon indexes. None if the file has no usable index. ``notes`` then has the reasons."""
        index, strict = self._columns.job.file_index, self._columns.request.options.strict_index
        return None if index is None else opened_index(index, self._columns.reader, self.notes, strict=strict)
