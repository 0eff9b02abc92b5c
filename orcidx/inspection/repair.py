"""Writes the intact rows of a damaged file. A row is intact if every value of its row group can be decoded, and the
values do not contradict the statistics of the row group.

The rows are encoded again, with new statistics, positions and bloom filters. The indexes of a damaged file cannot be
trusted. Row groups with damaged values are left out, because new indexes would hide the damage. Rows are read from the
start of their stripe. The positions in the row index are never used."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, Literal

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.inspection.check import FileCheck
from orcidx.inspection.sizes import BLOOM_KINDS
from orcidx.orc.bounds import within_nanoseconds
from orcidx.orc.kinds import TypeKind
from orcidx.orc.row_index import usual_bounds
from orcidx.orc_writer.writer import OrcWriter, WriteResult
from orcidx.scanner.file import OrcFile
from orcidx.storage import Source

__all__ = ["NO_TYPES", "lacks_types", "write_whole"]

NO_TYPES = "nothing can be written, because the types of the columns are at the damaged end of the file"

_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_CODECS = {"NONE": "uncompressed", "ZLIB": "zlib", "SNAPPY": "snappy", "LZ4": "lz4", "ZSTD": "zstd"}


def lacks_types(check: FileCheck) -> bool:
    """Whether the types of the columns are not known, because the end of the file is damaged."""
    return any(problem.what in ("tail", "file") for problem in check.problems)


def write_whole(
    check: FileCheck, source: Source, out: Any, *, storage_options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Writes the intact row groups of ``source`` to ``out`` in their order. ``check`` is the result of checking
    ``source``, and ``storage_options`` are those of ``out``. Timestamps keep their nanoseconds, unless some are outside
    the years 1677 to 2262.

    Raises ``InvalidQuery`` if the types of the columns are not known, because the end of the file is damaged.
    """
    if lacks_types(check):
        raise InvalidQuery(NO_TYPES, file=source.name)
    with OrcFile(source) as file:
        wanted = _whole_ranges(check, file)
        times = [node for node in file.reader.root.walk() if node.kind in _TIMES]
        near = all(within_nanoseconds(file.tail, node, file.options) for node in times)
        unit: Literal["us", "ns"] = "ns" if near else "us"
        scan = file.scan(row_index=False, timestamp_unit=unit)
        schema = scan.schema.remove_metadata()
        with OrcWriter(out, schema, storage_options=storage_options, **_options_like(file)) as writer:
            for row_range in wanted:
                writer.write(file.scan(row_range=row_range, row_index=False, timestamp_unit=unit))
            return writer.close()


def _whole_ranges(check: FileCheck, file: OrcFile) -> list[tuple[int, int]]:
    """Returns ranges of rows of the file. Each range has neighbouring intact row groups of one stripe."""
    ranges = []
    first = 0
    lost = check.broken | check.disproved
    # Without row groups, there are only statistics of stripes. If these are wrong, the stripe counts as damaged.
    if not file.tail.footer.row_index_stride:
        lost |= {
            (problem.stripe, 0)
            for problem in check.problems
            if problem.what == "statistics" and problem.stripe is not None
        }
    for stripe, information in enumerate(file.stripes):
        bounds = usual_bounds(file.tail, stripe).tolist()
        states = [((stripe, group) not in lost, group) for group in range(len(bounds) - 1)]
        for whole, run in groupby(states, key=lambda state: state[0]):
            groups = [group for _, group in run]
            if whole:
                ranges.append((first + bounds[groups[0]], first + bounds[groups[-1] + 1]))
        first += information.rows
    return ranges


def _options_like(file: OrcFile) -> dict[str, Any]:
    """Returns the options of the file's writer that can also be given to a new writer."""
    reader = file.reader
    filtered = set()
    for stripe in range(len(file.stripes)):
        # The rows of a damaged stripe are lost, so its error is ignored here. The other stripes have bloom filters for
        # the same columns.
        with suppress(CorruptFile, Unsupported):
            filtered |= {column for (column, kind), _ in reader.extents(stripe).items() if kind in BLOOM_KINDS}
    types = {
        node.path[0]: f"{node.kind.name.lower()}({node.max_length})"
        for node in file.columns
        if node.kind in (TypeKind.CHAR, TypeKind.VARCHAR) and node.path
    }
    return {
        "compression": _CODECS.get(file.compression, "zstd"),
        "row_index_stride": file.tail.footer.row_index_stride,
        "bloom_filter_columns": [node.dotted for node in reader.root.walk() if node.id in filtered and node.path],
        "types": types,
        "metadata": dict(file.user_metadata),
    }
