"""The case rule of a session (``spark.sql.caseSensitive``). The rule may change between planning and the action.

Spark finds the names of a query in the relation when the DataFrame is made. It finds the relation's columns in files at
the action. So names are spelled as in the relation from the start. If a file spells a requested column differently, no
part of the file is skipped until its task gets the rule (docs/decisions/0014)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_mapping import column_path
from orcidx.predicate import External, Leaf, Predicate, resolve_column
from orcidx.predicate.fold import Part, leaves, parts, rewritten
from orcidx.scanner.file_queue import OpenFile
from orcidx.scanner.file_scan import FileScan

__all__ = ["columns_as_spelled", "depends_on_case", "unpruned_by_letters", "where_as_spelled"]

ColumnName = str | tuple[str, ...]


def columns_as_spelled(
    columns: Sequence[str | Sequence[str]] | None, schema: pa.Schema, *, case_sensitive: bool
) -> tuple[ColumnName, ...] | None:
    """The columns, spelled as in the schema. Raises ``InvalidQuery`` for a column that the schema lacks."""
    if columns is None:
        return None
    paths = [resolve_column(column_path(one), schema, case_sensitive=case_sensitive)[0] for one in columns]
    return tuple(path[0] if len(path) == 1 else tuple(path) for path in paths)


def where_as_spelled(where: Predicate, schema: pa.Schema, *, case_sensitive: bool) -> Predicate:
    """The predicate, with its columns spelled as in the schema."""

    def spelled(part: Part) -> Part:
        if not isinstance(part, Leaf):
            return part
        return replace(part, path=resolve_column(part.path, schema, case_sensitive=case_sensitive)[0])

    found: Predicate = rewritten(where, spelled)
    return found


def depends_on_case(where: Predicate | None, columns: Sequence[ColumnName], names: Sequence[str]) -> bool:
    """Whether the two case rules may find different columns for a name. This is possible if a name is not spelled as in
    the file, or if two names differ only in case."""
    paths = [(one,) if isinstance(one, str) else tuple(one) for one in columns]
    for part in () if where is None else parts(where):
        if isinstance(part, External):
            if part.columns is None:
                return True
            paths += part.columns
    paths += [] if where is None else [leaf.path for leaf in leaves(where)]
    folded = [name.casefold() for name in names]
    return any(len(path) > 1 or path[0] not in names or folded.count(path[0].casefold()) > 1 for path in set(paths))


def unpruned_by_letters(files: Iterable[OpenFile], request: ScanRequest) -> Iterator[OpenFile]:
    """Returns the files of a request. If the other case rule finds other columns in a file, this file is returned
    without the request's predicate."""
    if request.where is None:
        yield from files
        return
    everything = replace(request, where=None)
    other = replace(request, options=request.options.override(case_sensitive=not request.options.case_sensitive))
    for file in files:
        if _places(file.scan) != _places(_asked(file.scan, other)):
            file.scan = _asked(file.scan, everything)
        yield file


def _asked(scan: FileScan, request: ScanRequest) -> FileScan:
    return FileScan(scan.reader, scan.job, request, scan.metrics)


def _places(scan: FileScan) -> dict[tuple[str, ...], int | None] | None:
    """Returns the id in the file of each column that the predicate reads, or None for a column that the file lacks.
    Returns None instead of the ids if the case rule leads to an error."""
    try:
        return {path: None if node is None else node.id for path, node in scan.columns.schema_plan.asked.places.items()}
    except InvalidQuery:  # with this case rule, a column is missing or has another type
        return None
